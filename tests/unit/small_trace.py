"""Small traces, written as the tree they are: `small_trace(step(op("aten::mm", kernel("x"))))`."""

from __future__ import annotations

import json
from itertools import count

from kernelpin.kineto import load_trace

H200 = {"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320, "numSms": 132,
        "computeMajor": 9, "computeMinor": 0}  # fmt: skip


def op(name, *inside, shapes=None, dtypes=None, label=False):
    return ("op", name, inside, shapes, dtypes, label)


def label(name, *inside):
    return op(name, *inside, label=True)


def step(*inside):
    return ("step", inside)


def kernel(name, us=2.0, *, category="kernel", api="cudaLaunchKernel", lost=False):
    return ("kernel", name, us, category, api, lost)


def memcpy(kind="DtoD", us=2.0, api="cudaMemcpyAsync", name=None):
    return kernel(name or f"Memcpy {kind} (…)", us, category="gpu_memcpy", api=api)


def memset(us=1.0):
    return kernel("Memset (Device)", us, category="gpu_memset", api="cudaMemsetAsync")


def call(name, us=1.0):
    return ("call", name, us)


def trace_json(*parts, gpu=True) -> bytes:
    """The parts one after another: each op takes the time of what is in it and 2 µs; kernels run
    one after another, 5 µs behind their launch or later."""
    events = []
    now, gpu_free = 0.0, 0.0
    correlation, number = count(1), count(2)

    def event(cat, name, ts, dur, **args):
        events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur,
             "args": args}
        )  # fmt: skip
        return events[-1]

    # A stack, not recursion, so that a test may nest as deep as a trace may.
    todo = list(reversed(parts))
    while todo:
        part = todo.pop()
        if callable(part):
            part()
            continue
        what, *rest = part
        if what in ("op", "step"):
            if what == "step":
                name, (inside,), extra, cat = f"ProfilerStep#{next(number)}", rest, {}, None
            else:
                name, inside, shapes, dtypes, is_label = rest
                extra = {} if shapes is None else {"Input Dims": shapes, "Input type": dtypes}
                cat = "user_annotation" if is_label else "cpu_op"
            made = event(cat or "user_annotation", name, now, 0, **extra)
            now += 1

            def close(made=made):
                nonlocal now
                now += 1
                made["dur"] = now - made["ts"]
                now += 1

            todo.append(close)
            todo.extend(reversed(inside))
        elif what == "call":
            event("cuda_runtime", rest[0], now, rest[1], correlation=next(correlation))
            now += rest[1] + 1
        else:
            name, us, category, api, lost = rest
            c = next(correlation)
            event("cuda_runtime", api, now, 1, correlation=c)
            if gpu and not lost:
                gpu_free = max(gpu_free, now + 5)
                event(category, name, gpu_free, us, correlation=c, stream=7, device=0)["tid"] = 7
                gpu_free += us
            now += 2
    header = {"deviceProperties": [H200] if gpu else []}
    return json.dumps({**header, "traceEvents": events}).encode()


def small_trace(*parts, gpu=True):
    return load_trace(trace_json(*parts, gpu=gpu))
