"""Judge one test: figures in, a `Verdict` with its reason out; what is no figure is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kernelpin.render import count, format_change
from kernelpin.verdict.evidence import (
    LOOKS,
    MIN_CONFIRM,
    Evidence,
    Floats,
    paired,
    student,
    unpaired,
)
from kernelpin.verdict.outcome import PAIRED, Outcome, Rule, Verdict

MIN_SCREEN_BASELINE = 8
MIN_DIFFERENCE_US = 0.05
# In pairs on one card less can be seen: of 3 to 5 µs on an H200 all 8 comparisons of unchanged code
# were SAME, and all 14 of +2 % SLOWER (docs/method.md).
MIN_DIFFERENCE_PAIRED_US = 0.03
# A kernel: H200 cards were within 0.05 µs of each other (docs/measured.md); this is twice that.
MIN_DIFFERENCE_OTHER_CARD_US = 0.1


def is_suspect(
    baseline: Sequence[float],
    figure: float,
    rule: Rule,
    *,
    min_difference: float = MIN_DIFFERENCE_US,
) -> bool:
    """Whether one process leaves it open that the test is slower, so that fresh ones must tell.

    A true slowdown of `rule.catch` passes in at most 0.6 % of cases, whatever the noise: what
    passes is not looked at again.
    """
    if len(baseline) < MIN_SCREEN_BASELINE:
        _figures("baseline", baseline, 2)
        _figures("now", [figure], 1)
        return True
    return not judge(baseline, [figure], rule, min_difference=min_difference).decided


def judge(
    baseline: Sequence[float],
    now: Sequence[float],
    rule: Rule,
    *,
    min_difference: float = MIN_DIFFERENCE_US,
    final: bool = False,
) -> Verdict:
    """Judge this run's fresh processes against a stored baseline's.

    `min_difference`: what is never SLOWER, in the figures' unit; 0 for figures that are ratios.
    `final`: the budget is over, so that what the evidence leaves open is UNCLEAR for good.
    ValueError on a figure that is no positive number, fewer than two in the baseline, none now,
    and a single one now where the baseline has fewer than eight to know its noise from.
    """
    before, after = _figures("baseline", baseline, 2), _figures("now", now, 1)
    if len(after) == 1 and len(before) < MIN_SCREEN_BASELINE:
        raise ValueError(
            f"one figure now needs {MIN_SCREEN_BASELINE} in the baseline to know the noise, found "
            f"{len(before)}: measure {MIN_CONFIRM} processes"
        )
    unit = float(np.median(before))  # makes the result the same in any unit
    evidence = unpaired(np.log(before / unit), np.log(after / unit))
    return _verdict(evidence, before, after, rule, min_difference, final)


def judge_pairs(
    base: Sequence[float],
    head: Sequence[float],
    rule: Rule = PAIRED,
    *,
    stored: Verdict | None = None,
    min_difference: float = MIN_DIFFERENCE_PAIRED_US,
    final: bool = False,
) -> Verdict:
    """Judge head against base, measured in turn on one card: `base[i]` and `head[i]` are a pair.

    `stored`: head's figures judged against the stored baseline. Where that is SLOWER and the pairs
    are not, base is slower too: ALREADY_SLOWER. Otherwise as `judge`, from two pairs on.
    """
    before, after = _figures("base", base, 2), _figures("head", head, 2)
    if len(before) != len(after):
        raise ValueError(
            f"a pair is one figure of each, found {len(before)} of base and {len(after)} of head"
        )
    ratios = np.sort(np.log(np.asarray(head, np.float64) / np.asarray(base, np.float64)))
    if stored is None or stored.noise is None:
        evidence = paired(ratios)
    else:
        evidence = paired(ratios, np.asarray(stored.noise), stored.n_baseline)
    verdict = _verdict(evidence, before, after, rule, min_difference, final)
    not_by_head = verdict.outcome in (Outcome.SAME, Outcome.FASTER)
    if stored is None or stored.outcome is not Outcome.SLOWER or not not_by_head:
        return verdict
    reason = f"slower than the stored baseline ({stored.reason}), and so is base: {verdict.reason}"
    return replace(verdict, outcome=Outcome.ALREADY_SLOWER, reason=reason)


def judge_reference(
    published: float, band: float, now: Sequence[float], *, final: bool = False
) -> Verdict:
    """Judge against a published figure that is right to within ± `band`, a fraction.

    The band is far wider than noise, so that one process passes it; to fail it takes `MIN_CONFIRM`
    whose interval is beyond it.
    """
    before, after = _figures("published", [published], 1), _figures("now", now, 1)
    logs = np.log(after / published)
    if len(after) < MIN_CONFIRM:
        estimate = logs.mean()
        exact = np.zeros_like(estimate)
        evidence = Evidence(estimate, exact, exact, screening=True)
    else:
        evidence = paired(logs)
        # That nothing changed is no hypothesis about another card's rounded figure.
        evidence = evidence._replace(sure=np.full_like(evidence.sure, -np.inf))
    rule = Rule(band, band, "published reference")
    return _verdict(evidence, before, after, rule, 0.0, final)


def judge_counts(baseline: Mapping[str, int], now: Mapping[str, int]) -> Verdict:
    """Judge counts exactly: SLOWER if any rose, FASTER if some fell and none rose.

    A count that only the baseline has is INCOMPARABLE, and so is a baseline without any; one that
    only this run has is named, whatever the others come to.
    """
    missing = sorted(baseline.keys() - now.keys())
    if missing:
        reason = f"the baseline counts {', '.join(missing)}, and this run does not"
        return Verdict(Outcome.INCOMPARABLE, reason)
    new = sorted(now.keys() - baseline.keys())
    if not baseline:
        reason = f"the baseline counts nothing, and this run {', '.join(new) or 'nothing either'}"
        return Verdict(Outcome.INCOMPARABLE, reason)
    rose = [f"{key} {was} → {now[key]}" for key, was in baseline.items() if now[key] > was]
    fell = [f"{key} {was} → {now[key]}" for key, was in baseline.items() if now[key] < was]
    told = "; ".join(rose + fell) or "every count as before"
    outcome = Outcome.SLOWER if rose else Outcome.FASTER if fell else Outcome.SAME
    return Verdict(outcome, told + (f"; new: {', '.join(new)}" if new else ""))


def _verdict(
    evidence: Evidence,
    before: Floats,
    after: Floats,
    given: Rule,
    min_difference: float,
    final: bool,
) -> Verdict:
    baseline = float(np.median(before))
    rule = _raised(given, min_difference / baseline)
    estimate, half = float(evidence.estimate), float(evidence.half)
    outcome = _outcome(evidence, rule)
    low, high = _exp(estimate - half), _exp(estimate + half)
    return Verdict(
        outcome=outcome,
        reason=_reason(outcome, evidence, rule, given),
        baseline=baseline,
        now=float(np.median(after)),
        ratio=_exp(estimate),
        low=low,
        high=high,
        rule=rule,
        n_baseline=len(before),
        n_now=len(after),
        detectable=(
            rule.catch
            if evidence.screening
            else max((1 + rule.limit) * _exp(half), _exp(evidence.sure)) - 1
        ),
        noise=float(np.log(before / baseline).std(ddof=1)) if len(before) > 1 else None,
        decided=outcome is not Outcome.UNCLEAR or final or len(after) >= LOOKS[-1],
        baseline_interval=_interval(before),
        now_interval=_interval(after),
    )


def _outcome(evidence: Evidence, rule: Rule) -> Outcome:
    if evidence.is_slower(rule.limit):
        return Outcome.SLOWER
    if evidence.is_faster(rule.limit):
        return Outcome.FASTER
    return Outcome.SAME if evidence.is_same(rule.limit, rule.catch) else Outcome.UNCLEAR


def _reason(outcome: Outcome, evidence: Evidence, rule: Rule, given: Rule) -> str:
    low = format_change(_exp(evidence.estimate - evidence.half))
    high = format_change(_exp(evidence.estimate + evidence.half))
    limit, catch = format_change(1 + rule.limit), format_change(1 + rule.catch)
    if rule is not given:
        limit += f" (raised from {format_change(1 + given.limit)}: so small a time)"
    match outcome:
        case Outcome.SLOWER:
            return f"{low} to {high}, all beyond the limit of {limit}"
        case Outcome.FASTER:
            return f"{low} to {high}, all beyond the limit on the good side"
        case Outcome.SAME:
            return f"at most {high}, and {catch} is what must be caught"
        case _ if evidence.is_beyond(rule.limit) and not evidence.screening:
            return (
                f"{low} to {high} is beyond the limit of {limit}, but the processes scatter too "
                "much to rule out that nothing changed"
            )
        case _:
            return f"{low} to {high} does not decide: limit {limit}, to be caught {catch}"


def _raised(rule: Rule, least: float) -> Rule:
    """The rule where `least`, a fraction, is never SLOWER."""
    if least <= rule.limit:
        return rule
    return Rule(least, least * rule.catch / rule.limit, rule.name)


def _interval(figures: Floats) -> tuple[float, float] | None:
    """95 % of these processes alone, for the table in a message."""
    if len(figures) < 2:
        return None
    logs = np.log(figures)
    half = float(logs.std(ddof=1) / math.sqrt(len(figures)) * student(len(figures) - 1, 0.025))
    return _exp(logs.mean() - half), _exp(logs.mean() + half)


def _exp(log: float | Floats) -> float:
    return math.exp(log) if log < 700 else math.inf  # two wild figures overflow a float


def _figures(what: str, figures: Sequence[float], least: int) -> Floats:
    """Sorted, so that no sum depends on the order."""
    for index, figure in enumerate(figures):
        if not (math.isfinite(figure) and figure > 0):
            raise ValueError(f"{what}: figure {index} is {figure!r}, allowed is a positive number")
    if len(figures) < least:
        raise ValueError(f"{what}: {count(len(figures), 'figure')}, allowed are {least} or more")
    return np.sort(np.asarray(figures, np.float64))
