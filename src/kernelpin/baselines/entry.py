"""What a baseline file says, as data: a device, and one entry a test.

Figures are microseconds, but for `host_ratio`, which has no unit. `processes` holds one figure a
fresh process, in the order of `recordings`, each of which says how many of them are its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import date as calendar_date
from statistics import fmean, median
from typing import Literal, TypeAlias

import msgspec

from kernelpin.limits import DTYPES

SCHEMA = 1
MIN_PROCESSES = 8

Metric: TypeAlias = Literal["device_us", "kernel_us", "counts", "host_ratio"]
Source: TypeAlias = Literal["measured", "published"]
Mode: TypeAlias = Literal["replace", "add"]

Where: TypeAlias = tuple[str | int, ...]

_MINOR = re.compile(r"(\d+\.\d+)")


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unknown keys are refused: in a file edited by hand they are misspelt ones."""


class DeviceRecord(_Record, frozen=True):
    """The GPU that all entries of a file were measured on; None: not known, and not compared."""

    name: str
    memory_bytes: int | None = None
    sm_count: int | None = None
    power_limit_w: float | None = None
    mig: str | None = None


class KernelEntry(_Record, frozen=True):
    """A kernel that ran: how often a call, and its median duration."""

    name: str
    count: int
    median_us: float | None = None


class Recording(_Record, frozen=True):
    """One session that recorded: when, on which card, with what, and how many processes."""

    date: str
    processes: int
    commit: str | None = None
    uuid: str | None = None
    driver: str | None = None
    cuda: str | None = None
    torch: str | None = None
    triton: str | None = None
    sm_clock_mhz: int | None = None
    reason: str | None = None


class Work(_Record, frozen=True):
    """What a call must do at least: FLOP, bytes to and from memory, and the type it computes in."""

    dtype: str
    flops: int = 0
    bytes: int = 0


class Pending(_Record, frozen=True):
    """Stands in a proposed entry only: how it was judged, and which stored one it would replace.

    `replaces` is the `fingerprint` of the stored entry that was seen; None: there was none.
    """

    verdict: str
    mode: Mode = "replace"
    replaces: str | None = None
    reason: str | None = None


class Entry(_Record, frozen=True):
    """One test's baseline on one kind of GPU.

    `spread` is the standard deviation of the processes' logarithms; `first_median` the median that
    was accepted first, from which drift counts; `counts` the deterministic figures by torch minor
    version ("2.11"). A `published` entry has no processes but a `cite` and a `band` (0.2: ±20 %).
    """

    metric: Metric
    source: Source
    median: float = 0.0
    spread: float = 0.0
    processes: tuple[float, ...] = ()
    recordings: tuple[Recording, ...] = ()
    kernels: tuple[KernelEntry, ...] = ()
    counts: dict[str, dict[str, int]] | None = None
    input: str | None = None
    l2: str | None = None
    method: str | None = None
    power_capped: bool = False
    limit: float | None = None
    first_median: float | None = None
    work: Work | None = None
    cite: str | None = None
    band: float | None = None
    note: str | None = None
    pending: Pending | None = None

    @property
    def uuids(self) -> frozenset[str]:
        """The cards that recorded it."""
        return frozenset(r.uuid for r in self.recordings if r.uuid is not None)

    def of_card(self, uuid: str | None) -> tuple[float, ...]:
        """The figures that this very card recorded."""
        return tuple(
            figure for recording, figures in self.by_recording() for figure in figures
            if uuid is not None and recording.uuid == uuid
        )  # fmt: skip

    def by_recording(self) -> Iterator[tuple[Recording, tuple[float, ...]]]:
        """Each recording with its own process figures."""
        start = 0
        for recording in self.recordings:
            own = recording.processes if self.processes else 0
            yield recording, self.processes[start : start + own]
            start += own


class File(_Record, frozen=True):
    """A baseline file: every entry of one test module on one kind of GPU."""

    device: DeviceRecord
    entries: dict[str, Entry]
    schema: int = SCHEMA


def torch_minor(version: str | None) -> str:
    """`2.11.0+cu130` → `2.11`; a version that is not understood stays as it is."""
    found = _MINOR.match(version or "")
    return found.group(1) if found else (version or "unknown")


def round_figure(value: float) -> float:
    """Six significant digits: a hundredth of the least noise between processes ever seen."""
    return float(f"{value:.6g}")


def spread_of(figures: tuple[float, ...]) -> float:
    """The standard deviation of the logarithms (n - 1), 0 for fewer than two figures."""
    if len(figures) < 2:
        return 0.0
    logs = [math.log(figure) for figure in figures]
    mean = fmean(logs)
    variance = math.fsum((value - mean) ** 2 for value in logs) / (len(logs) - 1)
    return float(f"{math.sqrt(variance):.3g}")


def median_of(figures: tuple[float, ...]) -> float:
    return round_figure(median(figures))


