"""Which op made which call, and which call started which GPU activity.

`link` takes events in any order and returns the columns that `Trace` reads. The rules:

- an op's parent is the innermost op of its thread that encloses it;
- a GPU activity was started by the runtime or driver call with its correlation id, whatever the
  call's name; `External id` and flow events say nothing that is right in every torch version;
- that call was made by the innermost op that encloses its start on its thread.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelpin.trace import NONE, Columns

Correlation = int | str | None

# Calls that start work on the GPU by their name, even if the record of that work is missing.
# Host functions run on the CPU; cudaGraphAdd…Node only builds a graph.
_STARTS_WORK = re.compile(r"Launch(?!HostFunc)|(?<!Graph)(?<!GraphAdd)(?:Memcpy|Memset)")
_BUILDS_GRAPH = re.compile(r"Graph(?!Launch)")

# A kernel may start a little before its launch, as the clocks of GPU and CPU are not one.
CLOCK_SKEW_NS = 1_000_000
LONG_NS = 1_000_000_000
LONG_RATIO = 1000


@dataclass(slots=True)
class Events:
    """Events of one kind as read from a file: parallel lists, in any order."""

    name: list[str] = field(default_factory=list)
    start: list[int] = field(default_factory=list)  # ns
    duration: list[int] = field(default_factory=list)  # ns
    thread: list[Hashable] = field(default_factory=list)  # ops, calls: (pid, tid)
    annotation: bytearray = field(default_factory=bytearray)  # ops
    correlation: list[Correlation] = field(default_factory=list)  # calls, GPU
    category: bytearray = field(default_factory=bytearray)  # GPU: index into trace.CATEGORIES
    stream: list[int] = field(default_factory=list)  # GPU
    device: list[int] = field(default_factory=list)  # GPU
    args: Sequence[Any] = field(default_factory=list)  # ops, GPU

    def __len__(self) -> int:
        return len(self.name)


def link(
    ops: Events,
    calls: Events,
    gpu: Events,
    *,
    rounding_ns: int = 5,
    tie: Callable[[int], Any] | None = None,
) -> tuple[Columns, list[str]]:
    """The linked columns, and what looks implausible.

    `rounding_ns`: how far an op may end beyond the op around it. `tie`: the order of ops that
    share start and duration, by their index in `ops`; file order where None.
    """
    columns = Columns()
    warnings = [
        *_negative(ops, "op"),
        *_negative(calls, "runtime call"),
        *_negative(gpu, "GPU record"),
    ]
    suspects = {i for i, duration in enumerate(gpu.duration) if duration < 0}
    for events in (ops, calls, gpu):
        if events.duration and min(events.duration) < 0:
            events.duration = [max(0, duration) for duration in events.duration]
    call_order = _ordered(calls.start, calls.duration, None)
    owners, overlaps = _build_tree(ops, calls, call_order, columns, rounding_ns, tie)
    if overlaps:
        first = overlaps[0]
        warnings.append(
            f"{len(overlaps)} op(s) end after the op they start in, the first: "
            f"{ops.name[first]} at {ops.start[first] / 1000:.3f} µs; what follows is counted as "
            "theirs, not the outer op's"
        )
    columns.call_name = list(map(calls.name.__getitem__, call_order))
    columns.call_start = array("q", map(calls.start.__getitem__, call_order))
    columns.call_duration = array("q", map(calls.duration.__getitem__, call_order))
    columns.call_op = array("q", map(owners.__getitem__, call_order))
    warnings += _link_kernels(calls, call_order, gpu, suspects, columns)
    _find_launches(columns)
    return columns, warnings


def _negative(events: Events, what: str) -> list[str]:
    if not events.duration or min(events.duration) >= 0:
        return []
    bad = [i for i, duration in enumerate(events.duration) if duration < 0]
    first = bad[0]
    return [
        f"{len(bad)} {what}(s) with a negative duration, taken as 0, the first: "
        f"{events.name[first]} of {events.duration[first] / 1000:.3f} µs"
    ]


def _ordered(
    start: list[int],
    duration: list[int],
    tie: Callable[[int], Any] | None,
    among: list[int] | None = None,
) -> list[int]:
    """Indices by (start, −duration, tie), cheaply where few share a start."""
    order = sorted(range(len(start)) if among is None else among, key=start.__getitem__)
    begin = 0
    count = len(order)
    starts = list(map(start.__getitem__, order))
    while begin < count - 1:
        if starts[begin] != starts[begin + 1]:
            begin += 1
            continue
        end = begin + 2
        while end < count and starts[end] == starts[begin]:
            end += 1
        run = order[begin:end]
        if tie is None:
            run.sort(key=lambda i: -duration[i])
        else:
            run.sort(key=lambda i: (-duration[i], tie(i)))
        order[begin:end] = run
        begin = end
    return order


def _grouped(threads: list[Hashable], numbers: dict[Hashable, int]) -> dict[int, list[int]]:
    """Indices by thread; new threads are numbered as they come."""
    groups: dict[int, list[int]] = {}
    if not threads:
        return groups
    ids = [numbers.setdefault(thread, len(numbers)) for thread in threads]
    if min(ids) == max(ids):
        return {ids[0]: list(range(len(ids)))}
    for i, number in enumerate(ids):
        if number in groups:
            groups[number].append(i)
        else:
            groups[number] = [i]
    return groups


def _build_tree(
    ops: Events,
    calls: Events,
    call_order: list[int],
    columns: Columns,
    rounding_ns: int,
    tie: Callable[[int], Any] | None,
) -> tuple[list[int], list[int]]:
    """Number the ops in preorder; return each call's op, and the ops that overlap another."""
    numbers: dict[Hashable, int] = {}
    ops_of = _grouped(ops.thread, numbers)
    threads = calls.thread
    call_threads = [numbers.setdefault(threads[i], len(numbers)) for i in call_order]
    calls_of: dict[int, list[int]] = {}
    for i, number in zip(call_order, call_threads, strict=True):
        if number in calls_of:
            calls_of[number].append(i)
        else:
            calls_of[number] = [i]
    columns.threads = [_thread_name(thread) for thread in numbers]
    columns.call_thread = array("q", call_threads)

    owners = [NONE] * len(calls)
    overlaps: list[int] = []
    order: list[int] = []
    thread_column = array("q")
    parents: list[int] = []
    subtree_ends = [0] * len(ops)
    for number in range(len(numbers)):
        own_ops = _ordered(ops.start, ops.duration, tie, ops_of.get(number, []))
        own_calls = calls_of.get(number, [])
        _nest(
            ops,
            calls,
            own_ops,
            own_calls,
            len(order),
            rounding_ns,
            parents,
            subtree_ends,
            owners,
            overlaps,
        )
        order += own_ops
        thread_column.extend([number] * len(own_ops))
    columns.op_name = list(map(ops.name.__getitem__, order))
    columns.op_start = array("q", map(ops.start.__getitem__, order))
    columns.op_duration = array("q", map(ops.duration.__getitem__, order))
    columns.op_thread = thread_column
    columns.op_parent = array("q", parents)
    columns.op_end = array("q", subtree_ends)
    columns.op_annotation = bytearray(map(ops.annotation.__getitem__, order))
    columns.op_args = list(map(ops.args.__getitem__, order))
    return owners, overlaps


