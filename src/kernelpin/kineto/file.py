"""A trace file's bytes: from a path, bytes or a binary file, unpacked within a limit."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import BinaryIO

from kernelpin.trace import TraceError

# Traces shrink about twentyfold; gzip shrinks a thousandfold what nobody recorded.
MAX_RATIO = 200
ALWAYS_ALLOWED_BYTES = 256 << 20
MAX_BYTES = 8 << 30

GIT_LFS = b"version https://git-lfs."
GZIP = b"\x1f\x8b"


def read(source: str | os.PathLike[str] | bytes | BinaryIO) -> tuple[str, bytes]:
    """What to call the source in messages, and its content, unpacked where it is gzip."""
    __tracebackhide__ = True
    name, data = _content(source)
    if data.startswith(GZIP):
        data = _unpack(name, data)
    if data.startswith(GIT_LFS):
        raise TraceError(f"{name}: is a Git LFS pointer and not the file; run git lfs pull")
    if not data.strip():
        raise TraceError(f"{name}: is empty ({len(data)} bytes); record it again")
    return name, data


def _content(source: str | os.PathLike[str] | bytes | BinaryIO) -> tuple[str, bytes]:
    __tracebackhide__ = True
    if isinstance(source, bytes | bytearray | memoryview):
        return "<bytes>", bytes(source)
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        try:
            return name, Path(name).read_bytes()
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            cause = getattr(error, "strerror", None) or error
            raise TraceError(f"{name!r}: cannot be read: {cause}; is the path right?") from error
    if not hasattr(source, "read"):
        raise TypeError(
            "load_trace() takes a path, bytes or a file open in mode 'rb', "
            f"not {type(source).__name__}"
        )
    name = str(getattr(source, "name", "<file>"))
    data = source.read()
    if not isinstance(data, bytes):
        raise TraceError(f"{name}: is open as text; open it with mode 'rb'")
    return name, data


def _unpack(name: str, data: bytes) -> bytes:
    """The content of a gzip file of one or several members."""
    allowed = min(MAX_BYTES, max(ALWAYS_ALLOWED_BYTES, MAX_RATIO * len(data)))
    parts: list[bytes] = []
    size = 0
    rest = data
    while rest.startswith(GZIP):  # what follows the last member is padding
        decoder = zlib.decompressobj(wbits=31)
        try:
            parts.append(decoder.decompress(rest, allowed - size + 1))
        except zlib.error as error:
            raise TraceError(
                f"{name}: damaged gzip, in the member at byte {len(data) - len(rest)} of "
                f"{len(data)}: {error}; record or download it again"
            ) from error
        size += len(parts[-1])
        if size > allowed:
            raise TraceError(
                f"{name}: {len(data)} bytes of gzip unpack to more than {allowed}; if you trust "
                "it, run gunzip and load the plain file"
            )
        if not decoder.eof:
            raise TraceError(
                f"{name}: truncated gzip: it ends at byte {len(data)}, {size} bytes unpacked; "
                "record or download it again"
            )
        rest = decoder.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)
