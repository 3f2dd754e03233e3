"""A slowdown that is meant: the runner proposes, the laptop accepts, the next run is the same."""

import json
import re
import shutil

import pytest
from small_project import GPU, figures, text_of

from kernelpin.cli import main
from kernelpin.stopwatch import KernelFigure

ATTENTION = KernelFigure("flash_fwd_kernel", 1, 38.9)
ADDED = KernelFigure("elementwise_kernel", 1, 6.5)
REASON = "the mask is added in fp32, see #12"


@pytest.fixture
def runner(project):
    """The machine with the GPU: a checkout with a baseline, where a change has made it slower."""
    project.timing_tests("test_attention", "test_mlp")
    kernels = kernels_of(ATTENTION)
    project.baseline("test_attention", figures(41.2), kernels=kernels, first_median=40.0)
    project.baseline("test_mlp", figures(237.0))
    project.measured("test_attention", *figures(47.9, 12, seed=1), kernels=(ATTENTION, ADDED))
    project.measured("test_mlp", *figures(237.3, 12, seed=2))
    return project


def kernels_of(*figures):
    from kernelpin.baselines import KernelEntry

    return tuple(KernelEntry(it.name, it.count, it.median_us) for it in figures)


@pytest.fixture
def laptop(runner, tmp_path_factory, monkeypatch):
    """The contributor's checkout: the same commit, no GPU."""
    path = tmp_path_factory.mktemp("laptop") / "checkout"
    path.mkdir()
    shutil.copytree(runner.path / "baselines", path / "baselines")
    monkeypatch.chdir(path)
    return path


def gate(runner):
    runner.monkeypatch.chdir(runner.path)
    return runner.run("--kernelpin-report=report", ci=True)


def download(runner, laptop):
    """The report as CI's artifact: out of the runner's folder, with nothing else of it."""
    target = laptop / "kernelpin-report"
    shutil.copytree(runner.path / "report", target)
    runner.monkeypatch.chdir(laptop)
    return target


def test_the_runner_proposes_the_laptop_accepts_and_the_next_run_is_the_same(
    runner, laptop, capsys
):
    before = json.dumps(stored(laptop))
    red = gate(runner)
    red.assert_outcomes(passed=1, failed=1)
    assert json.dumps(stored(runner.path)) == before, "under CI nothing is stored"

    # What the reviewer reads names the command; on the laptop only the folder is another.
    summary = (runner.path / "report" / "summary.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^kernelpin baselines accept (\S+) --reason", summary, re.MULTILINE)
    assert command == "report/proposed"

    report = download(runner, laptop)
    capsys.readouterr()
    assert main(["baselines", "accept", str(report / "proposed"), "--reason", REASON]) == 0
    told = capsys.readouterr().out
    assert re.search(r"41.1\d µs +47.8\d µs +\+16.3 % +\+19.6 %", told), told
    assert REASON in json.dumps(stored(laptop))

    # Committed, pushed, fetched.
    shutil.rmtree(runner.path / "baselines")
    shutil.copytree(laptop / "baselines", runner.path / "baselines")
    green = gate(runner)
    green.assert_outcomes(passed=2)
    assert "2 same on NVIDIA H200" in text_of(green)
    assert runner.report()["headline"] == "2 same on NVIDIA H200"


def test_a_slowdown_is_not_accepted_without_a_reason(runner, laptop, capsys):
    gate(runner)
    report = download(runner, laptop)
    before = json.dumps(stored(laptop))
    assert main(["baselines", "accept", str(report / "proposed")]) == 1
    out = capsys.readouterr()
    assert "--reason" in out.out + out.err
    assert json.dumps(stored(laptop)) == before


def test_what_was_unclear_on_the_runner_cannot_be_accepted(runner, laptop):
    runner.forget()
    runner.measured("test_attention", *([49.9, 41.2] * 8))
    runner.measured("test_mlp", *figures(237.3, 12, seed=2))
    gate(runner).assert_outcomes(passed=1, failed=1)
    before = stored(laptop)["test_speed.json"]["entries"]["test_speed.py::test_attention"]
    if (runner.path / "report" / "proposed").is_dir():
        report = download(runner, laptop)
        main(["baselines", "accept", str(report / "proposed"), "--reason", REASON])
    after = stored(laptop)["test_speed.json"]["entries"]["test_speed.py::test_attention"]
    assert after == before


def test_a_first_baseline_comes_the_same_way(runner, laptop):
    runner.timing_tests("test_attention", "test_mlp", "test_new")
    runner.measured("test_new", *figures(12.0, 12, seed=3))
    gate(runner).assert_outcomes(passed=1, failed=2)
    report = download(runner, laptop)
    main(["baselines", "accept", str(report / "proposed"), "--reason", REASON])
    assert "test_speed.py::test_new" in stored(laptop)["test_speed.json"]["entries"]


def stored(path):
    folder = path / "baselines" / GPU.slug
    return {file.name: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
