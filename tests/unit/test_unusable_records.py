"""What rests on a record known to be unusable is refused; what does not is judged."""

from __future__ import annotations

import json
import re
import warnings

import pytest
from small_trace import call, kernel, label, memcpy, op, step, trace_json

from kernelpin import ClaimFailed, TraceError, expect, load_trace
from kernelpin.difference import compare, lines
from kernelpin.overview import headline
from kernelpin.overview import lines as shown
from kernelpin.stopwatch import MeasureError, traced

GEMM = "nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT"
ADD = "void at::native::elementwise_kernel<128, 4, at::native::CUDAFunctor_add<float> >(int)"
MISSING = object()
UNUSABLE = [MISSING, None, "soon", -5.0, True, 1e30]


def damaged(parts, dur, **where):
    """The trace, its events that match with `dur` in place of their duration."""
    file = json.loads(trace_json(*parts))
    found = [e for e in file["traceEvents"] if all(e[key] == x for key, x in where.items())]
    assert found
    for event in found:
        event["dur"] = dur
        if dur is MISSING:
            del event["dur"]
    return quietly(file)


def quietly(file):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_trace(json.dumps(file).encode())


def steps(*inside, n=2):
    return [step(label("mine", *inside)) for _ in range(n)]


LINEAR = op("aten::linear", op("aten::t"), op("aten::addmm", kernel(GEMM), kernel(ADD)))


# -- durations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dur", UNUSABLE)
@pytest.mark.parametrize("api", ["cudaMemcpyAsync", "cudaMemsetAsync"])
def test_a_call_whose_duration_is_not_known_is_not_said_to_move_nothing(api, dur):
    parts = steps(LINEAR, op("aten::copy_", kernel("x", api=api, lost=True)))
    trace = damaged(parts, dur, name=api)
    assert [launch.name for launch in trace.lost] == [api] * 2
    with pytest.raises(TraceError, match=f"2 of 6 launches lost .* first: {api} at"):
        expect(trace).copies_nothing()


def test_a_short_memset_without_a_record_still_moves_nothing():
    parts = steps(LINEAR, op("aten::zero_", kernel("x", api="cudaMemsetAsync", lost=True)))
    expect(damaged(parts, 0.3, name="cudaMemsetAsync")).launches_no("fill")


@pytest.mark.parametrize("dur", UNUSABLE)
def test_kernels_without_a_duration_tell_no_pace_and_are_counted(dur):
    trace = damaged(steps(LINEAR), dur, cat="kernel")
    for claim in (expect(trace).is_overhead_bound, expect(trace).is_compute_bound):
        with pytest.raises(TraceError, match="has implausible GPU times"):
            claim()
    expect(trace).launches(1, "gemm", allowing="elementwise")


@pytest.mark.parametrize("dur", UNUSABLE)
@pytest.mark.parametrize("name", ["mine", "cudaLaunchKernel"])
def test_the_pace_is_not_told_by_a_host_time_that_is_not_known(name, dur):
    trace = damaged(steps(LINEAR), dur, name=name)
    # The label's duration tells when the host is done, as the last launch's does.
    with pytest.raises(TraceError, match=f"no sound duration of {name}, so nothing can be said"):
        expect(trace).is_overhead_bound()


@pytest.mark.parametrize("dur", UNUSABLE)
def test_what_lies_in_an_op_without_a_duration_is_not_known(dur):
    trace = damaged(steps(LINEAR), dur, name="aten::addmm")
    under = expect(trace).under("aten::addmm")
    for claim in (under.launches_nothing, lambda: under.does_not_dispatch("aten::t")):
        with pytest.raises(TraceError, match="cannot tell what lies in aten::addmm: aten::addmm"):
            claim()
    with pytest.raises(TraceError, match="cannot tell what lies in aten::addmm"):
        trace.require_complete(trace.ops("aten::addmm")[0])
    expect(trace).under("aten::linear").launches(1, "gemm", allowing="elementwise")


@pytest.mark.parametrize("dur", UNUSABLE)
def test_what_lies_in_a_step_without_a_duration_is_not_known(dur):
    trace = damaged(steps(LINEAR), dur, name="ProfilerStep#2")
    for claims in (expect(trace), expect(trace.steps[0])):
        with pytest.raises(TraceError, match="cannot tell what lies in ProfilerStep#2"):
            claims.launches_no("copy")
    expect(trace.steps[1]).launches_no("copy")


