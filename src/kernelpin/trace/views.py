"""Views of a trace's events: what one op, call, launch, kernel or step shows.

A view holds its trace and a number; whatever it tells is looked up in the columns.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kernelpin.trace.columns import CATEGORIES, NONE, Category, TraceError

if TYPE_CHECKING:
    from kernelpin.trace.model import Trace
    from kernelpin.trace.step import Step


def _is_told(caught: Any) -> bool:
    """Whether an error is about the trace: pytest then shows who asked, and not the views."""
    return isinstance(caught.value, TraceError)


__tracebackhide__ = _is_told


class View:
    """One event of a trace: equal to any other view of the same event."""

    __slots__ = ("_i", "_trace")

    def __init__(self, trace: Trace, index: int) -> None:
        self._trace = trace
        self._i = index

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, View):
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


class Op(View):
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
    def suspect(self) -> bool:
        """Whether the record of any of its kernels is implausible."""
        return any(kernel.suspect for kernel in self.kernels)

    @property
    def untimed(self) -> bool:
        """Whether its end, and so what lies in it, is not known; `Trace.warnings` says why."""
        return bool(self._trace._c.op_untimed[self._i])

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
        return tuple(map(str, self._argument("Input type")))

    def _launch_ids(self) -> list[int]:
        flags = self._trace._c.call_launch
        ids = self._trace._calls_under(self._i, self._trace._c.op_end[self._i])
        return [i for i in ids if flags[i]]

    def _argument(self, key: str) -> list[Any]:
        arguments = _decode(self._trace._c.op_args[self._i], self)
        value = arguments.get(key, arguments.get(key.replace("Dims", "dims")))
        return value if isinstance(value, list) else []


class Call(View):
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
    def untimed(self) -> bool:
        """Whether its duration could not be true, and was taken as 0."""
        return bool(self._trace._c.call_untimed[self._i])

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


class Kernel(View):
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
        """`kernel`, `memcpy` or `memset`."""
        return CATEGORIES[self._trace._c.kernel_category[self._i]]

    @property
    def stream(self) -> int:
        """The CUDA stream's number."""
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
        """Thread blocks in x, y and z."""
        return self._dimensions("grid")

    @property
    def block(self) -> tuple[int, ...] | None:
        """Threads a block in x, y and z."""
        return self._dimensions("block")

    @property
    def bytes(self) -> int | None:
        """How much a memcpy or memset moves."""
        value = self._arguments.get("bytes")
        return value if isinstance(value, int) else None

    @property
    def _arguments(self) -> dict[str, Any]:
        return _decode(self._trace._c.kernel_args[self._i], self)

    def _dimensions(self, key: str) -> tuple[int, ...] | None:
        value = self._arguments.get(key)
        return tuple(value) if isinstance(value, list) else None


def _decode(args: Any, event: View) -> dict[str, Any]:
    """An event's arguments: kept as the JSON they came as until someone asks."""
    if not isinstance(args, dict):
        try:
            args = json.loads(bytes(args).decode(errors="replace"))
        except (ValueError, RecursionError) as error:
            raise TraceError(
                f"{event._trace.source}: the args of {event.name} cannot be read: {error}"
            ) from None
    return args if isinstance(args, dict) else {}


def _tuples(value: list[Any]) -> tuple[tuple[Any, ...], ...]:
    """Shapes as tuples: of a tensor list a tuple of shapes, of a scalar ()."""
    return tuple(
        tuple(tuple(y) if isinstance(y, list) else y for y in x) if isinstance(x, list) else ()
        for x in value
    )
