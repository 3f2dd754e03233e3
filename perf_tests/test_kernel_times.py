"""Single kernels as "Profiling in PyTorch" published them for an A100: medians from a trace.

They come from a profiler and carry its ±20 %; test_timings.py holds the tight ones.
"""

from __future__ import annotations

import pytest

from fixtures.timed import MLP, build

pytestmark = pytest.mark.gpu


def _matmul_4096():
    import torch

    torch.manual_seed(0)
    x, w = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return torch.matmul, (x, w)


def _copy_32mb():
    import torch

    torch.manual_seed(0)
    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    return torch.empty_like(x).copy_, (x,)


KERNELS = {
    "geglu-mlp-gate": (lambda: build(MLP, "eager"), {"name": "gemm", "nth": 0}),
    "geglu-mlp-up": (lambda: build(MLP, "eager"), {"name": "gemm", "nth": 1}),
    "geglu-mlp-down": (lambda: build(MLP, "eager"), {"name": "gemm", "nth": 2}),
    "geglu-mlp-inductor-fused": (lambda: build(MLP, "compiled"), {"name": "triton_pointwise"}),
    "geglu-mlp-liger": (lambda: build(MLP, "liger"), {"name": "*geglu_tanh_forward_kernel*"}),
    "matmul-4096": (_matmul_4096, {"name": "gemm"}),
    "copy-32mb": (_copy_32mb, {"name": "Memcpy DtoD*"}),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_time(stopwatch, kernel):
    make, which = KERNELS[kernel]
    fn, args = make()
    stopwatch.kernel(fn, *args, **which)
