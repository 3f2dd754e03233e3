"""What the session says of itself before it runs: the GPU, and whether it has baselines."""

from __future__ import annotations

import pytest

from kernelpin.plugin.benchmark import gpu_of
from kernelpin.plugin.settings import baselines_folder, budget_s


def header(config: pytest.Config) -> list[str]:
    """Lines that name the GPU or why there is none, its baselines, the budget. Imports torch."""
    from kernelpin import machine
    from kernelpin.baselines import Store

    replay = config.getoption("--kernelpin-replay")
    gpu = gpu_of(config)
    gpus = Store(baselines_folder(config)).gpus()
    if gpu is None:
        what = f"no GPU: {machine.why_no_gpu()}" if replay is None else "no GPU"
        told = f"baselines for {', '.join(gpus)}" if gpus else "no baselines"
    else:
        what = f"GPU {gpu}"
        told = "baselines for it" if gpu.slug in gpus else "no baselines for it"
        if gpu.slug not in gpus and gpus:
            told += f" (there are for {', '.join(gpus)})"
    source = f"replaying {replay}, " if replay is not None else ""
    return [f"kernelpin: {source}{what}; {told}; budget {budget_s(config):.0f} s"]
