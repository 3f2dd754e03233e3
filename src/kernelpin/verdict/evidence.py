"""The rule itself, on arrays: it judges one test in a run and a million in benchmarks/detection.py.

Estimated is the log of now over baseline, with a t-interval: Welch's for a stored baseline,
Student's on the log ratios of pairs. The interval may be looked at after every process from the
4th to the 12th: it covers in 95 % of cases at all looks together (a repeated confidence interval,
Jennison & Turnbull, JRSS B 51, 1989), since each is taken at `LOOK_LEVEL`: simulated, nine looks at
the 5 % level would err on one side in 8.0 % of cases, at 1.2 % they do in 2.5 %.

    SLOWER   the interval is above 1 + limit, and "nothing changed" is ruled out at `SURE_LEVEL`
    FASTER   the interval is below 1 - limit
    SAME     the interval is below 1 + catch

Fewer than `MIN_CONFIRM` processes only screen: they are never SLOWER, and SAME only where the
estimate is within the limit too, so that what lies between limit and catch is looked at closely.

The second condition costs nothing where noise is small beside the limit, and is what keeps sixty
tests quiet where it is not: an interval alone errs by construction in up to 2.5 % of tests there.
It tests that all processes come from one distribution, so that it may pool what is known of it. Two
modes (a quarter of processes 12 % slower) give 0.011 % false alarms a test with it
(docs/detection.md); an earlier simulation without it gave 0.25 %.

All on the log scale; processes on an array's last axis, tests on those before.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MIN_CONFIRM = 4
LOOKS = (4, 6, 8, 10, 12)
LOOK_LEVEL = 0.012  # two-sided
SURE_LEVEL = 1e-6  # one-sided; 60 tests a session and five looks each
MIN_ALONE = 6  # pairs: with two modes, four agree by chance in 0.1 % of cases, six in 0.004 %

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Evidence(NamedTuple):
    """`estimate` ± `half` is the interval; above `sure` it is no chance that there is a change."""

    estimate: Floats
    half: Floats
    sure: Floats
    screening: bool = False

    def is_slower(self, limit: float) -> Flags:
        return self.is_beyond(limit) & (self.estimate > self.sure) & (not self.screening)

    def is_beyond(self, limit: float) -> Flags:
        return self.estimate - self.half > math.log1p(limit)

    def is_faster(self, limit: float) -> Flags:
        return self.estimate + self.half < (math.log1p(-limit) if limit < 1 else -math.inf)

    def is_same(self, limit: float, catch: float) -> Flags:
        """True of what is faster as well."""
        below = self.estimate + self.half < math.log1p(catch)
        return below & (self.estimate <= math.log1p(limit)) if self.screening else below


def unpaired(baseline: Floats, now: Floats) -> Evidence:
    """Fewer than `MIN_CONFIRM` now are judged by the pooled noise: one has none of its own."""
    n, m = baseline.shape[-1], now.shape[-1]
    estimate = now.mean(-1) - baseline.mean(-1)
    square_base, square_now = baseline.var(-1) * n, now.var(-1) * m
    pooled = np.sqrt((square_base + square_now) / (n + m - 2) * (1 / n + 1 / m))
    if m < MIN_CONFIRM:
        half = pooled * student(n + m - 2, LOOK_LEVEL / 2)
        return Evidence(estimate, half, np.full_like(estimate, np.inf), screening=True)
    a, b = square_base / (n - 1) / n, square_now / (m - 1) / m
    tiny = np.finfo(np.float64).tiny  # without any spread, any freedom will do
    freedom = (a + b) ** 2 / np.maximum(a**2 / (n - 1) + b**2 / (m - 1), tiny)
    half = np.sqrt(a + b) * student(np.maximum(freedom, min(n, m) - 1), LOOK_LEVEL / 2)
    return Evidence(estimate, half, pooled * student(n + m - 2, SURE_LEVEL))


def paired(log_ratios: Floats, noise: Floats | None = None, n_noise: int = 0) -> Evidence:
    """`noise`: the SD of a single process as the stored baseline's `n_noise` figures know it.

    It only ever helps: a baseline of several cards spreads more than pairs on one do.
    """
    n = log_ratios.shape[-1]
    estimate = log_ratios.mean(-1)
    square = log_ratios.var(-1) * n
    error = np.sqrt(square / (n - 1) / n)
    half = error * student(n - 1, LOOK_LEVEL / 2)
    sure = error * student(n - 1, SURE_LEVEL) if n >= MIN_ALONE else np.full_like(error, np.inf)
    if noise is not None and n_noise > 1:
        freedom = n + n_noise - 2
        pooled = np.sqrt((square + 2 * noise**2 * (n_noise - 1)) / freedom / n)
        sure = np.minimum(sure, pooled * student(freedom, SURE_LEVEL))
    return Evidence(estimate, half, sure, screening=n < MIN_CONFIRM)


def student(freedom: Floats | float, tail: float) -> Floats:
    """The t that is exceeded with probability `tail`."""
    from scipy.special import stdtrit  # not scipy.stats, which takes a second to import

    quantile: Floats = -stdtrit(freedom, tail)
    return quantile
