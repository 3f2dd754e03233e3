"""What the gated MLP runs, and how long it takes."""

from pathlib import Path

import pytest
import torch
from my_module import GatedMLP

from kernelpin import expect, load_trace

TRACES = Path(__file__).parent / "traces"


def build(device, dtype, *, tokens, dim, hidden):
    """The module and its input: seeded random data, since zeros are faster than real numbers."""
    torch.manual_seed(0)
    model = GatedMLP(dim, hidden).to(device, dtype).requires_grad_(False)
    return model, torch.randn(tokens, dim, device=device, dtype=dtype)


@pytest.fixture
def on_gpu():
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    torch.compiler.reset()
    return build("cuda", torch.bfloat16, tokens=8192, dim=768, hidden=3072)


def expect_one_kernel_between_the_gemms(trace):
    expect(trace).fuses(
        "gelu", "mul", because="the 8192 x 3072 intermediate must not go to memory and back"
    ).launches(3, "gemm", allowing=("triton_pointwise",))


# 1. Claims about a trace.


@pytest.mark.gpu
def test_compiled_runs_one_kernel_between_the_gemms(on_gpu, capture_trace):
    model, x = on_gpu
    expect_one_kernel_between_the_gemms(capture_trace(torch.compile(model), x))


@pytest.mark.parametrize("gpu", sorted(folder.name for folder in TRACES.iterdir()))
def test_compiled_ran_one_kernel_between_the_gemms(gpu):
    """The same on a recorded trace: it runs everywhere, and it says nothing about this machine."""
    expect_one_kernel_between_the_gemms(load_trace(TRACES / gpu / "gated_mlp-compiled.json.gz"))


@pytest.mark.cpu
def test_eager_copies_nothing_and_adds_no_bias(capture_trace):
    model, x = build("cpu", torch.float32, tokens=8, dim=16, hidden=32)
    trace = capture_trace(model, x)
    expect(trace).dispatches("aten::linear", times=3).does_not_dispatch(
        "aten::add", "aten::copy_", "aten::clone", because="no bias, and every input is contiguous"
    )


# 2. A timing: device time, against the baseline of the GPU that it runs on.


@pytest.mark.gpu
def test_time(on_gpu, stopwatch):
    model, x = on_gpu
    stopwatch(model, x)


@pytest.mark.gpu
@pytest.mark.kernelpin(limit=0.1, because="Inductor may choose another tiling any day")
def test_time_compiled(on_gpu, stopwatch):
    model, x = on_gpu
    stopwatch(torch.compile(model), x)


# 3. Counts: what does not depend on clocks at all.


@pytest.mark.gpu
def test_counts(on_gpu, stopwatch):
    model, x = on_gpu
    stopwatch.counts(model, x)
