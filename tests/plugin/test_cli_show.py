"""`kernelpin show TRACE`: a trace's dispatch tree, and its GPU time by family."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from kernelpin.cli import main

DATA = Path(__file__).parents[1] / "data"
LINEAR = DATA / "h200" / "linear_1024_32_64.eager.json.gz"
GEGLU = DATA / "h200" / "geglu_64_128_768_3072.eager.json.gz"
COMMAND = [sys.executable, "-c", "from kernelpin.cli import main; raise SystemExit(main())", "show"]


def case(name):
    return DATA / "cases" / f"{name}.json"


@pytest.fixture
def show(capsys):
    """Run `kernelpin show …` here: status, stdout, stderr."""

    def run(*args):
        status = main(["show", *map(str, args)])
        return (status, *capsys.readouterr())

    return run


def test_the_tree_and_the_families_are_shown(show):
    status, out, err = show(LINEAR)
    assert (status, err) == (0, "")
    assert out == dedent(f"""\
        {LINEAR}: NVIDIA H200, 3 steps, 3 kernels, 8.512 µs on the GPU

        ProfilerStep#2  (and 2 more steps like it)
        └─ fwd
           └─ aten::linear  bf16[1024,32] × bf16[64,32] × bf16[64]
              └─ aten::addmm
                 └─ nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT  2.848 µs

        family  count  a step  GPU time    share
        GEMM        3       1  8.512 µs  100.0 %
    """)


def test_families_are_sorted_by_their_time(show):
    table = show(GEGLU)[1].partition("\nfamily")[2].splitlines()
    assert [line.split()[:3] for line in table[1:]] == [
        ["GEMM", "9", "3"],
        ["elementwise", "6", "2"],
        ["fill", "6", "2"],
    ]


def test_ops_that_launch_nothing_are_shown_where_asked_for(show):
    assert "aten::as_strided" not in show(LINEAR)[1]
    assert "└─ aten::as_strided\n" in show("--ops", LINEAR)[1]


def test_one_step_is_shown_where_asked_for(show):
    out = show("--step", 3, GEGLU)[1]
    assert f"{GEGLU}: NVIDIA H200, ProfilerStep#3, 5 kernels, 259.8 µs on the GPU\n" in out
    assert "ProfilerStep#3\n" in out
    assert "ProfilerStep#2" not in out
    assert "elementwise      2       2" in out
    status, out, err = show("--step", 9, GEGLU)
    assert (status, out) == (2, "")
    assert err == f"kernelpin show: {GEGLU}: no ProfilerStep#9; there are 2, 3, 4\n"


def test_one_step_comes_as_json_where_asked_for(show):
    whole, one = (json.loads(show("--json", *o, GEGLU)[1]) for o in ((), ("--step", 3)))
    (step,) = one["steps"]
    assert step == whole["steps"][1]
    assert [k["name"] for k in one["kernels"]] == [
        k["name"] for k in whole["kernels"] if k["step"] == 1
    ]
    assert {k["step"] for k in one["kernels"]} == {0}
    assert sum(f["sum_ns"] for f in one["families"]) == step["sum_ns"]
    assert [op["name"] for op in one["ops"] if op["parent"] is None] == ["fwd"]
    assert one["ops"][one["kernels"][0]["op"]]["name"] == "aten::mm"


def test_what_another_step_lacks_is_not_said_of_the_one_shown(show):
    lost = case("profiler-lost-a-kernel")
    steps = [show("--step", n, lost)[1] for n in (2, 3, 4)]
    assert ["\nincomplete: 1 of 1 launches" in out for out in steps].count(True) == 1
    assert "without a launch" not in show("--step", 2, case("warm-up-kernel-leaks-in"))[1]


def test_names_are_shortened_unless_asked_for_in_full(show):
    assert "└─ vectorized_elementwise_kernel<gelu>  " in show(GEGLU)[1]
    assert "└─ void at::native::vectorized_elementwise_kernel<8, " in show("--full-names", GEGLU)[1]


def test_a_trace_of_the_cpu_is_shown_with_its_ops(show):
    status, out, _ = show(case("quotes-in-a-name"))
    assert status == 0
    assert f"{case('quotes-in-a-name')}: no GPU, 1 op\n" in out
    assert "warning: repaired: quotes inside a string at byte 75\n" in out
    assert "└─ aten::mm\n" in out
    assert "family" not in out


def test_lost_records_are_shown_where_they_are_missing(show):
    status, out, _ = show(case("profiler-lost-a-kernel"))
    assert status == 0
    assert "\nincomplete: 1 of 3 launches lost their GPU record" in out
    assert "\nProfilerStep#2  (and 1 more step like it)\n" in out
    assert "      └─ cudaLaunchKernel   ← its GPU record is lost\n" in out


def test_a_kernel_of_the_warm_up_is_shown_apart(show):
    out = show(case("warm-up-kernel-leaks-in"))[1]
    assert "3 steps, 3 kernels, 150.0 µs on the GPU\n" in out
    assert "\nwithout a launch: ampere_bf16_s16816gemm_" in out


def test_everything_comes_as_json(show):
    status, out, err = show("--json", GEGLU)
    shown = json.loads(out)
    assert (status, err) == (0, "")
    assert shown["schema"] == 1
    assert shown["complete"] is True
    assert shown["device"]["name"] == "NVIDIA H200"
    assert [step["kernels"] for step in shown["steps"]] == [7, 7, 7]
    assert {f["family"]: f["count"] for f in shown["families"]} == {
        "gemm": 9, "elementwise": 6, "fill": 6}  # fmt: skip
    gelu = next(k for k in shown["kernels"] if "GeluCUDAKernelImpl" in k["name"])
    assert shown["ops"][gelu["op"]]["name"] == "aten::gelu"
    assert shown["ops"][shown["ops"][gelu["op"]]["parent"]]["name"] == "fwd"
    assert shown["ops"][gelu["op"]]["shapes"] == [[64, 128, 3072], []]


def test_json_says_why_a_trace_is_incomplete_and_lists_strays(show):
    shown = json.loads(show("--json", case("launches-but-no-kernels"))[1])
    assert shown["complete"] is False
    assert "no GPU activity was recorded" in shown["incomplete"]
    strays = json.loads(show("--json", case("warm-up-kernel-leaks-in"))[1])["strays"]
    assert [(s["op"], s["step"]) for s in strays] == [(None, None)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory"),
        (b"# a readme", "byte 0"),
        (b"", ""),
        (LINEAR.read_bytes()[:1000], "gzip"),
        (b"{}", ""),
    ],
    ids=["no file", "no JSON", "empty", "cut gzip", "no trace"],
)
def test_what_cannot_be_read_is_one_line_on_stderr(show, tmp_path, content, words):
    path = tmp_path / "x.json"
    if content is not None:
        path.write_bytes(content)
    status, out, err = show(path)
    assert (status, out) == (2, "")
    assert err.startswith("kernelpin show: ")
    assert str(path) in err
    assert words in err
    assert err.count("\n") == 1


def test_a_name_cannot_drive_the_terminal(show, tmp_path):
    path = tmp_path / "evil.json"
    op = {"ph": "X", "cat": "cpu_op", "name": "a\x1b[2J\nb", "pid": 1, "tid": 1, "ts": 0, "dur": 1}
    path.write_text(json.dumps({"traceEvents": [op]}))
    assert "└─ a\\x1b[2J\\nb\n" in show(path)[1]


def test_wrong_use_has_exit_code_2_and_help_tells_the_codes(show, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["show"])
    with pytest.raises(SystemExit, match="0"):
        main(["show", "--help"])
    assert "exit codes: 0: shown; 2: the trace cannot be read" in capsys.readouterr().out


# -- as a process: pipes, terminals, encodings -----------------------------------------------------


def run(args, **environment):
    unset = ("NO_COLOR", "FORCE_COLOR", "TERM")
    kept = {k: v for k, v in os.environ.items() if k not in unset}
    return {"args": [*COMMAND, *map(str, args)], "env": kept | {"TERM": "xterm"} | environment}


def test_a_pipe_gets_no_colour_and_no_torch_is_imported():
    script = (
        "import sys; from kernelpin.cli import main; status = main(); "
        "assert not {'torch', 'numpy', 'scipy'} & sys.modules.keys(); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "show", LINEAR], capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\x1b" not in done.stdout


def test_a_trace_is_read_from_stdin():
    with LINEAR.open("rb") as trace:
        done = subprocess.run(**run(["-"]), stdin=trace, capture_output=True, timeout=60)
    assert done.returncode == 0
    assert "└─ aten::addmm" in done.stdout.decode()


def on_a_terminal(*args, **environment) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(**run(args, **environment), stdout=theirs, stderr=theirs)
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux says so at the end
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return b"".join(parts).decode()


def test_a_terminal_gets_colour_unless_it_is_not_wanted():
    colored = on_a_terminal(LINEAR)
    assert "\x1b[36mnvjet_sm90" in colored
    for unwanted in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        plain = on_a_terminal(LINEAR, **unwanted)
        assert "\x1b[" not in plain
        assert "nvjet_sm90" in plain


def test_an_output_without_these_characters_gets_plain_ones():
    done = subprocess.run(
        **run([LINEAR], PYTHONIOENCODING="ascii"), capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"`- aten::addmm\n" in done.stdout
    assert b"2.848 us\n" in done.stdout
