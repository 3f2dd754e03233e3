"""Timing by CUDA events around plain calls, where no CUDA graph can hold them.

The GPU spins while the host enqueues, so that the host's own time does not show. Whether that held
is checked each time: the spin must still run when the last call is enqueued. So a sample has no
more calls than the launch queue holds, though they last less than a graph's would. A callable that
waits for the GPU cannot be fed so, and its figure holds host time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelpin.stopwatch.sampling import MAX_CALLS, Reading

if TYPE_CHECKING:
    from kernelpin.stopwatch.cuda import CudaBench

Call = Callable[[], object]

MOST_CALLS_QUEUED = 64  # a launch queue holds about a thousand entries, and a call can need ten
LONGEST_SPIN_MS = 200.0
TRIES = 4


@dataclass(frozen=True, slots=True)
class Feed:
    """How the GPU is kept fed: calls enqueued behind one spin, and the spin's length."""

    calls: int
    spin_ms: float


class EventsWork:
    """A callable timed by events; `note` says why not by graph."""

    method = "events"
    moves = False  # what no graph can hold runs where it lies

    def __init__(
        self, bench: CudaBench, call: Call, cold: bool, note: str, *, fed: bool = True
    ) -> None:
        self.note: str | None = note
        self._bench = bench
        self._call = call
        self._cold = cold
        self._feed = self._find_feed() if fed else None
        if fed and self._feed is None:
            self.note = f"{note}; the GPU could not be kept fed, so host time shows"
        self.most_calls = self._feed.calls if self._feed else MAX_CALLS

    def play(self, calls: int, *, moved: bool = False) -> EventsPlay:
        """Prepare that many calls, where they lie."""
        return EventsPlay(self._bench, self._call, calls, self._feed, self._cold)

    def _find_feed(self) -> Feed | None:
        import torch

        started = time.perf_counter()
        with torch.cuda.stream(self._bench.stream):
            for _ in range(8):
                if self._cold:
                    self._bench.flush()
                self._call()
        per_call_ms = 1000 * (time.perf_counter() - started) / 8

        def is_fed(feed: Feed) -> bool:
            play = EventsPlay(self._bench, self._call, feed.calls, feed, self._cold)
            return all(play.run()[1] for _ in range(2))

        return find_feed(is_fed, per_call_ms)


def find_feed(is_fed: Callable[[Feed], bool], per_call_ms: float) -> Feed | None:
    """Return the largest batch whose enqueuing a spin can hide; None where not even one call's is.

    A spin too short is lengthened; a full queue is met with fewer calls.
    """
    calls = MOST_CALLS_QUEUED
    while calls >= 1:
        for factor in (1.5, 3, 6):
            feed = Feed(calls, 0.2 + factor * calls * per_call_ms)
            if feed.spin_ms > LONGEST_SPIN_MS:
                break
            if is_fed(feed):
                return feed
        calls //= 2
    return None


class EventsPlay:
    """One sample: calls behind a spin."""

    moved = False

    def __init__(
        self, bench: CudaBench, call: Call, calls: int, feed: Feed | None, cold: bool
    ) -> None:
        import torch

        self.calls = calls
        self._bench = bench
        self._call = call
        self._feed = feed
        self._cold = cold
        pairs = calls if cold else 1
        self._events = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            for _ in range(pairs)
        ]

    def sample(self) -> Reading:
        """Run them, again where the GPU got ahead of the host."""
        for _ in range(TRIES):
            reading, fed = self.run()
            if fed or self._feed is None:
                break
        return reading

    def run(self) -> tuple[Reading, bool]:
        """Run them once; also whether it was all enqueued before the GPU got to it."""
        import torch

        first, last = self._events[0][0], self._events[-1][1]
        with torch.cuda.stream(self._bench.stream):
            if self._feed is not None:
                self._bench.spin(self._feed.spin_ms)
            if self._cold:
                for start, end in self._events:
                    self._bench.flush()
                    start.record()
                    self._call()
                    end.record()
            else:
                first.record()
                for _ in range(self.calls):
                    self._call()
                last.record()
            fed = not first.query()
        torch.cuda.synchronize()
        counted = sum(start.elapsed_time(end) for start, end in self._events)
        return Reading(counted, first.elapsed_time(last)), fed

    def start(self) -> None:
        """Begin them."""
        import torch

        with torch.cuda.stream(self._bench.stream):
            for _ in range(self.calls):
                self._call()

    def finish(self) -> None:
        """Wait for it."""
        import torch

        torch.cuda.synchronize()

    def close(self) -> None:
        """Nothing to give back."""
        self.finish()
