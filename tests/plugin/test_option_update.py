"""`--kernelpin-update`: what is stored, and what is left alone."""

from __future__ import annotations

import pytest
from small_project import GPU, KernelFigure, figures, text_of


@pytest.fixture
def suite(project):
    """One test as fast as its baseline, one slower, one without."""
    project.timing_tests("test_same", "test_slow", "test_new")
    project.baseline("test_same", figures(41.2))
    project.baseline("test_slow", figures(41.2))
    project.measured("test_same", *figures(41.2, 12, seed=1))
    project.measured("test_slow", *figures(47.9, 12, seed=2))
    project.measured("test_new", *figures(12.0, 12, seed=3))
    return project


def medians(project):
    return {
        test_id.rpartition("::")[2]: entry.median for test_id, entry in project.stored().items()
    }


def test_none_stores_nothing(suite):
    before = medians(suite)
    suite.run().assert_outcomes(passed=1, failed=1, skipped=1)
    assert medians(suite) == before


def test_new_stores_what_has_no_baseline(suite):
    before = medians(suite)
    result = suite.run("--kernelpin-update=new")
    result.assert_outcomes(passed=2, failed=1)
    after = medians(suite)
    assert after.pop("test_new") == pytest.approx(12.0, rel=0.01)
    assert after == before
    assert "recorded: 1 baseline in" in text_of(result)


def test_failed_stores_what_got_slower_too_and_why(suite):
    suite.run("--kernelpin-update=failed", "--kernelpin-reason=a safer kernel").assert_outcomes(
        passed=3
    )
    entry = suite.stored()["test_speed.py::test_slow"]
    assert entry.median == pytest.approx(47.9, rel=0.01)
    assert entry.first_median == pytest.approx(41.2, rel=0.01)
    assert entry.recordings[-1].reason == "a safer kernel"
    assert len(suite.stored()["test_speed.py::test_same"].recordings) == 1
    suite.run().assert_outcomes(passed=3)


def test_all_stores_everything_from_at_least_eight_processes(suite):
    suite.run("--kernelpin-update=all").assert_outcomes(passed=3)
    for entry in suite.stored().values():
        assert len(entry.processes) == 8
        assert entry.recordings[-1].uuid == GPU.uuid
        assert entry.recordings[-1].torch == GPU.torch


def test_the_kernels_that_ran_and_the_work_of_a_call_are_stored(project):
    project.timing_tests("test_new", marks=("kernelpin(flops=10**9, bytes=10**6, dtype='bf16')",))
    project.measured("test_new", *figures(12.0, 8), kernels=(KernelFigure("gemm", 2, 5.5),))
    project.run("--kernelpin-update=new").assert_outcomes(passed=1)
    entry = project.stored()["test_speed.py::test_new"]
    assert [(k.name, k.count, k.median_us) for k in entry.kernels] == [("gemm", 2, 5.5)]
    assert entry.work.flops == 10**9


def test_a_figure_that_physics_forbids_is_refused(project):
    project.timing_tests("test_new", marks=("kernelpin(flops=10**15)",))
    project.measured("test_new", *figures(12.0, 8))
    result = project.run("--kernelpin-update=new")
    result.assert_outcomes(failed=1)
    assert "not recorded: 11.9" in text_of(result)
    assert "faster than NVIDIA H200 can be" in text_of(result)
    assert not (project.path / "baselines").exists()


def test_a_gpu_that_is_never_left_alone_makes_no_baseline(project):
    project.timing_tests("test_new")
    project.measured("test_new", 12.0, reason="another process on the GPU (pid 7)")
    result = project.run("--kernelpin-update=new")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "another process on the GPU (pid 7)" in text_of(result)
    assert not (project.path / "baselines").exists()


def test_in_ci_it_is_a_usage_error_that_names_the_variable(suite):
    result = suite.run("--kernelpin-update=new", ci=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --kernelpin-update=new: *CI=true*accept DIR/proposed*"])


def test_beside_other_tests_it_is_a_usage_error(suite):
    result = suite.run("--kernelpin-update=new", "-n", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*run without -n*"])


def test_only_the_known_modes_are_accepted(suite):
    result = suite.run("--kernelpin-update=some")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*invalid choice: 'some'*"])
