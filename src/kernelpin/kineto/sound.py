"""The fast path: a file that is JSON, with fields of the types they should have."""

from __future__ import annotations

from typing import Any

import msgspec

from kernelpin.kineto.assembly import assemble
from kernelpin.kineto.fields import (
    UNDECODABLE,
    Complete,
    CompleteAsText,
    file_as_text_decoder,
    file_decoder,
    keys_decoder,
    list_as_text_decoder,
    list_decoder,
    plain,
)
from kernelpin.kineto.notes import Notes
from kernelpin.kineto.repair import mend
from kernelpin.kineto.times import exact_times, times_from_text
from kernelpin.trace import Trace, TraceError

EVENTS_KEY = b'"traceEvents"'


class Doubtful(msgspec.DecodeError):
    """JSON that may hold more than decoding it keeps."""


def load_sound(name: str, data: bytes) -> Trace:
    """The trace, or a DecodeError that sends the file to the second path."""
    # Of two lists of events JSON keeps the last, which nobody meant.
    if data.count(EVENTS_KEY) > 1:
        raise Doubtful("traceEvents occurs more than once")
    is_list = data.lstrip()[:1] == b"["
    listed, properties = _decode(name, data, list_decoder if is_list else file_decoder)
    complete: list[Any] = [event for event in listed if type(event) is Complete]
    del listed
    notes = Notes()
    times = exact_times(complete)
    if times is not None:
        start, duration, whole_us = times
    else:
        decoder = list_as_text_decoder if is_list else file_as_text_decoder
        listed, properties = _decode(name, data, decoder)
        texts = [event for event in listed if type(event) is CompleteAsText]
        del listed
        complete, start, duration, whole_us = times_from_text(texts, notes)
    return assemble(
        name,
        complete,
        start,
        duration,
        whole_us=whole_us,
        properties=plain(properties),
        metadata=lambda: {} if is_list else metadata(data),
        notes=notes,
    )


def metadata(data: bytes) -> dict[str, Any]:
    """The top-level keys but traceEvents."""
    try:
        keys = keys_decoder.decode(data)
    except UNDECODABLE:  # a key that is no UTF-8: decoding skips those it does not know
        keys = keys_decoder.decode(mend(data).data)
    return {key: plain(value) for key, value in keys.items() if key != "traceEvents"}


def no_events(name: str, data: bytes) -> TraceError:
    """The error for JSON without a list of events."""
    try:
        keys = ", ".join(list(keys_decoder.decode(data))[:8]) or "none"
        found = f"no traceEvents among its keys ({keys})"
    except UNDECODABLE:
        found = f"found {data.strip()[:40].decode(errors='replace')}"
    return TraceError(
        f"{name}: is JSON but no trace: expected an object with traceEvents or a list of events, "
        f"{found}; write one with profiler.export_chrome_trace"
    )


def _decode(name: str, data: bytes, decoder: Any) -> tuple[list[Any], msgspec.Raw]:
    found = decoder.decode(data)
    if isinstance(found, list):
        return found, msgspec.Raw(b"null")
    if found.traceEvents is None:
        raise no_events(name, data)
    return found.traceEvents, found.deviceProperties
