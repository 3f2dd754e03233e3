"""Judge what benchmarks/detection_gpu.py measured, by the product's own functions.

Each figure serves each method once. What the time did not suffice to decide is open, and is no
verdict. Runs on one card are one, if they are to be joined: the baseline is the first one's, and a
pair is always of two processes that followed each other in one run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median, stdev
from typing import Any

from kernelpin.base import MAX_CLOCK_DIFFERENCE
from kernelpin.verdict import (
    LOOKS,
    PAIRED,
    STORED_SAME_CARD,
    Outcome,
    is_suspect,
    judge,
    judge_pairs,
)

RULE_OF_RIVAL = 0.05
TROUBLES = ("cold", "hot", "stranger")
SHOWN = ("slower", "same", "faster", "unclear", "open")

Found = dict[str, Any]
Judged = Iterator[tuple[Outcome | None, float]]  # the outcome (None: open), and seconds


@dataclass
class Test:
    """One workload on one card: its processes' figures in time order, each by size."""

    name: str
    baseline: list[float]
    now: list[dict[str, Found]]
    pairs: list[tuple[dict[str, Found], dict[str, Found]]]
    troubled: dict[str, list[Found]]
    rival_baseline: float | None
    rivals: list[dict[str, dict[str, float]]]
    fast: list[bool]  # of `now`: unchanged, some workload of the process was FASTER

    def stored(self, size: str) -> Judged:
        """As a session screens and confirms; the next one begins with the next process."""
        have = [
            (one[size], fast)
            for one, fast in zip(self.now, self.fast, strict=True)
            if size in one and not one[size]["reason"]
        ]
        figures = iter(have)
        for screen, fast in figures:
            seconds, fresh = screen["seconds"], []
            outcome: Outcome | None = None
            if fast and not is_suspect(self.baseline, screen["us"], STORED_SAME_CARD):
                # Another process screens in its place.
                screen, _ = next(figures, (None, False))
                if screen is None:
                    yield None, seconds
                    return
                seconds += screen["seconds"]
            if not is_suspect(self.baseline, screen["us"], STORED_SAME_CARD):
                yield judge(self.baseline, [screen["us"]], STORED_SAME_CARD).outcome, seconds
                continue
            for figure, _ in figures:
                fresh.append(figure["us"])
                seconds += figure["seconds"]
                if len(fresh) in LOOKS:
                    verdict = judge(self.baseline, fresh, STORED_SAME_CARD)
                    if verdict.decided:
                        outcome = verdict.outcome
                        break
            yield outcome, seconds

    def paired(self, size: str) -> Judged:
        """Pairs until they decide, then the next ones."""
        yield from self._paired(size, turned=False)
        if size != "0":  # unchanged, the other way round is the same with its sign turned
            yield from self._paired(size, turned=True)

    def _paired(self, size: str, turned: bool) -> Judged:
        base: list[float] = []
        head: list[float] = []
        seconds = 0.0
        have = [pair for pair in self.pairs if all(size in one for one in pair)]
        for index, (first, second) in enumerate(have):
            if (index % 2 == 1) != turned:
                first, second = second, first
            before, after = first["0"], second[size]
            seconds += before["seconds"] + after["seconds"]
            if before["reason"] or after["reason"] or _apart(before["clock"], after["clock"]):
                continue
            base.append(before["us"])
            head.append(after["us"])
            if len(base) not in LOOKS:
                continue
            stored = judge(self.baseline, head, STORED_SAME_CARD, final=True)
            verdict = judge_pairs(base, head, PAIRED, stored=stored)
            if verdict.decided:
                # Against base, head is no slower: that was the question to the pairs.
                already = verdict.outcome is Outcome.ALREADY_SLOWER
                yield Outcome.SAME if already else verdict.outcome, seconds
                base, head, seconds = [], [], 0.0
        if base:
            yield None, seconds

    def rival(self, size: str) -> Judged:
        """One process against an earlier one."""
        for one in self.rivals:
            if self.rival_baseline is not None and size in one:
                slower = one[size]["median"] > self.rival_baseline * (1 + RULE_OF_RIVAL)
                yield Outcome.SLOWER if slower else Outcome.SAME, one[size]["seconds"]


