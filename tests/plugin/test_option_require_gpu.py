"""`--kernelpin-require-gpu`: a session that ran no GPU test fails, and says why."""

from __future__ import annotations

import sys

import pytest
from small_project import figures, text_of


def run(project, monkeypatch, why="", *args):
    monkeypatch.setattr("kernelpin.machine.why_no_gpu", lambda: why)
    monkeypatch.setattr("kernelpin.machine.current_gpu", lambda: None)
    return project.pytester.runpytest("--kernelpin-require-gpu", *args)


@pytest.mark.parametrize("why", ["torch 2.13.0 is built without CUDA", "no NVIDIA driver found"])
def test_no_gpu_fails_with_the_reason(project, monkeypatch, why):
    project.timing_tests("test_it")
    result = run(project, monkeypatch, why)
    result.assert_outcomes(skipped=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert f"error: no GPU test ran: {why}" in text_of(result)


@pytest.mark.parametrize("shows", ["--co", "--setup-plan", "--setup-only", "--fixtures"])
def test_what_runs_nothing_is_refused_in_ci_wherever_it_is_asked_for(project, monkeypatch, shows):
    project.timing_tests("test_it", marks=("gpu",))
    monkeypatch.setenv("PYTEST_ADDOPTS", shows)
    monkeypatch.setenv("CI", "true")
    result = run(project, monkeypatch)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = {"--co": "--collect-only"}.get(shows, shows)
    assert f"--kernelpin-require-gpu with {said}: no test would run" in result.stderr.str()


def test_prune_collects_in_ci_too(project, monkeypatch):
    project.timing_tests("test_it", marks=("gpu",))
    project.baseline("test_it", figures(41.2))
    project.write("tox.ini", "[pytest]\naddopts = --kernelpin-require-gpu\n")
    monkeypatch.setenv("CI", "true")
    project.pytester.chdir()
    command = "import sys; from kernelpin.cli import main; sys.exit(main(['baselines', 'prune']))"
    result = project.pytester.run(sys.executable, "-c", command)
    assert "nothing to prune" in result.stdout.str()


def test_none_selected_fails(project, monkeypatch):
    project.write("test_other.py", "def test_it(): pass\n")
    result = run(project, monkeypatch)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "error: no GPU test ran: none was selected" in text_of(result)


def test_nothing_collected_fails(project, monkeypatch):
    result = run(project, monkeypatch)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "no GPU test ran: none was selected" in text_of(result)


def test_all_skipped_fails_with_their_reasons(project, monkeypatch):
    project.write(
        "test_gpu.py",
        "import pytest\n@pytest.mark.gpu\ndef test_it():\n    pytest.skip('no liger')\n",
    )
    result = run(project, monkeypatch)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "no GPU test ran: all were skipped: no liger (1)" in text_of(result)


def test_one_that_ran_is_enough(project):
    project.timing_tests("test_it")
    project.baseline("test_it", figures(41.2))
    project.measured("test_it", 41.2)
    assert project.run("--kernelpin-require-gpu").ret == pytest.ExitCode.OK


def test_a_gpu_test_without_our_fixtures_counts(project, monkeypatch):
    project.write("test_gpu.py", "import pytest\n@pytest.mark.gpu\ndef test_it(): pass\n")
    assert run(project, monkeypatch).ret == pytest.ExitCode.OK
