"""An error of ours is shown at the line that is wrong, without frames of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data"
HEAD = f"""
import io
import pytest
import torch
from kernelpin import capture, decode_kernel_name, expect, load_trace

GPU = load_trace({str(DATA / "h200" / "linear_4096.eager.json.gz")!r})
NO_GPU = load_trace({str(DATA / "cases" / "launches-but-no-kernels.json")!r})

def profiled():
    try:
        with torch.profiler.profile():
            pass
    except RuntimeError:
        pass

def test(monkeypatch):
"""
# What is said, by the statement that is wrong.
WRONG = {
    "load_trace('nothing.json')": "TraceError: 'nothing.json': cannot be read",
    "load_trace(b'')": "TraceError: <bytes>: is empty",
    "load_trace(b'# a readme')": "TraceError: <bytes>: no valid JSON at byte 0",
    "load_trace(b'{\"traceEvents\": [')": "TraceError: <bytes>: no valid JSON at byte 17",
    "load_trace(b'{\"a\": 1}')": "TraceError: <bytes>: is JSON but no trace",
    "load_trace(b'[]')": "TraceError: <bytes>: ",
    "load_trace(b'[' * 100_000)": "TraceError: <bytes>: ",
    "load_trace(b'\\x1f\\x8b123')": "TraceError: <bytes>: damaged gzip",
    "load_trace(io.StringIO('{}'))": "TraceError: <file>: is open as text",
    "load_trace(5)": "TypeError: load_trace() takes a path, bytes or a file",
    "decode_kernel_name(None)": "TypeError: decode_kernel_name() takes a kernel's name, a str, not",
    "decode_kernel_name(['gemm'])": "TypeError: decode_kernel_name() takes a kernel's name",
    "NO_GPU.require_complete()": "TraceError: ",
    "expect('trace.json')": "TypeError: expect() takes a Trace, Step or Op, not str",
    "expect(GPU).launches(-1)": "ValueError: a claim counts whole numbers from 0, not -1",
    "expect(GPU).launches(1, 'gem')": "ValueError: no kernel family 'gem'",
    "expect(GPU).launches(1, 5)": "ValueError: no kernel family 5",
    "expect(GPU).under('')": "ValueError: name at least one op",
    "expect(GPU).does_not_dispatch('aten::ad')": "ValueError: 'aten::ad' is no op",
    "expect(GPU).does_not_call('aten::add')": "ValueError: 'aten::add' is no runtime call",
    "expect(GPU).copies_nothing('DtoX')": "ValueError: no kind of copy 'DtoX'",
    "expect(GPU).is_overhead_bound('much')": "ValueError: an idle share lies between 0 and 1",
    "expect(GPU).launches_the_same_kernels_as(5)": "TypeError: expect() takes a Trace",
    "expect(NO_GPU).launches(1)": "TraceError: ",
    "expect(NO_GPU).is_compute_bound()": "TraceError: ",
    "capture(print, steps=0)": "ValueError: steps=0: allowed is a whole number from 1 on",
    "capture(print, label='\"')": "ValueError: label '\"': allowed is printable ASCII",
    "capture(5)": "TypeError: 'int' object is not callable",
    "with torch.profiler.profile(): capture(list)": "CaptureError: a torch profiler is recording",
}


def shown(pytester, *lines):
    """What pytest shows of a test of these lines: each frame's, or its file, and the words."""
    source = HEAD + "".join(f"    {line}\n" for line in lines)
    path = pytester.makepyfile(source)
    (report,) = pytester.inline_run(path).getfailures()
    frames = [
        (Path(entry.reprfileloc.path).name, entry.reprfileloc.lineno)
        for traceback, _, _ in report.longrepr.chain
        for entry in traceback.reprentries
    ]
    text = path.read_text(encoding="utf-8").splitlines()
    told = [text[line - 1].strip() if file == path.name else file for file, line in frames]
    return told, report.longrepr.reprcrash.message


@pytest.mark.parametrize("statement", WRONG)
def test_the_wrong_line_is_all_that_is_shown(pytester, statement):
    lines, message = shown(pytester, statement)
    assert lines == [statement]
    assert message.removeprefix("kernelpin.").startswith(WRONG[statement])


def test_a_view_that_cannot_be_read_is_shown_at_the_line_that_asked(pytester):
    op = "op = GPU.ops('aten::t')[0]"
    lines, message = shown(
        pytester, op, "monkeypatch.setattr(GPU._c, 'op_args', [b'{'] * 99)", "op.shapes"
    )
    assert lines == ["op.shapes"]
    assert "the args of aten::t cannot be read" in message


def test_a_warning_that_is_an_error_is_shown_at_the_load(pytester):
    load = f"load_trace({str(DATA / 'cases' / 'inf-in-args.json')!r})"
    lines, message = shown(pytester, "import warnings", "warnings.simplefilter('error')", load)
    assert lines == [load]
    assert message.startswith("kernelpin.KernelpinWarning: ")


def test_a_copy_of_unknown_kind_is_shown_at_the_claim(pytester, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "unit")
    claim = "expect(trace).copies_nothing('DtoH')"
    lines, message = shown(
        pytester,
        "from small_trace import memcpy, op, small_trace",
        "trace = small_trace(op('aten::mm', memcpy(name='Memcpy (odd)')))",
        claim,
    )
    assert lines == [claim]
    assert "the kind of the copy 'Memcpy (odd)' is not told by its name" in message


def test_of_a_profiler_in_the_captured_function_its_start_is_shown(pytester):
    lines, message = shown(pytester, "capture(profiled)")
    assert message.startswith("kernelpin.CaptureError: the captured function starts or stops")
    assert lines[:2] == ["capture(profiled)", "with torch.profiler.profile():"]
    assert set(lines[2:]) == {"profiler.py"}  # torch's own, down to the refusal


def test_of_an_error_in_the_captured_function_its_own_lines_are_shown(pytester):
    lines, message = shown(pytester, "def divide():", "    1 / 0", "capture(divide)")
    assert message.startswith("ZeroDivisionError")
    assert lines == ["capture(divide)", "1 / 0"]


def test_a_fault_of_ours_keeps_its_frames(pytester):
    fault = "fault = lambda name, data: {}[name]"
    lines, message = shown(
        pytester,
        "import kernelpin.kineto",
        fault,
        "monkeypatch.setattr(kernelpin.kineto, 'load_sound', fault)",
        "load_trace(b'[]')",
    )
    assert message.startswith("KeyError")
    assert lines == ["load_trace(b'[]')", "__init__.py", fault]
