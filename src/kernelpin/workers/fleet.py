"""Fresh measuring processes: one measures at a time, and the next get ready meanwhile."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from kernelpin.machine import join_session
from kernelpin.workers.launch import Launch, environment
from kernelpin.workers.lifeline import WORKER_FOLDER, ended_by_signals
from kernelpin.workers.process import Worker
from kernelpin.workers.result import BEFORE_ANY_TEST, Event, Order, WorkerResult

_LEAST_STALL_S = 10.0
_MOST_AHEAD = 3
_GRACE_S = 20.0
_POLL_S = 0.02

Results = dict[str, WorkerResult]


class Budget:
    """Seconds that all measuring of a session may take together."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    @property
    def used(self) -> float:
        return self.seconds - self.left

    @property
    def stall_s(self) -> float:
        """How long one test may be silent: a quarter, so that one that hangs leaves time."""
        return max(_LEAST_STALL_S, self.seconds / 4)


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """Where a round of measuring stands: the test at work, and how many of how many are done."""

    done: int
    tests: int
    nodeid: str
    budget: Budget


class Source(Protocol):
    """Where figures come from: worker processes, or a file of what they once said."""

    def measure(
        self,
        nodeids: Sequence[str],
        *,
        kernels: bool = False,
        what: str = "measuring",
    ) -> Results:
        """Each test's result in one fresh process, as far as the budget reached."""
        ...

    def prepare(self, nodeids: Sequence[str], processes: int) -> None:
        """Say that so many processes will be asked for (some of) these tests next."""
        ...

    def close(self, *, at_once: bool = False) -> None:
        """End what was prepared and not asked for; `at_once`: the session is being interrupted."""
        ...


