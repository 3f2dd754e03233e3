"""Random well-formed traces, with what a reader must find in them known by construction.

`plans()` draws a `Plan`: what ran, when and who started it. `render` writes it as a trace file in
any of the spellings that torch has used; `expected` is what its reader must say, `found` what it
says. Nothing here shares a line with the reader.
"""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import dataclass, field

from hypothesis import strategies as st

OPS = ["aten::linear", "aten::t", "aten::addmm", "autograd::engine", "Torch-Compiled Region: 0/0"]
LABELS = ["fwd", "Optimizer.step#SGD.step", '## Call "x" ##']
QUERIES = ["cudaDeviceSynchronize", "cudaStreamIsCapturing", "cudaFuncGetAttributes",
           "cudaOccupancyMaxActiveBlocksPerMultiprocessor"]  # fmt: skip
STARTERS = {
    "kernel": ["cudaLaunchKernel", "cuLaunchKernelEx", "hipExtModuleLaunchKernel", "newStart"],
    "memcpy": ["cudaMemcpyAsync", "hipMemcpyWithStream"],
    "memset": ["cudaMemsetAsync", "cuMemsetD32Async"],
}


@dataclass
class PlannedOp:
    name: str
    label: bool
    thread: int
    start: int
    parent: PlannedOp | None
    number: int
    end: int = 0


@dataclass
class PlannedCall:
    name: str
    thread: int
    start: int
    duration: int
    op: PlannedOp | None
    kernels: list[PlannedKernel] = field(default_factory=list)
    starts_work: bool = False
    captured: bool = False
    correlation: int = 0


@dataclass
class PlannedKernel:
    name: str
    category: str
    start: int
    duration: int
    device: int
    stream: int
    call: PlannedCall | None


@dataclass
class Plan:
    ops: list[PlannedOp] = field(default_factory=list)
    calls: list[PlannedCall] = field(default_factory=list)
    kernels: list[PlannedKernel] = field(default_factory=list)
    unit: int = 1000  # ns; all times are multiples of it
    seed: int = 0

    @property
    def steps(self):
        return [op for op in self.ops if op.name.startswith("ProfilerStep#")]


@st.composite
def plans(draw, max_actions=14):
    """One to three threads of nested ops; launches of graphs, copies, captured, lost, empty."""
    plan = Plan(unit=draw(st.sampled_from([1000, 100])), seed=draw(st.integers(0, 2**16)))
    threads = draw(st.integers(1, 3))
    for thread in range(threads):
        _Thread(draw, plan, thread).run(draw(st.integers(1, max_actions)))
    plan.ops = [op for op in plan.ops if op.end >= 0]
    _place_kernels(draw, plan)
    for i in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, 50)) * plan.unit
        stray = PlannedKernel(f"stray{i}", "kernel", start, 3 * plan.unit, 0, 99 + i, None)
        plan.kernels.append(stray)
    # ROCm counts from 0.
    numbers = list(range(len(plan.calls)))
    random.Random(plan.seed).shuffle(numbers)
    first = draw(st.sampled_from([0, 1, 2**31]))
    for call, number in zip(plan.calls, numbers, strict=True):
        call.correlation = first + number
    return plan


