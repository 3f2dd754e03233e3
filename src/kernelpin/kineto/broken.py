"""The second path: a file that is no JSON, or whose fields have other types than they should.

It is repaired where the fault is known, then read event by event. Whatever is coerced or left
out is told; what cannot be read at all is a TraceError with the byte offset and the cause.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kernelpin.kineto.assembly import assemble
from kernelpin.kineto.fields import (
    IGNORED,
    IGNORED_PHASES,
    NO_ARGS,
    NULL,
    CompleteAsText,
    event_as_text_decoder,
    items_decoder,
    keys_decoder,
    plain,
)
from kernelpin.kineto.notes import Notes
from kernelpin.kineto.repair import Repaired, Unrepairable, mend, mend_at
from kernelpin.kineto.sound import EVENTS_KEY, metadata, no_events
from kernelpin.kineto.times import times_from_text
from kernelpin.trace import Trace, TraceError

# How often a file is decoded again after a guess at what broke it.
MAX_GUESSES = 8

_BYTE = re.compile(r"\(byte (\d+)\)")


def load_broken(name: str, data: bytes) -> Trace:
    """The trace, its warnings naming each fault, or a TraceError."""
    try:
        repaired = mend(data)
    except Unrepairable as error:
        raise _invalid(name, error.offset, error.cause) from None
    for _ in range(MAX_GUESSES):
        try:
            listed, properties = _items(name, repaired.data)
            break
        except msgspec.ValidationError:
            raise no_events(name, repaired.data) from None
        except msgspec.DecodeError as error:
            repaired = _guess(name, repaired, str(error))
    else:
        raise _invalid(name, 0, f"still none after {MAX_GUESSES} repairs")
    notes = Notes(repaired.notes())
    _note_repeated(repaired.data, notes)
    events = [event for i, raw in enumerate(listed) if (event := _event(i, raw, notes)) is not None]
    events, start, duration, whole_us = times_from_text(events, notes)
    return assemble(
        name,
        events,
        start,
        duration,
        whole_us=whole_us,
        properties=properties,
        metadata=lambda: metadata(repaired.data) if _is_object(repaired.data) else {},
        notes=notes,
    )


def _is_object(data: bytes | msgspec.Raw) -> bool:
    return bytes(data).lstrip()[:1] == b"{"


def _items(name: str, data: bytes) -> tuple[list[msgspec.Raw], Any]:
    """The JSON of each event, and the device properties."""
    if not _is_object(data):
        return items_decoder.decode(data), None
    keys = keys_decoder.decode(data)
    if "traceEvents" not in keys:
        raise no_events(name, data)
    return items_decoder.decode(keys["traceEvents"]), plain(keys.get("deviceProperties", NULL))


def _guess(name: str, repaired: Repaired, error: str) -> Repaired:
    """One more repair where the decoder gave up, or the TraceError that says where it did."""
    at = _BYTE.search(error)
    offset = int(at[1]) if at else len(repaired.data)
    better = mend_at(repaired, offset) if at else None
    if better is None:
        cause = _BYTE.sub("", error).strip().removeprefix("JSON is malformed: ")
        if not at:
            cause = "the file is truncated"
        raise _invalid(name, repaired.original(offset), cause)
    return better


def _invalid(name: str, offset: int, cause: str) -> TraceError:
    remedy = (
        "record or download it again" if "truncated" in cause else "repair it or record it again"
    )
    return TraceError(f"{name}: no valid JSON at byte {offset}: {cause}; {remedy}")


def _note_repeated(data: bytes, notes: Notes) -> None:
    """Tell of lists of events that decoding drops: of equal keys JSON keeps the last."""
    found = data.count(EVENTS_KEY)
    if found < 2 or not _is_object(data):
        return
    kept = sum(bytes(value).count(EVENTS_KEY) for value in keys_decoder.decode(data).values())
    if found - kept > 1:
        notes.add("list(s) of events before the last, left out", "traceEvents", unread=True)


def _event(index: int, raw: msgspec.Raw, notes: Notes) -> CompleteAsText | None:
    """A complete event, its fields coerced where that loses nothing; None: not needed."""
    try:
        event = event_as_text_decoder.decode(raw)
    except msgspec.DecodeError:
        return _coerce(index, raw, notes)
    return event if isinstance(event, CompleteAsText) else None


def _coerce(index: int, raw: msgspec.Raw, notes: Notes) -> CompleteAsText | None:
    where = f"event {index}"
    try:
        fields = keys_decoder.decode(raw)
    except msgspec.DecodeError:
        notes.add("event(s) that are no objects, left out", where, unread=True)
        return None
    value = {key: plain(fields.get(key, NULL)) for key in ("ph", "cat", "name", "pid", "tid")}
    if value["ph"] in tuple(IGNORED_PHASES) or value["cat"] in tuple(IGNORED):
        return None
    for key, allowed in (("ph", value["ph"] == "X"), ("cat", True), ("name", True)):
        if not isinstance(value[key], str) or not allowed:
            found = f"{where}: {value[key]!r}"
            notes.add(f"event(s) with an unknown {key}, left out", found, unread=True)
            return None
    args = fields.get("args", NO_ARGS)
    if not _is_object(args):
        notes.add("event(s) whose args are no object", f"{where}: {bytes(args)[:40]!r}")
        args = NO_ARGS
    for key in ("pid", "tid"):
        if type(value[key]) not in (int, str, type(None)):
            notes.add(f"event(s) with an odd {key}", f"{where}: {value[key]!r}")
            value[key] = str(value[key])
    return CompleteAsText(
        cat=value["cat"],
        name=value["name"],
        ts=fields.get("ts", NULL),
        dur=fields.get("dur", NULL),
        pid=value["pid"],
        tid=value["tid"],
        args=args,
    )
