"""No way to lose the GPU, the tests or the baselines leaves a CI run green."""

from __future__ import annotations

import shutil

import pytest
from small_project import figures, text_of

from kernelpin.plugin.silence import asks_for_gpu

NO_GPU = """
import pytest
pytestmark = pytest.mark.gpu

def test_speed(stopwatch):
    stopwatch(print)
"""
SKIPS = """
import pytest

@pytest.mark.gpu
def test_kernels(capture_trace):
    pytest.skip("no GPU here")
"""


@pytest.fixture
def gated(project, monkeypatch):
    """Two timing tests that are as fast as their baselines."""
    project.timing_tests("test_a", "test_b", marks=("gpu",))
    for name in ("test_a", "test_b"):
        project.baseline(name, figures(41.2))
        project.measured(name, 41.2)
    return project


@pytest.fixture
def run_without_gpu(project, monkeypatch):
    """Run the project as on a runner that has lost its card."""
    monkeypatch.setattr("kernelpin.machine.why_no_gpu", lambda: "no NVIDIA driver found")
    monkeypatch.setattr("kernelpin.machine.current_gpu", lambda: None)
    monkeypatch.setattr("kernelpin.machine.gpu_present", lambda: False)

    def run(*args, ci=True):
        with monkeypatch.context() as patch:
            if ci:
                patch.setenv("CI", "true")
            return project.pytester.runpytest(*args)

    return run


def test_all_is_well(gated):
    result = gated.run("-m", "gpu", ci=True)
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.parametrize("args", [["-m", "gpu"], []])
def test_no_gpu(project, run_without_gpu, args):
    project.write("test_speed.py", NO_GPU)
    result = run_without_gpu(*args)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = text_of(result)
    assert "error: every kernelpin test was skipped, and nothing else ran" in text
    assert "no GPU: no NVIDIA driver found (1)" in text


def test_live_checks_of_traces_skip_without_a_gpu_before_their_fixtures_look_for_one(
    project, run_without_gpu
):
    project.write(
        "test_kernels.py",
        """
import pytest

@pytest.fixture
def model():
    raise AssertionError("Torch not compiled with CUDA enabled")

@pytest.mark.gpu
def test_kernels(capture_trace, model): pass
""",
    )
    result = run_without_gpu("-m", "gpu", "-rs", ci=False)
    result.assert_outcomes(skipped=1)
    assert "test_kernels.py:8: no GPU: no NVIDIA driver found" in text_of(result)


def test_no_gpu_beside_tests_that_need_none_is_a_cpu_run(project, run_without_gpu):
    project.write("test_speed.py", NO_GPU)
    project.write("test_other.py", "def test_it(): pass\n")
    result = run_without_gpu()
    result.assert_outcomes(passed=1, skipped=1)
    assert result.ret == pytest.ExitCode.OK


PASSES_WITHOUT = """
import pytest
pytestmark = pytest.mark.gpu

def test_speed(stopwatch):
    stopwatch(print)

def test_passes(): pass

@pytest.mark.xfail(reason="known")
def test_xfails(): raise ValueError
"""


