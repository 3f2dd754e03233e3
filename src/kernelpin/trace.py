"""A profiled run as questions can be asked of it: steps, ops, launches and GPU activities.

Everything is held in columns, one entry an event; `Op`, `Call`, `Launch`, `Kernel` and `Step` are
thin views, made when asked for and equal when they show the same event. Ops are numbered in
preorder a thread, so a subtree is a range, and nothing here recurses. Times are integer ns from
the smallest `ts` of the trace's complete events.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

__all__ = [
    "Call",
    "Columns",
    "Device",
    "Kernel",
    "KernelpinWarning",
    "Launch",
    "Op",
    "Step",
    "Trace",
    "TraceError",
    "slugify",
]

Category = Literal["kernel", "memcpy", "memset"]
CATEGORIES: tuple[Category, ...] = ("kernel", "memcpy", "memset")
NONE = -1  # in a column of ids: there is none


class TraceError(Exception):
    """A trace that cannot be read, or a question it cannot answer: says which, where and why."""


class KernelpinWarning(UserWarning):
    """Something was repaired, left out or looks implausible; `Trace.warnings` lists what."""


def slugify(name: str) -> str:
    """A device's name as a folder name: `NVIDIA A100-SXM4-80GB` → `nvidia-a100-sxm4-80gb`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as the trace's header describes it; what the header leaves out is None."""

    id: int
    name: str
    compute_capability: tuple[int, int] | None = None
    sm_count: int | None = None
    memory_bytes: int | None = None

    @property
    def slug(self) -> str:
        """The name of the GPU's folder under `baselines/`."""
        return slugify(self.name)


def _column() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Columns:
    """The linked events of a trace: what `attribution.link` makes and `Trace` reads.

    Ops stand in preorder, thread by thread: the subtree of op i is the range(i, op_end[i]).
    Calls stand by start time; kernels by (launch, start), the strays behind all others.
    """

    threads: list[str] = field(default_factory=list)
    op_name: list[str] = field(default_factory=list)
    op_start: array[int] = field(default_factory=_column)
    op_duration: array[int] = field(default_factory=_column)
    op_thread: array[int] = field(default_factory=_column)
    op_parent: array[int] = field(default_factory=_column)
    op_end: array[int] = field(default_factory=_column)
    op_annotation: bytearray = field(default_factory=bytearray)
    op_args: Sequence[Any] = field(default_factory=list)
    call_name: list[str] = field(default_factory=list)
    call_start: array[int] = field(default_factory=_column)
    call_duration: array[int] = field(default_factory=_column)
    call_thread: array[int] = field(default_factory=_column)
    call_op: array[int] = field(default_factory=_column)
    call_launch: bytearray = field(default_factory=bytearray)
    call_captured: bytearray = field(default_factory=bytearray)
    kernel_name: list[str] = field(default_factory=list)
    kernel_category: bytearray = field(default_factory=bytearray)  # index into CATEGORIES
    kernel_start: array[int] = field(default_factory=_column)
    kernel_duration: array[int] = field(default_factory=_column)
    kernel_stream: array[int] = field(default_factory=_column)
    kernel_device: array[int] = field(default_factory=_column)
    kernel_launch: array[int] = field(default_factory=_column)
    kernel_suspect: bytearray = field(default_factory=bytearray)
    kernel_args: Sequence[Any] = field(default_factory=list)


