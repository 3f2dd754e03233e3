"""Suspects in base and head: both sides' processes, and each test judged by pairs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from kernelpin.baselines import Found
from kernelpin.machine import Gpu
from kernelpin.render import count
from kernelpin.session.compared import Base, Compared
from kernelpin.session.evidence import Evidence
from kernelpin.stopwatch import KernelFigure
from kernelpin.verdict import LOOKS, PAIRED, Outcome, Rule, Verdict, judge_pairs
from kernelpin.workers import Budget, Results, Source, WorkerResult


def compare(
    tests: Mapping[str, Evidence],
    wanted: Sequence[str],
    base: Base,
    head: Source,
    budget: Budget,
) -> dict[str, Compared]:
    """Measure base and head in turn until each test is decided or the budget ends."""
    from kernelpin.base import Side, measure_pairs, new_in_head

    sources: dict[Side, Source] = {"base": base.source, "head": head}
    kernels: dict[Side, dict[str, tuple[KernelFigure, ...]]] = defaultdict(dict)
    gpus: dict[str, Gpu | None] = {}
    failed: dict[str, WorkerResult] = {}
    taken: dict[Side, int] = {"base": 0, "head": 0}

    def measure(side: Side, nodeids: Sequence[str]) -> Results:
        if taken["base"] == taken["head"] and taken[side] in (0, *LOOKS[:-1]):
            until_next_look = next(look for look in LOOKS if look > taken[side]) - taken[side]
            for source in sources.values():
                source.prepare(nodeids, until_next_look)
        taken[side] += 1
        # A process lists kernels after it has timed, so that the figures stay what they are.
        listed = side in kernels
        results = sources[side].measure(
            nodeids, kernels=not listed, what=f"measuring {base.ref if side == 'base' else 'head'}"
        )
        kernels[side].update(_kernels(results))
        if side == "base":
            gpus.update({nodeid: result.gpu for nodeid, result in results.items()})
        if side == "head":
            failed.update({id_: r for id_, r in results.items() if r.outcome != "passed"})
        return results

    def judge(nodeid: str, before: Sequence[float], after: Sequence[float], final: bool) -> Verdict:
        test = tests[nodeid]
        stored = None
        if isinstance(test.baseline, Found) and test.error is None:
            stored = test.judged_stored(test.baseline, list(after), final=final)
        return judge_pairs(before, after, rule_of(test), stored=stored, final=final)

    compared: dict[str, Compared] = {}
    new = {} if base.root is None else new_in_head(base.root, wanted)
    both = [nodeid for nodeid in wanted if nodeid not in new]
    found = new | measure_pairs(both, measure, judge, lambda: budget.left)
    for nodeid, pairs in found.items():
        failure = [failed[nodeid]] if nodeid in failed else []
        compared[nodeid] = Compared(
            ref=base.ref,
            verdict=pairs.verdict,
            reason=pairs.reason,
            head=(*pairs.head, *failure),
            pairs=pairs.figures,
            kernels_base=kernels["base"].get(nodeid),
            kernels_head=kernels["head"].get(nodeid),
            gpu_base=gpus.get(nodeid),
        )
    return compared


def not_compared(tests: Iterable[Compared]) -> list[str]:
    """What base said nothing of, each reason once; that a test is new in head is none."""
    from kernelpin.base import NEW

    reasons: Counter[tuple[str, str]] = Counter()
    for test in tests:
        verdict = test.verdict
        if verdict is None:
            reasons[test.ref, test.reason or "it measured nothing"] += test.reason != NEW
        elif verdict.outcome is Outcome.UNCLEAR:
            reasons[test.ref, verdict.reason] += 1
    return [
        f"{ref} decided nothing about {count(number, 'test')}: {reason}"
        for (ref, reason), number in reasons.items()
        if number
    ]


def rule_of(test: Evidence) -> Rule:
    """The paired rule; a limit of the test's own holds in either comparison."""
    limit = test.case.limit
    return PAIRED if limit is None else PAIRED.with_limit(limit, 0.0)


def _kernels(results: Results) -> dict[str, tuple[KernelFigure, ...]]:
    return {
        nodeid: found.samples.kernels
        for nodeid, found in results.items()
        if found.samples is not None and found.samples.kernels is not None
    }
