"""The stopwatch: one callable in, its samples out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from kernelpin.machine import State, learn_own_pid, observe, why_no_gpu
from kernelpin.stopwatch import host, traced
from kernelpin.stopwatch.compiler import compilations, no_silent_eager
from kernelpin.stopwatch.inputs import describe_inputs
from kernelpin.stopwatch.samples import KernelFigure, MeasureError, Samples
from kernelpin.stopwatch.sampling import Bench, Plan, measure
from kernelpin.trace import Trace

LABEL = "kernelpin"


class Stopwatch:
    """Measures callables on torch's current CUDA device.

    Timing comes first in a process: `counts`, `kernel` and `kernels` need the profiler, which
    leaves small kernels up to a quarter slower for good. Inputs, their seed and torch.compile's
    state (`fresh_compiler`) are the caller's. Raises `MeasureError` where there is no GPU.
    """

    def __init__(
        self,
        *,
        min_sample_ms: float = 2.5,
        pause_ms: float = 5.0,
        samples: int = 40,
        budget_s: float = 30.0,
        bench: Bench | None = None,
    ) -> None:
        self.plan = Plan(min_sample_ms, pause_ms, samples, budget_s)
        self._bench = bench

    def __call__(self, fn: Callable[..., Any], *args: Any, l2: str = "hot") -> Samples:
        """Return the device time of `fn(*args)` in µs per call, by replays of a CUDA graph.

        A backward or a training step is a callable like any other; one that keeps its gradients
        must set them to None itself, or it measures their accumulation. It is captured anew for
        each of 4 to 24 places in memory, so that a short one is called ten thousand times and more.
        `l2="cold"` flushes the cache before each call and leaves the flush's time out.
        """
        if l2 not in ("hot", "cold"):
            raise ValueError(f"l2={l2!r}: known are 'hot' and 'cold'")
        bench = self._open()
        with no_silent_eager():
            work = bench.work(partial(fn, *args), cold=l2 == "cold")
            taken = measure(work, bench, self.plan)
        values = tuple(1000 * reading.counted_ms / taken.calls for reading in taken.readings)
        if min(values) <= 0:
            raise MeasureError(
                f"a call takes {min(values):.3f} µs beside the flush of the L2 cache: too little "
                "to tell apart. measure it with l2='hot'"
            )
        return Samples(
            metric="device_us",
            values=values,
            method=work.method,
            calls_per_sample=taken.calls,
            l2=l2,
            input=describe_inputs(args),
            seed=_seed(),
            state=taken.states,
            reason=taken.reason,
            places=taken.places,
            note="; ".join(filter(None, (work.note, taken.note))) or None,
        )

    def counts(self, fn: Callable[..., Any], *args: Any) -> Samples:
        """Return what one warm call of `fn(*args)` does, exactly.

        `counts`: kernels, copies (memcpy, memset), launches, ops (ATen), syncs, graphs (compiled
        regions), recompiles (compilations after the first call) and peak_bytes (allocated by it).
        """
        _need_gpu("count on")
        call = partial(fn, *args)
        with no_silent_eager():
            call()
            compiled = compilations()
            peak = _peak_bytes(call)
            trace = _capture(fn, args, steps=3)
            recompiles = compilations() - compiled
        counts = traced.counts_of(trace, LABEL)
        counts |= {"recompiles": recompiles, "peak_bytes": peak}
        return Samples(
            metric="counts",
            values=(),
            method="profiler",
            input=describe_inputs(args),
            seed=_seed(),
            kernels=traced.kernel_figures(trace),
            counts=counts,
        )

    def kernel(
        self,
        fn: Callable[..., Any],
        *args: Any,
        name: str,
        nth: int | None = None,
        steps: int = 20,
    ) -> Samples:
        """Return the durations of a kernel in a trace of `fn(*args)`.

        `name` is a family (`gemm`) or a glob on the kernel's name; where it picks several of a
        call, `nth` keeps one, counted from 0. A trace carries clocks and the profiler's own cost:
        such figures compare within ±20 %, device time within percents.
        """
        _need_gpu("measure on")
        call = partial(fn, *args)
        with no_silent_eager():
            _busy(call)
            before = observe()
            trace = _capture(fn, args, steps=steps)
            after = observe()
        return Samples(
            metric="kernel_us",
            values=traced.kernel_values(trace, name, nth),
            method="profiler",
            l2="hot",
            input=describe_inputs(args),
            seed=_seed(),
            state=(before, after),
            reason=before.disqualifies or after.disqualifies,
            kernels=traced.kernel_figures(trace),
        )

    def kernels(self, fn: Callable[..., Any], *args: Any) -> tuple[KernelFigure, ...]:
        """Return the kernels of one call of `fn(*args)`, so that a figure can be explained."""
        _need_gpu("trace on")
        return traced.kernel_figures(_capture(fn, args, steps=3))

    def ratio(self, a: Callable[..., Any], b: Callable[..., Any], *args: Any) -> Samples:
        """Return the host time of `a(*args)` over that of `b(*args)`, interleaved.

        On the GPU that is the time to issue a call, and on a machine without one to run it.
        """
        states: tuple[State, ...] = ()
        synchronize = None
        if not why_no_gpu():
            import torch

            learn_own_pid()
            synchronize = torch.cuda.synchronize
            states = (observe(),)
        with no_silent_eager():
            values, calls = host.ratios(
                partial(a, *args),
                partial(b, *args),
                rounds=self.plan.samples,
                clock_ns=time.perf_counter_ns,
                synchronize=synchronize,
            )
        return Samples(
            metric="host_ratio",
            values=values,
            method="host",
            calls_per_sample=calls,
            input=describe_inputs(args),
            seed=_seed(),
            state=states,
        )

    def _open(self) -> Bench:
        if self._bench is None:
            _need_gpu("measure on")
            from kernelpin.stopwatch.cuda import CudaBench

            self._bench = CudaBench()
        return self._bench


def _need_gpu(purpose: str) -> None:
    if why := why_no_gpu():
        raise MeasureError(
            f"no GPU to {purpose}: {why}. "
            "mark the test `gpu` to skip it here; stopwatch.ratio works without one"
        )
    learn_own_pid()


def _capture(fn: Callable[..., Any], args: tuple[Any, ...], steps: int) -> Trace:
    from kernelpin import profiling

    return profiling.capture(fn, *args, steps=steps, label=LABEL)


def _busy(call: Callable[[], object], seconds: float = 0.3) -> None:
    """Keep the GPU at work until its clock is up: an idle one starts several times slower."""
    import torch

    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(4):
            call()
        torch.cuda.synchronize()


def _peak_bytes(call: Callable[[], object]) -> int:
    """Return the memory a warm call allocates at its peak, beyond what was there before."""
    import torch

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    peak: int = torch.cuda.max_memory_allocated() - before
    return peak


def _seed() -> int | None:
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.initial_seed())