METHODS: dict[str, Callable[[Test, str], Judged]] = {
    "stored, same card": Test.stored,
    "paired": Test.paired,
    "pytest-benchmark": Test.rival,
}


def _apart(before: float | None, after: float | None) -> bool:
    return bool(before and after and abs(after / before - 1) > MAX_CLOCK_DIFFERENCE)


def cases_of(processes: Sequence[Found], *, join: bool = False) -> list[Test]:
    """Every workload of every lane of every run, or of every card."""
    lanes: dict[tuple[Any, int], list[Found]] = defaultdict(list)
    for process in processes:
        if "error" not in process:
            lanes[process["uuid" if join else "run"], process["lane"]].append(process)
    cases = []
    for lane in lanes.values():
        in_order = sorted(lane, key=lambda it: (it["run"], it["number"]))
        own = [test for name in lane[0]["figures"] if (test := _test_of(in_order, name))]
        now = zip(*(test.now for test in own), strict=True)
        fast = [any(map(_is_faster, own, figures)) for figures in now]
        cases += [replace(test, fast=fast) for test in own]
    return cases


def _is_faster(test: Test, figures: dict[str, Found]) -> bool:
    unchanged = figures["0"]
    if unchanged["reason"]:
        return False
    verdict = judge(test.baseline, [unchanged["us"]], STORED_SAME_CARD)
    return verdict.outcome is Outcome.FASTER


def _test_of(lane: list[Found], name: str) -> Test | None:
    def of(role: str) -> list[Found]:
        return [process for process in lane if process["role"] == role]

    first = min((process["run"] for process in of("baseline")), default=0)
    unchanged = [p["figures"][name]["0"] for p in of("baseline") if p["run"] == first]
    baseline = [figure["us"] for figure in unchanged if not figure["reason"]]
    if len(baseline) < 2:
        return None
    rivals = [_rival(process, name) for process in of("now") if "rival" in process]
    earlier = [_rival(process, name) for process in of("baseline")]
    return Test(
        name=name,
        baseline=baseline,
        now=[process["figures"][name] for process in of("now")],
        pairs=list(_pairs(of("now"), name)),
        troubled={it: [p["figures"][name]["0"] for p in of(it)] for it in TROUBLES},
        rival_baseline=next((one["0"]["median"] for one in earlier if "0" in one), None),
        rivals=rivals,
        fast=[],
    )


def _pairs(now: list[Found], name: str) -> Iterator[tuple[dict[str, Found], dict[str, Found]]]:
    """Each process with the next, of one run; every process is in one pair at most."""
    runs: dict[int, list[Found]] = defaultdict(list)
    for process in now:
        runs[process["run"]].append(process["figures"][name])
    for figures in runs.values():
        yield from zip(figures[0::2], figures[1::2], strict=False)


def _rival(process: Found, name: str) -> dict[str, dict[str, float]]:
    """What the rival says of a call: it was given a replay of as many as our own sample holds."""
    told: dict[str, dict[str, float]] = {}
    for key, figure in process.get("rival", {}).items():
        workload, _, size = key.rpartition("|")
        if workload == name:
            calls = process["figures"][name][size]["calls"]
            told[size] = {**figure, "median": figure["median"] / calls}
    return told


def results_of(tests: Sequence[Test], sizes: Sequence[str]) -> list[Found]:
    """A row a method and size: how many verdicts of each kind, and seconds of measuring each."""
    rows: list[Found] = []
    for method, verdicts in METHODS.items():
        for size in sizes:
            counts: Counter[str] = Counter()
            by_workload: dict[str, Counter[str]] = defaultdict(Counter)
            seconds = []
            for test in tests:
                for outcome, took in verdicts(test, size):
                    name = "open" if outcome is None else str(outcome)
                    counts[name] += 1
                    by_workload[test.name][name] += 1
                    seconds += [took] if outcome is not None else []
            rows.append(
                {
                    "method": method,
                    "size": size,
                    "counts": dict(counts),
                    "by_workload": {name: dict(told) for name, told in by_workload.items()},
                    "seconds": mean(seconds) if seconds else None,
                }
            )
    return rows


