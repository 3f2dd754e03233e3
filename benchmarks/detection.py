"""Simulate how well the verdicts detect: `python benchmarks/detection.py` → docs/detection.md.

Sessions of 60 tests with the noise measured on an H200, judged by the very code that judges a run
(kernelpin.verdict.evidence); on the same draws, what pytest-benchmark 5.3.1 says with
`--benchmark-compare-fail=median:5%` and `min:5%`. Seeded: the same table on every machine with
this numpy. 20,000 sessions take a few minutes on one core.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a script, too

from benchmarks.sessions import (
    BACK_TO_BACK,
    BASELINE,
    DISTURBED,
    MODES,
    MODES_ONE,
    ONE,
    QUIET,
    SAME,
    SEED,
    SLOWER,
    TESTS,
    UNCLEAR,
    Condition,
    Tally,
    simulate,
)
from kernelpin.verdict import PAIRED, STORED, STORED_SAME_CARD
from kernelpin.verdict.evidence import LOOK_LEVEL, SURE_LEVEL

SHOWN = (STORED, STORED_SAME_CARD, PAIRED)
AS_IT_IS, COUNTED = "as it is", "the screening figure counts as evidence"
MISSED = """\
What is missed no rule can have. Where an offset of SD 2 % moves each test by itself, catching +8 %
in 95 % of cases means to call what measures +4.7 %, and the offset alone is beyond that in 0.9 % of
tests, in 43 % of sessions; for +5 % at an SD of 1 % it is 2.3 % of sessions. And twelve pairs at a
process SD of 1 % leave ± 0.8 % in a plain 95 % interval, where ± 0.5 % fits between limit and
catch."""
WHAT = {STORED: "another card (5 / 8 %)", STORED_SAME_CARD: "same card (3 / 5 %)"}
WHAT[PAIRED] = "base against head (1 / 2 %)"


def unchanged() -> Iterator[Condition]:
    for rule in SHOWN:
        for noise in (QUIET, ONE, MODES, MODES_ONE, BACK_TO_BACK):
            yield Condition(rule, noise)
    for offset in (0.01, 0.02):
        for own in (False, True):
            yield Condition(STORED, QUIET, offset=offset, own_offset=own)
    for own in (False, True):
        yield Condition(STORED_SAME_CARD, QUIET, offset=0.01, own_offset=own)


def slowed() -> Iterator[Condition]:
    for rule in SHOWN:
        for noise in (QUIET, ONE):
            for slowdown in (rule.limit, rule.catch, 2 * rule.catch):
                yield Condition(rule, noise, slowdown)
    for offset in (0.01, 0.02):
        for slowdown in (0.08, 0.16):
            yield Condition(STORED, QUIET, slowdown, offset)


def choices() -> list[tuple[str, Condition]]:
    card = STORED_SAME_CARD
    rows = []
    for told, change in (
        (AS_IT_IS, {}),
        (COUNTED, {"counts_screen": True}),
        ("screen at the usual 2.5 %", {"screen_level": 0.05}),
        ("8 baseline processes", {"n_baseline": 8}),
        ("the interval alone decides", {"guarded": False}),
    ):
        for noise, slowdown in ((ONE, card.catch), (MODES, 0.0), (DISTURBED, 0.0)):
            rows.append((told, replace(Condition(card, noise, slowdown), **change)))
    return rows


def goal_rows(results: dict[Condition, Tally]) -> list[str]:
    rows = []
    for condition, tally in results.items():
        if condition.noise is BACK_TO_BACK:
            continue
        case = f"{WHAT[condition.rule]} | {condition.noise.name} | {_offset(condition)}"
        if not condition.slowdown:
            rows.append(
                f"| no false SLOWER | {case} | {tally.red} of {tally.sessions:,} sessions | "
                f"< 1 % | {_met(tally.red / tally.sessions < 0.01)} |"
            )
        elif condition.slowdown == condition.rule.catch:
            share = tally.share(SLOWER)
            rows.append(
                f"| caught at +{condition.slowdown * 100:g} % | {case} | {_percent(share)} of "
                f"{tally.tests:,} tests | ≥ 95 % | {_met(share >= 0.95)} |"
            )
    return sorted(rows, key=lambda row: "caught" in row)


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

PAGE = """# How well the verdicts detect: a simulation