class _Thread:
    """Writes one thread's events, at a clock that may stand still where that is unambiguous."""

    def __init__(self, draw, plan, thread):
        self.draw, self.plan, self.thread = draw, plan, thread
        self.now = draw(st.integers(0, 3)) * plan.unit
        self.open = []
        self.capturing = False
        self.last = None  # what happened last: "open", "close", "call"

    def run(self, actions):
        if self.thread == 0 and self.draw(st.booleans()):
            self.steps = iter(range(2, 10))
        else:
            self.steps = iter(())
        for _ in range(actions):
            kind = self.draw(st.sampled_from(["open", "open", "close", "call", "call", "step"]))
            if kind == "call":
                self.call()
            elif kind == "close" and self.open:
                self.close()
            elif kind == "step":
                self.step()
            else:
                self.begin(self.draw(st.sampled_from(OPS + LABELS)))
        if self.capturing:
            self.add_call("cudaStreamEndCapture", 1)
        while self.open:
            self.close()

    def tick(self, at_least=0):
        self.now += max(at_least, self.draw(st.integers(0, 3))) * self.plan.unit

    def begin(self, name):
        # A call, or an op of no duration, at the same time would be in this one.
        self.tick(at_least=self.last in ("call", "close"))
        parent = self.open[-1] if self.open else None
        op = PlannedOp(name, name in LABELS or name.startswith("Prof"), self.thread, self.now,
                       parent, len(self.plan.ops))  # fmt: skip
        self.plan.ops.append(op)
        self.open.append(op)
        self.last = "open"

    def close(self):
        # An op of no duration has none in it; and what starts as another ends is not in it.
        op = self.open[-1]
        self.tick()
        if self.now in [x.start for x in self.plan.ops[op.number + 1 :] if x.thread == op.thread]:
            self.tick(at_least=1)
        self.open.pop().end = self.now
        self.last = "close"

    def step(self):
        number = next(self.steps, None)
        if number is None:
            return
        while self.open:
            self.close()
        self.begin(f"ProfilerStep#{number}")

    def call(self):
        kind = self.draw(st.sampled_from(["start", "start", "graph", "query", "lost", "empty",
                                          "capture", "zero"]))  # fmt: skip
        if self.capturing:
            if kind == "capture":
                self.add_call("cudaStreamEndCapture", 1)
                self.capturing = False
            elif kind == "query":
                self.add_call(self.draw(st.sampled_from(QUERIES)), 1)
            else:
                call = self.add_call("cudaLaunchKernel", 4)
                call.starts_work = call.captured = True
            return
        if kind == "capture":
            self.add_call("cudaStreamBeginCapture", 1)
            self.capturing = True
        elif kind == "query":
            self.add_call(self.draw(st.sampled_from(QUERIES)), 1)
        elif kind == "zero":  # a memset of no bytes: too short to have started anything
            self.add_call("cudaMemsetAsync", 0)
        elif kind == "lost":
            call = self.add_call(self.draw(st.sampled_from(STARTERS["memset"] + ["cudaLaunchKernel"
                                                                             ])), 20)  # fmt: skip
            call.starts_work = True
        else:
            category = self.draw(st.sampled_from(list(STARTERS)))
            many = self.draw(st.integers(1, 4)) if kind == "graph" else 1
            name = "cudaGraphLaunch" if kind == "graph" else None
            call = self.add_call(name or self.draw(st.sampled_from(STARTERS[category])), 20)
            call.starts_work = True
            stream = self.draw(st.tuples(st.integers(0, 1), st.sampled_from([0, 7, 20])))
            for _ in range(many):
                call.kernels.append(PlannedKernel("", category, 0, 0, *stream, call))

    def add_call(self, name, duration):
        self.tick(at_least=self.last in ("call", "close"))
        call = PlannedCall(name, self.thread, self.now, duration * self.plan.unit,
                           self.open[-1] if self.open else None)  # fmt: skip
        self.plan.calls.append(call)
        self.last = "call"
        return call


def _place_kernels(draw, plan):
    """Run what was launched: in each stream one after another, an overlap of a unit at most."""
    free = {}
    for call in sorted(plan.calls, key=lambda call: call.start):
        for kernel in call.kernels:
            stream = (kernel.device, kernel.stream)
            kernel.start = max(call.start + draw(st.integers(-1, 30)) * plan.unit,
                               free.get(stream, -(10**9)))  # fmt: skip
            kernel.duration = draw(st.integers(0, 40)) * plan.unit
            kernel.name = f"kernel{len(plan.kernels)}"
            free[stream] = kernel.start + max(0, kernel.duration - plan.unit)
            plan.kernels.append(kernel)


