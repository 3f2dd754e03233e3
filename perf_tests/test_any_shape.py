"""What compile promises, for shapes the source never tried."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fixtures.sweep import examples
from fixtures.workloads import Unavailable, require_mode
from kernelpin import capture, expect

# Eager and compiled sum in different orders: bf16 keeps 8 bits, and errors grow with the terms.
TOLERANCE = {"float32": 1e-4, "bfloat16": 4e-2}

ACTIVATIONS = {
    "gelu": lambda f: f.gelu,
    "gelu-tanh": lambda f: lambda x: f.gelu(x, approximate="tanh"),
    "silu": lambda f: f.silu,
    "relu": lambda f: f.relu,
}

DEVICES = [pytest.param("cuda", marks=pytest.mark.gpu), pytest.param("cpu", marks=pytest.mark.cpu)]
sizes = st.sampled_from([1, 2, 3, 7, 8, 17, 64, 100])
few = examples(5)


def need(device):
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    try:
        require_mode("compiled", device)
    except Unavailable as error:
        pytest.skip(str(error))


def geglu(activation):
    """gate·x, up·x → activation(gate) * up → down, as a function of tensors."""
    import torch

    act = ACTIVATIONS[activation](torch.nn.functional)

    def forward(x, gate, up, down):
        return (act(x @ gate) * (x @ up)) @ down

    return forward


def operands(device, dtype, rows, dim, hidden):
    import torch

    torch.manual_seed(rows * 31 + dim * 7 + hidden)
    shapes = [(rows, dim), (dim, hidden), (dim, hidden), (hidden, dim)]
    made = [torch.randn(s, device=device, dtype=getattr(torch, dtype)) for s in shapes]
    # Scaled as layers are, so that one tolerance serves every width.
    return [made[0], made[1] / dim**0.5, made[2] / dim**0.5, made[3] / hidden**0.5]


@pytest.mark.parametrize("device", DEVICES)
def test_eager_and_compiled_agree_for_any_shape(device):
    """One compilation with dynamic shapes serves every shape drawn."""
    import torch

    need(device)
    dtype = "bfloat16" if device == "cuda" else "float32"
    torch.compiler.reset()
    eager = geglu("gelu-tanh")
    compiled = torch.compile(eager, dynamic=True)

    @examples(25)
    @given(rows=sizes, dim=sizes, hidden=sizes)
    def agree(rows, dim, hidden):
        with torch.no_grad():
            args = operands(device, dtype, rows, dim, hidden)
            tolerance = TOLERANCE[dtype]
            torch.testing.assert_close(
                compiled(*args), eager(*args), rtol=tolerance, atol=tolerance
            )

    agree()


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_activation_and_the_product_fuse_for_any_size(activation):
    import torch

    need("cuda")

    @few
    @given(rows=st.integers(2, 300), dim=sizes, hidden=st.integers(2, 300))
    def fuses(rows, dim, hidden):
        # Without a reset the second shape would be compiled as dynamic, and the ninth not at all.
        torch.compiler.reset()
        compiled = torch.compile(geglu(activation), dynamic=False)
        with torch.no_grad():
            trace = capture(compiled, *operands("cuda", "bfloat16", rows, dim, hidden))
        expect(trace).fuses(activation.split("-")[0], "mul").launches(
            1, "triton_pointwise", allowing=("gemm", "gemv", "splitk_reduce", "reduction")
        )

    fuses()


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_activation_and_the_product_fuse_with_dynamic_shapes(activation):
    import torch

    need("cuda")
    torch.compiler.reset()
    compiled = torch.compile(geglu(activation), dynamic=True)

    @examples(8)
    @given(rows=st.integers(2, 300), dim=st.integers(2, 64), hidden=st.integers(2, 300))
    def fuses(rows, dim, hidden):
        with torch.no_grad():
            trace = capture(compiled, *operands("cuda", "bfloat16", rows, dim, hidden))
        expect(trace).launches(
            1, "triton_pointwise", allowing=("gemm", "gemv", "splitk_reduce", "reduction")
        )

    fuses()


@pytest.mark.gpu
def test_compiled_linear_runs_eagers_gemm_for_any_shape():
    """The exceptions are vectors: where M, K or N is 1 Inductor may write a kernel of its own.

    Which do is on the fold map (`test_fold_map.py`); their outputs agree all the same.
    """
    import torch

    need("cuda")

    @few
    @given(m=sizes, k=sizes, n=sizes)
    @example(m=1, k=17, n=8)
    @example(m=8, k=1, n=17)
    @example(m=17, k=8, n=1)
    def runs_eagers(m, k, n):
        torch.manual_seed(0)
        torch.compiler.reset()
        model = torch.nn.Linear(k, n).to("cuda", torch.bfloat16).requires_grad_(False)
        x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        if min(m, k, n) > 1:
            expect(capture(torch.compile(model), x)).launches_the_same_kernels_as(capture(model, x))
        torch.testing.assert_close(torch.compile(model)(x), model(x), rtol=4e-2, atol=4e-2)

    runs_eagers()
