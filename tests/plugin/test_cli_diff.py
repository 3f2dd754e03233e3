"""`kernelpin diff TRACE TRACE`: the ops, kernels and times in which two traces differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelpin.cli import main

DATA = Path(__file__).parents[1] / "data"
EAGER = DATA / "h200" / "geglu_64_128_768_3072.eager.json.gz"
COMPILED = DATA / "h200" / "geglu_64_128_768_3072.compile.json.gz"


def case(name):
    return DATA / "cases" / f"{name}.json"


@pytest.fixture
def diff(capsys):
    """Run `kernelpin diff …` here: status, stdout, stderr."""

    def run(*args):
        status = main(["diff", *map(str, args)])
        return (status, *capsys.readouterr())

    return run


def rows(out: str, heading: str) -> dict[str, list[str]]:
    """A table of the output by its first column."""
    lines = out.partition(f"\n{heading}")[2].partition("\n\n")[0].splitlines()[1:]
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]
    return {name: rest for name, *rest in cells}


def test_what_compile_changes_is_listed(diff):
    status, out, err = diff(EAGER, COMPILED)
    assert (status, err) == (1, "")
    assert out.startswith(
        f"--- {EAGER}: NVIDIA H200, 3 steps, 15 kernels, 782.3 µs on the GPU\n"
        f"+++ {COMPILED}: NVIDIA H200, 3 steps, 12 kernels, 668.0 µs on the GPU\n"
    )
    ops = rows(out, "ops a step")
    assert ops["aten::t"] == ["3", "–"]
    assert ops["triton_poi_fused__unsafe_view_gelu_mul_0"] == ["–", "1"]
    assert "aten::mm" not in ops
    assert rows(out, "kernels a step") == {
        "vectorized_elementwise_kernel<gelu>": ["1", "–"],
        "vectorized_elementwise_kernel<mul>": ["1", "–"],
        "triton_poi_fused__unsafe_view_gelu_mul_0": ["–", "1"],
    }
    assert rows(out, "kernel time (median)") == {
        "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT": ["64.72 µs", "56.19 µs", "-13.2 %"],
        "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT": ["58.69 µs", "50.91 µs", "-13.2 %"],
    }


def test_a_trace_is_the_same_as_itself(diff):
    status, out, err = diff(EAGER, EAGER)
    assert (status, err) == (0, "")
    assert out.endswith("\n\nops: the same\n\nkernels: the same\n\nkernel times: the same\n")


def two_kernels(tmp_path, name, us, steps=2):
    """A trace of steps with one GEMM each of `us` microseconds."""
    events = []

    def event(cat, name, ts, dur, **args):
        events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur,
             "args": args}
        )  # fmt: skip

    for n in range(steps):
        event("user_annotation", f"ProfilerStep#{n}", 100 * n, 90)
        event("cpu_op", "aten::mm", 100 * n + 1, 80)
        event("cuda_runtime", "cudaLaunchKernel", 100 * n + 2, 1, correlation=n + 1)
        event("kernel", "gemm", 100 * n + 5, us, correlation=n + 1, stream=7, device=0)
        events[-1]["tid"] = 7
    path = tmp_path / name
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_times_alone_are_shown_and_are_no_difference(diff, tmp_path):
    slow, fast = two_kernels(tmp_path, "slow", 40), two_kernels(tmp_path, "fast", 20, steps=3)
    status, out, _ = diff(slow, fast)
    assert status == 0
    assert rows(out, "kernel time (median)") == {"gemm": ["40.00 µs", "20.00 µs", "-50.0 %"]}


def test_a_count_that_differs_between_steps_is_a_range(diff, tmp_path):
    path = two_kernels(tmp_path, "x", 10)
    events = json.loads(path.read_text())["traceEvents"]
    op = next(e for e in events if e["name"] == "aten::mm")
    again = tmp_path / "y"
    again.write_text(json.dumps({"traceEvents": [*events, {**op, "ts": 85, "dur": 1}]}))
    status, out, _ = diff(path, again)
    assert status == 1
    assert rows(out, "ops a step") == {"aten::mm": ["1", "1–2"]}
    assert "\nkernels: the same\n" in out


def test_everything_comes_as_json(diff):
    status, out, err = diff("--json", EAGER, COMPILED)
    found = json.loads(out)
    assert (status, err) == (1, "")
    assert (found["schema"], found["same"]) == (1, False)
    assert found["before"]["device"] == "NVIDIA H200"
    ops = {row["name"]: row for row in found["ops"]}
    assert ops["aten::mm"] == {"name": "aten::mm", "before": [3], "now": [3], "changed": False}
    fused = next(k for k in found["kernels"] if k["name"].startswith("triton_poi"))
    assert (fused["before"], fused["now"], fused["before_ns"]) == ([0], [1], None)
    assert json.loads(diff("--json", EAGER, EAGER)[1])["same"] is True


def test_an_incomplete_trace_is_not_compared(diff):
    status, out, err = diff(EAGER, case("profiler-lost-a-kernel"))
    assert (status, out) == (2, "")
    assert err.startswith(f"kernelpin diff: {case('profiler-lost-a-kernel')}: the trace is inc")
    assert err.count("\n") == 1


def test_what_cannot_be_read_is_one_line_on_stderr(diff, tmp_path):
    for args in ([EAGER, tmp_path / "none"], [tmp_path / "none", EAGER], ["-", "-"]):
        status, out, err = diff(*args)
        assert (status, out) == (2, "")
        assert err.startswith("kernelpin diff: ")
        assert err.count("\n") == 1


def test_help_tells_the_exit_codes(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["diff", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert "exit codes: 0: the same ops and kernels, as often; 1: they differ; 2: a trace" in out
