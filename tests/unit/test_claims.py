"""Every claim holds where it should and says, where it does not, what was found instead."""
# ruff: noqa: E501  whole messages are asserted, as they are printed

from __future__ import annotations

import json
import pickle
import re
import sys
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_trace import call, kernel, label, memcpy, memset, op, small_trace, step, trace_json

from kernelpin import ClaimFailed, KernelpinWarning, TraceError, expect, load_trace
from kernelpin.claims import Claims

DATA = Path(__file__).parents[1] / "data"
GEMM = "nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT"
SPLIT = "nvjet_sm90_tst_64x16_64x16_4x1_v_bz_splitK_bias_TNT"
REDUCE = (
    "void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasLt::cublasSplitKParams<float>)"
)
SGEMM = "ampere_sgemm_128x64_tn"
ADD = "void at::native::elementwise_kernel<128, 4, at::native::CUDAFunctor_add<float>>(int)"
MUL = (
    "void at::native::elementwise_kernel<128, 4, "
    "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float>>"
    ">(int)"
)
FUSED = "triton_poi_fused__unsafe_view_gelu_mul_0"


def h200(name):
    return load_trace(DATA / "h200" / f"{name}.json.gz")


def case(name):
    return load_trace(DATA / "cases" / f"{name}.json")


def linear(*kernels):
    return op("aten::linear", op("aten::t"), op("aten::addmm", *kernels))


def said(claim) -> str:
    """The whole message of a claim that must fail."""
    with pytest.raises(ClaimFailed) as caught:
        claim()
    return str(caught.value)


def text(message: str) -> str:
    return dedent(message).strip("\n")


# -- launches nothing ---------------------------------------------------------------------------


def test_an_op_launches_nothing():
    expect(h200("linear_1024_32_64.eager")).under("aten::t").launches_nothing()


def test_an_op_that_launches_something_does_not_launch_nothing():
    trace = small_trace(op("aten::t", op("aten::copy_", kernel(ADD, 3.0), memset())))
    claims = expect(trace).under("aten::t")
    because = "only shape and stride change"
    assert said(lambda: claims.launches_nothing(because=because)) == text("""
        expected no launch under aten::t, found 1 kernel and 1 memset
          aten::t
          └─ aten::copy_
             ├─ elementwise_kernel<add>  3.000 µs   ← unexpected
             └─ Memset                   1.000 µs   ← unexpected
          because: only shape and stride change
          trace: <bytes>
    """)


# -- launches n of a family -----------------------------------------------------------------------


def test_one_gemm_and_no_other():
    for name in ("linear_1024_32_64.eager", "linear_4096.eager"):
        expect(h200(name)).under("aten::linear").launches(1, "gemm")
        expect(h200(name)).launches(1)


def test_a_bias_added_by_a_kernel_of_its_own_is_no_folded_bias():
    claims = expect(case("bias-not-folded")).under("aten::linear")
    because = "the bias is folded into the GEMM's epilogue"
    path = DATA / "cases" / "bias-not-folded.json"
    assert said(lambda: claims.launches(1, "gemm", because=because)) == text(f"""
        expected 1 GEMM kernel and no other under aten::linear, found 2 kernels
          aten::linear
          └─ aten::addmm
             ├─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  20.00 µs
             └─ elementwise_kernel<add>                 3.000 µs   ← unexpected
          because: the bias is folded into the GEMM's epilogue
          trace: {path} (open in ui.perfetto.dev)
    """)


def test_what_is_allowed_may_run_too_by_family_or_by_name():
    claims = expect(case("split-k-helper")).under("aten::linear")
    claims.launches(1, "gemm", allowing="splitk_reduce")
    claims.launches(1, "gemm", allowing=["*splitKreduce_kernel*", "elementwise"])
    claims.launches(1, allowing="splitk_reduce")
    claims.launches(2)


def test_what_is_allowed_is_named_when_something_else_runs():
    trace = small_trace(linear(kernel(SPLIT, 9.0), kernel(REDUCE), kernel(ADD, 1.0)))
    claims = expect(trace).under("aten::linear")
    assert said(lambda: claims.launches(1, "gemm", allowing="splitk_reduce")) == text("""
        expected 1 GEMM kernel and no other but splitk_reduce under aten::linear, found 1 GEMM kernel and 1 other
          aten::linear
          └─ aten::addmm
             ├─ nvjet_sm90_tst_64x16_64x16_4x1_v_bz_splitK_bias_TNT  9.000 µs
             ├─ splitKreduce_kernel                                  2.000 µs
             └─ elementwise_kernel<add>                              1.000 µs   ← unexpected
          trace: <bytes>
    """)


def test_a_call_that_launches_no_kernel_at_all_is_told_apart():
    trace = small_trace(linear(), op("aten::relu", kernel(ADD)))
    assert said(lambda: expect(trace).under("aten::linear").launches(1, "gemm")) == text("""
        expected 1 GEMM kernel and no other under aten::linear, found none
          aten::linear
          ├─ aten::t
          └─ aten::addmm
          trace: <bytes>
    """)


def test_too_many_of_the_family_are_all_shown_since_none_is_the_wrong_one():
    trace = small_trace(linear(kernel(GEMM, 3.0), kernel(GEMM, 3.0)))
    assert said(lambda: expect(trace).under("aten::addmm").launches(1, "gemm")) == text("""
        expected 1 GEMM kernel and no other under aten::addmm, found 2 GEMM kernels
          aten::addmm
          └─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT × 2  3.000 µs   ← one of 2
          trace: <bytes>
    """)


def test_copies_and_fills_are_no_kernels():
    trace = small_trace(op("aten::addmm", memcpy(), memset(), kernel(GEMM)))
    expect(trace).launches(1, "gemm").launches(1)


def test_copies_and_fills_count_where_their_family_is_asked_for():
    trace = small_trace(op("aten::addmm", memcpy(), memset(), kernel(GEMM)))
    expect(trace).launches(1, "copy", allowing="gemm").launches_at_least(1, "fill")
    assert said(lambda: expect(trace).launches_no("copy")).startswith(
        "expected no copy kernel in the whole trace, found 1\n"
    )


def test_triton_means_every_triton_kernel():
    for name in ("geglu_64_128_768_3072.compile", "liger_64_128_768_3072.eager"):
        expect(h200(name)).launches(1, "triton", allowing="gemm")
    expect(h200("geglu_64_128_768_3072.compile")).launches(1, "triton_pointwise", allowing="gemm")


