"""One GPU as NVML knows it: clocks, what holds them back, power limit, MIG slice, processes."""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

# nvml.h, nvmlClocksEventReasons; the same bits under their older name, throttle reasons.
SW_POWER_CAP = 0x04
HW_SLOWDOWN = 0x08  # hardware lowered the clock: temperature, power brake or supply
SW_THERMAL = 0x20
HW_THERMAL = 0x40
HW_POWER_BRAKE = 0x80

_CLOCK_SM = 1  # nvml.h, nvmlClockType_t


@dataclass(frozen=True, slots=True)
class Card:
    """The card of one UUID; every question has an answer without NVML too.

    `handle` is the physical card's, which alone knows clocks; `slice_` is the MIG instance's where
    the device is one, which alone knows its processes, and else the same.
    """

    uuid: str
    nvml: Any = None
    handle: Any = None
    slice_: Any = None

    @classmethod
    def find(cls, nvml: Any, uuid: str) -> Card:
        """Find the card by CUDA's UUID, with or without NVML's prefix `GPU-` or `MIG-`."""
        bare = re.sub(r"^(GPU|MIG)-", "", uuid)
        named = f"GPU-{bare}" if bare else ""
        if nvml is None or not bare:
            return cls(named)
        handle = ask(nvml, "nvmlDeviceGetHandleByUUID", named)
        if handle is not None:
            return cls(named, nvml, handle, handle)
        slice_ = ask(nvml, "nvmlDeviceGetHandleByUUID", f"MIG-{bare}")
        if slice_ is None:
            return cls(named, nvml)
        handle = ask(nvml, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", slice_)
        return cls(f"MIG-{bare}", nvml, handle, slice_)

    def driver(self) -> str:
        """Return the driver's version, empty where unknown."""
        return (ask(self.nvml, "nvmlSystemGetDriverVersion") if self.nvml else None) or ""

    def power_limit_w(self) -> float | None:
        """Return the power limit in force, in watts."""
        milliwatts = self._ask("nvmlDeviceGetEnforcedPowerLimit")
        return None if milliwatts is None else milliwatts / 1000

    def sm_clock_mhz(self) -> int | None:
        """Return the SM clock now."""
        clock: int | None = self._ask("nvmlDeviceGetClockInfo", _CLOCK_SM)
        return clock

    def sm_clock_max_mhz(self) -> int | None:
        """Return the highest SM clock the card may reach."""
        clock: int | None = self._ask("nvmlDeviceGetMaxClockInfo", _CLOCK_SM)
        return clock

    def mig_profile(self, cuda_name: str) -> str | None:
        """Return the MIG slice's profile (`1g.10gb`), `unknown` where only its being is known."""
        for name in (cuda_name, self._ask("nvmlDeviceGetName", of=self.slice_) or ""):
            if found := re.search(r" MIG (\S+)$", name):
                return found[1]
        if self.uuid.startswith("MIG-"):
            return "unknown"
        mode = self._ask("nvmlDeviceGetMigMode")  # [current, pending]
        return "unknown" if mode and mode[0] else None

    def processes(self) -> dict[int, int | None]:
        """Return the pids that compute on the device, in NVML's numbering, with their bytes."""
        found = self._ask("nvmlDeviceGetComputeRunningProcesses", of=self.slice_) or []
        return {process.pid: process.usedGpuMemory for process in found}

    def held_back_by(self) -> int:
        """Return the bits of what holds the clocks back now; 0 where unknown."""
        for question in (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",  # its name before driver 535
        ):
            reasons: int | None = self._ask(question)
            if reasons is not None:
                return reasons
        return 0

    def _ask(self, question: str, *arguments: Any, of: Any = None) -> Any:
        handle = self.handle if of is None else of
        return None if handle is None else ask(self.nvml, question, handle, *arguments)


def ask(nvml: Any, question: str, *arguments: Any) -> Any:
    """Ask NVML; None where this driver, this card or this user gets no answer."""
    call = getattr(nvml, question, None)
    if call is None:
        return None
    try:
        answer = call(*arguments)
    except nvml.NVMLError:
        return None
    return answer.decode() if isinstance(answer, bytes) else answer


@cache
def nvml() -> Any:
    """Return pynvml, initialised, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the unofficial package of that name warns on import
        try:
            import pynvml
        except ImportError:
            return None
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError, OSError):
        return None
    return pynvml


@cache
def card(uuid: str) -> Card:
    """Return the card of that UUID."""
    return Card.find(nvml(), uuid)


def gpu_present() -> bool:
    """Whether the driver shows a GPU that this process may see; imports no torch."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1") and count() > 0


def count() -> int:
    """Return how many GPUs the driver shows, hidden ones included; 0 without a driver."""
    return (ask(nvml(), "nvmlDeviceGetCount") if nvml() else 0) or 0
