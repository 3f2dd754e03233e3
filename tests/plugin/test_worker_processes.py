"""Real worker processes: what happens to a test there is the test's outcome here.

They import a stand-in for torch, since the real one takes seconds to load and there is no GPU to
use it on; test_worker_with_torch.py has the real one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest
from small_project import heed_signals, text_of

TORCH = """
from types import SimpleNamespace
__version__ = "0.0"
version = SimpleNamespace(cuda=None, hip=None)
cuda = SimpleNamespace(is_initialized=lambda: False)
def manual_seed(seed): pass
def initial_seed(): return 0
"""
RATIO = "stopwatch.ratio(lambda: sum(range(300)), lambda: sum(range(300)))"


@pytest.fixture
def live(project):
    """A project whose tests are measured by real processes."""
    project.write("torch.py", TORCH)
    project.pytester.syspathinsert()

    def run(*args, **environ):
        with project.monkeypatch.context() as patch:
            for name, value in environ.items():
                patch.setenv(name, value)
            return project.pytester.runpytest_inprocess(*args)

    project.live = run
    return project


def test_every_ending_of_a_body_is_the_outcome_of_its_test(live):
    live.write(
        "test_speed.py",
        f"""
import os, sys
import pytest
pytestmark = pytest.mark.cpu

def test_passes(stopwatch):
    {RATIO}

def test_raises(stopwatch):
    print("what the body printed")
    assert {{"a": 1}} == {{"a": 2}}

def test_crashes(stopwatch):
    print("its last words")
    os._exit(3)

def test_skips(stopwatch):
    pytest.skip("not today")

@pytest.mark.xfail(reason="known to be wrong", raises=ValueError)
def test_xfails(stopwatch):
    raise ValueError

@pytest.mark.xfail(reason="known to be wrong", strict=True)
def test_xpasses(stopwatch):
    {RATIO}

def test_measures_nothing(stopwatch):
    pass

def test_measures_twice(stopwatch):
    {RATIO}
    {RATIO}

@pytest.fixture
def broken():
    yield
    raise RuntimeError("cannot clean up")

def test_teardown_fails(stopwatch, broken):
    {RATIO}

def test_killed(stopwatch):
    os.kill(os.getpid(), 9)

def test_goes_on_after_the_crashes(stopwatch):
    {RATIO}

def test_does_not_measure():
    pass
""",
    )
    result = live.live("-rA")
    result.assert_outcomes(passed=3, failed=7, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "*SKIPPED *test_speed.py:17: not today",
            "*XFAIL test_speed.py::test_xfails - *known to be wrong",
        ]
    )
    text = text_of(result)
    for line in (
        "test_raises - AssertionError: assert {'a': 1} == {'a': 2}",
        "test_crashes - the measuring process ended during this test: exit code 3",
        "test_measures_nothing - the test passed, and measured nothing: call stopwatch(...) in it",
        "test_measures_twice - kernelpin.stopwatch.samples.MeasureError: a test measures once",
        "test_teardown_fails - RuntimeError: cannot clean up",
        "test_killed - the measuring process ended during this test: killed by SIGKILL",
    ):
        assert f"FAILED test_speed.py::{line}" in text
    assert "[XPASS(strict)] known to be wrong" in text
    assert "what the body printed" in text
    assert "its last words" in text
    assert "plugin/timings.py" not in text


def test_any_id_is_found_again_and_fixtures_are_set_up_in_the_worker_alone(live):
    live.write(
        "deep folder/test_ids.py",
        f"""
import os
import pytest
pytestmark = pytest.mark.cpu
SETUPS = {str(live.path / "setups.txt")!r}

@pytest.fixture(scope="module", autouse=True)
def counted():
    with open(SETUPS, "a") as file:
        print(os.getpid(), file=file)