class Trace:
    """A run, decoded and linked; `kernelpin.load_trace` and `kernelpin.capture` make one."""

    def __init__(
        self,
        columns: Columns,
        *,
        source: str = "<trace>",
        devices: Iterable[Device] = (),
        metadata: dict[str, Any] | None = None,
        warnings: Iterable[str] = (),
        unread: int = 0,
    ) -> None:
        self._c = columns
        self._linked = bisect_left(_Strays(columns.kernel_launch), True)
        self._unread = unread
        self.source = source
        self.devices: tuple[Device, ...] = tuple(devices)
        self.metadata: dict[str, Any] = {} if metadata is None else metadata
        self.warnings: tuple[str, ...] = tuple(warnings)

    def __repr__(self) -> str:
        c = self._c
        return (
            f"<Trace {self.source}: {len(c.op_name)} ops, {len(c.call_name)} calls, "
            f"{self._linked} kernels, {len(c.kernel_name) - self._linked} strays>"
        )

    @cached_property
    def device(self) -> Device | None:
        """The GPU whose activities the trace holds, the busiest where several; None on the CPU."""
        c = self._c
        if not c.kernel_name and not c.call_name:
            return None
        if not c.kernel_name:
            return self.devices[0] if self.devices else None
        counts: dict[int, int] = {}
        for device in c.kernel_device:
            counts[device] = counts.get(device, 0) + 1
        busiest = max(counts, key=lambda device: counts[device])
        for known in self.devices:
            if known.id == busiest:
                return known
        # ROCm lists one device, under id 0, whichever runs.
        return self.devices[0] if self.devices else None

    # -- what the trace holds ---------------------------------------------------------------

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """One a `ProfilerStep#N`, by start time; the whole trace where there is none."""
        ids = [i for i in self._ops_by_start if _is_step(self._c.op_name[i])]
        if ids:
            return tuple(Step(self, i) for i in ids)
        return (Step(self, NONE),)

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """GPU activities (kernel, memcpy, memset) that have a launch, by launch time."""
        return tuple(Kernel(self, i) for i in range(self._linked))

    @cached_property
    def strays(self) -> tuple[Kernel, ...]:
        """GPU activities without a launch in the trace: mostly of the step before it."""
        return tuple(Kernel(self, i) for i in range(self._linked, len(self._c.kernel_name)))

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """Runtime and driver calls that start GPU work, by start time."""
        return tuple(Launch(self, i) for i in self._launch_ids)

    @cached_property
    def lost(self) -> tuple[Launch, ...]:
        """Launches whose GPU record is missing, those captured into a graph excluded."""
        return tuple(launch for launch in self.launches if launch.lost)

    @property
    def roots(self) -> tuple[Op, ...]:
        """The ops and annotations that lie in no other, thread by thread."""
        parents = self._c.op_parent
        return tuple(Op(self, i) for i in range(len(parents)) if parents[i] == NONE)

    @property
    def has_gpu_records(self) -> bool:
        """Whether any GPU activity was recorded, with a launch or without."""
        return bool(self._c.kernel_name)

    def ops(self, name: str | None = None) -> tuple[Op, ...]:
        """Every call of an op or annotation, at any depth, by start time; no name: all."""
        ids = self._ops_by_start if name is None else self._ops_by_name.get(name, ())
        return tuple(Op(self, i) for i in ids)

    def annotations(self, name: str | None = None) -> tuple[Op, ...]:
        """The ops that are labels: `record_function`, `ProfilerStep#N`."""
        return tuple(op for op in self.ops(name) if op.is_annotation)

    def calls(self, name: str | None = None) -> tuple[Call, ...]:
        """Runtime and driver calls, launches among them, by start time."""
        names = self._c.call_name
        return self._calls(i for i in range(len(names)) if name is None or names[i] == name)

    def require_complete(self, scope: Op | Step | None = None) -> None:
        """Raise TraceError unless what the scope launched can be judged; None: the whole trace.

        It cannot where launches lost their record, where no GPU activity was recorded though
        something was launched, or where a step launched nothing while others did.
        """
        if self._unread:
            raise self._incomplete(
                f"{self._unread} of its records could not be read ({self.warnings[0]})",
                "repair the file, or record it again",
            )
        launched = scope.launches if scope is not None else self.launches
        if (
            self.launches
            and not self.has_gpu_records
            and not all(x.captured for x in self.launches)
        ):
            raise self._incomplete(
                f"no GPU activity was recorded, though {len(self.launches)} launches were",
                "profile with ProfilerActivity.CUDA, and let no other profiler hold the GPU's",
            )
        if self.has_gpu_records and not self.launches:
            raise self._incomplete(
                f"{len(self._c.kernel_name)} GPU activities have no launch, so they belong to no op",
                "profile with ProfilerActivity.CPU as well",
            )
        lost = [launch for launch in launched if launch.lost]
        if lost:
            first = lost[0]
            raise self._incomplete(
                f"{len(lost)} of {len(launched)} launches"
                f"{_within(scope)} lost their GPU record, the first: {first.name} at "
                f"{first.start_ns / 1000:.3f} µs{_within(first.op)}{_during(first.step)}",
                "record it again, with a synchronisation before the profiler stops",
            )
        step = scope.step if isinstance(scope, Op) else scope
        judged = self.steps if step is None else (step,)
        if any(other.launches for other in self.steps):
            for idle in judged:
                if not idle.launches:
                    raise self._incomplete(
                        f"{idle.name} launched nothing, while other steps did",
                        "record it again: the profiler loses the first launches of a session",
                    )

    def _incomplete(self, what: str, remedy: str) -> TraceError:
        return TraceError(f"{self.source}: the trace is incomplete: {what}; {remedy}")

    # -- indexes, each made on first use ----------------------------------------------------

    @cached_property
    def _ops_by_start(self) -> Sequence[int]:
        starts = self._c.op_start
        if len(self._c.threads) < 2:
            return range(len(starts))
        return sorted(range(len(starts)), key=starts.__getitem__)

    @cached_property
    def _ops_by_name(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        names = self._c.op_name
        for i in self._ops_by_start:
            found.setdefault(names[i], []).append(i)
        return found

    @cached_property
    def _launch_ids(self) -> list[int]:
        return [i for i, flag in enumerate(self._c.call_launch) if flag]

    @cached_property
    def _calls_by_op(self) -> tuple[list[int], array[int]]:
        """Call ids ordered by the op that made them, and that op's id for each."""
        owners = self._c.call_op
        ids = sorted(range(len(owners)), key=owners.__getitem__)
        return ids, array("q", [owners[i] for i in ids])

    @cached_property
    def _step_starts(self) -> list[int]:
        return [step.start_ns for step in self.steps]

    @cached_property
    def _window(self) -> tuple[int, int]:
        """First start and last end of what was recorded."""
        c = self._c
        starts: list[int] = []
        ends: list[int] = []
        for start, duration in (
            (c.op_start, c.op_duration),
            (c.call_start, c.call_duration),
            (c.kernel_start, c.kernel_duration),
        ):
            if start:
                starts.append(min(start))
                ends.append(max(map(int.__add__, start, duration)))
        return (min(starts), max(ends)) if starts else (0, 0)

    # -- what the views ask -----------------------------------------------------------------

    def _calls(self, ids: Iterable[int]) -> tuple[Call, ...]:
        flags = self._c.call_launch
        return tuple(Launch(self, i) if flags[i] else Call(self, i) for i in ids)

    def _calls_under(self, first: int, end: int) -> list[int]:
        """The calls made by the ops first … end - 1, by start time."""
        ids, owners = self._calls_by_op
        return sorted(ids[bisect_left(owners, first) : bisect_left(owners, end)])

    def _calls_between(self, start_ns: int, end_ns: int) -> range:
        starts = self._c.call_start
        return range(bisect_left(starts, start_ns), bisect_right(starts, end_ns))

    def _kernels_of(self, call: int) -> range:
        launches = self._c.kernel_launch
        return range(
            bisect_left(launches, call, 0, self._linked),
            bisect_right(launches, call, 0, self._linked),
        )

    def _kernels_of_all(self, calls: Iterable[int]) -> tuple[Kernel, ...]:
        return tuple(Kernel(self, k) for call in calls for k in self._kernels_of(call))

    def _step_at(self, time_ns: int) -> Step | None:
        """The step that contains a time; at a border, the later one."""
        steps = self.steps
        at = bisect_right(self._step_starts, time_ns) - 1
        # Steps of two threads may overlap: an earlier one may still be running.
        while at >= 0:
            if steps[at].end_ns >= time_ns:
                return steps[at]
            at -= 1
        return None


class _Strays(Sequence[bool]):
    """Whether each kernel is a stray, for bisection: strays stand behind all others."""

    def __init__(self, launches: array[int]) -> None:
        self._launches = launches

    def __len__(self) -> int:
        return len(self._launches)

    def __getitem__(self, index: Any) -> Any:
        return self._launches[index] == NONE


class _View:
    """One event of a trace: equal to any other view of the same event."""

    __slots__ = ("_i", "_trace")

    def __init__(self, trace: Trace, index: int) -> None:
        self._trace = trace
        self._i = index

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _View):
            return NotImplemented
        return self._i == other._i and self._trace is other._trace and self._kind() is other._kind()

    def __hash__(self) -> int:
        return hash((id(self._trace), self._kind(), self._i))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} at {self.start_ns / 1000:.3f} µs>"

    @classmethod
    def _kind(cls) -> type:
        return cls

    @property
    def name(self) -> str:
        raise NotImplementedError

    @property
    def start_ns(self) -> int:
        raise NotImplementedError

    @property
    def duration_ns(self) -> int:
        raise NotImplementedError

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns


