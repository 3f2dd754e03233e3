"""Recorded results in the place of measuring processes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from kernelpin.workers.fleet import Results
from kernelpin.workers.result import read_recorded


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
        kernels: bool = False,
        what: str = "measuring",
    ) -> Results:
        """Results as a fleet would give them; a test without any in the file has none here."""
        del kernels, what
        return {nodeid: next(self._turns[nodeid]) for nodeid in nodeids if nodeid in self._turns}

    def prepare(self, nodeids: Sequence[str], processes: int) -> None:
        """Nothing takes time here."""

    def close(self, *, at_once: bool = False) -> None:
        """Nothing was prepared."""
