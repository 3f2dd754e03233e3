"""What of pytest's command line and environment a worker gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelpin.workers import Launch, environment, forwarded


@pytest.mark.parametrize(
    ("arguments", "positional", "kept"),
    [
        (["tests", "-v"], ["tests"], ["-v"]),
        (["-x", "--maxfail=2", "--maxfail", "3", "-vx", "-xs"], [], ["-v", "-s"]),
        (["-n", "2", "-n2", "-nauto", "--dist", "load", "--numprocesses=4"], [], []),
        (["--junitxml=a.xml", "--junit-xml", "b.xml"], [], []),
        (["--lf", "--ff", "--nf", "--sw", "--cache-clear", "--last-failed"], [], []),
        (["--reruns", "3", "--reruns-delay=1"], [], []),
        (["-k", "a and b", "-m", "gpu", "-mgpu", "-kx", "--deselect", "t.py::a"], [], []),
        (
            ["-p", "no:xdist", "-p", "mine", "-pother"],
            [],
            ["-p", "no:xdist", "-p", "mine", "-pother"],
        ),
        (
            ["-o", "a=b", "-W", "error", "--tb=short"],
            [],
            ["-o", "a=b", "-W", "error", "--tb=short"],
        ),
        (["--size", "3", "t.py"], ["t.py"], ["--size", "3"]),
        (["--size", "t.py", "t.py"], ["t.py"], ["--size", "t.py"]),
        (["t.py", "--size", "t.py"], ["t.py"], ["--size", "t.py"]),
        (["t.py", "t.py"], ["t.py", "t.py"], []),
        (["--kernelpin-report=r", "--kernelpin-budget", "5", "--kernelpin-record", "t"], ["t"], []),
        (["--benchmark-only", "t.py", "--benchmark-json", "b.json"], ["t.py"], []),
        (["--cov", "src", "--cov-report=xml", "--no-cov"], [], []),
        (["--rootdir=a", "-c", "b.ini", "--basetemp", "c"], [], []),
        (["--pdb", "--collect-only", "--co", "--setup-show"], [], []),
        (["-v", "--", "-odd.py"], ["-odd.py"], ["-v"]),
    ],
)
def test_what_is_the_parents_own_matter_is_dropped_and_the_rest_kept(arguments, positional, kept):
    assert forwarded(arguments, positional) == tuple(kept)


def test_an_arguments_file_is_read(tmp_path):
    file = tmp_path / "args"
    file.write_text("t.py\n-v\n-x\n")
    assert forwarded([f"@{file}"], ["t.py"]) == ("-v",)


def test_the_environment_loses_what_would_make_a_worker_write_count_or_distribute():
    given = {
        "PATH": "/bin",
        "CI": "true",
        "PYTEST_ADDOPTS": "-x",
        "PYTEST_XDIST_WORKER": "gw0",
        "PYTEST_XDIST_TESTRUNUID": "1",
        "PYTEST_CURRENT_TEST": "t",
        "PYTEST_PLUGINS": "mine",
        "GITHUB_STEP_SUMMARY": "s.md",
        "COVERAGE_PROCESS_START": "c",
    }
    kept = {"PATH": "/bin", "CI": "true", "PYTEST_PLUGINS": "mine"}
    # Unbuffered: what a test printed before it crashed is to be told.
    assert environment(given) == kept | {"PYTHONUNBUFFERED": "1", "KERNELPIN_DOLLAR": "$"}


def launch(**fields):
    return Launch(**{"rootdir": Path("/p"), "cwd": Path("/p/sub"), **fields})


def test_whole_files_are_named_and_the_order_picks_their_tests():
    ids = ["a b/t.py::x[1 2]", "a b/t.py::y", "u.py::z"]
    command = launch().command(Path("/run/order.json"), ids)
    assert command[-2:] == [str(Path("/p/a b/t.py")), str(Path("/p/u.py"))]
    assert "--kernelpin-worker=/run/order.json" in command


def test_it_keeps_the_root_and_the_ini_file_and_ini_addopts_are_not_applied_twice():
    command = launch(inifile=Path("/p/tox.ini"), arguments=("-v",)).command(Path("/o"), ["t.py::x"])
    assert command[command.index("-c") + 1] == "/p/tox.ini"
    assert "--rootdir=/p" in command
    assert command.index("--override-ini=addopts=") > command.index("-v")


def test_without_an_ini_file_none_is_looked_for():
    command = launch().command(Path("/o"), ["t.py::x"])
    assert command[command.index("-c") + 1] == "/dev/null"
    assert "--confcutdir=/p" in command


def test_the_cache_goes_elsewhere_unless_there_is_none():
    assert any("cache_dir" in part for part in launch().command(Path("/o"), ["t.py::x"]))
    without = launch(arguments=("-p", "no:cacheprovider")).command(Path("/o"), ["t.py::x"])
    assert not any("cache_dir" in part for part in without)
