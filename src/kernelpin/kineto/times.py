"""Times in integer ns, exactly.

Times are written in µs whatever `displayTimeUnit` says, with up to three decimals. A double
holds them to the ns only up to 2^43 µs: what torch wrote before 2.2 and the absolute times of
2.2 to 2.4 need their text.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from kernelpin.kineto.fields import IGNORED, Complete, CompleteAsText
from kernelpin.kineto.notes import Notes
from kernelpin.trace.columns import UNREADABLE

# Below: doubles are spaced by less than 0.001. What is left after subtracting the first must be
# small enough to be multiplied by 1000 without rounding to another ns.
EXACT_BELOW = 2**43
EXACT_SPAN = 2**36
# 146 years: what a time must stay below to be held, and added to, as 64-bit ns.
LONGEST_NS = 2**62


def exact_times(complete: list[Complete]) -> tuple[list[int], list[int], bool] | None:
    """Start (from the smallest) and duration in ns, and whether all starts are whole µs.

    None if what was decoded is not exact, or not there.
    """
    stamps: list[Any] = [event.ts for event in complete]
    durations: list[Any] = [event.dur for event in complete]
    kinds, duration_kinds = set(map(type, stamps)), set(map(type, durations))
    if not kinds <= {int, float} or not duration_kinds <= {int, float}:
        return None
    if not stamps:
        return [], [], True
    low, high = min(stamps), max(stamps)
    longest = max(max(durations), -min(durations))
    if high - low >= EXACT_SPAN or longest >= EXACT_SPAN:
        return None
    base = int(low // 1)
    if float not in kinds:
        start = [(stamp - base) * 1000 for stamp in stamps]
    elif max(high, -low) < EXACT_BELOW:
        # To the nearest, and from the smallest: int() cuts what is not negative.
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
    return start, duration, float not in kinds


def times_from_text(
    complete: list[CompleteAsText], notes: Notes
) -> tuple[list[CompleteAsText], list[int], list[int], bool]:
    """The events whose time can be read, and what `exact_times` gives for them.

    A duration that cannot be read is UNREADABLE, so that what rests on it can refuse.
    """
    kept, start, duration = [], [], []
    for event in complete:
        began, lasted = nanoseconds(event.ts), nanoseconds(event.dur)
        if began is None:
            if event.cat not in IGNORED:
                found = f"{event.name}: ts {_excerpt(event.ts)}"
                notes.add("event(s) without a usable time, left out", found, unread=True)
            continue
        if lasted is None or abs(lasted) >= LONGEST_NS:
            if event.cat not in IGNORED:
                found = f"{event.name}: dur {_excerpt(event.dur)}"
                notes.add("event(s) without a usable duration, taken as 0", found)
            lasted = UNREADABLE
        kept.append(event)
        start.append(began)
        duration.append(lasted)
    if start and max(start) - min(start) >= LONGEST_NS:
        middle = sorted(start)[len(start) // 2]
        near = [abs(x - middle) < LONGEST_NS // 2 for x in start]
        for event, is_near in zip(kept, near, strict=True):
            if not is_near:
                found = f"{event.name}: ts {_excerpt(event.ts)}"
                notes.add("event(s) a century from the others, left out", found, unread=True)
        kept = [x for x, is_near in zip(kept, near, strict=True) if is_near]
        duration = [x for x, is_near in zip(duration, near, strict=True) if is_near]
        start = [x for x, is_near in zip(start, near, strict=True) if is_near]
    first = min(start, default=0)
    start = [x - first for x in start]
    return kept, start, duration, not any(x % 1000 for x in start)


def nanoseconds(raw: msgspec.Raw) -> int | None:
    """A time written in µs, to the nearest ns; None: no number, or one out of all reason."""
    text = bytes(raw).strip(b'"')
    whole, _, part = text.partition(b".")
    if whole.isdigit() and len(text) < 40 and (not part or (part.isdigit() and len(part) <= 3)):
        return int(whole) * 1000 + int(part.ljust(3, b"0"))
    try:
        value = Decimal(text.decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    # Past 10^30 µs it is no time; a huge exponent would make a huge integer.
    if not value.is_finite() or value.adjusted() > 30:
        return None
    return round(value * 1000)


def _excerpt(raw: msgspec.Raw) -> str:
    return bytes(raw)[:40].decode(errors="replace")
