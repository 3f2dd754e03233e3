"""The very end of a session, where one that calls itself green can still be told otherwise."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kernelpin.plugin.gate import Gate

NAME = "kernelpin-ending"
ENDING: pytest.StashKey[Ending] = pytest.StashKey()


class Ending:
    """Remembers that `pytest.exit` ended the session, be it before there was a gate.

    `exit`: what it was told, or None.
    """

    def __init__(self) -> None:
        self.exit: str | None = None

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        if isinstance(excinfo.value, pytest.exit.Exception):
            self.exit = excinfo.value.msg


def watch_the_end(config: pytest.Config) -> None:
    """Begin before any hook of a session runs: each of them may end it."""
    config.stash[ENDING] = ending = Ending()
    config.pluginmanager.register(ending, NAME)


def last_word(gate: Gate, status: int) -> int:
    """The exit status after all: no hook of pytest comes after this one."""
    if status != pytest.ExitCode.OK:
        return status
    problem = gate.unheeded()
    if problem is None:
        return status
    sys.stderr.write(f"error: kernelpin: {problem}\n")
    return pytest.ExitCode.TESTS_FAILED
