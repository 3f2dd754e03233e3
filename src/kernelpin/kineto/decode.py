"""Kineto's Chrome-trace JSON, plain or gzipped → `Trace`.

Sound files take the fast path: typed decoding of just the fields needed, the garbage collector
paused. Any other is repaired, then read event by event, and the trace says what was wrong.
"""

from __future__ import annotations

import gc
import os
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from kernelpin.trace.attribution import Events, link
from kernelpin.kineto.repair import Repaired, Unrepairable, mend, mend_at
from kernelpin.trace import Device, KernelpinWarning, Trace, TraceError

__all__ = ["load_trace"]

# Traces shrink about twentyfold; gzip shrinks a thousandfold what nobody recorded.
MAX_RATIO = 200
ALWAYS_ALLOWED_BYTES = 256 << 20
MAX_BYTES = 8 << 30

# Doubles hold a time in µs to the ns where their spacing is under 0.001, and where what is left
# after subtracting the first is small enough to be multiplied by 1000.
EXACT_BELOW = 2**43
EXACT_SPAN = 2**36
# How often a file is decoded again after a guess at what broke it.
MAX_GUESSES = 8
# 146 years: what a time must stay below to be held, and added to, as 64-bit ns.
LONGEST_NS = 2**62

OPS = {"cpu_op": 0, "Operator": 0, "user_annotation": 1}  # 1: a label
CALLS = frozenset(
    [
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
    ]
)
# The value is the index into trace.CATEGORIES.
GPU = {"kernel": 0, "Kernel": 0, "gpu_memcpy": 1, "Memcpy": 1, "gpu_memset": 2, "Memset": 2}
IGNORED = frozenset(
    [
        "Trace",
        "python_function",
        "gpu_user_annotation",
        "cpu_instant_event",
        "overhead",
        "external_correlation",
        "cuda_sync",
        "cuda_event",
        "cuda_profiler_range",
        "collective_comm",
        "hpu_op",
        "mtia_ccp_events",
        "mtia_insight",
        "mtia_workloadd",
        "mtia_counters",
        "xpu_sync",
        "Communication",
    ]
)
# Metadata, flow, instant, counter and async events hold nothing that is needed.
IGNORED_PHASES = "MstfiICbneNDOPRcvV(),"


class _Complete(msgspec.Struct, gc=False, tag="X", tag_field="ph"):
    cat: str = ""
    name: str = ""
    ts: int | float | None = None
    dur: int | float | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _CompleteAsText(msgspec.Struct, gc=False, tag="X", tag_field="ph"):
    cat: str = ""
    name: str = ""
    ts: msgspec.Raw = msgspec.Raw(b"null")
    dur: msgspec.Raw = msgspec.Raw(b"null")
    pid: int | str | None = None
    tid: int | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Args(msgspec.Struct, gc=False):
    correlation: int | str | None = None
    stream: int | str | None = None
    device: int | str | None = None


class _Identity(msgspec.Struct, rename={"external_id": "External id", "index": "Ev Idx"}):
    external_id: int | None = None
    index: int | None = None


_OTHERS = [
    msgspec.defstruct(f"_Phase{ord(phase)}", [], tag=phase, tag_field="ph", gc=False)
    for phase in IGNORED_PHASES
]
_TOP = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_EVENTS: Any = msgspec.json.Decoder(list[reduce(or_, _OTHERS, _Complete)])  # type: ignore[misc]
_EVENTS_AS_TEXT: Any = msgspec.json.Decoder(
    list[reduce(or_, _OTHERS, _CompleteAsText)]  # type: ignore[misc]
)
_ARGS = msgspec.json.Decoder(_Args)
_IDENTITY = msgspec.json.Decoder(_Identity)
_EVENT_AS_TEXT: Any = msgspec.json.Decoder(
    reduce(or_, _OTHERS, _CompleteAsText)  # type: ignore[arg-type]
)
_NO_ARGS = msgspec.Raw(b"{}")
_NULL = msgspec.Raw(b"null")
_EVENTS_KEY = b'"traceEvents"'
_BYTE = re.compile(r"\(byte (\d+)\)")