class Op(_View):
    """One call of an op, or one label; its kernels are those of all ops below it too."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return self._trace._c.op_name[self._i]

    @property
    def start_ns(self) -> int:
        return self._trace._c.op_start[self._i]

    @property
    def duration_ns(self) -> int:
        return self._trace._c.op_duration[self._i]

    @property
    def thread(self) -> str:
        """`pid/tid` of the thread that ran it."""
        c = self._trace._c
        return c.threads[c.op_thread[self._i]]

    @property
    def is_annotation(self) -> bool:
        """Whether it is a label (`record_function`, `ProfilerStep#N`), not an op."""
        return bool(self._trace._c.op_annotation[self._i])

    @property
    def parent(self) -> Op | None:
        """The innermost op or label around it on its thread."""
        parent = self._trace._c.op_parent[self._i]
        return None if parent == NONE else Op(self._trace, parent)

    @property
    def children(self) -> tuple[Op, ...]:
        """The ops right below it, by start time."""
        ends = self._trace._c.op_end
        found = []
        child, end = self._i + 1, ends[self._i]
        while child < end:
            found.append(Op(self._trace, child))
            child = ends[child]
        return tuple(found)

    @property
    def depth(self) -> int:
        """How many ops and labels lie around it."""
        parents = self._trace._c.op_parent
        depth, at = 0, parents[self._i]
        while at != NONE:
            depth, at = depth + 1, parents[at]
        return depth

    @property
    def step(self) -> Step | None:
        """The step that contains its start."""
        return self._trace._step_at(self.start_ns)

    def ops(self, name: str | None = None) -> tuple[Op, ...]:
        """All ops below it, by start time."""
        names = self._trace._c.op_name
        below = range(self._i + 1, self._trace._c.op_end[self._i])
        return tuple(Op(self._trace, i) for i in below if name is None or names[i] == name)

    def calls(self, name: str | None = None) -> tuple[Call, ...]:
        """The runtime and driver calls of it and of all ops below it, by start time."""
        names = self._trace._c.call_name
        ids = self._trace._calls_under(self._i, self._trace._c.op_end[self._i])
        return self._trace._calls(i for i in ids if name is None or names[i] == name)

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches of it and of all ops below it, by start time."""
        return tuple(Launch(self._trace, i) for i in self._launch_ids())

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The GPU activities of it and of all ops below it, by launch time."""
        return self._trace._kernels_of_all(self._launch_ids())

    @property
    def shapes(self) -> tuple[tuple[Any, ...], ...]:
        """The shape of each argument: () where it is no tensor, a tuple of shapes for a list."""
        return _tuples(self._argument("Input Dims"))

    @property
    def strides(self) -> tuple[tuple[Any, ...], ...]:
        """The strides of each argument, as `shapes`."""
        return _tuples(self._argument("Input Strides"))

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The type of each argument as the profiler spells it: `c10::BFloat16`, `Scalar`, ``."""
        return tuple(str(x) for x in self._argument("Input type") or self._argument("Input Types"))

    def _launch_ids(self) -> list[int]:
        flags = self._trace._c.call_launch
        ids = self._trace._calls_under(self._i, self._trace._c.op_end[self._i])
        return [i for i in ids if flags[i]]

    def _argument(self, key: str) -> list[Any]:
        value = _decode(self._trace._c.op_args[self._i]).get(key)
        return value if isinstance(value, list) else []


