"""Fresh measuring processes: one measures at a time, and the next get ready meanwhile."""

from __future__ import annotations

import dataclasses
import itertools
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from kernelpin.machine import join_session
from kernelpin.workers.launch import Launch, environment
from kernelpin.workers.lifeline import WORKER_FOLDER, ended_by_signals
from kernelpin.workers.process import Worker
from kernelpin.workers.result import Event, Order, WorkerResult, read_recorded

_LEAST_STALL_S = 10.0

Results = dict[str, list[WorkerResult]]


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

    process: int
    processes: int
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
        processes: int = 1,
        kernels: bool = False,
        what: str = "measuring",
    ) -> Results:
        """One result a process for each test that the budget reached, in the order measured."""
        ...

    def prepare(self, nodeids: Sequence[str], processes: int) -> None:
        """Say that so many processes will be asked for (some of) these tests next."""
        ...

    def close(self) -> None:
        """End what was prepared and not asked for."""
        ...


class Fleet:
    """Starts workers and gathers what they measure, one at a time.

    Importing torch and collecting take a worker far longer than measuring: those that were
    announced start beforehand, `ahead` at once (by default one for every four cores), and wait for
    their turn before they touch the GPU.
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
        self._ahead = _cores() // 4 if ahead is None else ahead
        self._spares: list[_Process] = []
        self._announced: tuple[str, ...] = ()
        self._due = 0

    def measure(
        self,
        nodeids: Sequence[str],
        *,
        processes: int = 1,
        kernels: bool = False,
        what: str = "measuring",
    ) -> Results:
        """Measure each test in that many fresh processes; see `Source`.

        With `kernels`, the timed tests' kernels are listed after all timing. A test that takes its
        process down fails there, and a new process goes on with the rest.
        """
        gathered: Results = defaultdict(list)
        for number in range(1, processes + 1):
            waiting = list(nodeids)
            while waiting and self.budget.left > 0:
                round_ = _Round(self, waiting, kernels, what, number, processes)
                for result in round_.run():
                    gathered[result.nodeid].append(result)
                    waiting.remove(result.nodeid)
        return dict(gathered)

    def prepare(self, nodeids: Sequence[str], processes: int) -> None:
        """See `Source`; those that wait for other tests are ended."""
        if not set(nodeids) <= set(self._announced):
            self.close()
        if not self._spares:
            self._announced = tuple(nodeids)
        self._due = processes
        self._start_ahead()

    def close(self) -> None:
        """End the processes that wait."""
        self._due = 0
        while self._spares:
            self._spares.pop().end()

    def start(self, nodeids: Sequence[str], *, kernels: bool) -> _Process:
        """A process that measures these tests now: one that waited for them, or a new one."""
        ready: _Process | None = None
        if set(nodeids) <= set(self._announced):
            self._due = max(0, self._due - 1)
            while self._spares and ready is None:
                ready = self._spares.pop(0)
                if not ready.is_running:  # perhaps only because there were several at once
                    ready.end()
                    ready = None
        if ready is None:
            process = _Process(self, nodeids, kernels=kernels)
        else:
            ready.release(nodeids, kernels=kernels)
            process = ready
        self._start_ahead()
        return process

    def _start_ahead(self) -> None:
        while len(self._spares) < min(self._due, self._ahead) and self.budget.left > 0:
            self._spares.append(_Process(self, self._announced, held=True))

    def tell(self, what: str, progress: Progress) -> None:
        if self._progress is not None:
            self._progress(what, progress)

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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

    def __init__(
        self,
        fleet: Fleet,
        nodeids: Sequence[str],
        kernels: bool,
        what: str,
        number: int,
        processes: int,
    ) -> None:
        self.fleet = fleet
        self.nodeids = list(nodeids)
        self.kernels = kernels
        self.what = what
        self.number = number
        self.processes = processes
        self.results: dict[str, WorkerResult] = {}
        self.running: str | None = None

    def run(self) -> list[WorkerResult]:
        """At least one result, unless the budget ended first."""
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
        return list(self.results.values())

    def _take(self, event: Event | None) -> None:
        if event is not None:
            if event.kind == "start":
                self.running = event.nodeid
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
                self.number,
                self.processes,
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
            concerned, when = due, "before any test"
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


class Replay:
    """Plays recorded results instead of measuring: each process takes a test's next one.

    A test's results start again from the first after the last, so that one line can stand for
    processes that all agree.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        recorded = read_recorded(path)
        self._turns = {nodeid: itertools.cycle(results) for nodeid, results in recorded.items()}

    def measure(
        self,
        nodeids: Sequence[str],
        *,
        processes: int = 1,
        kernels: bool = False,
        what: str = "measuring",
    ) -> Results:
        """Results as a fleet would give them; a test without any in the file has none here."""
        del kernels, what
        return {
            nodeid: [next(self._turns[nodeid]) for _ in range(processes)]
            for nodeid in nodeids
            if nodeid in self._turns
        }

    def prepare(self, nodeids: Sequence[str], processes: int) -> None:
        """Nothing takes time here."""

    def close(self) -> None:
        """Nothing was prepared."""
