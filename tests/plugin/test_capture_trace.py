"""`capture_trace` and claims: what a failed check shows, and the trace it leaves behind."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from small_project import text_of

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from small_trace import kernel, op, step, trace_json

from kernelpin.kineto import load_trace
from kernelpin.profiling import Recording

LINEAR = trace_json(
    step(op("aten::linear", op("aten::addmm", kernel("nvjet_sm90_tst_64x8_bias_TNT"), kernel("x"))))
)
CLAIM = """
import pytest
from kernelpin import expect

@pytest.mark.gpu
def test_one_gemm(capture_trace):
    trace = capture_trace(print)
    expect(trace).under("aten::linear").launches(1, "gemm", because="the bias is folded")
"""


@pytest.fixture
def recorded(project, monkeypatch):
    """A project in which every capture gives the same trace of an H200."""
    monkeypatch.setattr(
        "kernelpin.profiling.record",
        lambda fn, *args, **options: Recording(load_trace(LINEAR), LINEAR),
    )
    return project


def test_a_failed_claim_is_its_message_and_the_line_that_made_it(recorded):
    recorded.write("test_kernels.py", CLAIM)
    result = recorded.run("--junitxml=junit.xml")
    result.assert_outcomes(failed=1)
    text = text_of(result)
    headline = "expected 1 GEMM kernel and no other under aten::linear"
    assert f"FAILED test_kernels.py::test_one_gemm - {headline}" in text
    assert f"E  {headline}" in text
    assert "because: the bias is folded" in text
    assert 'test_kernels.py:8: expect(trace).under("aten::linear")' in text
    assert "claims/" not in text
    assert "Traceback" not in text
    failure = ElementTree.parse(recorded.path / "junit.xml").find(".//failure")
    assert failure.get("message").startswith(headline)
    assert "\n" not in failure.get("message")


@pytest.mark.parametrize("obstacle", ["report", "report/traces"])
def test_a_claim_is_told_where_its_trace_cannot_be_written(recorded, obstacle):
    recorded.write("test_kernels.py", CLAIM)
    path = recorded.path / obstacle
    path.parent.mkdir(exist_ok=True)
    path.write_text("a file in its place")
    result = recorded.run("--kernelpin-report=report")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    text = text_of(result)
    assert "E  expected 1 GEMM kernel and no other under aten::linear" in text
    assert "the trace could not be written: " in text
    assert "INTERNALERROR" not in text


def test_its_trace_is_kept_under_the_base_temp_and_named(recorded):
    recorded.write("test_kernels.py", CLAIM)
    result = recorded.run("--basetemp=tmp")
    path = recorded.path / "tmp" / "kernelpin-traces" / "test_kernels.py-test_one_gemm.json.gz"
    assert gzip.decompress(path.read_bytes()) == LINEAR
    assert f"trace: {path} (open in ui.perfetto.dev)" in text_of(result)


def test_its_trace_is_kept_in_the_report_which_has_its_row(recorded):
    recorded.write("test_kernels.py", CLAIM)
    recorded.run("--kernelpin-report=report")
    (row,) = recorded.report()["rows"]
    assert row["outcome"] == "other kernels"
    assert row["gpu"] == "NVIDIA H200"
    assert row["line"] == 5
    assert row["trace"] == "traces/test_kernels.py-test_one_gemm.json.gz"
    assert (recorded.path / "report" / row["trace"]).is_file()


def test_any_other_failure_leaves_the_traces_it_captured_too(recorded):
    recorded.write(
        "test_kernels.py",
        "def test_it(capture_trace):\n    capture_trace(print)\n    capture_trace(print)\n"
        "    assert 0\n",
    )
    text = text_of(recorded.run("--basetemp=tmp"))
    assert "test_kernels.py-test_it-1.json.gz" in text
    assert "test_kernels.py-test_it-2.json.gz" in text
    assert "assert 0" in text


def test_a_passing_check_leaves_nothing(recorded):
    recorded.write("test_kernels.py", "def test_it(capture_trace):\n    capture_trace(print)\n")
    recorded.run("--basetemp=tmp").assert_outcomes(passed=1)
    assert not (recorded.path / "tmp" / "kernelpin-traces").exists()


def test_checks_on_recorded_traces_are_told_apart_from_live_ones(recorded):
    recorded.write("linear.json", LINEAR.decode())
    recorded.write(
        "test_kernels.py",
        """
from kernelpin import load_trace

def test_live(capture_trace):
    capture_trace(print)

def test_recorded(capture_trace):
    assert load_trace("linear.json").kernels
""",
    )
    text = text_of(recorded.run())
    assert "1 same on NVIDIA H200; 1 check on recorded traces" in text


def test_json_of_gives_the_bytes_of_its_own_traces_alone(recorded):
    recorded.write(
        "test_kernels.py",
        """
import pytest
from kernelpin import load_trace

def test_it(capture_trace):
    trace = capture_trace(print)
    assert capture_trace.json_of(trace).startswith(b"{")
    with pytest.raises(ValueError, match="not captured by this test"):
        capture_trace.json_of(load_trace(capture_trace.json_of(trace)))
""",
    )
    recorded.run().assert_outcomes(passed=1)
