"""Judge process figures against a baseline: SLOWER, SAME or FASTER only where the evidence says so.

A figure is what one fresh process measured (the median of its samples): any unit, for µs see
`min_difference`. What is estimated is the log of now over baseline (unpaired: the difference of the
mean logs, Welch's t; pairs: the mean log ratio, Student's t) with a 95 % interval:

    SLOWER   the whole interval is above 1 + limit, from at least `MIN_CONFIRM` processes
    FASTER   the whole interval is below 1 - limit
    SAME     the whole interval is below 1 + catch, what must be caught
    UNCLEAR  none of these; until `decided`, more processes may still tell

The interval may be looked at after every process from the 4th to the 12th: it covers at all looks
together (a repeated confidence interval: Jennison & Turnbull, 1989), each of them at `LOOK_LEVEL`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MIN_CONFIRM = 4
MIN_SCREEN_BASELINE = 8
LOOKS = (4, 6, 8, 10, 12)
LOOK_LEVEL = 0.012
MIN_DIFFERENCE_US = 0.05
UNCLEAR_SHARE = 0.2

Floats = NDArray[np.float64]


class Outcome(StrEnum):
    """What a test's timing came to."""

    SAME = "same"
    FASTER = "faster"
    SLOWER = "slower"
    ALREADY_SLOWER = "already_slower"
    UNCLEAR = "unclear"
    NO_BASELINE = "no_baseline"
    INCOMPARABLE = "incomparable"


@dataclass(frozen=True, slots=True)
class Rule:
    """Slowdowns as fractions: beyond `limit` is SLOWER, `catch` is what must never pass as SAME."""

    limit: float
    catch: float
    name: str

    def __post_init__(self) -> None:
        if not 0 < self.limit < 1:
            raise ValueError(
                f"limit {self.limit:g} is no fraction between 0 and 1: write 0.03 for 3 %"
            )
        if not self.catch >= self.limit:
            raise ValueError(f"catch {self.catch:g} is below the limit {self.limit:g}")

    def with_limit(self, limit: float, floor: float) -> Rule:
        """The rule with a test's own limit, `catch` scaled along.

        `floor`: the noise floor, the SD of the baseline's log figures. ValueError below twice it.
        """
        scaled = Rule(limit, limit * self.catch / self.limit, self.name)
        if limit < 2 * floor:
            raise ValueError(
                f"limit {limit:.2%} is below twice the noise floor of {floor:.2%}, the spread of "
                f"the baseline's processes: allow at least {2 * floor:.2%}, or record a steadier "
                "baseline"
            )
        return scaled


STORED = Rule(0.05, 0.08, "stored baseline")
STORED_SAME_CARD = Rule(0.03, 0.05, "stored baseline of this card")
PAIRED = Rule(0.01, 0.02, "base against head")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judged figure.

    `baseline`, `now`: medians of the process figures, in their unit; `…_interval`: 95 % of each
    alone. `ratio`, `low`, `high`: now over baseline as estimated, with its interval. `detectable`:
    a measured slowdown from this fraction on would have been called SLOWER by as much evidence.
    None where there is nothing to say. `decided`: no further process is asked for.
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
    decided: bool = True
    baseline_interval: tuple[float, float] | None = None
    now_interval: tuple[float, float] | None = None


class Evidence(NamedTuple):
    """Log ratio, its standard error and degrees of freedom: arrays, an element a test."""

    estimate: Floats
    error: Floats
    freedom: Floats


# -- the rule, on arrays: what judges one test here judges a million in benchmarks/detection.py ----


def unpaired_evidence(baseline: Floats, now: Floats) -> Evidence:
    """Log figures, processes on the last axis. Up to three now: the pooled SD; then Welch's."""
    n, m = baseline.shape[-1], now.shape[-1]
    estimate = now.mean(-1) - baseline.mean(-1)
    var_base = baseline.var(-1, ddof=1)
    if m < MIN_CONFIRM:
        squares = var_base * (n - 1) + now.var(-1) * m
        pooled = squares / (n + m - 2)
        return Evidence(
            estimate, np.sqrt(pooled * (1 / n + 1 / m)), np.full_like(estimate, n + m - 2)
        )
    a, b = var_base / n, now.var(-1, ddof=1) / m
    tiny = np.finfo(np.float64).tiny  # no spread at all: any freedom will do
    freedom = (a + b) ** 2 / np.maximum(a**2 / (n - 1) + b**2 / (m - 1), tiny)
    return Evidence(estimate, np.sqrt(a + b), np.clip(freedom, min(n, m) - 1, n + m - 2))


def paired_evidence(log_ratios: Floats) -> Evidence:
    """Log of head over base, pairs on the last axis."""
    n = log_ratios.shape[-1]
    estimate = log_ratios.mean(-1)
    error = log_ratios.std(-1, ddof=1) / math.sqrt(n)
    return Evidence(estimate, error, np.full_like(estimate, n - 1))


