"""Ratios of host time, and what else the stopwatch does without a GPU."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelpin.stopwatch import MeasureError, Stopwatch, fresh_compiler, host
from kernelpin.stopwatch.compiler import no_silent_eager
from kernelpin.stopwatch.inputs import describe_inputs
from kernelpin.stopwatch.sampling import MAX_CALLS

# -- host ratios ----------------------------------------------------------------------------------


class HostClock:
    def __init__(self):
        self.ns, self.order = 0, []

    def works(self, name, ns):
        def call():
            self.order.append(name)
            self.ns += ns

        return call


@settings(max_examples=10)  # each collects garbage
@given(st.integers(1_000, 10_000_000), st.integers(1_000, 10_000_000))
def test_a_ratio_is_a_over_b(a_ns, b_ns):
    clock = HostClock()
    values, _ = host.ratios(
        clock.works("a", a_ns),
        clock.works("b", b_ns),
        rounds=3,
        clock_ns=lambda: clock.ns,
        synchronize=None,
    )
    assert values == pytest.approx([a_ns / b_ns] * 3)


def test_a_steady_drift_of_the_machine_cancels():
    clock = HostClock()

    def drifting(share):
        def call():
            clock.ns += int(1_000_000 * share * (1 + clock.ns / 1e10))

        return call

    values, _ = host.ratios(
        drifting(1.0),
        drifting(1.0),
        rounds=20,
        clock_ns=lambda: clock.ns,
        synchronize=None,
    )
    assert median(values) == pytest.approx(1, abs=1e-5)


def test_an_interruption_of_one_run_does_not_show():
    clock, interrupted = HostClock(), iter([0] * 50 + [10**9] + [0] * 10**4)

    def call():
        clock.ns += 2_000_000 + next(interrupted)

    values, calls = host.ratios(call, call, rounds=20, clock_ns=lambda: clock.ns, synchronize=None)
    assert calls == 1
    assert values == (1.0,) * 20


def test_few_calls_lie_between_two_synchronisations_and_the_wait_is_not_timed():
    clock = HostClock()

    def synchronize():
        clock.order.append("sync")
        clock.ns += 50_000_000

    values, calls = host.ratios(
        clock.works("a", 20_000),
        clock.works("b", 20_000),
        rounds=5,
        clock_ns=lambda: clock.ns,
        synchronize=synchronize,
    )
    assert calls == host.MOST_CALLS_BEFORE_SYNC
    assert values == (1.0,) * 5
    runs = " ".join(clock.order).split("sync")
    assert max(len(run.split()) for run in runs[2:]) == calls


def test_the_garbage_collector_rests_while_host_time_is_taken():
    seen = []
    host.ratios(
        lambda: seen.append(gc.isenabled()),
        lambda: None,
        rounds=2,
        clock_ns=iter(range(0, 10**12, 10**7)).__next__,
        synchronize=None,
    )
    assert seen[-1] is False
    assert gc.isenabled()


def test_host_ratios_need_no_gpu():
    pytest.importorskip("torch")
    slow, fast = (lambda n=n: sum(range(n)) for n in (100_000, 1_000))
    samples = Stopwatch(samples=10).ratio(slow, fast)
    assert (samples.metric, samples.method, samples.unit) == ("host_ratio", "host", "×")
    assert samples.figure > 5


# -- without a GPU, inputs, torch.compile ---------------------------------------------------------


@pytest.mark.parametrize("ask", ["__call__", "counts", "kernels"])
def test_without_a_gpu_everything_else_says_why(ask, monkeypatch):
    monkeypatch.setattr("kernelpin.stopwatch.watch.why_no_gpu", lambda: "torch lacks CUDA")
    with pytest.raises(MeasureError, match=r"no GPU to .*: torch lacks CUDA.*`gpu`.*ratio"):
        getattr(Stopwatch(), ask)(lambda: None)


def test_inputs_are_named_by_dtype_and_shape():
    torch = pytest.importorskip("torch")
    x = torch.empty(1024, 32, dtype=torch.bfloat16)
    nested = [x, {"mask": torch.empty(2, dtype=torch.int64)}, 3, None]
    assert describe_inputs((x, nested)) == "bf16[1024,32] × bf16[1024,32] × int64[2]"
    assert describe_inputs(()) == ""


def test_the_recompile_limit_is_an_error_and_not_a_log_line():
    torch = pytest.importorskip("torch")
    fresh_compiler()
    compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=2):
        for n in (2, 3):
            compiled(torch.ones(n))
        limit = pytest.raises(MeasureError, match="2 compilations of one function is its limit")
        with limit, no_silent_eager():
            compiled(torch.ones(4))
        fresh_compiler()
        with no_silent_eager():
            compiled(torch.ones(4))


def test_other_errors_pass_through_the_recompile_guard():
    pytest.importorskip("torch._dynamo")
    with pytest.raises(ZeroDivisionError), no_silent_eager():
        raise ZeroDivisionError


def test_importing_the_stopwatch_imports_no_torch():
    code = "import sys, kernelpin.stopwatch, kernelpin.machine; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"


def test_the_most_calls_suffice_for_the_fastest_kernel():
    assert math.ceil(2.5 / 0.0009) < MAX_CALLS
