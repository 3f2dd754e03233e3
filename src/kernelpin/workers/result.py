"""What a measuring process says of a test: the one form in which figures enter a session."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from kernelpin.machine import Gpu
from kernelpin.stopwatch import KernelFigure, Samples

T = TypeVar("T")

# What a worker says of a test it was given and has not; with why, where collecting failed.
NOT_COLLECTED = "the measuring process did not collect this test"
NO_SUCH_TEST = "its node id must be the same in every process"
BEFORE_ANY_TEST = "before any test"  # when a process ended that is told to have failed them all


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """How one test ended in one process, and what it measured there.

    `outcome` is passed, failed, skipped or xfailed; `message` the first line of the exception or
    the reason of a skip, `longrepr` the whole traceback, `path` and `line` (from 1) where it was
    raised, `output` what the test wrote. `below` and `above` bound a ratio. `duration`: seconds.
    `foreign`: why it does not count as base's, of whose code it ran not all. `begun`: when the
    session began that measured it (`time.time()`), where it comes from a journal; 0: this one.
    """

    nodeid: str
    outcome: str = "passed"
    message: str = ""
    longrepr: str = ""
    path: str | None = None
    line: int | None = None
    output: str = ""
    samples: Samples | None = None
    below: float | None = None
    above: float | None = None
    gpu: Gpu | None = None
    duration: float = 0.0
    foreign: str = ""
    begun: float = 0.0


@dataclass(frozen=True, slots=True)
class Event:
    """One line a worker writes: `ready` (with a text where it is on the GPU already), `start`,
    `deferred`, `result`, `kernels` (of a test whose result is out), `waiting` (for the GPU) or
    `loaded` (what `Order.preload` may ask for)."""

    kind: str
    nodeid: str = ""
    result: WorkerResult | None = None
    kernels: tuple[KernelFigure, ...] | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is to do: measure these tests, and (`kernels`) list what the timed ones run.

    `session`: the process that ordered it, without which it ends; 0: it is not watched. `held`: a
    file to wait for once the tests are collected; it holds the order that counts, of some of them.
    `preload`: modules to import until then.
    """

    nodeids: tuple[str, ...]
    results: str
    output: str
    kernels: bool = False
    budget_s: float = 600.0
    session: int = 0
    held: str = ""
    preload: tuple[str, ...] = ()


def encode(value: Order | Event | WorkerResult) -> bytes:
    """One line of JSON, without its end."""
    return msgspec.json.encode(value)


def decode(line: bytes, kind: type[T]) -> T:
    """What `encode` wrote; ValueError says what was found."""
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError as error:
        found = line[:80].decode(errors="replace")
        raise ValueError(f"no {kind.__name__}: {error}: {found!r}") from None


def read_recorded(path: Path) -> dict[str, list[WorkerResult]]:
    """The results of a file of one WorkerResult a line, by test, in the file's order."""
    recorded: dict[str, list[WorkerResult]] = defaultdict(list)
    for number, line in _lines(path):
        try:
            result = decode(line, WorkerResult)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        recorded[result.nodeid].append(result)
    return dict(recorded)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line


def shown(value: object) -> str:
    """A value as it stands in a JSON file, for messages."""
    return json.dumps(value, ensure_ascii=False)
