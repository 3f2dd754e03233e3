"""`--kernelpin-base`: suspects in base and head in turn, to tell whether this change did it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest
from small_project import GPU, KernelFigure, figures, stand_in_for_a_gpu, text_of

from kernelpin.base import Unavailable
from kernelpin.workers import encode


@pytest.fixture
def compared(project):
    """A test with a baseline of 41.2 µs; base's figures are played from beside head's."""
    project.timing_tests("test_it")
    project.baseline("test_it", figures(41.2))

    def play(base, head, **fields):
        project.forget()
        project.measured("test_it", *base, **fields)
        content = b"".join(encode(result) + b"\n" for result in project._results)
        (project.path / "replay.base.jsonl").write_bytes(content)
        project.forget()
        project.measured("test_it", *head)

    project.play = play
    return project


BASE = "--kernelpin-base=main"


@pytest.mark.parametrize("ci", [False, True])
def test_slower_than_base_fails_and_says_so(compared, ci):
    compared.play(figures(41.2, 12, seed=1), [44.0, *figures(44.0, 12, seed=2)])
    result = compared.run(BASE, "--kernelpin-report=report", ci=ci)
    result.assert_outcomes(failed=1)
    text = text_of(result)
    assert "FAILED test_speed.py::test_it - slower than main: 44." in text
    assert "(limit +1 %)" in text
    (row,) = compared.report()["rows"]
    assert row["paired"]["ref"] == "main"
    assert row["paired"]["outcome"] == "slower"
    assert len(row["paired"]["pairs"]) == 4
    assert row["baseline"] == pytest.approx(41.2, rel=0.01)


@pytest.mark.parametrize("ci", [False, True])
def test_base_as_slow_as_head_is_already_slower_and_passes(compared, ci):
    compared.play(figures(44.0, 12, seed=1), [44.0, *figures(44.0, 12, seed=2)])
    result = compared.run(BASE, ci=ci)
    result.assert_outcomes(passed=1)
    assert "already slower: test_speed.py::test_it" in text_of(result)


def test_unclear_against_what_is_stored_is_same_where_base_says_so(compared):
    both = figures(42.9, 16, spread=0.02)  # what moves the one moves the other
    compared.play(both, [43.5, *both])
    assert "1 unclear on" in text_of(compared.run("--kernelpin-base=none"))
    assert "1 same on" in text_of(compared.run(BASE, ci=True))


def test_who_is_no_suspect_is_not_compared_but_with_base_all(compared):
    compared.play(figures(40.0, 12, seed=1), figures(41.2, 12, seed=2))
    compared.run(BASE).assert_outcomes(passed=1)
    result = compared.run(BASE, "--kernelpin-base-all")
    result.assert_outcomes(failed=1)
    assert "slower than main" in text_of(result)


def test_base_does_not_excuse_what_an_upgrade_of_packages_may_have_slowed(compared):
    """Base runs in head's environment: a newer torch slows both."""
    compared.baseline("test_it", figures(41.2), gpu=replace(GPU, torch="2.10.0"))
    compared.play(figures(44.0, 12, seed=1), [44.0, *figures(44.0, 12, seed=2)])
    result = compared.run(BASE, "--kernelpin-report=report", ci=True)
    result.assert_outcomes(failed=1)
    text = text_of(result)
    assert "slower than the baseline: 44." in text
    assert "main is as slow with the same packages (torch 2.10.0 → 2.11.0+cu130)" in text
    (row,) = compared.report()["rows"]
    assert (row["outcome"], row["paired"]["outcome"]) == ("slower", "already slower")


def test_nor_what_is_unclear_against_what_was_stored_before_an_upgrade(compared):
    compared.baseline("test_it", figures(41.2), gpu=replace(GPU, torch="2.10.0"))
    both = figures(42.9, 16, spread=0.02)
    compared.play(both, [43.5, *both])
    assert "1 unclear on" in text_of(compared.run(BASE))