class _Notes:
    """What was wrong with the file: told once a kind, with the place of the first."""

    def __init__(self, repairs: Sequence[str] = ()) -> None:
        self.lines = [f"repaired: {', '.join(repairs)}"] if repairs else []
        self.unread = 0
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, what: str, first: str, *, unread: bool = False) -> None:
        self._counts[what] += 1
        self._first.setdefault(what, first)
        self.unread += unread

    def all(self) -> list[str]:
        return self.lines + [
            f"{count} {what}, the first: {self._first[what]}"
            for what, count in self._counts.items()
        ]


def load_trace(source: str | os.PathLike[str] | bytes | BinaryIO) -> Trace:
    """A trace file's events, decoded and linked: a path, its bytes or a binary file; gzip or not.

    Raises TraceError where it cannot be read. Warns once, with KernelpinWarning, where something
    was repaired, left out or looks implausible; `Trace.warnings` lists all of it.
    """
    name, data = _read(source)
    data = _decompress(name, data)
    with _collector_paused():
        trace = _load(name, data)
    if trace.warnings:
        more = len(trace.warnings) - 1
        warnings.warn(
            f"{name}: {trace.warnings[0]}" + (f" (Trace.warnings has {more} more)" if more else ""),
            KernelpinWarning,
            stacklevel=2,
        )
    return trace


def _read(source: str | os.PathLike[str] | bytes | BinaryIO) -> tuple[str, bytes]:
    if isinstance(source, bytes | bytearray | memoryview):
        return "<bytes>", bytes(source)
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        try:
            return name, Path(name).read_bytes()
        except OSError as error:
            raise TraceError(f"{name}: cannot be read: {error.strerror}") from error
    name = str(getattr(source, "name", "<file>"))
    data = source.read()
    if not isinstance(data, bytes):
        raise TraceError(f"{name}: is open as text; open it with mode 'rb'")
    return name, data


