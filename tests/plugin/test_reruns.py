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


@pytest.mark.parametrize(
    ("mark", "options", "said"),
    [
        ((), ("--reruns", "3"), "ERROR: --reruns: *test_speed.py::test_it*run them without*"),
        (("flaky(reruns=2)",), (), "ERROR: test_speed.py::test_it: *may not be marked flaky*"),
    ],
)
def test_under_xdist_too_they_are_usage_errors_that_say_why(slow, mark, options, said):
    slow.timing_tests("test_it", marks=mark)
    result = slow.run(*options, "-n", "2", subprocess=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def ini_with(project, setting):
    ini = project.path / "tox.ini"
    ini.write_text(f"{ini.read_text()}\n{setting}\n")


def test_reruns_in_the_ini_file_are_a_usage_error(slow):
    slow.timing_tests("test_it")
    ini_with(slow, "reruns = 3")
    result = slow.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: reruns = 3 in tox.ini: *test_speed.py::test_it*"])


@pytest.mark.parametrize(("setting", "options"), [("reruns = 0", ()), ("reruns = 3", ("0",))])
def test_no_reruns_at_all_are_no_error(slow, setting, options):
    slow.timing_tests("test_it")
    ini_with(slow, setting)
    slow.run(*(("--reruns", *options) if options else ())).assert_outcomes(failed=1)


def test_reruns_forced_upon_every_test_are_a_usage_error(slow):
    slow.timing_tests("test_it")
    result = slow.run("--force-reruns", "3")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --force-reruns: *test_speed.py::test_it*"])


def test_suites_without_timing_tests_may_rerun(project):
    project.write("test_other.py", "def test_it(): pass\n")
    project.run("--reruns", "3").assert_outcomes(passed=1)