def test_a_new_driver_is_no_upgrade_of_heads(compared):
    compared.baseline("test_it", figures(41.2), gpu=replace(GPU, driver="570.1"))
    compared.play(figures(44.0, 12, seed=1), [44.0, *figures(44.0, 12, seed=2)])
    compared.run(BASE, ci=True).assert_outcomes(passed=1)


def test_in_ci_the_merge_base_is_the_default_and_none_turns_it_off(compared):
    compared.play(figures(44.0, 12, seed=1), [44.0, *figures(44.0, 12, seed=2)])
    compared.run(ci=True).assert_outcomes(passed=1)
    compared.run("--kernelpin-base=none", ci=True).assert_outcomes(failed=1)


def test_which_kernels_differ_between_base_and_head_is_told(compared):
    compared.play(
        figures(41.2, 12, seed=1), figures(47.0, 12, seed=2), kernels=(KernelFigure("a", 1, 41.0),)
    )
    for index, result in enumerate(compared._results):
        kernels = (KernelFigure("a", 1, 41.0), KernelFigure("b", 1, 5.5))
        samples = replace(result.samples, kernels=kernels)
        compared._results[index] = replace(result, samples=samples)
    assert "b — → 5.500 µs  ← new" in text_of(compared.run(BASE))


def test_a_test_that_base_does_not_have_is_judged_by_what_is_stored(compared):
    compared.play([], figures(47.9, 12))
    (compared.path / "replay.base.jsonl").write_bytes(
        b'{"nodeid":"test_speed.py::test_it","outcome":"failed","message":"no such thing"}\n'
    )
    result = compared.run(BASE, "--kernelpin-report=report")
    result.assert_outcomes(failed=1)
    assert "slower than the baseline" in text_of(result)
    (row,) = compared.report()["rows"]
    assert "no such thing" in row["paired"]["reason"]
    told = "main decided nothing about 1 test: base does not measure it (failed): no such thing"
    assert f"warning: {told}" in text_of(result)
    assert told in (compared.path / "report/summary.md").read_text()


def test_without_a_base_it_says_why_and_judges_by_what_is_stored(compared, monkeypatch):
    @contextmanager
    def shallow(ref, path):
        yield Unavailable("no commit 'main' in this shallow clone: git fetch --unshallow")

    monkeypatch.setattr("kernelpin.plugin.base._played", shallow)
    compared.play([41.2], figures(47.9, 12))
    result = compared.run(BASE)
    result.assert_outcomes(failed=1)
    text = text_of(result)
    assert "slower than the baseline" in text
    assert "warning: not compared with a base: no commit 'main' in this shallow clone" in text


def git(folder, *arguments):
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
    )


def test_a_test_file_that_is_new_in_head_takes_no_other_test_its_base(project):
    stand_in_for_a_gpu(project)
    project.timing_tests("test_it")
    project.baseline("test_it", figures(41.2), input="x")
    git(project.path, "init", "-q", "-b", "main")
    git(project.path, "add", ".")
    git(project.path, "commit", "-q", "-m", "base")
    project.write("speed.py", "FIGURE = 42.2\n")  # +2.4 %: seen against base alone
    project.timing_tests("test_new", file="test_new.py")
    git(project.path, "add", ".")
    git(project.path, "commit", "-q", "-m", "slower, and a new test")
    result = project.pytester.run(
        *(sys.executable, "-m", "pytest", "--kernelpin-base=HEAD~1", "--kernelpin-base-all"),
        *("-p", "no:hypothesispytest", "-p", "no:benchmark"),
    )
    text = text_of(result)
    assert "FAILED test_speed.py::test_it - slower than HEAD~1" in text
    result.assert_outcomes(failed=1, skipped=1)  # the new one has no baseline yet


