"""Whether a figure of one device says anything about another, and what else differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelpin.baselines.entry import DeviceRecord, Entry

if TYPE_CHECKING:
    from kernelpin.machine import Gpu

# Driver versions differ by some MB in the memory they report for one card.
MEMORY_TOLERANCE = 0.02


def device_of(gpu: Gpu) -> DeviceRecord:
    """What a file keeps of the GPU that it is of."""
    return DeviceRecord(
        name=gpu.name,
        memory_bytes=gpu.memory_bytes,
        sm_count=gpu.sm_count,
        power_limit_w=gpu.power_limit_w,
        mig=gpu.mig,
    )


def known_better(known: DeviceRecord, now: DeviceRecord) -> DeviceRecord:
    """The first measured device takes the place of a published one, which is a name alone."""
    return now if known.memory_bytes is None and known.sm_count is None else known


def difference_of(known: DeviceRecord, now: DeviceRecord | Gpu) -> str | None:
    """Why figures of the two are not comparable: `memory 80.0 GB, was 40.0 GB`; None: they are.

    What either does not know is not compared.
    """
    if known.name != now.name:
        return f"device {now.name}, was {known.name}"
    if known.mig != now.mig:
        return f"MIG slice {now.mig or 'none'}, was {known.mig or 'none'}"
    if known.memory_bytes and now.memory_bytes:
        change = abs(now.memory_bytes - known.memory_bytes) / known.memory_bytes
        if change > MEMORY_TOLERANCE:
            return f"memory {now.memory_bytes / 1e9:.1f} GB, was {known.memory_bytes / 1e9:.1f} GB"
    if known.sm_count and now.sm_count and known.sm_count != now.sm_count:
        return f"{now.sm_count} SMs, was {known.sm_count}"
    return None


def environment_changes(device: DeviceRecord, entry: Entry, gpu: Gpu) -> tuple[str, ...]:
    """What differs from the last recording and stays comparable: `torch 2.11.0 → 2.13.0`."""
    changes: list[str] = []
    if entry.recordings:
        last = entry.recordings[-1]
        for name in ("driver", "cuda", "torch", "triton"):
            was, now = getattr(last, name), getattr(gpu, name)
            if was is not None and now is not None and was != now:
                changes.append(f"{name} {was} → {now}")
    if device.power_limit_w and gpu.power_limit_w and device.power_limit_w != gpu.power_limit_w:
        changes.append(f"power limit {device.power_limit_w:g} → {gpu.power_limit_w:g} W")
    return tuple(changes)
