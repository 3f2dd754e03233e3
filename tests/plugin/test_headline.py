"""The headline is counted from outcomes: each check once, where it ran, as what it came to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from small_project import GPU, figures, text_of

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from small_trace import kernel, op, step, trace_json

from kernelpin.kineto import load_trace
from kernelpin.profiling import Recording

LINEAR = trace_json(step(op("aten::linear", op("aten::addmm", kernel("gemm"), kernel("x")))))
ON_CPU = trace_json(step(op("aten::linear", op("aten::addmm"))))
HEAD = """
import pytest
from kernelpin import TraceError, capture, expect, load_trace
"""
MISSED = {
    "dispatches('aten::mm')": "other ops",
    "does_not_dispatch('aten::addmm')": "other ops",
    "under('aten::mm')": "other ops",
    "launches(1, 'gemm')": "other kernels",
    "launches_nothing()": "other kernels",
}


@pytest.fixture
def headline(project, monkeypatch):
    """Run tests in which every capture gives the same trace; what the session's headline is."""

    def run(*tests, captured=LINEAR):
        def record(fn, *args, **options):
            trace = load_trace(captured)
            trace.source = "capture of print"
            return Recording(trace, captured)

        monkeypatch.setattr("kernelpin.profiling.record", record)
        project.write("gpu.json", LINEAR.decode())
        project.write("cpu.json", ON_CPU.decode())
        project.write("test_kernels.py", "\n".join([HEAD, *tests]))
        project.run("--kernelpin-report=report")
        told = project.report()["headline"]
        assert f"{told}\n" in (project.path / "report" / "summary.md").read_text()
        return told

    return run


def test_a_claim_on_a_loaded_trace_counts_with_no_fixture(headline):
    told = headline(
        "def test_a(): expect(load_trace('gpu.json')).dispatches('aten::addmm')",
        "def test_b(): expect(load_trace('cpu.json')).dispatches('aten::addmm')",
        "def test_theirs(): pass",
        "def test_loads_and_claims_nothing(): load_trace('gpu.json')",
        "def test_makes_it_up():\n    made = load_trace(open('gpu.json', 'rb').read())\n"
        "    expect(made).dispatches('aten::addmm')",
    )
    assert told == "2 checks on recorded traces"


def test_a_claim_that_is_wrong_itself_is_an_error_on_a_loaded_trace_too(headline, project):
    """With no marker and no fixture; and a test that fails without a claim is told beside."""
    told = headline(
        "def test_a(): expect(load_trace('gpu.json')).launches(1, 'gem')",
        "def test_b(): expect(load_trace('gpu.json')).dispatches('aten::addmm')",
        "def test_theirs(): assert False",
    )
    assert told == "1 check on recorded traces; 1 error"
    report = project.report()
    assert report["failed"]
    (row,) = (row for row in report["rows"] if row["failed"])
    assert (row["nodeid"], row["outcome"]) == ("test_kernels.py::test_a", "error")
    assert row["reason"].startswith("ValueError: no kernel family 'gem'")
    (warning,) = report["warnings"]
    assert warning == (
        "failed beside these, and no checks of kernelpin's: test_kernels.py::test_theirs"
    )
    assert f"- {warning}" in (project.path / "report" / "comment.md").read_text()


def test_a_claim_on_a_loaded_trace_is_no_run_on_a_gpu_where_there_is_none(headline, project):
    told = headline(
        "@pytest.mark.gpu",
        "def test_a(): expect(load_trace('gpu.json')).dispatches('aten::addmm')",
    )
    assert told == "1 check on recorded traces"
    assert project.report()["rows"][0]["source"] == "recorded"


def test_its_row_names_the_gpu_of_the_trace_which_is_not_this_session_s(headline, project):
    headline("def test_a(): expect(load_trace('gpu.json')).dispatches('aten::addmm')")
    assert project.report()["rows"][0]["gpu"] == "NVIDIA H200"
    assert project.report()["gpu"] is None


def test_the_claims_of_a_session_inside_a_test_are_none_of_the_test_s(project, pytestconfig):
    project.write("gpu.json", LINEAR.decode())
    project.write(
        "test_kernels.py",
        f"""{HEAD}
pytest_plugins = "pytester"

def test_outside(pytester):
    pytester.makepyfile(
        "from kernelpin import expect, load_trace\\n"
        "def test_inside(): expect(load_trace({str(project.path / "gpu.json")!r})).dispatches('*')"
    )
    assert "1 check on recorded traces" in pytester.runpytest().stdout.str()
""",
    )
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "checks ran" not in text_of(result)
    assert "recorded traces" not in text_of(result)


