"""What differs between two traces, for `kernelpin diff`: ops, kernels, and kernels' times. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from kernelpin.overview import headline
from kernelpin.render import (
    clean,
    elide,
    format_change,
    format_ns,
    kernel_labels,
    paint,
    table,
)
from kernelpin.trace import Trace

SCHEMA = 1
NAME_WIDTH = 72


@dataclass(frozen=True, slots=True)
class Row:
    """One op or kernel, by full name: how often a step has it, and its median time in ns.

    A count is the list of the different counts that steps have, mostly one.
    """

    name: str
    before: tuple[int, ...]
    now: tuple[int, ...]
    before_ns: float | None = None
    now_ns: float | None = None

    @property
    def changed(self) -> bool:
        return self.before != self.now


@dataclass(frozen=True, slots=True)
class Difference:
    """Two traces compared, a step against a step; `same` is about what ran, not how long."""

    before: Trace
    now: Trace
    ops: tuple[Row, ...]
    kernels: tuple[Row, ...]

    @property
    def same(self) -> bool:
        return not any(row.changed for row in (*self.ops, *self.kernels))


def compare(before: Trace, now: Trace) -> Difference:
    """Compare two traces; TraceError where one is incomplete, since what it lacks looks gone."""
    for trace in (before, now):
        trace.require_complete()
    return Difference(
        before,
        now,
        ops=_rows(_op_names(before), _op_names(now), {}, {}),
        kernels=_rows(_kernel_names(before), _kernel_names(now), _times(before), _times(now)),
    )


def lines(difference: Difference, color: bool = False) -> list[str]:
    """The difference as text: two headlines, then ops, kernels and times."""
    text = [
        paint(f"--- {headline(difference.before)}", "heading", color),
        paint(f"+++ {headline(difference.now)}", "heading", color),
    ]
    for what, rows in (("ops", difference.ops), ("kernels", difference.kernels)):
        changed = [row for row in rows if row.changed]
        if not changed:
            text += ["", f"{what}: the same" if rows else f"{what}: none"]
            continue
        names = [row.name for row in changed]
        labels = kernel_labels(names, NAME_WIDTH) if what == "kernels" else {}
        cells = [
            [labels.get(row.name) or elide(clean(row.name), NAME_WIDTH), _text(row.before),
             _text(row.now)]
            for row in changed
        ]  # fmt: skip
        heading, *body = table([[f"{what} a step", "before", "now"], *cells])
        text += ["", paint(heading, "heading", color)]
        for row, line in zip(changed, body, strict=True):
            style = "gain" if row.before == (0,) else "offender" if row.now == (0,) else ""
            text.append(paint(line, style, color) if style else line)
    common = [row for row in difference.kernels if row.before_ns and row.now_ns]
    if common:
        text += ["", *_time_lines(common, color)]
    return text


def _time_lines(rows: Iterable[Row], color: bool) -> list[str]:
    shown = sorted(rows, key=lambda r: -abs((r.now_ns or 0.0) - (r.before_ns or 0.0)))
    labels = kernel_labels((row.name for row in shown), NAME_WIDTH)
    cells = []
    for row in shown:
        before, now = row.before_ns or 0.0, row.now_ns or 0.0
        if (change := format_change(now / before)) != format_change(1.0):
            cells.append([labels[row.name], format_ns(before), format_ns(now), change])
    if not cells:
        return ["kernel times: the same"]
    heading, *body = table([["kernel time (median)", "before", "now", "change"], *cells])
    return [paint(heading, "heading", color), *body]


def as_json(difference: Difference) -> dict[str, Any]:
    """The difference with all rows, the unchanged too; a count is a list of those steps have."""

    def row(entry: Row, times: bool) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": entry.name,
            "before": entry.before,
            "now": entry.now,
            "changed": entry.changed,
        }
        if times:
            found |= {"before_ns": entry.before_ns, "now_ns": entry.now_ns}
        return found

    def side(trace: Trace) -> dict[str, Any]:
        device = None if trace.device is None else trace.device.name
        return {"source": trace.source, "device": device, "warnings": list(trace.warnings)}

    return {
        "schema": SCHEMA,
        "same": difference.same,
        "before": side(difference.before),
        "now": side(difference.now),
        "ops": [row(entry, times=False) for entry in difference.ops],
        "kernels": [row(entry, times=True) for entry in difference.kernels],
    }


def _op_names(trace: Trace) -> list[Counter[str]]:
    # Labels are the author's, or hold a hash of the compiled graph: no difference in what ran.
    return [Counter(op.name for op in s.ops() if not op.is_annotation) for s in trace.steps]


def _kernel_names(trace: Trace) -> list[Counter[str]]:
    return [Counter(kernel.name for kernel in step.kernels) for step in trace.steps]


def _times(trace: Trace) -> dict[str, float]:
    """Median durations; none of a kernel with a record that cannot be true."""
    durations: dict[str, list[int]] = {}
    untrue: set[str] = set()
    for step in trace.steps:
        for kernel in step.kernels:
            durations.setdefault(kernel.name, []).append(kernel.duration_ns)
            if kernel.suspect:
                untrue.add(kernel.name)
    return {name: median(values) for name, values in durations.items() if name not in untrue}


def _rows(
    before: list[Counter[str]],
    now: list[Counter[str]],
    before_ns: dict[str, float],
    now_ns: dict[str, float],
) -> tuple[Row, ...]:
    names = dict.fromkeys(name for counter in (*before, *now) for name in counter)
    return tuple(
        Row(name, _counts(before, name), _counts(now, name), before_ns.get(name), now_ns.get(name))
        for name in names
    )


def _counts(steps: list[Counter[str]], name: str) -> tuple[int, ...]:
    return tuple(sorted({counter[name] for counter in steps}))


def _text(counts: tuple[int, ...]) -> str:
    if counts == (0,):
        return "–"
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
