"""Names in negative claims: a misspelt one occurs nowhere, so that the claim would always hold.

A name that occurs in the trace, or a glob that matches there, is right. Of any other it is told
where it cannot be a name, or is another's in this trace. Where torch is loaded its operators are
asked, too: what it does not have, no code that runs here can dispatch. torch is never imported.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from kernelpin.claims.subject import short
from kernelpin.trace import Trace

ATEN = "aten::"
_GLOB = re.compile(r"[*?\[]")
_IDENTIFIER = re.compile(r"[\w*?!\[\]-]+")  # or a glob of one
_BARE = re.compile(r"(?:torch\.(?:\w+\.)*)?(\w+)")  # `add`, `torch.add`
_PYTHONS = re.compile(r"(torch\.(nn\.)?|nn\.)(functional\.|modules\.)*\w+$|F\.[a-z]\w*$")
# What claims are about, without its prefix. A name that is close to one of these is taken for a
# slip; any other is believed, since a trace does not tell which functions there are.
_CALLS = """
    LaunchKernel LaunchKernelEx LaunchKernelExC LaunchCooperativeKernel ModuleLaunchKernel
    ExtModuleLaunchKernel ExtLaunchKernel LaunchHostFunc GraphLaunch GraphInstantiate
    Malloc MallocAsync MallocHost MallocManaged MallocFromPoolAsync HostAlloc HostRegister Free
    FreeAsync FreeHost MemAlloc MemAllocAsync MemFree MemFreeAsync MemCreate MemMap MemUnmap
    Memcpy MemcpyAsync Memcpy2D Memcpy2DAsync Memcpy3D Memcpy3DAsync MemcpyPeer MemcpyPeerAsync
    MemcpyDtoDAsync MemcpyDtoHAsync MemcpyHtoDAsync MemcpyWithStream Memset MemsetAsync Memset2D
    Memset2DAsync DeviceSynchronize StreamSynchronize EventSynchronize CtxSynchronize StreamQuery
    StreamWaitEvent EventCreate EventCreateWithFlags EventRecord EventRecordWithFlags EventQuery
    EventDestroy EventElapsedTime StreamCreate StreamCreateWithFlags StreamCreateWithPriority
    StreamDestroy StreamBeginCapture StreamEndCapture StreamIsCapturing StreamGetCaptureInfo
    FuncGetAttributes FuncSetAttribute GetDevice SetDevice GetDeviceCount GetDeviceProperties
    DeviceGetAttribute PointerGetAttribute PointerGetAttributes PeekAtLastError GetLastError
    OccupancyMaxActiveBlocksPerMultiprocessor OccupancyMaxActiveBlocksPerMultiprocessorWithFlags
"""
_KNOWN_CALLS = sorted(prefix + call for call in _CALLS.split() for prefix in ("cuda", "cu", "hip"))
_VERSION = re.compile(r"_v\d+$")
_FAMILY = re.compile(r"[A-Z0-9_]")
_CLOSE = 0.9  # difflib's ratio: one letter of ten is 0.9, cudaMalloc and cudaMallocHost 0.83
_OF_ATEN = re.compile(r"aten[.:]", re.IGNORECASE)


def check_ops(names: Iterable[str], trace: Trace) -> None:
    """ValueError where one of the names cannot be that of an op, as this trace spells them."""
    __tracebackhide__ = True
    for name in names:
        if why := _no_op(name, trace):
            raise ValueError(f"{short(name)!r} is no op, and so is never dispatched: {why}")


def check_call(name: str, trace: Trace) -> None:
    """ValueError where the name cannot be that of a runtime call, as this trace spells them."""
    __tracebackhide__ = True
    if why := _no_call(name, trace):
        raise ValueError(f"{short(name)!r} is no runtime call, and so is never called: {why}")


def _no_op(name: str, trace: Trace) -> str | None:
    there = trace._ops_by_name  # what a trace looks names up in, made once
    if name in there or (_GLOB.search(name) and any(fnmatchcase(n, name) for n in there)):
        return None
    if name != name.strip():
        return "it has blanks at its ends"
    if found := _spelt_otherwise(name, there):
        return f"in this trace it is {short(found)!r}"
    if _OF_ATEN.match(name):
        bare = name.removeprefix(ATEN)
        if bare == name or not _IDENTIFIER.fullmatch(bare):
            return "ATen's are recorded like 'aten::add', without their overload"
        return _not_of_this_torch(name)
    if "::" not in name and any(fnmatchcase(call.name, name) for call in trace.calls()):
        return "in this trace it is a runtime call, so claim .does_not_call(…)"
    if _PYTHONS.match(name):
        glob = f"{name[:-1]}[{name[-1]}]"
        return f"ops are recorded like 'aten::linear'; a label of that name claim as {glob!r}"
    return None


def _no_call(name: str, trace: Trace) -> str | None:
    there = {call.name for call in trace.calls()}
    if name in there or (_GLOB.search(name) and any(fnmatchcase(n, name) for n in there)):
        return None
    if "::" in name:
        return "that is how ops are named, so claim .does_not_dispatch(…)"
    if not _IDENTIFIER.fullmatch(name):
        return "they are recorded like 'cudaMalloc', without blanks and brackets"
    if found := next((n for n in there if n.lower() == name.lower()), None):
        return f"in this trace it is {short(found)!r}"
    plain = _VERSION.sub("", name)
    if _GLOB.search(name) or plain in _KNOWN_CALLS:
        return None
    near = [n for n in _KNOWN_CALLS if n.lower() == plain.lower()]
    near += difflib.get_close_matches(plain, {*_KNOWN_CALLS, *there}, n=1, cutoff=_CLOSE)
    # Functions come in families: of 2D and 3D, of D and H, of one and several.
    if near and (near[0].lower() == plain.lower() or _letters(near[0]) != _letters(plain)):
        one = f"{name[:-1]}[{name[-1]}]"
        return f"a well-known one is {short(near[0])!r}; of another claim it as the glob {one!r}"
    return None


def _letters(name: str) -> str:
    return _FAMILY.sub("", name).removesuffix("s")


def _spelt_otherwise(name: str, there: Iterable[str]) -> str | None:
    """An op of the trace that differs by its case alone, or by the namespace that was left out."""
    if bare := _BARE.fullmatch(name):
        return next((n for n in there if n.rpartition("::")[2] == bare[1]), None)
    return next((n for n in there if n.lower() == name.lower()), None)


def _not_of_this_torch(name: str) -> str | None:
    torch: Any = sys.modules.get("torch")
    aten = getattr(getattr(torch, "ops", None), "aten", None)
    schemas = getattr(getattr(torch, "_C", None), "_jit_get_all_schemas", None)
    if aten is None or schemas is None:
        return None
    if hasattr(aten, name.removeprefix(ATEN)):  # a thousand times as fast as the list of all
        return None
    known = {schema.name for schema in schemas() if schema.name.startswith(ATEN)}
    if any(fnmatchcase(n, name) for n in known):
        return None
    near = difflib.get_close_matches(name, sorted(known))
    hint = f" (near: {', '.join(near)})" if near else ""
    return (
        f"torch {torch.__version__} has none of that name{hint}; where another torch has one, "
        f"claim it of '*::{short(name.removeprefix(ATEN))}'"
    )
