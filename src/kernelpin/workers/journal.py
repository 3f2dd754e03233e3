"""What was measured before an interruption, so that recording can go on from there."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout

from kernelpin.machine import Gpu
from kernelpin.workers.fleet import Results, Source
from kernelpin.workers.result import WorkerResult, encode, read_recorded


class Journal:
    """A source that notes every process as it finishes, and gives again what was noted before.

    Only measurements are noted: a test that failed or skipped runs again. What another GPU or
    another torch measured is not given again (`gpu`: this one).
    """

    def __init__(self, source: Source, path: Path, gpu: Gpu | None = None) -> None:
        self.source = source
        self.path = path
        self._begun = time.time()
        self._noted: dict[str, deque[WorkerResult]] = defaultdict(deque)
        if path.exists():
            noted = path.stat().st_mtime  # for what an earlier version noted, without its time
            for nodeid, results in self._readable().items():
                self._noted[nodeid].extend(
                    replace(r, begun=r.begun or noted)
                    for r in results
                    if gpu is None or r.gpu == gpu
                )

    @property
    def continued(self) -> dict[float, int]:
        """The most finished processes of a test that are left to give, by when their run began."""
        found: dict[float, int] = {}
        for results in self._noted.values():
            for begun, number in Counter(result.begun for result in results).items():
                found[begun] = max(number, found.get(begun, 0))
        return dict(sorted(found.items()))

    def measure(
        self,
        nodeids: Sequence[str],
        *,
        kernels: bool = False,
        what: str = "measuring",
    ) -> Results:
        """See `Source`; a process is measured for the tests that have none noted."""
        gathered = {id_: self._noted[id_].popleft() for id_ in nodeids if self._noted[id_]}
        waiting = [nodeid for nodeid in nodeids if nodeid not in gathered]
        if waiting:
            results = self.source.measure(waiting, kernels=kernels, what=what)
            self._note(results.values())
            gathered |= results
        return gathered

    def prepare(self, nodeids: Sequence[str], processes: int) -> None:
        """See `Source`; for what is noted no process is started."""
        noted = min((len(self._noted[nodeid]) for nodeid in nodeids), default=0)
        if processes > noted:
            self.source.prepare(nodeids, processes - noted)

    def forget(self, nodeids: Collection[str]) -> None:
        """Drop what was noted of these tests: no baseline can come of it."""
        if not nodeids or not self.path.exists():
            return
        kept = [r for id_, each in self._readable().items() if id_ not in nodeids for r in each]
        draft = self.path.with_suffix(".draft")
        draft.write_bytes(b"".join(encode(result) + b"\n" for result in kept))
        draft.replace(self.path)

    def empty(self) -> None:
        """Forget all, since it is stored: given again it would be stored twice."""
        if self.path.exists():
            self.path.write_bytes(b"")

    def close(self, *, at_once: bool = False) -> None:
        """See `Source`."""
        self.source.close(at_once=at_once)

    def _note(self, results: Iterable[WorkerResult]) -> None:
        measured = [r for r in results if r.outcome == "passed" and _is_stored(r)]
        if not measured:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            for result in measured:
                file.write(encode(replace(result, begun=self._begun)) + b"\n")

    def _readable(self) -> dict[str, list[WorkerResult]]:
        """What was noted; a last line that was cut off counts for nothing."""
        try:
            return read_recorded(self.path)
        except ValueError:
            content = self.path.read_bytes()
            self.path.write_bytes(content[: content.rfind(b"\n", 0, len(content) - 1) + 1])
        try:
            return read_recorded(self.path)
        except ValueError:
            self.path.unlink()
            return {}


class InUseError(Exception):
    """Another process measures for this journal; the text says which, and what to do."""


@contextlib.contextmanager
def alone_with(journal: Path) -> Iterator[None]:
    """Be the only process that measures for this journal; raises InUseError at once.

    The process that measures holds this itself: the command that started it may be killed, and it
    lives on, notes what it measures, and stores it.
    """
    journal.parent.mkdir(parents=True, exist_ok=True)
    number = journal.with_suffix(".pid")
    lock = FileLock(journal.with_suffix(".measuring.lock"), timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise InUseError(in_use(number)) from None
    try:
        number.write_text(str(os.getpid()), encoding="ascii")
        yield
    finally:
        number.unlink(missing_ok=True)
        lock.release()


def in_use(number: Path) -> str:
    """The message for who is not alone; the file `number` names the process that is there."""
    try:
        who = f" (pytest, process {int(number.read_text(encoding='ascii'))})"
    except (OSError, ValueError):
        who = ""
    return f"the same recording is at work in another process{who}: wait for it, or end that one"


def _is_stored(result: WorkerResult) -> bool:
    """Whether a baseline can come of it; a ratio has a bound in its test, and no baseline."""
    return result.samples is not None and result.samples.metric != "host_ratio"