def test_the_step_that_fails_is_named():
    good = step(linear(kernel(GEMM)))
    trace = small_trace(good, good, step(linear(kernel(GEMM), kernel(ADD, 1.0))), good)
    assert said(lambda: expect(trace).launches(1, "gemm")) == text("""
        expected 1 GEMM kernel and no other in a step, found 2 kernels in ProfilerStep#4 (1 of 4 steps fails)
          ProfilerStep#4
          └─ aten::linear
             └─ aten::addmm
                ├─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  2.000 µs
                └─ elementwise_kernel<add>                 1.000 µs   ← unexpected
          trace: <bytes>
    """)


def test_the_call_that_fails_is_named():
    bad = linear(kernel(GEMM), kernel(ADD, 1.0))
    trace = small_trace(linear(kernel(GEMM)), bad, linear(kernel(GEMM)), bad)
    headline = said(lambda: expect(trace).under("aten::linear").launches(1, "gemm")).split("\n")[0]
    assert headline == (
        "expected 1 GEMM kernel and no other under aten::linear, "
        "found 2 kernels in call 2 (2 of 4 calls fail)"
    )


def test_all_that_fail_alike_are_counted_and_those_that_fail_otherwise_are_not_called_alike():
    bad, worse = linear(kernel(GEMM), kernel(ADD)), linear(kernel(GEMM), kernel(ADD), kernel(ADD))
    alike, unlike = small_trace(bad, bad), small_trace(bad, worse)
    ends = [
        said(lambda t=t: expect(t).under("aten::linear").launches(1, "gemm")).split("\n")[0]
        for t in (alike, unlike)
    ]
    assert ends[0].endswith("found 2 kernels in each of 2 calls")
    assert ends[1].endswith("found 2 kernels in call 1 (2 of 2 calls fail)")


# -- at least, none -------------------------------------------------------------------------------


def test_at_least_so_many_of_a_family():
    trace = h200("geglu_64_128_768_3072.eager")
    expect(trace).launches_at_least(3, "gemm").launches_at_least(1, "elementwise")
    assert said(
        lambda: expect(small_trace(linear(kernel(GEMM, 3.0)))).launches_at_least(2, "gemm")
    ) == text("""
        expected at least 2 GEMM kernels in the whole trace, found 1
          the whole trace
          └─ aten::linear
             └─ aten::addmm
                └─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  3.000 µs
          trace: <bytes>
    """)


def test_none_of_a_family():
    expect(h200("linear_1024_32_64.eager")).launches_no("elementwise")
    trace = small_trace(linear(kernel(GEMM, 3.0), kernel(ADD, 1.0)))
    assert said(lambda: expect(trace).launches_no("elementwise")) == text("""
        expected no elementwise kernel in the whole trace, found 1
          the whole trace
          └─ aten::linear
             └─ aten::addmm
                ├─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  3.000 µs
                └─ elementwise_kernel<add>                 1.000 µs   ← unexpected
          trace: <bytes>
    """)


# -- the same kernels as elsewhere ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("linear_1024_32_64.compile", "linear_1024_32_64.eager"),
        ("geglu_64_128_768_3072.compile", "geglu_64_128_768_3072.eager"),
        ("geglu_64_128_768_3072.ro", "geglu_64_128_768_3072.eager"),
        ("liger_64_128_768_3072.eager", "geglu_64_128_768_3072.eager"),
    ],
)
def test_compile_runs_the_same_gemms(one, other):
    expect(h200(one)).launches_the_same_kernels_as(h200(other))


def test_kernels_that_differ_are_listed_by_their_full_names():
    here = small_trace(step(linear(kernel(GEMM), kernel(ADD))))
    there = small_trace(step(linear(kernel(SPLIT, 2.0), kernel(SPLIT, 2.0))))
    because = "compile removes dispatch only"
    assert said(lambda: expect(here).launches_the_same_kernels_as(there, because=because)) == text("""
        expected the same GEMM kernels as in <bytes> in ProfilerStep#2, found 1 other and 2 missing
          ProfilerStep#2
          └─ aten::linear
             └─ aten::addmm
                ├─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  2.000 µs   ← only here
                └─ elementwise_kernel<add>                 2.000 µs
          only here:  nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT
          only there: nvjet_sm90_tst_64x16_64x16_4x1_v_bz_splitK_bias_TNT × 2
          because: compile removes dispatch only
          trace: <bytes>
    """)


def test_kernels_of_all_families_compare_where_none_is_named():
    here = small_trace(linear(kernel(GEMM), kernel(ADD)))
    expect(here).launches_the_same_kernels_as(small_trace(linear(kernel(GEMM))))
    only = said(
        lambda: expect(here).launches_the_same_kernels_as(
            small_trace(linear(kernel(GEMM))), families=None
        )
    )
    assert only.startswith(
        "expected the same kernels as in <bytes> in the whole trace, found 1 other"
    )


def test_a_step_is_compared_with_a_step_and_a_call_with_a_call():
    first, second = linear(kernel(GEMM)), linear(kernel(SPLIT))
    here, there = small_trace(first, second), small_trace(second, first)
    expect(here).launches_the_same_kernels_as(there)
    expect(here.ops("aten::linear")[0]).launches_the_same_kernels_as(there.ops("aten::linear")[1])
    calls = expect(here).under("aten::linear")
    calls.launches_the_same_kernels_as(expect(small_trace(first, second)).under("aten::linear"))
    assert "found 1 other and 1 missing in each of 2 calls\n" in said(
        lambda: calls.launches_the_same_kernels_as(expect(there).under("aten::linear"))
    )


def test_a_trace_of_more_steps_compares_when_they_agree_among_themselves():
    good, bad = step(linear(kernel(GEMM))), step(linear(kernel(SPLIT)))
    expect(small_trace(good)).launches_the_same_kernels_as(small_trace(good, good, good))
    mixed = small_trace(good, bad, good)
    assert said(lambda: expect(small_trace(good)).launches_the_same_kernels_as(mixed)) == text("""
        expected the same GEMM kernels as in <bytes> in ProfilerStep#2, found 1 step against 3 that differ
          trace: <bytes>
    """)


def test_a_kernel_that_is_only_missing_is_a_difference_too():
    one, two = small_trace(linear(kernel(GEMM))), small_trace(linear(kernel(GEMM), kernel(GEMM)))
    message = said(lambda: expect(one).launches_the_same_kernels_as(two))
    assert message.startswith(
        "expected the same GEMM kernels as in <bytes> in the whole trace, found 1 missing\n"
    )
    assert f"\n  only there: {GEMM}\n" in message


