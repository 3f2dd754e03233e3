"""Simulate how well the verdicts detect: `python benchmarks/detection.py` → docs/detection.md.

Sessions of 60 tests with the noise measured on an H200, judged by the very code that judges a run
(kernelpin.verdict.evidence); on the same draws, what pytest-benchmark 5.3.1 says with
`--benchmark-compare-fail=median:5%` and `min:5%`. Seeded: the same table on every machine with
this numpy. 20,000 sessions take some minutes on one core; `--counts` keeps what was counted, and
`--from` writes the page of it again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a script, too

from benchmarks.detection_page import AS_IT_IS, COUNTED, page
from benchmarks.sessions import (
    BACK_TO_BACK,
    BASELINE,
    DISTURBED,
    DRAWN,
    MODES,
    MODES_ONE,
    NAMES,
    ONE,
    QUIET,
    SEED,
    Condition,
    Tally,
    simulate,
)
from kernelpin.verdict import MIN_SCREEN_BASELINE, PAIRED, STORED, STORED_SAME_CARD

SHOWN = (STORED, STORED_SAME_CARD, PAIRED)


@dataclass(frozen=True)
class Plan:
    """What to simulate: the rows of the page, for baselines of so many processes.

    `beside`: the number that the goals and a choice are told for as well.
    """

    baseline: int = BASELINE

    @property
    def beside(self) -> int:
        return DRAWN if self.baseline != DRAWN else BASELINE

    def unchanged(self) -> Iterator[Condition]:
        for rule in SHOWN:
            for noise in (QUIET, ONE, MODES, MODES_ONE, BACK_TO_BACK):
                yield self._condition(rule, noise)
        for offset in (0.01, 0.02):
            for own in (False, True):
                yield self._condition(STORED, QUIET, offset=offset, own_offset=own)
        for own in (False, True):
            yield self._condition(STORED_SAME_CARD, QUIET, offset=0.01, own_offset=own)

    def slowed(self) -> Iterator[Condition]:
        for rule in SHOWN:
            for noise in (QUIET, ONE):
                for slowdown in (rule.limit, rule.catch, 2 * rule.catch):
                    yield self._condition(rule, noise, slowdown)
        for offset in (0.01, 0.02):
            for slowdown in (0.08, 0.16):
                yield self._condition(STORED, QUIET, slowdown, offset)

    def goals(self) -> list[Condition]:
        quiet = [it for it in self.unchanged() if it.noise is not BACK_TO_BACK]
        return quiet + [it for it in self.slowed() if it.slowdown == it.rule.catch]

    def choices(self) -> Iterator[tuple[str, Condition]]:
        card = STORED_SAME_CARD
        for told, change in (
            (AS_IT_IS, {}),
            (COUNTED, {"counts_screen": True}),
            ("screen at the usual 2.5 %", {"screen_level": 0.05}),
            (f"{self.beside} baseline processes", {"n_baseline": self.beside}),
            ("the interval alone decides", {"guarded": False}),
        ):
            for noise, slowdown in ((ONE, card.catch), (MODES, 0.0), (DISTURBED, 0.0)):
                yield told, replace(self._condition(card, noise, slowdown), **change)

    def conditions(self) -> list[Condition]:
        """All of them, each once."""
        rows = [*self.unchanged(), *self.slowed(), *(it for _, it in self.choices())]
        return list(dict.fromkeys([*rows, *map(self.other, self.goals())]))

    def other(self, condition: Condition) -> Condition:
        return replace(condition, n_baseline=self.beside)

    def _condition(self, *args: object, **kwargs: object) -> Condition:
        return Condition(*args, n_baseline=self.baseline, **kwargs)


def counts(plan: Plan, sessions: int, results: dict[Condition, Tally]) -> str:
    """What was counted, one condition a line, for a reader and for `counted`."""
    head = {"seed": SEED, "numpy": np.__version__, "sessions": sessions, "baseline": plan.baseline}
    rows = [_described(condition) | _as_told(tally) for condition, tally in results.items()]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f'{{{json.dumps(head)[1:-1]}, "counted": [\n{lines}\n]}}\n'


def counted(path: Path) -> tuple[Plan, int, str, dict[Condition, Tally]]:
    """The plan, sessions, numpy and results of a file that `--counts` wrote."""
    file = json.loads(path.read_text(encoding="utf-8"))
    plan = Plan(file["baseline"])
    results = {}
    for condition, row in zip(plan.conditions(), file["counted"], strict=True):
        known = _described(condition)
        if {name: row.get(name) for name in known} != known:
            raise SystemExit(f"{path} is of another simulation: {row}, where {known} is asked for")
        told = {name: row[name] for name in vars(Tally())}
        told |= {name: Counter(told[name]) for name in ("rivals", "rivals_red")}
        told["verdicts"] = Counter(
            {code: told["verdicts"][name.name] for code, name in enumerate(NAMES)}
        )
        results[condition] = Tally(**told)
    return plan, file["sessions"], file["numpy"], results


def _described(condition: Condition) -> dict[str, object]:
    return vars(condition) | {
        "rule": f"{condition.rule.limit:g} / {condition.rule.catch:g}",
        "noise": condition.noise.name,
    }


def _as_told(tally: Tally) -> dict[str, object]:
    return vars(tally) | {
        "verdicts": {name.name: tally.verdicts[code] for code, name in enumerate(NAMES)}
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=20_000)
    parser.add_argument(
        "--baseline", type=int, default=BASELINE, metavar="N", help="processes of a baseline"
    )
    parser.add_argument("--counts", type=Path, help="where to keep what was counted")
    parser.add_argument(
        "--from", dest="source", type=Path, help="tell the counts of this file, simulate nothing"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs/detection.md")
    args = parser.parse_args(argv)
    if args.baseline < MIN_SCREEN_BASELINE:
        parser.error(
            f"--baseline {args.baseline}: fewer than {MIN_SCREEN_BASELINE} processes screen nothing"
        )
    began = time.perf_counter()
    if args.source is not None:
        plan, sessions, numpy, results = counted(args.source)
    else:
        plan, sessions, numpy = Plan(args.baseline), args.sessions, np.__version__
        results = simulate(plan.conditions(), sessions)
        if args.counts is not None:
            args.counts.write_text(counts(plan, sessions, results), encoding="utf-8")
    kept = args.source or args.counts
    text = page(plan, sessions, numpy, results, kept.name if kept is not None else "")
    args.out.write_text(text, encoding="utf-8")
    print(text)
    print(f"{time.perf_counter() - began:.0f} s; written to {args.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
