"""What the stopwatch reads off a trace: counts of a call, a kernel's time, which kernels ran."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_trace import call, kernel, label, memcpy, memset, op, small_trace, step, trace_json

from kernelpin import KernelpinWarning, TraceError, load_trace
from kernelpin.machine import State
from kernelpin.stopwatch import KernelFigure, MeasureError, Stopwatch, traced, watch

H200 = Path(__file__).parent.parent / "data" / "h200"
GEMM = "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT"
ADD = "void at::native::elementwise_kernel<at::native::CUDAFunctor_add<float> >(int)"


def one_call(*inside):
    return label("kernelpin", *inside)


def linear(us=2.0):
    return op("aten::linear", op("aten::t"), op("aten::addmm", kernel(GEMM, us)))


def recorded(name):
    return load_trace(H200 / f"{name}.json.gz")


# -- counts ---------------------------------------------------------------------------------------


def test_counts_are_those_of_one_call():
    inside = (linear(), op("aten::add", kernel(ADD)), op("aten::copy_", memcpy()), memset())
    trace = small_trace(*(step(one_call(*inside)) for _ in range(3)))
    assert traced.counts_of(trace, "kernelpin") == {
        "kernels": 2,
        "copies": 2,
        "launches": 4,
        "ops": 5,
        "syncs": 0,
        "graphs": 0,
    }


def test_waits_of_the_call_count_and_the_profilers_own_do_not():
    waits = (call("cudaStreamSynchronize"), call("cudaDeviceSynchronize"), call("cuCtxSynchronize"))
    copies = (memcpy("DtoH", api="cudaMemcpy"), memcpy("DtoH", api="cudaMemcpyAsync"))
    inside = op("aten::item", kernel(ADD), *waits, *copies)
    trace = small_trace(*(step(one_call(inside), call("cudaDeviceSynchronize")) for _ in range(2)))
    assert traced.counts_of(trace, "kernelpin")["syncs"] == 4


def test_calls_that_differ_have_no_counts():
    trace = small_trace(step(one_call(linear())), step(one_call(linear(), linear())))
    with pytest.raises(MeasureError, match="kernels 1 and 2") as caught:
        traced.counts_of(trace, "kernelpin")
    assert "calls 0 and 1" in str(caught.value)


def test_a_step_without_the_label_has_no_counts():
    with pytest.raises(MeasureError, match="0 calls labelled 'kernelpin', not one"):
        traced.counts_of(small_trace(step(linear())), "kernelpin")


def test_lost_records_are_no_counts():
    trace = small_trace(step(one_call(op("aten::mm", kernel(GEMM, lost=True), kernel(ADD)))))
    with pytest.raises(TraceError):
        traced.counts_of(trace, "kernelpin")


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("geglu_64_128_768_3072.eager", (5, 2, 7, 29, 0)),
        ("geglu_64_128_768_3072.compile", (4, 2, 6, 3, 1)),
        ("geglu_64_128_768_3072.ro", (5, 2, 2, 1, 1)),
    ],
)
def test_the_h200s_counts_of_the_geglu_mlp(name, counts):
    found = traced.counts_of(recorded(name), "fwd")
    assert (*(found[key] for key in ("kernels", "copies", "launches", "ops", "graphs")),) == counts


# -- one kernel's time ----------------------------------------------------------------------------


def test_a_kernels_time_is_its_durations_in_time_order():
    trace = small_trace(*(step(one_call(linear(us))) for us in (2.5, 2.0, 9.0)))
    assert traced.kernel_values(trace, "gemm", None) == (2.5, 2.0, 9.0)


@pytest.mark.parametrize(("name", "nth"), [("gemm", 2), ("gemm", -1), ("nvjet*coopB*", None)])
def test_a_kernel_is_picked_by_family_or_glob_and_by_its_place(name, nth):
    trace = recorded("geglu_64_128_768_3072.eager")
    down = tuple(k.duration_ns / 1000 for k in trace.kernels if "coopB" in k.name)
    assert traced.kernel_values(trace, name, nth) == down
    assert len(down) == 3


def test_a_family_takes_in_its_kinds():
    values = traced.kernel_values(recorded("geglu_64_128_768_3072.compile"), "triton", None)
    assert len(values) == 3


@pytest.mark.parametrize(
    ("name", "nth", "wanted"),
    [
        ("attention", None, "a kernel 'attention' in each call, found 0"),
        ("gemm", 3, "kernel 3 of those 'gemm' picks in each call, found 1"),
        ("gemm", -2, "kernel -2 of those 'gemm' picks in each call, found 1"),
    ],
)
def test_a_kernel_that_did_not_run_is_an_error_that_lists_those_that_did(name, nth, wanted):
    trace = small_trace(step(one_call(linear(), op("aten::add", kernel(ADD)))))
    with pytest.raises(MeasureError) as caught:
        traced.kernel_values(trace, name, nth)
    assert wanted in str(caught.value)
    assert "gemm" in str(caught.value)
    assert "elementwise_kernel<add>" in str(caught.value)


def test_calls_that_run_different_kernels_have_no_kernel_time():
    trace = small_trace(
        step(one_call(linear())), step(one_call(op("aten::mm", kernel(f"{GEMM}x"))))
    )
    with pytest.raises(MeasureError, match="different kernels for 'gemm'"):
        traced.kernel_values(trace, "gemm", None)


def test_a_duration_that_cannot_be_true_explains_nothing_and_fails_nothing():
    """Counts, and figures that are there already, are only explained by the kernels' durations."""
    whole = json.loads(trace_json(*(step(op("x", kernel("gemm"))) for _ in range(3))))
    events = [event for event in whole["traceEvents"] if event.get("cat") == "kernel"]
    for event, dur in zip(events, (-2, 5, 7), strict=True):
        event["dur"] = dur
    with pytest.warns(KernelpinWarning):
        trace = load_trace(json.dumps(whole).encode())
    (figure,) = traced.kernel_figures(trace)
    assert (figure.name, figure.count, figure.median_us) == ("gemm", 1, 6.0)


