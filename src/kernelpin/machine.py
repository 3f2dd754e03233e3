"""Which GPU this process measures on, and what state it is in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """The CUDA device figures were taken on; what NVML cannot tell is None."""

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
        """Why figures taken in this state say nothing about the code; a power cap alone may."""
        clock = f" (SM {self.sm_clock_mhz} MHz)" if self.sm_clock_mhz is not None else ""
        if self.hw_slowdown:
            return f"hardware slowdown{clock}"
        if self.thermal:
            return f"thermal slowdown{clock}"
        if self.strangers:
            pids = ", ".join(map(str, self.strangers))
            return f"another process on the GPU (pid {pids})"
        return None


def current_gpu() -> Gpu | None:
    """Return torch's current CUDA device, or None; `why_no_gpu` says why."""
    raise NotImplementedError


def why_no_gpu() -> str:
    """Say why there is no GPU to measure on; empty where there is one."""
    raise NotImplementedError


def observe(own_pids: frozenset[int] = frozenset()) -> State:
    """Return the state of torch's current CUDA device now."""
    raise NotImplementedError
