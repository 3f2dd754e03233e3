"""The only right to change a folder: one process has it, whatever its TMPDIR, user or container."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_PAUSE_S = 0.02
# For file systems that lock only what is open for writing (NFS). It is gone when the lock is.
_FILE = ".kernelpin.lock"


@contextlib.contextmanager
def locked(folder: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of a folder, which is made for that; TimeoutError names what was waited for.

    It is the lock of the folder itself, by whichever link one came to it: that leaves no file in a
    checkout. A folder that was made, and in which nothing is written, goes again.
    """
    deadline = time.monotonic() + seconds
    real = Path(os.path.realpath(folder))
    missing = [each for each in (real, *real.parents) if not each.exists()]
    with contextlib.ExitStack() as held:
        for path, flags in ((real, os.O_RDONLY), (real / _FILE, os.O_RDWR | os.O_CREAT)):
            lock = _flock(real, path, flags, deadline)
            if lock is not None:
                held.callback(os.close, lock)
                # While it is locked: who waits for it sees that it is gone by then.
                for each in reversed(missing):
                    held.callback(_remove_empty, each)
                if path != real:
                    held.callback(path.unlink, missing_ok=True)
                break
        else:
            held.enter_context(_in_temporary_folder(real, seconds))
            real.mkdir(parents=True, exist_ok=True)
        yield


def _flock(folder: Path, path: Path, flags: int, deadline: float) -> int | None:
    """The descriptor that holds the lock of `path`; None where this file system has no such."""
    while fcntl is not None:
        existed = path.exists()
        with contextlib.ExitStack() as failing:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                lock = os.open(path, flags, 0o666)
                failing.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(path.stat(), os.fstat(lock)):
                    failing.pop_all()
                    return lock
            except (BlockingIOError, FileNotFoundError):
                pass  # somebody else's, or removed by whoever had it
            except FileExistsError:
                if folder.exists() and not folder.is_dir():
                    raise
            except OSError:
                if not existed:
                    with contextlib.suppress(OSError):
                        path.unlink()
                return None
        if time.monotonic() > deadline:
            raise TimeoutError(str(path))
        time.sleep(_PAUSE_S)
    return None


@contextlib.contextmanager
def _in_temporary_folder(real: Path, seconds: float) -> Iterator[None]:
    key = hashlib.sha256(str(real).encode()).hexdigest()[:16]
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    path = Path(tempfile.gettempdir()) / f"kernelpin-{user}-{key}.lock"
    try:
        lock = FileLock(path, timeout=seconds)
        lock.acquire()
    except Timeout:
        raise TimeoutError(str(path)) from None
    try:
        yield
    finally:
        lock.release()


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