def interval(evidence: Evidence, level: float = LOOK_LEVEL) -> tuple[Floats, Floats]:
    """Lower and upper end on the log scale."""
    half = evidence.error * _student(evidence.freedom, level)
    return evidence.estimate - half, evidence.estimate + half


def is_slower(low: Floats, rule: Rule, n: int) -> NDArray[np.bool_]:
    return (low > math.log1p(rule.limit)) & (n >= MIN_CONFIRM)


def is_faster(high: Floats, rule: Rule) -> NDArray[np.bool_]:
    return high < math.log1p(-rule.limit)


def is_same(high: Floats, rule: Rule) -> NDArray[np.bool_]:
    """True of FASTER as well."""
    return high < math.log1p(rule.catch)


def _student(freedom: Floats, level: float) -> Floats:
    from scipy.special import stdtrit

    quantile: Floats = stdtrit(freedom, 1 - level / 2)
    return quantile


# -- one test ----------------------------------------------------------------------------------


def is_suspect(baseline: Sequence[float], figure: float, rule: Rule) -> bool:
    """Whether one process's figure leaves it open that the test is slower: measure it again."""
    if len(baseline) < MIN_SCREEN_BASELINE:
        _checked("baseline", baseline, 2), _checked("now", [figure], 1)
        return True
    return not judge(baseline, [figure], rule).decided


def judge(
    baseline: Sequence[float],
    now: Sequence[float],
    rule: Rule,
    *,
    min_difference: float = MIN_DIFFERENCE_US,
    final: bool = False,
) -> Verdict:
    """Judge this run's processes against the baseline's.

    `min_difference`: a difference that is never SLOWER, in the figures' unit (0 for ratios).
    `final`: the budget is over, so that what is not decided is UNCLEAR. ValueError on a figure that
    is no positive number, on fewer than two in the baseline, on none now, and on a single one now
    where the baseline has fewer than eight to take its noise from.
    """
    base = _checked("baseline", baseline, 2)
    head = _checked("now", now, 1)
    if len(head) == 1 and len(base) < MIN_SCREEN_BASELINE:
        raise ValueError(
            f"one figure now needs at least {MIN_SCREEN_BASELINE} in the baseline to know its "
            f"noise, found {len(base)}: measure {MIN_CONFIRM} processes"
        )
    unit = float(np.median(base))
    evidence = unpaired_evidence(np.log(base / unit), np.log(head / unit))
    return _verdict(evidence, base, head, _raised(rule, unit, min_difference), final)


def judge_pairs(
    base: Sequence[float],
    head: Sequence[float],
    rule: Rule = PAIRED,
    *,
    stored: Verdict | None = None,
    min_difference: float = MIN_DIFFERENCE_US,
    final: bool = False,
) -> Verdict:
    """Judge head against base, measured in turn on one card: `base[i]` and `head[i]` are a pair.

    `stored`: head's verdict against the stored baseline. Where that is SLOWER and the pairs are
    not, the base branch is slower too: ALREADY_SLOWER. Errors as `judge`, from two pairs on.
    """
    before, after = _checked("base", base, 2), _checked("head", head, 2)
    if len(before) != len(after):
        raise ValueError(
            f"pairs need as many base as head figures, found {len(before)} and {len(after)}"
        )
    unit = float(np.median(before))
    evidence = paired_evidence(np.sort(np.log(np.asarray(head) / np.asarray(base))))
    verdict = _verdict(evidence, before, after, _raised(rule, unit, min_difference), final)
    if (
        stored is not None
        and stored.outcome is Outcome.SLOWER
        and verdict.outcome in (Outcome.SAME, Outcome.FASTER)
    ):
        reason = f"slower than the stored baseline ({stored.reason}), and so is base: head is " + (
            "no slower than it" if verdict.outcome is Outcome.SAME else "faster"
        )
        return replace(verdict, outcome=Outcome.ALREADY_SLOWER, reason=reason)
    return verdict


def judge_reference(
    published: float, band: float, now: Sequence[float], *, final: bool = False
) -> Verdict:
    """Judge against a published figure, right to within ± `band` (a fraction): one process passes
    it, and `MIN_CONFIRM` are needed to call it SLOWER or FASTER."""
    reference = _checked("published", [published], 1)
    head = _checked("now", now, 1)
    logs = np.log(head / published)
    if len(head) == 1:
        evidence = Evidence(logs[0], np.zeros_like(logs[0]), np.ones_like(logs[0]))
    else:
        evidence = paired_evidence(logs)
    rule = Rule(band, band, "published reference")
    verdict = _verdict(evidence, reference, head, rule, final)
    if verdict.outcome is Outcome.FASTER and len(head) < MIN_CONFIRM:
        return replace(verdict, outcome=Outcome.SAME)
    return verdict


