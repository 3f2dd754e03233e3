"""What a captured trace lacks is said; a whole one lacks nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_trace import call, kernel, label, memcpy, memset, op, small_trace, step

from kernelpin.wholeness import missing

GEMM = "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT"
ADD = "void at::native::elementwise_kernel<128, 4, at::native::CUDAFunctor_add<c10::BFloat16>>(int)"
SYNC = call("cudaDeviceSynchronize")


def calls(*activities, name="mine"):
    return step(label(name, op("aten::linear", *activities)), SYNC)


def lacks(*steps, expected=3, gpu=True):
    return missing(small_trace(*steps, gpu=gpu), steps=expected, label="mine")


@pytest.mark.parametrize(
    "activities",
    [(), (kernel(GEMM),), (kernel(GEMM), kernel(GEMM), kernel(ADD)), (memcpy(), memset())],
)
def test_steps_that_launch_the_same_lack_nothing(activities):
    assert lacks(*[calls(*activities)] * 3) == ()


def test_a_trace_of_the_cpu_lacks_nothing():
    assert lacks(*[step(label("mine", op("aten::linear")))] * 3, gpu=False) == ()


def test_the_order_of_kernels_in_a_step_does_not_matter():
    one, other = calls(kernel(GEMM), kernel(ADD)), calls(kernel(ADD), kernel(GEMM))
    assert lacks(one, other, one) == ()


@pytest.mark.parametrize(("recorded", "expected"), [(2, 3), (4, 3), (0, 1)])
def test_another_number_of_steps_is_said(recorded, expected):
    said = lacks(*[calls(kernel(GEMM))] * recorded, op("aten::mm"), expected=expected)
    assert said == (f"{recorded} of {expected} profiler steps were recorded",)


def test_a_step_without_its_label_is_said():
    whole, other = calls(kernel(GEMM)), calls(kernel(GEMM), name="another")
    assert lacks(whole, other, whole) == (
        "ProfilerStep#3 has 0 calls labelled 'mine' instead of 1",
    )


def test_an_op_of_the_labels_name_is_no_label():
    whole = calls(kernel(GEMM))
    assert lacks(whole, step(op("mine", kernel(GEMM))), whole) == (
        "ProfilerStep#3 has 0 calls labelled 'mine' instead of 1",
    )


def test_a_launch_that_lost_its_record_is_said():
    whole = calls(kernel(GEMM))
    (said,) = lacks(whole, whole, calls(kernel(GEMM, lost=True)))
    assert said.startswith("the trace is incomplete: 1 of 3 launches lost their GPU record")
    assert "ProfilerStep#4" in said


def test_launches_without_any_gpu_record_are_said():
    (said,) = lacks(*[calls(kernel(GEMM, lost=True))] * 3)
    assert "no GPU activity was recorded" in said


def test_a_step_that_launched_nothing_is_said():
    whole = calls(kernel(GEMM))
    (said,) = lacks(calls(), whole, whole)
    assert "ProfilerStep#2 launched nothing, while other steps did" in said


def test_a_step_that_lost_a_launch_with_its_kernel_is_said():
    whole = calls(kernel(GEMM), kernel(ADD))
    assert lacks(calls(kernel(GEMM)), whole, whole) == (
        "ProfilerStep#2 ran 1 GPU activities, the other steps 2 "
        "(without 1 × elementwise_kernel<add>)",
    )


def test_a_step_that_ran_another_kernel_is_said():
    whole, other = calls(kernel(GEMM)), calls(kernel(ADD))
    assert lacks(whole, whole, other) == (
        "ProfilerStep#4 ran 1 GPU activities, the other steps 1 "
        f"(without 1 × {GEMM}; with 1 × elementwise_kernel<add>)",
    )


def test_of_many_other_kernels_a_few_are_named():
    whole = calls(*(kernel(f"kernel_{i}") for i in range(9)))
    (said,) = lacks(whole, whole, calls(kernel("kernel_0")))
    assert said.endswith(
        "(without 1 × kernel_1; without 1 × kernel_2; without 1 × kernel_3; without 5 more)"
    )


@given(st.lists(st.sampled_from([GEMM, ADD, "_rms_norm_forward_kernel"]), min_size=2), st.data())
def test_whichever_record_of_a_step_is_missing_is_noticed(names, data):
    whole = calls(*(kernel(name) for name in names))
    assert lacks(whole, whole, whole) == ()
    kept = list(names)
    del kept[data.draw(st.integers(0, len(names) - 1))]
    broken = [whole, whole]
    broken.insert(data.draw(st.integers(0, 2)), calls(*(kernel(name) for name in kept)))
    assert len(lacks(*broken)) == 1
