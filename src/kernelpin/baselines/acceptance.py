"""Taking proposed entries in: what is refused, what asks for a reason, and what is then written."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from kernelpin import limits
from kernelpin.baselines.device import difference_of, known_better
from kernelpin.baselines.entry import (
    MIN_PROCESSES,
    DeviceRecord,
    Entry,
    File,
    Pending,
    torch_minor,
)
from kernelpin.baselines.proposal import (
    describe,
    fingerprint,
    holds,
    latest,
    merge,
    what_is_measured,
)
from kernelpin.baselines.store import Store, is_baseline, read_file
from kernelpin.baselines.text import BaselineError
from kernelpin.trace import slugify

# More than the finest comparison calls equal (base against head: 1 %).
SLOWER_BY = 0.01
# Small accepted steps add up: past the limit of a stored baseline they need words too.
DRIFT_LIMIT = 0.05


@dataclass(frozen=True, slots=True)
class Change:
    """One entry that is new or other than before."""

    slug: str
    test_id: str
    old: Entry | None
    new: Entry
    verdict: str

    @property
    def ratio(self) -> float | None:
        """New median over the old one; None where they are of different things, or counts."""
        old, new = self.old, self.new
        if old is None or old.metric != new.metric or new.metric == "counts":
            return None
        if old.source == "measured" and what_is_measured(old) != what_is_measured(new):
            return None
        return new.median / old.median

    @property
    def drift(self) -> float | None:
        """New median over the first that was ever accepted."""
        first = self.new.first_median
        return self.new.median / first if first and self.new.median else None

    @property
    def grown(self) -> dict[str, tuple[int, int]]:
        """Counts that rose, for the torch version that measured: name → (old, new)."""
        minor = torch_minor(self.new.recordings[-1].torch) if self.new.recordings else ""
        old = (self.old.counts or {}).get(minor, {}) if self.old is not None else {}
        new = (self.new.counts or {}).get(minor, {})
        both = sorted(old.keys() & new.keys())
        return {name: (old[name], new[name]) for name in both if new[name] > old[name]}

    @property
    def asks_reason(self) -> bool:
        """Whether it takes a reason: slower, slower again after small steps, or more of a count."""
        if self.grown:
            return True
        if self.ratio is None or (self.old is not None and self.old.source == "published"):
            return False
        drifted = self.drift is not None and self.drift > 1 + DRIFT_LIMIT and self.ratio > 1
        return self.ratio > 1 + SLOWER_BY or drifted


@dataclass(frozen=True, slots=True)
class Refusal:
    """One proposed entry that is not taken in, why, and what to do."""

    slug: str
    test_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What `accept` did; where `asks_reason` holds some and no reason was given, nothing."""

    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    unchanged: tuple[str, ...]
    written: tuple[Path, ...]

    @property
    def asks_reason(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.asks_reason)


def read_proposed(path: Path) -> list[File]:
    """The proposed files at `path`: a report or proposed folder, a GPU's folder, or one file."""
    if path.is_dir():
        root = path / "proposed" if (path / "proposed").is_dir() else path
        found = sorted(f for pattern in ("*.json", "*/*.json") for f in root.glob(pattern))
        paths = [f for f in found if is_baseline(f) and f.name != "report.json"]
        if not paths:
            raise BaselineError("holds no proposed baselines (<gpu>/<test module>.json)", str(path))
    elif path.exists():
        paths = [path]
    else:
        why = "there is no such file or folder"
        if (path.parent / "report.json").is_file():
            why += ": the run that wrote this report proposes no baselines"
        raise BaselineError(why, str(path))
    return [read_file(found) for found in paths]


def pending_entries(files: Iterable[File]) -> dict[str, dict[str, Entry]]:
    """The entries that are proposed, by GPU and test id, as they would be stored."""
    found: dict[str, dict[str, Entry]] = {}
    for file in files:
        proposed = {
            test_id: msgspec.structs.replace(entry, pending=None)
            for test_id, entry in file.entries.items()
            if entry.pending is not None
        }
        found.setdefault(slugify(file.device.name), {}).update(proposed)
    return found