def test_the_kernels_of_a_call_are_listed_with_count_and_median():
    found = traced.kernel_figures(
        small_trace(*(step(one_call(linear(us), linear(us))) for us in (2.0, 3.0, 9.0)))
    )
    assert found == (KernelFigure(GEMM, 2, 3.0),)


# -- through the stopwatch ------------------------------------------------------------------------


@pytest.fixture
def profiled(monkeypatch):
    """A stopwatch whose profiler gives the trace one sets."""
    traces = []
    monkeypatch.setattr(watch, "why_no_gpu", lambda: "")
    monkeypatch.setattr(watch, "learn_own_pid", lambda: None)
    monkeypatch.setattr(watch, "observe", lambda: State(sm_clock_mhz=1980))
    monkeypatch.setattr(watch, "_peak_bytes", lambda call: 4096)
    monkeypatch.setattr(watch, "_busy", lambda call: None)
    monkeypatch.setattr(watch, "_capture", lambda fn, args, steps: traces.pop())
    return traces


def test_counts_come_with_peak_memory_recompiles_and_the_kernels(profiled):
    profiled.append(small_trace(step(one_call(linear()))))
    samples = Stopwatch().counts(lambda: None)
    assert (samples.metric, samples.method, samples.values) == ("counts", "profiler", ())
    assert samples.counts["peak_bytes"] == 4096
    assert samples.counts["recompiles"] == 0
    assert samples.kernels == (KernelFigure(GEMM, 1, 2.0),)


def test_compilations_after_the_first_call_are_recompiles(profiled, monkeypatch):
    compiled = iter((3, 5))
    monkeypatch.setattr(watch, "compilations", lambda: next(compiled))
    profiled.append(small_trace(step(one_call(linear()))))
    assert Stopwatch().counts(lambda: None).counts["recompiles"] == 2


def test_a_kernels_time_comes_with_the_state_around_it(profiled, monkeypatch):
    profiled.append(small_trace(step(one_call(linear(2.5)))))
    samples = Stopwatch().kernel(lambda: None, name="gemm")
    assert (samples.metric, samples.method, samples.unit) == ("kernel_us", "profiler", "µs")
    assert samples.figure == 2.5
    assert samples.state == (State(1980), State(1980))
    assert samples.reason is None
    profiled.append(small_trace(step(one_call(linear(2.5)))))
    monkeypatch.setattr(watch, "observe", lambda: State(1200, thermal=True))
    samples = Stopwatch().kernel(lambda: None, name="gemm")
    assert samples.reason == "thermal slowdown (SM 1200 MHz)"