@pytest.mark.parametrize("dur", UNUSABLE)
def test_a_wait_whose_op_may_be_one_without_a_duration_is_not_passed_over(dur):
    wait = op("aten::item", call("cudaDeviceSynchronize"))
    parts = [step(LINEAR, wait)]
    with pytest.raises(ClaimFailed):
        expect(load_trace(trace_json(*parts))).never_synchronizes()
    with pytest.raises(TraceError, match="cannot tell what lies in aten::item"):
        expect(damaged(parts, dur, name="aten::item")).never_synchronizes()


@pytest.mark.parametrize("dur", UNUSABLE)
def test_an_op_that_is_said_to_be_fused_may_have_kernels_of_its_own(dur):
    fused = kernel("triton_poi_fused_gelu_mul_0")
    parts = steps(op("aten::mul", kernel(ADD)), fused)
    with pytest.raises(ClaimFailed):
        expect(load_trace(trace_json(*parts))).fuses("gelu", "mul")
    with pytest.raises(TraceError, match="cannot tell what lies in aten::mul"):
        expect(damaged(parts, dur, name="aten::mul")).fuses("gelu", "mul")


def test_what_lies_in_an_op_that_another_one_outlasts_is_not_known():
    file = json.loads(trace_json(*steps(LINEAR, n=1)))
    linear, view, product = (e for e in file["traceEvents"] if e["cat"] == "cpu_op")
    view["dur"] = linear["dur"] + 3  # so that aten::addmm seems to lie in aten::t alone
    trace = quietly(file)
    with pytest.raises(TraceError, match=r"aten::linear: another op starts in aten::linear at"):
        expect(trace).under("aten::linear").launches_nothing()
    expect(trace).under("aten::addmm").launches(1, "gemm", allowing="elementwise")
    assert product["name"] == "aten::addmm"


def test_labels_may_overlap_where_it_matters_what_lies_in_ops():
    """Two requests on one thread, each in a record_function of its own."""
    file = json.loads(trace_json(*steps(label("one", LINEAR), label("two", op("aten::t")), n=1)))
    one, two = (e for e in file["traceEvents"] if e["name"] in ("one", "two"))
    one["dur"] = two["ts"] + two["dur"] / 2 - one["ts"]
    trace = quietly(file)
    expect(trace).never_synchronizes()
    expect(trace).under("aten::linear").launches(1, "gemm", allowing="elementwise")


# -- figures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dur", UNUSABLE)
def test_kernels_without_a_duration_give_no_figure(dur):
    parts = steps(LINEAR)
    whole, trace = load_trace(trace_json(*parts)), damaged(parts, dur, name=GEMM)
    for figure in (traced.kernel_figures, lambda t: traced.kernel_values(t, "gemm", None)):
        with pytest.raises(MeasureError, match=r"the GPU record of nvjet.* at .* is no figure"):
            figure(trace)
    assert traced.kernel_values(trace, "elementwise", None) == (2.0, 2.0)
    assert headline(trace).endswith("4 kernels, time on the GPU not known")
    assert "GEMM             2       1  not known      –" in shown(trace)
    assert lines(compare(whole, trace))[-1] == "kernel times: the same"
    assert {row.name: row.now_ns for row in compare(whole, trace).kernels} == {
        GEMM: None, ADD: 2000.0,
    }  # fmt: skip


@pytest.mark.parametrize("dur", UNUSABLE)
def test_a_label_without_a_duration_gives_no_counts(dur):
    parts = steps(LINEAR, call("cudaStreamSynchronize"))
    assert traced.counts_of(load_trace(trace_json(*parts)), "mine")["syncs"] == 1
    with pytest.raises(TraceError, match="cannot tell what lies in mine"):
        traced.counts_of(damaged(parts, dur, name="mine"), "mine")


def test_a_copy_of_a_sound_duration_is_a_copy():
    expect(damaged(steps(LINEAR, memcpy()), 0.2, name="cudaMemcpyAsync")).copies(1, "DtoD")


# -- categories that no torch known here writes ---------------------------------------------------


def with_unknown(*parts, **renamed):
    """The trace, the categories of some of its events renamed by the event's name."""
    file = json.loads(trace_json(*parts))
    for event in file["traceEvents"]:
        event["cat"] = renamed.get(event["name"], event["cat"])
    return quietly(file)


# The name of a kernel does not make it a wait.
NEW = kernel("wait_event", api="cuSubmitWork")


