"""Device time is true: it is the span of the kernels, as another process's profiler sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernelpin.machine import why_no_gpu

pytestmark = pytest.mark.gpu

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
TRUTH = BENCHMARKS / "truth.py"
FIRST_FIGURE = BENCHMARKS / "first_figure.py"
SUBJECTS = [
    "matmul_add-4096",
    "linear-4096x4096x4096",
    "mlp-eager",
    "mlp-compiled",
    "mlp-training-step",
]
FROM_US = 100.0
WITHIN = 0.03
EQUAL_CLOCKS = 0.01


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    if why := why_no_gpu():
        pytest.skip(f"no GPU: {why}")
    out = tmp_path_factory.mktemp("truth")
    done = subprocess.run(
        [sys.executable, str(TRUTH), "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {row["name"]: row for row in json.loads((out / "truth.json").read_text())}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_device_time_is_first_start_to_last_end_of_the_kernels(truth, subject):
    row = truth[subject]
    assert "error" not in row, row["error"]
    assert row["method"] == "graph"
    assert row["device_us"] > FROM_US
    clock, profiled = row["clock"], row["profiled_clock"]
    if clock and profiled and abs(clock / profiled - 1) > EQUAL_CLOCKS:
        pytest.skip(f"clocks differ: {clock} MHz timed, {profiled} MHz profiled")
    assert row["device_us"] == pytest.approx(row["span_us"], rel=WITHIN)


def test_the_first_figure_of_a_process_is_like_its_later_ones():
    """By itself it is not: the gap between kernels grows by 0.18 µs once other streams launch."""
    if why := why_no_gpu():
        pytest.skip(f"no GPU: {why}")
    done = subprocess.run(
        [sys.executable, str(FIRST_FIGURE), "--start", "as kernelpin starts it"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, later = json.loads(done.stdout.splitlines()[-1])
    assert first == pytest.approx(later, rel=WITHIN)
