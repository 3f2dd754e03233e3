"""A capture is whole or an error; whatever else profiles is refused, never a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from capture_scenarios import SCENARIOS
from small_trace import kernel, label, op, step, trace_json

from kernelpin import TraceError, profiling

GEMM = "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT"
HERE = Path(__file__).parent


# -- in processes of their own ------------------------------------------------------------------


@pytest.fixture(scope="module")
def endings():
    """How each scenario ended: its traceback or `passed`, its exit code, its standard error."""
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork: the scenarios would import torch once each")
    done = subprocess.run(
        [sys.executable, str(HERE / "capture_scenarios.py")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_in_a_process_of_its_own(endings, scenario):
    ending = endings[scenario]
    assert ending["ended"] == "passed", ending["ended"] or f"exit {ending['exit']}"
    assert ending["exit"] == 0
    if "profiler" not in scenario:  # the others log as they please
        assert "USDT" not in ending["stderr"]


# -- of recorded bytes, without torch --------------------------------------------------------------


def gpu_step(*names, lost=False):
    return step(label("kernelpin", op("aten::mm", *(kernel(name, lost=lost) for name in names))))


WHOLE = trace_json(gpu_step(GEMM), gpu_step(GEMM), gpu_step(GEMM))
LOST = trace_json(gpu_step(GEMM), gpu_step(GEMM, lost=True), gpu_step(GEMM))
LATE = trace_json(gpu_step(GEMM), gpu_step(GEMM))


@pytest.fixture
def profiled(monkeypatch):
    """The profiler gives these traces, one after another; returns how many it gave."""

    def gives(*traces):
        given = []

        def profile(watching, fn, args, *rest):
            fn(*args)
            given.append(rest)
            return traces[len(given) - 1]

        monkeypatch.setattr(profiling, "watch", nullcontext)
        monkeypatch.setattr(profiling, "_profile", profile)
        return given

    return gives


def nothing():
    pass


def test_a_whole_trace_is_taken_at_once(profiled):
    given = profiled(WHOLE)
    recording = profiling.record(nothing, cuda=False)
    assert len(given) == 1
    assert recording.data == WHOLE
    assert [kernel.name for kernel in recording.trace.kernels] == [GEMM] * 3


def test_a_trace_with_something_missing_is_taken_again(profiled):
    given = profiled(LOST, WHOLE)
    assert profiling.capture_bytes(nothing, cuda=False) == WHOLE
    assert len(given) == 2


def test_a_trace_with_something_missing_twice_is_an_error_that_keeps_it(profiled):
    profiled(LATE, LOST)
    with pytest.raises(TraceError) as caught:
        profiling.capture(nothing, cuda=False, warmup=7)
    assert caught.value.data == LOST
    assert str(caught.value) == (
        "the trace of nothing is not whole, 2 times over: the trace is incomplete: 1 of 3 launches "
        "lost their GPU record, the first: cudaLaunchKernel at 14.000 µs under aten::mm in "
        "ProfilerStep#3; record it again, with a synchronisation before the profiler stops; if the "
        "function does something else from call to call, make its calls alike, or warm it up for "
        "longer than warmup=7"
    )


def test_an_object_that_is_called_is_named_by_its_class(profiled):
    class Block:
        def __call__(self):
            pass

    profiled(WHOLE)
    assert profiling.capture(Block(), cuda=False).source.endswith("Block")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 0}, "steps=0: allowed is a whole number from 1 on"),
        ({"steps": 2.0}, "steps=2.0: allowed is a whole number from 1 on"),
        ({"steps": True}, "steps=True: allowed is a whole number from 1 on"),
        ({"warmup": -1}, "warmup=-1: allowed is a whole number from 0 on"),
        ({"label": ""}, "label '': allowed is printable ASCII"),
        ({"label": 'say "x"'}, "without quotes and backslashes"),
        ({"label": "a\\b"}, "without quotes and backslashes"),
        ({"label": "a\nb"}, "label 'a\\nb'"),
        ({"label": "grün"}, "label 'grün'"),
        ({"label": "ProfilerStep#3"}, "ProfilerStep#… is its own"),
    ],
)
def test_an_option_out_of_range_is_refused_before_anything_runs(options, said):
    with pytest.raises(ValueError, match="allowed is") as caught:
        profiling.capture(pytest.fail, "it ran", **options)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "written",
    [
        b'{"host_name": "node-17", "traceEvents": [], "traceName": "/home/me/t.json"}',
        b'{"host_name":"node \\" 17","traceEvents":[],"traceName":"/home/me/t.json"}',
        b'{\n  "host_name" : "node-17",\n "traceEvents": [],\n"traceName": "/home/me/t.json"\n}\n',
    ],
)
def test_names_of_hosts_and_paths_are_blanked(written):
    blanked = profiling._PRIVATE.sub(rb'\1""', written)
    assert json.loads(blanked) == {"host_name": "", "traceEvents": [], "traceName": ""}


def test_importing_the_capture_imports_no_torch():
    code = "import sys, kernelpin.profiling; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- on the GPU ----------------------------------------------------------------------------------


@pytest.mark.gpu
def test_a_capture_on_the_gpu_has_every_kernel_in_its_step():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    linear = torch.nn.Linear(64, 64, device="cuda")
    x = torch.randn(128, 64, device="cuda")
    for _ in range(5):
        trace = profiling.capture(lambda: linear(linear(x)), steps=4)
        assert trace.lost == ()
        assert trace.strays == ()
        assert trace.device is not None
        assert [sum(k.family == "gemm" for k in s.kernels) for s in trace.steps] == [2] * 4
        assert {call.op.name for call in trace.calls("cudaDeviceSynchronize") if call.step} == {
            step.name for step in trace.steps
        }
