"""What one process measured of one callable."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean, median

from kernelpin.machine import State

TRIMMED_FROM = 8  # places
UNITS = {"device_us": "µs", "kernel_us": "µs", "host_ratio": "×", "counts": ""}


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
    """What one process measured of one callable; values in time order, µs per call or ratios.

    `metric` is device_us, kernel_us, host_ratio or counts; `method` graph, events, profiler or
    host, and `note` says why it is not the usual one. `state` holds the GPU's around each block of
    samples. `places` says how many values, in their order, are of each place in memory; empty where
    all are of one. `reason` says why these figures decide nothing; None where they do.
    """

    metric: str
    values: tuple[float, ...]
    method: str
    calls_per_sample: int = 1
    l2: str | None = None
    input: str = ""
    seed: int | None = None
    state: tuple[State, ...] = ()
    reason: str | None = None
    kernels: tuple[KernelFigure, ...] | None = None
    counts: dict[str, int] | None = None
    note: str | None = None
    places: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.places and (min(self.places) < 1 or sum(self.places) != len(self.values)):
            raise ValueError(f"places {self.places} do not hold {len(self.values)} values")

    @property
    def unit(self) -> str:
        """The unit of the values; empty for counts."""
        return UNITS[self.metric]

    @property
    def figure(self) -> float:
        """This process's figure: the median of the values, over places the mean of their medians.

        Places in memory can be of two kinds, some percent apart: the median of all values is then
        the one kind or the other, by how many were drawn of each. Of eight places and more the
        fastest and the slowest are left out, so that no single disturbed one counts.
        """
        if not self.values:
            raise ValueError(f"{self.metric} holds no values, so it has no figure")
        ends = accumulate(self.places or (len(self.values),), initial=0)
        medians = sorted(median(self.values[start:end]) for start, end in pairwise(ends))
        return fmean(medians[1:-1] if len(medians) >= TRIMMED_FROM else medians)

    @property
    def power_capped(self) -> bool:
        """Whether the power cap held the clock back around any block."""
        return any(state.power_cap for state in self.state)

    @property
    def sm_clock_mhz(self) -> int | None:
        """The median SM clock around the blocks."""
        clocks = [state.sm_clock_mhz for state in self.state if state.sm_clock_mhz is not None]
        return round(median(clocks)) if clocks else None
