"""Whether a ratio of host times keeps to the bounds that its test gives."""

from __future__ import annotations

import dataclasses

from kernelpin.verdict import Outcome, Verdict, judge_reference

# A bound is a promise, no measurement: there is nothing around it to allow for.
_BOUND = 1e-9
_SEVERITY = {Outcome.UNCLEAR: 1, Outcome.SLOWER: 2}


def judge_ratio(
    figures: list[float], below: float | None, above: float | None, *, final: bool
) -> Verdict:
    """Judge the processes' ratios; SLOWER is one that is out of its bounds."""
    now = sorted(figures)[len(figures) // 2]
    judged: list[tuple[str, Verdict]] = []
    if below is not None:
        judged.append((f"below {below:g}", judge_reference(below, _BOUND, figures, final=final)))
    if above is not None:
        inverse = [1 / figure for figure in figures]
        verdict = judge_reference(1 / above, _BOUND, inverse, final=final)
        judged.append((f"above {above:g}", verdict))
    if not judged:
        return Verdict(Outcome.SAME, "a ratio without a bound is reported", now=now)
    # Of two bounds the one that is broken counts, else the one that is not decided.
    said, verdict = max(judged, key=lambda each: _SEVERITY.get(each[1].outcome, 0))
    holds = verdict.outcome not in _SEVERITY
    said = " and ".join(bound for bound, _ in judged) if holds else said
    reason = f"{now:.3f} ×, to be {said}"
    if verdict.outcome is Outcome.UNCLEAR:
        many = f"{len(figures)} processes do not decide"
        reason += f": {many if len(figures) > 1 else 'one process decides nothing'}"
    return dataclasses.replace(
        verdict,
        outcome=Outcome.SAME if holds else verdict.outcome,
        reason=reason,
        now=now,
        baseline=None,
        now_interval=None,
    )
