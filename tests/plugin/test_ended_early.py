"""`pytest.exit` with exit status 0 leaves no CI run green whose tests have not run."""

from __future__ import annotations

import pytest
from small_project import figures, text_of

# Each ends a session before its tests are collected; the first three before pytest says it began.
EARLY = {
    "configure": "def pytest_configure(): leave()",
    "late configure": "@pytest.hookimpl(trylast=True)\ndef pytest_configure(): leave()",
    "sessionstart": "def pytest_sessionstart(): leave()",
    "collection": "def pytest_collection(): leave()",
    "an item's collection": "def pytest_itemcollected(): leave()",
    "report header": "def pytest_report_header(): leave()",
}
LEAVE = "import pytest\ndef leave(): pytest.exit('no GPU here', returncode=0)\n"


@pytest.fixture
def gated(project):
    """Two timing tests that are as fast as their baselines."""
    project.timing_tests("test_a", "test_b", marks=("gpu",))
    for name in ("test_a", "test_b"):
        project.baseline(name, figures(41.2))
        project.measured(name, 41.2)
    return project


def ended_by(project, hook):
    project.write("conftest.py", LEAVE + EARLY[hook] + "\n")


@pytest.mark.parametrize("hook", EARLY)
def test_a_session_that_ends_before_its_tests_are_collected_is_red(gated, hook):
    ended_by(gated, hook)
    result = gated.run(ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    said = text_of(result) + result.stderr.str()
    assert "found pytest.exit('no GPU here') with exit status 0 before the tests were" in said
    assert "allowed is another status: leave returncode out, or skip the tests" in said


@pytest.mark.parametrize("hook", ["sessionstart", "collection"])
def test_asking_for_the_gpu_is_enough_to_be_red(project, hook):
    ended_by(project, hook)
    result = project.run("-m", "gpu", ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "pytest.exit('no GPU here')" in text_of(result) + result.stderr.str()


def test_a_gpu_that_is_required_is_so_without_ci(project):
    ended_by(project, "sessionstart")
    assert project.run("--kernelpin-require-gpu").ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("hook", ["configure", "sessionstart", "collection"])
def test_the_report_says_it_in_the_place_of_an_earlier_one(gated, hook, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    gated.run("--kernelpin-report=report", ci=True)
    assert not gated.report()["failed"]
    ended_by(gated, hook)
    result = gated.run("--kernelpin-report=report", ci=True)
    assert gated.report()["failed"]
    assert gated.report()["headline"] == "no checks ran"
    assert "found pytest.exit('no GPU here')" in gated.report()["problems"][0]
    result.stdout.fnmatch_lines(["::error title=kernelpin::found pytest.exit('no GPU here')*"])
    assert (gated.path / "report" / "summary.md").read_text().startswith("## kernelpin failed")


@pytest.mark.parametrize("hook", EARLY)
def test_on_a_workstation_it_is_the_users_own_choice(gated, hook):
    ended_by(gated, hook)
    result = gated.run()
    assert result.ret == pytest.ExitCode.OK
    assert "kernelpin: found" not in result.stderr.str()


@pytest.mark.parametrize("hook", EARLY)
def test_a_suite_that_has_nothing_of_ours_may_end_as_it_likes(project, hook):
    project.write("test_theirs.py", "def test_it(): pass\n")
    project.write("baselines/image.png", "")
    ended_by(project, hook)
    with project.monkeypatch.context() as patch:
        patch.setenv("CI", "true")
        assert project.pytester.runpytest().ret == pytest.ExitCode.OK


@pytest.mark.parametrize("returncode", ["", ", returncode=3"])
def test_another_exit_status_stays_what_it_is(gated, returncode):
    gated.write(
        "conftest.py",
        f"import pytest\ndef pytest_sessionstart(): pytest.exit('enough'{returncode})\n",
    )
    result = gated.run(ci=True, subprocess=True)
    assert result.ret == (3 if returncode else pytest.ExitCode.INTERRUPTED)


ENDS_IN_A_TEST = """
import pytest

def test_a(capture_trace): pass

def test_b(capture_trace): pytest.exit("enough", returncode=0)
"""


def test_a_test_that_ends_the_session_did_not_run(project):
    project.write("test_kernels.py", ENDS_IN_A_TEST)
    result = project.run(ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = text_of(result)
    assert "error: 1 of 2 kernelpin tests never ran, the first of them test_kernels" in text
    assert "pytest.exit('enough') ended the session before its end, with exit status 0" in text


def test_tests_that_never_ran_are_not_called_skipped(project):
    project.write("test_kernels.py", ENDS_IN_A_TEST)
    text = text_of(project.run("-k", "test_b", ci=True))
    assert "error: 1 of 1 kernelpin tests never ran" in text
    assert "was skipped" not in text


def test_under_xdist_it_is_red_too(project):
    project.write("test_kernels.py", ENDS_IN_A_TEST)
    assert project.run("-n", "1", ci=True, subprocess=True).ret not in (0, None)


def test_a_process_of_xdist_that_leaves_before_it_collects_is_red(gated):
    gated.write(
        "conftest.py",
        "import pytest\ndef pytest_sessionstart(session):\n"
        "    if hasattr(session.config, 'workerinput'): pytest.exit('enough', returncode=0)\n",
    )
    assert gated.run("-n", "1", ci=True, subprocess=True).ret not in (0, None)


OVERRULES = {
    "exit": "def pytest_sessionfinish(): pytest.exit('fine', returncode=0)",
    "exit first": "@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
    "def pytest_sessionfinish():\n    pytest.exit('fine', returncode=0)\n    yield",
    "unconfigure": "def pytest_sessionstart(session): session.config.ours = session\n"
    "def pytest_unconfigure(config): config.ours.exitstatus = 0",
    "main": "@pytest.hookimpl(wrapper=True)\ndef pytest_cmdline_main():\n    yield\n    return 0",
}


@pytest.mark.parametrize("how", OVERRULES)
def test_a_failure_is_red_though_the_session_is_made_to_end_green(gated, how):
    gated.forget()
    gated.measured("test_a", *figures(47.9, 5))
    gated.measured("test_b", 41.2)
    gated.write("conftest.py", f"import pytest\n{OVERRULES[how]}\n")
    result = gated.run(ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "error: kernelpin: 1 failed, but the session was told otherwise: test_speed.py" in (
        result.stderr.str()
    )


def test_what_passed_stays_green_though_the_session_is_made_to_end_early(gated):
    gated.write("conftest.py", f"import pytest\n{OVERRULES['exit']}\n")
    assert gated.run(ci=True).ret == pytest.ExitCode.OK


@pytest.mark.parametrize(
    "option", ["--fixtures", "--fixtures-per-test", "--markers", "--help", "-VV", "--cache-show"]
)
def test_what_runs_no_test_is_asked_for_none(gated, option):
    result = gated.run("-m", "gpu", option, ci=True)
    assert result.ret == pytest.ExitCode.OK
    assert "error: " not in text_of(result) + result.stderr.str()


@pytest.mark.parametrize("option", ["--collect-only", "--setup-only", "--setup-plan"])
def test_what_runs_no_body_is_asked_for_none_and_measures_nothing(gated, option):
    result = gated.run(option, ci=True)
    assert result.ret == pytest.ExitCode.OK
    assert "measuring" not in text_of(result)
    assert "error: " not in text_of(result)
