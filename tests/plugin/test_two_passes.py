"""A worker times everything before it profiles: after a profiler, small kernels stay slower."""

from __future__ import annotations

from collections import defaultdict

import pytest
from small_project import figures, stand_in_for_a_gpu


@pytest.fixture
def on_gpu(project):
    """Tests that count and time in turn, on what stands in for a GPU."""
    measured = stand_in_for_a_gpu(project)
    project.write(
        "test_speed.py",
        """
def test_counts(stopwatch): stopwatch.counts(print)
def test_time_a(stopwatch): stopwatch(print)
def test_more_counts(stopwatch): stopwatch.counts(print)
def test_time_b(stopwatch): stopwatch(print)
""",
    )

    def run(*args):
        project.pytester.runpytest_subprocess("-p", "no:benchmark", *args)
        said = defaultdict(list)
        for line in measured.read_text().splitlines():
            pid, what = line.split()
            said[pid].append(what)
        return list(said.values())

    project.order = run
    return project


def test_one_process_screens_and_lists_no_kernels(on_gpu):
    for name in ("test_time_a", "test_time_b"):
        on_gpu.baseline(name, figures(41.2), input="x")
    assert on_gpu.order() == [["time", "time", "counts", "counts"]]


def test_to_record_each_process_times_first_and_one_lists_the_kernels(on_gpu):
    processes = on_gpu.order("--kernelpin-update=all")
    assert [said[:2] for said in processes] == [["time", "time"]] * 8
    counted = [said.count("counts") for said in processes]
    assert counted == [2, 2, 0, 0, 0, 0, 0, 0]
    assert sorted(said.count("kernels") for said in processes) == [0] * 7 + [2]
    stored = on_gpu.stored()
    assert len(stored["test_speed.py::test_time_a"].processes) == 8
    assert [k.name for k in stored["test_speed.py::test_time_a"].kernels] == ["gemm"]
    assert stored["test_speed.py::test_counts"].counts == {"2.11": {"kernels": 1}}