# -- writing --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spelling:
    """How to write a plan down."""

    old: bool = False  # capitals, `external id`, tid `stream 7`, correlations as the only argument
    rocm: bool = False  # one device, without a list
    listed: bool = False  # a bare list of events
    flows: bool = True
    shuffle: int | None = None  # a seed
    shift_us: int = 0
    packed: bool = False
    indent: int | None = None


PLAIN = Spelling()
spellings = st.builds(
    Spelling,
    old=st.booleans(),
    rocm=st.booleans(),
    listed=st.booleans(),
    flows=st.booleans(),
    shuffle=st.none() | st.integers(0, 99),
    shift_us=st.sampled_from([0, 5202177634831, 1661203462598738, 10**17, -(10**7)]),
    packed=st.booleans(),
    indent=st.sampled_from([None, 1]),
)


def render(plan, spelling=PLAIN):
    """The bytes of the trace file."""
    events = [_op(op, plan, spelling) for op in plan.ops]
    events += [_call(call, spelling) for call in plan.calls]
    events += [_kernel(kernel, spelling) for kernel in plan.kernels]
    if spelling.flows:
        # Half of them, as they come; and ids that mean other things in other events.
        events += [
            {"ph": "s", "id": call.correlation + 1, "pid": 1, "tid": 1, "ts": call.start,
             "cat": "ac2g", "name": "ac2g"}
            for call in plan.calls[::2]
        ]  # fmt: skip
        events.append(
            {"ph": "M", "name": "process_name", "ts": 0, "pid": 1, "args": {"name": "py"}}
        )
    if spelling.shuffle is not None:
        random.Random(spelling.shuffle).shuffle(events)
    for event in events:
        for key in ("ts", "dur"):
            if key in event:
                by = spelling.shift_us * 1000 if key == "ts" else 0
                event[key] = _Number(event[key] + by, whole=plan.unit == 1000)
    properties = [{"id": i, "name": f"GPU {i}"} for i in (0, 1)]
    top = {"schemaVersion": 1, "deviceProperties": properties[0] if spelling.rocm else properties,
           "traceEvents": events, "displayTimeUnit": "ms"}  # fmt: skip
    text = json.dumps(events if spelling.listed else top, indent=spelling.indent, default=str)
    text = text.replace('"<', "").replace('>"', "")
    return gzip.compress(text.encode(), 1) if spelling.packed else text.encode()


class _Number:
    """A time in ns as the µs it is written in, digit by digit."""

    def __init__(self, ns, whole):
        sign, ns = "-" if ns < 0 else "", abs(ns)
        self.text = f"{sign}{ns // 1000}" + ("" if whole else f".{ns % 1000:03d}")

    def __str__(self):
        return f"<{self.text}>"


def _op(op, plan, spelling):
    category = "Operator" if spelling.old else "user_annotation" if op.label else "cpu_op"
    ids = {"external id": op.number} if spelling.old else {"Ev Idx": op.number, "External id": 3}
    return {"ph": "X", "cat": category, "name": op.name, "pid": 100, "tid": op.thread,
            "ts": op.start, "dur": op.end - op.start,
            "args": {**ids, "Input Dims": [[op.number, 2], []]}}  # fmt: skip


def _call(call, spelling):
    category = "Runtime" if spelling.old else "cuda_driver" if call.name[:3] == "cuL" else (
        "cuda_runtime")  # fmt: skip
    return {"ph": "X", "cat": category, "name": call.name, "pid": 100, "tid": call.thread,
            "ts": call.start, "dur": call.duration,
            "args": {"External id": call.correlation + 1,
                     "correlation": call.correlation}}  # fmt: skip


def _kernel(kernel, spelling):
    categories = {"kernel": ("kernel", "Kernel"), "memcpy": ("gpu_memcpy", "Memcpy"),
                  "memset": ("gpu_memset", "Memset")}  # fmt: skip
    correlation = kernel.call.correlation if kernel.call else 10**9
    args = {"correlation": correlation, "External id": correlation + 1}
    if not spelling.old:
        args |= {"device": kernel.device, "stream": kernel.stream}
    return {"ph": "X", "cat": categories[kernel.category][spelling.old], "name": kernel.name,
            "pid": kernel.device, "ts": kernel.start, "dur": kernel.duration, "args": args,
            "tid": f"stream {kernel.stream}" if spelling.old else kernel.stream}  # fmt: skip


