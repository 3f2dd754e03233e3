"""What a test's timing came to, by which rule, and what that means for the test and the session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from kernelpin.verdict.evidence import LOOKS

UNCLEAR_SHARE = 0.2


class Outcome(StrEnum):
    SAME = "same"
    FASTER = "faster"
    SLOWER = "slower"
    ALREADY_SLOWER = "already_slower"
    UNCLEAR = "unclear"
    NO_BASELINE = "no_baseline"
    INCOMPARABLE = "incomparable"


@dataclass(frozen=True, slots=True)
class Rule:
    """Slowdowns as fractions: beyond `limit` is SLOWER; `catch` and more must never pass as SAME.

    Two numbers, since no rule can call a slowdown that equals its own limit more than half the
    time.
    """

    limit: float
    catch: float
    name: str

    def __post_init__(self) -> None:
        if not 0 < self.limit <= self.catch:
            raise ValueError(
                f"limit {self.limit:g} and catch {self.catch:g}: allowed is 0 < limit <= catch"
            )

    def with_limit(self, limit: float, floor: float) -> Rule:
        """The rule with a test's own limit, `catch` scaled along.

        `floor`: the noise floor, the SD of the baseline's log figures. ValueError below twice it:
        such a limit would only ever give UNCLEAR.
        """
        if not 0 < limit < 1:
            raise ValueError(f"limit={limit:g} is no fraction between 0 and 1: 0.03 is 3 %")
        if limit < 2 * floor:
            raise ValueError(
                f"limit={limit:g} is below twice the noise floor of {floor:.2%}, which is the "
                f"spread of the baseline's processes: allow {2 * floor:.4f} or more, or record a "
                "steadier baseline"
            )
        return Rule(limit, limit * self.catch / self.limit, self.name)


STORED = Rule(0.05, 0.08, "stored baseline")
STORED_SAME_CARD = Rule(0.03, 0.05, "stored baseline of this card")
PAIRED = Rule(0.01, 0.02, "base against head")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judged test.

    `baseline`, `now`: medians of the process figures, in their unit; `baseline_interval`,
    `now_interval`: 95 % of each alone. `ratio`, `low`, `high`: now over baseline as estimated (the
    geometric mean) and its 95 % interval. `detectable`: from this measured slowdown on, as a
    fraction, evidence of this quality says SLOWER (of a screening process: what must be caught).
    `noise`: SD of the baseline's log figures. `rule`: as applied. All of these None where there is
    nothing to say. `decided`: no further process is asked for.
    """

    outcome: Outcome
    reason: str
    baseline: float | None = None
    now: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    rule: Rule | None = None
    n_baseline: int = 0
    n_now: int = 0
    detectable: float | None = None
    noise: float | None = None
    decided: bool = True
    baseline_interval: tuple[float, float] | None = None
    now_interval: tuple[float, float] | None = None


def needs_more(verdict: Verdict) -> int:
    """How many more processes (or pairs) to measure before the next look; 0: it is decided."""
    if verdict.decided:
        return 0
    return next(look for look in LOOKS if look > verdict.n_now) - verdict.n_now


def fails(verdict: Verdict, *, ci: bool) -> bool:
    """Whether the verdict fails its test; `ci`: `CI` is set."""
    match verdict.outcome:
        case Outcome.SLOWER:
            return True
        case Outcome.NO_BASELINE | Outcome.INCOMPARABLE:
            return ci
        case Outcome.UNCLEAR:
            ratio, rule = verdict.ratio, verdict.rule
            return ci and ratio is not None and rule is not None and ratio > 1 + rule.limit
        case _:
            return False


def too_many_unclear(verdicts: Iterable[Verdict]) -> str | None:
    """Why a run under `CI` decides too little as a whole, or None: over a fifth is UNCLEAR."""
    outcomes = [verdict.outcome for verdict in verdicts]
    unclear = outcomes.count(Outcome.UNCLEAR)
    if unclear <= UNCLEAR_SHARE * len(outcomes):
        return None
    return (
        f"{unclear} of {len(outcomes)} timings are unclear, allowed are {UNCLEAR_SHARE:.0%}: give "
        "them more time (--kernelpin-budget), or the GPU fewer other things to do"
    )