def test_an_incomplete_trace_is_nothing_to_compare_with():
    here = small_trace(linear(kernel(GEMM)))
    for other in (case("profiler-lost-a-kernel"), small_trace(linear(), gpu=False)):
        with pytest.raises(TraceError):
            expect(here).launches_the_same_kernels_as(other)


def test_no_kernels_on_either_side_are_not_the_same_kernels():
    trace = small_trace(op("aten::add", kernel(ADD)))
    assert said(lambda: expect(trace).launches_the_same_kernels_as(trace)).startswith(
        "expected the same GEMM kernels as in <bytes> in the whole trace, found none in either\n"
    )


# -- layout, tensor cores -------------------------------------------------------------------------


def test_the_layout_is_in_the_name():
    expect(h200("linear_1024_32_64.eager")).has_layout("TNT").has_layout({"tn", "TNT"})
    trace = small_trace(op("aten::mm", kernel(GEMM, 3.0), kernel(SGEMM, 4.0)))
    assert said(lambda: expect(trace).has_layout("TNT")) == text("""
        expected layout TNT of every GEMM kernel in the whole trace, found tn
          the whole trace
          └─ aten::mm
             ├─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  3.000 µs
             └─ ampere_sgemm_128x64_tn                  4.000 µs   ← tn
          trace: <bytes>
    """)


def test_a_layout_is_neither_guessed_nor_true_of_nothing():
    assert said(
        lambda: expect(small_trace(op("aten::add", kernel(ADD)))).has_layout("tn")
    ).startswith(
        "expected layout tn of every GEMM kernel in the whole trace, found no GEMM kernel\n"
    )
    untold = small_trace(op("aten::mm", kernel("ampere_sgemm_128x64")))
    assert "found layout not told\n" in said(lambda: expect(untold).has_layout("tn"))


def test_tensor_cores_are_used():
    for name in ("linear_4096.eager", "geglu_64_128_768_3072.ro"):
        expect(h200(name)).uses_tensor_cores()
    trace = small_trace(op("aten::mm", kernel(GEMM, 3.0), kernel(SGEMM, 9.0)))
    assert said(lambda: expect(trace).uses_tensor_cores(because="inputs are bf16")) == text("""
        expected tensor cores in every matrix product in the whole trace, found 1 without
          the whole trace
          └─ aten::mm
             ├─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  3.000 µs
             └─ ampere_sgemm_128x64_tn                  9.000 µs   ← no tensor cores
          because: inputs are bf16
          trace: <bytes>
    """)


def test_tensor_cores_are_neither_guessed_nor_true_of_nothing():
    template = small_trace(op("triton_tem_fused_mm_0", kernel("triton_tem_fused_mm_0")))
    assert "found 1 whose name does not tell\n" in said(
        lambda: expect(template).uses_tensor_cores()
    )
    nothing = small_trace(op("aten::add", kernel(ADD)))
    assert "found no kernel that multiplies matrices\n" in said(
        lambda: expect(nothing).uses_tensor_cores()
    )


# -- fusion ---------------------------------------------------------------------------------------


def test_inductor_fuses_gelu_and_mul():
    for name in ("geglu_64_128_768_3072.compile", "geglu_64_128_768_3072.ro"):
        expect(h200(name)).fuses("gelu", "mul").fuses("aten::gelu", "aten::mul", into="triton")


def test_ops_dispatched_apart_are_not_fused():
    trace = small_trace(op("aten::gelu", kernel(ADD, 3.0)), op("aten::mul", kernel(MUL, 4.0)))
    assert said(lambda: expect(trace).fuses("gelu", "mul", because="no trip to memory")) == text("""
        expected gelu and mul fused into 1 Triton pointwise kernel in the whole trace, found gelu and mul in kernels of their own
          the whole trace
          ├─ aten::gelu
          │  └─ elementwise_kernel<add>  3.000 µs   ← gelu alone
          └─ aten::mul
             └─ elementwise_kernel<mul>  4.000 µs   ← mul alone
          because: no trip to memory
          trace: <bytes>
    """)


def triton(name, us=2.0):
    return op(name, kernel(name, us))


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([triton("triton_poi_fused_gelu_0"), triton("triton_poi_fused_mul_1")],
         "gelu and mul in kernels of their own"),
        ([triton(FUSED), op("aten::mul", kernel(MUL))], "mul in a kernel of its own"),
        ([triton("triton_red_fused_gelu_mul_0")], "them in another kernel than Triton pointwise"),
        ([triton("triton_poi_fused_add_0")], "no kernel that computes them"),
        ([triton(FUSED), triton("triton_poi_fused_gelu_mul_1")], "2 such kernels"),
    ],
    ids=["graph break", "one more mul", "a reduction", "another kernel", "twice"],
)  # fmt: skip
def test_a_fusion_fails_for_a_reason(parts, found):
    headline = said(lambda: expect(small_trace(*parts)).fuses("gelu", "mul")).split("\n")[0]
    assert headline.endswith(f"in the whole trace, found {found}")


def test_a_partial_fusion_says_what_is_left_out():
    headline = said(lambda: expect(small_trace(triton(FUSED))).fuses("gelu", "mul", "add"))
    assert "found gelu and mul without add\n" in headline
    assert "← gelu and mul alone\n" in headline


def test_another_use_of_an_op_elsewhere_is_no_kernel_of_its_own():
    norm = triton("triton_poi_fused_mul_rsqrt_0")
    expect(small_trace(norm, triton(FUSED))).fuses("gelu", "mul")
    expect(small_trace(triton(FUSED), triton(FUSED))).fuses("gelu", "mul", times=2)


# -- copies ---------------------------------------------------------------------------------------


def test_copies_by_kind():
    expect(h200("linear_4096.eager")).copies_nothing()
    expect(h200("matmul_add_4096.compile")).copies(1, "DtoD").copies_nothing("HtoD")
    trace = small_trace(op("aten::addmm", memcpy("DtoD", 5.0), memcpy("HtoD", 1.0), kernel(GEMM)))
    assert said(lambda: expect(trace).under("aten::addmm").copies_nothing("DtoD")) == text("""
        expected no DtoD memcpy under aten::addmm, found 1
          aten::addmm
          ├─ Memcpy DtoD                             5.000 µs   ← unexpected
          ├─ Memcpy HtoD                             1.000 µs
          └─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  2.000 µs
          trace: <bytes>
    """)
    assert said(lambda: expect(trace).copies_nothing()).startswith(
        "expected no memcpy in the whole trace, found 2\n"
    )
    assert said(lambda: expect(trace).copies(2, "DtoD")).startswith(
        "expected 2 DtoD memcpy in the whole trace, found 1\n"
    )