class Call(_View):
    """One call of the runtime's or the driver's API."""

    __slots__ = ()

    @classmethod
    def _kind(cls) -> type:
        return Call  # a launch is the call it is

    @property
    def name(self) -> str:
        return self._trace._c.call_name[self._i]

    @property
    def start_ns(self) -> int:
        return self._trace._c.call_start[self._i]

    @property
    def duration_ns(self) -> int:
        return self._trace._c.call_duration[self._i]

    @property
    def thread(self) -> str:
        """`pid/tid` of the thread that made it."""
        c = self._trace._c
        return c.threads[c.call_thread[self._i]]

    @property
    def op(self) -> Op | None:
        """The innermost op or label that encloses its start on its thread."""
        op = self._trace._c.call_op[self._i]
        return None if op == NONE else Op(self._trace, op)

    @property
    def step(self) -> Step | None:
        """The step that contains its start, on whatever thread."""
        return self._trace._step_at(self.start_ns)


class Launch(Call):
    """A call that starts GPU work: known by its GPU record, or by its API."""

    __slots__ = ()

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """What it started, by start time: many for one `cudaGraphLaunch`."""
        return self._trace._kernels_of_all((self._i,))

    @property
    def captured(self) -> bool:
        """Whether it went into a CUDA graph instead of to the GPU."""
        return bool(self._trace._c.call_captured[self._i])

    @property
    def lost(self) -> bool:
        """Whether it should have a GPU record and has none."""
        return not self.captured and not self._trace._kernels_of(self._i)


