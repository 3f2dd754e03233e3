"""Figures that a trace gives: what one call launches, and how long its kernels take.

Each is a figure of every step, and steps that differ are an error: there is no one call then.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from statistics import median

from kernelpin.kernel_name import FAMILIES, decode_kernel_name, in_family
from kernelpin.stopwatch.samples import KernelFigure, MeasureError
from kernelpin.trace import Kernel, Step, Trace

_WAIT = re.compile(
    r"(cuda|cu|hip)((Device|Ctx|Stream|Event)Synchronize(_\w+)?|Memcpy(?!Peer)(?!\w*Async)\w*)"
)


def counts_of(trace: Trace, label: str) -> dict[str, int]:
    """Return kernels, copies, launches, ATen ops, synchronisations and compiled regions of a call.

    `label` is the annotation around the call: what lies outside it is the profiler's own.
    """
    trace.require_complete()
    for call in trace.ops(label):
        trace.require_end(call)
    found = [_counts_of_step(step, label) for step in trace.steps]
    for number, counts in enumerate(found):
        if counts != found[0]:
            changed = ", ".join(
                f"{key} {found[0][key]} and {counts[key]}"
                for key in counts
                if counts[key] != found[0][key]
            )
            raise MeasureError(
                f"calls of the callable differ: calls 0 and {number} have {changed}. "
                "counts need a callable that does the same every time"
            )
    return found[0]


def _counts_of_step(step: Step, label: str) -> dict[str, int]:
    calls = step.ops(label)
    if len(calls) != 1:
        raise MeasureError(f"{step.name} holds {len(calls)} calls labelled {label!r}, not one")
    (call,) = calls
    kernels = [kernel for kernel in step.kernels if kernel.category == "kernel"]
    ops = [op.name for op in step.ops() if not op.is_annotation]
    waits = [
        wait
        for wait in step.calls()
        if _WAIT.fullmatch(wait.name) and call.start_ns <= wait.start_ns < call.end_ns
    ]
    return {
        "kernels": len(kernels),
        "copies": len(step.kernels) - len(kernels),
        "launches": len(step.launches),
        "ops": sum(name.startswith("aten::") for name in ops),
        "syncs": len(waits),
        "graphs": sum(name.startswith("Torch-Compiled Region") for name in ops),
    }


def kernel_values(trace: Trace, name: str, nth: int | None) -> tuple[float, ...]:
    """Return the durations in µs, in time order, of the kernels that `name` picks in each step.

    `name` is a family (`gemm`) or a glob on the kernel's name; `nth` keeps one a call, counted from
    0 by launch.
    """
    trace.require_complete()
    values: list[float] = []
    picked_names: tuple[str, ...] | None = None
    for step in trace.steps:
        picked = [kernel for kernel in step.kernels if _picks(name, kernel)]
        if not picked or (nth is not None and not -len(picked) <= nth < len(picked)):
            raise MeasureError(_none_picked(step, name, nth, len(picked)))
        kept = picked if nth is None else [picked[nth]]
        names = tuple(kernel.name for kernel in kept)
        if picked_names not in (None, names):
            raise MeasureError(
                f"calls of the callable run different kernels for {name!r}: "
                f"{', '.join(picked_names or ())} and {', '.join(names)}"
            )
        picked_names = names
        values += [_duration_ns(kernel) / 1000 for kernel in kept]
    return tuple(values)


def kernel_figures(trace: Trace) -> tuple[KernelFigure, ...]:
    """Return the kernels of one call by first launch, with their median durations.

    They explain, and judge nothing: durations that cannot be true are left out, unless a kernel has
    no other.
    """
    kernels: dict[str, list[Kernel]] = {}
    for step in trace.steps:
        for kernel in step.kernels:
            kernels.setdefault(kernel.name, []).append(kernel)
    steps = len(trace.steps)
    figures = []
    for name, found in kernels.items():
        sound = [kernel.duration_ns for kernel in found if not kernel.suspect]
        durations = sound or [_duration_ns(kernel) for kernel in found]
        figures.append(
            KernelFigure(name, max(1, round(len(found) / steps)), median(durations) / 1000)
        )
    return tuple(figures)


def _duration_ns(kernel: Kernel) -> int:
    """Its duration, or MeasureError: one that cannot be true is no figure."""
    if kernel.suspect:
        raise MeasureError(
            f"the GPU record of {decode_kernel_name(kernel.name).short} at "
            f"{kernel.start_ns / 1000:.3f} µs has no duration, or times that cannot be true: its "
            "duration is no figure; measure again, with no other profiler on the GPU"
        )
    return kernel.duration_ns


def _picks(name: str, kernel: Kernel) -> bool:
    if name in FAMILIES:
        return in_family(kernel.family, name)
    return fnmatchcase(kernel.name, name)


def _none_picked(step: Step, name: str, nth: int | None, found: int) -> str:
    ran = "\n".join(
        f"  {kernel.family:18} {decode_kernel_name(kernel.name).short}" for kernel in step.kernels
    )
    wanted = f"a kernel {name!r}" if nth is None else f"kernel {nth} of those {name!r} picks"
    return f"expected {wanted} in each call, found {found}; the call ran\n{ran or '  nothing'}"