def _nest(
    ops: Events,
    calls: Events,
    own_ops: list[int],
    own_calls: list[int],
    first_id: int,
    rounding_ns: int,
    parents: list[int],
    subtree_ends: list[int],
    owners: list[int],
    overlaps: list[int],
) -> None:
    """One thread: ops and calls by start time, an op before a call that starts with it."""
    op_start, op_duration, call_start = ops.start, ops.duration, calls.start
    pending = iter(own_calls)
    call = next(pending, NONE)
    call_time = call_start[call] if call != NONE else 0
    open_ids: list[int] = []  # the ops around the current time, outermost first
    open_ends: list[int] = []
    op = first_id
    for index in own_ops:
        start = op_start[index]
        while call != NONE and call_time < start:
            # A call that starts as an op ends is still its own: times may be rounded down.
            while open_ends and open_ends[-1] < call_time:
                open_ends.pop()
                subtree_ends[open_ids.pop()] = op
            if open_ids:
                owners[call] = open_ids[-1]
            call = next(pending, NONE)
            if call != NONE:
                call_time = call_start[call]
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
            subtree_ends[open_ids.pop()] = op
        end = start + op_duration[index]
        if open_ends and end > open_ends[-1] + rounding_ns:
            overlaps.append(index)
            while open_ends and end > open_ends[-1] + rounding_ns:
                open_ends.pop()
                subtree_ends[open_ids.pop()] = op
        if open_ids:
            parents.append(open_ids[-1])
            if end > open_ends[-1]:
                end = open_ends[-1]
        else:
            parents.append(NONE)
        open_ids.append(op)
        open_ends.append(end)
        op += 1
    while call != NONE and open_ends:
        while open_ends and open_ends[-1] < call_time:
            open_ends.pop()
            subtree_ends[open_ids.pop()] = op
        if open_ids:
            owners[call] = open_ids[-1]
        call = next(pending, NONE)
        if call != NONE:
            call_time = call_start[call]
    for open_id in open_ids:
        subtree_ends[open_id] = op


def _thread_name(thread: Hashable) -> str:
    return "/".join(map(str, thread)) if isinstance(thread, tuple) else str(thread)


