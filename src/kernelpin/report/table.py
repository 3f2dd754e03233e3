"""One row of the summary's table: what was, what is, what changed, in which kernels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from kernelpin.kernel_name import decode_kernel_name
from kernelpin.render import format_change, format_us
from kernelpin.report.rows import CLAIMS, Kernel, Paired, Row
from kernelpin.report.text import in_code, in_text

HEADER = (
    "| test | baseline | now | change (95 % interval) | limit | kernels | verdict |\n"
    "| --- | ---: | ---: | ---: | ---: | --- | --- |\n"
)
_METRICS = {"counts": "counts", "kernel_us": "kernel time", "host_ratio": "host time, ratio"}
_LINES = 4  # kernels told in a row


def table_row(row: Row) -> str:
    """The row in the header's seven cells, on one line."""
    metric = _METRICS.get(row.metric)
    cells = (
        _test(row.nodeid) + (f"<br>{metric}" if metric else ""),
        _figure(row.baseline, row) + ("<br>published" if row.reference else ""),
        _figure(row.now, row),
        _changes(row),
        _limit(row),
        _kernels(row),
        _verdict(row),
    )
    return f"| {' | '.join(cells)} |\n"


def _test(nodeid: str) -> str:
    """File, name and parameters below one another: in one line they push the verdict off screen."""
    file, colons, rest = nodeid.partition("::")
    name, bracket, parameters = rest.partition("[")
    parts = (file + colons, name, bracket + parameters)
    return "<br>".join(in_code(part) for part in parts if part)


def _missing(*values: float | None) -> bool:
    return not all(value is not None and math.isfinite(value) for value in values)


def _figure(value: float | None, row: Row) -> str:
    if value is None or _missing(value):
        return "–"
    return f"{value:.3g}×" if row.metric == "host_ratio" else format_us(value)


def _limit(row: Row) -> str:
    if row.bound is not None:
        return in_text(row.bound, 40)
    return "–" if row.limit is None or _missing(row.limit) else f"+{row.limit * 100:.3g} %"


def _change(ratio: float | None, low: float | None, high: float | None) -> str:
    if ratio is None or _missing(ratio):
        return "–"
    change = format_change(ratio)
    if low is None or high is None or _missing(low, high):
        return change
    low_change, high_change = (format_change(it).removesuffix(" %") for it in (low, high))
    return f"{change} ({low_change} … {high_change})"


def _changes(row: Row) -> str:
    stored = _change(row.ratio, row.low, row.high)
    it = row.paired
    if it is None or it.ratio is None or _missing(it.ratio):
        return stored
    pairs = f", {len(it.pairs)} pairs" if it.pairs else ""
    return f"{stored}<br>{_change(it.ratio, it.low, it.high)} against {in_code(it.ref, 60)}{pairs}"


def _verdict(row: Row) -> str:
    word = in_text(row.outcome, 40)
    parts = [f"<strong>{word}</strong>" if row.failed else word]
    if row.is_news and row.source == "recorded":
        parts.append("on a recorded trace" + (f" of {in_text(row.gpu, 60)}" if row.gpu else ""))
    # Of these the other cells say it already.
    is_told = row.is_news or row.outcome == "skipped"
    if is_told and row.reason and row.outcome not in ("slower", *CLAIMS):
        parts.append(in_text(row.reason, 200))
    seen = row.detectable
    if row.outcome in ("same", "unclear") and seen is not None and not _missing(seen):
        parts.append(f"would catch +{seen * 100:.2g} %")
    if row.paired is not None:
        parts.append(_paired_verdict(row.paired))
    return "<br>".join(filter(None, parts))


def _paired_verdict(paired: Paired) -> str:
    told = paired.reason is not None and paired.outcome not in ("same", "slower", "faster")
    reason = f": {in_text(paired.reason or '', 200)}" if told else ""
    return f"against {in_code(paired.ref, 60)}: {in_text(paired.outcome, 40)}{reason}"


def _kernels(row: Row) -> str:
    if row.outcome in CLAIMS:
        return in_text(row.reason or (row.message or "–").strip().partition("\n")[0], 300)
    compared = [(row.kernels_before, row.kernels_now)]
    if row.paired is not None:
        # What this change did comes before what happened since the baseline.
        compared.insert(0, (row.paired.kernels_base, row.paired.kernels_head))
    known = [(before, now) for before, now in compared if before is not None and now is not None]
    if not known:
        return "–"
    limit = row.limit or 0.05
    changes = next(filter(None, (_kernel_changes(*both, limit) for both in known)), [])
    more = len(changes) - _LINES
    return "<br>".join(changes[:_LINES] + ([f"and {more} more"] if more > 0 else [])) or "same"


def _kernel_changes(before: Iterable[Kernel], now: Iterable[Kernel], limit: float) -> list[str]:
    """New ones, gone ones, those that run another number of times, those slower by the limit."""
    old = {kernel.name: kernel for kernel in before}
    new = {kernel.name: kernel for kernel in now}
    names = _names({**old, **new})
    both = [(old[name], new[name]) for name in new if name in old]
    appeared = [f"**new** {names[it]}{_figures(new[it])}" for it in new if it not in old]
    vanished = [f"**gone** {names[it]}{_figures(old[it])}" for it in old if it not in new]
    recounted = [
        f"{names[was.name]} × {was.count:g} → × {it.count:g}"
        for was, it in both
        if was.count != it.count
    ]
    slower = [
        f"{names[was.name]} {format_us(was.median_us)} → {format_us(it.median_us)}"
        for was, it in both
        if was.median_us is not None
        and it.median_us is not None
        and not _missing(was.median_us, it.median_us)
        and it.median_us > was.median_us * (1 + limit)
        and was.count == it.count
    ]
    return appeared + vanished + recounted + slower


def _figures(kernel: Kernel) -> str:
    times = f" × {kernel.count:g}" if kernel.count != 1 else ""
    us = kernel.median_us
    return times + ("" if us is None or _missing(us) else f" {format_us(us)}")


def _names(names: Iterable[str]) -> dict[str, str]:
    """Each name as a reader knows it, or in full where that is no longer one kernel's."""
    short = {name: decode_kernel_name(name).short or name for name in names}
    times = Counter(short.values())
    return {name: in_code(it if times[it] == 1 else name, 80) for name, it in short.items()}