def file_problem(file: File) -> tuple[Where, str] | None:
    """The first thing in a file that cannot be true, and where; None where all can."""
    if not file.device.name.strip():
        return ("device", "name"), "device name is empty"
    for test_id, entry in file.entries.items():
        if not test_id.strip():
            return ("entries", test_id), "test id is empty"
        found = entry_problem(entry)
        if found is not None:
            where, message = found
            return ("entries", test_id, *where), message
    return None


def entry_problem(entry: Entry) -> tuple[Where, str] | None:
    """The first thing in an entry that cannot be true, and where; None where all can."""
    checks = (_of_figures, _of_recordings, _of_source, _of_counts)
    return next((found for check in checks if (found := check(entry)) is not None), None)


def _of_figures(entry: Entry) -> tuple[Where, str] | None:
    positive: list[tuple[Where, float | None]] = [
        (("first_median",), entry.first_median),
        *((("processes", i), figure) for i, figure in enumerate(entry.processes)),
        *((("kernels", i, "median_us"), k.median_us) for i, k in enumerate(entry.kernels)),
    ]
    if entry.metric != "counts":
        positive.insert(0, (("median",), entry.median))
    for where, value in positive:
        if value is not None and not (math.isfinite(value) and value > 0):
            return where, f"{where[0]}: {value} is no positive, finite figure"
    for name, value in (("limit", entry.limit), ("band", entry.band)):
        if value is not None and not 0 < value < 1:
            return (name,), f"{name}: {value} is not between 0 and 1 (0.05 stands for 5 %)"
    if not (math.isfinite(entry.spread) and entry.spread >= 0):
        return ("spread",), f"spread: {entry.spread} is no standard deviation"
    for i, kernel in enumerate(entry.kernels):
        if kernel.count < 1:
            return ("kernels", i, "count"), f"count: a kernel that ran {kernel.count} times"
    if entry.work is not None:
        for name, amount in (("flops", entry.work.flops), ("bytes", entry.work.bytes)):
            if amount < 0:
                return ("work", name), f"work {name}: {amount} is no amount"
        if entry.work.dtype not in DTYPES:
            known = ", ".join(DTYPES)
            return ("work", "dtype"), f"work dtype: {entry.work.dtype!r} is none of {known}"
    return None


def _of_source(entry: Entry) -> tuple[Where, str] | None:
    if entry.source == "published":
        if entry.cite is None or entry.band is None:
            return (), "a published entry needs cite and band"
        if entry.processes or entry.recordings or entry.counts:
            return (), "a published entry has no processes, recordings or counts"
        return None
    if entry.metric == "counts":
        if entry.processes:
            return ("processes",), "an entry of counts has no process figures"
        if not entry.counts:
            return (), "an entry of counts needs counts"
        return None
    if not entry.processes:
        return ("processes",), "a measured entry needs the figures of its processes"
    expected = median_of(entry.processes)
    if not math.isclose(entry.median, expected, rel_tol=1e-4):
        return ("median",), f"median is {entry.median}, but that of its processes is {expected}"
    expected = spread_of(entry.processes)
    if not math.isclose(entry.spread, expected, rel_tol=0.02, abs_tol=1e-6):
        return ("spread",), f"spread is {entry.spread}, but that of its processes is {expected}"
    return None


def _of_recordings(entry: Entry) -> tuple[Where, str] | None:
    if entry.source == "measured" and not entry.recordings:
        return (), "a measured entry needs recordings"
    for i, recording in enumerate(entry.recordings):
        where: Where = ("recordings", i)
        if recording.processes < 1:
            return where, f"recording {i + 1} has {recording.processes} processes"
        try:
            calendar_date.fromisoformat(recording.date)
        except ValueError:
            return where, f"recording {i + 1}: date {recording.date!r} is not YYYY-MM-DD"
    seen: dict[tuple[Recording, tuple[float, ...]], int] = {}
    for i, (recording, figures) in enumerate(entry.by_recording()):
        first = seen.setdefault((recording, figures), i)
        if first != i and figures:
            twice = f"recording {i + 1} is recording {first + 1} once more: delete one of them, and"
            return ("recordings", i), f"{twice} its process figures"
    total = sum(recording.processes for recording in entry.recordings)
    if entry.processes and total != len(entry.processes):
        found = f"{len(entry.processes)} process figures, but its recordings count {total}"
        return ("processes",), found
    return None


def _of_counts(entry: Entry) -> tuple[Where, str] | None:
    for version, counts in (entry.counts or {}).items():
        if _MINOR.fullmatch(version) is None:
            return ("counts", version), f"counts: {version!r} is no torch minor version like 2.11"
        if not counts:
            return ("counts", version), f"counts: none for torch {version}: restore or delete it"
        found = _negative(counts)
        if found is not None:
            return ("counts", version, found), f"counts: {found} is {counts[found]}"
    return None


def _negative(counts: Mapping[str, int]) -> str | None:
    return next((name for name, count in counts.items() if count < 0), None)
