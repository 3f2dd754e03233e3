"""From measurements to entries, and from two entries of a test to the one that stays."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import prod
from statistics import median
from typing import TYPE_CHECKING, cast

import msgspec

from kernelpin.baselines.entry import (
    Entry,
    KernelEntry,
    Metric,
    Mode,
    Recording,
    Work,
    median_of,
    round_figure,
    spread_of,
    torch_minor,
)
from kernelpin.baselines.text import BaselineError
from kernelpin.render import count

if TYPE_CHECKING:
    from kernelpin.machine import Gpu
    from kernelpin.stopwatch import KernelFigure, Samples

# Three figures that all differ, of eight or more, are rarer.
_RARE = 1e-5


@dataclass(frozen=True, slots=True)
class Measurement:
    """One test's samples, one a fresh process, all of the same metric and input."""

    test_id: str
    gpu: Gpu
    samples: Sequence[Samples]
    date: str  # YYYY-MM-DD
    commit: str | None = None
    kernels: Sequence[KernelFigure] | None = None  # where another pass listed them
    work: Work | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A measurement and how it was judged: what becomes a `pending` entry."""

    measurement: Measurement
    verdict: str
    reason: str | None = None
    mode: Mode = "replace"


def propose(entry: Entry | None, measurement: Measurement, mode: Mode = "replace") -> Entry:
    """The entry as it would be with this measurement; BaselineError where it makes no sense.

    `replace` puts the new figures in the place of the old ones, `add` puts them beside. A
    published entry gives way either way; limit and first accepted median stay.
    """
    return merge(entry, _from_measurement(measurement), mode)


def merge(current: Entry | None, new: Entry, mode: Mode) -> Entry:
    """`new`, an entry of one recording, taken into `current`; nothing else of it is lost."""
    if current is None:
        return msgspec.structs.replace(new, first_median=_first(new))
    if current.source == "published":
        return msgspec.structs.replace(
            new, first_median=_first(new), limit=current.limit, work=new.work or current.work
        )
    if holds(current, new):
        return current
    alike = what_is_measured(current) == what_is_measured(new)
    if mode == "add" and not alike:
        raise BaselineError(
            f"cannot add {describe(new)} to a baseline of {describe(current)}: replace it instead"
        )
    if mode == "add":
        _refuse_known(current, new)
    kept = msgspec.structs.replace(
        new,
        limit=current.limit,
        note=new.note or (current.note if alike else None),
        work=new.work or (current.work if alike else None),
        first_median=current.first_median if alike and current.first_median else _first(new),
    )
    if not alike:
        return kept
    minors = {torch_minor(recording.torch) for recording in new.recordings}
    if mode == "add":
        processes = current.processes + new.processes
        recordings = current.recordings + new.recordings
    else:
        processes = new.processes
        # Counts of other torch versions stay, and so does where they come from.
        others = [r for r in current.recordings if torch_minor(r.torch) not in minors]
        recordings = (*(others if new.metric == "counts" else ()), *new.recordings)
    counts = {**(current.counts or {}), **(new.counts or {})}
    return msgspec.structs.replace(
        kept,
        processes=processes,
        recordings=recordings,
        median=median_of(processes) if processes else 0.0,
        spread=spread_of(processes),
        counts=counts or None,
        kernels=new.kernels or current.kernels,
        power_capped=new.power_capped or (mode == "add" and current.power_capped),
    )


def latest(entry: Entry) -> Entry:
    """The entry with its last recording alone: what a proposed entry brings."""
    recording, processes = list(entry.by_recording())[-1]
    minor = torch_minor(recording.torch)
    counts = {minor: entry.counts[minor]} if entry.counts and minor in entry.counts else None
    return msgspec.structs.replace(
        entry,
        processes=processes,
        recordings=(recording,),
        median=median_of(processes) if processes else 0.0,
        spread=spread_of(processes),
        counts=counts,
        pending=None,
    )


def holds(current: Entry, new: Entry) -> bool:
    """Whether the recording of `new` is one of `current` already (the reason aside).

    Of another day or commit too, where its figures can be no others: what an interrupted recording
    stored makes the checkout another, and it may go on past midnight.
    """
    if what_is_measured(current) != what_is_measured(new):
        return False
    wanted, figures = list(new.by_recording())[-1]
    minor = torch_minor(wanted.torch)
    same_counts = (new.counts or {}).get(minor) == (current.counts or {}).get(minor)
    wanted = msgspec.structs.replace(wanted, reason=None)
    return same_counts and any(
        own == figures
        and (
            msgspec.structs.replace(recording, reason=None) == wanted
            or (_undated(recording) == _undated(wanted) and _are_the_same(figures, figures))
        )
        for recording, own in current.by_recording()
    )


def _refuse_known(current: Entry, new: Entry) -> None:
    """Figures that one recording begins with and another too are of the same processes.

    Sessions that go on from one journal all begin with what it holds.
    """
    recording, figures = list(new.by_recording())[-1]
    for stored, own in current.by_recording():
        if stored.uuid != recording.uuid:
            continue
        pairs = zip(figures, own, strict=False)
        shared = tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if _are_the_same(shared, own):
            many = count(len(own), "process", "processes")
            raise BaselineError(
                f"{len(shared)} of its {count(len(figures), 'figure')} are stored already, in the "
                f"recording of {stored.date} ({many}), and a process counts once: measure anew "
                "and add that (kernelpin record --add --fresh -- …)"
            )


def _are_the_same(shared: tuple[float, ...], own: tuple[float, ...]) -> bool:
    """Whether it is no chance that another recording begins with these figures of `own`.

    Some clocks are coarse. The chance that a process repeats a figure is taken to be its share
    among those stored, and that of one seen once to be its square: of eight that all differ, no
    two pairs repeat one.
    """
    if not shared:
        return False
    seen = Counter(own)
    chances = (seen[f] / len(own) if seen[f] > 1 else len(own) ** -2 for f in shared)
    return prod(chances) <= _RARE


def _undated(recording: Recording) -> Recording:
    return msgspec.structs.replace(recording, date="", commit=None, reason=None)


def fingerprint(entry: Entry | None, torch: str | None) -> str | None:
    """What a replacement by figures of this torch version would take away, in twelve digits."""
    if entry is None:
        return None
    counts = (entry.counts or {}).get(torch_minor(torch))
    if entry.metric == "counts" and counts is None:
        return None
    figures = (what_is_measured(entry), entry.source, entry.median, entry.processes, counts)
    text = msgspec.json.encode(figures, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:12]


def what_is_measured(entry: Entry) -> tuple[str | None, ...]:
    return entry.metric, entry.input, entry.l2, entry.method


def describe(entry: Entry) -> str:
    """`device_us of bf16[64,32], L2 hot, by graph`."""
    parts = [entry.metric if entry.input is None else f"{entry.metric} of {entry.input}"]
    parts += [f"L2 {entry.l2}"] if entry.l2 else []
    parts += [f"by {entry.method}"] if entry.method else []
    return ", ".join(parts)


def _first(entry: Entry) -> float | None:
    return entry.median if entry.processes else None


def _from_measurement(measurement: Measurement) -> Entry:
    samples = measurement.samples
    test_id = measurement.test_id
    if not samples:
        raise BaselineError(f"{test_id}: no process measured it")
    first = samples[0]
    for name in ("metric", "input", "l2", "method"):
        found = list(dict.fromkeys(getattr(sample, name) for sample in samples))
        if len(found) > 1:
            raise BaselineError(
                f"{test_id}: processes differ in {name}: {', '.join(map(str, found))}"
            )
    gpu = measurement.gpu
    counting = first.metric == "counts"
    figures = () if counting else tuple(round_figure(sample.figure) for sample in samples)
    states = [state for sample in samples for state in sample.state]
    clocks = [state.sm_clock_mhz for state in states if state.sm_clock_mhz is not None]
    counts = _agreed_counts(test_id, samples)
    return Entry(
        metric=cast("Metric", first.metric),
        source="measured",
        median=median_of(figures) if figures else 0.0,
        spread=spread_of(figures),
        processes=figures,
        recordings=(
            Recording(
                date=measurement.date,
                processes=len(samples),
                commit=measurement.commit,
                uuid=gpu.uuid,
                driver=gpu.driver,
                cuda=gpu.cuda,
                torch=gpu.torch,
                triton=gpu.triton,
                sm_clock_mhz=round(median(clocks)) if clocks else None,
            ),
        ),
        kernels=_kernels(measurement),
        counts=None if counts is None else {torch_minor(gpu.torch): counts},
        input=first.input or None,
        l2=first.l2,
        method=first.method,
        power_capped=any(sample.power_capped for sample in samples),
        work=measurement.work,
        note=first.note,
    )


def _agreed_counts(test_id: str, samples: Sequence[Samples]) -> dict[str, int] | None:
    counted = [sample.counts for sample in samples if sample.counts is not None]
    if not counted:
        return None
    for other in counted[1:]:
        for name in sorted(counted[0].keys() | other.keys()):
            one, two = counted[0].get(name), other.get(name)
            if one != two:
                raise BaselineError(
                    f"{test_id}: {name} is {one} in one process and {two} in another: "
                    "a count that is not deterministic cannot be pinned"
                )
    return dict(counted[0])


def _kernels(measurement: Measurement) -> tuple[KernelEntry, ...]:
    """The kernels of the first process that listed any, each with its median over all that did."""
    listed: list[Iterable[KernelFigure]] = [s.kernels for s in measurement.samples if s.kernels]
    if measurement.kernels is not None:
        listed = [measurement.kernels]
    if not listed:
        return ()
    durations: dict[str, list[float]] = {}
    for kernels in listed:
        for kernel in kernels:
            durations.setdefault(kernel.name, []).append(kernel.median_us)
    return tuple(
        KernelEntry(
            name=kernel.name,
            count=kernel.count,
            median_us=round_figure(median(durations[kernel.name])),
        )
        for kernel in listed[0]
    )
