"""Measure base and head in turn until each test is decided: what is asked for, and when it ends.

A pair is a process of each, one right after the other, so that clocks, temperature and neighbours
are the same for both. Which goes first alternates, so that a drift favours neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kernelpin.render import format_change
from kernelpin.stopwatch import Samples
from kernelpin.verdict import LOOKS, Outcome, Verdict
from kernelpin.workers import Results, WorkerResult
from kernelpin.workers.result import BEFORE_ANY_TEST, NO_SUCH_TEST, NOT_COLLECTED

MAX_CLOCK_DIFFERENCE = 0.02
MAX_REPEATS = 8  # of one test's pairs: a card that will not hold its clock decides nothing

NEW = "new in head: base has no such test"

Side = Literal["base", "head"]
Measure = Callable[[Side, Sequence[str]], Results]
Judge = Callable[[str, Sequence[float], Sequence[float], bool], Verdict]


@dataclass(frozen=True, slots=True)
class Pairs:
    """What a test's pairs came to.

    `base[i]` and `head[i]` are a pair, in time order; `repeated`: pairs that did not count.
    `verdict` is None where there is nothing to compare with: `reason` says why, and the test is
    judged against its stored baseline alone. `seconds`: what all pairs of the run took until then.
    """

    base: tuple[WorkerResult, ...]
    head: tuple[WorkerResult, ...]
    repeated: int
    verdict: Verdict | None
    reason: str | None
    seconds: float

    @property
    def figures(self) -> tuple[tuple[float, float], ...]:
        return tuple(zip(_figures(self.base), _figures(self.head), strict=True))


def new_in_head(root: Path, nodeids: Sequence[str]) -> dict[str, Pairs]:
    """The tests whose very file base, in `root`, does not have; no worker is asked for them.

    A worker given a file that is not there would measure none of the others.
    """
    gone = [it for it in nodeids if not (root / it.split("::", 1)[0]).is_file()]
    return {nodeid: Pairs((), (), 0, None, NEW, 0.0) for nodeid in gone}


def measure_pairs(
    nodeids: Sequence[str],
    measure: Measure,
    judge: Judge,
    left: Callable[[], float],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Pairs]:
    """Measure each test in 4 to 12 pairs, and no longer than it takes to decide.

    `measure(side, nodeids)` measures each test in one fresh process; `judge(nodeid, base, head,
    final)` judges the figures of the pairs; `left()` are the seconds that remain: a round that
    would take longer than the longest so far is not begun.
    """
    tests = {nodeid: _Test() for nodeid in nodeids}
    began, longest, rounds = clock(), 0.0, 0
    while open_ := [nodeid for nodeid, test in tests.items() if test.is_open]:
        if left() <= longest:
            break
        start = clock()
        sides: tuple[Side, Side] = ("base", "head") if rounds % 2 == 0 else ("head", "base")
        results = {side: measure(side, open_) for side in sides}
        rounds += 1
        for nodeid in open_:
            tests[nodeid].take(results["base"].get(nodeid), results["head"].get(nodeid))
            tests[nodeid].look(nodeid, judge, clock() - began)
        longest = max(longest, clock() - start)
    return {nodeid: test.settled(nodeid, judge, clock() - began) for nodeid, test in tests.items()}


class _Test:
    def __init__(self) -> None:
        self.base: list[WorkerResult] = []
        self.head: list[WorkerResult] = []
        self.repeated = 0
        self.why_repeated = ""
        self.reason: str | None = None
        self.verdict: Verdict | None = None
        self.cut_short = False
        self.seconds = 0.0

    @property
    def is_open(self) -> bool:
        decided = self.verdict is not None and self.verdict.decided
        worn_out = self.repeated >= MAX_REPEATS or len(self.base) >= LOOKS[-1]
        return not (decided or worn_out or self.cut_short or self.reason is not None)

    def take(self, base: WorkerResult | None, head: WorkerResult | None) -> None:
        self.reason = _unusable("base", base) or _unusable("head", head) or _unlike(base, head)
        if self.reason is not None:
            return
        if base is None or head is None or base.samples is None or head.samples is None:
            self.cut_short = True  # the budget ended in the middle of a pair
            return
        why = _uneven(base.samples, head.samples)
        if why is not None:
            self.repeated += 1
            self.why_repeated = why
            return
        self.base.append(base)
        self.head.append(head)

    def look(self, nodeid: str, judge: Judge, seconds: float) -> None:
        """Judge at the looks alone, where each side went first as often as the other."""
        self.seconds = seconds
        if self.reason is None and len(self.base) in LOOKS:
            self.verdict = judge(nodeid, _figures(self.base), _figures(self.head), False)

    def settled(self, nodeid: str, judge: Judge, seconds: float) -> Pairs:
        verdict = self.verdict
        if self.reason is None and (verdict is None or not verdict.decided):
            self.seconds = seconds
            verdict = self._last_word(nodeid, judge)
        return Pairs(
            base=tuple(self.base),
            head=tuple(self.head),
            repeated=self.repeated,
            verdict=None if self.reason is not None else verdict,
            reason=self.reason,
            seconds=self.seconds,
        )

    def _last_word(self, nodeid: str, judge: Judge) -> Verdict:
        told = f"{self.repeated} pairs were repeated ({self.why_repeated})" if self.repeated else ""
        if len(self.base) < LOOKS[0]:
            why = f"{len(self.base)} of {LOOKS[0]} pairs were measured"
            return Verdict(Outcome.UNCLEAR, "; ".join(filter(None, [why, told])))
        return judge(nodeid, _figures(self.base), _figures(self.head), True)


def _figures(results: Sequence[WorkerResult]) -> list[float]:
    return [result.samples.figure for result in results if result.samples is not None]


def _unusable(side: Side, result: WorkerResult | None) -> str | None:
    """Why a side has no figure of this test and will have none."""
    if result is None:
        return None
    if result.foreign:
        return result.foreign
    if result.outcome != "passed":
        not_collected = result.message == NOT_COLLECTED
        told = result.longrepr if not_collected else result.message
        lines = told.splitlines() or ["without a message"]
        if not_collected and side == "base" and lines[-1] == NO_SUCH_TEST:
            return NEW
        # Where collecting failed, the cause stands last: the import that base lacks.
        said = lines[-1].removeprefix("E").strip() if not_collected else lines[0]
        if last := _last_line(result):
            said = f"{said}: {last}"
        return f"{side} does not measure it ({result.outcome}): {said}"
    if result.samples is None or not result.samples.values:
        return f"{side} measures nothing that can be compared in pairs"
    return None


def _last_line(result: WorkerResult) -> str:
    """The last thing that a process said which ended before any test: most often its error."""
    if BEFORE_ANY_TEST not in result.message:
        return ""
    return next(
        (line.strip() for line in reversed(result.longrepr.splitlines()) if line.strip()), ""
    )


def _unlike(base: WorkerResult | None, head: WorkerResult | None) -> str | None:
    """Why the two sides measure different things."""
    if base is None or head is None or base.samples is None or head.samples is None:
        return None
    for what in ("metric", "input", "l2", "method"):
        before, after = getattr(base.samples, what), getattr(head.samples, what)
        if before != after:
            return f"base measures another {what}: {before}, head {after}"
    return None


def _uneven(base: Samples, head: Samples) -> str | None:
    """Why a pair does not count: the machine was not the same for both."""
    if why := base.reason or head.reason:
        return why
    before, after = base.sm_clock_mhz, head.sm_clock_mhz
    if before and after and abs(after / before - 1) > MAX_CLOCK_DIFFERENCE:
        return f"clocks differ: {before} and {after} MHz, {format_change(after / before)}"
    return None
