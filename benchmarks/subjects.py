"""What the benchmarks of the measuring itself measure: from 1.5 µs to milliseconds.

The suite's own workloads where it has them, built as it builds them, and what they leave out: a
pointwise kernel of 1.6 µs, one bound by memory, a cold cache, a training step.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]  # the tree's own, whatever is installed

from fixtures.workloads import workload  # noqa: E402

MLP = "geglu_mlp-64x128x768x3072"

Built = tuple[Callable[..., Any], tuple[Any, ...]]


def _gelu(rows: int, columns: int) -> Built:
    import torch

    torch.manual_seed(0)
    x = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
    return lambda x: torch.nn.functional.gelu(x, approximate="tanh"), (x,)


def _of_suite(name: str, mode: str) -> Built:
    fn, args = workload(name).build(mode, "cuda")
    return fn, tuple(args)


def _training_step() -> Built:
    import torch

    model, (x,) = workload(MLP).build("eager", "cuda")
    model.requires_grad_(True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    return step, ()


# name → (how to build it, L2)
SUBJECTS: dict[str, tuple[Callable[[], Built], str]] = {
    "gelu-256x1024": (lambda: _gelu(256, 1024), "hot"),
    "linear-1024x32x64": (lambda: _of_suite("linear-1024x32x64", "eager"), "hot"),
    "matmul_add-64": (lambda: _of_suite("matmul_add-64", "eager"), "hot"),
    "gelu-8192x3072": (lambda: _gelu(8192, 3072), "hot"),
    "gelu-8192x3072-cold": (lambda: _gelu(8192, 3072), "cold"),
    "matmul_add-4096": (lambda: _of_suite("matmul_add-4096", "eager"), "hot"),
    "linear-4096x4096x4096": (lambda: _of_suite("linear-4096x4096x4096", "eager"), "hot"),
    "mlp-eager": (lambda: _of_suite(MLP, "eager"), "hot"),
    "mlp-compiled": (lambda: _of_suite(MLP, "compiled"), "hot"),
    "mlp-reduce-overhead": (lambda: _of_suite(MLP, "reduce-overhead"), "hot"),
    "mlp-training-step": (_training_step, "hot"),
}


def require_gpu() -> None:
    """End the script with the reason where there is no GPU to measure on."""
    from kernelpin.machine import why_no_gpu

    if why := why_no_gpu():
        raise SystemExit(f"{Path(sys.argv[0]).name} measures on a GPU, and here is none: {why}")


@contextmanager
def gpu_to_itself() -> Iterator[None]:
    """Hold the lock under which one process at a time measures on the GPU."""
    from kernelpin.machine import current_gpu, device_lock

    gpu = current_gpu()
    with device_lock(gpu.uuid) if gpu else nullcontext():
        yield


def chosen(only: str | None) -> list[str]:
    """Give the subjects whose names hold `only`; all for None."""
    names = [name for name in SUBJECTS if only is None or only in name]
    if not names:
        raise SystemExit(f"no subject holds {only!r} in its name: there are {', '.join(SUBJECTS)}")
    return names
