"""`--kernelpin-processes`: how many fresh processes a test is measured in at first."""

from __future__ import annotations

import re
import sys

import pytest
from small_project import figures, stand_in_for_a_gpu, text_of


def test_four_processes_decide_without_a_second_round(project):
    project.timing_tests("test_it")
    project.baseline("test_it", figures(41.2))
    project.measured("test_it", *figures(47.9, 4), *figures(41.2, 8))
    project.run("--kernelpin-processes=4").assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--kernelpin-processes=-1", "allowed is 0 (in place) or more"),
        ("--kernelpin-processes=many", "invalid int value: 'many'"),
        ("--kernelpin-budget=0", "allowed is a finite number of seconds"),
        ("--kernelpin-budget=inf", "--kernelpin-budget=inf: allowed is a finite number"),
        ("--kernelpin-budget=nan", "--kernelpin-budget=nan: allowed is a finite number"),
        ("--kernelpin-replay=nowhere", "there is no such file"),
    ],
)
def test_wrong_values_are_usage_errors(project, option, said):
    project.timing_tests("test_it")
    result = project.run(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in result.stderr.str()


def test_too_few_for_a_baseline_are_refused(project):
    result = project.run("--kernelpin-processes=4", "--kernelpin-update=all")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "a baseline needs at least 8 processes" in result.stderr.str()


def test_the_header_says_gpu_baselines_and_budget(project):
    project.timing_tests("test_it")
    project.measured("test_it", 41.2)
    text = text_of(project.run("--kernelpin-budget=77"))
    assert "GPU NVIDIA H200, 151 GB, 132 SMs" in text
    assert "no baselines for it; budget 77 s" in text
    project.baseline("test_it", figures(41.2))
    assert "; baselines for it; budget" in text_of(project.run())
    assert "kernelpin: replaying" not in text_of(project.run("-q"))


@pytest.mark.parametrize("processes", [0, 1])
def test_a_stopwatch_asked_for_at_run_time_fails_as_nothing_would_judge_it(project, processes):
    project.write(
        "test_speed.py",
        """
        import pytest

        @pytest.mark.cpu
        def test_it(request):
            try:
                request.getfixturevalue("stopwatch")
            except Exception:
                pass
        """.replace("\n        ", "\n"),
    )
    result = project.run(f"--kernelpin-processes={processes}")
    result.assert_outcomes(failed=1)
    assert "test_speed.py::test_it: stopwatch was asked for at run time; name it" in text_of(result)


def test_in_place_a_stopwatch_that_a_fixture_asks_for_is_judged(project):
    project.write(
        "test_speed.py",
        """
        import pytest

        @pytest.fixture
        def watch(stopwatch):
            return stopwatch

        @pytest.mark.cpu
        def test_it(watch):
            watch.ratio(lambda: sum(range(9000)), lambda: sum(range(9)), below=0.001)
        """.replace("\n        ", "\n"),
    )
    assert "1 check on the CPU" in text_of(project.run("--kernelpin-processes=0"))


LIVE = """
import pytest

@pytest.fixture
def model(): raise AssertionError("Torch not compiled with CUDA enabled")

@pytest.mark.gpu
def test_marked(model, stopwatch): stopwatch(model)

def test_times(model, stopwatch): stopwatch(model)

@pytest.mark.cpu
def test_on_the_cpu(stopwatch): stopwatch.ratio(print, print)
"""


def test_in_place_without_a_gpu_its_tests_skip_before_their_fixtures_look_for_one(
    project, monkeypatch
):
    monkeypatch.setattr("kernelpin.machine.why_no_gpu", lambda: "no NVIDIA driver found")
    project.write("test_speed.py", LIVE)
    result = project.pytester.runpytest("--kernelpin-processes=0", "-rs")
    result.assert_outcomes(passed=1, skipped=2)
    text = text_of(result)
    assert "test_speed.py:7: no GPU: no NVIDIA driver found" in text
    assert "test_speed.py:10: no GPU: no NVIDIA driver found" in text
    assert "1 check on the CPU; 2 skipped" in text


@pytest.mark.parametrize("ci", [False, True])
@pytest.mark.parametrize("bound", ["below=0.001", "above=1e6"])
def test_in_place_a_missed_bound_is_unclear_as_one_process_decides_nothing(project, ci, bound):
    project.write(
        "test_speed.py",
        "import pytest\n\n@pytest.mark.cpu\ndef test_it(stopwatch):\n"
        f"    stopwatch.ratio(lambda: sum(range(9000)), lambda: sum(range(9)), {bound})\n",
    )
    result = project.run("--kernelpin-processes=0", ci=ci)
    result.assert_outcomes(passed=not ci, failed=ci)
    word, _, figure = bound.partition("=")
    allowed = re.escape(f"{word} {float(figure):g}")
    said = rf"unclear: .*\d\.\d\d\d ×, to be {allowed}: one process decides nothing"
    assert re.search(said, text_of(result))
    assert "the estimate" not in text_of(result)  # the reason has said it
    assert "detectable" not in text_of(result)


@pytest.mark.parametrize("ci", [False, True])
def test_in_place_a_disturbed_figure_fails_in_ci_as_it_does_elsewhere(project, ci):
    """There each test is judged alone, and all of one timing is more than a fifth."""
    stand_in_for_a_gpu(project)
    project.timing_tests("test_it")
    project.baseline("test_it", figures(41.2), input="x")
    disturbed = """
import dataclasses

def disturbed(self, fn, *args):
    return dataclasses.replace(device_time(self, fn, *args), reason="something else used the GPU")

bench.Stopwatch.__call__ = watch.Stopwatch.__call__ = disturbed
kernelpin.machine.why_no_gpu = lambda: None
import kernelpin.plugin.timings
kernelpin.plugin.timings.why_no_gpu = lambda: None
"""
    project.write("conftest.py", (project.path / "conftest.py").read_text() + disturbed)
    if ci:
        project.monkeypatch.setenv("CI", "true")
    result = project.pytester.run(
        *(sys.executable, "-m", "pytest", "--kernelpin-processes=0", "--kernelpin-base=none"),
        *("-p", "no:hypothesispytest", "-p", "no:benchmark"),
    )
    result.assert_outcomes(passed=not ci, failed=ci)
    assert ("1 of 1 timings are unclear" in text_of(result)) == ci