class Fleet:
    """Starts workers and gathers what they measure, one at a time.

    Importing torch and collecting take a worker far longer than measuring: those that were
    announced start beforehand, `ahead` at once (by default one for every four cores, three at
    most), and wait for their turn before they touch the GPU. One that fails before its first test,
    perhaps only because there were several at once, is replaced by one that starts alone.
    """

    def __init__(
        self,
        launch: Launch,
        budget: Budget,
        *,
        environ: Mapping[str, str] | None = None,
        progress: Callable[[str, Progress], None] | None = None,
        ahead: int | None = None,
    ) -> None:
        self.launch = launch
        self.budget = budget
        self.loaded: tuple[str, ...] = ()
        self._environ = environment(os.environ if environ is None else environ)
        join_session(self._environ)
        self._progress = progress
        self.ahead = min(_MOST_AHEAD, _cores() // 4) if ahead is None else ahead
        self._spares: list[_Process] = []
        self._announced: tuple[str, ...] = ()
        self._due = 0

    def measure(
        self,
        nodeids: Sequence[str],
        *,
        kernels: bool = False,
        what: str = "measuring",
    ) -> Results:
        """Measure each test in a fresh process; see `Source`.

        With `kernels`, the timed tests' kernels are listed after all timing. A test that takes its
        process down fails there, and a new process goes on with the rest.
        """
        gathered: Results = {}
        waiting = list(nodeids)
        while waiting and self.budget.left > 0:
            gathered |= _Round(self, waiting, kernels, what).run()
            waiting = [nodeid for nodeid in nodeids if nodeid not in gathered]
        return gathered

    def prepare(self, nodeids: Sequence[str], processes: int) -> None:
        """See `Source`; those that wait for other tests are ended."""
        if not set(nodeids) <= set(self._announced):
            self.close()
        if not self._spares:
            self._announced = tuple(nodeids)
        self._due = processes
        self._start_ahead()

    def close(self, *, at_once: bool = False) -> None:
        """Let the processes that wait end by themselves: what they import may hold locks."""
        self._due = 0
        for spare in self._spares:
            with contextlib.suppress(OSError):
                spare.release((), kernels=False)
        until = time.monotonic() + (0.0 if at_once else _GRACE_S)
        while self._spares:
            spare = self._spares.pop()
            while spare.is_running and time.monotonic() < until:
                time.sleep(_POLL_S)
            spare.end()

    def start(self, nodeids: Sequence[str], *, kernels: bool) -> _Process:
        """A process that measures these tests now: one that waited for them, or a new one."""
        process: _Process | None = None
        if set(nodeids) <= set(self._announced):
            self._due = max(0, self._due - 1)
            process = self._released(nodeids, kernels=kernels)
        if process is None:
            process = _Process(self, nodeids, kernels=kernels)
        self._start_ahead()
        return process

    def _released(self, nodeids: Sequence[str], *, kernels: bool) -> _Process | None:
        """The first of those that wait which still runs and can be told."""
        while self._spares:
            spare = self._spares.pop(0)
            if spare.is_running:
                with contextlib.suppress(OSError):
                    spare.release(nodeids, kernels=kernels)
                    return spare
            spare.end()
        return None

    def _start_ahead(self) -> None:
        while len(self._spares) < min(self._due, self.ahead) and self.budget.left > 0:
            try:
                self._spares.append(_Process(self, self._announced, held=True))
            except OSError:
                return  # no process or folder to be had for what is not needed yet

    def tell(self, what: str, progress: Progress) -> None:
        if self._progress is not None:
            self._progress(what, progress)

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ


def _cores() -> int:
    """The cores this process may use, by affinity and by a container's quota."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = min(cores, int(quota) // int(period))
    return cores


class _Process:
    """A worker and its folder."""

    def __init__(
        self, fleet: Fleet, nodeids: Sequence[str], *, kernels: bool = False, held: bool = False
    ) -> None:
        self._budget = fleet.budget
        self._folder = tempfile.TemporaryDirectory(prefix=WORKER_FOLDER, ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        self._order = Order(
            nodeids=tuple(nodeids),
            results=str(folder / "results.jsonl"),
            output=str(folder / "output.txt"),
            kernels=kernels,
            budget_s=fleet.budget.left,
            session=os.getpid(),
            held=str(folder / "go.json") if held else "",
            preload=fleet.loaded if held else (),
        )
        self.waited = held
        try:
            self.worker = Worker(fleet.launch, self._order, folder, fleet.environ)
        except BaseException:
            self._folder.cleanup()
            raise

    @property
    def is_running(self) -> bool:
        return self.worker.process.poll() is None

    def release(self, nodeids: Sequence[str], *, kernels: bool) -> None:
        """Let it measure these, of those it was started for."""
        self.worker.release(
            dataclasses.replace(
                self._order,
                nodeids=tuple(nodeids),
                kernels=kernels,
                budget_s=self._budget.left,
                held="",
            )
        )

    def end(self) -> None:
        """Kill it if it still runs, and remove what it wrote."""
        try:
            self.worker.end()
        finally:
            self._folder.cleanup()


class _Round:
    """One process's life, and what it leaves of the tests it was given."""

    def __init__(self, fleet: Fleet, nodeids: Sequence[str], kernels: bool, what: str) -> None:
        self.fleet = fleet
        self.nodeids = list(nodeids)
        self.kernels = kernels
        self.what = what
        self.results: Results = {}
        self.running: str | None = None
        self.began = False  # a test

    def run(self) -> Results:
        """At least one result, unless the budget ended first."""
        waited = self._run_one()
        if waited and not self.began and self.fleet.budget.left > 0:
            self.fleet.ahead = 0
            self.fleet.close()
            self.results.clear()
            self._run_one()
        return self.results

    def _run_one(self) -> bool:
        """One process to its end; whether it had waited for its turn."""
        budget = self.fleet.budget
        with ended_by_signals():
            process = self.fleet.start(self.nodeids, kernels=self.kernels)
            worker = process.worker
            out_of_time: str | None = None
            try:
                try:
                    for event in worker.events(budget.deadline, budget.stall_s):
                        self._take(event)
                except TimeoutError as error:
                    out_of_time = str(error)
                finally:
                    worker.end()
                self._settle(worker, out_of_time)
            finally:
                process.end()
        return process.waited

    def _take(self, event: Event | None) -> None:
        if event is not None:
            if event.kind == "start":
                self.running, self.began = event.nodeid, True
            elif event.kind == "ready" and event.text:
                # What touches the GPU when it is imported must not be beside what measures.
                self.fleet.ahead = 0
                self.fleet.close()
            elif event.kind == "deferred":
                self.running = None
            elif event.kind == "result" and event.result is not None:
                self.results[event.result.nodeid] = event.result
                self.running = None
            elif event.kind == "kernels":
                self._add_kernels(event)
                self.running = None
            elif event.kind == "loaded":
                self.fleet.loaded = tuple(event.text.split())
        self.fleet.tell(
            self.what,
            Progress(
                len(self.results),
                len(self.nodeids),
                self.running or "",
                self.fleet.budget,
            ),
        )

    def _add_kernels(self, event: Event) -> None:
        result = self.results.get(event.nodeid)
        if result is not None and result.samples is not None and event.kernels is not None:
            samples = dataclasses.replace(result.samples, kernels=event.kernels)
            self.results[event.nodeid] = dataclasses.replace(result, samples=samples)

    def _settle(self, worker: Worker, out_of_time: str | None) -> None:
        """Say what became of the test that ran when the process ended, or of all that were due."""
        due = [nodeid for nodeid in self.nodeids if nodeid not in self.results]
        if not due:
            return
        last = worker.last_lines()
        if out_of_time is not None and self.fleet.budget.left <= 0:
            return  # what the budget did not reach has no result
        if self.running in due:
            concerned, when = [self.running], "during this test"
        elif self.results:
            return  # the next process goes on with the rest
        else:
            concerned, when = due, BEFORE_ANY_TEST
        how = out_of_time or worker.how_it_ended()
        cause = f"the measuring process ended {when}: {how}"
        if out_of_time is not None:
            cause = f"the measuring process was stopped {when}: {how} (--kernelpin-budget)"
        for nodeid in concerned:
            self.results[nodeid] = WorkerResult(
                nodeid=nodeid,
                outcome="failed",
                message=cause,
                longrepr="\n".join([cause, "its last lines:", *(f"  {line}" for line in last)]),
            )
