"""Device time of each workload and mode against this GPU's baseline."""

from __future__ import annotations

import pytest

from fixtures.workloads import WORKLOADS, Unavailable, workload

pytestmark = pytest.mark.gpu

TIMED = [
    pytest.param(w.name, mode, id=f"{w.name}-{mode}")
    for w in WORKLOADS
    for mode in w.modes
    # Without a bias only the GEMM itself differs; its other modes would time the same kernel.
    if not w.cpu and (w.bias or mode == "eager")
]


def build(name: str, mode: str):
    try:
        return workload(name).build(mode, "cuda")
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("name", "mode"), TIMED)
def test_device_time(stopwatch, name, mode):
    fn, args = build(name, mode)
    stopwatch(fn, *args)


@pytest.mark.parametrize("shape", [(256, 1024), (8192, 3072)], ids=lambda s: f"{s[0]}x{s[1]}")
def test_gelu_device_time(stopwatch, shape):
    import torch

    torch.manual_seed(0)
    x = torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    stopwatch(lambda: torch.nn.functional.gelu(x, approximate="tanh"))


def training_step():
    """The MLP's forward, backward and SGD step, on its eager workload."""
    import torch

    model, (x,) = build("geglu_mlp-64x128x768x3072", "eager")
    model.requires_grad_(True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    return step


def test_training_step_device_time(stopwatch):
    stopwatch(training_step())