def judge_counts(baseline: Mapping[str, int], now: Mapping[str, int]) -> Verdict:
    """Judge counts exactly: any that rose is SLOWER, FASTER if some fell and none rose.

    A count that the baseline has and this run has not is INCOMPARABLE; a new one is only named.
    """
    missing = sorted(baseline.keys() - now.keys())
    if missing:
        return Verdict(
            Outcome.INCOMPARABLE, f"the baseline counts {', '.join(missing)}, this run does not"
        )
    changed = {key: (baseline[key], now[key]) for key in baseline if baseline[key] != now[key]}
    # what got worse first: the reason's beginning is what a summary shows
    told = sorted(changed.items(), key=lambda item: item[1][1] < item[1][0])
    reason = "; ".join(f"{key} {was} → {is_now}" for key, (was, is_now) in told)
    if any(is_now > was for was, is_now in changed.values()):
        return Verdict(Outcome.SLOWER, reason)
    if changed:
        return Verdict(Outcome.FASTER, reason)
    new = sorted(now.keys() - baseline.keys())
    return Verdict(
        Outcome.SAME, "every count as before" + (f"; new: {', '.join(new)}" if new else "")
    )


def needs_more(verdict: Verdict) -> int:
    """How many more processes (or pairs) to measure before the next look; 0: it is decided."""
    if verdict.decided:
        return 0
    return next((look for look in LOOKS if look > verdict.n_now), verdict.n_now) - verdict.n_now


def fails(verdict: Verdict, *, ci: bool) -> bool:
    """Whether the verdict fails its test; `ci`: with `CI` set."""
    match verdict.outcome:
        case Outcome.SLOWER:
            return True
        case Outcome.UNCLEAR:
            beyond = (
                verdict.ratio is not None
                and verdict.rule is not None
                and verdict.ratio > 1 + verdict.rule.limit
            )
            return ci and beyond
        case Outcome.NO_BASELINE | Outcome.INCOMPARABLE:
            return ci
        case _:
            return False


def too_many_unclear(verdicts: Iterable[Verdict]) -> str | None:
    """Why a CI run as a whole decides too little, or None: more than a fifth are UNCLEAR."""
    outcomes = [verdict.outcome for verdict in verdicts]
    unclear = outcomes.count(Outcome.UNCLEAR)
    if unclear <= UNCLEAR_SHARE * len(outcomes):
        return None
    return (
        f"{unclear} of {len(outcomes)} timings are unclear, at most {UNCLEAR_SHARE:.0%} are "
        "allowed: the machine is too noisy, or the budget too small (--kernelpin-budget)"
    )


def _verdict(evidence: Evidence, base: Floats, head: Floats, rule: Rule, final: bool) -> Verdict:
    ends = interval(evidence)
    low, high = float(ends[0]), float(ends[1])
    half = high - float(evidence.estimate)
    n = len(head)
    outcome = Outcome.UNCLEAR
    if is_slower(ends[0], rule, n):
        outcome = Outcome.SLOWER
    elif is_faster(ends[1], rule):
        outcome = Outcome.FASTER
    elif is_same(ends[1], rule):
        outcome = Outcome.SAME
    span = f"{_change(low)} to {_change(high)}"
    reason = {
        Outcome.SLOWER: f"all of {span} is beyond the limit of {_change(math.log1p(rule.limit))}",
        Outcome.FASTER: f"all of {span} is beyond the limit on the good side",
        Outcome.SAME: f"at most {_change(high)}, and {_change(math.log1p(rule.catch))} is caught",
        Outcome.UNCLEAR: f"{span} does not decide after {n}",
    }[outcome]
    return Verdict(
        outcome=outcome,
        reason=reason,
        baseline=float(np.median(base)),
        now=float(np.median(head)),
        ratio=math.exp(evidence.estimate),
        low=math.exp(low),
        high=math.exp(high),
        rule=rule,
        n_baseline=len(base),
        n_now=n,
        detectable=(1 + rule.limit) * math.exp(half) - 1,
        decided=outcome is not Outcome.UNCLEAR or final or n >= LOOKS[-1],
        baseline_interval=_own_interval(base),
        now_interval=_own_interval(head),
    )


def _own_interval(figures: Floats) -> tuple[float, float] | None:
    if len(figures) < 2:
        return None
    unit = float(np.median(figures))
    low, high = interval(paired_evidence(np.log(figures / unit)), 0.05)
    return unit * math.exp(low), unit * math.exp(high)


def _raised(rule: Rule, baseline: float, min_difference: float) -> Rule:
    least = min_difference / baseline
    if least <= rule.limit:
        return rule
    return Rule(least, least * rule.catch / rule.limit, rule.name)


def _checked(what: str, figures: Sequence[float], least: int) -> Floats:
    values = np.sort(np.asarray(figures, dtype=np.float64))
    if len(values) < least:
        raise ValueError(
            f"{what} has {len(values)} figure{'s'[: len(values) != 1]}, at least {least} are needed"
        )
    for index, value in enumerate(figures):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{what} figure {index} is {value!r}, allowed is a positive number")
    return values


def _change(log_ratio: float) -> str:
    return f"{math.expm1(log_ratio):+.1%}".replace("%", " %")