def _decompress(name: str, data: bytes) -> bytes:
    """The content of a gzip file of one or several members; anything else as it is."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    allowed = min(MAX_BYTES, max(ALWAYS_ALLOWED_BYTES, MAX_RATIO * len(data)))
    parts: list[bytes] = []
    size = 0
    rest = data
    while rest.startswith(b"\x1f\x8b"):  # what follows the last member is padding
        decoder = zlib.decompressobj(wbits=31)
        try:
            parts.append(decoder.decompress(rest, allowed - size + 1))
        except zlib.error as error:
            raise TraceError(
                f"{name}: damaged gzip in the member at byte {len(data) - len(rest)} of "
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


def _load(name: str, data: bytes) -> Trace:
    if not data.strip():
        raise TraceError(f"{name}: is empty ({len(data)} bytes); record it again")
    try:
        # Of two lists of events JSON keeps the last: not what anyone meant.
        if data.count(_EVENTS_KEY) < 2:
            return _load_sound(name, data)
    except msgspec.DecodeError:
        pass
    except RecursionError:
        raise TraceError(f"{name}: nested too deeply to be a trace") from None
    try:
        return _load_broken(name, data)
    except RecursionError:
        raise TraceError(f"{name}: nested too deeply to be a trace") from None


def _load_sound(name: str, data: bytes) -> Trace:
    text, metadata = _split(name, data)
    notes = _Notes()
    complete: list[Any] = [event for event in _EVENTS.decode(text) if type(event) is _Complete]
    times = _exact_times(complete)
    if times is None:
        complete = [x for x in _EVENTS_AS_TEXT.decode(text) if type(x) is _CompleteAsText]
        complete, times = _times_from_text(complete, notes)
    return _assemble(
        name, complete, *times, {key: msgspec.json.decode(x) for key, x in metadata.items()}, notes
    )


def _load_broken(name: str, data: bytes) -> Trace:
    try:
        repaired = mend(data)
    except Unrepairable as error:
        raise _invalid(name, error.offset, error.cause) from None
    for _ in range(MAX_GUESSES):
        try:
            text, metadata = _split(name, repaired.data)
            listed = _LIST.decode(text)
            break
        except msgspec.ValidationError as error:
            raise TraceError(f"{name}: is JSON but no trace: traceEvents: {error}") from error
        except msgspec.DecodeError as error:
            repaired = _guess(name, repaired, str(error))
    else:
        raise TraceError(f"{name}: no valid JSON, and more than {MAX_GUESSES} repairs do not help")
    notes = _Notes(repaired.notes())
    repeated = repaired.data.count(_EVENTS_KEY) - bytes(text).count(_EVENTS_KEY)
    if len(text) < len(repaired.data) and repeated > 1:
        notes.add("lists of traceEvents before the last, left out", "the first one", unread=True)
    complete = [
        event for i, raw in enumerate(listed) if (event := _read_event(i, raw, notes)) is not None
    ]
    events, times = _times_from_text(complete, notes)
    return _assemble(name, events, *times, {k: _plain(v) for k, v in metadata.items()}, notes)


def _guess(name: str, repaired: Repaired, error: str) -> Repaired:
    """One more repair where the decoder gave up, or TraceError."""
    at = _BYTE.search(error)
    offset = int(at[1]) if at else len(repaired.data)
    cause = _BYTE.sub("", error).strip().removeprefix("JSON is malformed: ")
    better = mend_at(repaired, offset) if at else None
    if better is None:
        raise _invalid(name, repaired.original(offset), cause)
    return better


def _invalid(name: str, offset: int, cause: str) -> TraceError:
    remedy = "record or download it again" if "truncated" in cause else "repair it there"
    return TraceError(f"{name}: no valid JSON at byte {offset}: {cause}; {remedy}")


def _split(name: str, data: bytes) -> tuple[bytes | msgspec.Raw, dict[str, msgspec.Raw]]:
    """The JSON of the list of events, and of each other key of the file."""
    if data.lstrip()[:1] == b"[":
        return data, {}
    try:
        top = _TOP.decode(data)
    except msgspec.ValidationError as error:
        raise TraceError(
            f"{name}: is JSON but no trace: expected an object with traceEvents or a list of "
            f"events, found: {data.strip()[:40].decode(errors='replace')}"
        ) from error
    events = top.pop("traceEvents", None)
    if events is None:
        keys = ", ".join(list(top)[:8]) or "none"
        raise TraceError(
            f"{name}: is JSON but no trace: no traceEvents among its keys ({keys}); write one "
            "with profiler.export_chrome_trace"
        )
    return events, top


def _read_event(index: int, raw: msgspec.Raw, notes: _Notes) -> _CompleteAsText | None:
    """One event, its fields coerced where that loses nothing; None if it is not needed."""
    try:
        event = _EVENT_AS_TEXT.decode(raw)
    except msgspec.ValidationError:
        return _coerce(index, raw, notes)
    return event if type(event) is _CompleteAsText else None


def _coerce(index: int, raw: msgspec.Raw, notes: _Notes) -> _CompleteAsText | None:
    where = f"event {index}"
    try:
        fields = _TOP.decode(raw)
    except msgspec.ValidationError:
        notes.add("event(s) that are no objects", where, unread=True)
        return None
    event = {key: _plain(value) for key, value in fields.items() if key != "args"}
    phase, category, name = (event.get(key, "") for key in ("ph", "cat", "name"))
    if category in IGNORED if isinstance(category, str) else False:
        return None
    if isinstance(phase, str) and phase in IGNORED_PHASES and phase:
        return None
    for key, value, allowed in (("ph", phase, "X"), ("cat", category, ""), ("name", name, "")):
        if not isinstance(value, str) or (allowed and value != allowed):
            notes.add(f"event(s) with an unknown `{key}`", f"{where}: {value!r:.60}", unread=True)
            return None
    args = fields.get("args", _NO_ARGS)
    if bytes(args).lstrip()[:1] != b"{":
        notes.add("event(s) whose `args` are no object", where)
        args = _NO_ARGS
    return _CompleteAsText(
        cat=category,
        name=name,
        ts=fields.get("ts", _NULL),
        dur=fields.get("dur", _NULL),
        pid=_key(event.get("pid")),
        tid=_key(event.get("tid")),
        args=args,
    )


def _plain(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:  # a number out of range, a lone surrogate
        return bytes(raw).decode(errors="replace")


def _key(value: Any) -> int | str | None:
    return value if isinstance(value, int | str | None) else str(value)


def _exact_times(complete: list[_Complete]) -> tuple[list[int], list[int]] | None:
    """Start (from the smallest) and duration in ns; None if the decoded numbers are not exact."""
    stamps: list[Any] = [event.ts for event in complete]
    durations: list[Any] = [event.dur for event in complete]
    kinds, duration_kinds = set(map(type, stamps)), set(map(type, durations))
    if not kinds <= {int, float} or not duration_kinds <= {int, float}:
        return None
    if not stamps:
        return [], []
    low, high = min(stamps), max(stamps)
    longest = max(max(durations), -min(durations))
    if high - low >= EXACT_SPAN or longest >= EXACT_SPAN:
        return None
    base = int(low // 1)
    if float not in kinds:
        start = [(stamp - base) * 1000 for stamp in stamps]
    elif max(high, -low) < EXACT_BELOW:
        # Rounded to the nearest, and from the smallest: int() cuts what is not negative.
        half = 0.5 - int((low - base) * 1000 + 0.5)
        start = [int((stamp - base) * 1000 + half) for stamp in stamps]
    else:
        return None
    if float not in duration_kinds:
        duration = [d * 1000 for d in durations]
    elif min(durations) < 0:
        duration = [round(d * 1000) for d in durations]
    else:
        duration = [int(d * 1000 + 0.5) for d in durations]
    return start, duration


def _times_from_text(
    complete: list[_CompleteAsText], notes: _Notes
) -> tuple[list[_CompleteAsText], tuple[list[int], list[int]]]:
    """The events whose times can be read, with start (from the smallest) and duration in ns."""
    kept, start, duration = [], [], []
    for event in complete:
        if event.cat in IGNORED:
            continue
        began, lasted = _nanoseconds(event.ts), _nanoseconds(event.dur)
        if began is None:
            what = f"`ts` {bytes(event.ts)[:40].decode(errors='replace')}"
            notes.add("event(s) without a usable time", f"{event.name}: {what}", unread=True)
            continue
        if lasted is None or abs(lasted) >= LONGEST_NS:
            what = f"`dur` {bytes(event.dur)[:40].decode(errors='replace')}"
            notes.add("event(s) without a usable duration, taken as 0", f"{event.name}: {what}")
            lasted = 0
        kept.append(event)
        start.append(began)
        duration.append(lasted)
    if start and max(start) - min(start) >= LONGEST_NS:
        middle = sorted(start)[len(start) // 2]
        near = [i for i, x in enumerate(start) if abs(x - middle) < LONGEST_NS // 2]
        for i in sorted(set(range(len(start))).difference(near)):
            notes.add("event(s) a century from all others", f"{kept[i].name}", unread=True)
        kept = [kept[i] for i in near]
        start, duration = [start[i] for i in near], [duration[i] for i in near]
    first = min(start, default=0)
    return kept, ([x - first for x in start], duration)


def _nanoseconds(raw: msgspec.Raw) -> int | None:
    """A time written in µs, to the nearest ns; None: no number, or one out of all reason."""
    text = bytes(raw).strip(b'"')
    whole, _, part = text.partition(b".")
    if whole.isdigit() and len(text) < 40 and (not part or (part.isdigit() and len(part) <= 3)):
        return int(whole) * 1000 + int(part.ljust(3, b"0"))
    try:
        value = Decimal(text.decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    if not value.is_finite() or value.adjusted() > 30:
        return None
    return round(value * 1000)


def _assemble(
    name: str,
    complete: list[Any],
    start: list[int],
    duration: list[int],
    metadata: dict[str, Any],
    notes: _Notes,
) -> Trace:
    _note_categories(complete, notes)
    ids: list[list[int]] = [
        [i for i, event in enumerate(complete) if event.cat in known] for known in (OPS, CALLS, GPU)
    ]
    if not any(ids):
        raise TraceError(
            f"{name}: holds no op, runtime call or GPU record among {len(complete)} complete "
            "events; was anything profiled?"
        )
    intern: dict[str, str] = {}
    (ops, op_events), (calls, call_events), (gpu, gpu_events) = (
        _pick(chosen, complete, start, duration, intern) for chosen in ids
    )
    if "" in intern:
        notes.add("or more events without a name", "they are counted under ''")
    ops.thread = [(event.pid, event.tid) for event in op_events]
    ops.annotation = bytearray([OPS[event.cat] for event in op_events])
    ops.args = [event.args for event in op_events]
    calls.thread = [(event.pid, event.tid) for event in call_events]
    calls.correlation = _correlations(_args(call_events, notes), calls, notes, "runtime call(s)")
    gpu_args = _args(gpu_events, notes)
    gpu.correlation = _correlations(gpu_args, gpu, notes, "GPU record(s)")
    gpu.category = bytearray([GPU[event.cat] for event in gpu_events])
    gpu.stream = [_number(x.stream, y.tid) for x, y in zip(gpu_args, gpu_events, strict=True)]
    gpu.device = [_number(x.device, y.pid) for x, y in zip(gpu_args, gpu_events, strict=True)]
    gpu.args = [event.args for event in gpu_events]
    in_whole_us = not any(x % 1000 for x in start)
    columns, implausible = link(
        ops,
        calls,
        gpu,
        rounding_ns=2000 if in_whole_us else 5,
        tie=lambda i: _identity(ops.args[i]),
    )
    return Trace(
        columns,
        source=name,
        devices=_devices(metadata.get("deviceProperties")),
        metadata=metadata,
        warnings=[*notes.all(), *implausible],
        unread=notes.unread,
    )


def _note_categories(complete: list[Any], notes: _Notes) -> None:
    counts = Counter([event.cat for event in complete])
    for category in counts.keys() - OPS.keys() - CALLS - GPU.keys() - IGNORED:
        first = next(event.name for event in complete if event.cat == category)
        for _ in range(counts[category]):
            notes.add(f"event(s) of the unknown category {category[:40]!r}, left out", first)


def _pick(
    chosen: list[int],
    complete: list[Any],
    start: list[int],
    duration: list[int],
    intern: dict[str, str],
) -> tuple[Events, list[Any]]:
    events = [complete[i] for i in chosen]
    once = intern.setdefault
    return (
        Events(
            name=[once(event.name, event.name) for event in events],
            start=[start[i] for i in chosen],
            duration=[duration[i] for i in chosen],
        ),
        events,
    )


def _args(events: list[Any], notes: _Notes) -> list[_Args]:
    decode = _ARGS.decode
    try:
        return [decode(event.args) for event in events]
    except msgspec.DecodeError:
        return [_coerce_args(event, notes) for event in events]


def _coerce_args(event: Any, notes: _Notes) -> _Args:
    try:
        return _ARGS.decode(event.args)
    except msgspec.DecodeError as error:
        notes.add("event(s) whose `args` have a wrong type", f"{event.name}: {error}")
    found = _plain(event.args)
    return _Args(
        **{
            key: value
            for key in ("correlation", "stream", "device")
            if isinstance(value := found.get(key), int | str)
        }
        if isinstance(found, dict)
        else {}
    )


def _correlations(
    args: list[_Args], events: Events, notes: _Notes, what: str
) -> list[int | str | None]:
    found = [x.correlation for x in args]
    if set(map(type, found)) <= {int}:
        return found
    for i, value in enumerate(found):
        if value is None:
            notes.add(f"{what} without a correlation id", events.name[i])
        elif isinstance(value, str) and value.isdecimal() and len(value) < 20:
            found[i] = int(value)
    return found


def _number(*candidates: int | str | None) -> int:
    """The first that is a number, or ends in one as `stream 7` does; 0 if none is."""
    for value in candidates:
        if isinstance(value, int) and abs(value) < LONGEST_NS:
            return value
        if isinstance(value, str):
            digits = value.rpartition(" ")[2]
            if digits.isdecimal() and len(digits) < 18:
                return int(digits)
    return 0


def _identity(args: msgspec.Raw) -> int:
    """The order in which the profiler numbered the ops: an outer one before its inner ones."""
    try:
        identity = _IDENTITY.decode(args)
    except msgspec.DecodeError:
        return 0
    return identity.index if identity.index is not None else identity.external_id or 0


def _devices(properties: Any) -> list[Device]:
    # ROCm writes one device without the list around it.
    listed = [properties] if isinstance(properties, dict) else properties
    devices = []
    for position, entry in enumerate(listed if isinstance(listed, list) else []):
        if not isinstance(entry, dict):
            continue
        number, major, minor, count, memory = (
            value if isinstance(value := entry.get(key), int) else None
            for key in ("id", "computeMajor", "computeMinor", "numSms", "totalGlobalMem")
        )
        devices.append(
            Device(
                id=position if number is None else number,
                name=str(entry.get("name") or ""),
                compute_capability=None if major is None or minor is None else (major, minor),
                sm_count=count,
                memory_bytes=memory,
            )
        )
    return devices
