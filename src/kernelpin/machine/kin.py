"""Which processes on the GPU are our own.

Ours are this process, its ancestors (a test that started a worker sits on the GPU too) and every
process that carries this test run's mark in its environment (xdist's workers). In a container with
pids of its own NVML prints the host's, so none of that matches: there we find our number by the
memory we allocate, and a parent hands its own down.

What stays unseen: a process of our own run that computes while we measure. And in such a container
a relative that never learnt its number counts as a stranger.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

SESSION = "KERNELPIN_SESSION"  # the mark of one test run
GPU_PIDS = "KERNELPIN_GPU_PIDS"  # numbers handed down, comma-separated

_PROBE_BYTES = 256 << 20

_learnt: set[int] = set()


def own_pids() -> frozenset[int]:
    """Return our pids as NVML prints them: this process, its ancestors, and those handed down."""
    handed = os.environ.get(GPU_PIDS, "").split(",")
    return frozenset({*_lineage(), *_learnt, *(int(pid) for pid in handed if pid.isdecimal())})


def is_kin(pid: int) -> bool:
    """Whether that process carries this test run's mark."""
    mark = os.environ.get(SESSION)
    if not mark:
        return False
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # gone, another user's, or no such system
        return False
    return f"{SESSION}={mark}".encode() in environ.split(b"\0")


def join_session(environ: MutableMapping[str, str] | None = None) -> None:
    """Mark an environment, by default this process's own, so that its processes are no strangers.

    Once for a whole test run, and for the environment of each process that will measure.
    """
    target = os.environ if environ is None else environ
    target.setdefault(SESSION, os.environ.get(SESSION) or uuid.uuid4().hex)
    numbers = own_pids() - set(_lineage())
    if numbers:
        target[GPU_PIDS] = ",".join(map(str, sorted(numbers)))


def learn_own_pid(processes: Callable[[], Mapping[int, int | None]]) -> None:
    """Find this process's number in NVML's list where that list does not hold its pid.

    `processes` gives the list: pid → bytes. Needs this process to be on the GPU, and allocates for
    a moment, so it belongs before measuring, never into it.
    """
    reported = processes()
    if not reported or os.getpid() in reported or _learnt & reported.keys():
        return
    pid = pid_by_memory(processes, _allocated)
    if pid is None and len(reported) == 1:
        (pid,) = reported  # we are on the GPU, so the only process there is us
    if pid is not None:
        _learnt.add(pid)


def pid_by_memory(
    processes: Callable[[], Mapping[int, int | None]],
    allocated: Callable[[], AbstractContextManager[int]],
) -> int | None:
    """Return the one pid whose memory grows by what we allocate; None where no single one does."""
    before = processes()
    with allocated() as size:
        after = processes()
    grown = [
        pid
        for pid, used in after.items()
        if size and used is not None and used - (before.get(pid) or 0) >= size
    ]
    return grown[0] if len(grown) == 1 else None


@contextmanager
def _allocated() -> Iterator[int]:
    """Hold device memory that the driver had to hand out; yields how many bytes, 0 for none."""
    import torch

    torch.cuda.empty_cache()  # else a cached block serves, and the driver's figure stays
    reserved = torch.cuda.memory_reserved()
    try:
        block = torch.empty(_PROBE_BYTES, dtype=torch.uint8, device="cuda")
    except RuntimeError:  # no room
        yield 0
        return
    yield torch.cuda.memory_reserved() - reserved
    del block
    torch.cuda.empty_cache()


def _lineage() -> tuple[int, ...]:
    """Return this process and its ancestors, init excluded."""
    found = [os.getpid()]
    while (pid := _parent(found[-1])) > 1 and pid not in found:
        found.append(pid)
    return tuple(found)


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return os.getppid() if pid == os.getpid() else 0
    return int(stat.rpartition(")")[2].split()[1])  # a command's name may hold blanks and brackets
