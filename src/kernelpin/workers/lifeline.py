"""A worker does not outlive the session that ordered it, however that ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pytest

# What a scheduler, a runner or a closed terminal sends; SIGINT is Python's own.
_SIGNALS = ("SIGTERM", "SIGHUP")
_EVERY_S = 1.0
WORKER_FOLDER = "kernelpin-worker-"


def watch_session(session: int, folder: Path) -> None:
    """Kill this worker, and what it started, soon after the process `session` is gone.

    Nobody is left to read what it measures, and it holds the lock of the GPU. A thread watches, so
    that a body that hangs is ended too; `folder`, the worker's own, goes with it.
    """
    if os.name != "posix" or session <= 0:
        return
    thread = threading.Thread(
        target=_watch, args=(session, os.getppid(), folder), name="kernelpin-lifeline", daemon=True
    )
    thread.start()


def _watch(session: int, parent: int, folder: Path) -> None:
    # By both: a session that ended before this started has left its place to another parent, and
    # one that nobody has waited for yet still has its number.
    while os.getppid() == parent and _exists(session):
        time.sleep(_EVERY_S)
    if folder.name.startswith(WORKER_FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextlib.contextmanager
def signals_to(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let `handler` have SIGTERM and SIGHUP meanwhile, where they would end this process.

    What is ignored (nohup) or handled by another stays so.
    """
    taken: list[int] = []
    if threading.current_thread() is threading.main_thread():
        for name in _SIGNALS:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, handler)
                taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def ended_by_signals() -> contextlib.AbstractContextManager[None]:
    """Let SIGTERM and SIGHUP end the session in order: workers, folders."""
    return signals_to(_exit)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # `timeout` sends it to the process and to its group
    raise pytest.exit.Exception(f"ended by {signal.Signals(number).name}", returncode=128 + number)
