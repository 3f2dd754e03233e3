"""The GPU figures are taken on, and its state at one moment."""

from __future__ import annotations

import os
import re
import runpy
import sys
import tempfile
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelpin.machine import card as cards
from kernelpin.machine import kin
from kernelpin.machine.card import Card
from kernelpin.trace import slugify

if TYPE_CHECKING:
    from filelock import BaseFileLock


@dataclass(frozen=True, slots=True)
class Gpu:
    """The CUDA device figures were taken on; memory in bytes, power in watts, clock in MHz."""

    name: str
    slug: str
    uuid: str
    memory_bytes: int
    sm_count: int
    power_limit_w: float | None
    mig: str | None
    driver: str
    cuda: str
    torch: str
    triton: str | None
    compute_capability: tuple[int, int]
    sm_clock_max_mhz: int | None

    def __str__(self) -> str:
        parts = [self.name + (f" (MIG {self.mig})" if self.mig else "")]
        parts += [f"{self.memory_bytes / 1e9:.0f} GB", f"{self.sm_count} SMs"]
        if self.power_limit_w is not None:
            parts.append(f"{self.power_limit_w:.0f} W")
        if self.driver:
            parts.append(f"driver {self.driver}")
        parts += [f"CUDA {self.cuda}", f"torch {self.torch}"]
        if self.triton:
            parts.append(f"triton {self.triton}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class State:
    """The GPU at one moment: clock in MHz, what holds it back, who else computes on it (pids)."""

    sm_clock_mhz: int | None = None
    power_cap: bool = False
    thermal: bool = False
    hw_slowdown: bool = False
    strangers: tuple[int, ...] = ()

    @property
    def disqualifies(self) -> str | None:
        """Why figures taken in this state say nothing about the code.

        A power cap does not: where the baseline had it too, it belongs to the workload.
        """
        clock = f" (SM {self.sm_clock_mhz} MHz)" if self.sm_clock_mhz is not None else ""
        if self.hw_slowdown:
            return f"hardware slowdown{clock}"
        if self.thermal:
            return f"thermal slowdown{clock}"
        if self.strangers:
            noun = "another process" if len(self.strangers) == 1 else "other processes"
            return f"{noun} on the GPU (pid {', '.join(map(str, self.strangers))})"
        return None


def current_gpu() -> Gpu | None:
    """Return torch's current CUDA device, or None where there is none; `why_no_gpu` says why."""
    if why_no_gpu():
        return None
    import torch

    properties = _properties()
    versions = {
        "cuda": torch.version.cuda or f"ROCm {torch.version.hip}",
        "torch": str(torch.__version__),
        "triton": _triton_version(),
    }
    return gpu_from(properties, cards.card(_uuid(properties)), versions)


def gpu_from(properties: Any, card: Card, versions: Mapping[str, str]) -> Gpu:
    """Put together what CUDA's device properties and NVML's card say of one device."""
    name = re.sub(r" MIG \S+$", "", properties.name)
    return Gpu(
        name=name,
        slug=slugify(name),
        uuid=card.uuid,
        memory_bytes=properties.total_memory,
        sm_count=properties.multi_processor_count,
        power_limit_w=card.power_limit_w(),
        mig=card.mig_profile(properties.name),
        driver=card.driver(),
        cuda=versions["cuda"],
        torch=versions["torch"],
        triton=versions["triton"] or None,
        compute_capability=(properties.major, properties.minor),
        sm_clock_max_mhz=card.sm_clock_max_mhz(),
    )


def why_no_gpu() -> str:
    """Say why torch has no GPU to measure on; empty where it has one."""
    if "torch" not in sys.modules and (version := _torch_without_gpu()):
        return f"torch {version} is built without CUDA"
    try:
        import torch
    except ImportError as error:
        return f"torch is not installed ({error})"
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} is built without CUDA"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")  # an old driver is told as a warning
        if torch.cuda.is_available():
            return ""
    count = cards.count()
    if not count:
        return "no NVIDIA driver found, or it shows no device"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return f"CUDA_VISIBLE_DEVICES={visible!r} hides the {count} GPUs that the driver shows"
    told = str(caught[-1].message) if caught else "torch.cuda.is_available() is false"
    return f"torch {torch.__version__} cannot use the {count} GPUs that the driver shows: {told}"


def _torch_without_gpu() -> str | None:
    """Read a CPU build's version off the installed files; None where torch itself must tell.

    Importing torch takes seconds, and a session on recorded traces needs nothing else of it.
    """
    found = find_spec("torch")
    if found is None or found.origin is None:
        return None
    try:
        facts = runpy.run_path(str(Path(found.origin).with_name("version.py")))
    except (OSError, ImportError, SyntaxError):
        return None
    if "cuda" not in facts or facts["cuda"] or facts.get("hip"):
        return None
    return str(facts.get("__version__", "of an unknown version"))


def describe() -> str:
    """Say in one line what the session measures on, or why on nothing."""
    gpu = current_gpu()
    return f"GPU {gpu}" if gpu else f"no GPU: {why_no_gpu()}"


def observe(own: Collection[int] | None = None) -> State:
    """Return the state of torch's current CUDA device at this moment.

    `own`: pids, as NVML prints them, that are no strangers; by default `own_pids()`.
    """
    return state_of(current_card(), kin.own_pids() if own is None else own)


def learn_own_pid() -> None:
    """Learn which of NVML's pids is ours, where a container renumbers; before any measuring."""
    import torch

    torch.zeros(1, device="cuda")  # NVML lists a process once it has a context
    kin.learn_own_pid(current_card().processes)


def state_of(card: Card, own: Collection[int]) -> State:
    """Return the card's state; who is neither in `own` nor of this test run is a stranger."""
    bits = card.held_back_by()
    return State(
        sm_clock_mhz=card.sm_clock_mhz(),
        power_cap=bool(bits & cards.SW_POWER_CAP),
        thermal=bool(bits & (cards.SW_THERMAL | cards.HW_THERMAL)),
        hw_slowdown=bool(bits & (cards.HW_SLOWDOWN | cards.HW_POWER_BRAKE)),
        strangers=tuple(
            pid for pid in sorted(card.processes()) if pid not in own and not kin.is_kin(pid)
        ),
    )


def current_card() -> Card:
    """Return the card behind torch's current CUDA device."""
    return cards.card(_uuid(_properties()))


def lock_path(uuid: str) -> Path:
    """Return the file whose lock means: this user's one measuring process on that GPU."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    return Path(tempfile.gettempdir()) / f"kernelpin-{slugify(f'{user} {uuid}')}.lock"


def device_lock(uuid: str, timeout_s: float = -1) -> BaseFileLock:
    """Return the lock, not yet taken, of this user's one measuring process on that GPU."""
    from filelock import FileLock

    return FileLock(lock_path(uuid), timeout=timeout_s)


def _properties() -> Any:
    import torch

    return torch.cuda.get_device_properties(torch.cuda.current_device())


def _uuid(properties: Any) -> str:
    return str(getattr(properties, "uuid", ""))


def _triton_version() -> str:
    for distribution in ("triton", "pytorch-triton", "triton-windows"):
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(distribution)
    return ""
