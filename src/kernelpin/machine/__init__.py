"""Which GPU this process measures on, what state it is in, and who else computes on it.

NVML counts devices by its own index, so the GPU is found by UUID. What NVML cannot tell is None:
no driver library, no permission and an old driver are all normal, and never an error here.
"""

from __future__ import annotations

from kernelpin.machine.card import gpu_present
from kernelpin.machine.gpu import (
    Gpu,
    State,
    current_gpu,
    describe,
    device_lock,
    learn_own_pid,
    lock_path,
    observe,
    why_no_gpu,
)
from kernelpin.machine.kin import join_session, own_pids

__all__ = [
    "Gpu",
    "State",
    "current_gpu",
    "describe",
    "device_lock",
    "gpu_present",
    "join_session",
    "learn_own_pid",
    "lock_path",
    "observe",
    "own_pids",
    "why_no_gpu",
]
