"""Whether the sessions that measured one recording agree: it was interrupted, and went on. Pure.

Not `judge`: one process of an earlier session must do to find another code, and nothing is gained
by not deciding. So: an equal-variance t-test between any two sessions, on the log figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from kernelpin.verdict.evidence import student

# One-sided, for all pairs of sessions together. What is refused in vain is measured once more.
_LEVEL = 5e-4
# With less freedom the noise is not known, and what differs beyond the limit may be another code.
_MIN_FREEDOM = 3


def disagreement(
    sessions: Sequence[Sequence[float]], limit: float, *, min_difference: float
) -> tuple[int, int, float] | None:
    """The two sessions (by index) that differ most, and by which ratio; None: they agree.

    They differ where the means of their processes are further apart than `limit` (a fraction) and
    `min_difference` (in the figures' unit), and than the processes' noise explains.
    """
    logs = [np.log(np.asarray(figures, np.float64)) for figures in sessions]
    pairs = list(combinations(range(len(logs)), 2))
    freedom = sum(map(len, logs)) - len(logs)
    square = sum(float(((own - own.mean()) ** 2).sum()) for own in logs)
    found: tuple[int, int, float] | None = None
    for i, j in pairs:
        change = float(logs[j].mean() - logs[i].mean())
        chance = 0.0
        if freedom >= _MIN_FREEDOM:
            error = math.sqrt(square / freedom * (1 / len(logs[i]) + 1 / len(logs[j])))
            chance = error * float(student(freedom, _LEVEL / len(pairs)))
        least = max(limit, min_difference / math.exp(min(logs[i].mean(), logs[j].mean())))
        differ = abs(change) > max(math.log1p(least), chance)
        if differ and (found is None or abs(change) > abs(math.log(found[2]))):
            found = i, j, math.exp(change)
    return found