# -- what must be found ---------------------------------------------------------------------------


def expected(plan):
    """What the reader must say of a plan, by construction."""
    first = min([x.start for x in (*plan.ops, *plan.calls, *plan.kernels)], default=0)

    def ancestors(op):
        while op is not None:
            yield op
            op = op.parent

    def number(op):
        return None if op is None else op.number

    def step_at(time):
        containing = [s for s in plan.steps if s.start <= time <= s.end]
        return max(containing, key=lambda s: s.start).name if containing else None

    by_launch = sorted((k for k in plan.kernels if k.call), key=lambda k: (k.call.start, k.start))
    whole = [] if plan.steps else [("the whole trace", sorted(k.name for k in by_launch))]
    return {
        "ops": sorted(
            (op.number, op.name, op.thread, op.start - first, op.end - op.start, number(op.parent),
             sorted(k.name for k in by_launch if op in ancestors(k.call.op)),
             step_at(op.start))
            for op in plan.ops
        ),
        "launches": sorted(
            (c.start - first, c.thread, c.name, c.captured, not c.captured and not c.kernels,
             number(c.op), step_at(c.start), sorted(k.name for k in c.kernels))
            for c in plan.calls if c.starts_work
        ),
        "calls": sorted((c.start - first, c.thread, c.name, number(c.op)) for c in plan.calls),
        "kernels": sorted(
            (k.name, k.category, k.start - first, k.duration, k.device, k.stream, k.call.name,
             number(k.call.op))
            for k in by_launch
        ),
        "strays": sorted(k.name for k in plan.kernels if k.call is None),
        "steps": whole or sorted(
            (s.name, sorted(k.name for k in by_launch if step_at(k.call.start) == s.name))
            for s in plan.steps
        ),
        "by start": [[x.start - first for x in sorted(y, key=lambda x: x.start)]
                     for y in (plan.ops, plan.calls)],
        "by launch": [k.call.start - first for k in by_launch],
    }  # fmt: skip


def found(trace):
    """The same, as the reader says it."""

    def number(op):
        return None if op is None else op.shapes[0][0]

    def step_name(step):
        return None if step is None or step.number is None else step.name

    def kernels(scope):
        return sorted(kernel.name for kernel in scope.kernels)

    def thread(view):
        return int(view.thread.rpartition("/")[2])

    return {
        "ops": sorted(
            (number(op), op.name, thread(op), op.start_ns, op.duration_ns, number(op.parent),
             kernels(op), step_name(op.step))
            for op in trace.ops()
        ),
        "launches": sorted(
            (x.start_ns, thread(x), x.name, x.captured, x.lost, number(x.op), step_name(x.step),
             kernels(x))
            for x in trace.launches
        ),
        "calls": sorted((x.start_ns, thread(x), x.name, number(x.op)) for x in trace.calls()),
        "kernels": sorted(
            (k.name, k.category, k.start_ns, k.duration_ns, k.device, k.stream, k.launch.name,
             number(k.op))
            for k in trace.kernels
        ),
        "strays": sorted(k.name for k in trace.strays),
        "steps": sorted((step.name, kernels(step)) for step in trace.steps),
        "by start": [[x.start_ns for x in trace.ops()], [x.start_ns for x in trace.calls()]],
        "by launch": [k.launch.start_ns for k in trace.kernels],
    }  # fmt: skip


def launches_between_steps(plan):
    """How many launches have a step before and after them, and lie in none."""
    return sum(
        any(step.end < call.start for step in plan.steps)
        and any(step.start > call.start for step in plan.steps)
        and not any(step.start <= call.start <= step.end for step in plan.steps)
        for call in plan.calls
        if call.starts_work
    )
