"""Workloads from 3 µs to 5 ms that can be made slower by a known amount of work.

Each is a real operation and, in the same CUDA graph, one kernel that runs a chain of dependent
FMAs. Slower means a longer chain and nothing else: the same kernels, launches and addresses. How
much longer comes from the kernel itself: its time is linear in the length, and `ns_per_step` is
the slope between two long chains, timed in the process that plans. A step is about 4 cycles (2 ns).
Beside a GEMM at the power cap a step takes other than alone, and a GEMM that the chain lets rest is
faster: so a second process measures what each length really adds, and lengths are corrected once by
that. Neither process serves in any verdict.
Where torch cannot compile a kernel (before 2.9), torch.cuda._sleep counts cycles instead, in steps
of about 20 ns: 1 % of 3 µs is one or two of them. What was measured is printed beside what was
planted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Call = Callable[[], object]
Steps = dict[str, dict[str, int]]  # workload → size in percent → length of the chain

SOURCE = """
extern "C" __global__ void chain(float* out, int steps) {
  float x = 1.0f + threadIdx.x;
  for (int i = 0; i < steps; ++i) x = fmaf(x, 0.999f, 0.001f);
  if (x == -1.0f) out[0] = x;
}
"""
DEVICE = "cuda"
STEPS = 600  # of the unchanged workload: about 1.2 µs
CYCLES_A_STEP = 4
LONG = (200_000, 400_000)


class Chain:
    """The kernel whose length is known."""

    def __init__(self) -> None:
        import torch

        self._out = torch.zeros(32, device=DEVICE)
        try:
            self._kernel = torch.cuda._compile_kernel(SOURCE, "chain")
            self(STEPS)
            torch.cuda.synchronize()
            self.how = "a chain of FMAs"
        except Exception as error:
            self._kernel = None
            self.how = f"torch.cuda._sleep ({type(error).__name__}: {str(error)[:80]})"
        self.ns_per_step = self._slope()

    def __call__(self, steps: int) -> None:
        """Launch it on the current stream."""
        import torch

        if self._kernel is None:
            torch.cuda._sleep(CYCLES_A_STEP * steps)
        else:
            self._kernel(grid=(1, 1, 1), block=(32, 1, 1), args=[self._out, steps])

    def _slope(self) -> float:
        """ns a step, the clock being up."""
        import torch

        def timed(steps: int) -> float:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            self(steps)
            end.record()
            torch.cuda.synchronize()
            return float(start.elapsed_time(end))

        for _ in range(100):
            timed(LONG[1])
        short, long = (median(timed(steps) for _ in range(20)) for steps in LONG)
        return (long - short) * 1e6 / (LONG[1] - LONG[0])


@dataclass(frozen=True)
class Workload:
    """`build` gives the operation; None is the chain alone, `steps` its length unchanged."""

    name: str
    build: Callable[[Any], Call] | None
    steps: int = STEPS

    def calls(self, chain: Chain, torch: Any) -> Callable[[int], Call]:
        """From a length of the chain to the callable that is measured."""
        operation = None if self.build is None else self.build(torch)

        def of(steps: int) -> Call:
            def call() -> None:
                if operation is not None:
                    operation()
                chain(steps)

            return call

        return of


def _random(torch: Any, *shape: int) -> Any:
    return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16)


def _gelu(rows: int, columns: int, times: int = 1) -> Callable[[Any], Call]:
    def build(torch: Any) -> Call:
        x = _random(torch, rows, columns)

        def run() -> None:
            for _ in range(times):
                torch.nn.functional.gelu(x, approximate="tanh")

        return run

    return build


def _linear(m: int, k: int, n: int, times: int = 1) -> Callable[[Any], Call]:
    def build(torch: Any) -> Call:
        layer = torch.nn.Linear(k, n, device=DEVICE, dtype=torch.bfloat16)
        layer.requires_grad_(False)
        x = _random(torch, m, k)

        def run() -> None:
            for _ in range(times):
                layer(x)

        return run

    return build


def _softmax(torch: Any) -> Call:
    x = _random(torch, 1024, 1024)
    return lambda: torch.softmax(x, -1)


def _norm(torch: Any) -> Call:
    layer = torch.nn.LayerNorm(2048, device=DEVICE, dtype=torch.bfloat16)
    layer.requires_grad_(False)
    x = _random(torch, 4096, 2048)
    return lambda: layer(x)


def _copy(torch: Any) -> Call:
    source = _random(torch, 16, 1 << 20)  # 32 MB
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _attention(torch: Any) -> Call:
    q, k, v = (_random(torch, 8, 16, 1024, 64) for _ in range(3))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)


def _mlp(torch: Any) -> Call:
    gate, up = (_random(torch, 3072, 768) for _ in range(2))
    down, x = _random(torch, 768, 3072), _random(torch, 8192, 768)
    functional = torch.nn.functional

    def run() -> None:
        hidden = functional.gelu(functional.linear(x, gate), approximate="tanh")
        functional.linear(hidden * functional.linear(x, up), down)

    return run


# On an H200, by facts measured there: 3 µs, 5, 6, 8, 15, 20, 30, 30, 100, 180, 240 µs, 1 and 5 ms.
WORKLOADS = (
    Workload("chain alone", None, 1100),
    Workload("linear 1024x32x64", _linear(1024, 32, 64)),
    Workload("gelu 256x1024", _gelu(256, 1024)),
    Workload("softmax 1024x1024", _softmax),
    Workload("layer_norm 4096x2048", _norm),
    Workload("copy 32 MB", _copy),
    Workload("gelu 8192x3072", _gelu(8192, 3072)),
    Workload("linear 2048^3", _linear(2048, 2048, 2048)),
    Workload("attention 8x16x1024x64", _attention),
    Workload("linear 4096^3", _linear(4096, 4096, 4096)),
    Workload("geglu mlp 8192x768x3072", _mlp),
    Workload("32 gelu 8192x3072", _gelu(8192, 3072, 32)),
    Workload("28 linear 4096^3", _linear(4096, 4096, 4096, 28)),
)


def planned(figures: dict[str, Any], ns_per_step: float, sizes: Sequence[int]) -> Steps:
    """The chain's length for each size: so much longer as takes that share of the whole."""
    own = {workload.name: workload.steps for workload in WORKLOADS}
    return {
        name: {
            str(size): own[name] + round(size / 100 * figure["0"]["us"] * 1000 / ns_per_step)
            for size in sizes
        }
        for name, figure in figures.items()
    }


def corrected(steps: Steps, figures: dict[str, Any]) -> Steps:
    """Lengths that add what they should, given what those in `steps` were measured to add.

    Where an addition is lost in the noise (less than half of what was planted, or more than twice)
    the length stays: so small a one says nothing.
    """
    own = {workload.name: workload.steps for workload in WORKLOADS}
    found: Steps = {}
    for name, sizes in steps.items():
        unchanged, found[name] = figures[name]["0"]["us"], {}
        for size, length in sizes.items():
            added = figures[name][size]["us"] / unchanged - 1
            ratio = float(size) / 100 / added if added > 0 else 0.0
            factor = ratio if 0.5 <= ratio <= 2 else 1.0
            found[name][size] = own[name] + round((length - own[name]) * factor)
    return found