class Kernel(_View):
    """One GPU activity: a kernel, a memcpy or a memset."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return self._trace._c.kernel_name[self._i]

    @property
    def start_ns(self) -> int:
        return self._trace._c.kernel_start[self._i]

    @property
    def duration_ns(self) -> int:
        return self._trace._c.kernel_duration[self._i]

    @property
    def category(self) -> Category:
        return CATEGORIES[self._trace._c.kernel_category[self._i]]

    @property
    def stream(self) -> int:
        return self._trace._c.kernel_stream[self._i]

    @property
    def device(self) -> int:
        """The GPU's number."""
        return self._trace._c.kernel_device[self._i]

    @property
    def launch(self) -> Launch | None:
        """The call that started it; None: a stray."""
        launch = self._trace._c.kernel_launch[self._i]
        return None if launch == NONE else Launch(self._trace, launch)

    @property
    def op(self) -> Op | None:
        """The innermost op that launched it."""
        launch = self.launch
        return None if launch is None else launch.op

    @property
    def step(self) -> Step | None:
        """The step in which it was launched."""
        launch = self.launch
        return None if launch is None else launch.step

    @property
    def family(self) -> str:
        """What it does, by its decoded name; `copy` and `fill` for memcpy and memset."""
        if self.category != "kernel":
            return "copy" if self.category == "memcpy" else "fill"
        from kernelpin.kernel_name import decode_kernel_name

        return decode_kernel_name(self.name).family

    @property
    def suspect(self) -> bool:
        """Whether its record is implausible; `Trace.warnings` says why."""
        return bool(self._trace._c.kernel_suspect[self._i])

    @property
    def grid(self) -> tuple[int, ...] | None:
        return self._dimensions("grid")

    @property
    def block(self) -> tuple[int, ...] | None:
        return self._dimensions("block")

    @property
    def bytes(self) -> int | None:
        """How much a memcpy or memset moves."""
        value = self._arguments.get("bytes")
        return value if isinstance(value, int) else None

    @property
    def _arguments(self) -> dict[str, Any]:
        return _decode(self._trace._c.kernel_args[self._i])

    def _dimensions(self, key: str) -> tuple[int, ...] | None:
        value = self._arguments.get(key)
        return tuple(value) if isinstance(value, list) else None


