"""Which calls start GPU work: those with a GPU record, and those whose API says so."""

from __future__ import annotations

import re

from kernelpin.trace.columns import NONE, Columns

# Host functions run on the CPU; cudaGraphAddKernelNode and its like only build a graph.
_STARTS_WORK = re.compile(r"Launch(?!HostFunc)|Memcpy|Memset")
_BUILDS_GRAPH = re.compile(r"Graph(?!Launch)")

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
    columns.call_launch = launch
    columns.call_captured = captured


def _is_border(name: str) -> bool:
    return "BeginCapture" in name or "EndCapture" in name
