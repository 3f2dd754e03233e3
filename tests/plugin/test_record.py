"""`kernelpin record`: many processes, stored baselines, and going on after an interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from small_project import GPU, figures, heed_signals, stand_in_for_a_gpu

from kernelpin.cli import main
from kernelpin.record import journal_for
from kernelpin.workers import Journal, Replay, alone_with, encode


@pytest.fixture
def recording(project, monkeypatch):
    """A project that is recorded from played figures by the command itself."""
    project.timing_tests("test_a", "test_b")
    project.write("test_other.py", "def test_it(): raise RuntimeError\n")
    for name in ("test_a", "test_b"):
        project.measured(name, *figures(41.2, 12, seed=1))
    project.write("replay.jsonl", b"".join(encode(r) + b"\n" for r in project._results).decode())
    monkeypatch.chdir(project.path)
    monkeypatch.setenv("TMPDIR", str(project.path))
    monkeypatch.setattr("tempfile.tempdir", str(project.path))
    return project


def test_it_stores_what_that_many_processes_measured_and_runs_nothing_else(recording, capfd):
    assert main(["record", "-n", "9", "--", "--kernelpin-replay=replay.jsonl", "-q"]) == 0
    stored = recording.stored()
    assert set(stored) == {"test_speed.py::test_a", "test_speed.py::test_b"}
    assert all(len(entry.processes) == 9 for entry in stored.values())
    assert "recorded: 2 baselines in baselines" in capfd.readouterr().out
    assert not journal_for(["--kernelpin-replay=replay.jsonl", "-q"]).exists()


def test_add_puts_the_figures_beside_the_old_ones(recording, capfd):
    recording.baseline("test_a", figures(41.2, 8))
    assert main(["record", "-n", "8", "--add", "--", "--kernelpin-replay=replay.jsonl"]) == 0
    entry = recording.stored()["test_speed.py::test_a"]
    assert len(entry.processes) == 16
    assert len(entry.recordings) == 2


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["record", "-n", "4"], 2, "a baseline needs at least 8 processes"),
        (["record", "--", "nowhere.py"], 2, "file or directory not found: nowhere.py"),
    ],
)
def test_wrong_use_is_exit_2(recording, capfd, arguments, status, said):
    assert main(arguments) == status
    captured = capfd.readouterr()
    assert said in captured.out + captured.err


@pytest.mark.parametrize(
    ("arguments", "unknown"), [(["-m", "gpu"], "-m"), (["-n", "12", "tests", "-xk", "mlp"], "-xk")]
)
def test_an_argument_of_pytests_before_the_dashes_is_told_where_it_goes(
    recording, capsys, arguments, unknown
):
    with pytest.raises(SystemExit, match="2"):
        main(["record", *arguments])
    err = capsys.readouterr().err
    assert err.startswith("usage: kernelpin record [-n N]")
    assert f"\nkernelpin record: error: unrecognized arguments: {unknown}" in err
    assert err.endswith("; pytest's own go after --, as in: kernelpin record -- -m gpu tests\n")
    assert not recording.stored()


def test_in_ci_it_is_refused(recording, capfd, monkeypatch):
    monkeypatch.setenv("CI", "1")
    assert main(["record", "--", "--kernelpin-replay=replay.jsonl"]) == 2
    told = capfd.readouterr().err
    assert "kernelpin record: baselines are read-only where CI is set (CI=1)" in told
    assert "say CI=false kernelpin record" in told


def record_command(*arguments):
    """The command in a process of its own."""
    code = "import sys; from kernelpin.cli import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", code, "record", *arguments]


def wait_until(condition):
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.1)


def measured(project, *process_figures):
    project.forget()
    project.measured("test_a", *process_figures)
    path = project.path / "source.jsonl"
    path.write_bytes(b"".join(encode(result) + b"\n" for result in project._results))
    return Replay(path)


def processes(journal, number):
    """The figures of test_a in so many processes."""
    results = [journal.measure(["test_speed.py::test_a"]) for _ in range(number)]
    return [result["test_speed.py::test_a"].samples.figure for result in results]


def test_a_journal_gives_again_what_was_measured_and_measures_the_rest(project):
    path = project.path / "journal.jsonl"
    assert processes(Journal(measured(project, 1.0, 2.0, 3.0), path), 3) == [1.0, 2.0, 3.0]
    again = Journal(measured(project, 4.0, 5.0), path, GPU)
    assert processes(again, 5) == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_journal_cut_off_in_the_middle_of_a_line_loses_that_line_alone(project):
    path = project.path / "journal.jsonl"
    processes(Journal(measured(project, 1.0, 2.0, 3.0), path), 3)
    path.write_bytes(path.read_bytes()[:-40])
    assert processes(Journal(measured(project, 9.0), path), 3) == [1.0, 2.0, 9.0]


def test_what_another_gpu_measured_is_not_given_again(project):
    path = project.path / "journal.jsonl"
    processes(Journal(measured(project, 1.0), path), 1)
    other = replace(GPU, torch="2.13.0")
    assert processes(Journal(measured(project, 9.0), path, other), 1) == [9.0]


def test_failures_are_not_noted(project):
    path, test = project.path / "journal.jsonl", "test_speed.py::test_a"
    project.forget()
    project.result("test_a", outcome="failed")
    source = project.path / "source.jsonl"
    source.write_bytes(encode(project._results[0]) + b"\n")
    Journal(Replay(source), path).measure([test])
    assert not path.exists() or not path.read_bytes()


def git(*arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize("state", ["no git", "no commit", "untracked", "changed"])
def test_a_recording_of_other_code_has_another_journal(recording, state):
    recording.write("model.py", "SIZE = 1\n")
    if state != "no git":
        git("init", "-q")
    if state == "no commit":
        git("add", ".")
    if state in ("untracked", "changed"):
        git("add", *(["."] if state == "changed" else ["test_speed.py"]))
        git("commit", "-q", "-m", "first")
    before = journal_for([])
    assert journal_for([]) == before
    recording.write("model.py", "SIZE = 2\n")
    assert journal_for([]) != before
    recording.write("model.py", "SIZE = 1\n")
    assert journal_for([]) == before


@pytest.mark.parametrize("state", ["untracked", "changed", "deleted"])
def test_baselines_are_no_code(recording, state):
    """Else what was stored before a test failed would have the others measured again."""
    git("init", "-q")
    if state != "untracked":
        recording.baseline("test_a", figures(41.2, 12))
    git("add", ".")
    git("commit", "-q", "-m", "first")
    before = journal_for([])
    if state == "deleted":
        (recording.path / "baselines/nvidia-h200/test_speed.json").unlink()
    else:
        recording.baseline("test_a", figures(45.3, 12))
    assert journal_for([]) == before
    # What only looks like one, or lies beside them, may be read by a test.
    for name in ("fold_map.json", "shapes.json"):
        recording.write(f"baselines/nvidia-h200/{name}", "{}")
        assert journal_for([]) != before
        (recording.path / f"baselines/nvidia-h200/{name}").unlink()


def test_the_report_is_no_code(recording):
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    for option in (["--kernelpin-report=out"], ["--kernelpin-report", "out"]):
        before = journal_for(option)
        recording.write("out/report.json", str(option))
        assert journal_for(option) == before
        (recording.path / "out/report.json").unlink()
    before = journal_for([])
    recording.write("out/report.json", "{}")
    assert journal_for([]) != before


def test_a_file_that_the_run_leaves_makes_another_checkout_and_that_is_told(recording, capfd):
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    recording.forget()
    recording.measured("test_a", *figures(41.2))
    recording.result("test_b", outcome="failed", message="out of memory")
    replay = recording.path / "replay.jsonl"
    replay.write_bytes(b"".join(encode(r) + b"\n" for r in recording._results))
    command = ["record", "--", f"--kernelpin-replay={replay}", "test_speed.py"]
    assert main([*command, "--junitxml=junit.xml"]) == 1
    told = capfd.readouterr().err
    assert "kept, but the checkout is another now, so that the next recording begins anew" in told
    assert "goes on from there; or let git ignore such files" in told


@pytest.mark.parametrize("mode", [[], ["--add"]])
def test_what_was_stored_is_not_measured_again_where_another_test_failed(
    recording, capfd, tmp_path_factory, mode
):
    """The same command goes on from it, as it says."""
    outside = tmp_path_factory.mktemp("outside")
    recording.monkeypatch.setenv("TMPDIR", str(outside))
    recording.monkeypatch.setattr("tempfile.tempdir", str(outside))
    replay = outside / "replay.jsonl"

    def play(now, failed):
        recording.forget()
        recording.measured("test_a", *figures(now))
        if failed:
            recording.result("test_b", outcome="failed", message="out of memory")
        else:
            recording.measured("test_b", *figures(now, seed=1))
        replay.write_bytes(b"".join(encode(r) + b"\n" for r in recording._results))

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    command = ["record", *mode, "--", f"--kernelpin-replay={replay}", "test_speed.py"]
    play(41.2, failed=True)
    assert main(command) == 1
    assert "what was measured is kept" in capfd.readouterr().err
    play(41.5, failed=False)
    assert main(command) == 0
    out = capfd.readouterr().out
    assert "going on from 12 finished processes of a run begun " in out
    assert "recorded: 2 baselines in baselines, 1 of them stored already" in out
    stored = recording.stored()
    assert stored["test_speed.py::test_a"].processes == pytest.approx(figures(41.2), rel=1e-5)
    assert stored["test_speed.py::test_b"].processes == pytest.approx(figures(41.5, seed=1))


@pytest.mark.parametrize("how", ["PYTHONPATH", "editable", "submodule"])
def test_code_outside_of_the_repository_counts_too(recording, tmp_path_factory, how):
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    outside = tmp_path_factory.mktemp("outside")
    (outside / "model.py").write_text("SIZE = 1\n")
    if how == "PYTHONPATH":
        recording.monkeypatch.setenv("PYTHONPATH", str(outside), prepend=os.pathsep)
    elif how == "editable":
        site = tmp_path_factory.mktemp("site")
        (site / "model-1.dist-info").mkdir()
        told = {"url": outside.as_uri(), "dir_info": {"editable": True}}
        (site / "model-1.dist-info/direct_url.json").write_text(json.dumps(told))
        (site / "model-1.dist-info/METADATA").write_text("Name: model\nVersion: 1\n")
        recording.monkeypatch.syspath_prepend(site)
    else:
        git("-C", str(outside), "init", "-q")
        git("-C", str(outside), "add", ".")
        git("-C", str(outside), "commit", "-q", "-m", "first")
        allowed = ("-c", "protocol.file.allow=always")
        git(*allowed, "submodule", "--quiet", "add", str(outside), "library")
        git("commit", "-q", "-m", "second")
        outside = recording.path / "library"
        # That it is changed is not all that counts.
        (outside / "model.py").write_text("SIZE = 3\n")
    before = journal_for([])
    assert journal_for([]) == before
    (outside / "model.py").write_text("SIZE = 2\n")
    assert journal_for([]) != before


def test_code_beside_the_folder_it_is_recorded_from_counts_too(recording, monkeypatch):
    recording.write("model.py", "SIZE = 1\n")
    recording.write("tests/test_more.py", "")
    monkeypatch.chdir(recording.path / "tests")
    before = journal_for([])
    recording.write("model.py", "SIZE = 2\n")
    assert journal_for([]) != before


def test_what_a_budget_cut_goes_on_with_a_larger_one():
    without = journal_for(["-q", "tests"])
    assert journal_for(["-q", "--kernelpin-budget=4", "tests"]) == without
    assert journal_for(["--kernelpin-budget", "50", "-q", "tests"]) == without
    assert journal_for(["-q", "4"]) != journal_for(["-q"]) != without


def test_another_version_of_an_installed_package_has_another_journal(tmp_path, monkeypatch):
    before = journal_for([])
    monkeypatch.syspath_prepend(tmp_path)
    record = tmp_path / "kernels-1.0.dist-info/RECORD"
    record.parent.mkdir()
    (record.parent / "METADATA").write_text("Metadata-Version: 2.1\nName: kernels\nVersion: 1.0\n")
    record.write_text("kernels.py,sha256=abc,3\n")
    installed = journal_for([])
    record.write_text("kernels.py,sha256=xyz,3\n")
    assert len({before, installed, journal_for([])}) == 3


def test_two_at_once_do_not_share_a_journal(recording, capfd):
    arguments = ["--kernelpin-replay=replay.jsonl"]
    with FileLock(journal_for(arguments).with_suffix(".lock")):
        assert main(["record", "--", *arguments]) == 2
    assert "the same recording is at work in another process" in capfd.readouterr().err
    assert main(["record", "--", *arguments]) == 0


def test_a_recording_whose_command_was_killed_is_not_begun_beside_it(project):
    """Its pytest lives on, measures and stores: every figure is stored once."""
    measured = stand_in_for_a_gpu(project)
    project.timing_tests("test_a")
    # It is alone again once the second command was refused.
    slow = 'note("time"); sleep(0.1 if os.path.exists("refused") else 0.7)'
    text = (project.path / "conftest.py").read_text().replace('note("time")', slow)
    project.write("conftest.py", "from time import sleep\n" + text)
    project.monkeypatch.chdir(project.path)
    command = record_command("-n", "8", "--add", "--", "test_speed.py")
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: measured.exists() and measured.read_text().count("time") >= 2)
    first.kill()
    first.wait()
    second = subprocess.run(command, capture_output=True, text=True)
    (project.path / "refused").touch()
    assert second.returncode == 2
    assert "the same recording is at work in another process (pytest, process " in second.stderr
    assert "): wait for it, or end that one" in second.stderr
    (journal,) = Path(os.environ["TMPDIR"]).glob("kernelpin-*/record-*.jsonl")
    wait_until(lambda: not journal.with_suffix(".pid").exists())
    entry = project.stored()["test_speed.py::test_a"]
    assert [recording.processes for recording in entry.recordings] == [8]
    # It took its figures from the journal, so that they are not stored again.
    assert journal.read_bytes() == b""


def test_pytest_itself_is_alone_with_a_journal(recording, capfd):
    arguments = ["--kernelpin-replay=replay.jsonl"]
    with alone_with(journal_for(arguments)):
        assert main(["record", "--", *arguments]) == 2
        told = f"in another process (pytest, process {os.getpid()}): wait for it, or end that one"
        assert told in capfd.readouterr().err
        option = f"--kernelpin-journal={journal_for(arguments)}"
        assert subprocess.run([sys.executable, "-m", "pytest", *arguments, option]).returncode == 4
        assert told in capfd.readouterr().err


@pytest.mark.parametrize(("known", "status"), [(2, 0), (3, 1), (8, 1)])
def test_add_refuses_figures_that_are_stored_already(recording, capfd, known, status):
    """Of two figures alike a coarse clock can be the reason."""
    played = figures(41.2, 12, seed=1)
    recording.baseline("test_a", [*played[:known], *figures(41.2, 12 - known, seed=2)])
    arguments = ["--kernelpin-replay=replay.jsonl", "test_speed.py"]
    assert main(["record", "--add", "--", *arguments]) == status
    stored = recording.stored()
    assert len(stored["test_speed.py::test_a"].processes) == (24 if status == 0 else 12)
    assert len(stored["test_speed.py::test_b"].processes) == 12
    told = (
        f"not recorded: {known} of its 12 figures are stored already, in the recording of "
        "2026-08-14 (12 processes), and a process counts once: measure anew and add that "
        "(kernelpin record --add --fresh -- …)"
    )
    assert (told in capfd.readouterr().out) == (status == 1)


def test_a_recording_that_is_stored_as_a_whole_is_not_added_again(recording, capfd):
    """Of another day and commit: it went on past midnight, and what it stored is a change."""
    recording.baseline("test_a", figures(41.2, 12, seed=1))
    arguments = ["--kernelpin-replay=replay.jsonl", "test_speed.py"]
    assert main(["record", "--add", "--", *arguments]) == 0
    assert len(recording.stored()["test_speed.py::test_a"].processes) == 12
    assert "recorded: 2 baselines in baselines, 1 of them stored already" in capfd.readouterr().out


@pytest.mark.parametrize(("hours", "figure"), [(1, 7.0), (25, 41.2)])
def test_a_journal_older_than_a_day_is_not_used(recording, hours, figure):
    arguments = ["--kernelpin-replay=replay.jsonl"]
    journal = journal_for(arguments)
    processes(Journal(measured(recording, *figures(7.0, 12)), journal, GPU), 12)
    then = time.time() - hours * 3600
    os.utime(journal, (then, then))
    assert main(["record", "--", *arguments]) == 0
    entry = recording.stored()["test_speed.py::test_a"]
    assert entry.median == pytest.approx(figure, rel=0.01)


def continued(project, arguments, *process_figures):
    """Let the recording with these arguments go on from a run that measured this of test_a."""
    journal = Journal(measured(project, *process_figures), journal_for(arguments), GPU)
    journal._begun -= 14 * 60
    processes(journal, len(process_figures))


@pytest.mark.parametrize("then", [(45.3,), (45.3, 45.35, 45.27), figures(45.3, 11)])
def test_figures_of_two_codes_are_not_stored_as_one_recording(recording, capfd, then):
    """The code that is timed may lie where no key knows of it."""
    arguments = ["--kernelpin-replay=replay.jsonl", "test_speed.py"]
    continued(recording, arguments, *then)
    assert main(["record", "--", *arguments]) == 1
    out, err = capfd.readouterr()
    many = "1 finished process" if len(then) == 1 else f"{len(then)} finished processes"
    assert (
        f"going on from {many} of a run begun 14 minutes ago per test; "
        "kernelpin record --fresh begins anew" in out
    )
    assert "not recorded: " in out
    assert " of a run begun 14 minutes ago measured 45." in out
    assert " of this run measured 41." in out
    assert "%, allowed are 3 % either way" in out
    assert "The code or the machine may have changed in between" in out
    assert list(recording.stored()) == ["test_speed.py::test_b"]
    assert "what was measured is kept" in err
    # As the message says: it is measured anew.
    assert main(["record", "--", *arguments]) == 0
    entry = recording.stored()["test_speed.py::test_a"]
    assert (len(entry.processes), entry.median) == (12, pytest.approx(41.2, rel=0.01))


def test_figures_of_two_runs_that_agree_are_one_recording(recording, capfd):
    arguments = ["--kernelpin-replay=replay.jsonl", "test_speed.py"]
    continued(recording, arguments, *figures(41.9, 3))
    assert main(["record", "--", *arguments]) == 0
    figures_now = recording.stored()["test_speed.py::test_a"].processes
    assert figures_now[:3] == pytest.approx(figures(41.9, 3), rel=1e-5)


def test_a_recording_begun_anew_tells_of_nothing_before(recording, capfd):
    arguments = ["--kernelpin-replay=replay.jsonl", "test_speed.py"]
    continued(recording, arguments, *figures(45.3, 3))
    assert main(["record", "--fresh", "--", *arguments]) == 0
    assert "going on from" not in capfd.readouterr().out


def test_counts_that_differ_between_runs_are_measured_anew(recording, capfd):
    """Of the whole session no other test suffers from it."""
    recording.forget()
    for kernels in (1, 2, 2):
        recording.counted("test_a", kernels=kernels)
    recording.measured("test_b", *figures(41.2))
    played = b"".join(encode(r) + b"\n" for r in recording._results)
    recording.write("replay.jsonl", played.decode())
    arguments = ["--kernelpin-replay=replay.jsonl", "test_speed.py"]
    assert main(["record", "--", *arguments]) == 1
    assert "kernels is 1 in one process and 2 in another" in capfd.readouterr().out
    assert list(recording.stored()) == ["test_speed.py::test_b"]
    assert b"test_a" not in journal_for(arguments).read_bytes()


@pytest.mark.parametrize(
    ("send", "number", "status"),
    [
        (os.killpg, signal.SIGINT, 130),  # as Ctrl-C does: to the whole foreground group
        (os.kill, signal.SIGTERM, 143),  # as `timeout` does: to the command alone
    ],
    ids=["ctrl-c", "time limit"],
)
def test_interrupted_it_keeps_what_it_has_and_says_how_to_go_on(project, send, number, status):
    """The second process of twelve hangs; the first one's figures are there afterwards."""
    stand_in_for_a_gpu(project)
    project.write(
        "test_speed.py",
        """
import os, time

def test_a(stopwatch):
    if os.path.exists("measured-once"):
        open("hangs", "w").write(str(os.getpid()))
        time.sleep(100)
    open("measured-once", "w").close()
    stopwatch(print)
""",
    )
    project.monkeypatch.chdir(project.path)
    process = subprocess.Popen(
        record_command("--", "test_speed.py"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=heed_signals,
    )
    hangs = project.path / "hangs"
    wait_until(lambda: hangs.exists() and hangs.read_text())
    send(process.pid, number)
    out, _ = process.communicate(timeout=30)  # the pipe closes when all of them have ended
    assert process.returncode == status, out
    with pytest.raises(ProcessLookupError):
        os.kill(int((project.path / "hangs").read_text()), 0)
    assert "what was measured is kept: kernelpin record -- test_speed.py goes on from there" in out
    (journal,) = Path(os.environ["TMPDIR"]).glob("kernelpin-*/record-*.jsonl")
    assert len(journal.read_bytes().splitlines()) == 1


def test_times_alone_are_measured_in_all_processes(project):
    """Counts are exact where two processes agree on them, and a ratio stores nothing."""
    measured = stand_in_for_a_gpu(project)
    project.write(
        "test_speed.py",
        """
def test_time(stopwatch):
    stopwatch(print)

def test_counts(stopwatch):
    stopwatch.counts(print)

def test_ratio(stopwatch):
    with open("ratios", "a") as file:
        file.write("x")
    stopwatch.ratio(lambda: sum(range(300)), lambda: sum(range(300)))
""",
    )
    project.monkeypatch.chdir(project.path)
    assert main(["record", "-n", "8", "--", "-q"]) == 0
    told = [line.split()[1] for line in measured.read_text().splitlines()]
    assert (told.count("time"), told.count("counts"), told.count("kernels")) == (8, 2, 1)
    assert (project.path / "ratios").read_text() == "x"
    assert sorted(project.stored()) == ["test_speed.py::test_counts", "test_speed.py::test_time"]


def test_a_ratio_alone_stores_nothing_and_that_is_no_success(project, capfd):
    stand_in_for_a_gpu(project)
    project.write(
        "test_speed.py",
        """
def test_ratio(stopwatch):
    stopwatch.ratio(lambda: sum(range(300)), lambda: sum(range(300)))
""",
    )
    project.monkeypatch.chdir(project.path)
    assert main(["record", "-n", "8", "--", "-q"]) == 1
    assert "nothing was measured, so nothing is stored" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("no NVIDIA driver found", "there is no GPU to measure on: no NVIDIA driver found"),
        ("", "the tests skipped, or none uses the fixture stopwatch"),
    ],
)
def test_a_recording_that_measured_nothing_fails_and_says_so(
    project, monkeypatch, capfd, why, said
):
    project.write(
        "test_speed.py",
        "import pytest\n\ndef test_it(stopwatch):\n    pytest.skip('no GPU here')\n",
    )
    monkeypatch.chdir(project.path)
    monkeypatch.setattr("kernelpin.machine.why_no_gpu", lambda: why)
    assert main(["record", "-n", "8", "--", "-q"]) == 1
    assert f"nothing was measured, so nothing is stored: {said}" in capfd.readouterr().err
