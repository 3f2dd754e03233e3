"""A file's content replaced as a whole: by a draft beside it, and a rename."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

# No write takes as long: what is older was left by a process that was killed before its rename.
_STALE_S = 3600.0


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` in the place of a file: readers and a crash see the old one or the new one.

    A link stays one: what it leads to is replaced.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    _clear_drafts(path)
    # Processes of two containers may have one number.
    draft = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with draft.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a full disk is told without one
        raise
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _clear_drafts(path: Path) -> None:
    """Remove what killed processes left; a young draft may be one that somebody writes now."""
    for draft in path.parent.glob(f".{path.name}.*.tmp"):
        try:
            if time.time() - draft.stat().st_mtime > _STALE_S:
                draft.unlink()
        except OSError:
            continue  # renamed since, or another user's
