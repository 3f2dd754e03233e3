"""A callable's device time, kernel time, counts and host-time ratio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from kernelpin.machine import State


class MeasureError(RuntimeError):
    """A callable could not be measured: what was found, what was allowed, what to do."""


@dataclass(frozen=True, slots=True)
class KernelFigure:
    """A kernel of one call: how often it ran, and its median duration."""

    name: str
    count: int
    median_us: float


@dataclass(frozen=True, slots=True)
class Samples:
    """What one process measured of one callable; values in time order, µs per call or ratios."""

    metric: str  # device_us, kernel_us, counts, host_ratio
    values: tuple[float, ...]
    method: str  # graph, events, profiler, host
    calls_per_sample: int = 1
    l2: str | None = None  # hot, cold
    input: str = ""  # bf16[1024,32] × bf16[64,32]
    seed: int | None = None
    state: tuple[State, ...] = ()  # around the blocks
    reason: str | None = None  # why these figures decide nothing
    kernels: tuple[KernelFigure, ...] | None = None
    counts: dict[str, int] | None = None
    note: str | None = None  # how it was measured, where that is not the rule

    @property
    def unit(self) -> str:
        """The unit of `values` and `figure`."""
        return {"device_us": "µs", "kernel_us": "µs", "host_ratio": "×"}.get(self.metric, "")

    @property
    def figure(self) -> float:
        """The median of the values: this process's figure."""
        if not self.values:
            raise ValueError(f"{self.metric} has no values, so no figure")
        return median(self.values)

    @property
    def power_capped(self) -> bool:
        """Whether the power cap held the clock back around any block."""
        return any(state.power_cap for state in self.state)


class Stopwatch:
    """Measures callables on torch's current CUDA device; knows no pytest."""

    def __init__(
        self,
        *,
        min_sample_ms: float = 2.5,
        pause_ms: float = 5.0,
        samples: int = 40,
        budget_s: float = 60.0,
        seed: int | None = None,
    ) -> None:
        self.min_sample_ms = min_sample_ms
        self.pause_ms = pause_ms
        self.samples = samples
        self.budget_s = budget_s
        self.seed = seed

    def __call__(self, fn: Callable[..., Any], *args: Any, l2: str = "hot") -> Samples:
        """Return device time of `fn(*args)` in µs per call."""
        raise NotImplementedError

    def counts(self, fn: Callable[..., Any], *args: Any) -> Samples:
        """Return what one call of `fn(*args)` launches, dispatches and allocates."""
        raise NotImplementedError

    def kernel(self, fn: Callable[..., Any], *args: Any, name: str) -> Samples:
        """Return the median duration of the kernels that `name` (a glob or family) picks."""
        raise NotImplementedError

    def ratio(self, a: Callable[[], Any], b: Callable[[], Any]) -> Samples:
        """Return host time of `a` over `b`, interleaved."""
        raise NotImplementedError
