"""Which op made which call, and which call started which GPU activity.

`link` takes events in any order and returns the columns that `Trace` reads. The rules:

- an op's parent is the innermost op of its thread that encloses it;
- a GPU activity was started by the runtime or driver call with its correlation id, whatever the
  call's name; `External id` and flow events are wrong or missing in some torch versions;
- that call was made by the innermost op that encloses its start on its thread.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from kernelpin.trace.columns import CUT, NONE, REPAIRED, Columns
from kernelpin.trace.launches import find_launches, starts_work
from kernelpin.trace.plausibility import (
    between_steps,
    far_off,
    implausible,
    midstream_strays,
    negative,
    nested_steps,
)

Correlation = int | str | None


@dataclass(slots=True)
class Events:
    """Events of one kind as read from a file: parallel lists, in any order."""

    name: list[str] = field(default_factory=list)
    start: list[int] = field(default_factory=list)  # ns
    duration: list[int] = field(default_factory=list)  # ns; UNREADABLE: not known
    thread: list[Hashable] = field(default_factory=list)  # ops, calls: (pid, tid) or tid
    annotation: bytearray = field(default_factory=bytearray)  # ops
    correlation: list[Correlation] = field(default_factory=list)  # calls, GPU
    category: bytearray = field(default_factory=bytearray)  # GPU: index into CATEGORIES
    stream: list[int] = field(default_factory=list)  # GPU
    device: list[int] = field(default_factory=list)  # GPU
    args: Sequence[Any] = field(default_factory=list)  # ops, GPU
    untimed: Set[int] = frozenset()  # whose duration was taken as 0, by `link`

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
    warnings, suspects = negative(ops, calls, gpu)
    warnings += far_off(ops, calls)
    warnings += _build_tree(ops, calls, columns, rounding_ns, tie)
    warnings += nested_steps(columns)
    warnings += _link_kernels(calls, gpu, columns, suspects)
    warnings += midstream_strays(columns)
    find_launches(columns)
    warnings += between_steps(columns)
    return columns, warnings


def _in_order(
    thread: list[int], start: list[int], duration: list[int], tie: Callable[[int], Any] | None
) -> list[int]:
    """Indices by (thread, start, −duration, tie), cheaply where few share a start."""
    order = sorted(range(len(start)), key=start.__getitem__)
    if thread and min(thread) != max(thread):
        order.sort(key=thread.__getitem__)
    starts = list(map(start.__getitem__, order))
    shared = [k for k, x in enumerate(map(int.__sub__, starts[1:], starts)) if not x]
    last = -1
    for k in shared:
        if k < last:
            continue
        last = k + 1
        while last < len(starts) and starts[last] == starts[k]:
            last += 1
        run = order[k:last]
        run.sort(key=lambda i: (thread[i], -duration[i], 0 if tie is None else tie(i)))
        order[k:last] = run
    return order


def _build_tree(
    ops: Events,
    calls: Events,
    columns: Columns,
    rounding_ns: int,
    tie: Callable[[int], Any] | None,
) -> list[str]:
    """Fill the columns of ops and calls: ops in preorder, calls by start time."""
    numbers: dict[Hashable, int] = {}
    for key in (*dict.fromkeys(ops.thread), *dict.fromkeys(calls.thread)):
        numbers.setdefault(key, len(numbers))
    op_thread = list(map(numbers.__getitem__, ops.thread))
    call_thread = list(map(numbers.__getitem__, calls.thread))
    order = _in_order(op_thread, ops.start, ops.duration, tie)
    call_order = sorted(range(len(calls)), key=calls.start.__getitem__)

    columns.threads = [_thread_name(key) for key in numbers]
    columns.op_name = list(map(ops.name.__getitem__, order))
    starts = list(map(ops.start.__getitem__, order))
    columns.op_start = array("q", starts)
    durations = list(map(ops.duration.__getitem__, order))
    columns.op_duration = array("q", durations)
    threads = list(map(op_thread.__getitem__, order))
    columns.op_thread = array("q", threads)
    columns.op_annotation = bytearray(map(ops.annotation.__getitem__, order))
    columns.op_untimed = bytearray(REPAIRED if i in ops.untimed else 0 for i in order)
    columns.op_args = list(map(ops.args.__getitem__, order))
    columns.call_name = list(map(calls.name.__getitem__, call_order))
    call_starts = list(map(calls.start.__getitem__, call_order))
    columns.call_start = array("q", call_starts)
    columns.call_duration = array("q", map(calls.duration.__getitem__, call_order))
    columns.call_untimed = bytearray(REPAIRED if i in calls.untimed else 0 for i in call_order)
    call_threads = list(map(call_thread.__getitem__, call_order))
    columns.call_thread = array("q", call_threads)

    forest = _Forest(starts, durations, rounding_ns)
    call_owner = [NONE] * len(call_order)
    calls_of = _ranges(call_threads)
    first = 0
    for number in range(len(numbers)):
        end = first
        while end < len(threads) and threads[end] == number:
            end += 1
        forest.grow(first, end, calls_of.get(number, ()), call_starts, call_owner)
        first = end
    columns.op_parent = array("q", forest.parents)
    columns.op_end = array("q", forest.subtree_ends)
    columns.call_op = array("q", call_owner)
    by_op = sorted(range(len(call_owner)), key=call_owner.__getitem__)
    columns.calls_by_op = array("q", by_op)
    columns.ops_of_calls = array("q", map(call_owner.__getitem__, by_op))
    for op in forest.cut:
        columns.op_untimed[op] = columns.op_untimed[op] or CUT
    if not forest.overlapping:
        return []
    worst = forest.overlapping[0]
    return [
        f"{len(forest.overlapping)} op(s) end after the op they start in, the first: "
        f"{columns.op_name[worst]} at {starts[worst] / 1000:.3f} µs; the outer one is taken to "
        "end where they start"
    ]


def _ranges(threads: list[int]) -> dict[int, Sequence[int]]:
    """The positions of each thread, in order."""
    if not threads:
        return {}
    if min(threads) == max(threads):
        return {threads[0]: range(len(threads))}
    by_thread = sorted(range(len(threads)), key=threads.__getitem__)
    return {number: list(run) for number, run in groupby(by_thread, threads.__getitem__)}


class _Forest:
    """The ops of all threads as trees, grown thread by thread."""

    def __init__(self, starts: list[int], durations: list[int], rounding_ns: int) -> None:
        self.starts = starts
        self.durations = durations
        self.rounding_ns = rounding_ns
        self.parents = [NONE] * len(starts)
        self.subtree_ends = [0] * len(starts)
        self.overlapping: list[int] = []
        self.cut: list[int] = []  # what those end after

    def grow(
        self,
        first: int,
        end: int,
        own_calls: Sequence[int],
        call_starts: list[int],
        call_owner: list[int],
    ) -> None:
        """Nest the ops first … end - 1 of one thread, and give its calls to the innermost.

        An op that starts with a call encloses it. A call that starts as an op ends is still
        the op's, as times may be rounded down; an op that does so is not.
        """
        starts, durations, parents, subtree_ends = (
            self.starts,
            self.durations,
            self.parents,
            self.subtree_ends,
        )
        rounding = self.rounding_ns
        never = 1 << 63
        top, top_end = NONE, never  # the innermost open op; below it, none ever ends
        ends: dict[int, int] = {NONE: never}
        pending = iter(own_calls)
        call = next(pending, NONE)
        call_time = call_starts[call] if call != NONE else never
        for op in range(first, end):
            start = starts[op]
            while call_time < start:
                while top_end < call_time:
                    subtree_ends[top] = op
                    top = parents[top]
                    top_end = ends[top]
                call_owner[call] = top
                call = next(pending, NONE)
                call_time = call_starts[call] if call != NONE else never
            while top_end <= start:
                subtree_ends[top] = op
                top = parents[top]
                top_end = ends[top]
            stop = start + durations[op]
            if stop > top_end:
                if stop > top_end + rounding:
                    self.overlapping.append(op)
                    while stop > top_end + rounding:
                        self.cut.append(top)
                        subtree_ends[top] = op
                        top = parents[top]
                        top_end = ends[top]
                if stop > top_end:
                    stop = top_end
            parents[op] = top
            top = op
            top_end = ends[op] = stop
        while call != NONE:
            call_time = call_starts[call]
            while top_end < call_time:
                subtree_ends[top] = end
                top = parents[top]
                top_end = ends[top]
            call_owner[call] = top
            call = next(pending, NONE)
        while top != NONE:
            subtree_ends[top] = end
            top = parents[top]


def _thread_name(key: Hashable) -> str:
    return "/".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _link_kernels(calls: Events, gpu: Events, columns: Columns, suspects: set[int]) -> list[str]:
    """Fill the kernel columns, ordered by (launch, start), the strays last."""
    # Python's sort is stable: this is the order of the columns.
    call_order = sorted(range(len(calls)), key=calls.start.__getitem__)
    correlations = list(map(calls.correlation.__getitem__, call_order))
    by_correlation: dict[Correlation, int] = dict(
        zip(correlations, range(len(correlations)), strict=True)
    )
    shared = len(by_correlation) < len(correlations)
    by_correlation.pop(None, None)
    launches = [by_correlation.get(correlation, NONE) for correlation in gpu.correlation]
    warnings = _resolve_shared(correlations, gpu, launches, columns) if shared else []
    warnings += implausible(gpu, launches, columns.call_start, suspects)

    order = sorted(range(len(gpu)), key=gpu.start.__getitem__)
    strays = len(correlations)  # sorts behind every launch
    order.sort(key=[strays if x == NONE else x for x in launches].__getitem__)
    columns.linked = len(launches) - launches.count(NONE)
    columns.kernel_name = list(map(gpu.name.__getitem__, order))
    columns.kernel_category = bytearray(map(gpu.category.__getitem__, order))
    columns.kernel_start = array("q", map(gpu.start.__getitem__, order))
    columns.kernel_duration = array("q", map(gpu.duration.__getitem__, order))
    columns.kernel_stream = array("q", map(gpu.stream.__getitem__, order))
    columns.kernel_device = array("q", map(gpu.device.__getitem__, order))
    columns.kernel_launch = array("q", map(launches.__getitem__, order))
    columns.kernel_suspect = bytearray(map(suspects.__contains__, order))
    columns.kernel_args = list(map(gpu.args.__getitem__, order))
    return warnings


def _resolve_shared(
    correlations: list[Correlation], gpu: Events, launches: list[int], columns: Columns
) -> list[str]:
    """Choose among calls that share a correlation id: the one that starts work, if one does."""
    sharing: dict[Correlation, list[int]] = {}
    for call, correlation in enumerate(correlations):
        if correlation is not None:
            sharing.setdefault(correlation, []).append(call)
    unclear: list[int] = []
    for i, correlation in enumerate(gpu.correlation):
        candidates = sharing.get(correlation, [])
        if len(candidates) < 2:
            continue
        starting = [call for call in candidates if starts_work(columns.call_name[call])]
        if len(starting) == 1:
            launches[i] = starting[0]
            continue
        unclear.append(i)
        launches[i] = NONE
        if correlation != 0:  # ROCm's "unknown"
            for call in starting or candidates:
                if columns.call_start[call] <= gpu.start[i]:
                    launches[i] = call
    if not unclear:
        return []
    return [
        f"{len(unclear)} GPU record(s) whose correlation id several calls share, the first: "
        f"{gpu.name[unclear[0]]:.60}, id {gpu.correlation[unclear[0]]}"
    ]