def test_base_is_measured_from_its_own_worktree_by_real_processes(project):
    """A stand-in for a GPU, on which a process measures what its own tree's file says."""
    stand_in_for_a_gpu(project)
    project.timing_tests("test_it")
    project.baseline("test_it", figures(41.2), input="x")
    git(project.path, "init", "-q", "-b", "main")
    git(project.path, "add", ".")
    git(project.path, "commit", "-q", "-m", "base")
    project.write("speed.py", "FIGURE = 45.0\n")
    git(project.path, "commit", "-q", "-a", "-m", "slower")
    result = project.pytester.run(
        *(sys.executable, "-m", "pytest", "--kernelpin-base=HEAD~1"),
        *("-p", "no:hypothesispytest", "-p", "no:benchmark"),
    )
    result.assert_outcomes(failed=1)
    assert "slower than HEAD~1: 4" in text_of(result)
    listed = subprocess.run(
        ["git", "worktree", "list"], cwd=project.path, capture_output=True, text=True, check=True
    )
    assert len(listed.stdout.splitlines()) == 1


def at_base(project, **files):
    """A repository whose last commit changes these files."""
    git(project.path, "init", "-q", "-b", "main")
    git(project.path, "add", ".")
    git(project.path, "commit", "-q", "-m", "base")
    for name, text in files.items():
        project.write(f"{name}.py", text)
    git(project.path, "add", ".")
    git(project.path, "commit", "-q", "-m", "head")


def run_for_real(project, *arguments, **environ):
    for name, value in environ.items():
        project.monkeypatch.setenv(name, value)
    return project.pytester.run(
        *(sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:benchmark"),
        *arguments,
    )


def test_in_ci_head_is_no_base_of_itself(project):
    stand_in_for_a_gpu(project)
    project.timing_tests("test_it")
    project.baseline("test_it", figures(41.2), input="x")
    at_base(project, speed="FIGURE = 45.0\n")
    result = run_for_real(project, "--kernelpin-base=HEAD", CI="true")
    result.assert_outcomes(failed=1)
    assert "not compared with a base: HEAD is HEAD itself: there is no change" in text_of(result)


def test_a_base_that_cannot_be_collected_is_told_with_the_cause(project):
    stand_in_for_a_gpu(project)
    project.timing_tests("test_it")
    project.baseline("test_it", figures(41.2), input="x")
    good = (project.path / "conftest.py").read_text()
    project.write("conftest.py", f"import nonexistent_dependency\n{good}")
    at_base(project, speed="FIGURE = 45.0\n", conftest=good)
    text = text_of(run_for_real(project, "--kernelpin-base=HEAD~1"))
    assert "warning: HEAD~1 decided nothing about 1 test: base does not measure it" in text
    assert "No module named 'nonexistent_dependency'" in text


@pytest.mark.parametrize("how", ["installed", "a path of the conftest's own"])
def test_a_package_that_only_a_body_imports_is_found_to_be_heads(project, how):
    """Collecting imports nothing of it, so that nothing could be asked beforehand."""
    stand_in_for_a_gpu(project)
    site = project.path.with_name(f"{project.path.name}-site")
    project.write("src/fast/__init__.py", "FIGURE = 41.2\n")
    project.write(
        "test_speed.py",
        "import speed\n\n"
        "def test_it(stopwatch):\n"
        "    import fast\n"
        "    speed.FIGURE = fast.FIGURE\n"
        "    stopwatch(print)\n",
    )
    project.baseline("test_it", figures(41.2), input="x")
    if how != "installed":
        conftest = (project.path / "conftest.py").read_text()
        project.write(
            "conftest.py", f"{conftest}\nsys.path.insert(0, os.environ['WORKSPACE'] + '/src')\n"
        )
    at_base(project, **{"src/fast/__init__": "FIGURE = 45.0\n"})
    if how == "installed":
        shutil.copytree(project.path / "src/fast", site / "fast")
        project.monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    result = run_for_real(
        project, "--kernelpin-base=HEAD~1", CI="true", WORKSPACE=str(project.path)
    )
    text = text_of(result)
    result.assert_outcomes(failed=1)
    assert "slower than the baseline: 4" in text
    assert "warning: HEAD~1 decided nothing about 1 test: base ran head's fast" in text
