"""A small project with timing tests, figures that were recorded somewhere, and what a run says."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from pathlib import Path

from kernelpin.baselines import DeviceRecord, Entry, File, Recording, Store
from kernelpin.baselines.entry import median_of, round_figure, spread_of
from kernelpin.machine import Gpu, State
from kernelpin.stopwatch import KernelFigure, Samples
from kernelpin.workers import WorkerResult, encode

__all__ = [
    "FAKE_GPU",
    "GPU",
    "STATE",
    "KernelFigure",
    "Project",
    "figures",
    "heed_signals",
    "stand_in_for_a_gpu",
    "text_of",
]

GPU = Gpu(
    name="NVIDIA H200",
    slug="nvidia-h200",
    uuid="GPU-0",
    memory_bytes=150_754_820_096,
    sm_count=132,
    power_limit_w=700.0,
    mig=None,
    driver="580.159",
    cuda="13.0",
    torch="2.11.0+cu130",
    triton="3.6.0",
    compute_capability=(9, 0),
    sm_clock_max_mhz=1980,
)
STATE = State(sm_clock_mhz=1980)

# A conftest.py that stands in for a GPU in real processes: they measure what `speed.FIGURE` says,
# and note in the file $MEASURED what they did.
FAKE_GPU = """
import os
import random
import sys
from types import SimpleNamespace

sys.modules["torch"] = SimpleNamespace(
    __version__="0",
    version=SimpleNamespace(cuda=None, hip=None),
    cuda=SimpleNamespace(is_initialized=lambda: False),
    manual_seed=lambda seed: None,
    initial_seed=lambda: 0,
)

import kernelpin.machine
import kernelpin.workers.bench as bench
import kernelpin.workers.watch as watch
import speed
from kernelpin.stopwatch import KernelFigure, Samples
from small_project import GPU, STATE

KERNELS = (KernelFigure("gemm", 1, 5.0),)


def note(what):
    with open(os.environ["MEASURED"], "a") as file:
        print(os.getpid(), what, file=file)


def device_time(self, fn, *args, **options):
    note("time")
    draw = random.Random()
    values = tuple(speed.FIGURE * (1 + draw.gauss(0, 0.002)) for _ in range(5))
    return Samples("device_us", values, "graph", l2="hot", input="x", state=(STATE,))


def counts(self, fn, *args):
    note("counts")
    return Samples("counts", (), "profiler", input="x", counts={"kernels": 1}, kernels=KERNELS)


def kernels(self, fn, *args):
    note("kernels")
    return KERNELS


for module in (kernelpin.machine, bench, watch):
    module.why_no_gpu = lambda: ""
    module.current_gpu = lambda: GPU
watch.Stopwatch.__call__ = device_time
watch.Stopwatch.counts = counts
watch.Stopwatch.kernels = kernels
"""
_CI = ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE")


def figures(median, count=12, spread=0.003, seed=0):
    """Process figures around a median, as a quiet card gives them."""
    draw = random.Random(seed)
    return tuple(round_figure(median * (1 + draw.gauss(0, spread))) for _ in range(count))


def stand_in_for_a_gpu(project):
    """Let the project's real processes measure on FAKE_GPU; the file they note in."""
    project.write("conftest.py", FAKE_GPU)
    project.write("speed.py", "FIGURE = 41.2\n")
    measured = project.path / "measured.txt"
    project.monkeypatch.setenv("MEASURED", str(measured))
    here = str(Path(__file__).parent)
    project.monkeypatch.setenv("PYTHONPATH", here, prepend=os.pathsep)
    # The lock of the GPU is of this project alone.
    folder = project.path.with_name(f"{project.path.name}-tmp")
    folder.mkdir(exist_ok=True)
    project.monkeypatch.setenv("TMPDIR", str(folder))
    project.monkeypatch.setattr("tempfile.tempdir", str(folder))
    return measured


def heed_signals():
    """For a new process: what `nohup` or a shell's `&` had its parents ignore ends it again."""
    for name in ("SIGINT", "SIGHUP", "SIGTERM"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)


