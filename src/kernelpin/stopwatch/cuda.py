"""The CUDA device to measure on: how a callable is warmed up, and in which form it is timed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from kernelpin import machine
from kernelpin.machine import State
from kernelpin.stopwatch.events import EventsWork
from kernelpin.stopwatch.graphs import CaptureFailed, GraphWork, capture, first_line
from kernelpin.stopwatch.layout import Layout
from kernelpin.stopwatch.sampling import Work

Call = Callable[[], object]

WARM_CALLS = 3  # mode="reduce-overhead" runs once, records once, and replays from then on
SPIN_CYCLES = 20_000_000
LAUNCHES_ELSEWHERE = 64  # 8 were enough wherever it was tried
FLUSH_AT_LEAST = 64 << 20


class CudaBench:
    """torch's current CUDA device, measured on a stream of its own.

    Warm-up, capture and timing share the stream: CUDA graphs need that, and autograd would
    otherwise tie a parameter's gradient to another one.
    """

    def __init__(self) -> None:
        import torch

        self._own = machine.own_pids()
        self.stream = torch.cuda.Stream()
        self.layout = Layout(self.stream)
        self._cycles_per_ms = self._measure_spin()
        self._flush_buffer: Any = None

    def work(self, call: Call, *, cold: bool) -> Work:
        """Warm the callable up; time it by graph, or by events where no graph can hold it."""
        import torch

        self.launch_elsewhere()
        with torch.cuda.stream(self.stream):
            for _ in range(WARM_CALLS):
                call()
            torch.cuda.synchronize()
            if _replays(call):
                return EventsWork(self, call, cold, "the callable replays CUDA graphs of its own")
            if waits := _synchronizes(call):
                return EventsWork(
                    self, call, cold, f"the callable waits for the GPU: {waits}", fed=False
                )
        try:
            capture(self.stream, call, 1).reset()
        except CaptureFailed as failed:
            return EventsWork(self, call, cold, f"no CUDA graph can hold the callable: {failed}")
        return GraphWork(self, call, cold)

    def launch_elsewhere(self) -> None:
        """Leave the fast state that a process starts in.

        Until some eight launches on another stream than the one that replays, a kernel that follows
        another in a graph comes 0.18 µs sooner (H200, driver 580; toggle.log and first-figure.log
        in benchmarks/results/runs-h200-2026-12-01b): a GELU of 1.49 µs takes 1.31, in a process
        that measures it first. Once a process that launched on no other stream for long became as
        fast again, so this belongs before each capture.
        """
        import torch

        with torch.cuda.stream(torch.cuda.default_stream()):
            for _ in range(LAUNCHES_ELSEWHERE):
                torch.cuda._sleep(1)
        torch.cuda.synchronize()

    def reserved_bytes(self) -> int:
        """Return the device memory that torch holds in this process."""
        import torch

        return int(torch.cuda.memory_reserved())

    def observe(self) -> State:
        """Read the GPU's state now."""
        return machine.observe(self._own)

    def pause(self, seconds: float) -> None:
        """Leave the GPU idle."""
        time.sleep(seconds)

    def now(self) -> float:
        """Read a monotonic clock, in seconds."""
        return time.monotonic()

    def spin(self, milliseconds: float) -> None:
        """Keep the current stream busy, so that work enqueued meanwhile runs without gaps."""
        import torch

        torch.cuda._sleep(max(1, int(milliseconds * self._cycles_per_ms)))

    def flush(self) -> None:
        """Fill the L2 cache with other data, by reading: writes would leave lines to write back."""
        import torch

        if self._flush_buffer is None:
            properties = torch.cuda.get_device_properties(torch.cuda.current_device())
            size = max(2 * getattr(properties, "L2_cache_size", 0), FLUSH_AT_LEAST)
            self._flush_buffer = torch.arange(size // 4, device="cuda", dtype=torch.float32)
        self._flush_buffer.sum()

    def _measure_spin(self) -> float:
        """Return cycles per ms, once the clock is up: an idle GPU starts several times slower."""
        import torch

        seen: list[float] = []
        with torch.cuda.stream(self.stream):
            for _ in range(20):
                start, end = timing_event(), timing_event()
                start.record()
                torch.cuda._sleep(SPIN_CYCLES)
                end.record()
                torch.cuda.synchronize()
                seen.append(SPIN_CYCLES / start.elapsed_time(end))
                if len(seen) >= 3 and max(seen[-3:]) < 1.02 * min(seen[-3:]):
                    break
        return median(seen[-3:])


def timing_event() -> Any:
    """Return a CUDA event that keeps its time."""
    import torch

    return torch.cuda.Event(enable_timing=True)


def _replays(call: Call) -> int:
    """Return how many CUDA graphs a call replays."""
    import torch

    owner = getattr(call, "func", call)  # a bound `graph.replay` was looked up before we count
    bound = isinstance(getattr(owner, "__self__", None), torch.cuda.CUDAGraph)
    with _counted_replays() as seen:
        call()
    torch.cuda.synchronize()
    return len(seen) + bound


@contextmanager
def _counted_replays() -> Iterator[list[None]]:
    import torch

    seen: list[None] = []
    original = torch.cuda.CUDAGraph.replay

    def replay(graph: Any) -> None:
        seen.append(None)
        original(graph)

    torch.cuda.CUDAGraph.replay = replay
    try:
        yield seen
    finally:
        torch.cuda.CUDAGraph.replay = original


def _synchronizes(call: Call) -> str | None:
    """Return torch's words for it where the callable waits for the GPU, which no graph can hold.

    Asked before a capture: a failed one leaves torch's allocator and generator in odd states.
    """
    import torch

    mode = torch.cuda.get_sync_debug_mode()
    _set_sync_debug_mode(2)  # error
    try:
        call()
    except RuntimeError as error:
        if "synchronizing CUDA operation" not in str(error):
            raise
        return first_line(error)
    finally:
        _set_sync_debug_mode(mode)
        torch.cuda.synchronize()
    return None


def _set_sync_debug_mode(mode: int) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls it a prototype, once
        torch.cuda.set_sync_debug_mode(mode)
