"""`nn.Linear`: its transpose copies nothing, and its bias is part of the GEMM."""

from __future__ import annotations

import pytest

from fixtures.sources import cases
from fixtures.waits import expect_no_wait, expect_one_graph
from kernelpin import decode_kernel_name, expect


@cases("linear", bias=True)
def test_linear_dispatches_t_and_addmm(case):
    expect(case.trace("eager")).under("aten::linear").dispatches("aten::t", "aten::addmm", times=1)


@cases("linear", bias=True)
def test_the_transpose_copies_nothing(case):
    trace = case.trace("eager")
    why = "only shape and stride change"
    expect(trace).does_not_dispatch("aten::contiguous", "aten::clone", because=why)
    # Not in the whole forward: the CPU's addmm copies the bias to its output.
    expect(trace).under("aten::t").does_not_dispatch("aten::copy_", because=why)
    if case.source.kind != "cpu":
        expect(trace).under("aten::t").launches_nothing(because=why)


@pytest.mark.cpu
def test_the_transpose_shares_storage_and_swaps_shape_and_strides():
    import torch

    weight = torch.nn.Linear(32, 64).weight
    transposed = weight.t()
    assert transposed.untyped_storage().data_ptr() == weight.untyped_storage().data_ptr()
    assert transposed.shape == weight.shape[::-1]
    assert transposed.stride() == weight.stride()[::-1]


@cases("linear", bias=True)
def test_the_bias_is_folded_into_the_gemm(case):
    trace = case.trace("eager")
    if case.source.kind != "cpu":
        expect(trace).under("aten::linear").launches(
            1,
            "gemm",
            allowing=("splitk_reduce",),
            because="the bias is folded into the GEMM's epilogue",
        )
    expect(trace).does_not_dispatch("aten::add", because="the bias is an operand of aten::addmm")


@cases("linear", bias=False)
def test_without_bias_it_is_one_bare_gemm(case):
    trace = case.trace("eager")
    expect(trace).dispatches("aten::mm", times=1).does_not_dispatch("aten::addmm", "aten::add")
    if case.source.kind != "cpu":
        expect(trace).launches(1, "gemm", allowing=("splitk_reduce",))


@cases("linear", on="gpu", bias=True)
def test_compiled_runs_the_same_gemm(case):
    expect(case.trace("compiled")).launches_the_same_kernels_as(
        case.trace("eager"), because="compile removes dispatch, not GPU work"
    )


@cases("linear", bias=True)
def test_compiled_dispatches_addmm_without_t(case):
    expect(case.trace("compiled")).dispatches("aten::addmm", times=1).does_not_dispatch(
        "aten::linear", "aten::t", because="the transposed view is made at compile time"
    )


@cases("linear", on="gpu", bias=True)
def test_the_name_tells_the_bias_epilogue(case):
    """cuBLAS says so on Hopper only; an Ampere name is the same with and without a bias."""
    nvjet = [k for k in case.trace("eager").kernels if k.name.startswith("nvjet")]
    if not nvjet:
        pytest.skip("only the names of Hopper's nvjet kernels tell the epilogue")
    for kernel in nvjet:
        assert "bias" in decode_kernel_name(kernel.name).epilogue, kernel.name


@cases("linear", on="gpu", bias=True)
def test_the_name_tells_the_layout(case):
    expect(case.trace("eager")).has_layout(
        {"tn", "TNT"}, because="the weight is stored [out, in] and read transposed"
    )


@cases("linear", on="gpu", bias=True)
def test_bf16_runs_on_tensor_cores(case):
    expect(case.trace("eager")).uses_tensor_cores()


@cases("linear", bias=True)
def test_the_forward_never_synchronizes(case):
    expect_no_wait(case)


@cases("linear", on="gpu", bias=True)
def test_reduce_overhead_replays_one_graph(case):
    """The graph runs eager's GEMM; its input is copied into the graph's memory beside it."""
    expect_one_graph(case)
