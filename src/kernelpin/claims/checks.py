"""What the claims count: kernels by family, copies by kind, waits, idle time, fused ops."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase

from kernelpin.claims.subject import Failure, Scope, View, surplus
from kernelpin.kernel_name import FAMILIES, decode_kernel_name, in_family
from kernelpin.render import count, family_label, listing
from kernelpin.trace import Call, Kernel, Op

KINDS = ("HtoD", "DtoH", "DtoD", "HtoH", "PtoP")

# Kernels that multiply matrices, which tensor cores could do.
PRODUCTS = ("gemm", "gemv", "convolution", "attention", "triton_template")

_KIND = re.compile(r"\b([HDP])to([HDP])\b|Copy(Host|Device|Peer)To(Host|Device|Peer)")
_WAIT = re.compile(r"(cuda|cu|hip)(Stream|Event)Synchronize(_\w+)?")
_WAIT_FOR_ALL = re.compile(r"(cuda|hip)DeviceSynchronize(_\w+)?|cuCtxSynchronize(_\w+)?")
_BLOCKING_COPY = re.compile(r"(cuda|cu|hip)Memcpy(?!Peer)(?!\w*Async)\w*")
READ_BACKS = ("aten::item", "aten::_local_scalar_dense")

# In the name of a fused kernel these say how data lies, not what is computed.
LAYOUT_OPS = frozenset(
    {"_to_copy", "_unsafe_view", "alias", "as_strided", "clone", "detach", "expand", "permute"}
    | {"reshape", "select", "slice", "split", "split_with_sizes", "squeeze", "t", "transpose"}
    | {"unsqueeze", "view"}
)


def checked_family(family: str) -> str:
    """The family, or ValueError with the names there are: a misspelt one would never match."""
    __tracebackhide__ = True
    if family in FAMILIES:
        return family
    close = difflib.get_close_matches(str(family).lower(), FAMILIES, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    if any(sign in str(family) for sign in "*?["):
        hint = " (a kernel's name, with globs, goes into allowing=)"
    raise ValueError(f"no kernel family {family!r}{hint}; there are: {', '.join(FAMILIES)}")


def checked_count(n: int, least: int = 0) -> int:
    """The count, or ValueError: fewer than `least` would hold of anything."""
    __tracebackhide__ = True
    if isinstance(n, bool) or not isinstance(n, int) or n < least:
        raise ValueError(f"a claim counts whole numbers from {least}, not {n!r}")
    return n


def checked_names(names: Collection[str], what: str) -> tuple[str, ...]:
    """The names, or ValueError: a claim about none would hold of anything."""
    __tracebackhide__ = True
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"name at least one {what}, each as a string; got {tuple(names)!r}")
    return tuple(names)


def of_family(kernels: Iterable[Kernel], family: str | None) -> list[Kernel]:
    """The kernels of a family; memcpy and memset count only where `copy` or `fill` is asked for."""
    if family is None:
        return [k for k in kernels if k.category == "kernel"]
    return [k for k in kernels if in_family(k.family, family)]


def is_allowed(kernel: Kernel, allowing: Collection[str]) -> bool:
    """Whether a kernel is of one of the families, or its full name matches one of the globs."""
    return any(
        in_family(kernel.family, allowed) if allowed in FAMILIES
        else kernel.name == allowed or fnmatchcase(kernel.name, allowed)
        for allowed in allowing
    )  # fmt: skip


def kernels_of(family: str | None, n: int) -> str:
    """`1 GEMM kernel`, `no kernel`."""
    return count(n, f"{family_label(family)} kernel" if family else "kernel")


def activities(kernels: Collection[Kernel]) -> str:
    """`2 kernels and 1 memcpy`: what ran, by category."""
    parts = [
        count(n, category, None if category == "kernel" else category)
        for category in ("kernel", "memcpy", "memset")
        if (n := sum(k.category == category for k in kernels))
    ]
    return listing(parts)


def copy_kind(kernel: Kernel) -> str | None:
    """`HtoD`, `DtoH`, … of a memcpy; None where its name does not tell."""
    found = _KIND.search(kernel.name)
    if found is None:
        return None
    source, target = (found[1], found[2]) if found[1] else (found[3][0], found[4][0])
    return f"{source}to{target}"


def synchronisations(scope: Scope) -> dict[View, str]:
    """Where the host waits for the GPU, and what to say of each.

    A wait for the whole device outside any op is the profiler's own, or stands between steps. A
    read-back (`aten::item`) counts by itself where it copied from the GPU; one of a CPU tensor
    does not wait.
    """
    found: dict[View, str] = {}
    for call in scope.calls():
        if _WAIT_FOR_ALL.fullmatch(call.name):
            if call.op is not None and not is_step_label(call.op):
                found[call] = "waits for the GPU"
        elif _WAIT.fullmatch(call.name):
            found[call] = "waits for the GPU"
        elif _BLOCKING_COPY.fullmatch(call.name):
            found[call] = "a blocking copy"
    waits = {op for call in found if isinstance(call, Call) for op in _around(call.op)}
    for op in scope.ops():
        if op.name in READ_BACKS and op not in waits and op.launches:
            found[op] = "reads a value back from the GPU"
            waits.update(op.ops())
    return found


def _around(op: Op | None) -> Iterator[Op]:
    while op is not None:
        yield op
        op = op.parent


def is_step_label(op: Op) -> bool:
    return op.is_annotation and op.name.startswith("ProfilerStep#")


def idle_share(scope: Scope) -> float:
    """The share of time the GPU would idle if such scopes were issued back to back.

    Host and GPU work at once: the longer one sets the pace, and the GPU idles while that is the
    host. So it does not matter whether the capture synchronised between steps.
    """
    host, busy = host_ns(scope), busy_ns(scope.kernels)
    return 1.0 - busy / max(host, busy, 1)


def busy_ns(kernels: Iterable[Kernel]) -> int:
    """How long at least one of the kernels ran: overlaps count once."""
    busy, reached = 0, None
    for start, end in sorted((k.start_ns, k.end_ns) for k in kernels):
        begin = start if reached is None else max(start, reached)
        busy += max(0, end - begin)
        reached = max(begin, end)
    return busy


def host_ns(scope: Scope) -> int:
    """How long the host needs to issue the scope: for a step, to the end of its last op or launch.

    What follows in a step is the wait before the next one, which the capture adds.
    """
    if isinstance(scope, Op):
        return scope.duration_ns
    return max((view.end_ns for view in issued(scope)), default=scope.start_ns) - scope.start_ns


def issued(scope: Scope) -> tuple[Op | Call, ...]:
    """What ends with the host's work on the scope."""
    return (scope,) if isinstance(scope, Op) else (*scope.roots, *scope.launches)


