"""`kernelpin baselines list|diff|prune|accept`, as one uses it."""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from kernelpin.baselines import Measurement, Proposal, Store
from kernelpin.baselines_cli import register
from kernelpin.machine import Gpu
from kernelpin.stopwatch import Samples

H200 = Gpu(
    name="NVIDIA H200",
    slug="nvidia-h200",
    uuid="GPU-1",
    memory_bytes=150_754_820_096,
    sm_count=132,
    power_limit_w=700.0,
    mig=None,
    driver="580.159",
    cuda="13.0",
    torch="2.11.0+cu130",
    triton=None,
    compute_capability=(9, 0),
    sm_clock_max_mhz=1980,
)
A100 = replace(H200, name="NVIDIA A100-SXM4-80GB", slug="nvidia-a100-sxm4-80gb")
SLOW = "perf_tests/test_timings.py::test_time[mlp]"
SAME = "perf_tests/test_timings.py::test_time[linear]"
COUNTS = "perf_tests/test_counts.py::test_counts"


def main(argv):
    """The command `kernelpin` with `baselines` alone: exit code."""
    parser = argparse.ArgumentParser(prog="kernelpin")
    register(parser.add_subparsers(required=True))
    args = parser.parse_args(argv)
    return args.func(args)


def timed(test_id, median, verdict="SLOWER", processes=8, date="2026-11-30", mode="replace"):
    """A proposal of that many processes around a median."""
    given = [
        Samples(metric="device_us", values=(median * (1 + 0.001 * i),), method="graph", l2="hot")
        for i in range(-(processes // 2), processes - processes // 2)
    ]
    return Proposal(Measurement(test_id, H200, given, date, "3f9c1ab"), verdict, None, mode)


def counted(date="2026-11-30", **counts):
    given = [Samples(metric="counts", values=(), method="profiler", counts=counts)] * 2
    return Proposal(Measurement(COUNTS, H200, given, date), "SLOWER")


@pytest.fixture(scope="module", autouse=True)
def locks_of_their_own(tmp_path_factory):
    """A lock lies in the temporary folder for good, and these tests make many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("locks")))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with three baselines, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    Store("baselines").write_proposed(
        "first", [timed(SLOW, 40.0), timed(SAME, 7.0), counted(kernels=5, syncs=0)]
    )
    assert main(["baselines", "accept", "first"]) == 0
    return tmp_path


@pytest.fixture
def run(project, capsys):
    """The command's exit code, output and errors."""
    capsys.readouterr()

    def command(*args):
        code = main(["baselines", *map(str, args)])
        return code, *capsys.readouterr()

    return command


def propose(*proposals):
    Store("baselines").write_proposed("report/proposed", proposals)
    return "report/proposed"


def stored():
    return Store("baselines").entries("nvidia-h200")


class TestList:
    def test_shows_a_table_a_gpu(self, run):
        assert run("list") == (
            0,
            """\
nvidia-h200: 3 baselines
  test                                           metric     median               spread  processes    recorded  with
  perf_tests/test_counts.py::test_counts         counts     counts (torch 2.11)       –          –  2026-11-30  torch 2.11.0+cu130
  perf_tests/test_timings.py::test_time[linear]  device_us  6.996 µs             0.24 %          8  2026-11-30  torch 2.11.0+cu130
  perf_tests/test_timings.py::test_time[mlp]     device_us  39.98 µs             0.24 %          8  2026-11-30  torch 2.11.0+cu130
a time may grow by 3 % on a card that recorded it and by 5 % on another, unless its test's marker says otherwise; under 0.05 µs, on another card 0.1 µs a kernel (a fifth at most), no difference counts
""",  # noqa: E501
            "",
        )

    def test_shows_published_figures_with_their_band_and_source(self, run):
        ours = Path(__file__).parents[2] / "baselines"
        code, out, _ = run("list", "nvidia-a100-sxm4-80gb", "--baselines", ours)
        assert code == 0
        (line,) = [line for line in out.splitlines() if "[geglu-mlp-gate]" in line]
        assert " 190.0 µs  ±20 % " in line
        assert line.endswith("published  Profiling in PyTorch, part 2 (Hugging Face blog, 2026)")

    def test_shows_a_limit_that_a_file_sets_beside_those_that_hold_elsewhere(self, run):
        path = Path("baselines/nvidia-h200/test_timings.json")
        path.write_text(
            path.read_text().replace('"median": 39.98', '"limit": 0.075,\n      "median": 39.98')
        )
        lines = run("list")[1].splitlines()
        assert lines[1].endswith("  with                limit")
        assert [line.split()[-2:] for line in lines[3:5]] == [
            ["torch", "2.11.0+cu130"], ["7.5", "%"]]  # fmt: skip
        assert (
            lines[5].partition(";")[0].endswith("test's marker or the column limit says otherwise")
        )

    def test_of_counts_alone_speaks_of_no_limit(self, run):
        Path("baselines/nvidia-h200/test_timings.json").unlink()
        assert len(run("list")[1].splitlines()) == 3

    def test_of_an_unknown_gpu_names_those_there_are(self, run):
        code, _, err = run("list", "nvidia-h100")
        assert code == 2
        assert err == (
            "kernelpin: error: baselines: no baselines for nvidia-h100; there are: nvidia-h200\n"
        )

    def test_of_a_missing_folder_says_so(self, run):
        code, _, err = run("list", "--baselines", "elsewhere")
        assert (code, err) == (
            2,
            "kernelpin: error: elsewhere: no such folder; --baselines names another, "
            "and kernelpin record makes it\n",
        )

    def test_of_a_damaged_file_is_one_line_with_file_and_line(self, run):
        path = Path("baselines/nvidia-h200/test_counts.json")
        path.write_text(path.read_text().replace('"syncs": 0', '"syncs": zero'))
        code, _, err = run("list")
        assert code == 2
        assert err.startswith(f"kernelpin: error: {path}:13: no JSON: ")
        assert err.count("\n") == 1


class TestAccept:
    def test_asks_for_a_reason_and_writes_nothing_without(self, run):
        place = propose(timed(SLOW, 48.0, date="2026-12-01"), timed(SAME, 6.0, "FASTER"))
        before = stored()
        code, out, err = run("accept", place)
        assert code == 1
        assert stored() == before
        assert [line.split() for line in out.splitlines()[2:]] == [
            [SAME, "6.996", "µs", "5.997", "µs", "-14.3", "%", "-14.3", "%", "FASTER"],
            [SLOW, "39.98", "µs", "47.98", "µs", "+20.0", "%", "+20.0", "%", "SLOWER"],
        ]
        assert err == (
            "nothing is accepted yet: these got slower, and need a reason\n"
            f"  nvidia-h200: {SLOW}\n"
            'next: kernelpin baselines accept report/proposed --reason "…"\n'
        )

    def test_with_a_reason_stores_both(self, run):
        place = propose(timed(SLOW, 48.0, date="2026-12-01"), timed(SAME, 6.0, "FASTER"))
        code, out, err = run("accept", place, "--reason", "fp32 accumulation")
        assert (code, err) == (0, "")
        assert out.splitlines()[-1] == (
            "accepted 2 baselines into baselines/nvidia-h200/test_timings.json"
        )
        entries = stored()
        assert entries[SLOW].median == pytest.approx(47.98, abs=0.01)
        assert [r.reason for r in entries[SLOW].recordings] == ["fp32 accumulation"]
        assert entries[SAME].recordings[0].reason is None
        assert len(entries) == 3

    def test_takes_a_blank_reason_for_none(self, run):
        code, _, _ = run("accept", propose(timed(SLOW, 48.0)), "--reason", "  ")
        assert code == 1

    def test_shows_the_drift_since_the_first_accepted_value(self, run):
        run("accept", propose(timed(SLOW, 44.0)), "--reason", "one")
        _, out, _ = run("accept", propose(timed(SLOW, 48.0)), "--reason", "two")
        assert out.splitlines()[2].split()[5:9] == ["+9.1", "%", "+20.0", "%"]

    def test_names_what_is_counted_more(self, run):
        place = propose(counted(kernels=6, syncs=0))
        code, out, _ = run("accept", place)
        assert code == 1
        assert "torch 2.11: kernels 5 → 6" in out
        assert run("accept", place, "--reason", "a mask")[0] == 0

    def test_refuses_unclear_figures_and_takes_the_others(self, run):
        code, out, err = run("accept", propose(timed(SLOW, 48.0, "UNCLEAR"), timed(SAME, 6.0)))
        assert code == 1
        assert err == (
            f"refused: nvidia-h200: {SLOW}: UNCLEAR figures are no baseline; measure again\n"
        )
        assert "accepted 1 baseline into" in out
        assert stored()[SLOW].median == pytest.approx(39.98)

    def test_refuses_too_few_processes_with_the_command_that_records_more(self, run):
        _, _, err = run("accept", propose(timed(SLOW, 48.0, processes=5)), "--reason", "x")
        assert err == (
            f"refused: nvidia-h200: {SLOW}: recorded from 5 processes, a baseline needs 8: "
            f"kernelpin record -n 8 -- '{SLOW}'\n"
        )

    @pytest.mark.parametrize(
        "place",
        [
            "report",
            "report/proposed",
            "report/proposed/nvidia-h200",
            "report/proposed/nvidia-h200/test_timings.json",
        ],
    )
    def test_takes_a_report_a_folder_a_gpu_or_a_file(self, run, place):
        propose(timed(SAME, 6.0))
        Path("report/report.json").write_text("{}")
        assert run("accept", place)[0] == 0
        assert stored()[SAME].median < 6.1

    def test_takes_a_file_that_was_downloaded_anywhere(self, run):
        propose(timed(SAME, 6.0))
        shutil.copy("report/proposed/nvidia-h200/test_timings.json", "download.json")
        assert run("accept", "download.json")[0] == 0
        assert stored()[SAME].median < 6.1

    def test_twice_says_that_it_is_stored_already(self, run):
        place = propose(timed(SAME, 6.0))
        run("accept", place)
        assert run("accept", place) == (0, "1 baseline already stored\n", "")

    def test_of_a_folder_without_proposals_is_an_error(self, run):
        Path("report").mkdir()
        code, _, err = run("accept", "report")
        assert code == 2
        assert "report: holds no proposed baselines (<gpu>/<test module>.json)" in err
        assert run("accept", "nowhere")[2].endswith("nowhere: there is no such file or folder\n")
        Path("report/report.json").write_text("{}")
        told = ": the run that wrote this report proposes no baselines\n"
        assert run("accept", "report/proposed")[2].endswith(told)

    def test_of_stored_files_says_that_they_propose_nothing(self, run):
        assert run("accept", "baselines") == (1, "", "baselines proposes nothing\n")

    def test_of_a_damaged_proposal_writes_nothing(self, run):
        place = propose(timed(SAME, 6.0), counted(kernels=4, syncs=0))
        path = Path(place, "nvidia-h200/test_timings.json")
        path.write_bytes(path.read_bytes()[:300])
        before = stored()
        code, _, err = run("accept", place)
        assert code == 2
        assert "test_timings.json:" in err
        assert stored() == before

    def test_runs_where_torch_and_a_gpu_are_not(self, project):
        place = propose(timed(SLOW, 48.0))
        blocked = project / "blocked"
        blocked.mkdir()
        for name in ("torch", "numpy", "scipy", "pynvml", "triton"):
            (blocked / f"{name}.py").write_text("raise ImportError('not on this laptop')")
        code = (
            "import argparse, sys, kernelpin.baselines_cli as command\n"
            "parser = argparse.ArgumentParser()\n"
            "command.register(parser.add_subparsers())\n"
            "args = parser.parse_args()\n"
            "sys.exit(args.func(args))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, "baselines", "accept", place, "--reason", "why"],
            env={**os.environ, "PYTHONPATH": str(blocked)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert stored()[SLOW].median > 47


class TestDiff:
    def test_refuses_a_folder_of_baselines_that_proposes_nothing(self, run):
        code, out, err = run("diff", "baselines")
        assert (code, out) == (2, "")
        assert "baselines holds 3 baselines and proposes none" in err

    def test_against_a_proposal_shows_what_accepting_would_change(self, run):
        code, out, _ = run("diff", propose(timed(SLOW, 48.0), timed("perf_tests/t.py::new", 1.0)))
        assert code == 1
        assert [line.split() for line in out.splitlines()] == [
            ["nvidia-h200"],
            ["test", "was", "is", "change", "since", "the", "first"],
            ["perf_tests/t.py::new", "–", "999.5", "ns", "new"],
            [SLOW, "39.98", "µs", "47.98", "µs", "+20.0", "%", "+20.0", "%"],
        ]

    @pytest.fixture
    def committed(self, run):
        for command in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"],
        ):
            subprocess.run(["git", *command], check=True)
        return run

    def test_against_a_commit_shows_what_changed_since(self, committed):
        assert committed("diff") == (0, "no baseline differs from HEAD\n", "")
        committed("accept", propose(timed(SLOW, 48.0)), "--reason", "x")
        Store("baselines").remove("nvidia-h200", [COUNTS])
        code, out, _ = committed("diff", "HEAD")
        assert code == 1
        lines = out.splitlines()
        assert lines[2].split() == [
            SLOW, "39.98", "µs", "47.98", "µs", "+20.0", "%", "+20.0", "%",
        ]  # fmt: skip
        assert lines[3] == f"removed: nvidia-h200: {COUNTS}"

    def test_against_no_revision_is_an_error(self, committed):
        code, _, err = committed("diff", "no-such")
        assert code == 2
        assert "no-such: no such revision, and no such file or folder" in err

    def test_against_a_commit_with_a_name_that_is_no_text(self, committed):
        Path(os.fsdecode(b"baselines/note-\x96.txt")).write_text("x")
        for command in (
            ["add", "."],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
        ):
            subprocess.run(["git", *command], check=True)
        assert committed("diff") == (0, "no baseline differs from HEAD\n", "")

    def test_against_a_commit_with_a_damaged_file_names_it(self, committed):
        Path("baselines/nvidia-h200/test_counts.json").write_text("{")
        for command in (
            ["add", "."],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
        ):
            subprocess.run(["git", *command], check=True)
        Path("baselines/nvidia-h200/test_counts.json").unlink()
        code, _, err = committed("diff")
        assert code == 2
        assert "HEAD:baselines/nvidia-h200/test_counts.json:1: file ends early" in err


class TestPrune:
    def test_by_ids_says_what_it_would_delete_and_deletes_nothing(self, run):
        Path("ids").write_text(f"{SLOW}\n{SAME}\n\n2 tests collected in 0.1s\n")
        before = stored()
        assert run("prune", "--ids", "ids") == (
            1,
            "nvidia-h200: would delete 1 baseline without a test\n"
            f"  {COUNTS}\n"
            "to delete them: kernelpin baselines prune --ids ids --yes\n",
            "",
        )
        assert stored() == before

    def test_with_yes_deletes(self, run):
        Path("ids").write_text(f"{SLOW}\n{SAME}\n")
        code, out, _ = run("prune", "--ids", "ids", "--yes")
        assert code == 0
        assert out.startswith("nvidia-h200: deleted 1 baseline without a test\n")
        assert list(stored()) == [SAME, SLOW]
        assert not Path("baselines/nvidia-h200/test_counts.json").exists()
        assert run("prune", "--ids", "ids")[0] == 0

    def test_by_a_list_without_ids_judges_nothing(self, run):
        Path("ids").write_text("no tests collected, 1 error in 0.1s\n")
        code, _, err = run("prune", "--ids", "ids", "--yes")
        assert code == 2
        assert "ids: holds no test id (path::name): nothing is judged by it" in err
        assert len(stored()) == 3

    @pytest.mark.parametrize("name", ["ids", "-"])
    def test_by_what_is_no_text_judges_nothing(self, run, monkeypatch, name):
        Path("ids").write_bytes(b"test_x.py::test_\x96\n")
        stdin = io.TextIOWrapper(io.BytesIO(Path("ids").read_bytes()), encoding="utf-8")
        monkeypatch.setattr("sys.stdin", stdin)
        code, out, err = run("prune", "--ids", name, "--yes")
        assert (code, out) == (2, "")
        assert err == (
            f"kernelpin: error: {'stdin' if name == '-' else name}: byte 0x96 at offset 16 is no "
            "text in utf-8: give the test ids, one a line (`pytest --collect-only -q`)\n"
        )
        assert len(stored()) == 3

    @pytest.fixture
    def suite(self, run):
        """The tests of two baselines; one of them is deselected by the configuration."""
        Path("perf_tests").mkdir()
        Path("perf_tests/test_timings.py").write_text(
            "import pytest\n"
            "@pytest.mark.parametrize('name', ['mlp', pytest.param('linear', marks=pytest.mark.x)])"
            "\ndef test_time(name): pass\n"
        )
        Path("pytest.ini").write_text("[pytest]\naddopts = -m 'not x'\nmarkers =\n  x: one\n")
        return run

    def test_collects_the_tests_itself_and_sees_the_deselected_ones(self, suite, monkeypatch):
        monkeypatch.setenv("PYTEST_ADDOPTS", "--an-option-for-another-run")
        code, out, err = suite("prune")
        assert (code, err) == (1, "")
        assert f"would delete 1 baseline without a test\n  {COUNTS}\n" in out

    def test_does_not_judge_when_collecting_fails(self, suite):
        Path("perf_tests/test_counts.py").write_text("import nothing_of_that_name\n")
        code, _, err = suite("prune", "--yes")
        assert code == 2
        assert "collecting failed (pytest's exit code 2), nothing is judged:" in err
        assert "nothing_of_that_name" in err
        assert len(stored()) == 3

    @pytest.fixture
    def on(self, monkeypatch):
        """Say which GPU this machine has."""

        def has(gpu, why="no driver"):
            monkeypatch.setattr("kernelpin.machine.current_gpu", lambda: gpu)
            monkeypatch.setattr("kernelpin.machine.why_no_gpu", lambda: "" if gpu else why)

        return has

    @pytest.fixture
    def narrowed(self, suite):
        """`SAME` is collected with CUDA alone; the file of `COUNTS` is gone."""
        path = Path("perf_tests/test_timings.py")
        path.write_text(
            path.read_text().replace(", pytest.param('linear', marks=pytest.mark.x)", "")
        )
        return suite

    @pytest.mark.parametrize("gpu", [None, A100], ids=["no-gpu", "another"])
    def test_keeps_what_may_be_a_test_on_its_gpu_alone(self, narrowed, on, gpu):
        on(gpu)
        here = "no GPU, no driver" if gpu is None else "NVIDIA A100-SXM4-80GB"
        code, out, err = narrowed("prune", "--yes")
        assert (code, err) == (1, "")
        assert out == (
            f"nvidia-h200: deleted 1 baseline without a test\n  {COUNTS}\n"
            "nvidia-h200: kept 1 baseline whose test is not collected here, and may exist only on "
            f"that GPU (here: {here})\n  {SAME}\n"
            "to delete what is kept: prune on a machine with that GPU or, if those tests are gone "
            "there too: kernelpin baselines prune --everywhere --yes\n"
        )
        assert list(stored()) == [SAME, SLOW]

    def test_deletes_it_where_that_gpu_is(self, narrowed, on):
        on(H200)
        assert narrowed("prune", "--yes")[0] == 0
        assert list(stored()) == [SLOW]

    def test_deletes_it_everywhere_when_told_to(self, narrowed, on):
        on(None)
        code, out, _ = narrowed("prune", "--everywhere")
        assert code == 1
        assert out.endswith("to delete them: kernelpin baselines prune --everywhere --yes\n")
        assert narrowed("prune", "--everywhere", "--yes")[0] == 0
        assert list(stored()) == [SLOW]

    @pytest.mark.parametrize("gpu", [None, H200], ids=["no-gpu", "its-gpu"])
    @pytest.mark.parametrize("options", [[], ["--everywhere"]])
    def test_never_judges_a_module_that_is_skipped(self, suite, on, gpu, options):
        on(gpu)
        Path("perf_tests/test_counts.py").write_text(
            "import pytest\npytest.importorskip('no_such_kernels')\ndef test_counts(): pass\n"
        )
        code, out, _ = suite("prune", "--yes", *options)
        assert code == 0
        assert out == (
            "nvidia-h200: kept 1 baseline, not judged: perf_tests/test_counts.py was skipped while "
            "it was collected: could not import 'no_such_kernels': No module named "
            "'no_such_kernels'\n"
            "nothing to prune: no baseline is known to lack its test (2 tests)\n"
        )
        assert len(stored()) == 3

    def test_never_judges_a_module_that_is_not_looked_into(self, suite, on):
        on(H200)
        Path("perf_tests/test_counts.py").write_text("def test_counts(): pass\n")
        Path("conftest.py").write_text(
            "import pytest\n@pytest.hookimpl(wrapper=True)\n"
            "def pytest_collect_file(file_path):\n"
            "    found = yield\n    return [] if 'counts' in file_path.name else found\n"
        )
        code, _, _ = suite("prune", "--yes")
        assert code == 2  # pytest calls the file not found
        assert len(stored()) == 3

    @pytest.mark.parametrize("option", ["--lf", "--ff", "--sw", "--lf --lfnf=none", "-k=mlp"])
    def test_sees_what_the_last_run_of_the_tests_hides(self, suite, on, option):
        on(H200)
        Path("perf_tests/test_counts.py").write_text("def test_counts(): pass\n")
        Path("pytest.ini").write_text(f"[pytest]\naddopts = {option}\nmarkers =\n  x: one\n")
        failed = Path(".pytest_cache/v/cache/lastfailed")
        failed.parent.mkdir(parents=True)
        failed.write_text(f'{{"{SLOW}": true}}')
        code, out, _ = suite("prune", "--yes")
        assert (code, len(stored())) == (0, 3)
        assert out == "nothing to prune: no baseline is known to lack its test (3 tests)\n"
        assert failed.read_text() == f'{{"{SLOW}": true}}'

    def test_outside_of_the_project_judges_nothing(self, run):
        code, _, err = run("prune", "--yes")
        assert code == 2
        assert "no test module that baselines are of is here" in err
        assert len(stored()) == 3


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("list", 0, "39.98 us"),
        ("diff report/proposed", 1, "39.98 us  47.98 us"),
        ("accept report/proposed", 1, "39.98 us  47.98 us"),
        ("accept report/proposed --reason x", 0, "accepted 1 baseline into"),
        ("prune --ids ids", 1, "test_x[\\xfc-u]"),
        ("prune --ids ids --yes", 0, "test_x[\\xfc-u]"),
    ],
)
@pytest.mark.parametrize("encoding", ["ascii", "ascii:strict", "cp1252"])
def test_an_output_without_our_characters_ends_no_command(run, command, code, said, encoding):
    Store("baselines").write_proposed("more", [timed("perf_tests/test_x.py::test_x[\xfc-µ]", 7.0)])
    assert run("accept", "more")[0] == 0
    propose(timed(SLOW, 48.0))
    Path("ids").write_text(f"{SLOW}\n{SAME}\n{COUNTS}\n")
    main_ = "from kernelpin.cli import main; raise SystemExit(main())"
    done = subprocess.run(
        [sys.executable, "-c", main_, "baselines", *command.split()],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False)
    if encoding == "cp1252":
        said = said.replace(" us", " µs").replace("\\xfc-u", "\xfc-µ")
    assert said in done.stdout.decode(encoding.partition(":")[0])


def test_the_command_wants_one_of_its_own(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["baselines"])
    assert "COMMAND" in capsys.readouterr().err


class TestFromAFolderBelowTheProject:
    @pytest.mark.parametrize(
        "command", [["list"], ["prune", "--yes"], ["diff"], ["accept", "../report/proposed"]]
    )
    def test_it_says_where_the_baselines_are_and_makes_none(
        self, project, run, monkeypatch, command
    ):
        root = Path.cwd()
        (root / "pytest.ini").write_text("[pytest]\n")
        (root / "below").mkdir()
        monkeypatch.chdir(root / "below")
        code, out, err = run(*command)
        assert (code, out) == (2, "")
        assert "baselines: not in this folder" in err
        assert f"its rootdir, which is {root}: run this there" in err
        assert not Path("baselines").exists()
