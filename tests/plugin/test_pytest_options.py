"""pytest's own options and JUnit see a timing test as any other."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from small_project import figures, text_of


@pytest.fixture
def suite(project):
    """Three tests, the second slower than its baseline."""
    project.timing_tests("test_a", "test_b", "test_c")
    for name in ("test_a", "test_b", "test_c"):
        project.baseline(name, figures(41.2))
        project.measured(name, *figures(47.9 if name == "test_b" else 41.2, 12, seed=1))
    return project


def test_x_stops_at_the_first_failure(suite):
    suite.run("-x").assert_outcomes(passed=1, failed=1)


def test_lf_runs_what_failed(suite):
    suite.run()
    suite.run("--lf").assert_outcomes(failed=1)


def test_quiet_is_quiet(suite):
    text = text_of(suite.run("-qq"))
    assert "test_speed.py::test_b" in text
    assert "kernelpin" not in text.replace("kernelpin record", "")


@pytest.mark.parametrize("style", ["short", "line", "native", "no"])
def test_line_1_is_shown_in_every_style(suite, style):
    result = suite.run(f"--tb={style}", "--no-header")
    result.assert_outcomes(passed=2, failed=1)
    assert "slower than the baseline: " in text_of(result)
    assert "plugin/timings.py" not in text_of(result)


def test_junit_has_line_1_as_message_and_the_figures_as_properties(suite):
    suite.run("--junitxml=junit.xml", "-o", "junit_family=xunit2")
    tree = ElementTree.parse(suite.path / "junit.xml")
    assert tree.find("testsuite").get("failures") == "1"
    case = next(case for case in tree.iter("testcase") if case.get("name") == "test_b")
    message = case.find("failure").get("message")
    assert message.startswith("slower than the baseline: ")
    assert "\n" not in message
    told = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert told["kernelpin.metric"] == "device_us"
    assert told["kernelpin.verdict"] == "slower"
    assert told["kernelpin.GPU"] == "NVIDIA H200"
    assert told["kernelpin.limit"] == "0.03"
    assert float(told["kernelpin.baseline"]) == pytest.approx(41.2, rel=0.01)
    assert float(told["kernelpin.now"]) == pytest.approx(47.9, rel=0.01)


def test_skip_marks_and_xfail_hold_for_timing_tests(project):
    project.write(
        "test_speed.py",
        """
import pytest

@pytest.mark.skip(reason="not now")
def test_skipped(stopwatch): stopwatch(print)

@pytest.mark.skipif(True, reason="never")
def test_skipped_if(stopwatch): stopwatch(print)

@pytest.mark.xfail(reason="known to be slow", strict=True)
def test_slow(stopwatch): stopwatch(print)
""",
    )
    for name in ("test_slow", "test_skipped", "test_skipped_if"):
        project.baseline(name, figures(41.2))
        project.measured(name, *figures(47.9, 12))
    project.run("--kernelpin-journal=journal.jsonl").assert_outcomes(skipped=2, xfailed=1)
    assert "::test_slow" in (project.path / "journal.jsonl").read_text()
    assert '::test_skipped"' not in (project.path / "journal.jsonl").read_text()


def test_class_methods_and_parameters_are_found(project):
    project.write(
        "test_speed.py",
        """
import pytest

class TestIt:
    @pytest.mark.parametrize("n", ["a b", "c[d]"])
    def test_it(self, stopwatch, n): stopwatch(print)
""",
    )
    for name in ("TestIt::test_it[a b]", "TestIt::test_it[c[d]]"):
        project.baseline(name, figures(41.2))
        project.measured(name, 41.2)
    project.run(ci=True).assert_outcomes(passed=2)


def test_deselected_tests_are_not_measured(suite):
    suite.run("-k", "test_a").assert_outcomes(passed=1, deselected=2)


def test_without_a_terminal_the_outcomes_are_the_same(suite):
    assert suite.run("-p", "no:terminal").ret == pytest.ExitCode.TESTS_FAILED
    assert suite.run("-p", "no:terminal", "-k", "test_a").ret == pytest.ExitCode.OK
