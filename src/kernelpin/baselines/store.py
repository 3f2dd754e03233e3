"""The folder of baselines: who has which figure, and how new ones get in without losing any.

`<folder>/<gpu>/<test module>.json`. A file is replaced as a whole (write beside it, flush, rename),
and every change is read-modify-write under one lock for the folder, so that a process killed at any
point leaves each file as it was or as it was to be, and two writers at once lose nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from kernelpin.baselines.device import (
    device_of,
    difference_of,
    environment_changes,
    known_better,
)
from kernelpin.baselines.entry import (
    MIN_PROCESSES,
    DeviceRecord,
    Entry,
    File,
    Metric,
    Pending,
    torch_minor,
)
from kernelpin.baselines.lock import locked
from kernelpin.baselines.proposal import Proposal, fingerprint, propose
from kernelpin.baselines.replacing import replace_file
from kernelpin.baselines.text import BaselineError, encode, parse
from kernelpin.trace import slugify

if TYPE_CHECKING:
    from kernelpin.machine import Gpu

# What else the suite keeps beside the baselines of a GPU.
NO_BASELINES = frozenset({"fold_map.json"})
LOCK_SECONDS = 60.0
# A card's own figures carry its offset alone; fewer than a baseline takes say too little.
MIN_OWN_PROCESSES = MIN_PROCESSES
# One figure has no spread: that is what a difference is judged by.
MIN_COMPARED = 2

_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Found:
    """There is a baseline. `processes`: the figures to judge against (a reference has none).

    `same_card`: this very card recorded enough of them itself, and `processes` are its own.
    `changes`: what differs from the machine that recorded last, as `torch 2.11.0 → 2.13.0`.
    """

    entry: Entry
    device: DeviceRecord
    path: Path
    processes: tuple[float, ...]
    same_card: bool
    changes: tuple[str, ...] = ()
    counts: Mapping[str, int] | None = None  # those of this torch minor version

    @property
    def is_reference(self) -> bool:
        return self.entry.source == "published"


@dataclass(frozen=True, slots=True)
class Missing:
    """There is none: no folder, none for this GPU, or none for this test on it."""

    reason: str
    scope: str  # "folder", "gpu" or "test"


@dataclass(frozen=True, slots=True)
class Incomparable:
    """There is one, of something else."""

    reason: str
    difference: str  # "memory 80 GB, was 40 GB"
    entry: Entry


class Store:
    """The baselines under one folder; nothing is read before it is asked for."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._read: dict[Path, tuple[tuple[int, int, int], File]] = {}

    def gpus(self) -> tuple[str, ...]:
        """The slugs that have a folder with a baseline file in it."""
        if not self.folder.is_dir():
            return ()
        return tuple(sorted(d.name for d in self.folder.iterdir() if self.files(d.name)))

    def files(self, slug: str) -> tuple[Path, ...]:
        folder = self.folder / slug
        if _SLUG.fullmatch(slug) is None or not folder.is_dir():
            return ()
        return tuple(sorted(f for f in folder.glob("*.json") if is_baseline(f)))

    def file_for(self, slug: str, test_id: str) -> Path:
        """`baselines/<slug>/<stem of the test module>.json`."""
        if _SLUG.fullmatch(slug) is None:
            raise BaselineError(f"{slug!r} is no GPU's name in lower case with dashes")
        stem = PurePosixPath(test_id.split("::", 1)[0]).stem
        path = self.folder / slug / f"{stem}.json"
        if not stem or stem.startswith(".") or path.name in NO_BASELINES or "\\" in stem:
            raise BaselineError(f"{test_id!r} is in no test module that a file can be named after")
        return path

    def read(self, path: Path) -> File:
        """A stored file; BaselineError with file and line where it is damaged."""
        try:
            stat = path.stat()
            stamp = stat.st_mtime_ns, stat.st_size, stat.st_ino
            cached = self._read.get(path)
            if cached is not None and cached[0] == stamp:
                return cached[1]
            file = read_file(path)
        except OSError as error:
            refuse_dangling(path)
            raise BaselineError(f"cannot be read: {error.strerror}", str(path)) from None
        slug = slugify(file.device.name)
        if slug != path.parent.name:
            raise BaselineError(
                f"figures of {file.device.name!r} belong in the folder {slug}, "
                f"not in {path.parent.name}",
                str(path),
            )
        for test_id, entry in file.entries.items():
            if entry.pending is not None:
                raise BaselineError(
                    f"{test_id} is a proposal, copied here by hand: restore the file and run "
                    "kernelpin baselines accept PATH",
                    str(path),
                )
            if self.file_for(slug, test_id).name != path.name:
                raise BaselineError(
                    f"{test_id} belongs in {self.file_for(slug, test_id).name}", str(path)
                )
        self._read[path] = stamp, file
        return file

    def read_if_there(self, path: Path) -> File | None:
        """A stored file; None where there is none, but a link into nowhere is an error as well."""
        refuse_dangling(self.folder)
        refuse_dangling(path.parent)
        return self.read(path) if os.path.lexists(path) else None

    def entries(self, slug: str) -> dict[str, Entry]:
        """Every entry of one GPU by test id, sorted."""
        found: dict[str, Entry] = {}
        for path in self.files(slug):
            found.update(self.read(path).entries)
        return dict(sorted(found.items()))

    def lookup(
        self,
        gpu: Gpu,
        test_id: str,
        metric: Metric,
        input: str | None = None,
        l2: str | None = None,
        method: str | None = None,
    ) -> Found | Missing | Incomparable:
        """This GPU's baseline for a test that measures `metric` of `input`; None: of any.

        No `input` (empty) is another one than that of the baseline: it could be any.
        """
        path = self.file_for(gpu.slug, test_id)
        file = self.read_if_there(path)
        gpus = self.gpus()
        if not gpus:
            return Missing(f"{self.folder} holds no baselines", "folder")
        if gpu.slug not in gpus:
            return Missing(f"no baselines for {gpu.name}; there are for {', '.join(gpus)}", "gpu")
        entry = None if file is None else file.entries.get(test_id)
        if file is None or entry is None:
            return Missing(f"no baseline for this test on {gpu.name}", "test")
        difference = difference_of(file.device, gpu) or _entry_difference(
            entry, {"metric": metric, "input": input, "L2": l2, "method": method}
        )
        if difference is not None:
            return Incomparable(
                f"the baseline is of something else: {difference}", difference, entry
            )
        if (
            entry.source == "measured"
            and metric != "counts"
            and len(entry.processes) < MIN_COMPARED
        ):
            few = f"{len(entry.processes)} process figure"
            return Incomparable(
                f"{path}: the baseline has {few}, to compare with it takes {MIN_COMPARED} or more: "
                f"kernelpin record -n {MIN_PROCESSES} -- {shlex.quote(test_id)}",
                few,
                entry,
            )
        minor = torch_minor(gpu.torch)
        counts = (entry.counts or {}).get(minor)
        if metric == "counts" and counts is None:
            known = ", ".join(sorted(entry.counts or {}))
            return Missing(f"no counts for torch {minor}; there are for {known}", "test")
        own = entry.of_card(gpu.uuid)
        same_card = len(own) >= MIN_OWN_PROCESSES
        return Found(
            entry=entry,
            device=file.device,
            path=path,
            processes=own if same_card else entry.processes,
            same_card=same_card,
            changes=environment_changes(file.device, entry, gpu),
            counts=counts,
        )

    def remove(self, slug: str, test_ids: Collection[str]) -> tuple[str, ...]:
        """Delete entries; a file without entries goes too. The ids that were there."""
        removed: list[str] = []
        with self.locked():
            for path in self.files(slug):
                file = self.read(path)
                kept = {id_: e for id_, e in file.entries.items() if id_ not in test_ids}
                gone = file.entries.keys() - kept.keys()
                if gone and kept:
                    self.write(path, msgspec.structs.replace(file, entries=kept))
                elif gone:
                    path.unlink()
                removed += gone
        return tuple(sorted(removed))

    def proposed(
        self, proposals: Iterable[Proposal], refused: dict[str, str] | None = None
    ) -> dict[Path, File]:
        """The files as they would be, by their place under the folder, measured entries `pending`.

        A measurement that makes no entry (its processes contradict each other) is a BaselineError,
        or, where `refused` is given, stands in it by test id and does not stop the others.
        A GPU that the stored file is not of (other memory, MIG slice) starts a file of its own,
        which `accept` refuses.
        """
        files: dict[Path, File] = {}
        for proposal in proposals:
            measurement = proposal.measurement
            gpu, test_id = measurement.gpu, measurement.test_id
            path = self.file_for(gpu.slug, test_id)
            place = path.relative_to(self.folder)
            stored = self.read_if_there(path)
            if stored is not None and difference_of(stored.device, device_of(gpu)) is not None:
                stored = None
            current = None if stored is None else stored.entries.get(test_id)
            try:
                entry = propose(current, measurement, proposal.mode)
            except BaselineError as error:
                if refused is None:
                    raise
                refused[test_id] = error.message
                continue
            entry = msgspec.structs.replace(
                entry,
                pending=Pending(
                    verdict=str(proposal.verdict),
                    mode=proposal.mode,
                    replaces=fingerprint(current, gpu.torch),
                    reason=proposal.reason,
                ),
            )
            file = files.get(place) or stored or File(device=device_of(gpu), entries={})
            files[place] = msgspec.structs.replace(
                file,
                device=known_better(file.device, device_of(gpu)),
                entries={**file.entries, test_id: entry},
            )
        return files

    def write_proposed(
        self,
        out: str | os.PathLike[str],
        proposals: Iterable[Proposal],
        refused: dict[str, str] | None = None,
    ) -> int:
        """Write `proposed` under the folder `out`; how many files that were."""
        files = self.proposed(proposals, refused)
        for place, file in files.items():
            replace_file(Path(out) / place, encode(file))
        return len(files)

    def write(self, path: Path, file: File) -> None:
        """Replace one stored file; the caller holds `locked()` since it read it."""
        replace_file(path, encode(file))
        self._read.pop(path, None)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the only right to change this folder; BaselineError after a minute's wait.

        A GPU's folder, or a file, that is a link may be another project's as well: what it leads
        to is locked, too.
        """
        refuse_dangling(self.folder)
        with contextlib.ExitStack() as held:
            self._lock(held, self.folder)
            real = {Path(os.path.realpath(d)) for d in self.folder.iterdir() if d.is_dir()}
            files = (path for slug in self.gpus() for path in self.files(slug))
            real |= {Path(os.path.realpath(path)).parent for path in files}
            # In one order: two that want the same ones do not wait for each other.
            for folder in sorted(real - {Path(os.path.realpath(self.folder))}):
                self._lock(held, folder)
            yield

    def _lock(self, held: contextlib.ExitStack, folder: Path) -> None:
        try:
            held.enter_context(locked(folder, LOCK_SECONDS))
        except TimeoutError as error:
            raise BaselineError(
                f"another process has been changing it for {LOCK_SECONDS:.0f} s (lock {error})",
                str(self.folder),
            ) from None


def refuse_dangling(path: Path) -> None:
    """BaselineError for a link to what is not here: there are figures, and nobody can read them."""
    if path.is_symlink() and not path.exists():
        raise BaselineError(
            f"is a link to {os.readlink(path)}, which is not here: fetch that (git annex get, a "
            "mount), or delete the link and record again",
            str(path),
        )


def is_baseline(path: Path) -> bool:
    return path.suffix == ".json" and path.name not in NO_BASELINES and path.name[0] != "."


def read_file(path: Path) -> File:
    return parse(path.read_bytes(), str(path))


def _entry_difference(entry: Entry, wanted: Mapping[str, str | None]) -> str | None:
    had = {"metric": entry.metric, "input": entry.input, "L2": entry.l2, "method": entry.method}
    for name, now in wanted.items():
        was = had[name]
        if now is not None and was is not None and now != was:
            return f"{name} {now or 'not given'}, was {was or 'not given'}"
    return None
