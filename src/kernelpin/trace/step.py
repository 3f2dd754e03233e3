"""A step of the profiled loop: what ran and was launched in it, and how long the GPU took."""

from __future__ import annotations

from collections.abc import Iterable

from kernelpin.trace.columns import NONE, REPAIRED
from kernelpin.trace.views import Call, Kernel, Launch, Op, View


class Step(View):
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

    @property
    def untimed(self) -> bool:
        """Whether its duration could not be true, and so what lies in it is not known."""
        return self._i != NONE and self._trace._c.op_untimed[self._i] == REPAIRED

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
    def suspect(self) -> bool:
        """Whether the record of any of its kernels is implausible, and so its times are."""
        return any(kernel.suspect for kernel in self.kernels)

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
            reached = max(reached, start)
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
        own, step_of = trace.steps.index(self), trace._step_of_op
        return [i for i in trace._ops_by_start if step_of[i] == own and i != self._i]

    def _call_ids(self) -> Iterable[int]:
        trace = self._trace
        if self._i == NONE:
            return range(len(trace._c.call_name))
        own, step_of = trace.steps.index(self), trace._step_of_call
        return [i for i, number in enumerate(step_of) if number == own]