Written by `benchmarks/detection.py`: {sessions:,} sessions of {tests} tests for each row, seed
{seed}, numpy {numpy}. It runs the code that judges a run, on draws with the noise measured on an
H200: a standard deviation of 0.2 to 0.5 % between processes, for samples of 2.5 ms with pauses. 1 %
is twice that and more, 1.2 to 3.7 % is what timing back to back gives, and "two modes" means that a
quarter of all processes is 12 % slower, in the baseline as now, for every test of the session. A
simulation shows what the rule makes of such noise. Whether a GPU's noise is such is for
`benchmarks/detection_gpu.py` to measure.

A baseline has {baseline} processes. One process screens; a suspect gets 4 fresh ones, then 6, 8, 10
and 12 while the interval does not decide. Base and head are measured in 4 to 12 interleaved pairs,
here for every test. *Offset* is the SD of what this card and day differ from the baseline's by,
drawn once a session for all its tests, or for each test.

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
- Twelve baseline processes, not eight: at a process SD of 1 % eight do not reach 95 %.
"""
GOALS_HEAD = """\
| goal | compared with | process SD | offset | result | goal | |
|---|---|---|---|---|---|---|"""


def page(sessions: int, main: dict[Condition, Tally], rows: list[tuple[str, Tally]]) -> str:
    goals = goal_rows(main)
    missed = [line for line in goals if "missed" in line]
    by_choice: dict[str, list[Tally]] = {}
    for told, tally in rows:
        by_choice.setdefault(told, []).append(tally)
    as_it_is, counted = (
        by_choice["as it is"][0],
        by_choice["the screening figure counts as evidence"][0],
    )
    saved = as_it_is.processes / as_it_is.tests - counted.processes / counted.tests
    return PAGE.format(
        sessions=sessions,
        tests=TESTS,
        seed=SEED,
        numpy=np.__version__,
        baseline=BASELINE,
        goals="\n".join(goals),
        verdict=MISSED if missed else "Every goal is met.",
        goals_head=GOALS_HEAD,
        unchanged_head=UNCHANGED_HEAD,
        slowed_head=SLOWED_HEAD,
        choices_head=CHOICES_HEAD,
        unchanged="\n".join(
            f"| {WHAT[c.rule]} | {c.noise.name} | {_offset(c)} | {_percent(t.share(SLOWER))} | "
            f"{_percent(t.share(UNCLEAR))} | {t.red} | {t.red_in_ci} | "
            f"{'all' if c.rule is PAIRED else f'{t.suspects / t.sessions:.2f}'} | "
            f"{t.processes / t.tests:.2f} | {t.rivals_red['median:5%']} | "
            f"{t.rivals_red['min:5%']} |"
            for c, t in main.items()
            if not c.slowdown
        ),
        slowed="\n".join(
            f"| {WHAT[c.rule]} | {c.noise.name} | {_offset(c)} | +{c.slowdown * 100:g} % | "
            f"{_percent(t.share(SLOWER))} | {_percent(t.share(UNCLEAR))} | "
            f"{_percent(t.share(SAME))} | {t.processes / t.tests:.1f} | "
            f"{_percent(t.rivals['median:5%'] / t.tests)} | "
            f"{_percent(t.rivals['min:5%'] / t.tests)} |"
            for c, t in main.items()
            if c.slowdown
        ),
        choices="\n".join(
            f"| {told} | {_percent(slow.share(SLOWER))} | {_percent(slow.share(SAME))} | "
            f"{slow.processes / slow.tests:.1f} | {modes.red} | "
            f"{_percent(disturbed.share(UNCLEAR))} | {disturbed.processes / disturbed.tests:.2f} |"
            for told, (slow, modes, disturbed) in by_choice.items()
        ),
        saved=f"{saved:.1f}",
        screen=_percent(LOOK_LEVEL / 2),
        sure=round(1 / SURE_LEVEL),
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs/detection.md")
    args = parser.parse_args(argv)
    began = time.perf_counter()
    asked = [*unchanged(), *slowed()]
    told = choices()
    results = simulate(list(dict.fromkeys([*asked, *(c for _, c in told)])), args.sessions)
    text = page(
        args.sessions, {c: results[c] for c in asked}, [(name, results[c]) for name, c in told]
    )
    args.out.write_text(text, encoding="utf-8")
    print(text)
    print(f"{time.perf_counter() - began:.0f} s; written to {args.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
