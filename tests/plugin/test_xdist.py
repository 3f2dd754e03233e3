"""Under pytest-xdist one process measures for all, and nothing passes that would not without."""

from __future__ import annotations

import pytest
from small_project import figures, text_of

NAMES = [f"test_{letter}" for letter in "abcd"]


@pytest.fixture
def timed(project):
    project.timing_tests(*NAMES, marks=("gpu",))
    return project


def test_one_process_measures_for_all_and_the_report_holds_every_test(timed):
    for name in NAMES:
        timed.baseline(name, figures(41.2))
        # A second measuring of the same test would take the slower figures.
        timed.measured(name, 41.2, *figures(60.0, 8))
    result = timed.run("-n", "2", "--kernelpin-report=report", ci=True, subprocess=True)
    result.assert_outcomes(passed=4)
    report = timed.report()
    assert report["headline"] == "4 same on NVIDIA H200"
    assert report["environment"]["driver"] == "580.159"  # known to who measured alone


def test_a_slow_test_a_missing_baseline_and_an_orphan_are_red(timed):
    for name in NAMES[:3]:
        timed.baseline(name, figures(41.2))
        timed.measured(name, *figures(60.0 if name == "test_a" else 41.2, 8))
    timed.measured("test_d", 41.2)
    timed.baseline("test_gone", figures(3.0))
    result = timed.run("-n", "1", ci=True, subprocess=True)
    result.assert_outcomes(passed=2, failed=2)
    text = text_of(result)
    assert "FAILED test_speed.py::test_a - slower than the baseline" in text
    assert "FAILED test_speed.py::test_d - no baseline" in text
    assert "error: baselines without a test: test_speed.py::test_gone" in text


def test_nothing_selected_is_red(timed):
    nothing = timed.run("-n", "1", "-m", "gpu", "-k", "nothing", ci=True, subprocess=True)
    assert nothing.ret != pytest.ExitCode.OK
    assert "selected no test" in text_of(nothing)


def test_a_wrong_marker_is_a_usage_error_that_says_what_is_wrong(project):
    project.timing_tests(*NAMES, marks=("kernelpin(lmit=3)",))
    result = project.run("-n", "2", ci=True, subprocess=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: test_speed.py::test_a: marker kernelpin: unknown argument lmit; allowed are *"]
    )
    assert "INTERNALERROR" not in text_of(result) + result.stderr.str()


def test_suites_without_timing_tests_may_rerun_under_xdist(project):
    project.write("test_other.py", "def test_it(): pass\n")
    project.run("--reruns", "3", "-n", "1", subprocess=True).assert_outcomes(passed=1)
