"""Plugins that run a failed test again until it passes are refused for timing tests."""

from __future__ import annotations

import pytest
from small_project import figures


@pytest.fixture
def slow(project):
    project.baseline("test_it", figures(41.2))
    project.measured("test_it", *figures(47.9, 12))
    return project


@pytest.mark.parametrize("ci", [False, True])
def test_reruns_are_a_usage_error(slow, ci):
    slow.timing_tests("test_it")
    result = slow.run("--reruns", "3", ci=ci)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --reruns: *test_speed.py::test_it*run them without*"])


def test_the_marker_flaky_is_a_usage_error(slow):
    slow.timing_tests("test_it", marks=("flaky(reruns=2)",))
    result = slow.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: test_speed.py::test_it: *may not be marked flaky*"])


def test_under_xdist_too_it_is_red(slow):
    slow.timing_tests("test_it")
    assert slow.run("--reruns", "3", "-n", "1", subprocess=True).ret != pytest.ExitCode.OK


def test_suites_without_timing_tests_may_rerun(project):
    project.write("test_other.py", "def test_it(): pass\n")
    project.run("--reruns", "3").assert_outcomes(passed=1)