class Step(_View):
    """One `ProfilerStep#N`, or the whole trace where there is none.

    A launch belongs to the step that contains its start, whatever its thread.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        return "the whole trace" if self._i == NONE else self._trace._c.op_name[self._i]

    @property
    def number(self) -> int | None:
        """N of `ProfilerStep#N`."""
        digits = self.name.rpartition("#")[2]
        return int(digits) if self._i != NONE and digits.isdecimal() else None

    @property
    def start_ns(self) -> int:
        return self._trace._window[0] if self._i == NONE else self._trace._c.op_start[self._i]

    @property
    def duration_ns(self) -> int:
        if self._i == NONE:
            start, end = self._trace._window
            return end - start
        return self._trace._c.op_duration[self._i]

    def ops(self, name: str | None = None) -> tuple[Op, ...]:
        """The ops and labels that start in it, on any thread, by start time; not itself."""
        names = self._trace._c.op_name
        return tuple(Op(self._trace, i) for i in self._op_ids() if name in (None, names[i]))

    @property
    def roots(self) -> tuple[Op, ...]:
        """The outermost of its ops."""
        parents = self._trace._c.op_parent
        ids = self._op_ids()
        inside = set(ids)
        return tuple(Op(self._trace, i) for i in ids if parents[i] not in inside)

    def calls(self, name: str | None = None) -> tuple[Call, ...]:
        """The runtime and driver calls that start in it, by start time."""
        names = self._trace._c.call_name
        return self._trace._calls(i for i in self._call_ids() if name in (None, names[i]))

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches that start in it, by start time."""
        flags = self._trace._c.call_launch
        return tuple(Launch(self._trace, i) for i in self._call_ids() if flags[i])

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The GPU activities launched in it, by launch time."""
        return self._trace._kernels_of_all(self._call_ids())

    @property
    def span_ns(self) -> int:
        """From the first start to the last end of its kernels."""
        kernels = self.kernels
        if not kernels:
            return 0
        return max(k.end_ns for k in kernels) - min(k.start_ns for k in kernels)

    @property
    def busy_ns(self) -> int:
        """How long at least one of its kernels ran: overlaps count once."""
        busy = reached = 0
        for start, end in sorted((k.start_ns, k.end_ns) for k in self.kernels):
            if not busy or start > reached:
                reached = start
            if end > reached:
                busy, reached = busy + end - reached, end
        return busy

    @property
    def sum_ns(self) -> int:
        """The durations of its kernels, added up: overlaps count twice."""
        return sum(k.duration_ns for k in self.kernels)

    def _op_ids(self) -> list[int]:
        trace = self._trace
        if self._i == NONE:
            return list(trace._ops_by_start)
        starts = trace._c.op_start
        order = trace._ops_by_start
        first = bisect_left(order, self.start_ns, key=starts.__getitem__)
        end = bisect_right(order, self.end_ns, key=starts.__getitem__)
        return [i for i in order[first:end] if i != self._i and self._holds(starts[i])]

    def _call_ids(self) -> Iterable[int]:
        trace = self._trace
        if self._i == NONE:
            return range(len(trace._c.call_name))
        starts = trace._c.call_start
        within = trace._calls_between(self.start_ns, self.end_ns)
        return [i for i in within if self._holds(starts[i])]

    def _holds(self, time_ns: int) -> bool:
        """Whether a time within its borders is its own, not a later step's."""
        return self._trace._step_at(time_ns) == self


_STEP = re.compile(r"ProfilerStep#\d+")


def _is_step(name: str) -> bool:
    return name.startswith("ProfilerStep#") and _STEP.fullmatch(name) is not None


def _within(scope: Op | Step | None) -> str:
    return f" under {scope.name}" if isinstance(scope, Op) else _during(scope)


def _during(step: Step | None) -> str:
    return "" if step is None or step._i == NONE else f" in {step.name}"


def _decode(args: Any) -> dict[str, Any]:
    """An event's arguments: kept as the JSON they came as until someone asks."""
    if args is None:
        return {}
    if not isinstance(args, dict):
        text = bytes(args)
        args = json.loads(text) if text else {}
    return args if isinstance(args, dict) else {}


def _tuples(value: list[Any]) -> tuple[Any, ...]:
    """Shapes as tuples: of a tensor list a tuple of shapes, of a scalar ()."""
    return tuple(
        tuple(tuple(y) if isinstance(y, list) else y for y in x) if isinstance(x, list) else ()
        for x in value
    )