class Project:
    """A project under pytester whose timing tests are fed recorded results."""

    def __init__(self, pytester, monkeypatch):
        self.pytester = pytester
        self.monkeypatch = monkeypatch
        self.path = pytester.path
        self._results = []
        for name in (*_CI, "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("COLUMNS", "200")
        # Hypothesis' plugin is most of a process's start.
        pytester.makeini(
            "[pytest]\nfilterwarnings = error\n"
            "addopts = --strict-markers --strict-config -p no:hypothesispytest\n"
        )

    def timing_tests(self, *names, file="test_speed.py", marks=()):
        """Write tests that each time something; the body never runs where results are played."""
        lines = ["import pytest", ""]
        for name in names:
            lines += [f"@pytest.mark.{mark}" for mark in marks]
            lines += [f"def {name}(stopwatch):", "    stopwatch(print)", ""]
        self.write(file, "\n".join(lines))

    def write(self, file, text):
        path = self.path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    # -- what was measured ---------------------------------------------------------------------

    def measured(self, name, *process_figures, file="test_speed.py", gpu=GPU, **fields):
        """Play these figures for a test, one a process."""
        for figure in process_figures:
            values = tuple(figure * factor for factor in (0.999, 1.0, 1.001))
            samples = Samples(
                **{
                    "metric": "device_us",
                    "values": values,
                    "method": "graph",
                    "l2": "hot",
                    "input": "bf16[64,32]",
                    "state": (STATE,),
                    **fields,
                }
            )
            self.result(name, file=file, gpu=gpu, samples=samples)

    def counted(self, name, **counts):
        samples = Samples(metric="counts", values=(), method="profiler", counts=counts)
        self.result(name, samples=samples, gpu=GPU)

    def result(self, name, file="test_speed.py", **fields):
        self._results.append(WorkerResult(f"{file}::{name}", **fields))

    def forget(self):
        self._results.clear()

    # -- what was stored -------------------------------------------------------------------------

    def baseline(
        self, name, processes, *, file="test_speed.py", gpu=GPU, recorded_on=None, **fields
    ):
        """Store a baseline of these process figures."""
        recording = Recording(
            date="2026-08-14",
            processes=max(1, len(processes)),
            commit="3f9c1ab",
            uuid=recorded_on or gpu.uuid,
            driver=gpu.driver,
            cuda=gpu.cuda,
            torch=gpu.torch,
            triton=gpu.triton,
            sm_clock_mhz=1980,
        )
        entry = Entry(
            **{
                "metric": "device_us",
                "source": "measured",
                "processes": tuple(processes),
                "median": median_of(tuple(processes)) if processes else 0.0,
                "spread": spread_of(tuple(processes)),
                "recordings": (recording,),
                "first_median": median_of(tuple(processes)) if processes else None,
                "input": "bf16[64,32]",
                "l2": "hot",
                "method": "graph",
                **fields,
            }
        )
        self.entry(name, entry, file=file, gpu=gpu)

    def entry(self, name, entry, *, file="test_speed.py", gpu=GPU):
        store = Store(self.path / "baselines")
        path = store.file_for(gpu.slug, f"{file}::{name}")
        known = store.read(path).entries if path.exists() else {}
        device = DeviceRecord(
            name=gpu.name, memory_bytes=gpu.memory_bytes, sm_count=gpu.sm_count, mig=gpu.mig
        )
        store.write(path, File(device=device, entries={**known, f"{file}::{name}": entry}))

    def stored(self, gpu=GPU):
        return Store(self.path / "baselines").entries(gpu.slug)

    # -- a run -------------------------------------------------------------------------------------

    def run(self, *args, ci=False, subprocess=False):
        """Run pytest on what was written, playing what was measured."""
        replay = self.path / "replay.jsonl"
        replay.write_bytes(b"".join(encode(result) + b"\n" for result in self._results))
        with self.monkeypatch.context() as patch:
            if ci:
                patch.setenv("CI", "true")
            run = self.pytester.runpytest_subprocess if subprocess else self.pytester.runpytest
            return run(f"--kernelpin-replay={replay}", *map(str, args))

    def report(self):
        return json.loads((self.path / "report" / "report.json").read_text(encoding="utf-8"))


def text_of(result):
    """What a run printed, as one string without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", result.stdout.str())