def fusion_failure(scope: Scope, ops: Collection[str], into: str, times: int) -> Failure | None:
    """What is wrong with the claim that the ops run in `times` kernels of the family `into`.

    An op has a kernel of its own where it launches one, or where a Triton kernel computes some of
    the ops and nothing else that counts: `mul` in a kernel with `rsqrt` is another `mul`.
    """
    wanted = tuple(dict.fromkeys(op.removeprefix("aten::") for op in ops))
    fused: list[Kernel] = []
    wrong: dict[View, str] = {}
    together: list[str] = []  # the largest part of the ops that one kernel computes
    for kernel in scope.kernels:
        computed = set(decode_kernel_name(kernel.name).ops)
        here = [op for op in wanted if op in computed]
        if len(here) == len(wanted) and in_family(kernel.family, into):
            fused.append(kernel)
        elif here and in_family(kernel.family, "triton") and computed - LAYOUT_OPS <= set(wanted):
            together = max(together, here, key=len)
            wrong[kernel] = f"{listing(here)} alone" if here != [*wanted] else "another family"
    for op in scope.ops():
        name = op.name.removeprefix("aten::")
        own = [k for k in op.kernels if k.category == "kernel"] if name in wanted else []
        if own:
            together = together or [name]
            wrong.update(dict.fromkeys(own, f"{name} alone"))
    if not wrong and len(fused) == times:
        return None
    if len(together) == len(wanted):
        found = f"them in another kernel than {family_label(into)}"
    elif len(together) > 1:
        found = (
            f"{listing(together)} without {listing([op for op in wanted if op not in together])}"
        )
    elif wrong:
        apart = [op for op in wanted if f"{op} alone" in wrong.values()]
        own_kernel = "a kernel of its own" if len(apart) == 1 else "kernels of their own"
        found = f"{listing(apart)} in {own_kernel}"
    else:
        found = count(len(fused), "such kernel") if fused else "no kernel that computes them"
    return Failure(found, {**wrong, **surplus(fused, times)}, ops=not fused and not wrong)
