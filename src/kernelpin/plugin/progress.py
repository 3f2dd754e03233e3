"""What the terminal shows while workers measure."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from kernelpin.plugin.settings import is_xdist_worker

if TYPE_CHECKING:
    from kernelpin.workers import Progress

_EVERY_S = 0.5
_PLAIN_EVERY_S = 30.0


class Line:
    """One line, rewritten on a terminal; elsewhere a line a process, and one every half minute."""

    def __init__(self, config: pytest.Config) -> None:
        self._reporter: Any = None
        if getattr(config.option, "verbose", 0) >= 0 and not is_xdist_worker(config):
            self._reporter = config.pluginmanager.get_plugin("terminalreporter")
        self._rewrites = bool(self._reporter is not None and self._reporter.isatty)
        self._told = 0.0
        self._what = ""
        self._dirty = False

    def tell(self, what: str, progress: Progress) -> None:
        """Show where measuring stands, if that is worth a line now."""
        if self._reporter is None:
            return
        now = time.monotonic()
        every = _EVERY_S if self._rewrites else _PLAIN_EVERY_S
        if what == self._what and now - self._told < every:
            return
        new = what != self._what
        self._told, self._what = now, what
        text = said(what, progress)
        if self._rewrites:
            if not self._dirty:
                self._reporter.ensure_newline()
            self._reporter.rewrite(text, erase=True)
            self._dirty = True
        elif new or progress.done < progress.tests:
            self._reporter.ensure_newline()
            self._reporter.write_line(text)

    def end(self) -> None:
        """Leave the line empty for what comes next."""
        if self._dirty:
            self._reporter.rewrite("", erase=True)
            self._reporter.write("\r")
            self._dirty = False


def said(what: str, progress: Progress) -> str:
    """`kernelpin: measuring 3 of 20 tests, 14 s of at most 1200 s: test_x[a]`."""
    text = (
        f"kernelpin: {what} {progress.done} of {progress.tests} tests, "
        f"{progress.budget.used:.0f} s of at most {progress.budget.seconds:.0f} s"
    )
    running = progress.nodeid.rpartition("::")[2]
    return f"{text}: {running}"[:100] if running else text
