"""The page that benchmarks/detection.py writes: docs/detection.md."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from benchmarks.sessions import (
    BASELINE,
    DRAWN,
    SAME,
    SEED,
    SLOWER,
    TESTS,
    UNCLEAR,
    Condition,
    Tally,
)
from kernelpin.verdict import (
    MIN_DIFFERENCE_OTHER_CARD_US,
    MIN_DIFFERENCE_PAIRED_US,
    MIN_DIFFERENCE_US,
    PAIRED,
    STORED,
    STORED_SAME_CARD,
)
from kernelpin.verdict.evidence import LOOK_LEVEL, SURE_LEVEL

if TYPE_CHECKING:
    from benchmarks.detection import Plan

AS_IT_IS, COUNTED = "as it is", "the screening figure counts as evidence"
MISSED = """\
What both miss no rule can have. Where an offset of SD 2 % moves each test by itself, catching +8 %
in 95 % of cases means to call what measures +4.7 %, and the offset alone is beyond that in 0.9 % of
tests, in 43 % of sessions; for +5 % at an SD of 1 % it is 2.3 % of sessions. And twelve pairs at a
process SD of 1 % leave ± 0.8 % in a plain 95 % interval, where ± 0.5 % fits between limit and
catch."""
FEWER = (
    "{what} at a process SD of {noise} is caught in {share} with {baseline} baseline processes "
    "({unclear} end UNCLEAR, {same} SAME), in {beside_share} with {beside}."
)
WHAT = {STORED: "another card (5 / 8 %)", STORED_SAME_CARD: "same card (3 / 5 %)"}
WHAT[PAIRED] = "base against head (1 / 2 %)"


def goal_rows(plan: Plan, results: dict[Condition, Tally]) -> list[str]:
    rows = []
    for condition in plan.goals():
        case = f"{WHAT[condition.rule]} | {condition.noise.name} | {_offset(condition)}"
        what = f"caught at +{condition.slowdown * 100:g} %"
        found = [_goal(it, results[it]) for it in (condition, plan.other(condition))]
        told = " | ".join(f"{result} | {_met(met)}" for result, met in found)
        rows.append(
            f"| {what} | {case} | {told} | ≥ 95 % |"
            if condition.slowdown
            else f"| no false SLOWER | {case} | {told} | < 1 % |"
        )
    return rows


def _goal(condition: Condition, tally: Tally) -> tuple[str, bool]:
    if not condition.slowdown:
        return f"{tally.red} of {tally.sessions:,} sessions", tally.red / tally.sessions < 0.01
    share = tally.share(SLOWER)
    return f"{_percent(share)} of {tally.tests:,} tests", share >= 0.95


def _met(goal: bool) -> str:
    return "met" if goal else "**missed**"


def _percent(share: float) -> str:
    if share == 0:
        return "0"
    digits = 1 if share >= 0.01 else 3 if share >= 1e-4 else 4
    # What is not all of them must not read so.
    text = f"{share * 100:.{digits}f}"
    return f"{'> 99.9' if share < 1 and text == '100.0' else text.rstrip('0').rstrip('.')} %"


def _offset(condition: Condition) -> str:
    if not condition.offset:
        return "0"
    return f"{condition.offset * 100:g} % {'each test' if condition.own_offset else 'each session'}"


UNCHANGED_HEAD = """\
| compared with | process SD | offset | tests SLOWER | UNCLEAR | red | red under CI \
| suspects a session | processes a test | `median:5%` red | `min:5%` red |
|---|---|---|---|---|---|---|---|---|---|---|"""
SLOWED_HEAD = """\
| compared with | process SD | offset | true slowdown | SLOWER | UNCLEAR | SAME \
| processes a test | `median:5%` | `min:5%` |
|---|---|---|---|---|---|---|---|---|---|"""
CHOICES_HEAD = """\
| choice | SD 1 %, true +5 %: SLOWER | SAME | processes a test | two modes, no change: red \
| 2 % of processes disturbed, no change: UNCLEAR tests | processes a test |
|---|---|---|---|---|---|---|"""

WRITTEN = """
Written by `benchmarks/detection.py`: {sessions:,} sessions of {tests} tests for each row, seed
{seed}, numpy {numpy}.{evidence} It runs the code that judges a run, on draws with the noise
measured on H200 cards: a standard deviation of 0.2 to 0.5 % between processes, for samples of
2.5 ms with pauses. 1 % is twice that and more, 1.2 to 3.7 % is what timing back to back gives, and
"two modes" means that a quarter of all processes is 12 % slower, in the baseline as now, for every
test of the session. A simulation shows what the rule makes of such noise. What it makes of the
noise of real cards has been measured by `benchmarks/detection_gpu.py`:
[method.md](method.md#what-it-detects).
"""
SIMULATED = """
A baseline has {baseline} processes{as_stored}. One process screens; a suspect gets 4 fresh ones,
then 6, 8, 10 and 12 while the interval does not decide. Base and head are measured in 4 to 12
interleaved pairs, here for every test. *Offset* is the SD of what this card and day differ from the
baseline's by, drawn once a session for all its tests, or for each test. Times are not simulated, so
that no difference is too small to count: in a run those under {least:g} µs are never SLOWER, in
pairs those under {least_paired:g} µs. On a card that did not record the baseline it is
{least_elsewhere:g} µs a kernel (one kernel, for `kernel_us`), at most 20 % of the median, and not
where a test has a limit of its own. Nor is it
simulated that a process in which a test is FASTER acquits nobody, and another one screens.
"""
PAGE = """# How well the verdicts detect: a simulation

{written}

{simulated}

## Goals

{goals_head}
{goals}

{verdict}

## Nothing changed

What is called all the same. *Red*: sessions with a test that is SLOWER, of {sessions:,}. *Red under
CI*: those, and sessions failed for what is UNCLEAR: its estimate beyond the limit, or more than a
fifth of the tests. pytest-benchmark compares one process with one earlier process of the same
draws.

{unchanged_head}
{unchanged}

A card or a day that is off by more than the limit turns a session red, and no number of fresh
processes on that card can see it: at an offset SD of 2 % a stored baseline of another card is not
evidence enough, and base against head is the answer.

## Something is slower

{slowed_head}
{slowed}

No rule can call a slowdown that equals its own limit: its row shows that the error is held, at most
2.5 % by construction. Noise of 1 % is beyond what base against head promises: most of those tests
end UNCLEAR, not SAME.

## Why the method is as it is

On the same card (3 / 5 %), other choices on the same draws.

{choices_head}
{choices}

- The screening figure is no evidence. Counting it would save {saved} processes a test where
  something is slower, but a suspect is often just a disturbed process, and then its own figure
  keeps the verdict open.
- The screen errs on one side in {screen} of cases, not in the usual 2.5 %: it is one figure, and
  what it passes is not looked at again.
- "Nothing changed" is ruled out at one in {sure:,} before SLOWER is said. Where noise is small this
  changes nothing; with two modes the interval alone cries wolf.
- More baseline processes are better: at a process SD of 1 %, {most} catch +5 % in {most_caught} of
  tests and {fewest} in {fewest_caught}. `kernelpin record` takes {drawn} unless told otherwise.
"""
GOALS_HEAD = """\
| goal | compared with | process SD | offset | {baseline} processes | | {beside} processes | | at |
|---|---|---|---|---|---|---|---|---|"""


def page(
    plan: Plan, sessions: int, numpy: str, results: dict[Condition, Tally], evidence: str = ""
) -> str:
    """`evidence`: the name of the file in benchmarks/results that holds what was counted."""
    by_choice: dict[str, list[Tally]] = {}
    for told, condition in plan.choices():
        by_choice.setdefault(told, []).append(results[condition])
    as_it_is, counted = by_choice[AS_IT_IS][0], by_choice[COUNTED][0]
    saved = as_it_is.processes / as_it_is.tests - counted.processes / counted.tests
    other = by_choice[f"{plan.beside} baseline processes"][0]
    by_number = sorted([(plan.baseline, as_it_is), (plan.beside, other)], key=lambda it: it[0])
    (fewest, with_fewest), (most, with_most) = by_number
    if evidence:
        evidence = f" What was counted: [{evidence}](../benchmarks/results/{evidence})."
    written = WRITTEN.format(
        sessions=sessions, tests=TESTS, seed=SEED, numpy=numpy, evidence=evidence
    )
    simulated = SIMULATED.format(
        baseline=plan.baseline,
        as_stored=", as each card has recorded for `baselines/nvidia-h200`"
        if plan.baseline == BASELINE
        else "",
        least=MIN_DIFFERENCE_US,
        least_paired=MIN_DIFFERENCE_PAIRED_US,
        least_elsewhere=MIN_DIFFERENCE_OTHER_CARD_US,
    )
    return PAGE.format(
        written=_filled(written),
        simulated=_filled(simulated),
        sessions=sessions,
        verdict=verdict(plan, results),
        goals="\n".join(goal_rows(plan, results)),
        goals_head=GOALS_HEAD.format(baseline=plan.baseline, beside=plan.beside),
        unchanged_head=UNCHANGED_HEAD,
        slowed_head=SLOWED_HEAD,
        choices_head=CHOICES_HEAD,
        unchanged="\n".join(_unchanged_row(c, results[c]) for c in plan.unchanged()),
        slowed="\n".join(_slowed_row(c, results[c]) for c in plan.slowed()),
        choices="\n".join(_choice_row(told, *tallies) for told, tallies in by_choice.items()),
        saved=f"{saved:.1f}",
        screen=_percent(LOOK_LEVEL / 2),
        sure=round(1 / SURE_LEVEL),
        most=most,
        most_caught=_percent(with_most.share(SLOWER)),
        fewest=fewest,
        fewest_caught=_percent(with_fewest.share(SLOWER)),
        drawn=DRAWN,
    )


def verdict(plan: Plan, results: dict[Condition, Tally]) -> str:
    """Of the missed goals: which the other number of processes reaches, and why none does all."""
    told, unreachable = [], False
    for condition in plan.goals():
        other = plan.other(condition)
        tally, beside = results[condition], results[other]
        if _goal(condition, tally)[1]:
            continue
        if not condition.slowdown or not _goal(other, beside)[1]:
            unreachable = True
            continue
        rule = WHAT[condition.rule]
        told.append(
            FEWER.format(
                what=f"{rule[0].upper()}{rule[1:]}: +{condition.slowdown * 100:g} %",
                noise=condition.noise.name,
                baseline=plan.baseline,
                beside=plan.beside,
                share=_percent(tally.share(SLOWER)),
                unclear=_percent(tally.share(UNCLEAR)),
                same=_percent(tally.share(SAME)),
                beside_share=_percent(beside.share(SLOWER)),
            )
        )
    if unreachable:
        told.append(MISSED)
    return "\n\n".join(map(_filled, told)) or "Every goal is met."


def _filled(text: str) -> str:
    """Lines of 100 characters, no figure parted from its unit."""
    joined = " ".join(text.split()).replace(" %", "~%").replace(" µs", "~µs")
    filled = textwrap.fill(joined, 100, break_long_words=False, break_on_hyphens=False)
    return filled.replace("~", " ")


def _unchanged_row(condition: Condition, tally: Tally) -> str:
    suspects = "all" if condition.rule is PAIRED else f"{tally.suspects / tally.sessions:.2f}"
    return (
        f"| {WHAT[condition.rule]} | {condition.noise.name} | {_offset(condition)} | "
        f"{_percent(tally.share(SLOWER))} | {_percent(tally.share(UNCLEAR))} | {tally.red} | "
        f"{tally.red_in_ci} | {suspects} | {tally.processes / tally.tests:.2f} | "
        f"{tally.rivals_red['median:5%']} | {tally.rivals_red['min:5%']} |"
    )


def _slowed_row(condition: Condition, tally: Tally) -> str:
    shares = " | ".join(_percent(tally.share(it)) for it in (SLOWER, UNCLEAR, SAME))
    rivals = " | ".join(_percent(tally.rivals[it] / tally.tests) for it in ("median:5%", "min:5%"))
    return (
        f"| {WHAT[condition.rule]} | {condition.noise.name} | {_offset(condition)} | "
        f"+{condition.slowdown * 100:g} % | {shares} | {tally.processes / tally.tests:.1f} | "
        f"{rivals} |"
    )


def _choice_row(told: str, slow: Tally, modes: Tally, disturbed: Tally) -> str:
    return (
        f"| {told} | {_percent(slow.share(SLOWER))} | {_percent(slow.share(SAME))} | "
        f"{slow.processes / slow.tests:.1f} | {modes.red} | "
        f"{_percent(disturbed.share(UNCLEAR))} | {disturbed.processes / disturbed.tests:.2f} |"
    )
