"""Output whose encoding lacks what we write, as `PYTHONIOENCODING=ascii` or `LC_ALL=C` set it."""

from __future__ import annotations

import codecs
import io
import sys

_NAME = "kernelpin-plain"
# One character for one, so that tables and trees stay in line.
_ASCII = {
    "├": "|", "└": "`", "─": "-", "│": "|", "×": "x", "µ": "u", "…": "~", "←": "<", "–": "-",
    "→": ">", "−": "-", "—": "-", "·": ".", "±": "~",
    "“": '"', "”": '"', "’": "'", "\N{NO-BREAK SPACE}": " ",
}  # fmt: skip


def never_unprintable() -> None:
    """Make stdout and stderr write in ASCII what their encoding does not know, and never raise."""
    codecs.register_error(_NAME, _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_NAME)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    escaped = (_ASCII.get(c) or c.encode("ascii", "backslashreplace").decode() for c in characters)
    return "".join(escaped), error.end