@pytest.mark.parametrize("id", ["a b", "x[1]::y", "ü€", "a\\nb", "@file", "-k", "'\\"$(ls)"])
def test_ids(stopwatch, id):
    {RATIO}

class TestClass:
    @pytest.mark.parametrize("n", [1, 2])
    def test_method(self, stopwatch, n):
        assert isinstance(self, TestClass)
        {RATIO}
""",
    )
    result = live.live("deep folder")
    result.assert_outcomes(passed=9)
    (pid,) = (live.path / "setups.txt").read_text().split()
    assert int(pid) != os.getpid()


@pytest.mark.parametrize("inside", ["$HOME", "${HOME}", "a $KERNELPIN_DOLLAR b"])
def test_a_checkout_and_a_temporary_folder_may_be_named_like_a_variable(live, inside):
    live.write(
        f"{inside}/tests/test_speed.py",
        f"""
import pytest

@pytest.mark.cpu
def test_it(stopwatch, pytestconfig):
    assert pytestconfig.rootpath.name == {inside!r}
    assert {inside!r} in str(pytestconfig.cache._cachedir)
    {RATIO}
""",
    )
    checkout = live.path / inside
    live.write(f"{inside}/pytest.ini", "[pytest]\n")
    live.monkeypatch.setattr("tempfile.tempdir", str(checkout))
    live.monkeypatch.chdir(checkout)
    live.live("tests").assert_outcomes(passed=1)


def test_options_environment_and_plugins_reach_the_worker_without_what_is_the_parents(live):
    live.write(
        "conftest.py",
        """
def pytest_addoption(parser):
    parser.addoption("--size")
""",
    )
    live.write("extra.py", "")
    live.write(
        "test_speed.py",
        f"""
import os
import pytest

@pytest.mark.cpu
def test_what_it_sees(stopwatch, pytestconfig):
    assert pytestconfig.getoption("--size") == "test_speed.py"
    assert pytestconfig.pluginmanager.hasplugin("extra")
    assert pytestconfig.getoption("verbose") == 2
    assert pytestconfig.getini("xfail_strict") is True
    assert not pytestconfig.getoption("xmlpath")
    assert not pytestconfig.getoption("maxfail")
    assert not pytestconfig.getoption("lf")
    assert not pytestconfig.getoption("numprocesses")
    assert pytestconfig.getoption("markexpr") == ""
    assert "PYTEST_ADDOPTS" not in os.environ
    assert "GITHUB_STEP_SUMMARY" not in os.environ
    assert os.environ["MINE"] == "1"
    {RATIO}
""",
    )
    result = live.live(
        *("-vv", "-x", "--lf", "--junitxml=junit.xml", "-m", "cpu", "-p", "extra"),
        *("-o", "xfail_strict=true", "--size", "test_speed.py", "test_speed.py"),
        MINE="1",
        PYTEST_ADDOPTS="--maxfail=3 --durations=1",
        GITHUB_STEP_SUMMARY=str(live.path / "step.md"),
    )
    result.assert_outcomes(passed=1)
    assert 'name="test_what_it_sees"' in (live.path / "junit.xml").read_text()


def test_a_test_that_hangs_is_stopped_and_the_others_go_on(live):
    live.write(
        "test_speed.py",
        f"""
import time
import pytest
pytestmark = pytest.mark.cpu

def test_hangs(stopwatch):
    print("waiting for nothing")
    time.sleep(1000)

def test_goes_on(stopwatch):
    {RATIO}
""",
    )
    started = time.monotonic()
    result = live.live("--kernelpin-budget=24")
    result.assert_outcomes(passed=1, failed=1)
    text = text_of(result)
    assert (
        "test_hangs - the measuring process was stopped during this test: no sign of life" in text
    )
    assert "waiting for nothing" in text
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGHUP"])
def test_a_session_that_is_killed_leaves_no_process_and_no_folder(live, name):
    folder = live.path / "temporary"
    folder.mkdir()
    live.write(
        "test_speed.py",
        """
import os, subprocess, time
import pytest

@pytest.mark.cpu
def test_hangs(stopwatch):
    child = subprocess.Popen(["sleep", "1000"])
    with open("pids.part", "w") as file:
        print(os.getpid(), child.pid, file=file)
    os.rename("pids.part", "pids.txt")
    time.sleep(1000)
""",
    )
    pids = live.path / "pids.txt"
    session = subprocess.Popen(
        [sys.executable, "-m", "pytest"],
        cwd=live.path,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(live.path)},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,
    )
    until = time.monotonic() + 30
    while not pids.exists() and time.monotonic() < until:
        time.sleep(0.05)
    session.send_signal(signal.Signals[name])
    out, _ = session.communicate(timeout=20)
    running = [int(pid) for pid in pids.read_text().split()]
    assert len(running) == 2
    until = time.monotonic() + 10
    while any(map(runs, running)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(map(runs, running))
    assert not list(folder.glob("kernelpin-worker-*"))
    if name != "SIGKILL":
        assert session.returncode == 128 + signal.Signals[name]
        assert f"ended by {name}" in out


def runs(pid):
    """Whether it runs; one that ended and was not waited for does not."""
    with contextlib.suppress(OSError):
        return subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
        ).stdout.strip()[:1] not in ("", "Z")
    return False


def test_a_budget_that_ends_leaves_the_rest_unclear(live):
    live.write(
        "test_speed.py",
        f"""
import time
import pytest
pytestmark = pytest.mark.cpu

@pytest.mark.parametrize("n", range(4))
def test_slow(stopwatch, n):
    time.sleep(n)
    {RATIO}
""",
    )
    result = live.live("--kernelpin-budget=5")
    text = text_of(result)
    assert result.parseoutcomes()["passed"] == 4
    assert "unclear: test_speed.py::test_slow[3]: the budget ended before it was measured" in text


def test_collection_that_fails_in_the_worker_alone_fails_the_tests_with_its_output(live):
    live.write(
        "test_speed.py",
        f"""
import pytest, sys
if any("kernelpin-worker" in argument for argument in sys.argv):
    raise RuntimeError("not here")

@pytest.mark.cpu
def test_it(stopwatch):
    {RATIO}
""",
    )
    result = live.live()
    result.assert_outcomes(failed=1)
    assert "RuntimeError: not here" in text_of(result)


def test_a_test_without_a_gpu_skips_with_the_reason_and_starts_no_worker(live):
    live.write("test_speed.py", "def test_it(stopwatch):\n    stopwatch(print)\n")
    result = live.live("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*test_speed.py:1: no GPU: torch * is built without CUDA"])
    assert "kernelpin: measuring" not in text_of(result)


def test_progress_is_told_while_a_worker_runs(live):
    live.write(
        "test_speed.py", f"import pytest\n@pytest.mark.cpu\ndef test_it(stopwatch):\n    {RATIO}\n"
    )
    result = live.live("--kernelpin-budget=60")
    result.stdout.fnmatch_lines(["kernelpin: measuring 0 of 1 tests, * s of at most 60 s*"])


def test_processes_0_runs_the_body_in_place(live):
    live.write(
        "test_speed.py",
        f"""
import os
import pytest

@pytest.mark.cpu
def test_here(stopwatch):
    assert os.getpid() == {{pid}}
    {RATIO}

@pytest.mark.cpu
def test_bound(stopwatch):
    stopwatch.ratio(lambda: sum(range(900)), lambda: sum(range(90)), below=0.5)
""".replace("{pid}", "int(os.environ['MAIN'])"),
    )
    live.write("conftest.py", "import os\nos.environ['MAIN'] = str(os.getpid())\n")
    result = live.live("--kernelpin-processes=0")
    result.assert_outcomes(passed=2)
    assert "unclear: test_speed.py::test_bound" in text_of(result)


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="subtests came with pytest 9")
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_subtest_that_fails_is_not_lost_where_the_test_comes_to_its_end(live, where):
    fails = "with subtests.test('the result'):\n        assert 1 + 1 == 3\n"
    body = [fails, RATIO] if where == "before" else [RATIO, fails]
    live.write(
        "test_speed.py",
        "import pytest\n@pytest.mark.cpu\ndef test_it(stopwatch, subtests):\n    "
        + "\n    ".join(body)
        + "\n",
    )
    result = live.live("test_speed.py")
    result.assert_outcomes(failed=1)
    assert "assert (1 + 1) == 3" in text_of(result)


def test_what_a_plugin_makes_a_failure_of_is_one(live):
    """As pytest-check does: the body came to its end, and its report is failed all the same."""
    live.write(
        "conftest.py",
        """
import pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        report.outcome, report.longrepr = "failed", "FAILURE: 2 is not 3"
    return report
""",
    )
    live.write(
        "test_speed.py", f"import pytest\n@pytest.mark.cpu\ndef test_it(stopwatch):\n    {RATIO}\n"
    )
    result = live.live("test_speed.py")
    result.assert_outcomes(failed=1)
    assert "FAILURE: 2 is not 3" in text_of(result)