def test_rocm_spells_copies_out():
    trace = small_trace(op("aten::copy_", memcpy(name="CopyDeviceToHost")))
    expect(trace).copies(1, "DtoH").copies_nothing("DtoD")


def test_a_copy_of_unknown_kind_is_not_taken_for_another_kind():
    trace = small_trace(op("aten::copy_", memcpy(name="Memcpy ?")))
    with pytest.raises(TraceError, match=r"the kind of the copy 'Memcpy \?' is not told"):
        expect(trace).copies_nothing("DtoD")
    assert "found 1\n" in said(lambda: expect(trace).copies_nothing())


# -- synchronisation ------------------------------------------------------------------------------


def test_no_wait_for_the_gpu():
    expect(h200("geglu_64_128_768_3072.eager")).never_synchronizes()
    item = op(
        "aten::item",
        op("aten::_local_scalar_dense", memcpy("DtoH", 2.0), call("cudaStreamSynchronize")),
    )
    trace = small_trace(label("forward", op("aten::relu", kernel(ADD)), item))
    claims = expect(trace).under("forward")
    assert said(lambda: claims.never_synchronizes(because="a value read stops the queue")) == text("""
        expected no wait for the GPU under forward, found cudaStreamSynchronize in aten::_local_scalar_dense
          forward
          ├─ aten::relu  … (1 kernel)
          └─ aten::item
             └─ aten::_local_scalar_dense
                ├─ Memcpy DtoH            2.000 µs
                └─ cudaStreamSynchronize             ← waits for the GPU
          because: a value read stops the queue
          trace: <bytes>
    """)


@pytest.mark.parametrize(
    ("inside", "found"),
    [
        (op("aten::item", memcpy("DtoH")), "aten::item"),
        (op("aten::copy_", memcpy("HtoD", api="cudaMemcpy")), "cudaMemcpy in aten::copy_"),
        (op("aten::copy_", memcpy("HtoD", api="hipMemcpyWithStream")),
         "hipMemcpyWithStream in aten::copy_"),
        (op("x", call("cudaEventSynchronize"), call("cudaDeviceSynchronize")),
         "cudaEventSynchronize in x and 1 more"),
        (call("cudaStreamSynchronize"), "cudaStreamSynchronize"),
    ],
)  # fmt: skip
def test_every_way_to_wait_is_found(inside, found):
    trace = small_trace(step(op("aten::relu", kernel(ADD)), inside))
    assert said(lambda: expect(trace).never_synchronizes()).startswith(
        f"expected no wait for the GPU in ProfilerStep#2, found {found}\n"
    )


@pytest.mark.parametrize(
    "inside",
    [
        call("cudaDeviceSynchronize"),  # the capture's own, between steps
        op("aten::item", op("aten::_local_scalar_dense")),  # of a tensor on the CPU
        op("aten::copy_", memcpy("HtoD", api="cudaMemcpyAsync")),
        op("x", call("cudaStreamWaitEvent"), call("cudaStreamIsCapturing")),
    ],
)
def test_what_does_not_wait_is_no_wait(inside):
    trace = small_trace(step(op("aten::relu", kernel(ADD)), inside))
    expect(trace).never_synchronizes()


# -- ops ------------------------------------------------------------------------------------------


def test_ops_are_dispatched():
    eager = h200("geglu_64_128_768_3072.eager")
    expect(eager).dispatches("aten::mm", times=3).dispatches("aten::gelu", "aten::mul")
    expect(eager).under("aten::linear").dispatches("aten::t", "aten::m?tmul", times=1)
    trace = small_trace(step(linear(kernel(GEMM, 3.0))))
    assert said(lambda: expect(trace).dispatches("aten::t", "addmm_")) == text("""
        expected a call of aten::t and addmm_ in ProfilerStep#2, found none of addmm_
          ProfilerStep#2
          └─ aten::linear
             ├─ aten::t
             └─ aten::addmm
                └─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  3.000 µs
          nearest: aten::addmm
          trace: <bytes>
    """)


def test_ops_are_dispatched_so_many_times():
    trace = small_trace(op("aten::linear", op("aten::t"), op("aten::t"), op("aten::mm")))
    assert said(lambda: expect(trace).dispatches("aten::t", times=1)) == text("""
        expected 1 call of aten::t in the whole trace, found 2
          the whole trace
          └─ aten::linear
             ├─ aten::t × 2   ← one of 2
             └─ aten::mm
          trace: <bytes>
    """)
    assert "expected 3 calls of aten::t in" in said(
        lambda: expect(trace).dispatches("aten::t", times=3)
    )


def test_ops_are_not_dispatched():
    expect(h200("linear_1024_32_64.eager")).does_not_dispatch("aten::add", "aten::copy_")
    expect(h200("linear_1024_32_64.compile")).does_not_dispatch("aten::t", "aten::linear")
    trace = small_trace(step(linear(kernel(GEMM)), op("aten::add", kernel(ADD, 1.0))))
    claims = expect(trace)
    assert said(lambda: claims.does_not_dispatch("aten::add*", "aten::mul")) == text("""
        expected no aten::add* or aten::mul in ProfilerStep#2, found 2 calls of aten::addmm and aten::add
          ProfilerStep#2
          ├─ aten::linear
          │  └─ aten::addmm                                           ← unexpected
          │     └─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  2.000 µs
          └─ aten::add                                                ← unexpected
             └─ elementwise_kernel<add>                    1.000 µs
          trace: <bytes>
    """)


def test_a_call_that_two_names_match_is_counted_once():
    trace = small_trace(op("aten::add", kernel(ADD)))
    assert "found 1 call of aten::add\n" in said(
        lambda: expect(trace).does_not_dispatch("aten::add", "aten::*")
    )


def test_claims_about_ops_hold_on_the_cpu():
    trace = small_trace(linear(), gpu=False)
    expect(trace).under("aten::linear").dispatches("aten::t", times=1).does_not_dispatch(
        "aten::add"
    )


