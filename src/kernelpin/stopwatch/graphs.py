"""Timing by replays of a CUDA graph that holds all of a sample's calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kernelpin.stopwatch.samples import MeasureError
from kernelpin.stopwatch.sampling import MAX_CALLS, Reading

if TYPE_CHECKING:
    from kernelpin.stopwatch.cuda import CudaBench

Call = Callable[[], object]

FIRST_SPIN_MS = 0.3
LONGEST_SPIN_MS = 100.0

_broken: list[Any] = []


class CaptureFailed(Exception):
    """No CUDA graph can hold the callable; the text is CUDA's reason."""


class GraphWork:
    """A callable as a CUDA graph; with a cold cache, beside a graph of as many flushes alone."""

    method = "graph"
    note: str | None = None
    most_calls = MAX_CALLS

    def __init__(self, bench: CudaBench, call: Call, cold: bool) -> None:
        self.moves = True
        self._bench = bench
        self._call = call
        self._cold = cold
        self._memory = 0  # that a capture takes, in bytes

    def play(self, calls: int, *, moved: bool = False) -> GraphPlay:
        """Capture that many calls, at another place in memory where `moved`."""
        bench = self._bench
        bench.launch_elsewhere()
        if self._cold:
            bench.flush()  # its buffer belongs to no graph, and is no memory of the capture's
        if moved and self.moves:
            why = "the GPU's memory has no room"
            try:
                if bench.layout.draw(self._memory):
                    return self._capture(calls, moved=True)
            except CaptureFailed as failed:
                why = str(failed)
            finally:
                bench.layout.drop()
            self.moves = False
            self.note = f"not measured at several places in memory: {why}"
        else:
            bench.layout.drop()  # else what the warm-up left hides what the capture takes
        before = bench.reserved_bytes()
        try:
            play = self._capture(calls)
        except CaptureFailed as failed:
            raise MeasureError(
                f"a CUDA graph held one call, and does not hold {calls} of them: {failed}"
            ) from failed
        self._memory = bench.reserved_bytes() - before
        return play

    def _capture(self, calls: int, *, moved: bool = False) -> GraphPlay:
        bench = self._bench
        if not self._cold:
            return GraphPlay(bench, calls, capture(bench.stream, self._call, calls), moved=moved)

        def flushed() -> None:
            bench.flush()
            self._call()

        graph = capture(bench.stream, flushed, calls)
        try:
            flushes = capture(bench.stream, bench.flush, calls)
            return GraphPlay(bench, calls, graph, flushes, moved=moved)
        except BaseException:
            graph.reset()
            raise


class GraphPlay:
    """One sample: a replay between two events, all enqueued while the GPU spins."""

    def __init__(
        self,
        bench: CudaBench,
        calls: int,
        graph: Any,
        flushes: Any = None,
        *,
        moved: bool = False,
    ) -> None:
        import torch

        self.calls = calls
        self.moved = moved
        self._bench = bench
        self._graph = graph
        self._flushes = flushes
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        self._spin_ms = FIRST_SPIN_MS

    def sample(self) -> Reading:
        """Replay once; the flushes, if any, first and apart."""
        while not self._replay() and self._spin_ms < LONGEST_SPIN_MS:
            self._spin_ms *= 2  # the host was still launching when the spin ended
        start, flushed, end = self._events
        spent = start.elapsed_time(end)
        if self._flushes is None:
            return Reading(spent, spent)
        once = start.elapsed_time(flushed)
        return Reading(spent - 2 * once, spent - once)

    def start(self) -> None:
        """Begin a replay."""
        import torch

        with torch.cuda.stream(self._bench.stream):
            self._graph.replay()

    def finish(self) -> None:
        """Wait for it."""
        import torch

        torch.cuda.synchronize()

    def close(self) -> None:
        """Give the graphs and their memory back."""
        self.finish()
        self._graph.reset()
        if self._flushes is not None:
            self._flushes.reset()

    def _replay(self) -> bool:
        """Run the sample; whether all of it was enqueued before the GPU got to it."""
        import torch

        start, flushed, end = self._events
        with torch.cuda.stream(self._bench.stream):
            self._bench.spin(self._spin_ms)
            start.record()
            if self._flushes is not None:
                self._flushes.replay()
                flushed.record()
            self._graph.replay()
            end.record()
            fed = not start.query()
        torch.cuda.synchronize()
        return fed


def capture(stream: Any, call: Call, calls: int) -> Any:
    """Return a CUDA graph of that many calls; raises `CaptureFailed` and leaves torch usable."""
    import torch

    graph = torch.cuda.CUDAGraph()
    pool = torch.cuda.graph_pool_handle()
    before = torch.cuda.current_stream()
    cause: Exception | None = None  # the end of a broken capture raises an error of its own
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with torch.cuda.graph(
                graph, pool=pool, stream=stream, capture_error_mode="thread_local"
            ):
                try:
                    for _ in range(calls):
                        call()
                except Exception as error:
                    cause = error
                    raise
        except Exception as error:
            torch.cuda.set_stream(before)  # a failing end of the capture skips that
            _recover(graph, pool, stream)
            raise CaptureFailed(first_line(cause or error)) from error
    if any("CUDA Graph is empty" in str(warning.message) for warning in caught):
        raise MeasureError(
            "the callable launches nothing on the GPU: expected at least one kernel or copy. "
            "are its inputs on the GPU?"
        )
    return graph


def _recover(graph: Any, pool: Any, stream: Any) -> None:
    """Undo what a failed capture leaves behind, as far as torch lets us.

    Before torch 2.12 a capture that cannot end leaves the allocator serving its pool, and the
    random generator refusing to be used outside of a graph until a capture succeeds
    (pytorch pull requests 180395 and 190308).
    """
    import torch

    _broken.append(graph)  # the allocator's filter may still point at it
    torch.cuda.synchronize()
    for name in ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool"):
        end = getattr(torch._C, name, None)
        if end is not None:
            with suppress(RuntimeError):  # it had ended
                end(torch.cuda.current_device(), pool)
            break
    before = torch.cuda.current_stream()
    try:
        with (
            suppress(RuntimeError),
            torch.cuda.graph(
                torch.cuda.CUDAGraph(), stream=stream, capture_error_mode="thread_local"
            ),
        ):
            torch.zeros(1, device="cuda")
    finally:
        torch.cuda.set_stream(before)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