def accept(
    store: Store, files: Iterable[File], *, reason: str | None = None, dry: bool = False
) -> Acceptance:
    """Merge the `pending` entries of proposed files into the stored ones, under the store's lock.

    Entries that are not pending are left as they are stored. Refused ones (UNCLEAR, too few
    processes, another device, faster than physics, changed since) do not stop the others; a
    missing reason stops all.
    """
    with store.locked():
        plan = _Plan(store)
        for file in files:
            plan.add(file, reason)
        asks = any(change.asks_reason for change in plan.changes)
        if dry or (asks and not reason):
            return plan.done(())
        for path, file in plan.files.items():
            store.write(path, file)
        return plan.done(tuple(plan.files))


class _Plan:
    """The files as they will be, while proposed entries go in one by one."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.files: dict[Path, File] = {}
        self.changes: list[Change] = []
        self.refusals: list[Refusal] = []
        self.unchanged: list[str] = []

    def done(self, written: tuple[Path, ...]) -> Acceptance:
        return Acceptance(tuple(self.changes), tuple(self.refusals), tuple(self.unchanged), written)

    def add(self, proposed: File, reason: str | None) -> None:
        slug = slugify(proposed.device.name)
        for test_id, entry in sorted(proposed.entries.items()):
            if entry.pending is not None:
                self._add_entry(slug, proposed, test_id, entry, entry.pending, reason)

    def _add_entry(
        self,
        slug: str,
        proposed: File,
        test_id: str,
        entry: Entry,
        pending: Pending,
        reason: str | None,
    ) -> None:
        path = self.store.file_for(slug, test_id)
        stored = self.files.get(path) or self.store.read_if_there(path)
        current = None if stored is None else stored.entries.get(test_id)
        try:
            if stored is not None:
                _refuse_other_device(stored, proposed, path)
            _refuse_torn(current, entry, pending)
            new = merge(current, latest(entry), pending.mode)
            if new == current:
                self.unchanged.append(test_id)
                return
            _refuse_unfit(test_id, new, pending, proposed.device)
        except BaselineError as error:
            self.refusals.append(Refusal(slug, test_id, error.message))
            return
        change = Change(slug, test_id, current, new, pending.verdict)
        if change.asks_reason and reason:
            change = replace(change, new=_with_reason(new, reason))
        self.changes.append(change)
        file = stored or File(device=proposed.device, entries={})
        self.files[path] = msgspec.structs.replace(
            file,
            device=known_better(file.device, proposed.device),
            entries={**file.entries, test_id: change.new},
        )


def _with_reason(entry: Entry, reason: str) -> Entry:
    """The reason stands with the recording that brought the slowdown."""
    *before, last = entry.recordings
    last = msgspec.structs.replace(last, reason=reason)
    return msgspec.structs.replace(entry, recordings=(*before, last))


def _refuse_other_device(stored: File, proposed: File, path: Path) -> None:
    difference = difference_of(stored.device, proposed.device)
    if difference is not None:
        raise BaselineError(
            f"{path} is of another device: {difference}; "
            "delete that file first if this device takes its place"
        )


def _refuse_torn(current: Entry | None, proposed: Entry, pending: Pending) -> None:
    """A replacement of what is no longer there would lose what was accepted in between."""
    if pending.mode == "add" or (current is not None and holds(current, latest(proposed))):
        return
    torch = proposed.recordings[-1].torch
    if fingerprint(current, torch) != pending.replaces:
        now = "gone" if current is None else f"{describe(current)}, {figure_of(current)}"
        raise BaselineError(
            f"the stored baseline has changed since this was proposed (now {now}): "
            "run the test again and accept what that run proposes"
        )


def _refuse_unfit(test_id: str, new: Entry, pending: Pending, device: DeviceRecord) -> None:
    if pending.verdict == "UNCLEAR":
        why = f": {pending.reason}" if pending.reason else ""
        raise BaselineError(f"UNCLEAR figures are no baseline{why}; measure again")
    processes = len(new.processes)
    if new.metric != "counts" and processes < MIN_PROCESSES:
        raise BaselineError(
            f"recorded from {processes} processes, a baseline needs {MIN_PROCESSES}: "
            f"kernelpin record -n {MIN_PROCESSES} -- {shlex.quote(test_id)}"
        )
    impossible = limits.check_entry(new, device.name)
    if impossible is not None:
        raise BaselineError(impossible)


def figure_of(entry: Entry) -> str:
    """`41.2 µs`, `1.08 ×`, or what was counted."""
    if entry.metric == "counts":
        versions = ", ".join(sorted(entry.counts or {}))
        return f"counts for torch {versions}"
    return f"{entry.median:g} ×" if entry.metric == "host_ratio" else f"{entry.median:g} µs"