@pytest.mark.parametrize(
    "renamed",
    [
        {"wait_event": "kernel_v2"},
        {"cuSubmitWork": "musa_runtime"},
        {"wait_event": "musa_kernel", "cuSubmitWork": "musa_runtime"},
    ],
)
def test_what_may_be_gpu_work_of_an_unknown_category_is_not_left_out_unsaid(renamed):
    parts = steps(op("aten::linear", op("aten::addmm", kernel(GEMM), NEW)))
    with pytest.raises(ClaimFailed):
        expect(load_trace(trace_json(*parts))).launches(1, "gemm")
    trace = with_unknown(*parts, **renamed)
    told = [line for line in trace.warnings if "that may be GPU work, as their" in line]
    assert len(told) == len(renamed)
    unread = f"{2 * len(renamed)} records could not be read (2 event(s) of"
    for claim in (expect(trace), expect(trace.steps[0]), expect(trace.ops("aten::addmm")[0])):
        with pytest.raises(TraceError, match=re.escape(unread)):
            claim.launches(1, "gemm")


def test_the_correlation_id_of_an_unknown_category_may_be_text():
    parts = steps(op("aten::addmm", kernel(GEMM), NEW))
    file = json.loads(trace_json(*parts))
    for event in file["traceEvents"]:
        if event["name"] == "wait_event":
            event |= {"cat": "kernel_v2"}
            event["args"]["correlation"] = str(event["args"]["correlation"])
    with pytest.raises(TraceError, match="2 records could not be read"):
        expect(quietly(file)).launches(1, "gemm")


@pytest.mark.parametrize("api", ["cudaStreamSynchronize", "cudaStreamWaitEvent", "hipEventRecord"])
def test_the_record_of_a_wait_in_an_unknown_category_is_no_work(api):
    parts = steps(op("aten::addmm", kernel(GEMM), kernel("sync", api=api)))
    trace = with_unknown(*parts, sync="gpu_sync_v2")
    assert trace.warnings == (
        "2 event(s) of the unknown category 'gpu_sync_v2', left out, the first: sync",
    )
    expect(trace).launches(1, "gemm")


def test_what_shares_no_correlation_id_is_no_work():
    file = json.loads(trace_json(*steps(op("aten::addmm", kernel(GEMM)))))
    odd = {"ph": "X", "cat": "note", "name": "n", "pid": 1, "tid": 1, "ts": 3, "dur": 1}
    file["traceEvents"] += [odd, odd, {**odd, "args": {"correlation": 99}}]
    expect(quietly(file)).launches(1, "gemm")


# -- launches of which nothing is left ------------------------------------------------------------

OF_THE_CPU_TOO = ["cudaPointerGetAttributes", "cudaStreamIsCapturing", "cudaHostAlloc"]
PRODUCTS = ["aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear", "aten::matmul"]


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("left", ["cudaDeviceSynchronize", "cudaGetDevice", "cudaFuncSetAttribute"])
def test_a_matrix_product_that_made_a_call_of_the_gpus_and_launched_nothing_lost_it(name, left):
    trace = load_trace(trace_json(*steps(op("outer", op(name, call(left), shapes=[[4, 4]])))))
    for claim in (expect(trace), expect(trace.steps[1]), expect(trace.ops("outer")[0])):
        with pytest.raises(TraceError, match=f"but launched nothing, .* which called {left}; rec"):
            claim.launches_no("gemm")
    with pytest.raises(TraceError, match=f"2 matrix products made .* the first: {name} at .*#2"):
        expect(trace).launches_nothing()


def test_it_is_seen_beside_products_that_have_their_launch():
    trace = load_trace(trace_json(*steps(LINEAR, op("aten::mm", call("cudaGetDevice")))))
    with pytest.raises(TraceError, match="2 matrix products made runtime calls"):
        expect(trace).launches(1, "gemm", allowing="elementwise")
    expect(trace.ops("aten::linear")[0]).launches(1, "gemm", allowing="elementwise")


@pytest.mark.parametrize(
    "product",
    [
        op("aten::mm"),  # of the CPU's tensors: no trace tells them from those whose all is lost
        *(op("aten::mm", call(name)) for name in OF_THE_CPU_TOO),
        op("aten::mm", call("cudaFuncSetAttribute"), shapes=[[0, 4], [4, 4]]),
        op("aten::t", call("cudaGetDevice")),
    ],
)
def test_what_need_not_launch_is_not_said_to_have_lost_it(product):
    trace = load_trace(trace_json(*steps(product, op("aten::add", kernel(ADD)))))
    expect(trace).launches_no("gemm")


def test_launches_between_two_steps_are_told():
    lonely = op("aten::mm", kernel(GEMM))
    trace = quietly(json.loads(trace_json(step(LINEAR), lonely, step(LINEAR))))
    assert len(trace.warnings) == 1
    assert trace.warnings[0].startswith("1 launch(es) between two steps, in none, so no claim")
    assert "the first: cudaLaunchKernel at " in trace.warnings[0]
    assert load_trace(trace_json(lonely, step(LINEAR), step(LINEAR), lonely)).warnings == ()
