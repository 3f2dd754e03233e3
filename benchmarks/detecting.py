"""What one process of benchmarks/detection_gpu.py measures: by the stopwatch, then by a rival."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.planted import WORKLOADS, Chain, Steps

RIVAL = Path(__file__).with_name("rival_bench.py")
Found = dict[str, Any]


@dataclass
class Order:
    """What a process is to measure: each workload at each length of the chain in `steps`."""

    role: str
    seed: int
    steps: Steps
    rival: bool = False
    budget_s: float = 30.0
    dry: bool = False

    def items(self) -> list[tuple[str, str, int]]:
        """Workload, size and length, in an order of this process's own."""
        items = [(name, size, n) for name, sizes in self.steps.items() for size, n in sizes.items()]
        random.Random(self.seed).shuffle(items)
        return items


def work(order: Order) -> Found:
    """Measure in this process, which has not touched the GPU before."""
    import torch

    from kernelpin.machine import current_gpu
    from kernelpin.stopwatch import Stopwatch
    from kernelpin.stopwatch.graphs import capture

    torch.manual_seed(0)
    chain, gpu = Chain(), current_gpu()
    made = {
        workload.name: workload.calls(chain, torch)
        for workload in WORKLOADS
        if workload.name in order.steps
    }
    stopwatch = Stopwatch(budget_s=order.budget_s)
    figures: Found = defaultdict(dict)
    for name, size, steps in order.items():
        began = time.monotonic()
        samples = stopwatch(made[name](steps))
        figures[name][size] = {
            "us": samples.figure,
            "clock": samples.sm_clock_mhz,
            "capped": samples.power_capped,
            "reason": samples.reason,
            "method": samples.method,
            "calls": samples.calls_per_sample,
            "seconds": time.monotonic() - began,
        }
    found: Found = {
        "gpu": gpu.name if gpu else None,
        "uuid": gpu.uuid if gpu else None,
        "driver": gpu.driver if gpu else None,
        "torch": str(torch.__version__),
        "chain": chain.how,
        "ns_per_step": chain.ns_per_step,
        "figures": figures,
    }
    if order.rival:
        stream = torch.cuda.Stream()

        def replays(name: str, size: str, steps: int) -> Callable[[], None]:
            call = made[name](steps)
            with torch.cuda.stream(stream):  # what a library sets up once for each stream
                call()
            torch.cuda.synchronize()
            graph = capture(stream, call, figures[name][size]["calls"])

            def replay() -> None:
                graph.replay()
                torch.cuda.synchronize()

            return replay

        found["rival"] = rival({f"{n}|{size}": replays(n, size, k) for n, size, k in order.items()})
    return found


def rival(calls: dict[str, Callable[[], None]]) -> dict[str, dict[str, float]]:
    """Each call's median by pytest-benchmark, and the seconds it took; empty where it cannot."""
    try:
        import pytest
        import pytest_benchmark  # noqa: F401
    except ImportError:
        return {}

    class Calls:
        def pytest_generate_tests(self, metafunc: Any) -> None:
            metafunc.parametrize("call", list(calls.values()), ids=list(calls))

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "rival.json"
        status = pytest.main(
            [
                str(RIVAL),
                *("-q", "-c", os.devnull, f"--rootdir={folder}", f"--basetemp={folder}/tmp"),
                *("-p", "no:kernelpin", "-p", "no:cacheprovider", "-p", "no:warnings"),
                *("--benchmark-only", "--benchmark-quiet", "--benchmark-max-time=0.1"),
                *("--benchmark-warmup=on", "--benchmark-warmup-iterations=10"),
                *("--benchmark-min-rounds=40", f"--benchmark-json={result}"),
            ],
            plugins=[Calls()],
        )
        if status != 0:
            raise RuntimeError(f"pytest-benchmark ended with {status}")
        found = json.loads(result.read_text())["benchmarks"]
    seconds = (time.monotonic() - began) / len(calls)
    return {
        one["name"].split("[", 1)[1][:-1]: {"median": one["stats"]["median"], "seconds": seconds}
        for one in found
    }


def dry(order: Order) -> Found:
    """Figures as an H200 might give them, to try the rest without one."""
    own = {workload.name: (3 * 1.85**i, workload.steps) for i, workload in enumerate(WORKLOADS)}
    noise = random.Random(order.seed)
    figures: Found = defaultdict(dict)
    for name, size, steps in order.items():
        unchanged, length = own[name]
        figures[name][size] = {
            "us": (unchanged + (steps - length) * 2e-3) * (1 + noise.gauss(0, 0.003)),
            "clock": 1980,
            "capped": False,
            "method": "graph",
            "calls": 10,
            "seconds": 0.5,
            "reason": "another process" if order.role == "stranger" else None,
        }
    found: Found = {"gpu": "dry run", "uuid": "none", "driver": "none", "torch": "none"}
    return found | {"chain": "none", "ns_per_step": 2.0, "figures": figures}