def test_a_label_is_an_op_one_can_look_under():
    trace = small_trace(label("forward", linear(kernel(GEMM))), op("aten::add", kernel(ADD)))
    expect(trace).under("forward").launches(1, "gemm")
    expect(trace).under("forward").under("aten::linear").launches(1)
    assert said(
        lambda: expect(trace).under("forward").under("aten::linear").launches(2)
    ).startswith("expected 2 kernels under aten::linear in forward, found 1 kernel\n")


def test_a_name_with_the_characters_of_a_glob_is_found_as_it_stands():
    trace = small_trace(op("run[0]*", op("aten::t"), kernel(GEMM)))
    expect(trace).under("run[0]*").dispatches("aten::?").launches(1)


# -- runtime calls --------------------------------------------------------------------------------

OCCUPANCY = "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"


def test_runtime_calls_are_made():
    trace = small_trace(op("aten::mm", call(OCCUPANCY), kernel(GEMM)))
    expect(trace).under("aten::mm").calls("cudaOccupancy*").calls(OCCUPANCY)
    hopper = expect(h200("linear_1024_32_64.eager")).under("aten::addmm")
    hopper.calls("cuLaunchKernelEx").does_not_call("cudaOccupancy*")
    path = DATA / "h200" / "linear_1024_32_64.eager.json.gz"
    assert said(lambda: hopper.calls("cudaOccupancy*", because="cuBLAS asks on Ampere")) == text(f"""
        expected a call of cudaOccupancy* under aten::addmm, found none in each of 3 calls
          aten::addmm  bf16[64] × bf16[1024,32] × bf16[32,64]
          └─ nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT  2.848 µs
          calls: cuLaunchKernelEx
          because: cuBLAS asks on Ampere
          trace: {path} (open in ui.perfetto.dev)
    """)


def test_runtime_calls_are_not_made():
    trace = small_trace(op("aten::mm", call("cudaMalloc"), kernel(GEMM, 3.0)))
    assert said(lambda: expect(trace).does_not_call("cudaMalloc*")) == text("""
        expected no call of cudaMalloc* in the whole trace, found 1 call
          the whole trace
          └─ aten::mm
             ├─ cudaMalloc                                         ← unexpected
             └─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  3.000 µs
          trace: <bytes>
    """)


# -- pace -----------------------------------------------------------------------------------------


def test_small_products_wait_for_the_host_and_large_ones_for_the_gpu():
    expect(h200("matmul_add_64.eager")).is_overhead_bound()
    expect(h200("matmul_add_4096.eager")).is_compute_bound()
    expect(h200("linear_4096.eager")).under("fwd").is_compute_bound()


def test_the_pace_is_told_for_each_step():
    steps = [step(op("aten::mm", kernel(GEMM, us))) for us in (2.0, 1.0, 30.0)]
    claims = expect(small_trace(*steps))
    assert said(lambda: claims.is_overhead_bound(because="64×64 is nothing")) == text("""
        expected the GPU idle at least 90 % of the time in a step (overhead-bound), found it idle 60 % (median of 3 steps)
                              host  GPU busy  GPU idle
          ProfilerStep#2  5.000 µs  2.000 µs      60 %
          ProfilerStep#3  5.000 µs  1.000 µs      80 %
          ProfilerStep#4  5.000 µs  30.00 µs       0 %
          because: 64×64 is nothing
          trace: <bytes>
    """)
    assert "expected the GPU idle at most 20 % of the time in a step (compute-bound)" in said(
        lambda: claims.is_compute_bound()
    )
    claims.is_overhead_bound(idle=0.5).is_compute_bound(idle=0.7)


def test_the_pace_of_many_steps_is_told_for_the_first_ones():
    message = said(
        lambda: expect(small_trace(*[step(op("aten::mm", kernel(GEMM)))] * 14)).is_overhead_bound()
    )
    assert message.split("\n")[11].startswith("  ProfilerStep#11  ")
    assert message.split("\n")[12] == "  … 4 more steps"


def test_overlapping_kernels_keep_the_gpu_busy_once():
    trace = case("kernels-overlap-in-one-stream")
    message = said(lambda: expect(trace).is_overhead_bound(idle=1.0))
    assert message.split("\n")[2].split("  ")[3:5] == ["4.000 µs", ""]


def test_pace_cannot_be_judged_without_kernels():
    trace = small_trace(linear(), op("aten::add", kernel(ADD)))
    with pytest.raises(TraceError, match="aten::linear launched nothing: the GPU has no pace"):
        expect(trace).under("aten::linear").is_overhead_bound()


def test_pace_is_not_told_by_implausible_times():
    events = json.loads(trace_json(linear(kernel(GEMM, 9.0))))
    record = next(e for e in events["traceEvents"] if e["cat"] == "kernel")
    record["ts"] -= 5000  # long before its launch
    with pytest.warns(KernelpinWarning):
        trace = load_trace(json.dumps(events).encode())
    with pytest.raises(TraceError, match="the whole trace has implausible GPU times"):
        expect(trace).is_compute_bound()
    expect(trace).launches(1, "gemm")
    message = said(lambda: expect(trace).launches(2))
    assert f"└─ {GEMM}  implausible record  9.000 µs\n" in message
    assert "\n  warning: " in message


# -- what cannot be judged never passes -------------------------------------------------------------

KERNEL_CLAIMS = {
    "launches_nothing": lambda c: c.launches_nothing(),
    "launches": lambda c: c.launches(0),
    "launches_at_least": lambda c: c.launches_at_least(1, "gemm"),
    "launches_no": lambda c: c.launches_no("gemm"),
    "the_same": lambda c: c.launches_the_same_kernels_as(c),
    "has_layout": lambda c: c.has_layout("tn"),
    "fuses": lambda c: c.fuses("gelu", "mul"),
    "copies_nothing": lambda c: c.copies_nothing(),
    "copies": lambda c: c.copies(0, "DtoD"),
    "never_synchronizes": lambda c: c.never_synchronizes(),
    "calls": lambda c: c.calls("cudaMalloc"),
    "does_not_call": lambda c: c.does_not_call("cudaMalloc"),
    "uses_tensor_cores": lambda c: c.uses_tensor_cores(),
    "overhead": lambda c: c.is_overhead_bound(idle=0.0),
    "compute": lambda c: c.is_compute_bound(idle=1.0),
}
OP_CLAIMS = {
    "dispatches": lambda c: c.dispatches("aten::t"),
    "does_not_dispatch": lambda c: c.does_not_dispatch("aten::mul"),
    "under": lambda c: c.under("aten::t"),
}
every_kernel_claim = pytest.mark.parametrize("claim", KERNEL_CLAIMS.values(), ids=[*KERNEL_CLAIMS])
every_claim = pytest.mark.parametrize(
    "claim", [*KERNEL_CLAIMS.values(), *OP_CLAIMS.values()], ids=[*KERNEL_CLAIMS, *OP_CLAIMS]
)


