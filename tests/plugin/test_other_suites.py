"""Installing the plugin changes no suite that has none of its tests."""

from __future__ import annotations

import subprocess
import sys

import pytest
from small_project import text_of

SUITE = """
import pytest

def test_passes(): pass

def test_skips(): pytest.skip("why not")

@pytest.mark.gpu
def test_has_a_marker_of_that_name(): pytest.skip("their own reason")
"""


def test_their_outcome_and_output_are_as_without_it_in_ci_too(project):
    project.write("test_theirs.py", SUITE)
    with project.monkeypatch.context() as patch:
        patch.setenv("CI", "true")
        result = project.pytester.runpytest("-p", "no:benchmark")
    result.assert_outcomes(passed=1, skipped=2)
    assert result.ret == pytest.ExitCode.OK
    said = [line for line in text_of(result).splitlines() if "kernelpin" in line]
    assert said == ["plugins: " + said[0].removeprefix("plugins: ")]


@pytest.mark.parametrize(
    "content", ["import pytest\n@pytest.mark.gpu\ndef test_it(): pytest.skip('x')\n", ""]
)
def test_all_skipped_or_nothing_collected_stays_theirs(project, content):
    project.write("test_theirs.py", content)
    with project.monkeypatch.context() as patch:
        patch.setenv("CI", "true")
        result = project.pytester.runpytest()
    assert result.ret == (pytest.ExitCode.OK if content else pytest.ExitCode.NO_TESTS_COLLECTED)


def test_loading_it_imports_nothing_heavy():
    code = "import sys, kernelpin, kernelpin.plugin; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "kernelpin.plugin.gate" in loaded
    assert not loaded & {"torch", "numpy", "scipy", "msgspec", "filelock", "pynvml", "triton"}


def test_a_whole_session_of_theirs_imports_nothing_heavy(project):
    project.write(
        "conftest.py",
        """
import sys

def pytest_unconfigure():
    print("heavy:", sorted({"torch", "numpy", "scipy", "msgspec"} & set(sys.modules)))
""",
    )
    project.write("test_theirs.py", "def test_it(): pass\n")
    result = project.pytester.runpytest_subprocess("-p", "no:benchmark", "-p", "no:rerunfailures")
    assert "heavy: []" in text_of(result)


def test_a_stopwatch_that_is_asked_for_at_run_time_is_refused(project):
    project.write(
        "test_theirs.py",
        "def test_it(request):\n    request.getfixturevalue('stopwatch')\n",
    )
    result = project.pytester.runpytest()
    result.assert_outcomes(failed=1)
    assert "stopwatch was asked for at run time" in text_of(result)


def test_only_one_of_two_suites_in_a_session_is_ours(project):
    project.write("test_theirs.py", SUITE.replace("@pytest.mark.gpu\n", ""))
    project.timing_tests("test_it")
    project.measured("test_it", 41.2)
    text = text_of(project.run())
    assert "1 no baseline on NVIDIA H200" in text


def test_fixtures_of_theirs_with_our_names_stay_theirs(project):
    project.write(
        "conftest.py",
        """
import time
import pytest

@pytest.fixture
def stopwatch():
    begin = time.perf_counter()
    return lambda: time.perf_counter() - begin

@pytest.fixture
def capture_trace():
    return lambda fn: ["their event"]
""",
    )
    project.write(
        "test_theirs.py",
        """
import pytest

def test_watches(stopwatch): assert stopwatch() >= 0

@pytest.mark.parametrize("stopwatch", [1])
def test_has_a_parameter_of_that_name(stopwatch): assert stopwatch == 1

@pytest.mark.gpu
def test_captures(capture_trace): assert capture_trace(print) == ["their event"]

def test_fails(stopwatch): raise AssertionError("their own")
""",
    )
    with project.monkeypatch.context() as patch:
        patch.setenv("CI", "true")
        result = project.pytester.runpytest("-p", "no:benchmark")
    result.assert_outcomes(passed=3, failed=1)
    said = [line for line in text_of(result).splitlines() if "kernelpin" in line]
    assert said == ["plugins: " + said[0].removeprefix("plugins: ")]


def test_a_fixture_that_wraps_ours_is_ours(project):
    project.write(
        "conftest.py",
        """
import pytest

@pytest.fixture
def stopwatch(stopwatch): return stopwatch
""",
    )
    project.timing_tests("test_it")
    project.measured("test_it", 41.2)
    assert "1 no baseline on NVIDIA H200" in text_of(project.run())
