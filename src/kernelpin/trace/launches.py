"""Which calls start GPU work: those with a GPU record, and those whose API says so."""

from __future__ import annotations

import re
from bisect import bisect_left

from kernelpin.trace.columns import NONE, Columns

# Host functions run on the CPU; cudaGraphAddKernelNode and its like only build a graph. The
# last two are Intel's: urEnqueueUSMFill, piEnqueueMemBufferCopy; zeCommandListAppendMemoryCopy.
_STARTS_WORK = re.compile(
    r"Launch(?!HostFunc)|Memcpy|Memset"
    r"|^(ur|pi)\w*Enqueue\w*(Fill|Copy|Read|Write)"
    r"|^zeCommandListAppend(Memory|Image)(Copy|Fill)"
)
_BUILDS_GRAPH = re.compile(r"Graph(?!Launch)|CommandBufferAppend")

# Unified Runtime (before it, the Plugin Interface) makes its launches through Level Zero.
_INTEL_RUNTIME = re.compile(r"(ur|pi)[A-Z]|piext")
_LEVEL_ZERO = re.compile(r"ze[A-Z]")

_PRODUCTS = frozenset(
    f"aten::{name}" for name in ("mm", "addmm", "bmm", "baddbmm", "linear", "matmul")
)
# What an op on the CPU may call as well: for pinned memory, and to know what it deals with.
_ASKS_OF_MEMORY = re.compile(r"GetAttribute|Host|EventQuery|IsCapturing")

# cuBLAS calls cudaMemsetAsync for workspaces of no bytes. Such a call returns after 0.15–0.9 µs
# (22 in a BERT on an H100, 3 in a Linear on an RTX 4050) and leaves no record, for nothing ran;
# one that starts work took 2.1 µs at least, in 900 calls on an H200 and an A100.
_NOTHING_TO_MOVE_NS = 1000


def starts_work(name: str) -> bool:
    """Whether a call of this name starts work on the GPU."""
    return _STARTS_WORK.search(name) is not None and _BUILDS_GRAPH.search(name) is None


def find_launches(columns: Columns) -> None:
    """Fill `call_launch` and `call_captured`."""
    names = columns.call_name
    distinct = set(names)
    starting = {name for name in distinct if starts_work(name)}
    moving = {name for name in starting if "Memcpy" in name or "Memset" in name}
    launch = bytearray(map(starting.__contains__, names))
    recorded = bytearray(len(names))
    for call in columns.kernel_launch:
        if call != NONE:
            recorded[call] = launch[call] = 1
    borders = {name: "Begin" in name for name in distinct if _is_border(name)}
    captured = bytearray(len(names))
    capturing: set[int] = set()  # threads; a capture ends on the thread that began it
    if borders or moving:
        for call, name in enumerate(names):
            if recorded[call]:
                continue
            if name in borders:
                thread = columns.call_thread[call]
                (capturing.add if borders[name] else capturing.discard)(thread)
            elif launch[call] and columns.call_thread[call] in capturing:
                captured[call] = 1
            elif (
                name in moving
                and columns.call_duration[call] < _NOTHING_TO_MOVE_NS
                and not columns.call_untimed[call]
            ):
                launch[call] = 0
    _join_layers(columns, starting, launch, recorded)
    columns.call_launch = launch
    columns.call_captured = captured


def _join_layers(
    columns: Columns, starting: set[str], launch: bytearray, recorded: bytearray
) -> None:
    """Of a runtime's call and the driver's within it, one launch: the one that has the record."""
    inner = {name for name in starting if _LEVEL_ZERO.match(name)}
    outer = {name for name in starting if _INTEL_RUNTIME.match(name)}
    if not inner or not outer:
        return
    latest: dict[int, int] = {}  # thread → the runtime's last launch
    for call, name in enumerate(columns.call_name):
        thread = columns.call_thread[call]
        if name in outer:
            latest[thread] = call
        elif name in inner and thread in latest:
            around = latest[thread]
            if (
                columns.call_start[call]
                > columns.call_start[around] + columns.call_duration[around]
            ):
                continue
            if not recorded[call]:
                launch[call] = 0
            elif not recorded[around]:
                launch[around] = 0


def unlaunched(columns: Columns) -> dict[int, str]:
    """Matrix products on the GPU that launched nothing, and a call that each made.

    Such an op always launches. That it made a runtime call at all tells that it did not run on the
    CPU, where it makes none; without any call a CPU's product looks the same.
    """
    c = columns
    found = {}
    for op, name in enumerate(c.op_name):
        if name not in _PRODUCTS:
            continue
        first, end = bisect_left(c.ops_of_calls, op), bisect_left(c.ops_of_calls, c.op_end[op])
        calls = c.calls_by_op[first:end]
        if any(c.call_launch[call] for call in calls):
            continue
        telling = [c.call_name[i] for i in calls if not _ASKS_OF_MEMORY.search(c.call_name[i])]
        if telling:
            found[op] = telling[0]
    return found


def _is_border(name: str) -> bool:
    return "BeginCapture" in name or "EndCapture" in name
