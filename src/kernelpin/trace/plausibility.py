"""Records that cannot be true: kept, marked as suspects, and told."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, compress
from typing import TYPE_CHECKING

from kernelpin.trace.columns import NONE, UNREADABLE, Columns, is_step

if TYPE_CHECKING:
    from kernelpin.trace.attribution import Events

# The clocks of GPU and CPU are not one: a kernel may seem to start a little before its launch.
CLOCK_SKEW_NS = 1_000_000
# A queue holds about a thousand launches; none waits for minutes.
LONGEST_WAIT_NS = 60 * 1_000_000_000
# Long, and longer than nearly all others by this factor.
LONG_NS = 1_000_000_000
LONG_RATIO = 1000
# No profile lasts as long; a time that far from the others is a wrong time.
LONGEST_PROFILE_NS = 3600 * 1_000_000_000
# One stream runs one kernel after another; Hopper's dependent launches overlap by microseconds.
LONGEST_OVERLAP_NS = 1_000_000


def negative(ops: Events, calls: Events, gpu: Events) -> tuple[list[str], set[int]]:
    """Take as 0 what no duration can be, and mark it; return what to tell, and the GPU records."""
    warnings = []
    suspects: set[int] = set()
    for what, events in (("op", ops), ("runtime call", calls), ("GPU record", gpu)):
        if min(events.duration, default=0) >= 0:
            continue
        events.untimed = {i for i, duration in enumerate(events.duration) if duration < 0}
        # Those that could not be read were told of by who read them.
        bad = [i for i in sorted(events.untimed) if events.duration[i] != UNREADABLE]
        if bad:
            warnings.append(
                f"{len(bad)} {what}(s) with a negative duration, taken as 0, the first: "
                f"{_short(events.name[bad[0]])}, {events.duration[bad[0]] / 1000:.3f} µs"
            )
        events.duration = [max(0, duration) for duration in events.duration]
        if events is gpu:
            suspects.update(events.untimed)
    return warnings, suspects


def far_off(ops: Events, calls: Events) -> list[str]:
    """What to tell of ops and calls that are hours from the others."""
    starts = ops.start + calls.start
    if max(starts, default=0) - min(starts, default=0) < LONGEST_PROFILE_NS:
        return []
    middle = sorted(starts)[len(starts) // 2]
    far = [i for i, x in enumerate(starts) if abs(x - middle) >= LONGEST_PROFILE_NS]
    names = ops.name + calls.name
    return [
        f"{len(far)} op(s) and runtime call(s) hours from the others, the first: "
        f"{_short(names[far[0]])}"
    ]


def nested_steps(columns: Columns) -> list[str]:
    """What to tell of steps that lie within another one."""
    steps = {i for i, name in enumerate(columns.op_name) if is_step(name)}
    nested = [i for i in steps if columns.op_parent[i] in steps]
    if not nested:
        return []
    first = columns.op_name[min(nested)]
    return [f"{len(nested)} step(s) within another step, the first: {first}"]


def implausible(
    gpu: Events, launches: Sequence[int], call_start: array[int], suspects: set[int]
) -> list[str]:
    """Add the GPU records that cannot be true to the suspects; return what to tell."""
    warnings = []
    waits = [
        start - call_start[launch] if launch != NONE else 0
        for start, launch in zip(gpu.start, launches, strict=True)
    ]
    for found, what in (
        ([i for i, wait in enumerate(waits) if wait < -CLOCK_SKEW_NS], "before"),
        ([i for i, wait in enumerate(waits) if wait > LONGEST_WAIT_NS], "after"),
    ):
        if found:
            wait = abs(waits[found[0]])
            warnings.append(
                f"{len(found)} GPU record(s) start long {what} their launch, the first: "
                f"{_short(gpu.name[found[0]])}, {wait / 1000:.3f} µs {what} it"
            )
            suspects.update(found)
    if max(gpu.duration, default=0) > LONG_NS:
        median = sorted(gpu.duration)[(len(gpu) - 1) // 2]
        limit = max(LONG_NS, LONG_RATIO * median)
        long = [i for i, duration in enumerate(gpu.duration) if duration > limit]
        if long:
            warnings.append(
                f"{len(long)} GPU record(s) of seconds among records of {median / 1000:.3f} µs, "
                f"the first: {_short(gpu.name[long[0]])}, {gpu.duration[long[0]] / 1e9:.3f} s"
            )
            suspects.update(long)
    overlapping = _overlapping(gpu)
    if overlapping:
        warnings.append(
            f"{len(overlapping)} GPU record(s) end long after the next of their stream starts, "
            f"the first: {_short(gpu.name[overlapping[0]])}"
        )
        suspects.update(overlapping)
    return warnings


def midstream_strays(columns: Columns) -> list[str]:
    """Fill `unrecorded`; return what to tell.

    A stream runs in order what it is given. What was launched before the recording runs before
    anything launched within it: a stray that runs later was launched within it, unrecorded.
    """
    c = columns
    if c.linked == len(c.kernel_name):
        return []
    streams: dict[tuple[int, int], list[int]] = {}
    for i in sorted(range(len(c.kernel_name)), key=c.kernel_start.__getitem__):
        streams.setdefault((c.kernel_device[i], c.kernel_stream[i]), []).append(i)
    found: list[tuple[int, int, int]] = []  # the stray, launched after, and before
    for ids in streams.values():
        since = NONE
        waiting: list[tuple[int, int]] = []
        for i in ids:
            launch = c.kernel_launch[i]
            if launch != NONE:
                found += [(stray, after, c.call_start[launch]) for stray, after in waiting]
                waiting = []
                since = max(since, c.call_start[launch])
            elif since != NONE:
                waiting.append((i, since))
        found += [(stray, after, c.kernel_start[stray]) for stray, after in waiting]
    if not found:
        return []
    c.unrecorded = [(after, max(after, before)) for _, after, before in found]
    return [
        f"{len(found)} GPU record(s) whose launch was not recorded, though it lies within the "
        f"trace, the first: {_short(c.kernel_name[found[0][0]])}"
    ]


def between_steps(columns: Columns) -> list[str]:
    """What to tell of launches between two steps: claims about steps pass them over."""
    c = columns
    steps = sorted(
        (c.op_start[i], c.op_start[i] + c.op_duration[i])
        for i, name in enumerate(c.op_name)
        if is_step(name)
    )
    starts = [start for start, _ in steps]
    ends = list(accumulate((end for _, end in steps), max))
    found = []
    for call in compress(range(len(c.call_start)), c.call_launch):
        begun = bisect_right(starts, c.call_start[call])
        if 0 < begun < len(steps) and ends[begun - 1] < c.call_start[call]:
            found.append(call)
    if not found:
        return []
    return [
        f"{len(found)} launch(es) between two steps, in none, so no claim about steps counts them, "
        f"the first: {_short(c.call_name[found[0]])} at {c.call_start[found[0]] / 1000:.3f} µs"
    ]


def _overlapping(gpu: Events) -> list[int]:
    """Records that run on long after the next one of their stream has started."""
    latest: dict[tuple[int, int], int] = {}
    found = []
    for i in sorted(range(len(gpu)), key=gpu.start.__getitem__):
        stream = (gpu.device[i], gpu.stream[i])
        before = latest.get(stream)
        latest[stream] = i
        if before is not None:
            end = gpu.start[before] + gpu.duration[before]
            if end - gpu.start[i] > LONGEST_OVERLAP_NS:
                found.append(before)
    return found


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:40]}…{name[-16:]}"
