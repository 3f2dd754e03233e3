"""The trace itself: what it holds, and whether that can be judged."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate, compress
from typing import Any

from kernelpin.trace.columns import CUT, NONE, Columns, Device, TraceError, is_step
from kernelpin.trace.launches import unlaunched
from kernelpin.trace.step import Step
from kernelpin.trace.views import Call, Kernel, Launch, Op


class Trace:
    """A run, decoded and linked; `kernelpin.load_trace` and `kernelpin.capture` make one."""

    def __init__(
        self,
        columns: Columns,
        *,
        source: str = "<trace>",
        devices: Iterable[Device] = (),
        metadata: Callable[[], dict[str, Any]] = dict,
        warnings: Iterable[str] = (),
        unread: int = 0,
    ) -> None:
        """`metadata` is read when asked for; `unread`: how many records could not be read."""
        self._c = columns
        self._unread = unread
        self.source = source
        self.devices: tuple[Device, ...] = tuple(devices)
        self._read_metadata = metadata
        self.warnings: tuple[str, ...] = tuple(warnings)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The file's top-level keys, but for its events."""
        return self._read_metadata()

    def __repr__(self) -> str:
        c = self._c
        return (
            f"<Trace {self.source}: {len(c.op_name)} ops, {len(c.call_name)} calls, "
            f"{c.linked} kernels, {len(c.kernel_name) - c.linked} strays>"
        )

    @cached_property
    def device(self) -> Device | None:
        """The GPU whose activities the trace holds, the busiest of several; None on the CPU."""
        c = self._c
        if not self.devices or not (c.kernel_name or c.call_name):
            return None
        counts: dict[int, int] = {}
        for number in c.kernel_device:
            counts[number] = counts.get(number, 0) + 1
        busiest = max(counts, key=lambda number: counts[number], default=NONE)
        for device in self.devices:
            if device.id == busiest:
                return device
        # ROCm lists one device, under id 0, whichever runs.
        return self.devices[0]

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """One a `ProfilerStep#N`, by start time; the whole trace where there is none."""
        ids = self._step_ids
        return tuple(Step(self, i) for i in ids) if ids else (Step(self, NONE),)

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """GPU activities (kernel, memcpy, memset) that have a launch, by launch time."""
        return tuple(Kernel(self, i) for i in range(self._c.linked))

    @cached_property
    def strays(self) -> tuple[Kernel, ...]:
        """GPU activities without a launch in the trace: mostly of the step before it."""
        return tuple(Kernel(self, i) for i in range(self._c.linked, len(self._c.kernel_name)))

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """Runtime and driver calls that start GPU work, by start time."""
        flags = self._c.call_launch
        return tuple(Launch(self, i) for i in compress(range(len(flags)), flags))

    @cached_property
    def lost(self) -> tuple[Launch, ...]:
        """Launches whose GPU record is missing, those captured into a graph excluded."""
        return tuple(launch for launch in self.launches if launch.lost)

    @property
    def roots(self) -> tuple[Op, ...]:
        """The ops and labels that lie in no other, thread by thread."""
        return tuple(Op(self, i) for i, parent in enumerate(self._c.op_parent) if parent == NONE)

    @property
    def has_gpu_records(self) -> bool:
        """Whether any GPU activity was recorded, with a launch or without."""
        return bool(self._c.kernel_name)

    def ops(self, name: str | None = None) -> tuple[Op, ...]:
        """Every call of an op or label, at any depth, by start time; no name: all."""
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

        It cannot where records could not be read, launches lost theirs, GPU activities theirs, no
        GPU activity was recorded though something was launched, a step launched nothing while
        others did, a matrix product on the GPU launched nothing, or an end is not known.
        """
        __tracebackhide__ = True
        if self._unread:
            raise self._incomplete(
                f"{self._unread} records could not be read ({'; '.join(self.warnings)})",
                "repair the file or record it again",
            )
        if self.has_gpu_records and not self.launches:
            raise self._incomplete(
                f"none of its {len(self._c.kernel_name)} GPU activities has a launch, so they "
                "belong to no op",
                "profile with ProfilerActivity.CPU as well",
            )
        if not self.has_gpu_records and any(not launch.captured for launch in self.launches):
            raise self._incomplete(
                f"it has {len(self.launches)} launches, but no GPU activity was recorded",
                "profile with ProfilerActivity.CUDA, and no other profiler on the GPU",
            )
        for whose in self.steps if scope is None else (scope,):
            self.require_end(whose)
        start, end = self._window if scope is None else (scope.start_ns, scope.end_ns)
        missing = [x for x in self._c.unrecorded if x[0] <= end and x[1] >= start]
        if missing:
            raise self._incomplete(
                f"{len(missing)} GPU activities{_within(scope)} may be its own, but their launch "
                "was not recorded, so they belong to no op",
                "record it with a newer torch, which records the driver's launches too",
            )
        launched = self.launches if scope is None else scope.launches
        lost = [launch for launch in launched if launch.lost]
        if lost:
            raise self._incomplete(
                f"{len(lost)} of {len(launched)} launches{_within(scope)} lost their GPU record, "
                f"the first: {_place(lost[0])}",
                "record it again, with a synchronisation before the profiler stops",
            )
        silent = [op for op in self._unlaunched if scope is None or _lies_in(op, scope)]
        if silent:
            first, its_call = silent[0], self._unlaunched[silent[0]]
            raise self._incomplete(
                f"{len(silent)} matrix products{_within(scope)} made runtime calls but launched "
                f"nothing, the first: {first.name} at {first.start_ns / 1000:.3f} µs"
                f"{_within(first.step)}, which called {its_call}",
                "record it again: a profiler session can lose launches",
            )
        step = scope.step if isinstance(scope, Op) else scope
        idle = [x for x in (self.steps if step is None else (step,)) if not x.launches]
        if idle and len(self.steps) > 1 and any(other.launches for other in self.steps):
            raise self._incomplete(
                f"{idle[0].name} launched nothing, while other steps did",
                "record it again: a profiler session can lose its first launches",
            )

    def require_end(self, scope: Op | Step) -> None:
        """Raise TraceError where it is not known when the scope ends, and so what lies in it."""
        __tracebackhide__ = True
        if not scope.untimed:
            return
        place = f"{scope.name} at {scope.start_ns / 1000:.3f} µs"
        if self._c.op_untimed[scope._i] == CUT:
            what = f"another op starts in {place} and ends after it"
        else:
            what = f"{place} has no duration, or a negative one"
        raise TraceError(
            f"{self.source}: the trace cannot tell what lies in {scope.name}: {what}; repair the "
            "file or record it again"
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
    def _step_ids(self) -> list[int]:
        ids = [i for name, same in self._ops_by_name.items() if is_step(name) for i in same]
        return sorted(ids, key=self._c.op_start.__getitem__)

    @cached_property
    def _step_starts(self) -> list[int]:
        return [step.start_ns for step in self.steps]

    @cached_property
    def _step_ends_so_far(self) -> list[int]:
        return list(accumulate((step.end_ns for step in self.steps), max))

    @cached_property
    def _step_of_call(self) -> array[int]:
        return array("q", map(self._step_number_at, self._c.call_start))

    @cached_property
    def _step_of_op(self) -> array[int]:
        return array("q", map(self._step_number_at, self._c.op_start))

    @cached_property
    def _window(self) -> tuple[int, int]:
        """First start and last end of what was recorded."""
        c = self._c
        columns = (
            (c.op_start, c.op_duration),
            (c.call_start, c.call_duration),
            (c.kernel_start, c.kernel_duration),
        )
        starts = [min(start) for start, _ in columns if start]
        ends = [max(map(int.__add__, *both)) for both in columns if both[0]]
        return min(starts, default=0), max(ends, default=0)

    @cached_property
    def _unlaunched(self) -> dict[Op, str]:
        """The matrix products whose launch is missing, and a call that each made."""
        found = {Op(self, i): call for i, call in unlaunched(self._c).items()}
        # One without any element has nothing to launch.
        return {op: call for op, call in found.items() if not any(0 in x for x in op.shapes)}

    # -- what the views ask -----------------------------------------------------------------

    def _calls(self, ids: Iterable[int]) -> tuple[Call, ...]:
        flags = self._c.call_launch
        return tuple(Launch(self, i) if flags[i] else Call(self, i) for i in ids)

    def _calls_under(self, first: int, end: int) -> list[int]:
        """The calls made by the ops first … end - 1, by start time."""
        ops = self._c.ops_of_calls
        return sorted(self._c.calls_by_op[bisect_left(ops, first) : bisect_left(ops, end)])

    def _kernels_of(self, call: int) -> range:
        launches, linked = self._c.kernel_launch, self._c.linked
        return range(
            bisect_left(launches, call, 0, linked), bisect_right(launches, call, 0, linked)
        )

    def _kernels_of_all(self, calls: Iterable[int]) -> tuple[Kernel, ...]:
        return tuple(Kernel(self, k) for call in calls for k in self._kernels_of(call))

    def _step_number_at(self, time_ns: int) -> int:
        """Which of the steps contains a time, at a border the later one; NONE: no one does."""
        at = bisect_right(self._step_starts, time_ns) - 1
        # Steps of two threads may overlap: an earlier one may still be running.
        while at >= 0 and self._step_ends_so_far[at] >= time_ns:
            if self.steps[at].end_ns >= time_ns:
                return at
            at -= 1
        return NONE

    def _step_at(self, time_ns: int) -> Step | None:
        number = self._step_number_at(time_ns)
        return None if number == NONE else self.steps[number]


def _lies_in(op: Op, scope: Op | Step) -> bool:
    if isinstance(scope, Op):
        return scope._i <= op._i < scope._trace._c.op_end[scope._i]
    return scope.number is None or op.step == scope


def _within(scope: Op | Step | None) -> str:
    if scope is None or (isinstance(scope, Step) and scope.number is None):
        return ""
    return f" under {scope.name}" if isinstance(scope, Op) else f" in {scope.name}"


def _place(launch: Launch) -> str:
    at = f"{launch.name} at {launch.start_ns / 1000:.3f} µs"
    return f"{at}{_within(launch.op)}{_within(launch.step)}"
