"""Kineto's Chrome-trace JSON, plain or gzipped → `Trace`."""

from __future__ import annotations

import gc
import os
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from kernelpin.attribution import Events, link
from kernelpin.trace import Device, KernelpinWarning, Trace, TraceError

# A trace shrinks about twentyfold; gzip can shrink a thousandfold what nobody recorded.
MAX_RATIO = 200
ALWAYS_ALLOWED_BYTES = 256 << 20
MAX_BYTES = 8 << 30

# Doubles below this hold a time in µs to the ns: their spacing is under 0.001.
EXACT_BELOW = float(2**43)

OPS = {"cpu_op": 0, "Operator": 0, "user_annotation": 1}
CALLS = frozenset(
    {
        "cuda_runtime",
        "cuda_driver",
        "Runtime",
        "hip_runtime",
        "xpu_runtime",
        "xpu_driver",
        "mtia_runtime",
        "privateuse1_runtime",
        "privateuse1_driver",
        "glow_runtime",
    }
)
GPU = {"kernel": 0, "Kernel": 0, "gpu_memcpy": 1, "Memcpy": 1, "gpu_memset": 2, "Memset": 2}


class _Complete(msgspec.Struct, gc=False, tag="X", tag_field="ph"):
    cat: str = ""
    name: str = ""
    ts: int | float | None = None
    dur: int | float | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    args: msgspec.Raw = msgspec.Raw()


class _Args(msgspec.Struct, gc=False):
    correlation: int | str | None = None
    stream: int | str | None = None
    device: int | str | None = None


# Metadata, flow, instant, counter and async events: decoded to nothing.
_OTHER = [
    msgspec.defstruct(f"_Phase{ord(phase)}", [], tag=phase, tag_field="ph", gc=False)
    for phase in "MstfiICbnePNODRcvV(),"
]
_TOP = msgspec.json.Decoder(dict[str, msgspec.Raw])
_EVENTS: Any = msgspec.json.Decoder(list[reduce(or_, _OTHER, _Complete)])  # type: ignore[misc]
_ARGS = msgspec.json.Decoder(_Args)


def load_trace(source: str | os.PathLike[str] | bytes | BinaryIO) -> Trace:
    """A trace file's events, decoded and linked: a path, its bytes or a binary file; gzip or not.

    Raises TraceError where it cannot be read. Warns once, with KernelpinWarning, where something
    was repaired or looks implausible; `Trace.warnings` lists all of it.
    """
    name, data = _read(source)
    with _no_collection():
        trace = _load(name, _decompress(name, data))
    if trace.warnings:
        more = f" (and {len(trace.warnings) - 1} more)" if len(trace.warnings) > 1 else ""
        warnings.warn(
            f"{name}: {trace.warnings[0]}{more}; see Trace.warnings",
            KernelpinWarning,
            stacklevel=2,
        )
    return trace


def _read(source: str | os.PathLike[str] | bytes | BinaryIO) -> tuple[str, bytes]:
    if isinstance(source, bytes | bytearray | memoryview):
        return "<bytes>", bytes(source)
    if isinstance(source, str | os.PathLike):
        try:
            return os.fspath(source), Path(source).read_bytes()
        except OSError as error:
            raise TraceError(f"{os.fspath(source)}: cannot be read: {error.strerror}") from error
    name = getattr(source, "name", "<file>")
    data = source.read()
    if not isinstance(data, bytes):
        raise TraceError(f"{name}: opened as text; open it with mode 'rb'")
    return str(name), data


