"""Device time of each workload and mode against this GPU's baseline."""

from __future__ import annotations

import pytest

from fixtures.timed import TIMED, build, training_step

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("name", "mode"), TIMED)
def test_device_time(stopwatch, name, mode):
    fn, args = build(name, mode)
    stopwatch(fn, *args)


@pytest.mark.parametrize("shape", [(256, 1024), (8192, 3072)], ids=lambda s: f"{s[0]}x{s[1]}")
def test_gelu_device_time(stopwatch, shape):
    import torch

    torch.manual_seed(0)
    x = torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    stopwatch(lambda x: torch.nn.functional.gelu(x, approximate="tanh"), x)


def test_training_step_device_time(stopwatch):
    stopwatch(training_step())
