"""What becomes of a measured test: its outcome, what is said of it, and its row in the report."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernelpin.baselines import Found
from kernelpin.render import clean
from kernelpin.report import Kernel, Paired, Row
from kernelpin.session import message
from kernelpin.session.case import Case, Settings
from kernelpin.session.compared import Compared
from kernelpin.session.evidence import Evidence
from kernelpin.stopwatch import KernelFigure
from kernelpin.verdict import Outcome, Verdict, fails
from kernelpin.workers import WorkerResult


@dataclass(frozen=True, slots=True)
class Judgement:
    """A test's own outcome (`passed`, `failed`, `skipped`, `xfailed`) and what is to be said.

    `message`: the failure, whose first line stands alone, or the reason of a skip. `text`: the
    worker's own traceback, shown as it is. `properties` go to JUnit. `seconds`: the first
    process's samples, for pytest-benchmark.
    """

    nodeid: str
    outcome: str
    row: Row
    message: str = ""
    text: str = ""
    output: str = ""
    path: str | None = None
    line: int | None = None
    properties: tuple[tuple[str, str], ...] = ()
    seconds: tuple[float, ...] = ()
    tells_how_to_record: bool = False


def judgement_of(
    test: Evidence,
    settings: Settings,
    *,
    unclear: str | None = None,
    refused: str | None = None,
    recorded: bool = False,
    brief: bool = False,
) -> Judgement:
    """Turn a test's final verdict into its outcome.

    `unclear` fails every UNCLEAR test (too many are); `recorded`: its figures are stored now, or
    `refused` says why not; `brief`: how to record a baseline was said before.
    """
    if test.ending is not None:
        return _ended(test, test.ending)
    if test.error is not None or test.verdict is None:
        return _error(test, test.error or "it was not judged")
    if refused is not None:
        return _error(test, f"not recorded: {refused}")
    verdict = test.verdict
    row = _row(test, verdict)
    result = Judgement(
        nodeid=test.case.nodeid,
        outcome="passed",
        row=row,
        properties=_properties(row),
        seconds=_seconds(test),
    )
    if recorded:
        reason = f"recorded from {len(test.recorded)} processes"
        return replace(result, row=replace(row, outcome="same", reason=reason))
    ci = settings.ci is not None
    unclear = unclear if verdict.outcome is Outcome.UNCLEAR else None
    if fails(verdict, ci=ci) or unclear is not None:
        text = message.failure(test, verdict, settings, unclear=unclear, brief=brief)
        return replace(
            result,
            outcome="failed",
            message=text,
            row=replace(row, failed=True, message=text),
            tells_how_to_record=verdict.outcome is Outcome.NO_BASELINE,
        )
    if verdict.outcome in (Outcome.NO_BASELINE, Outcome.INCOMPARABLE):
        return replace(result, outcome="skipped", message=message.skip(test, verdict))
    return result


def skipped_without_gpu(case: Case, why: str) -> Judgement:
    """A test that was not measured since there is no GPU."""
    reason = f"no GPU: {why}"
    return Judgement(case.nodeid, "skipped", replace(row_of(case), reason=reason), message=reason)


def row_of(case: Case) -> Row:
    """The row of a test of which no more is known than where it stands."""
    return Row(nodeid=case.nodeid, outcome="skipped", file=case.file, line=case.line)


def _ended(test: Evidence, ending: WorkerResult) -> Judgement:
    """The worker's failure, skip or xfail is the test's own."""
    line1 = clean(ending.message.split("\n", 1)[0])
    row = replace(row_of(test.case), reason=line1, gpu=test.gpu.name if test.gpu else None)
    if ending.outcome == "failed":
        row = replace(row, outcome="error", failed=True, message=ending.longrepr)
    return Judgement(
        nodeid=test.case.nodeid,
        outcome=ending.outcome,
        row=row,
        message=ending.message,
        text=ending.longrepr,
        output=ending.output,
        path=ending.path,
        line=ending.line,
    )


def _error(test: Evidence, why: str) -> Judgement:
    row = row_of(test.case)
    gpu = test.gpu.name if test.gpu else None
    reason = why.split("\n", 1)[0]
    return Judgement(
        nodeid=test.case.nodeid,
        outcome="failed",
        message=why,
        row=replace(row, outcome="error", failed=True, reason=reason, message=why, gpu=gpu),
        seconds=_seconds(test),
    )


def _row(test: Evidence, verdict: Verdict) -> Row:
    found = test.baseline if isinstance(test.baseline, Found) else None
    metric = test.metric or "trace"
    outcome = verdict.outcome.replace("_", " ")
    if metric == "counts" and verdict.outcome is Outcome.SLOWER:
        outcome = "other counts"
    now, baseline = verdict.now, verdict.baseline
    if now is None and metric not in ("counts", "trace") and test.figures:
        now = sorted(test.figures)[len(test.figures) // 2]
    if verdict.outcome is Outcome.INCOMPARABLE:
        baseline = None
    if metric == "host_ratio":
        # It is compared with a bound and not with a baseline: none of its changes is one in time.
        verdict = replace(verdict, ratio=None, low=None, high=None, rule=None, detectable=None)
    return replace(
        row_of(test.case),
        outcome=outcome,
        metric=metric,
        gpu=test.gpu.name if test.gpu else None,
        baseline=baseline,
        now=now,
        ratio=verdict.ratio,
        low=verdict.low,
        high=verdict.high,
        limit=verdict.rule.limit if verdict.rule else None,
        detectable=verdict.detectable,
        bound=_bound(test),
        processes_baseline=verdict.n_baseline or None,
        processes_now=verdict.n_now or len(test.figures) or None,
        reason=verdict.reason,
        kernels_before=_kernels_before(found),
        kernels_now=_kernels(test.kernels),
        machine=message.machine_notes(test),
        reference=found.entry.cite if found is not None and found.is_reference else None,
        paired=None if test.compared is None else _paired(test.compared),
    )


def _bound(test: Evidence) -> str | None:
    last = test.results[-1] if test.results else None
    if last is None:
        return None
    bounds = (("below", last.below), ("above", last.above))
    return " and ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None) or None


def _paired(compared: Compared) -> Paired:
    verdict = compared.verdict
    if verdict is None:
        return Paired(compared.ref, "not compared", reason=compared.reason)
    return Paired(
        ref=compared.ref,
        outcome=verdict.outcome.replace("_", " "),
        base=verdict.baseline,
        head=verdict.now,
        ratio=verdict.ratio,
        low=verdict.low,
        high=verdict.high,
        limit=verdict.rule.limit if verdict.rule else None,
        pairs=compared.pairs,
        reason=verdict.reason,
        kernels_base=_kernels(compared.kernels_base),
        kernels_head=_kernels(compared.kernels_head),
    )


def _kernels(kernels: tuple[KernelFigure, ...] | None) -> tuple[Kernel, ...] | None:
    if kernels is None:
        return None
    return tuple(Kernel(k.name, k.count, k.median_us) for k in kernels)


def _kernels_before(found: Found | None) -> tuple[Kernel, ...] | None:
    if found is None or not found.entry.kernels:
        return None
    return tuple(Kernel(k.name, k.count, k.median_us) for k in found.entry.kernels)


def _seconds(test: Evidence) -> tuple[float, ...]:
    first = test.first
    if first is None or first.metric not in ("device_us", "kernel_us"):
        return ()
    return tuple(value * 1e-6 for value in first.values)


def _properties(row: Row) -> tuple[tuple[str, str], ...]:
    told = {
        "metric": row.metric,
        "baseline": row.baseline,
        "now": row.now,
        "limit": row.limit,
        "verdict": row.outcome,
        "GPU": row.gpu,
    }
    return tuple((f"kernelpin.{name}", _plain(value)) for name, value in told.items())


def _plain(value: str | float | None) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value