@every_claim
def test_no_claim_passes_on_a_trace_that_lost_a_kernel(claim):
    with pytest.raises(TraceError, match="1 of 3 launches lost their GPU record"):
        claim(expect(case("profiler-lost-a-kernel")))


@every_claim
def test_no_claim_passes_on_a_trace_without_gpu_records(claim):
    with pytest.raises(TraceError, match="no GPU activity was recorded"):
        claim(expect(case("launches-but-no-kernels")))


@every_kernel_claim
def test_no_claim_about_kernels_passes_on_a_trace_of_the_cpu(claim):
    trace = small_trace(linear(), gpu=False)
    with pytest.raises(
        TraceError, match=r"holds no (GPU activity|runtime call), so nothing can be"
    ):
        claim(expect(trace))


@every_claim
def test_no_claim_passes_on_a_step_that_launched_nothing_while_others_did(claim):
    trace = small_trace(step(linear(kernel(GEMM))), step(linear()))
    with pytest.raises(TraceError, match="ProfilerStep#3 launched nothing, while other steps did"):
        claim(expect(trace))


@every_claim
@pytest.mark.parametrize("gpu", [True, False])
def test_no_claim_passes_on_a_step_without_anything(claim, gpu):
    trace = small_trace(step(), op("aten::add", *[kernel(ADD)] * gpu), gpu=gpu)
    with pytest.raises(TraceError, match="ProfilerStep#2 holds neither an op nor a launch"):
        claim(expect(trace))


@pytest.mark.parametrize("claim", OP_CLAIMS.values(), ids=[*OP_CLAIMS])
def test_no_claim_about_ops_passes_where_none_was_recorded(claim):
    with pytest.raises(TraceError, match="holds no op, so nothing can be said"):
        claim(expect(small_trace(label("forward", kernel(GEMM)))))


@every_kernel_claim
def test_no_claim_about_kernels_passes_while_a_graph_is_captured(claim):
    captured = [
        call("cudaStreamBeginCapture"),
        kernel(GEMM, lost=True),
        call("cudaStreamEndCapture"),
    ]
    trace = small_trace(op("aten::mm", *captured), op("aten::add", kernel(ADD)))
    claims = expect(trace).under("aten::mm")
    if claim in (KERNEL_CLAIMS["never_synchronizes"], KERNEL_CLAIMS["does_not_call"]):
        claim(claims)  # the host's side is there to see
    elif claim is KERNEL_CLAIMS["calls"]:
        assert "calls: cuda" in said(lambda: claim(claims))
    else:
        with pytest.raises(TraceError, match="aten::mm captures a CUDA graph"):
            claim(claims)


def test_an_op_that_is_not_called_is_a_failure_of_every_claim_under_it():
    trace = small_trace(step(linear(kernel(GEMM))), step(op("aten::mm", kernel(GEMM, 3.0))))
    because = "nn.Linear is what is tested"
    assert said(lambda: expect(trace).under("aten::linear", because=because)) == text("""
        expected a call of aten::linear in a step, found none in ProfilerStep#3 (1 of 2 steps fails)
          ProfilerStep#3
          └─ aten::mm
             └─ nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT  3.000 µs
          because: nn.Linear is what is tested
          trace: <bytes>
    """)


def test_a_claim_about_one_op_needs_only_that_op_to_be_complete():
    trace = case("profiler-lost-a-kernel")
    whole, _, lost = trace.ops("aten::addmm")[0], *trace.ops("aten::addmm")[1:][::-1]
    expect(whole).launches(1, "gemm")
    expect(trace.steps[0]).launches(1, "gemm")
    with pytest.raises(TraceError, match="lost"):
        expect(lost).launches_nothing()


# -- wrong use ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "error", "words"),
    [
        (lambda c: c.launches(1, "gemms"), ValueError, r"no kernel family 'gemms' \(did you mean 'gemm'"),
        (lambda c: c.launches_no("GEMM"), ValueError, r"family 'GEMM' \(did you mean 'gemm'"),
        (lambda c: c.launches_no("nvjet_*"), ValueError, r"'nvjet_\*' \(a kernel's name, with globs"),
        (lambda c: c.launches(-1), ValueError, "whole numbers from 0, not -1"),
        (lambda c: c.launches(True), ValueError, "whole numbers from 0, not True"),
        (lambda c: c.launches_at_least(0, "gemm"), ValueError, "whole numbers from 1, not 0"),
        (lambda c: c.dispatches(), ValueError, "name at least one op"),
        (lambda c: c.does_not_dispatch(), ValueError, "name at least one op"),
        (lambda c: c.does_not_dispatch(""), ValueError, "name at least one op"),
        (lambda c: c.dispatches("aten::mm", times=0), ValueError, "whole numbers from 1, not 0"),
        (lambda c: c.fuses(), ValueError, "name at least one op"),
        (lambda c: c.fuses("gelu"), ValueError, "found 'gelu' alone to be fused; name at least"),
        (lambda c: c.fuses("mul", "aten::mul"), ValueError, "found 'mul' alone to be fused"),
        (lambda c: c.has_layout([]), ValueError, "name at least one layout"),
        (lambda c: c.copies_nothing("DtoX"), ValueError, "no kind of copy 'DtoX'; there are: HtoD"),
        (lambda c: c.is_overhead_bound(idle=90), ValueError, "between 0 and 1, not 90"),
        (lambda c: c.launches_the_same_kernels_as(c, families=()), ValueError, "at least one family"),
        (lambda c: c.launches_the_same_kernels_as([c]), TypeError, "not list"),
        (lambda c: expect("trace.json"), TypeError, "takes a Trace, Step or Op, not str"),
    ],
)  # fmt: skip
def test_a_claim_that_says_nothing_is_refused(claim, error, words):
    with pytest.raises(error, match=words):
        claim(expect(small_trace(linear(kernel(GEMM)))))


# -- names that no negative claim may hold of -----------------------------------------------------

