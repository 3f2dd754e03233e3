"""Where in memory the next capture lies: drawn anew for each block of samples.

The place changes a callable's time, by up to 3 %, and repeats to 0.1 % in every process that
allocates the same: a change that moves allocations would look like one of speed. Other graphs
beside the capture bring the processes of a 1.5 µs kernel closer together, from an SD of 0.4 % to
0.14 %; what they move is not known (docs/measured.md).
"""

from __future__ import annotations

import random
from typing import Any

PAGE = 2 << 20
PAD_PAGES = (5, 36)  # below 10 MB torch's allocator would share the segment with what comes next
SMALL = 1 << 20  # torch's allocator keeps what is no larger apart, two of these in a page
SMALL_PADS = (0, 32)
MOST_PADS = PAD_PAGES[1] * PAGE + SMALL_PADS[1] * SMALL
MARGIN = 256 << 20
GRAPHS = (1, 3)
NODES = (50, 3000)  # up to what a graph of the shortest kernels holds


class Layout:
    """What lies beside the next capture, on torch's current device; captures on that stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._pads: list[Any] = []
        self._graphs: list[Any] = []
        self._random = random.Random()  # never seeded: each process draws its own

    def draw(self, needed: int) -> bool:
        """Move what is allocated and captured from here on, until `drop`.

        Allocations move by 10 to 72 MB, small ones by up to 32 MB more; beside the next graph
        there are one to three others. False where the GPU's memory would not leave the bytes
        `needed` beside the largest pads, or has no room for these: then `drop` what was drawn.
        """
        import torch

        self.drop()
        small = [SMALL] * self._random.randint(*SMALL_PADS)
        pads = [self._random.randint(*PAD_PAGES) * PAGE, *small]
        free, _ = torch.cuda.mem_get_info()
        if free < MOST_PADS + needed + MARGIN:
            return False
        try:
            for size in pads:
                self._pads.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            self._draw_graphs()
        except RuntimeError:  # OutOfMemoryError is one; a graph without room raises a plain one
            return False
        return True

    def _draw_graphs(self) -> None:
        import torch

        for _ in range(self._random.randint(*GRAPHS)):
            graph = torch.cuda.CUDAGraph()
            self._graphs.append(graph)
            with torch.cuda.stream(self._stream):
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    for _ in range(self._random.randint(*NODES)):
                        torch.cuda._sleep(1)
                finally:  # a test's time limit may end it here: an open capture breaks the process
                    graph.capture_end()

    def drop(self) -> None:
        """Give it all back, and cached memory, which else would serve as the next pads."""
        import torch

        for graph in self._graphs:
            graph.reset()
        self._graphs = []
        self._pads = []
        torch.cuda.empty_cache()
