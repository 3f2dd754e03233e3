"""A GPU with virtual time in the place of torch.cuda: one queue, and a host that launches.

Times are µs of one clock. It keeps to CUDA's rules as far as the stopwatch relies on them: work
runs in order, an event is done when what stands before it is, nothing may wait during a capture,
and a capture that broke cannot end. As on an H200, the gap between nodes is shorter until a process
has launched a few times outside of the stream that replays; and, where a test says so, it depends
on where a graph lies, which is behind the nodes of all others.
"""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import torch

LAUNCH_US = 5.0  # host, per launch
GRAPH_LAUNCH_US = 12.0
GAP_US = 0.5  # GPU, between two nodes or launches
FIRST_GAP_US = 0.32  # the same, until so many launches on the default stream
FIRST_LAUNCHES = 8
CYCLES_PER_US = 1980.0


class Memory:
    """Of a simulated GPU."""

    def __init__(self, gpu: SimulatedCuda, size: int) -> None:
        self._gpu, self._size = gpu, size
        gpu.allocated += size

    def __del__(self) -> None:
        self._gpu.allocated -= self._size
        self._gpu.cached += self._size


class SimulatedCuda:
    """The GPU and its host."""

    def __init__(self) -> None:
        self.host_us = 0.0
        self.busy_until_us = 0.0
        self.captured: list[float] | None = None
        self.broken = False
        self.sync_debug_mode = 0
        self.default_stream = object()
        self.stream = self.default_stream
        self.streams_launched_on: list[object] = []
        self.graphs_held = 0
        self.capture_modes: list[str] = []
        self.nodes_held = 0
        self.gap_by_place_us = 0.0
        self.pools_ended: list[object] = []
        self.clock_factor = 1.0  # of kernel times: above 1 the clock is low
        self.queue_limit = 1000
        self.memory = 140 << 30
        self.allocated = 0
        self.pads: list[int] = []
        self.pool: list[Memory] = []  # of the graph that is being captured
        self.cached = 0  # bytes that were let go, and not given back to the driver
        self.launched_on_default = 0
        self._queue: list[float] = []  # when each entry ends

    # what kernels and callables use

    def kernel(self, us: float) -> None:
        """Launch a kernel that takes so long."""
        self.streams_launched_on.append(self.stream)
        if self.captured is not None:
            self.captured.append(us)
            return
        self._enqueue(LAUNCH_US, us * self.clock_factor)

    def allocate(self, size: int) -> Memory:
        """Take memory of the driver's until what is returned is let go."""
        if self.allocated + self.cached + size > self.memory:
            raise torch.cuda.OutOfMemoryError
        assert not self.cached, "cached memory serves first, and moves nothing"
        self.pads.append(size)
        return Memory(self, size)

    def scratch(self, size: int) -> Memory:
        """Take memory as a callable does: what is cached first, in a capture until its reset."""
        if self.captured is not None and self.pool:
            return self.pool[0]  # the later calls of a capture use it again
        if self.captured is None and self.cached >= size:
            self.cached -= size
        elif self.allocated + self.cached + size > self.memory:
            raise torch.cuda.OutOfMemoryError
        memory = Memory(self, size)
        self.pool += [memory] if self.captured is not None else []
        return memory

    def wait(self) -> None:
        """Synchronise as `.item()` does."""
        if self.captured is not None:
            self.broken = True
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nx")
        if self.sync_debug_mode == 2:
            raise RuntimeError("called a synchronizing CUDA operation")
        self.synchronize()

    # torch.cuda

    def synchronize(self) -> None:
        assert self.captured is None
        self.host_us = max(self.host_us, self.busy_until_us)

    def sleep(self, cycles: int) -> None:
        if self.captured is not None:
            self.captured.append(cycles / CYCLES_PER_US)
            return
        self._enqueue(LAUNCH_US, cycles / CYCLES_PER_US)

    @property
    def gap_us(self) -> float:
        return GAP_US if self.launched_on_default >= FIRST_LAUNCHES else FIRST_GAP_US

    def empty_cache(self) -> None:
        self.cached = 0

    def _enqueue(self, host_us: float, gpu_us: float) -> None:
        self.launched_on_default += self.stream is self.default_stream
        self._queue = [end for end in self._queue if end > self.host_us]
        if len(self._queue) >= self.queue_limit:  # full: the host waits for a place
            self.host_us = self._queue[-self.queue_limit]
        self.host_us += host_us
        self.busy_until_us = max(self.busy_until_us, self.host_us) + gpu_us + self.gap_us
        self._queue.append(self.busy_until_us)

    @contextmanager
    def on(self, stream):
        before, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = before

    def set_stream(self, stream) -> None:
        self.stream = stream

    @contextmanager
    def graph(self, graph, pool=None, stream=None, capture_error_mode="global"):
        before, self.stream = self.stream, stream
        self.synchronize()
        self.empty_cache()  # as torch does
        graph.capture_begin(pool, capture_error_mode)
        try:
            yield
        finally:
            graph.capture_end()  # as torch: the stream is not restored where that fails
            self.stream = before

    def namespace(self):
        """What replaces attributes of torch.cuda."""
        sim = self

        class Event:
            def __init__(self, enable_timing=False):
                assert enable_timing

            def record(self):
                assert sim.captured is None
                sim.host_us += 1.0
                self.at_us = max(sim.busy_until_us, sim.host_us)

            def query(self):
                return sim.host_us >= self.at_us

            def elapsed_time(self, other):
                sim.synchronize()
                return (other.at_us - self.at_us) / 1000

        class CUDAGraph:
            nodes: list[float] | None = None
            memory: list[Memory] | None = None
            place = 0.0  # of 1

            def capture_begin(self, pool=None, capture_error_mode="global"):
                assert sim.stream is not sim.default_stream
                sim.capture_modes.append(capture_error_mode)
                sim.captured, sim.broken = [], False
                self.pool = pool

            def capture_end(self):
                nodes, sim.captured = sim.captured, None
                if sim.broken:
                    raise RuntimeError("CUDA error: operation failed due to a previous error")
                if not nodes:
                    import warnings

                    warnings.warn("The CUDA Graph is empty. This usually means …", stacklevel=2)
                self.nodes, self.memory, sim.pool = nodes, sim.pool, []
                sim.graphs_held += 1
                self.place = sim.nodes_held % 97 / 97
                sim.nodes_held += len(self.nodes)

            def replay(self):
                assert self.nodes is not None, "replayed before a capture, or after a reset"
                gap = sim.gap_us + sim.gap_by_place_us * self.place
                gpu_us = sum(self.nodes) * sim.clock_factor + gap * len(self.nodes)
                sim._enqueue(GRAPH_LAUNCH_US, gpu_us)

            def reset(self):
                sim.graphs_held -= self.nodes is not None
                sim.nodes_held -= len(self.nodes or [])
                self.nodes = self.memory = None

        def set_sync_debug_mode(mode):
            sim.sync_debug_mode = mode

        return SimpleNamespace(
            Event=Event,
            CUDAGraph=CUDAGraph,
            Stream=object,
            stream=sim.on,
            set_stream=sim.set_stream,
            default_stream=lambda: sim.default_stream,
            empty_cache=sim.empty_cache,
            memory_reserved=lambda: sim.allocated + sim.cached,
            mem_get_info=lambda: (sim.memory - sim.allocated - sim.cached, sim.memory),
            current_stream=lambda: sim.stream,
            current_device=lambda: 0,
            synchronize=sim.synchronize,
            graph=sim.graph,
            graph_pool_handle=lambda: (0, 1),
            get_sync_debug_mode=lambda: sim.sync_debug_mode,
            set_sync_debug_mode=set_sync_debug_mode,
            _sleep=sim.sleep,
        )
