"""`torch.add(torch.matmul(x, w), b)` with a bias of full size: what eager and compiled run."""

from __future__ import annotations

import pytest

from fixtures.sources import cases
from kernelpin import expect


@cases("matmul_add")
def test_eager_dispatches_matmul_mm_and_add(case):
    trace = case.trace("eager")
    expect(trace).dispatches("aten::matmul", "aten::mm", "aten::add", times=1)
    assert all(op.parent.name == "aten::matmul" for op in trace.ops("aten::mm"))


@cases("matmul_add", on="gpu")
def test_eager_runs_two_kernels(case):
    expect(case.trace("eager")).launches(
        1, "gemm", allowing=("elementwise",), because="matmul and add are dispatched apart"
    ).launches(1, "elementwise", allowing=("gemm",))


@cases("matmul_add")
def test_compiled_dispatches_one_addmm(case):
    expect(case.trace("compiled")).dispatches("aten::addmm", times=1).does_not_dispatch(
        "aten::matmul",
        "aten::mm",
        "aten::add",
        because="Inductor turns the product and the sum into one addmm",
    )


@cases("matmul_add", on="gpu")
def test_compiled_copies_the_bias_and_runs_one_gemm(case):
    """A bias of full size is no epilogue vector: it is copied to the output, which beta·C adds."""
    expect(case.trace("compiled")).launches(1, "gemm").copies(
        1, "DtoD", because="addmm adds to its output, and the bias must survive"
    )


@cases("matmul_add", on="gpu")
def test_an_occupancy_query_precedes_a_gemm_on_ampere_only(case):
    trace = case.trace("eager")
    query = "cudaOccupancyMaxActiveBlocksPerMultiprocessor*"
    by_family = {kernel.family: kernel.op for kernel in trace.kernels}
    match trace.device.compute_capability:
        case (8, 0):
            why = "cuBLAS sizes its grid by occupancy on Ampere"
            expect(by_family["gemm"]).calls(query, because=why)
        case (9, 0):
            why = "nvjet kernels are launched without one"
            expect(by_family["gemm"]).does_not_call(query, because=why)
        case other:
            pytest.skip(f"known for compute capability 8.0 and 9.0, not for {other}")
    if "elementwise" in by_family:
        expect(by_family["elementwise"]).does_not_call(query)


@cases("matmul_add", on="gpu", shape=(64,))
def test_64_is_overhead_bound(case):
    expect(case.trace("eager")).is_overhead_bound(
        because="two kernels of a few microseconds wait for their launches"
    )


@cases("matmul_add", on="gpu", shape=(4096,))
def test_4096_is_compute_bound(case):
    expect(case.trace("eager")).is_compute_bound(because="the GEMM outlasts the dispatch")