def _link_kernels(
    calls: Events,
    call_order: list[int],
    gpu: Events,
    suspects: set[int],
    columns: Columns,
) -> list[str]:
    """Fill the kernel columns, ordered by (launch, start), the strays last."""
    warnings: list[str] = []
    correlations = list(map(calls.correlation.__getitem__, call_order))
    by_correlation: dict[Correlation, int] = dict(
        zip(correlations, range(len(correlations)), strict=True)
    )
    by_correlation.pop(None, None)
    find = by_correlation.get
    launches = [find(correlation, NONE) for correlation in gpu.correlation]
    if len(by_correlation) < len(correlations):
        warnings += _resolve_shared(correlations, gpu, launches, columns)
    strays = len(columns.call_name)  # sorts behind every launch
    start = gpu.start
    keyed = [strays if launch == NONE else launch for launch in launches]
    order = sorted(range(len(gpu)), key=start.__getitem__)
    order.sort(key=keyed.__getitem__)
    warnings += _implausible(gpu, launches, columns, suspects)
    columns.kernel_name = list(map(gpu.name.__getitem__, order))
    columns.kernel_category = bytearray(map(gpu.category.__getitem__, order))
    columns.kernel_start = array("q", map(start.__getitem__, order))
    columns.kernel_duration = array("q", map(gpu.duration.__getitem__, order))
    columns.kernel_stream = array("q", map(gpu.stream.__getitem__, order))
    columns.kernel_device = array("q", map(gpu.device.__getitem__, order))
    columns.kernel_launch = array("q", map(launches.__getitem__, order))
    columns.kernel_suspect = bytearray(i in suspects for i in order)
    columns.kernel_args = list(map(gpu.args.__getitem__, order))
    return warnings


def _resolve_shared(
    correlations: list[Correlation],
    gpu: Events,
    launches: list[int],
    columns: Columns,
) -> list[str]:
    """Choose among calls that share a correlation id: the one that starts work, if one does."""
    sharing: dict[Correlation, list[int]] = {}
    for call, correlation in enumerate(correlations):
        if correlation is not None:
            sharing.setdefault(correlation, []).append(call)
    unclear = 0
    for i, correlation in enumerate(gpu.correlation):
        candidates = sharing.get(correlation, ())
        if len(candidates) < 2:
            continue
        starting = [call for call in candidates if starts_work(columns.call_name[call])]
        if len(starting) == 1:
            launches[i] = starting[0]
        elif correlation == 0:
            launches[i] = NONE  # ROCm's "unknown"
            unclear += 1
        else:
            before = [c for c in starting or candidates if columns.call_start[c] <= gpu.start[i]]
            launches[i] = before[-1] if before else NONE
            unclear += 1
    if not unclear:
        return []
    return [f"{unclear} GPU record(s) with a correlation id that several calls share"]


def _implausible(
    gpu: Events, launches: list[int], columns: Columns, suspects: set[int]
) -> list[str]:
    """Mark records that cannot be true, and say which."""
    warnings = []
    call_start = columns.call_start
    early = [
        i
        for i, launch in enumerate(launches)
        if launch != NONE and gpu.start[i] < call_start[launch] - CLOCK_SKEW_NS
    ]
    if early:
        first = early[0]
        lead = call_start[launches[first]] - gpu.start[first]
        warnings.append(
            f"{len(early)} GPU record(s) start before their launch, the first: "
            f"{_short(gpu.name[first])}, {lead / 1000:.3f} µs before it"
        )
        suspects.update(early)
    if gpu.duration and max(gpu.duration) > LONG_NS:
        median = sorted(gpu.duration)[(len(gpu) - 1) // 2]
        long = [
            i
            for i, duration in enumerate(gpu.duration)
            if duration > LONG_NS and duration > LONG_RATIO * median
        ]
        if long:
            first = long[0]
            warnings.append(
                f"{len(long)} GPU record(s) of seconds among records of {median / 1000:.3f} µs, "
                f"the first: {_short(gpu.name[first])} of {gpu.duration[first] / 1e9:.3f} s"
            )
            suspects.update(long)
    return warnings


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:40]}…{name[-16:]}"


def starts_work(name: str) -> bool:
    """Whether a call of this name starts work on the GPU."""
    return _STARTS_WORK.search(name) is not None and _BUILDS_GRAPH.search(name) is None


def _find_launches(columns: Columns) -> None:
    """Mark the launches: calls with a GPU record, and those whose name says so."""
    names = columns.call_name
    starting = {name for name in set(names) if starts_work(name)}
    launch = bytearray(map(starting.__contains__, names))
    recorded = bytearray(len(names))
    for call in columns.kernel_launch:
        if call != NONE:
            recorded[call] = launch[call] = 1
    columns.call_launch = launch
    columns.call_captured = _captured(columns, recorded)


def _captured(columns: Columns, recorded: bytearray) -> bytearray:
    """Mark the launches without a record between BeginCapture and EndCapture on a thread."""
    captured = bytearray(len(columns.call_name))
    kinds = {
        name: "Begin" if "BeginCapture" in name else "End"
        for name in set(columns.call_name)
        if "BeginCapture" in name or "EndCapture" in name
    }
    if not kinds:
        return captured
    capturing: set[int] = set()
    for call, name in enumerate(columns.call_name):
        kind = kinds.get(name)
        thread = columns.call_thread[call]
        if kind == "Begin":
            capturing.add(thread)
        elif kind == "End":
            capturing.discard(thread)
        elif thread in capturing and columns.call_launch[call] and not recorded[call]:
            captured[call] = 1
    return captured
