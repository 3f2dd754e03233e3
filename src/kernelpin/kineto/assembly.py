"""Decoded events → `Trace`: sorted by what they are, linked, their oddities noted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import chain, compress
from typing import Any

import msgspec

from kernelpin.kineto.fields import (
    CALLS,
    GPU,
    IGNORED,
    OPS,
    Args,
    args_decoder,
    identity_decoder,
    plain,
)
from kernelpin.kineto.notes import Notes
from kernelpin.kineto.times import LONGEST_NS
from kernelpin.trace import Device, Trace, TraceError
from kernelpin.trace.attribution import Correlation, Events, link

# Starts and durations are rounded each on its own: an inner op may end this late.
ROUNDING_NS = 5
ROUNDING_OF_WHOLE_US_NS = 2000
# Calls that have records, of which none is work: newer torch versions may name them otherwise.
_WAITS = re.compile(r"Synchronize|Wait|Event(Record|Query)", re.IGNORECASE)


def assemble(
    name: str,
    complete: list[Any],
    start: list[int],
    duration: list[int],
    *,
    whole_us: bool,
    properties: Any,
    metadata: Callable[[], dict[str, Any]],
    notes: Notes,
) -> Trace:
    """Link the complete events; `start` and `duration` are theirs, in ns."""
    categories = [event.cat for event in complete]
    names: dict[str, str] = {}  # one string a name, not one an event

    def pick(known: Any) -> tuple[list[Any], Events]:
        chosen = list(map(known.__contains__, categories))
        events = list(compress(complete, chosen))
        once = names.setdefault
        return events, Events(
            name=[once(event.name, event.name) for event in events],
            start=list(compress(start, chosen)),
            duration=list(compress(duration, chosen)),
        )

    (op_events, ops), (call_events, calls), (gpu_events, gpu) = map(pick, (OPS, CALLS, GPU))
    if not names:
        raise TraceError(
            f"{name}: holds no op, runtime call or GPU record among {len(complete)} complete "
            "events; profile again, and step the schedule past its warm-up"
        )
    if "" in names:
        count = sum(x == "" for events in (ops, calls, gpu) for x in events.name)
        notes.add("event(s) without a name", "counted under ''", count=count)
    ops.thread = _threads(op_events, notes)
    ops.annotation = bytearray([OPS[event.cat] for event in op_events])
    ops.args = [event.args for event in op_events]
    calls.thread = _threads(call_events, notes)
    calls.correlation = _correlations(_args(call_events, notes), calls, notes, "runtime call(s)")
    gpu_args = _args(gpu_events, notes)
    gpu.correlation = _correlations(gpu_args, gpu, notes, "GPU record(s)")
    _note_categories(categories, complete, calls, gpu, notes)
    gpu.category = bytearray([GPU[event.cat] for event in gpu_events])
    gpu.stream = _numbers([x.stream for x in gpu_args], [x.tid for x in gpu_events])
    gpu.device = _numbers([x.device for x in gpu_args], [x.pid for x in gpu_events])
    gpu.args = [event.args for event in gpu_events]
    columns, odd = link(
        ops,
        calls,
        gpu,
        rounding_ns=ROUNDING_OF_WHOLE_US_NS if whole_us else ROUNDING_NS,
        tie=lambda i: _identity(ops.args[i]),
    )
    return Trace(
        columns,
        source=name,
        devices=_devices(properties),
        metadata=metadata,
        warnings=[*notes.lines(), *odd],
        unread=notes.unread,
    )


def _note_categories(
    categories: list[str], complete: list[Any], calls: Events, gpu: Events, notes: Notes
) -> None:
    """Tell of categories that no torch known here writes: their events may be missed.

    One that shares its correlation id with a call, a GPU record or another such event is the GPU's
    work or the call that started it: what is left out then may be a kernel. The record of a wait
    is neither.
    """
    unknown = set(categories) - OPS.keys() - CALLS - GPU.keys() - IGNORED
    if not unknown:
        return
    events = [event for event in complete if event.cat in unknown]
    found = Events(name=[event.name for event in events])
    found.correlation = _correlations(_args(events, Notes()), found, Notes(), "event(s)")
    sharing = Counter(chain(calls.correlation, gpu.correlation, found.correlation))
    waits = {
        correlation
        for correlation, name in zip(calls.correlation, calls.name, strict=True)
        if _WAITS.search(name)
    }
    for event, correlation in sorted(
        zip(events, found.correlation, strict=True), key=lambda pair: pair[0].cat
    ):
        what = f"event(s) of the unknown category {event.cat[:40]!r}"
        shared = correlation is not None and sharing[correlation] > 1
        works = shared and correlation not in waits
        what += (
            " that may be GPU work, as their correlation ids say, left out (a newer kernelpin may "
            "know them)"
            if works
            else ", left out"
        )
        notes.add(what, event.name, unread=works)


def _threads(events: list[Any], notes: Notes) -> list[Any]:
    threads = [(event.pid, event.tid) for event in events]
    distinct = set(threads)
    without = [x for x in distinct if None in x]
    # Where none has a number, there is one thread.
    if without and len(distinct) > 1:
        first = events[threads.index(without[0])].name
        count = sum(map(threads.count, without))
        notes.add("event(s) without a thread, though others have one", first, count=count)
    return threads


def _args(events: list[Any], notes: Notes) -> list[Args]:
    decode = args_decoder.decode
    try:
        return [decode(event.args) for event in events]
    except msgspec.DecodeError:
        return [_coerced(event, notes) for event in events]


def _coerced(event: Any, notes: Notes) -> Args:
    try:
        return args_decoder.decode(event.args)
    except msgspec.DecodeError as error:
        notes.add("event(s) whose args have a wrong type", f"{event.name}: {error}")
    found = plain(event.args)
    if not isinstance(found, dict):
        return Args()
    usable = (found.get(key) for key in ("correlation", "stream", "device"))
    return Args(*(x if type(x) in (int, str) else None for x in usable))


def _correlations(args: list[Args], events: Events, notes: Notes, what: str) -> list[Correlation]:
    found: list[Correlation] = [x.correlation for x in args]
    if set(map(type, found)) <= {int}:
        return found
    for i, value in enumerate(found):
        if value is None:
            notes.add(f"{what} without a correlation id", events.name[i])
        elif isinstance(value, str) and value.isdecimal() and len(value) < 20:
            found[i] = int(value)
        elif isinstance(value, str):
            notes.add(f"{what} with an odd correlation id", f"{events.name[i]}: {value!r}")
    return found


def _numbers(first: list[Any], second: list[Any]) -> list[int]:
    if set(map(type, first)) == {int} and -LONGEST_NS < min(first) <= max(first) < LONGEST_NS:
        return first
    return [_number(*both) for both in zip(first, second, strict=True)]


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
        identity = identity_decoder.decode(args)
    except msgspec.DecodeError:
        return 0
    for number in (identity.index, identity.id, identity.old):
        if number is not None:
            return number
    return 0


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
