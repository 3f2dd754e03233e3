"""A claim that fails is red, whatever a conftest makes of the test's report."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from small_project import text_of

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from small_trace import kernel, op, step, trace_json

LINEAR = trace_json(step(op("aten::linear", op("aten::addmm", kernel("gemm"), kernel("x")))))
CLAIM = """
import pytest
from pathlib import Path
from kernelpin import TraceError, expect, load_trace

def test_holds():
    expect(load_trace("linear.json")).dispatches("aten::addmm")

{marks}
def test_fails():
    {body}
"""
FAILS = "expect(load_trace('linear.json')).does_not_dispatch('aten::addmm')"
SWALLOWS = {
    "makereport": """
import pytest
@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.outcome, report.longrepr = "passed", None
    return report
""",
    "makereport, outermost": """
import pytest
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.outcome, report.longrepr = "passed", None
    return report
""",
    "skipped": """
import pytest
@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        report.outcome, report.longrepr = "skipped", ("a", 1, "Skipped: flaky")
    return report
""",
    "logreport": """
import pytest
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report):
    report.outcome, report.longrepr = "passed", None
""",
    "exception": """
import pytest
@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try: return (yield)
    except Exception: return None
""",
}


@pytest.fixture
def claims(project):
    """A project with a claim that holds and one that does not."""
    project.write("linear.json", LINEAR.decode())

    def write(body=FAILS, marks="", file="test_kernels.py"):
        project.write(file, CLAIM.format(body=body, marks=marks))
        return project

    return write


@pytest.mark.parametrize("marks", ["", "@pytest.mark.gpu"])
@pytest.mark.parametrize("how", SWALLOWS)
def test_a_failed_claim_that_a_conftest_swallows_is_red(claims, how, marks):
    project = claims(marks=marks)
    project.write("conftest.py", SWALLOWS[how])
    result = project.run(ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = text_of(result)
    if how != "logreport":  # pytest has counted the failure before it is made a pass
        assert "error: 1 failed, but the session was told otherwise: test_kernels.py" in text
    assert "1 other ops" in text


@pytest.mark.parametrize("how", SWALLOWS)
def test_a_conftest_beside_the_test_comes_later_and_hides_no_more(claims, how):
    project = claims(file="sub/test_kernels.py")
    project.write("sub/conftest.py", SWALLOWS[how])
    result = project.run(ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "error: 1 failed, but the session was told otherwise: sub/test_ke" in text_of(result)


def test_so_is_a_trace_that_cannot_be_judged(claims):
    project = claims(body="raise TraceError('3 of 12 launches have no GPU record')")
    project.write("conftest.py", SWALLOWS["exception"])
    result = project.run("--kernelpin-report=report", ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    row = next(row for row in project.report()["rows"] if row["failed"])
    assert row["message"] == "3 of 12 launches have no GPU record"
    assert row["outcome"] == "error"


def test_under_xdist_too(claims):
    project = claims()
    project.write("conftest.py", SWALLOWS["makereport"])
    result = project.run("-n", "1", ci=True, subprocess=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "error: 1 failed, but the session was told otherwise" in text_of(result)


def test_a_claim_that_the_test_expects_to_fail_is_none_of_these(claims):
    project = claims(body=f"with pytest.raises(AssertionError): {FAILS}")
    result = project.run(ci=True)
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.OK


def test_nor_is_one_that_is_marked_xfail(claims):
    project = claims(marks="@pytest.mark.xfail(reason='known')")
    result = project.run(ci=True)
    result.assert_outcomes(passed=1, xfailed=1)
    assert result.ret == pytest.ExitCode.OK
    assert "1 check on recorded traces; 1 skipped" in text_of(result)


def test_a_claim_that_holds_when_it_is_run_again_passes_as_the_user_asked(claims):
    first = "if not (at := Path('x')).exists():\n        at.touch()\n        "
    project = claims(body=first + FAILS)
    result = project.run("--reruns", "1", ci=True)
    assert result.ret == pytest.ExitCode.OK
    assert "passed, 1 rerun" in text_of(result)


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="subtests came with pytest 9")
def test_a_claim_that_fails_in_a_subtest_is_a_failed_row_of_the_report(project):
    project.write("linear.json", LINEAR.decode() if isinstance(LINEAR, bytes) else LINEAR)
    project.write(
        "test_in_parts.py",
        "from kernelpin import expect, load_trace\n\n"
        "def test_it(subtests):\n"
        "    with subtests.test('no addmm'):\n"
        f"        {FAILS}\n"
        "    expect(load_trace('linear.json')).dispatches('aten::addmm')\n",
    )
    result = project.run("--kernelpin-report=report", ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (row,) = project.report()["rows"]
    assert (row["failed"], row["outcome"]) == (True, "other ops")
    assert "kernelpin failed: " in (project.path / "report/summary.md").read_text()
