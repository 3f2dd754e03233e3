"""The rows of a report, and the one sentence that counts them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

# What a check can come to, as a reader reads it: a verdict's outcomes, and what checks without a
# figure add. The order is that of the headline.
OUTCOMES = (
    "error",
    "slower",
    "other kernels",
    "other ops",
    "other counts",
    "no baseline",
    "incomparable",
    "already slower",
    "faster",
    "same",
    "unclear",
    "skipped",
)
# Those of a claim about a trace that failed.
CLAIMS = ("other kernels", "other ops")
# What a reader wants to see first, among failures and among the rest.
_WORST = (
    "slower",
    "other kernels",
    "other ops",
    "other counts",
    "error",
    "unclear",
    "no baseline",
    "incomparable",
    "already slower",
    "faster",
    "skipped",
    "same",
)
_SEVERITY = {outcome: rank for rank, outcome in enumerate(_WORST)}


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel a call runs: how often, and its median duration where it is known."""

    name: str
    count: float = 1
    median_us: float | None = None


@dataclass(frozen=True, slots=True)
class Paired:
    """The comparison with the base branch, interleaved on the same card.

    `base` and `head` are medians in the row's unit, `pairs` the (base, head) figures in time
    order, `ratio`, `low` and `high` head over base with its 95 % interval.
    """

    ref: str
    outcome: str
    base: float | None = None
    head: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float | None = None
    pairs: tuple[tuple[float, float], ...] = ()
    reason: str | None = None
    kernels_base: tuple[Kernel, ...] | None = None
    kernels_head: tuple[Kernel, ...] | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """Something of the environment that is not what the baselines were recorded with."""

    what: str
    baseline: str
    now: str
    tests: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One check and what it came to.

    `outcome` is a verdict's in words ("already slower"), or "other kernels" (a claim about a trace
    failed; "other ops" where it was about what the host does), "other counts", "error", "skipped";
    a claim that holds is "same". `failed` is the test's own outcome, which depends on `CI`.
    `source` is "live" or "recorded" (a trace that the test did not capture); live without `gpu` is
    the CPU, or not known where the test ended in an error. `baseline` and `now` are µs, or a ratio
    where `metric` is "host_ratio", and None where it is "trace" or "counts"; `ratio` is now over
    baseline with its 95 % interval; `limit` and `detectable` are relative (0.05: 5 %). A host ratio
    has none of these five, and a `bound` ("below 1.5") where its test gives one. `file` is relative
    to pytest's rootdir, `line` counts from 1. `reason` is one line; `message` is the whole failure,
    whose first line stands alone.
    """

    nodeid: str
    outcome: str
    failed: bool = False
    source: str = "live"
    metric: str = "trace"
    gpu: str | None = None
    file: str | None = None
    line: int | None = None
    baseline: float | None = None
    now: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float | None = None
    detectable: float | None = None
    bound: str | None = None
    processes_baseline: int | None = None
    processes_now: int | None = None
    reason: str | None = None
    message: str | None = None
    kernels_before: tuple[Kernel, ...] | None = None
    kernels_now: tuple[Kernel, ...] | None = None
    machine: tuple[str, ...] = ()
    reference: str | None = None  # the source a published baseline cites
    trace: str | None = None  # where the failed check's trace was kept, relative to the report
    paired: Paired | None = None

    @property
    def is_news(self) -> bool:
        """Whether a reviewer must see the row without unfolding anything."""
        return self.failed or self.outcome not in ("same", "skipped")


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run.

    `problems` fail the session by themselves (no GPU, nothing collected, an orphan, too many
    unclear); `warnings` do not. `environment` is what ran: ("torch", "2.11.0"), ("driver", …).
    `proposed` is the folder of proposed baseline files, as the accept command names it.
    """

    rows: tuple[Row, ...] = ()
    gpu: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    differences: tuple[Difference, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    proposed: str | None = None
    commit: str | None = None
    base: str | None = None
    ci: bool = False
    seconds: float | None = None

    @property
    def failed(self) -> bool:
        """Whether anything in it fails the run."""
        return bool(self.problems) or any(row.failed for row in self.rows)


def worst_first(rows: Iterable[Row]) -> list[Row]:
    """Failures first, then by how bad the outcome is, then by how much slower, then by name."""

    def rank(row: Row) -> tuple[bool, int, float, str]:
        ratio = row.ratio if row.ratio is not None and math.isfinite(row.ratio) else 0.0
        return not row.failed, _SEVERITY.get(row.outcome, 3), -ratio, row.nodeid

    return sorted(rows, key=rank)


def outcome_counts(rows: Iterable[Row]) -> dict[str, int]:
    """How many rows came to each outcome, in the order of the headline; none that did not occur."""
    counts = Counter(str(row.outcome) for row in rows)
    unknown = sorted(set(counts) - set(OUTCOMES))
    return {outcome: counts[outcome] for outcome in (*OUTCOMES, *unknown) if counts[outcome]}


def headline(report: Report) -> str:
    """One sentence counted from the outcomes; each row is in exactly one of its numbers.

    Live rows are told a GPU at a time, then the CPU's, then the recorded traces', which check
    claims and the reader and say nothing about this machine. What came to nothing before it was
    known where it ran is no check on any of them, and told by itself.
    """
    placed = [row for row in report.rows if not _came_to_nothing(row)]
    live = [row for row in placed if row.source != "recorded"]
    recorded = [row for row in placed if row.source == "recorded"]
    parts = [
        f"{_outcomes([row for row in live if row.gpu == gpu])} on {gpu}"
        for gpu in sorted({row.gpu for row in live if row.gpu is not None})
    ]
    no_gpu = [row for row in live if row.gpu is None]
    parts += _checks([row for row in no_gpu if row.outcome != "skipped"], "on the CPU")
    parts += _checks([row for row in recorded if row.outcome != "skipped"], "on recorded traces")
    nowhere = _outcomes([row for row in report.rows if _came_to_nothing(row)])
    parts += [nowhere] if nowhere else []
    skipped = sum(row.outcome == "skipped" for row in no_gpu + recorded)
    if skipped:
        parts.append(f"{skipped} skipped")
    return "; ".join(parts) or "no checks ran"


def _came_to_nothing(row: Row) -> bool:
    """Whether the test ended before a trace or a figure: a GPU's test counts as none of the CPU."""
    return row.gpu is None and row.now is None and row.outcome in ("error", "unclear")


def _outcomes(rows: list[Row]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in outcome_counts(rows).items())


def _checks(rows: list[Row], where: str) -> list[str]:
    if not rows:
        return []
    noun = "check" if len(rows) == 1 else "checks"
    other = _outcomes([row for row in rows if row.outcome != "same"])
    return [f"{len(rows)} {noun} {where}" + (f" ({other})" if other else "")]
