"""Whether a captured trace is whole: nothing that was profiled is missing from it.

`missing(trace, …)` says in sentences what is: steps, labels, GPU records, or a step that launched
other kernels than the rest (a session can lose its first records: PyTorch issue 192021). Pure.
"""

from __future__ import annotations

from collections import Counter

from kernelpin.kernel_name import decode_kernel_name
from kernelpin.trace import Step, Trace, TraceError

__all__ = ["missing"]

_MOST_NAMED = 3  # kernels that a message lists before it says how many more there are


def missing(trace: Trace, *, steps: int, label: str) -> tuple[str, ...]:
    """What `trace` lacks of `steps` steps with one `label` each; empty when it is whole."""
    numbered = [step for step in trace.steps if step.number is not None]
    if len(numbered) != steps:
        return (f"{len(numbered)} of {steps} profiler steps were recorded",)
    lacks = []
    for step in numbered:
        labels = sum(op.is_annotation for op in step.ops(label))
        if labels != 1:
            lacks.append(f"{step.name} has {labels} calls labelled {label!r} instead of 1")
    try:
        trace.require_complete()
    except TraceError as error:
        lacks.append(str(error).removeprefix(f"{trace.source}: "))
    else:
        lacks.extend(_unlike(numbered))
    return tuple(lacks)


def _unlike(steps: list[Step]) -> list[str]:
    """The steps that launched something else than most of them did."""
    ran = [Counter(kernel.name for kernel in step.kernels) for step in steps]
    usual = Counter(frozenset(names.items()) for names in ran).most_common(1)[0][0]
    typical = Counter(dict(usual))
    return [
        f"{step.name} ran {names.total()} GPU activities, the other steps {typical.total()} "
        f"({_difference(names, typical)})"
        for step, names in zip(steps, ran, strict=True)
        if names != typical
    ]


def _difference(names: Counter[str], typical: Counter[str]) -> str:
    parts = [f"without {text}" for text in _listed(typical - names)]
    parts += [f"with {text}" for text in _listed(names - typical)]
    return "; ".join(parts)


def _listed(kernels: Counter[str]) -> list[str]:
    most_first = sorted(kernels.items(), key=lambda item: (-item[1], item[0]))
    listed = [
        f"{count} × {decode_kernel_name(name).short}" for name, count in most_first[:_MOST_NAMED]
    ]
    unlisted = len(kernels) - len(listed)
    return [*listed, f"{unlisted} more"] if unlisted > 0 else listed