def _decompress(name: str, data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        return data
    allowed = min(MAX_BYTES, max(ALWAYS_ALLOWED_BYTES, MAX_RATIO * len(data)))
    parts: list[bytes] = []
    size = 0
    rest = data
    while rest:
        if rest[:2] != b"\x1f\x8b":
            break  # padding behind the last member
        decoder = zlib.decompressobj(wbits=31)
        try:
            part = decoder.decompress(rest, allowed - size + 1)
        except zlib.error as error:
            raise TraceError(
                f"{name}: damaged gzip at about byte {len(data) - len(rest)} of {len(data)}: "
                f"{error}; record or download it again"
            ) from error
        parts.append(part)
        size += len(part)
        if size > allowed:
            raise TraceError(
                f"{name}: {len(data)} bytes of gzip hold more than {allowed} bytes; if that is "
                "meant, gunzip it and load the plain file"
            )
        if not decoder.eof:
            raise TraceError(
                f"{name}: truncated gzip: it ends after byte {len(data)} ({size} bytes unpacked); "
                "record or download it again"
            )
        rest = decoder.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


@contextmanager
def _no_collection() -> Iterator[None]:
    """The collector would walk a million new objects again and again, and free none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _load(name: str, data: bytes) -> Trace:
    if not data.strip():
        raise TraceError(f"{name}: is empty ({len(data)} bytes); record it again")
    try:
        top = _TOP.decode(data)
        events = _EVENTS.decode(top.pop("traceEvents"))
    except (msgspec.DecodeError, KeyError) as error:
        raise TraceError(f"{name}: {error}") from error
    complete = [event for event in events if type(event) is _Complete]
    del events
    metadata = {key: msgspec.json.decode(value) for key, value in top.items()}
    return _assemble(name, complete, metadata, [])


def _assemble(name: str, complete: list[Any], metadata: dict[str, Any], notes: list[str]) -> Trace:
    stamps = [event.ts for event in complete]
    durations = [event.dur for event in complete]
    whole = not any(type(x) is float for x in stamps)
    first = min(stamps, default=0)
    start = [round((x - first) * 1000) for x in stamps]
    duration = [round((x or 0) * 1000) for x in durations]
    ops, calls, gpu = Events(), Events(), Events()
    op_args, gpu_args = [], []
    for i, event in enumerate(complete):
        category = event.cat
        if category in OPS:
            events = ops
            ops.annotation.append(OPS[category])
            ops.thread.append((event.pid, event.tid))
            op_args.append(event.args)
        elif category in CALLS:
            events = calls
            calls.thread.append((event.pid, event.tid))
            calls.correlation.append(_ARGS.decode(event.args).correlation)
        elif category in GPU:
            events = gpu
            args = _ARGS.decode(event.args)
            gpu.category.append(GPU[category])
            gpu.correlation.append(args.correlation)
            gpu.stream.append(_number(args.stream, event.tid))
            gpu.device.append(_number(args.device, event.pid))
            gpu_args.append(event.args)
        else:
            continue
        events.name.append(event.name)
        events.start.append(start[i])
        events.duration.append(duration[i])
    ops.args, gpu.args = op_args, gpu_args
    columns, implausible = link(ops, calls, gpu, rounding_ns=2000 if whole else 5)
    return Trace(
        columns,
        source=name,
        devices=_devices(metadata.get("deviceProperties")),
        metadata=metadata,
        warnings=[*notes, *implausible],
    )


def _number(*candidates: int | str | None) -> int:
    """The first that is a number, or ends in one as `stream 7` does."""
    for value in candidates:
        if isinstance(value, int):
            return value
        if isinstance(value, str):
            digits = value.rpartition(" ")[2]
            if digits.isdecimal():
                return int(digits)
    return 0


def _devices(properties: Any) -> list[Device]:
    # ROCm writes one device without the list around it.
    listed = [properties] if isinstance(properties, dict) else properties
    if not isinstance(listed, list):
        return []
    devices = []
    for position, entry in enumerate(listed):
        if not isinstance(entry, dict):
            continue
        major, minor = _int(entry.get("computeMajor")), _int(entry.get("computeMinor"))
        number = _int(entry.get("id"))
        devices.append(
            Device(
                id=position if number is None else number,
                name=str(entry.get("name") or ""),
                compute_capability=None if major is None or minor is None else (major, minor),
                sm_count=_int(entry.get("numSms")),
                memory_bytes=_int(entry.get("totalGlobalMem")),
            )
        )
    return devices


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
