"""What the fixture `stopwatch` gives a test: one measurement, taken in the phase it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from numbers import Real
from typing import Any

import pytest

from kernelpin.machine import Gpu, current_gpu, why_no_gpu
from kernelpin.stopwatch import KernelFigure, MeasureError, Samples, Stopwatch


class Phase(Enum):
    """`TIME` before any profiler ran in the process, `PROFILE` after; `HERE`: all at once."""

    TIME = "time"
    PROFILE = "profile"
    HERE = "here"


class Deferred(BaseException):
    """The test needs the profiler, and timing is not over; no `except Exception` may eat it."""


class Watch:
    """Measures once, as the test asks: device time, counts, a kernel's time, or a host ratio."""

    def __init__(self, phase: Phase, stopwatch: Stopwatch, earlier: Samples | None = None) -> None:
        self._phase = phase
        self._stopwatch = stopwatch
        self._earlier = earlier
        self.samples: Samples | None = None
        self.kernels: tuple[KernelFigure, ...] | None = None
        self.gpu: Gpu | None = None
        self.below: float | None = None
        self.above: float | None = None

    def __call__(self, fn: Callable[..., Any], *args: Any, **options: Any) -> Samples:
        """Measure the device time of `fn(*args)`; `l2="cold"` flushes L2 before each call."""
        self._begin(needs_gpu=True)
        if self._phase is Phase.PROFILE:
            if self._earlier is None:
                raise MeasureError("device time was not measured before the profiler ran")
            self.kernels = self._stopwatch.kernels(fn, *args)
            return self._earlier
        return self._end(self._stopwatch(fn, *args, **options))

    def counts(self, fn: Callable[..., Any], *args: Any) -> Samples:
        """Count the kernels, launches, ops, synchronisations and peak memory of one `fn(*args)`."""
        self._begin(needs_gpu=True, needs_profiler=True)
        return self._end(self._stopwatch.counts(fn, *args))

    def kernel(self, fn: Callable[..., Any], *args: Any, **which: Any) -> Samples:
        """Measure one kernel of `fn(*args)` by the profiler; `name` is a glob or a family."""
        self._begin(needs_gpu=True, needs_profiler=True)
        return self._end(self._stopwatch.kernel(fn, *args, **which))

    def ratio(
        self,
        a: Callable[..., Any],
        b: Callable[..., Any],
        *args: Any,
        below: float | None = None,
        above: float | None = None,
    ) -> Samples:
        """Measure the host time of `a(*args)` over that of `b(*args)`, interleaved.

        With `below` or `above` the test fails where fresh processes agree that it is not.
        """
        self._begin()
        for name, bound in (("below", below), ("above", above)):
            if bound is not None and not (isinstance(bound, Real) and bound > 0):
                raise MeasureError(f"{name}={bound!r}: allowed is a positive ratio")
        for name, fn in (("a", a), ("b", b)):
            if not callable(fn):
                raise MeasureError(
                    f"{name} is a {type(fn).__name__}: allowed are two callables and what both are "
                    "called with, as ratio(compiled, eager, x)"
                )
        if below is not None and above is not None and not above < below:
            raise MeasureError(
                f"below={below!r} with above={above!r}: no ratio is both; allowed is above < below"
            )
        self.below, self.above = below, above
        if self._phase is Phase.PROFILE and self._earlier is not None:
            return self._earlier
        return self._end(self._stopwatch.ratio(a, b, *args))

    def _begin(self, *, needs_gpu: bool = False, needs_profiler: bool = False) -> None:
        if self.samples is not None:
            raise MeasureError(
                "a test measures once, and this one has measured already: write a second test"
            )
        if needs_profiler and self._phase is Phase.TIME:
            raise Deferred
        self.gpu = current_gpu()
        if needs_gpu and self.gpu is None:
            pytest.skip(f"no GPU: {why_no_gpu()}")

    def _end(self, samples: Samples) -> Samples:
        self.samples = samples
        return samples
