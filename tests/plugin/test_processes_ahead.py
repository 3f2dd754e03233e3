"""Processes that get ready while another measures: imported and collected, then waiting."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from test_worker_processes import RATIO, TORCH

from kernelpin.workers import Budget, Fleet, Launch
from kernelpin.workers.process import Worker

TESTS = f"""
import atexit, json, os, time
import pytest

def note(what, **more):
    with open(os.environ["NOTES"], "a") as file:
        told = {{"what": what, "pid": os.getpid(), "at": time.time(), **more}}
        file.write(json.dumps(told) + "\\n")

if os.path.exists("broken"):
    raise ImportError("two at once broke it")
note("collected")
atexit.register(note, "ended")

@pytest.mark.cpu
@pytest.mark.parametrize("name", ["a", "b", "crash"])
def test_it(stopwatch, name):
    note("begin", test=name)
    if name == "crash":
        os._exit(3)
    time.sleep(0.2)
    {RATIO}
    note("end", test=name)
"""
A, B, CRASH = (f"test_it.py::test_it[{name}]" for name in ("a", "b", "crash"))


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """A fleet of real processes that prepares three at once, and what they noted."""
    (tmp_path / "torch.py").write_text(TORCH)
    (tmp_path / "test_it.py").write_text(TESTS)
    notes = tmp_path / "notes"
    environ = dict(os.environ, NOTES=str(notes), PYTHONPATH=str(tmp_path))
    fleet = Fleet(Launch(tmp_path, tmp_path), Budget(60), environ=environ, ahead=3)
    fleet.notes = lambda what: [
        note
        for note in map(json.loads, notes.read_text().splitlines() if notes.exists() else [])
        if note["what"] == what
    ]
    yield fleet
    fleet.close()


def wait_until(true, seconds=20):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.02)


def folders(fleet):
    return [Path(spare._folder.name) for spare in fleet._spares]


def test_announced_processes_collect_beforehand_and_measure_one_at_a_time(fleet):
    fleet.prepare([A, B], 3)
    wait_until(lambda: len(fleet.notes("collected")) == 3)
    time.sleep(0.3)
    assert fleet.notes("begin") == []
    results = [fleet.measure([A, B]) for _ in range(3)]
    assert [sorted(result) for result in results] == [[A, B]] * 3
    assert all(r.outcome == "passed" for result in results for r in result.values())
    spans = zip(fleet.notes("begin"), fleet.notes("end"), strict=True)
    ends = 0.0
    for begin, end in spans:
        assert begin["pid"] == end["pid"]
        assert begin["at"] >= ends
        ends = end["at"]
    pids = [note["pid"] for note in fleet.notes("begin")]
    assert pids[0::2] == pids[1::2]
    assert set(pids) == {note["pid"] for note in fleet.notes("collected")}
    assert len(set(pids)) == 3  # three were announced, and none was started beside them


def test_a_process_measures_of_its_tests_those_that_are_still_asked_for(fleet):
    fleet.prepare([A, B], 1)
    assert list(fleet.measure([B])) == [B]
    assert [note["test"] for note in fleet.notes("begin")] == ["b"]
    assert len(fleet.notes("collected")) == 1


def test_no_more_wait_than_are_due(fleet):
    fleet.prepare([A], 2)
    assert len(fleet._spares) == 2
    fleet.measure([A])
    assert len(fleet._spares) == 1
    fleet.measure([A])
    assert fleet._spares == []


def test_other_tests_get_processes_of_their_own(fleet):
    fleet.prepare([A], 2)
    waiting = folders(fleet)
    assert list(fleet.measure([B])) == [B]
    fleet.prepare([B], 2)
    assert not any(folder.exists() for folder in waiting)
    assert list(fleet.measure([B])) == [B]


def test_after_a_crash_the_next_that_waits_goes_on_with_the_rest(fleet):
    fleet.prepare([CRASH, A], 2)
    results = fleet.measure([CRASH, A])
    assert results[CRASH].outcome == "failed"
    assert "exit code 3" in results[CRASH].message
    assert results[A].outcome == "passed"
    assert len(fleet.notes("collected")) == 2


def test_one_that_died_while_it_waited_is_no_failure_of_a_test(fleet):
    fleet.prepare([A], 1)
    wait_until(lambda: fleet.notes("collected"))
    (spare,) = fleet._spares
    spare.worker.process.kill()
    wait_until(lambda: not spare.is_running)
    assert fleet.measure([A])[A].outcome == "passed"


@pytest.mark.parametrize("at_once", [False, True])
def test_what_waits_ends_with_the_fleet(fleet, at_once):
    """By itself, so that what it holds is given back; only an interrupted session kills."""
    fleet.prepare([A], 3)
    waiting = folders(fleet)
    processes = [spare.worker.process for spare in fleet._spares]
    wait_until(lambda: len(fleet.notes("collected")) == 3)
    assert [process.poll() for process in processes] == [None] * 3
    fleet.close(at_once=at_once)
    assert all(process.poll() is not None for process in processes)
    assert not any(folder.exists() for folder in waiting)
    assert fleet.notes("begin") == []
    if not at_once:
        assert len(fleet.notes("ended")) == 3


def test_one_that_could_not_collect_while_others_did_is_replaced_by_one_alone(fleet, tmp_path):
    broken = tmp_path / "broken"
    broken.touch()
    fleet.prepare([A, B], 2)
    wait_until(lambda: all((f / "output.txt").stat().st_size for f in folders(fleet)))
    time.sleep(1)
    broken.unlink()
    results = fleet.measure([A, B])
    assert [r.outcome for r in results.values()] == ["passed", "passed"]
    assert fleet._spares == []


def test_what_cannot_be_collected_alone_either_fails_its_tests(fleet, tmp_path):
    (tmp_path / "broken").touch()
    fleet.prepare([A], 1)
    result = fleet.measure([A])[A]
    assert result.outcome == "failed"
    assert "two at once broke it" in result.longrepr


def test_where_none_can_start_beforehand_one_starts_when_it_is_its_turn(fleet, monkeypatch):
    start = Worker.__init__

    def refuse(self, launch, order, *rest):
        if order.held:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        start(self, launch, order, *rest)

    monkeypatch.setattr(Worker, "__init__", refuse)
    fleet.prepare([A], 2)
    assert fleet.measure([A])[A].outcome == "passed"


def test_tests_that_touch_the_gpu_when_they_are_imported_wait_for_nobody(fleet, tmp_path):
    torch = tmp_path / "torch.py"
    (tmp_path / "test_it.py").write_text(f"import torch\n{TESTS}")
    on_gpu = "cuda.is_initialized, cuda.empty_cache = lambda: True, lambda: None"
    torch.write_text(f"{torch.read_text()}\n{on_gpu}\n")
    fleet.prepare([A], 3)
    result = fleet.measure([A])[A]
    assert result.outcome == "passed", result.longrepr
    assert fleet._spares == []
    fleet.prepare([A], 3)
    assert fleet._spares == []


def test_a_compiler_that_one_process_loaded_is_loaded_by_those_that_wait(fleet, tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch.py").rename(tmp_path / "torch" / "__init__.py")
    (tmp_path / "torch" / "_inductor").mkdir()
    for name in ("_dynamo", "_inductor/__init__", "_inductor/compile_fx"):
        (tmp_path / "torch" / f"{name}.py").touch()
    (tmp_path / "test_it.py").write_text(
        TESTS
        + """
def test_compiles(stopwatch):
    import sys
    note("compiles", loaded="torch._inductor.compile_fx" in sys.modules)
    import torch._inductor.compile_fx
    stopwatch.ratio(lambda: sum(range(300)), lambda: sum(range(300)))
test_compiles.pytestmark = [pytest.mark.cpu]
"""
    )
    compiles = "test_it.py::test_compiles"
    for _ in range(2):
        fleet.prepare([compiles], 1)
        assert fleet.measure([compiles])[compiles].outcome == "passed"
    assert [note["loaded"] for note in fleet.notes("compiles")] == [False, True]