@pytest.mark.parametrize("args", [["--kernelpin-require-gpu"], ["-m", "gpu"], []])
def test_a_test_marked_gpu_that_passes_without_one_is_no_gpu(project, run_without_gpu, args):
    project.write("test_speed.py", PASSES_WITHOUT)
    result = run_without_gpu(*args, ci=args != ["--kernelpin-require-gpu"])
    result.assert_outcomes(passed=1, skipped=1, xfailed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "no NVIDIA driver found" in text_of(result).split("error: ")[1]


def test_no_gpu_is_no_gpu_where_results_are_played_too(project, run_without_gpu):
    project.write("test_speed.py", PASSES_WITHOUT)
    result = project.run("--kernelpin-require-gpu")
    assert "error: no GPU test ran: no NVIDIA driver found" in text_of(result)


def test_an_expected_failure_is_no_run(project, monkeypatch):
    monkeypatch.setattr("kernelpin.machine.why_no_gpu", lambda: "")
    project.write("test_speed.py", PASSES_WITHOUT)
    result = project.pytester.runpytest("--kernelpin-require-gpu", "-k", "xfails")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "error: no GPU test ran: all were skipped: xfail: known (1)" in text_of(result)


@pytest.mark.parametrize(
    ("expression", "asks"),
    [
        ("gpu", True),
        ("gpu and not slow", True),
        ("gpu and slow", True),
        ("slow or gpu", True),
        ("not (cpu or not gpu)", True),
        ("", False),
        ("not gpu", False),
        ("not  gpu", False),
        ("not (gpu or slow)", False),
        ("gpus", False),
        ("slow", False),
        ("gpu or not gpu", False),
        ("gpu and", False),
    ],
)
def test_what_asks_for_a_gpu(expression, asks):
    assert asks_for_gpu(expression) is asks


def test_no_gpu_on_a_workstation_skips(project, run_without_gpu):
    project.write("test_speed.py", NO_GPU)
    result = run_without_gpu(ci=False)
    assert result.ret == pytest.ExitCode.OK


def test_everything_skipped(project):
    project.write("test_kernels.py", SKIPS)
    result = project.run("-m", "gpu", ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "no GPU here (1)" in text_of(result)


def test_every_gpu_test_skipped_where_there_is_a_gpu(project, monkeypatch):
    monkeypatch.setattr("kernelpin.machine.gpu_present", lambda: True)
    project.write("test_kernels.py", SKIPS)
    project.write("test_other.py", "def test_it(): pass\n")
    result = project.run(ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "error: every GPU test was skipped: no GPU here (1)" in text_of(result)


@pytest.mark.parametrize("content", ["def test_it(): pass\n", ""])
def test_nothing_collected_by_m_gpu(project, content):
    project.write("test_speed.py", content)
    result = project.run("-m", "gpu", ci=True)
    assert result.ret != pytest.ExitCode.OK
    assert "error: -m 'gpu' selected no test" in text_of(result)


def test_no_baseline_for_this_gpu(gated):
    (gated.path / "baselines" / "nvidia-h200").rename(gated.path / "baselines" / "nvidia-a10")
    for file in (gated.path / "baselines" / "nvidia-a10").iterdir():
        file.write_text(file.read_text().replace("NVIDIA H200", "NVIDIA A10"))
    result = gated.run("-m", "gpu", ci=True)
    result.assert_outcomes(failed=2)
    assert "no baselines for NVIDIA H200; there are for nvidia-a10" in text_of(result)


def test_baselines_folder_missing(gated):
    shutil.rmtree(gated.path / "baselines")
    gated.run("-m", "gpu", ci=True).assert_outcomes(failed=2)


def test_baselines_folder_empty(gated):
    shutil.rmtree(gated.path / "baselines" / "nvidia-h200")
    gated.run("-m", "gpu", ci=True).assert_outcomes(failed=2)


def test_a_damaged_baseline_file(gated):
    (gated.path / "baselines" / "nvidia-h200" / "test_speed.json").write_text("{")
    result = gated.run("-m", "gpu", ci=True)
    result.assert_outcomes(failed=2)
    assert "test_speed.json" in text_of(result)


def test_a_renamed_test_fails_and_its_orphan_is_named(gated):
    gated.timing_tests("test_a", "test_renamed", marks=("gpu",))
    gated.measured("test_renamed", 41.2)
    result = gated.run("-m", "gpu", ci=True)
    result.assert_outcomes(passed=1, failed=1)
    assert "error: baselines without a test: test_speed.py::test_b" in text_of(result)


def test_a_deleted_test_is_red_though_all_others_pass(gated):
    gated.timing_tests("test_a", marks=("gpu",))
    result = gated.run("-m", "gpu", ci=True)
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "baselines without a test: test_speed.py::test_b" in text_of(result)


def test_a_deleted_module_is_red(gated):
    gated.baseline("test_c", figures(3.0), file="test_gone.py")
    result = gated.run("-m", "gpu", ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "test_gone.py::test_c" in text_of(result)


def test_on_a_workstation_an_orphan_is_a_warning(gated):
    gated.timing_tests("test_a")
    result = gated.run()
    assert result.ret == pytest.ExitCode.OK
    assert "warning: baselines without a test: test_speed.py::test_b" in text_of(result)


@pytest.mark.parametrize(
    "args", [["test_speed.py::test_a"], ["-k", "test_a"], ["--deselect", "test_speed.py::test_b"]]
)
def test_tests_that_were_not_asked_for_are_no_orphans(gated, args):
    result = gated.run(*args, ci=True)
    result.assert_outcomes(passed=1, deselected=args[0] != "test_speed.py::test_a")
    assert result.ret == pytest.ExitCode.OK


def test_what_lf_leaves_out_is_no_orphan(gated):
    gated.forget()
    gated.measured("test_a", *figures(47.9, 5))
    gated.measured("test_b", 41.2)
    gated.run(ci=True)
    gated.forget()
    gated.measured("test_a", 41.2)
    assert gated.run("--lf", ci=True).ret == pytest.ExitCode.OK


def test_records_lost(gated):
    gated.write(
        "test_kernels.py",
        """
import pytest
from kernelpin import TraceError

@pytest.mark.gpu
def test_kernels(capture_trace):
    raise TraceError("3 of 12 launches have no GPU record: capture again")
""",
    )
    result = gated.run("-m", "gpu", ci=True)
    result.assert_outcomes(passed=2, failed=1)
    assert "3 of 12 launches have no GPU record" in text_of(result)


def test_a_test_of_which_no_process_said_anything(gated):
    gated.forget()
    gated.measured("test_a", 41.2)
    result = gated.run("-m", "gpu", ci=True)
    result.assert_outcomes(passed=1, failed=1)
    assert "test_b - no measuring process said anything of this test" in text_of(result)


def test_all_unclear(gated):
    gated.forget()
    for name in ("test_a", "test_b"):
        gated.measured(name, 41.2, reason="another process on the GPU (pid 7)")
    gated.run("-m", "gpu", ci=True).assert_outcomes(failed=2)


@pytest.mark.parametrize("args", [[], ["--lf"], ["--ff", "--sw"]])
def test_a_second_run_after_a_failed_one_is_as_red(gated, args):
    gated.forget()
    gated.measured("test_a", *figures(47.9, 5))
    gated.measured("test_b", 41.2)
    assert gated.run("-m", "gpu", ci=True).ret == pytest.ExitCode.TESTS_FAILED
    assert gated.run("-m", "gpu", *args, ci=True).ret != pytest.ExitCode.OK


def test_ci_false_is_no_ci(gated, monkeypatch):
    shutil.rmtree(gated.path / "baselines")
    monkeypatch.setenv("CI", "false")
    gated.run().assert_outcomes(skipped=2)


@pytest.mark.parametrize("hook", ["runtest_setup(item)", "runtest_teardown(item)"])
def test_a_session_that_was_ended_early_is_red(gated, hook):
    gated.write(
        "conftest.py",
        f"import pytest\ndef pytest_{hook}: pytest.exit('enough', returncode=0)\n",
    )
    result = gated.run(ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    number = 2 if "setup" in hook else 1
    assert f"error: {number} of 2 kernelpin tests never ran" in text_of(result)


def test_a_session_that_ends_while_it_collects_is_red(gated):
    gated.write(
        "conftest.py",
        "import pytest\ndef pytest_collection_modifyitems(): pytest.exit('enough', returncode=0)\n",
    )
    result = gated.run(ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "error: 2 of 2 kernelpin tests never ran" in text_of(result)


SWALLOWS = {
    "report": """
import pytest
@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.outcome, report.longrepr = "passed", None
    return report
""",
    "exception": """
import pytest
@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try: return (yield)
    except Exception: return None
""",
    "exit status": "def pytest_sessionfinish(session): session.exitstatus = 0\n",
}


@pytest.mark.parametrize("how", SWALLOWS)
def test_a_failure_that_a_conftest_swallows_is_red(gated, how):
    gated.write("conftest.py", SWALLOWS[how])
    gated.forget()
    gated.measured("test_a", *figures(47.9, 5))
    gated.measured("test_b", 41.2)
    result = gated.run(ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    said = "error: 1 failed, but the session was told otherwise: test_speed.py::test_a"
    assert said in text_of(result)


def test_an_expected_failure_is_not_swallowed(gated):
    gated.timing_tests("test_a", "test_b", marks=("gpu", "xfail(reason='known')"))
    gated.forget()
    gated.measured("test_a", *figures(47.9, 5))
    gated.measured("test_b", 41.2)
    result = gated.run(ci=True)
    result.assert_outcomes(xfailed=1, xpassed=1)
    assert result.ret == pytest.ExitCode.OK
