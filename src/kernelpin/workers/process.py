"""One worker: start it, read what it says while it runs, and end it whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from kernelpin.workers.launch import Launch
from kernelpin.workers.result import Event, Order, decode, encode

_POLL_S = 0.05
_GRACE_S = 5.0
_LAST_LINES = 15


class Worker:
    """A running measuring process and the folder its order, results and output lie in."""

    def __init__(
        self,
        launch: Launch,
        order: Order,
        folder: Path,
        environ: Mapping[str, str],
    ) -> None:
        self.folder = folder
        self.order = order
        self.log = Path(order.output)
        self._results = Path(order.results)
        self._results.touch()
        file = folder / "order.json"
        file.write_bytes(encode(order))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                launch.command(file, order.nodeids),
                cwd=launch.cwd,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Its own group: compilers and data loaders that it started end with it.
                start_new_session=True,
            )

    def release(self, order: Order) -> None:
        """Give a held worker the order that counts."""
        file = Path(self.order.held)
        partial = file.with_suffix(".partial")
        partial.write_bytes(encode(order))
        partial.replace(file)

    def events(self, deadline: float, stall_s: float) -> Iterator[Event | None]:
        """Yield what the worker says, and None while it says nothing, until it ends.

        `deadline` is on the monotonic clock, `stall_s` bounds the silence after the first event:
        before it, a worker imports and collects, as long as the budget lasts.
        Raises TimeoutError past either; the caller ends the worker with `end`.
        """
        heard: float | None = None
        with self._results.open("rb") as results:
            while True:
                running = self.process.poll() is None
                for event in self._read(results):
                    heard = time.monotonic()
                    yield event
                if not running:
                    return
                now = time.monotonic()
                if now > deadline:
                    raise TimeoutError("the budget is spent")
                if heard is not None and now - heard > stall_s:
                    raise TimeoutError(f"no sign of life for {stall_s:.0f} s")
                yield None
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(_POLL_S)

    def _read(self, results: IO[bytes]) -> Iterator[Event]:
        while True:
            start = results.tell()
            line = results.readline()
            if not line.endswith(b"\n"):
                results.seek(start)
                return
            yield decode(line, Event)

    def end(self) -> None:
        """Kill the worker and what it started, if they still run."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:  # pragma: no cover - Windows has no process groups of this kind
                self.process.kill()
        self.process.wait(_GRACE_S)

    def how_it_ended(self) -> str:
        """`exit code 3`, `killed by SIGKILL`; empty while it runs."""
        code = self.process.returncode
        if code is None:
            return ""
        if code >= 0:
            return f"exit code {code}"
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"

    def last_lines(self) -> list[str]:
        """The end of what the worker wrote."""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - 16_384))
            text = log.read().decode(errors="replace")
        return [line.rstrip() for line in text.splitlines() if line.strip()][-_LAST_LINES:]
