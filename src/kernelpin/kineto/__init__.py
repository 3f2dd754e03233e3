"""Kineto's Chrome-trace JSON, plain or gzipped → `Trace`.

Sound files take the fast path: typed decoding of just the fields needed, the garbage collector
paused. Any other is repaired, then read event by event, and the trace says what was wrong.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from kernelpin.kineto.broken import load_broken
from kernelpin.kineto.fields import UNDECODABLE
from kernelpin.kineto.file import read
from kernelpin.kineto.sound import load_sound
from kernelpin.trace import KernelpinWarning, Trace, TraceError

__all__ = ["load_trace"]


def load_trace(source: str | os.PathLike[str] | bytes | BinaryIO) -> Trace:
    """A trace file's events, decoded and linked: a path, its bytes or a binary file; gzip or not.

    Raises TraceError where it cannot be read. Warns once, with KernelpinWarning, where something
    was repaired, left out or looks implausible; `Trace.warnings` lists all of it.
    """
    __tracebackhide__ = True
    try:
        name, data = read(source)
        with _collector_paused():
            trace = _load(name, data)
    except TraceError as error:
        # The message is about the file: where the reader gave up tells its user nothing.
        raise error.with_traceback(None) from None
    if trace.warnings:
        more = len(trace.warnings) - 1
        warnings.warn(
            f"{name}: {trace.warnings[0]}" + (f" (Trace.warnings has {more} more)" if more else ""),
            KernelpinWarning,
            stacklevel=2,
        )
    return trace


def _load(name: str, data: bytes) -> Trace:
    try:
        try:
            return load_sound(name, data)
        except UNDECODABLE:
            return load_broken(name, data)
    except RecursionError:
        raise TraceError(f"{name}: nested too deeply to be a trace; record it again") from None


@contextmanager
def _collector_paused() -> Iterator[None]:
    """The collector would walk a million new objects again and again, and free none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