def test_a_recorded_trace_of_a_gpu_is_no_run_on_it(headline, project, monkeypatch):
    monkeypatch.setattr("kernelpin.machine.why_no_gpu", lambda: "")
    headline("def test_a(): expect(load_trace('gpu.json')).dispatches('aten::addmm')")
    result = project.run("--kernelpin-require-gpu")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "error: no GPU test ran: none was selected" in text_of(result)


def test_nor_are_the_baselines_of_that_gpu_this_session_s(headline, project):
    headline("def test_a(): expect(load_trace('gpu.json')).dispatches('aten::addmm')")
    project.baseline("test_gone", figures(41.2))
    with project.monkeypatch.context() as patch:
        patch.setenv("CI", "true")
        result = project.pytester.runpytest()
    assert result.ret == pytest.ExitCode.OK
    assert "baselines without a test" not in text_of(result)


def test_a_capture_that_gives_no_trace_was_live_all_the_same(headline, project):
    told = headline("def test_a(capture_trace): capture_trace(print)", captured=b"")
    assert told == "1 error"
    assert project.report()["rows"][0]["source"] == "live"


def test_a_test_counts_once_however_much_it_claims(headline):
    told = headline(
        "def test_a():\n"
        "    claims = expect(load_trace('gpu.json'))\n"
        "    claims.dispatches('aten::addmm').under('aten::linear').launches(2)"
    )
    assert told == "1 check on recorded traces"


def test_one_that_imports_what_it_needs_itself_counts_too(project):
    project.write("gpu.json", LINEAR.decode())
    project.write(
        "test_kernels.py",
        "def test_a():\n    from kernelpin import expect, load_trace\n"
        "    expect(load_trace('gpu.json')).dispatches('aten::addmm')\n",
    )
    assert "1 check on recorded traces" in text_of(project.run(subprocess=True))


def test_a_claim_on_what_was_captured_here_is_live_with_a_fixture_or_without(headline):
    told = headline(
        "def test_a(capture_trace): expect(capture_trace(print)).dispatches('aten::addmm')",
        "def test_b(): expect(capture(print)).dispatches('aten::addmm')",
    )
    assert told == "2 same on NVIDIA H200"


@pytest.mark.parametrize(("claim", "outcome"), MISSED.items())
def test_a_failed_claim_is_called_by_what_it_is_about(headline, claim, outcome):
    told = headline(
        f"def test_a(): expect(load_trace('gpu.json')).{claim}",
        f"def test_b(capture_trace): expect(capture_trace(print)).{claim}",
    )
    assert told == f"1 {outcome} on NVIDIA H200; 1 check on recorded traces (1 {outcome})"


def test_a_claim_on_a_cpu_s_trace_is_about_no_kernel(headline, project):
    told = headline(
        "def test_a(capture_trace): expect(capture_trace(print)).dispatches('aten::mm')",
        captured=ON_CPU,
    )
    assert told == "1 check on the CPU (1 other ops)"
    summary = (project.path / "report" / "summary.md").read_text()
    assert "**Other ops on purpose?** Then change the claim in the test" in summary
    assert "kernels on purpose" not in summary


@pytest.mark.parametrize("mark", ["", "@pytest.mark.gpu", "@pytest.mark.cpu"])
@pytest.mark.parametrize(
    "body", ["raise ValueError('no')", "raise TraceError('lost')", "load_trace('nowhere.json')"]
)
def test_an_error_without_a_trace_is_counted_nowhere_else(headline, mark, body):
    told = headline(
        "def test_a(capture_trace): capture_trace(print)",
        f"{mark}\ndef test_b(capture_trace): {body}",
    )
    assert told == "1 same on NVIDIA H200; 1 error"


def test_an_error_after_a_capture_is_counted_on_its_gpu(headline):
    told = headline("def test_a(capture_trace): capture_trace(print); raise ValueError('no')")
    assert told == "1 error on NVIDIA H200"


def test_what_was_never_measured_is_not_counted_on_the_cpu(project):
    project.timing_tests("test_a", "test_b")
    for name in ("test_a", "test_b"):
        project.baseline(name, figures(41.2), gpu=GPU)
    project.measured("test_a", 41.2)
    text = text_of(project.run())
    assert "1 same on NVIDIA H200; 1 error" in text