def troubles_of(tests: Sequence[Test]) -> list[Found]:
    """What the gate says of unchanged code; a figure taken beside a stranger is UNCLEAR, and so
    is a suspect that the time did not suffice to measure again."""
    rows: list[Found] = []
    for trouble in TROUBLES:
        counts: Counter[str] = Counter()
        for test in tests:
            figures = test.troubled[trouble]
            clean = [figure["us"] for figure in figures[1:] if not figure["reason"]]
            if not figures:
                continue
            if figures[0]["reason"]:
                counts["unclear (disturbed)"] += 1
            elif not is_suspect(test.baseline, figures[0]["us"], STORED_SAME_CARD):
                counts["same"] += 1
            elif len(clean) >= LOOKS[0]:
                counts[judge(test.baseline, clean, STORED_SAME_CARD, final=True).outcome] += 1
            else:
                counts["unclear (not decided)"] += 1
        if counts:
            rows.append({"trouble": trouble, "counts": dict(counts)})
    return rows


def workloads_of(tests: Sequence[Test], sizes: Sequence[str]) -> list[Found]:
    """How long each takes, how far its processes differ, and what the slowdowns measured."""
    rows: list[Found] = []
    for name in dict.fromkeys(test.name for test in tests):
        own = [test for test in tests if test.name == name]
        measured: dict[str, float] = {}
        for size in sizes:
            ratios = [
                one[size]["us"] / median(process["0"]["us"] for process in test.now) - 1
                for test in own
                for one in test.now
                if size in one and not one[size]["reason"]
            ]
            measured |= {size: mean(ratios)} if ratios else {}
        rows.append(
            {
                "workload": name,
                "us": median(value for test in own for value in test.baseline),
                "spread": mean(stdev(test.baseline) / mean(test.baseline) for test in own),
                "measured": measured,
            }
        )
    return sorted(rows, key=lambda row: float(row["us"]))


def report(processes: Sequence[Found], *, join: bool = False) -> tuple[str, Found]:
    """The short table, and all that went into it."""
    tests = cases_of(processes, join=join)
    sizes = sorted({size for test in tests for one in test.now for size in one}, key=float)
    good = [process for process in processes if "error" not in process]
    told = ("gpu", "driver", "torch", "chain")
    data: Found = {
        "machine": {key: good[0][key] for key in told} if good else {},
        "cards": len({process["uuid"] for process in good}),
        "processes": dict(Counter(process["role"] for process in good)),
        "failed": [process["error"] for process in processes if "error" in process],
        "workloads": workloads_of(tests, sizes),
        "results": results_of(tests, sizes),
        "troubles": troubles_of(tests),
    }
    return "\n".join(_lines(data, sizes)), data


def _lines(data: Found, sizes: Sequence[str]) -> Iterator[str]:
    yield ", ".join(f"{key} {value}" for key, value in data["machine"].items())
    processes = ", ".join(f"{count} {role}" for role, count in data["processes"].items())
    yield f"{data['cards']} cards; processes: {processes}; {len(data['failed'])} failed"
    planted = "".join(f"{f'+{size} %':>8}" for size in sizes)
    yield f"\n{'workload':26}{'µs':>10}{'SD':>8}   measured at{planted}"
    for row in data["workloads"]:
        measured = "".join(f"{100 * value:+8.2f}" for value in row["measured"].values())
        yield f"{row['workload']:26}{row['us']:10.2f}{row['spread']:8.2%}{'':14}{measured}"
    if sizes:
        yield f"\n{'method':20}{'size':>6}{''.join(f'{it:>9}' for it in SHOWN)}   called  s each"
    for row in data["results"]:
        counts = row["counts"]
        judged = sum(counts.values()) - counts.get("open", 0)
        if judged:
            yield (
                f"{row['method']:20}{'+' + row['size'] + ' %':>6}"
                + "".join(f"{counts.get(it, 0):9}" for it in SHOWN)
                + f"{counts.get('slower', 0) / judged:9.1%}{row['seconds']:8.2f}"
            )
    for row in data["troubles"]:
        counted = ", ".join(f"{count} {it}" for it, count in row["counts"].items())
        yield f"unchanged, under trouble ({row['trouble']}): {counted}"
