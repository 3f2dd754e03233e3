"""A trace at a glance, for `kernelpin show`: its dispatch tree, its GPU time by family. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from kernelpin.render import clean, count, family_label, format_ns, paint, table, tree
from kernelpin.trace import Kernel, Launch, Op, Step, Trace, TraceError

SCHEMA = 1
STRAYS_LISTED = 10


def incomplete(trace: Trace, steps: Collection[Step] | None = None) -> str | None:
    """What the trace, or these steps of it, cannot show; None where it is whole."""
    try:
        for scope in (None,) if steps is None else steps:
            trace.require_complete(scope)
    except TraceError as error:
        return (
            str(error).removeprefix(f"{trace.source}: ").removeprefix("the trace is incomplete: ")
        )
    return None


def headline(trace: Trace, steps: Collection[Step] | None = None) -> str:
    """`linear.json.gz: NVIDIA H200, 3 steps, 3 kernels, 8.512 µs on the GPU`; or of these steps."""
    device = "no GPU" if trace.device is None else clean(trace.device.name) or "a nameless GPU"
    parts = [device]
    if steps is not None:
        parts += [clean(step.name) for step in steps]
    elif profiled := [step for step in trace.steps if step.number is not None]:
        parts.append(count(len(profiled), "step"))
    if trace.device is None:
        parts.append(count(sum(not op.is_annotation for op in _ops(trace, steps)), "op"))
    else:
        kernels = _kernels(trace, steps)
        parts.append(count(sum(k.category == "kernel" for k in kernels), "kernel"))
        if any(k.suspect for k in kernels):
            parts.append("time on the GPU not known")
        else:
            parts.append(f"{format_ns(sum(k.duration_ns for k in kernels))} on the GPU")
    return f"{clean(trace.source)}: {', '.join(parts)}"


def lines(
    trace: Trace,
    *,
    steps: Collection[Step] | None = None,
    ops: bool = False,
    full_names: bool = False,
    color: bool = False,
) -> list[str]:
    """The trace as text: headline, warnings, a tree for each kind of step, a table by family.

    With `steps`, of those alone, but for the warnings. Steps that dispatch and launch the same are
    drawn once. A trace without kernels is drawn with all its ops, as with `ops`.
    """
    shown = tuple(trace.steps if steps is None else steps)
    text = [paint(headline(trace, steps), "heading", color)]
    if (missing := incomplete(trace, steps)) is not None:
        text.append(paint(f"incomplete: {clean(missing)}", "offender", color))
    text += [paint(f"warning: {clean(w)}", "offender", color) for w in trace.warnings]
    all_ops = ops or not trace.launches
    for group in _alike(shown, all_ops):
        width = None if full_names else 56
        drawn = tree(
            group[0],
            dict.fromkeys(_lost(group[0]), "its GPU record is lost"),
            ops=all_ops,
            focus=False,
            limit=None,
            width=width,
            color=color,
        )
        more = count(len(group) - 1, "more step")
        drawn[0] += f"  (and {more} like it)" if len(group) > 1 else ""
        text += ["", *drawn]
    kernels = [kernel for step in shown for kernel in step.kernels]
    if kernels:
        heading, *rows = table(_by_family(kernels, len(shown)))
        text += ["", paint(heading, "heading", color), *rows]
    if trace.strays and steps is None:
        text += ["", paint(f"without a launch: {_strays(trace)}", "quiet", color)]
    return text


def as_json(trace: Trace, steps: Collection[Step] | None = None) -> dict[str, Any]:
    """The trace's content: device, steps, ops (flat, `parent` an index), kernels, families.

    With `steps`, of those alone, but for the warnings. Times are integer nanoseconds from the
    trace's first event. `complete` says whether claims can be judged on it, `incomplete` why not.
    """
    kernels = _kernels(trace, steps)
    ops = {op: at for at, op in enumerate(_ops(trace, steps))}
    numbered = {step: at for at, step in enumerate(trace.steps if steps is None else steps)}
    missing = incomplete(trace, steps)
    device = trace.device
    return {
        "schema": SCHEMA,
        "source": trace.source,
        "complete": missing is None,
        "incomplete": missing,
        "warnings": list(trace.warnings),
        "device": None
        if device is None
        else {
            "name": device.name,
            "compute_capability": device.compute_capability,
            "sm_count": device.sm_count,
            "memory_bytes": device.memory_bytes,
        },
        "steps": [
            {
                "name": step.name,
                "start_ns": step.start_ns,
                "duration_ns": step.duration_ns,
                "busy_ns": step.busy_ns,
                "sum_ns": step.sum_ns,
                "kernels": len(step.kernels),
            }
            for step in numbered
        ],
        "families": _totals(kernels),
        "ops": [_op(op, ops) for op in ops],
        "kernels": [_kernel(kernel, ops, numbered) for kernel in kernels],
        "strays": [_kernel(k, ops, numbered) for k in (trace.strays if steps is None else ())],
    }


def _ops(trace: Trace, steps: Collection[Step] | None) -> Collection[Op]:
    return trace.ops() if steps is None else [op for step in steps for op in step.ops()]


def _kernels(trace: Trace, steps: Collection[Step] | None) -> Collection[Kernel]:
    return trace.kernels if steps is None else [k for step in steps for k in step.kernels]


def _op(op: Op, ids: dict[Op, int]) -> dict[str, Any]:
    return {
        "name": op.name,
        "parent": None if op.parent is None else ids.get(op.parent),
        "start_ns": op.start_ns,
        "duration_ns": op.duration_ns,
        "label": op.is_annotation,
        "shapes": op.shapes,
        "dtypes": op.dtypes,
    }


def _kernel(kernel: Kernel, ops: dict[Op, int], steps: dict[Step, int]) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "category": kernel.category,
        "family": kernel.family,
        "op": None if kernel.op is None else ops.get(kernel.op),
        "step": None if kernel.step is None else steps[kernel.step],
        "start_ns": kernel.start_ns,
        "duration_ns": kernel.duration_ns,
        "stream": kernel.stream,
        "suspect": kernel.suspect,
    }


def _lost(step: Step) -> list[Launch]:
    return [launch for launch in step.launches if launch.lost]


def _alike(steps: Iterable[Step], ops: bool) -> list[list[Step]]:
    groups: dict[object, list[Step]] = {}
    for step in steps:
        launched = [(k.name, k.op.name if k.op is not None else "") for k in step.kernels]
        launched += [(x.name, x.op.name if x.op is not None else "") for x in _lost(step)]
        names = tuple((op.name, op.depth) for op in step.ops()) if ops else ()
        groups.setdefault((tuple(launched), names), []).append(step)
    return list(groups.values())


def _totals(kernels: Iterable[Kernel]) -> list[dict[str, Any]]:
    counts: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for kernel in kernels:
        counts[kernel.family] += 1
        times[kernel.family] += kernel.duration_ns
    total = times.total() or 1
    return [
        {"family": f, "count": counts[f], "sum_ns": ns, "share": round(ns / total, 6)}
        for f, ns in times.most_common()
    ]


def _by_family(kernels: Collection[Kernel], steps: int) -> list[list[str]]:
    rows = [["family", "count", "a step", "GPU time", "share"]]
    known = not any(kernel.suspect for kernel in kernels)
    for row in _totals(kernels):
        a_step = f"{row['count'] / steps:.3g}"
        share = f"{100 * row['share']:.1f} %"
        label = family_label(row["family"])
        times = [format_ns(row["sum_ns"]), share] if known else ["not known", "–"]
        rows.append([label, str(row["count"]), a_step, *times])
    return rows


def _strays(trace: Trace) -> str:
    names = Counter(kernel.name for kernel in trace.strays)
    listed = [f"{clean(n)} × {k}" if k > 1 else clean(n) for n, k in names.most_common()]
    more = [f"… {len(listed) - STRAYS_LISTED} more"] if len(listed) > STRAYS_LISTED else []
    return ", ".join([*listed[:STRAYS_LISTED], *more])