FEW = (op("aten::add", kernel(ADD)), op("aten::t"), call("cudaMalloc"), label("fwd"))
NO_NAME = {
    "add": "in this trace it is 'aten::add'",
    "torch.add": "in this trace it is 'aten::add'",
    "aten::Add": "in this trace it is 'aten::add'",
    " aten::mul": "it has blanks at its ends",
    "aten:mul": "ATen's are recorded like 'aten::add', without their overload",
    "ATen::mul": "ATen's are recorded like 'aten::add', without their overload",
    "aten::mul.Tensor": "ATen's are recorded like 'aten::add', without their overload",
    "cudaMalloc": r"in this trace it is a runtime call, so claim .does_not_call\(…\)",
    "cuda*": r"in this trace it is a runtime call, so claim .does_not_call\(…\)",
}
NO_CALL = {
    "aten::item": r"that is how ops are named, so claim .does_not_dispatch\(…\)",
    "cudaFree()": "recorded like 'cudaMalloc', without blanks and brackets",
    "cudaFree ": "recorded like 'cudaMalloc', without blanks and brackets",
    "cudamalloc": "in this trace it is 'cudaMalloc'",
}


@pytest.fixture
def no_torch(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    yield
    assert "torch" not in sys.modules


@pytest.mark.parametrize(
    "name", ["nn.Linear", "torch.nn.Linear", "torch.mul", "F.gelu", "torch.nn.functional.gelu"]
)
def test_pythons_name_of_an_op_is_not_said_to_be_missing(no_torch, name):
    glob = f"{name[:-1]}[{name[-1]}]"
    told = f"recorded like 'aten::linear'; a label of that name claim as '{glob}'"
    with pytest.raises(ValueError, match=re.escape(told)):
        expect(small_trace(*FEW)).does_not_dispatch(name)
    expect(small_trace(*FEW)).does_not_dispatch(glob)


@pytest.mark.parametrize("name", NO_NAME)
def test_what_cannot_be_an_ops_name_is_not_said_to_be_missing(no_torch, name):
    with pytest.raises(ValueError, match=f"^'{re.escape(name)}' is no op, .*{NO_NAME[name]}$"):
        expect(small_trace(*FEW)).does_not_dispatch("aten::mm", name)


@pytest.mark.parametrize(
    ("slip", "name"),
    [
        ("cudaDeviceSynchronise", "cudaDeviceSynchronize"),
        ("cudaStreamSyncronize", "cudaStreamSynchronize"),
        ("cudamemset", "cudaMemset"),
        ("cudaMemcpyAsnyc", "cudaMemcpyAsync"),
        ("hipDeviceSynchronise", "hipDeviceSynchronize"),
        ("cuLaunchKernelEX", "cuLaunchKernelEx"),
        ("cudaMalock", "cudaMalloc"),
        ("cudaMemsat", "cudaMemset"),
    ],
)
def test_a_slip_in_a_well_known_functions_name_is_not_said_to_be_missing(slip, name):
    glob = f"{slip[:-1]}[{slip[-1]}]"
    told = f"'{slip}' is no runtime call, and so is never called: a well-known one is '{name}'; "
    with pytest.raises(ValueError, match=re.escape(f"{told}of another claim it as the glob")):
        expect(small_trace(*FEW)).does_not_call(slip)
    expect(small_trace(*FEW)).does_not_call(glob)


@pytest.mark.parametrize(
    "name",
    [
        *("cudaMallocHost", "cudaMallocManaged", "cudaMemcpy2DAsync", "cuMemcpyAsync", "cuMalloc*"),
        *("cudaGraphExecUpdate", "cudaArrayGetInfo", "ncclAllReduce", "hipModuleLoadData"),
        *("cudaEventSynchronize", "hipEventSynchronize", "cudaStreamAddCallback", "cudaFreeArray"),
        *("cudaGetDeviceProperties_v2", "cudaStreamGetCaptureInfo_v3", "cudaEventElapsedTime_v2"),
        *("cudaMemset3DAsync", "cudaMemcpy3DPeerAsync", "cuMemcpyHtoAAsync", "cuMemcpyAtoHAsync"),
        *(
            "cuMemsetD8Async",
            "cuFuncGetAttribute",
            "cudaMalloc3D",
            "cudaMallocArray",
            "cuMemGetInfo",
        ),
        *("cudaMemGetInfo", "cudaHostUnregister", "cudaStreamGetId", "cudaGraphExecDestroy"),
    ],
)
def test_any_other_functions_name_is_believed(name):
    expect(small_trace(*FEW)).does_not_call(name)


@pytest.mark.parametrize("name", NO_CALL)
def test_what_cannot_be_a_runtime_calls_name_is_not_said_to_be_missing(name):
    with pytest.raises(ValueError, match=f"^'{re.escape(name)}' is no runtime .*{NO_CALL[name]}$"):
        expect(small_trace(*FEW)).does_not_call(name)


def test_an_aten_op_that_torch_does_not_have_is_not_said_to_be_missing():
    torch = pytest.importorskip("torch")
    told = (
        rf"^'aten::ad' is no op, and so is never dispatched: torch {re.escape(torch.__version__)} "
        r"has none of that name \(near: .*aten::add.*\); where another torch has one, claim it of "
        r"'\*::ad'$"
    )
    claims = expect(small_trace(*FEW))
    with pytest.raises(ValueError, match=told):
        claims.does_not_dispatch("aten::ad")
    with pytest.raises(ValueError, match=r"^'aten::contigous\*' is no op"):
        claims.does_not_dispatch("aten::contigous*")
    claims.does_not_dispatch("*::ad", "aten::contiguous", "aten::contig*", "aten::_cudnn_rnn")


def test_a_name_that_torch_no_longer_has_is_right_where_the_trace_has_it():
    pytest.importorskip("torch")
    trace = small_trace(step(op("aten::_gone", kernel(ADD))), step(op("aten::t", kernel(ADD))))
    claims = expect(trace.steps[1])
    claims.does_not_dispatch("aten::_gone", "aten::_go*")
    assert said(lambda: expect(trace).does_not_dispatch("aten::_gone")).startswith(
        "expected no aten::_gone in a step, found 1 call of aten::_gone in ProfilerStep#2"
    )


def test_without_torch_and_with_a_stand_in_for_it_nothing_is_known_of_its_ops(
    no_torch, monkeypatch
):
    claims = expect(small_trace(*FEW))
    claims.does_not_dispatch("aten::ad")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", SimpleNamespace(__version__="0"))
        claims.does_not_dispatch("aten::ad")


@pytest.mark.parametrize(
    "name",
    ["MulBackward0", "autograd::engine::evaluate_function: MulBackward0", "detach", "mylib::add",
     "Torch-Compiled Region: 0/0", "Optimizer.step#SGD.step", "triton_poi_fused_add_0", "bwd",
     "model.layers.add", "Add", "aten::add_", "aten::*_backward"],
)  # fmt: skip
def test_names_that_ops_have_been_seen_with_are_right_where_they_are_missing(name):
    expect(small_trace(*FEW)).does_not_dispatch(name)


def test_every_aten_op_that_was_recorded_is_one_that_torch_tells():
    torch = pytest.importorskip("torch")
    traces = [load_trace(path) for path in sorted((DATA / "h200").glob("*"))]
    names = {found.name for trace in traces for found in trace.ops() if "aten::" in found.name}
    assert {"aten::addmm", "aten::_foreach_copy_", "aten::_unsafe_view"} <= names
    assert [n for n in names if not hasattr(torch.ops.aten, n.removeprefix("aten::"))] == []


# -- the failure itself ---------------------------------------------------------------------------


def failure(trace=None):
    with pytest.raises(ClaimFailed) as caught:
        expect(trace or small_trace(linear(kernel(GEMM)))).launches(2, because="two")
    return caught.value


def test_a_failure_has_its_message_in_parts():
    trace = small_trace(linear(kernel(GEMM)))
    failed = failure(trace)
    assert isinstance(failed, AssertionError)
    assert failed.finding.headline == "expected 2 kernels in the whole trace, found 1 kernel"
    assert failed.finding.evidence[0] == "the whole trace"
    assert failed.finding.because == "two"
    assert failed.finding.trace is trace
    assert failed.finding.trace_source == "<bytes>"
    assert repr(failed) == "ClaimFailed('expected 2 kernels in the whole trace, found 1 kernel')"


def test_the_trace_may_be_said_to_lie_elsewhere():
    failed = failure()
    failed.finding = failed.finding.saved_as("traces/kept.json.gz")
    assert str(failed).endswith("\n  trace: traces/kept.json.gz (open in ui.perfetto.dev)")


def test_a_failure_is_known_by_its_public_name():
    assert f"{ClaimFailed.__module__}.{ClaimFailed.__qualname__}" == "kernelpin.ClaimFailed"
    assert pickle.loads(pickle.dumps(ClaimFailed)) is ClaimFailed


def test_a_message_is_one_line_a_line_whatever_the_names():
    trace = small_trace(op("evil\nname\x1b[2J", kernel("ker\nnel\u202e")))
    message = said(lambda: expect(trace).under("evil*").launches(2, because="two\nlines"))
    lines = message.split("\n")
    assert lines[0] == "expected 2 kernels under evil*, found 1 kernel"
    assert lines[1:] == [
        "  evil\\nname\\x1b[2J",
        lines[2],
        "  because: two\\nlines",
        "  trace: <bytes>",
    ]
    assert message.isprintable() or message.replace("\n", "").isprintable()
    message.encode("utf-8")


def test_what_was_repaired_in_the_trace_is_said_with_the_failure():
    with pytest.warns(KernelpinWarning):
        trace = case("inf-in-args")
    assert "\n  warning: repaired: a bare NaN or infinity" in said(
        lambda: expect(trace).copies_nothing()
    )


def test_claims_chain_and_name_themselves():
    claims = expect(small_trace(step(linear(kernel(GEMM))), step(linear(kernel(GEMM)))))
    assert expect(claims) is not None
    assert claims.launches(1).launches_no("copy").dispatches("aten::t") is claims
    assert repr(claims) == "<claims about 2 steps in a step of <bytes>>"
    assert repr(claims.under("aten::t")) == "<claims about 2 calls under aten::t of <bytes>>"


# -- any trace ------------------------------------------------------------------------------------

leaves = st.sampled_from(
    [kernel(GEMM), kernel(ADD), memcpy("DtoD"), memset(), op("aten::t"), call("cudaMalloc")]
)
trees = st.recursive(
    leaves, lambda inside: st.lists(inside, max_size=4).map(lambda x: op("aten::f", *x))
)
COMPLEMENTS = [
    (lambda c: c.launches_no("gemm"), lambda c: c.launches_at_least(1, "gemm")),
    (lambda c: c.does_not_dispatch("aten::t"), lambda c: c.dispatches("aten::t")),
    (lambda c: c.does_not_call("cudaMalloc"), lambda c: c.calls("cudaMalloc")),
]


@settings(max_examples=60)
@given(st.lists(trees, min_size=1, max_size=4))
def test_of_two_opposite_claims_about_one_step_just_one_holds(parts):
    claims = expect(small_trace(step(op("aten::add", kernel(ADD)), *parts)))
    for one, other in COMPLEMENTS:
        assert holds_for(one, claims) != holds_for(other, claims)
    kernels = [k for k in claims._subject.scopes[0].kernels if k.category == "kernel"]
    near = range(max(0, len(kernels) - 2), len(kernels) + 3)
    held = [n for n in near if holds_for(lambda c, n=n: c.launches(n), claims)]
    assert held == [len(kernels)]


def holds_for(claim, claims) -> bool:
    try:
        claim(claims)
    except ClaimFailed as failed:
        lines = str(failed).split("\n")
        assert lines[0].startswith("expected ")
        assert all(line.startswith("  ") for line in lines[1:])
        return False
    return True


# -- the documentation ----------------------------------------------------------------------------

CLAIMS = [name for name in dir(Claims) if not name.startswith("_")]


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_is_documented_with_an_example_that_holds(name):
    (example,) = re.findall(r"^ *>>> (expect\(.*)$", getattr(Claims, name).__doc__, re.MULTILINE)
    asking = small_trace(op("aten::mm", call(OCCUPANCY), kernel(GEMM)))
    traces = [load_trace(path) for path in sorted((DATA / "h200").glob("*.eager.*"))] + [asking]
    pairs = [(trace, trace, trace) for trace in traces]
    for path in sorted((DATA / "h200").glob("*.compile.*")):
        compiled, eager = load_trace(path), load_trace(str(path).replace("compile", "eager"))
        pairs.append((compiled, compiled, eager))
    assert any(holds(example, *pair) for pair in pairs), example


def holds(example, trace, compiled, eager) -> bool:
    try:
        eval(example, {"expect": expect, "trace": trace, "compiled": compiled, "eager": eager})
    except (ClaimFailed, TraceError):
        return False
    return True
