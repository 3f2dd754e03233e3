"""The benchmarks that measure on a GPU say in one line that there is none, and fail."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("name", ["noise", "truth", "detection_gpu"])
def test_without_a_gpu_a_benchmark_fails_in_one_line(tmp_path, name):
    shown = subprocess.run(
        [sys.executable, BENCHMARKS / f"{name}.py", "--out", tmp_path / "out"],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},  # hides the GPU of a machine that has one
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (shown.returncode, shown.stdout) == (1, "")
    (line,) = shown.stderr.splitlines()
    assert line.startswith(f"{name}.py measures on ")
    assert ", and here is none: " in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("measured", [{}, {"gelu-256x1024": {}}], ids=["nothing", "something"])
def test_noise_fails_where_no_process_measured_anything(monkeypatch, tmp_path, measured):
    monkeypatch.syspath_prepend(BENCHMARKS)
    noise = importlib.import_module("noise")
    monkeypatch.setattr(sys, "argv", ["noise.py", f"--out={tmp_path}"])
    processes = [{"machine": "H200", "measured": measured, "failed": {"mlp-eager": "no memory"}}]
    monkeypatch.setattr(noise, "require_gpu", lambda: None)
    monkeypatch.setattr(noise, "run_processes", lambda options: processes)
    monkeypatch.setattr(noise, "table", lambda processes: "")
    assert noise.main() == (0 if measured else 1)
