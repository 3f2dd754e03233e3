"""A trace's model: what the small traces of tests/data/cases must give (its EXPECTED.md, line by
line), and what traces recorded on an H200 show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelpin import KernelpinWarning, TraceError, load_trace
from kernelpin.trace import Call, Device, Launch, slugify

DATA = Path(__file__).parent.parent / "data"
CASES = DATA / "cases"
H200 = DATA / "h200"


def case(name):
    return load_trace(CASES / f"{name}.json")


def recorded(name):
    return load_trace(H200 / f"{name}.json.gz")


def trace_of(*events, **top):
    return load_trace(json.dumps({"traceEvents": list(events), **top}).encode())


def event(cat, name, ts, dur=1, tid=1, pid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
            "args": args}  # fmt: skip


def op(name, ts, dur, tid=1, **args):
    return event("cpu_op", name, ts, dur, tid, **args)


def launch(ts, correlation, dur=2, tid=1, name="cudaLaunchKernel"):
    return event("cuda_runtime", name, ts, dur, tid, correlation=correlation)


def kernel(ts, correlation, dur=10, name="k", stream=7, device=0, cat="kernel", **args):
    return event(cat, name, ts, dur, stream, device, correlation=correlation, stream=stream,
                 device=device, **args)  # fmt: skip


def names(views):
    return [view.name for view in views]


# -- EXPECTED.md ----------------------------------------------------------------------------------


def test_every_small_trace_has_its_test():
    expected = set((CASES / "EXPECTED.md").read_text().replace("`", " ").replace(":", " ").split())
    for file in CASES.glob("*.json"):
        assert file.name in expected
        assert f'"{file.stem}"' in Path(__file__).read_text()


def test_the_launch_decides_where_ids_share_one_number_space():
    trace = case("ids-share-one-number-space")
    (addmm,) = trace.ops("aten::addmm")
    (zeros,) = trace.ops("aten::zeros")
    assert len(addmm.kernels) == 1
    assert zeros.kernels == ()


def test_external_ids_that_join_to_nothing_do_not_matter():
    (addmm,) = case("external-ids-unrelated").ops("aten::addmm")
    assert [k.duration_ns for k in addmm.kernels] == [50_000]


def test_a_kernel_of_the_warm_up_is_a_stray():
    trace = case("warm-up-kernel-leaks-in")
    assert [len(step.kernels) for step in trace.steps] == [1, 1, 1]
    assert [len(op.kernels) for op in trace.ops("aten::addmm")] == [1, 1, 1]
    (stray,) = trace.strays
    assert stray.launch is None
    assert stray.op is None
    assert stray.step is None
    trace.require_complete()


def test_a_trace_that_lost_a_kernel_cannot_be_judged():
    trace = case("profiler-lost-a-kernel")
    assert [launch.step.name for launch in trace.lost] == ["ProfilerStep#3"]
    lost = "1 of 3 launches lost their GPU record, the first: cudaLaunchKernel at 125.000 µs"
    with pytest.raises(TraceError, match=f"{lost} under aten::addmm in ProfilerStep#3"):
        trace.require_complete()


def test_what_lost_nothing_can_be_judged_in_a_trace_that_lost_a_kernel_elsewhere():
    trace = case("profiler-lost-a-kernel")
    first, second, third = trace.steps
    first.name, trace.require_complete(first), trace.require_complete(third)
    with pytest.raises(TraceError, match="in ProfilerStep#3 lost"):
        trace.require_complete(second)
    with pytest.raises(TraceError, match="under aten::addmm lost"):
        trace.require_complete(second.ops("aten::addmm")[0])


def test_launches_without_any_gpu_record_are_no_proof_that_nothing_ran():
    trace = case("launches-but-no-kernels")
    assert len(trace.launches) == 3
    assert not trace.has_gpu_records
    for scope in (None, trace.steps[0], trace.ops("aten::addmm")[0]):
        with pytest.raises(TraceError, match="3 launches, but no GPU activity was recorded"):
            trace.require_complete(scope)


def test_a_bare_inf_is_read():
    with pytest.warns(KernelpinWarning, match="a bare NaN or infinity at byte 461"):
        trace = case("inf-in-args")
    (copy,) = trace.ops("aten::copy_")[0].kernels
    assert (copy.category, copy.duration_ns, copy.family) == ("memcpy", 0, "copy")


def test_quotes_in_a_label_are_repaired():
    with pytest.warns(KernelpinWarning, match="quotes inside a string at byte 75"):
        trace = case("quotes-in-a-name")
    assert names(trace.ops()) == ['{"device": "cpu"}(12): run', "aten::mm"]
    assert trace.ops("aten::mm")[0].parent == trace.annotations()[0]


def test_overlapping_kernels_add_up_in_the_sum_and_not_in_the_busy_time():
    (step,) = case("kernels-overlap-in-one-stream").steps
    assert len(step.kernels) == 2
    assert step.sum_ns == 5_776
    assert step.busy_ns == 4_000
    assert step.span_ns == 4_000
    assert not step.suspect


def test_a_gpu_annotation_is_no_kernel():
    (step,) = case("gpu-annotation-is-no-kernel").steps
    assert len(step.kernels) == 1
    assert step.sum_ns == step.busy_ns == 50_000


def test_a_split_k_reduction_is_no_gemm():
    (linear,) = case("split-k-helper").ops("aten::linear")
    assert [k.family for k in linear.kernels] == ["gemm", "splitk_reduce"]


def test_a_bias_that_is_not_folded_has_a_kernel_of_its_own():
    (linear,) = case("bias-not-folded").ops("aten::linear")
    assert [k.family for k in linear.kernels] == ["gemm", "elementwise"]


# -- the tree -------------------------------------------------------------------------------------


def test_the_dispatch_of_a_linear_is_a_tree():
    trace = recorded("linear_1024_32_64.eager")
    step = trace.steps[0]
    (linear,) = step.ops("aten::linear")
    assert names(linear.children) == ["aten::t", "aten::addmm"]
    assert names(linear.ops()) == [
        "aten::t", "aten::transpose", "aten::as_strided", "aten::addmm",
    ]  # fmt: skip
    assert linear.parent.name == "fwd"
    assert linear.parent.is_annotation
    assert not linear.is_annotation
    assert linear.parent.parent.name == step.name
    assert (linear.parent.parent.parent, linear.parent.parent.depth, linear.depth) == (None, 0, 2)
    assert linear.step == step
    assert names(step.roots) == ["fwd"]
    assert [root.name for root in trace.roots] == [s.name for s in trace.steps]
    assert linear.shapes == ((1024, 32), (64, 32), (64,))
    assert linear.strides == ((32, 1), (32, 1), (1,))
    assert linear.dtypes == ("c10::BFloat16",) * 3


def test_a_kernel_knows_who_launched_it():
    trace = recorded("linear_1024_32_64.eager")
    (kernel,) = trace.steps[1].kernels
    assert kernel.op.name == "aten::addmm"
    assert kernel.launch.name == "cuLaunchKernelEx"
    assert kernel.launch.kernels == (kernel,)
    assert kernel.launch in kernel.op.launches
    assert kernel.step == trace.steps[1]
    assert (kernel.category, kernel.device, kernel.stream) == ("kernel", 0, 7)
    assert len(kernel.grid) == len(kernel.block) == 3
    assert kernel.bytes is None
    assert not kernel.suspect


def test_the_device_has_the_name_of_its_folder():
    trace = recorded("linear_1024_32_64.eager")
    assert trace.device == Device(0, "NVIDIA H200", (9, 0), 132, 150_109_880_320)
    assert trace.device.slug == "nvidia-h200"
    assert slugify("NVIDIA A100-SXM4-80GB") == "nvidia-a100-sxm4-80gb"
    assert slugify("  Tesla T4 (MIG 1g.5gb)") == "tesla-t4-mig-1g-5gb"
    assert trace.metadata["cuda_runtime_version"] == 13000
    assert "traceEvents" not in trace.metadata


def test_a_graph_launch_has_all_the_kernels_of_its_graph():
    trace = recorded("geglu_64_128_768_3072.ro")
    (graph,) = [x for x in trace.steps[0].launches if x.name == "cudaGraphLaunch"]
    assert [k.category for k in graph.kernels] == [
        "memset", "kernel", "memset", "kernel", "kernel", "kernel",
    ]  # fmt: skip
    assert all(k.launch == graph for k in graph.kernels)
    assert graph.kernels[0].bytes == 4
    trace.require_complete()


def test_ops_are_found_by_name_at_any_depth_by_start_time():
    trace = recorded("geglu_64_128_768_3072.eager")
    found = trace.ops("aten::linear")
    assert [len(x.kernels) for x in found] == [2, 2, 1] * 3
    assert [x.start_ns for x in found] == sorted(x.start_ns for x in found)
    assert trace.ops("aten::none") == ()
    assert set(found) < set(trace.ops())
    assert sum(len(step.ops("aten::linear")) for step in trace.steps) == 9


def test_steps_have_numbers_and_the_launches_within_them():
    trace = recorded("geglu_64_128_768_3072.eager")
    assert [step.number for step in trace.steps] == [2, 3, 4]
    assert sum((step.kernels for step in trace.steps), ()) == trace.kernels
    for step in trace.steps:
        assert step.start_ns <= step.launches[0].start_ns <= step.end_ns
        assert step.busy_ns <= step.sum_ns <= step.span_ns
        assert set(step.launches) <= set(step.calls())


def test_a_trace_without_steps_is_one_step():
    trace = trace_of(op("a", 0, 10), launch(2, 1), kernel(20, 1, dur=5))
    (step,) = trace.steps
    assert (step.number, step.start_ns, step.duration_ns) == (None, 0, 25_000)
    assert step.kernels == trace.kernels
    assert step.roots == trace.roots
    assert trace.ops("a")[0].step == step


def test_a_launch_belongs_to_the_step_that_contains_its_start_whatever_its_thread():
    trace = trace_of(
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("user_annotation", "ProfilerStep#2", 100, 100),
        op("backward", 90, 60, tid=2),
        launch(95, 1, tid=2), launch(100, 2, tid=2), launch(140, 3, tid=2), launch(300, 4, tid=2),
        *(kernel(400 + 20 * i, i) for i in (1, 2, 3, 4)),
    )  # fmt: skip
    first, second = trace.steps
    assert [k.start_ns for k in first.kernels] == [420_000]
    assert [k.start_ns for k in second.kernels] == [440_000, 460_000]
    assert trace.launches[3].step is None
    assert len(trace.ops("backward")[0].kernels) == 3
    assert trace.ops("backward")[0].step == first
    assert names(first.roots) == ["backward"]
    assert second.roots == ()


def test_steps_of_two_loops_are_in_order_of_time():
    steps = [event("user_annotation", f"ProfilerStep#{n}", ts, 9) for n, ts in
             ((1, 0), (2, 10), (1, 20))]  # fmt: skip
    assert [step.start_ns for step in trace_of(*steps).steps] == [0, 10_000, 20_000]


def test_a_launch_within_two_steps_of_two_threads_is_of_the_one_that_still_runs():
    trace = trace_of(
        event("user_annotation", "ProfilerStep#1", 0, 300, tid=1),
        event("user_annotation", "ProfilerStep#1", 100, 50, tid=2),
        launch(120, 1), launch(200, 2), launch(400, 3),
        *(kernel(500 + 20 * i, i) for i in (1, 2, 3)),
    )  # fmt: skip
    assert [k.step and k.step.start_ns for k in trace.kernels] == [100_000, 0, None]


def test_python_functions_are_no_parents():
    trace = trace_of(event("python_function", "forward", 0, 100), op("a", 10, 10))
    assert trace.ops("a")[0].parent is None
    assert trace.ops("forward") == ()


def test_views_of_one_event_are_equal():
    trace = recorded("linear_1024_32_64.eager")
    again = recorded("linear_1024_32_64.eager")
    a, b = trace.ops("aten::addmm")[0], trace.kernels[0].op
    assert a == b
    assert hash(a) == hash(b)
    assert a is not b
    assert a != again.ops("aten::addmm")[0]
    assert trace.ops()[0] != trace.kernels[0]
    assert a != "aten::addmm"
    launch = trace.kernels[0].launch
    assert Call(trace, launch._i) == launch
    assert isinstance(launch, Launch)
    assert launch in trace.calls()
    assert "aten::addmm" in repr(a)
    assert "15 ops" not in repr(trace)
    assert "3 kernels, 0 strays" in repr(trace)


# -- edges of nesting -----------------------------------------------------------------------------


def test_an_op_that_starts_as_another_ends_is_not_in_it_and_a_launch_is():
    trace = trace_of(op("a", 0, 10), launch(10, 1), op("b", 20, 10), op("c", 30, 5),
                     kernel(40, 1))  # fmt: skip
    assert [x.parent for x in trace.ops()] == [None] * 3
    assert trace.kernels[0].op.name == "a"


def test_a_launch_that_starts_with_an_op_is_in_it():
    trace = trace_of(launch(5, 1), op("a", 0, 10), op("b", 5, 3), kernel(40, 1))
    assert trace.kernels[0].op.name == "b"


def test_a_launch_between_the_children_belongs_to_the_parent():
    trace = trace_of(op("a", 0, 20), op("b", 1, 5), launch(8, 1), op("c", 12, 5), launch(13, 2),
                     kernel(40, 1), kernel(60, 2))  # fmt: skip
    assert [k.op.name for k in trace.kernels] == ["a", "c"]
    assert len(trace.ops("a")[0].kernels) == 2
    assert [c.start_ns for c in trace.ops("a")[0].calls()] == [8_000, 13_000]


def test_of_ops_with_the_same_times_the_one_numbered_first_is_the_outer():
    inner, outer = op("inner", 0, 10, **{"Ev Idx": 1}), op("outer", 0, 10, **{"Ev Idx": 0})
    for events in ((inner, outer), (outer, inner)):
        trace = trace_of(*events)
        assert trace.ops("inner")[0].parent == trace.ops("outer")[0]


def test_an_op_may_end_a_rounding_later_than_the_op_around_it():
    trace = trace_of(op("a", 0.5, 10), op("b", 1, 9.504), op("c", 2, 8))
    assert [x.depth for x in trace.ops()] == [0, 1, 2]
    trace = trace_of(op("a", 0, 10), op("b", 1, 11))  # whole µs were cut, both start and duration
    assert trace.ops("b")[0].parent == trace.ops("a")[0]


def test_ops_that_overlap_far_beyond_rounding_are_told():
    with pytest.warns(KernelpinWarning, match=r"1 op\(s\) end after the op they start in.*: b at"):
        trace = trace_of(op("a", 0, 10), op("b", 5, 10), launch(7, 1), launch(12, 2),
                         kernel(40, 1), kernel(60, 2))  # fmt: skip
    assert [k.op.name for k in trace.kernels] == ["b", "b"]
    assert trace.ops("b")[0].parent is None


def test_a_tower_of_ops_is_no_recursion():
    height = 20_000
    trace = trace_of(*(op("a", i, 3 * height - 2 * i) for i in range(height)),
                     launch(height + 5, 1), kernel(10**6, 1))  # fmt: skip
    assert trace.ops()[-1].depth == height - 1
    assert len(trace.roots[0].kernels) == 1
    assert len(trace.roots[0].ops()) == height - 1


# -- launches -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "starts_work"),
    [
        ("cudaLaunchKernel", True),
        ("cudaLaunchKernelExC", True),
        ("cuLaunchKernelEx", True),
        ("hipExtModuleLaunchKernel", True),
        ("cudaGraphLaunch", True),
        ("cudaMemcpyAsync", True),
        ("cuMemsetD32Async", True),
        ("cudaDeviceSynchronize", False),
        ("cudaLaunchHostFunc", False),
        ("cudaGraphAddMemcpyNode", False),
        ("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", False),
        ("urEnqueueKernelLaunch", True),
        ("urEnqueueUSMMemcpy2D", True),
        ("urEnqueueUSMFill", True),
        ("urEnqueueUSMFill2D", True),
        ("urEnqueueMemBufferCopyRect", True),
        ("urEnqueueMemBufferFill", True),
        ("urEnqueueMemBufferRead", True),
        ("urEnqueueMemImageWrite", True),
        ("piextUSMEnqueueFill", True),
        ("piextUSMEnqueueMemset", True),
        ("piEnqueueMemBufferWrite", True),
        ("zeCommandListAppendLaunchCooperativeKernel", True),
        ("zeCommandListAppendMemoryCopy", True),
        ("zeCommandListAppendMemoryCopyRegion", True),
        ("zeCommandListAppendMemoryFill", True),
        ("zeCommandListAppendImageCopyToMemory", True),
        ("urEnqueueEventsWaitWithBarrier", False),
        ("urEnqueueUSMPrefetch", False),
        ("urCommandBufferAppendKernelLaunchExp", False),
        ("urUSMDeviceAlloc", False),
        ("zeCommandListAppendBarrier", False),
        ("zeCommandListAppendMemoryPrefetch", False),
        ("zeCommandQueueExecuteCommandLists", False),
        ("zeEventHostSynchronize", False),
    ],
)
def test_a_call_is_a_launch_by_its_name(name, starts_work):
    trace = trace_of(op("a", 0, 10), launch(1, 1, name=name), launch(5, 2), kernel(20, 2))
    assert [isinstance(call, Launch) for call in trace.calls()] == [starts_work, True]
    assert len(trace.lost) == starts_work


@pytest.mark.parametrize(
    ("recorded", "launched", "lost"),
    [(1, "urEnqueueUSMFill", 0), (2, "zeCommandListAppendMemoryFill", 0),
     (None, "urEnqueueUSMFill", 1)],
)  # fmt: skip
def test_a_runtimes_call_and_the_drivers_within_it_are_one_launch(recorded, launched, lost):
    outer = launch(1, 1, dur=9, name="urEnqueueUSMFill")
    inner = launch(3, 2, name="zeCommandListAppendMemoryFill")
    others = [launch(20, 3), kernel(50, 3)] + [kernel(30, recorded)] * (recorded is not None)
    trace = trace_of(op("a", 0, 30), outer, inner, *others)
    assert names(trace.launches) == [launched, "cudaLaunchKernel"]
    assert len(trace.lost) == lost


def test_a_drivers_call_on_its_own_is_a_launch():
    outer = launch(1, 1, dur=2, name="urEnqueueUSMFill")
    inner = launch(5, 2, name="zeCommandListAppendMemoryFill")
    elsewhere = launch(2, 3, tid=2, name="zeCommandListAppendMemoryFill")
    assert len(trace_of(op("a", 0, 9), outer, inner, elsewhere, kernel(30, 1)).lost) == 2


def test_a_call_is_a_launch_by_its_record():
    trace = trace_of(op("a", 0, 10), launch(1, 1, name="someNewWayToStart"), kernel(20, 1))
    assert names(trace.launches) == ["someNewWayToStart"]


def test_captured_launches_are_not_lost():
    def call(name, ts, tid=1):
        return launch(ts, ts, tid=tid, name=name)

    trace = trace_of(
        op("a", 0, 100), op("b", 0, 100, tid=2),
        call("cudaLaunchKernel", 5), call("cudaStreamBeginCapture", 10),
        call("cudaLaunchKernel", 20), call("cudaLaunchKernel", 25, tid=2),
        call("cudaStreamEndCapture", 30), call("cudaLaunchKernel", 40),
        call("cudaGraphLaunch", 50), kernel(60, 50),
    )  # fmt: skip
    assert [(x.start_ns // 1000, x.captured, x.lost) for x in trace.launches] == [
        (5, False, True), (20, True, False), (25, False, True), (40, False, True),
        (50, False, False),
    ]  # fmt: skip


def test_nothing_but_captured_launches_needs_no_gpu_record():
    trace = trace_of(op("a", 0, 9), launch(0, 1, name="cudaStreamBeginCapture"), launch(3, 2))
    trace.require_complete()


def test_a_memset_of_no_bytes_starts_nothing():
    trace = trace_of(op("a", 0, 30), launch(1, 1, dur=0.3, name="cudaMemsetAsync"),
                     launch(5, 2, dur=3, name="cudaMemsetAsync"),
                     launch(9, 3, dur=0.3, name="cudaMemsetAsync"), kernel(40, 3))  # fmt: skip
    assert [(x.start_ns // 1000, x.lost) for x in trace.launches] == [(5, True), (9, False)]


def test_a_step_that_launched_nothing_cannot_be_judged_while_others_did():
    steps = [event("user_annotation", f"ProfilerStep#{i}", 100 * i, 90) for i in (1, 2)]
    trace = trace_of(*steps, launch(110, 1), kernel(300, 1))
    with pytest.raises(TraceError, match="ProfilerStep#2 launched nothing, while other steps did"):
        trace.require_complete()
    trace.require_complete(trace.steps[0])
    with pytest.raises(TraceError, match="ProfilerStep#2 launched nothing"):
        trace.require_complete(trace.steps[1])
    trace_of(*steps, launch(250, 1, name="cudaDeviceSynchronize")).require_complete()


def test_gpu_records_without_any_launch_belong_to_no_op():
    trace = trace_of(op("a", 0, 10), kernel(20, 1), kernel(40, 2))
    with pytest.raises(TraceError, match="none of its 2 GPU activities has a launch"):
        trace.require_complete(trace.ops("a")[0])


def test_a_stray_in_midstream_was_launched_within_the_trace_by_a_call_that_is_missing():
    steps = [event("user_annotation", f"ProfilerStep#{i}", 100 * i, 90) for i in (1, 2, 3)]
    launches = [launch(110, 1), launch(210, 2), launch(310, 3)]
    kernels = [kernel(300, 1), kernel(320, 2), kernel(360, 3)]
    early, other_stream = kernel(290, 90), kernel(345, 91, stream=20)
    trace = trace_of(*steps, *launches, *kernels, early, other_stream)
    assert trace.warnings == ()
    trace.require_complete()
    with pytest.warns(KernelpinWarning, match=r"1 GPU record\(s\) whose launch was not recorded"):
        trace = trace_of(*steps, *launches, *kernels, kernel(340, 90))
    trace.require_complete(trace.steps[0])
    for scope in (None, *trace.steps[1:]):
        with pytest.raises(
            TraceError, match=r"1 GPU activities.* may be its own, but their launch"
        ):
            trace.require_complete(scope)
    with pytest.warns(KernelpinWarning):
        trace = trace_of(*steps, *launches, *kernels, kernel(380, 90))
    trace.require_complete(trace.steps[1])
    with pytest.raises(TraceError, match="in ProfilerStep#3 may be its own"):
        trace.require_complete(trace.steps[2])


def test_a_cpu_trace_is_complete_and_has_no_device():
    trace = trace_of(op("a", 0, 10), deviceProperties=[{"id": 0, "name": "NVIDIA H200"}])
    trace.require_complete()
    assert trace.device is None
    assert trace.kernels == trace.launches == trace.strays == ()
    assert trace.steps[0].busy_ns == trace.steps[0].span_ns == 0


def test_the_device_is_the_one_that_ran():
    properties = [{"id": i, "name": f"GPU {i}"} for i in range(3)]
    events = [launch(i, i) for i in range(3)]
    events += [kernel(10 + 20 * i, i, device=2 if i else 1) for i in range(3)]
    assert trace_of(*events, deviceProperties=properties).device.name == "GPU 2"
    # ROCm lists one, without a list, whichever runs.
    assert trace_of(*events, deviceProperties=properties[0]).device.name == "GPU 0"


# -- shared ids -----------------------------------------------------------------------------------


def test_of_calls_that_share_an_id_the_one_that_starts_work_is_meant():
    trace = trace_of(op("a", 0, 10), op("b", 20, 10), launch(1, 7),
                     launch(21, 7, name="cudaFuncGetAttributes"), kernel(50, 7))  # fmt: skip
    assert trace.kernels[0].op.name == "a"
    assert trace.warnings == ()


def test_an_id_that_several_launches_share_is_told():
    with pytest.warns(KernelpinWarning, match=r"1 GPU record\(s\) whose correlation id several"):
        trace = trace_of(op("a", 0, 10), op("b", 20, 10), op("c", 90, 10), launch(1, 7),
                         launch(21, 7), launch(91, 7), kernel(50, 7))  # fmt: skip
    assert trace.kernels[0].op.name == "b"


def test_rocm_writes_0_where_it_does_not_know():
    with pytest.warns(KernelpinWarning):
        trace = trace_of(launch(1, 0), launch(21, 0), kernel(50, 0, stream=0))
    assert len(trace.strays) == 1
    assert len(trace_of(launch(1, 0), kernel(50, 0, stream=0)).kernels) == 1


# -- implausible records --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (kernel(9_000, 9, dur=2e6), "1 GPU record(s) of seconds among records of 10.000 µs, "
         "the first: k, 2.000 s"),
        (kernel(-5_000, 9), "1 GPU record(s) start long before their launch, the first: k, "
         "5060.000 µs before it"),
        (kernel(3e8, 9), "1 GPU record(s) start long after their launch, the first: k"),
        (kernel(5_000, 9, dur=-3.5), "1 GPU record(s) with a negative duration, taken as 0, "
         "the first: k, -3.500 µs"),
        (kernel(95, 9, dur=5_000, stream=7), "1 GPU record(s) end long after the next of their "
         "stream starts, the first: k"),
    ],
)  # fmt: skip
def test_implausible_gpu_records_are_suspects(bad, told):
    events = [event("user_annotation", "ProfilerStep#1", 0, 90)]
    events += [launch(10 * i, i) for i in range(5)] + [launch(60, 9)]
    events += [kernel(100 + 1000 * i, i) for i in range(5)]
    assert not trace_of(*events, kernel(95.5, 9, dur=1)).steps[0].suspect
    with pytest.warns(KernelpinWarning):
        trace = trace_of(*events, bad)
    assert any(line.startswith(told) for line in trace.warnings), trace.warnings
    assert [k.suspect for k in trace.kernels] == [False] * 5 + [True]
    assert trace.steps[0].suspect
    assert min(k.duration_ns for k in trace.kernels) >= 0


def test_ops_hours_from_the_others_are_told():
    with pytest.warns(KernelpinWarning, match=r"1 op\(s\) and runtime call\(s\) hours from .*: b$"):
        trace_of(op("a", 0, 5), launch(1, 1), op("b", 4e9, 5), kernel(20, 1))
    assert trace_of(op("a", 0, 5), op("b", 3e9, 5)).warnings == ()


def test_steps_within_steps_are_told():
    steps = [event("user_annotation", f"ProfilerStep#{i}", 10 * i, 80 - 20 * i) for i in (1, 2)]
    with pytest.warns(KernelpinWarning, match=r"1 step\(s\) within another step.*ProfilerStep#2"):
        trace = trace_of(*steps, launch(25, 1), launch(65, 2), kernel(90, 1), kernel(110, 2))
    assert [len(step.kernels) for step in trace.steps] == [1, 1]


def test_long_kernels_among_long_ones_are_plausible():
    events = [launch(i, i) for i in range(3)]
    events += [kernel(100 + 3e6 * i, i, dur=2e6) for i in range(3)]
    assert trace_of(*events).warnings == ()


def test_negative_durations_of_ops_are_told():
    with pytest.warns(KernelpinWarning, match=r"1 op\(s\) with a negative duration.*: a, -5\.000"):
        trace = trace_of(op("a", 0, -5), op("b", 5, 5))
    assert trace.ops("a")[0].duration_ns == 0


@pytest.mark.parametrize("args", [b"{", b"[" * 100_000])
def test_args_that_cannot_be_read_say_so(args):
    data = b'{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","ts":1,"dur":1,"args":{"x":1}}]}'
    trace = load_trace(data)
    trace._c.op_args = [args]
    with pytest.raises(TraceError, match="the args of a cannot be read"):
        _ = trace.ops("a")[0].shapes
