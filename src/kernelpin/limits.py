"""What a GPU cannot beat: dense peaks, memory bandwidth and L2, from NVIDIA's own documents.

A roofline. A call of `flops` operations that must move `bytes` takes at least as long as either
takes at its peak. Peaks are dense: where a datasheet quotes tensor cores with sparsity, half of it.
They hold at the SM clock `peak_mhz` and grow with it; `floor_us` computes with `max_mhz`, since
Hopper boosts beyond the clock of its datasheet. What fits into L2 need not come from memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelpin.trace import slugify

if TYPE_CHECKING:
    from kernelpin.baselines.entry import Entry

_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Limit:
    """One GPU's peaks: TFLOP/s by dtype, GB/s (10^9), L2 in bytes, clocks in MHz.

    `sources` name the documents of the peaks, the bandwidth, L2 and clocks. `tf32` is fp32 on
    tensor cores; fp64 is on tensor cores where the GPU has them. A dtype that is missing has no
    peak of its own in the datasheet.
    """

    name: str
    tflops: Mapping[str, float]
    bandwidth_gbps: float
    l2_bytes: int
    peak_mhz: int
    max_mhz: int
    sources: tuple[str, ...]

    def peak_tflops(self, dtype: str) -> float:
        """The datasheet's figure; the highest floating-point one for a dtype it does not quote."""
        known = self.tflops.get(dtype)
        return max(v for k, v in self.tflops.items() if k != "int8") if known is None else known


_A100 = {
    "fp64": 19.5, "fp32": 19.5, "tf32": 156.0, "bf16": 312.0, "fp16": 312.0, "int8": 624.0,
}  # fmt: skip
_A100_SOURCES = (
    "NVIDIA A100 Tensor Core GPU Datasheet (peaks, bandwidth)",
    "NVIDIA A100 Tensor Core GPU Architecture whitepaper (L2, boost clock)",
)
_H100_SXM = {
    "fp64": 66.9, "fp32": 66.9, "tf32": 494.7, "bf16": 989.4, "fp16": 989.4, "fp8": 1978.9,
    "int8": 1978.9,
}  # fmt: skip
_H100_PCIE = {
    "fp64": 51.2, "fp32": 51.2, "tf32": 378.0, "bf16": 756.5, "fp16": 756.5, "fp8": 1513.0,
    "int8": 1513.0,
}  # fmt: skip
_H100_NVL = {
    "fp64": 60.0, "fp32": 60.0, "tf32": 417.5, "bf16": 835.5, "fp16": 835.5, "fp8": 1670.5,
    "int8": 1670.5,
}  # fmt: skip
_H200 = {
    "fp64": 67.0, "fp32": 67.0, "tf32": 494.5, "bf16": 989.5, "fp16": 989.5, "fp8": 1979.0,
    "int8": 1979.0,
}  # fmt: skip
_H100_PAPER = "NVIDIA H100 Tensor Core GPU Architecture whitepaper"


def _a100(name: str, bandwidth_gbps: float) -> Limit:
    return Limit(name, _A100, bandwidth_gbps, 40 * _MIB, 1410, 1410, _A100_SOURCES)


_TABLE = (
    _a100("NVIDIA A100-SXM4-80GB", 2039),
    _a100("NVIDIA A100-SXM4-40GB", 1555),
    _a100("NVIDIA A100 80GB PCIe", 1935),
    _a100("NVIDIA A100-PCIE-40GB", 1555),
    Limit(
        "NVIDIA H100 80GB HBM3",
        _H100_SXM,
        3350,
        50 * _MIB,
        1830,
        1980,
        (
            "NVIDIA H100 Tensor Core GPU Datasheet (bandwidth)",
            f"{_H100_PAPER} (peaks, L2, clocks)",
        ),
    ),
    Limit(
        "NVIDIA H100 PCIe",
        _H100_PCIE,
        2039,
        50 * _MIB,
        1620,
        1755,
        (
            "NVIDIA H100 Tensor Core GPU Datasheet (peaks: half of those with sparsity)",
            f"{_H100_PAPER} (L2)",
            "NVIDIA H100 PCIe GPU Product Brief (boost clock; bandwidth: 5120 bit at 1593 MHz)",
        ),
    ),
    Limit(
        "NVIDIA H100 NVL",
        _H100_NVL,
        3938,
        60 * _MIB,
        1545,
        1785,
        (
            "NVIDIA H100 Tensor Core GPU Datasheet (peaks: half of those with sparsity)",
            "NVIDIA H100 NVL GPU Product Brief (bandwidth, boost clock)",
            f"{_H100_PAPER} (L2 of the full GH100, which this card may not reach)",
        ),
    ),
    Limit(
        "NVIDIA H200",
        _H200,
        4800,
        60 * _MIB,
        1830,
        1980,
        (
            "NVIDIA H200 Tensor Core GPU Datasheet (peaks: half of those with sparsity, bandwidth)",
            f"{_H100_PAPER} (the full GH100's L2, which this card reports; clock of the peaks)",
            "the card's own maximum SM clock as its driver reports it",
        ),
    ),
    Limit(
        "NVIDIA L4",
        {"fp32": 30.3, "tf32": 60.0, "bf16": 121.0, "fp16": 121.0, "fp8": 242.5, "int8": 242.5},
        300,
        48 * _MIB,
        2040,
        2040,
        (
            "NVIDIA L4 Tensor Core GPU Datasheet (peaks: half of those with sparsity, bandwidth)",
            "NVIDIA Ada GPU Architecture whitepaper (L2 of AD104)",
            "NVIDIA L4 Product Brief (boost clock)",
        ),
    ),
    Limit(
        "NVIDIA A10",
        {"fp32": 31.2, "tf32": 62.5, "bf16": 125.0, "fp16": 125.0, "int8": 250.0},
        600,
        6 * _MIB,
        1695,
        1695,
        (
            "NVIDIA A10 Tensor Core GPU Datasheet (peaks, bandwidth)",
            "NVIDIA Ampere GA102 GPU Architecture whitepaper (L2)",
            "NVIDIA A10 GPU Product Brief (boost clock)",
        ),
    ),
    Limit(
        "Tesla T4",
        {"fp32": 8.1, "fp16": 65.0, "int8": 130.0},
        320,
        4 * _MIB,
        1590,
        1590,
        (
            "NVIDIA T4 Tensor Core GPU Datasheet (peaks)",
            "NVIDIA Turing GPU Architecture whitepaper (bandwidth, L2, boost clock)",
        ),
    ),
)
LIMITS: Mapping[str, Limit] = {slugify(limit.name): limit for limit in _TABLE}

_ALIASES = {
    "float64": "fp64", "double": "fp64", "float32": "fp32", "float": "fp32", "bfloat16": "bf16",
    "float16": "fp16", "half": "fp16", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8",
}  # fmt: skip
DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")


def limit_of(device: str) -> Limit | None:
    """The limits of a device by its CUDA name or slug; a MIG slice has those of its whole card."""
    return LIMITS.get(slugify(device).split("-mig-")[0])


def floor_us(
    flops: float, bytes: float, dtype: str, device: str, *, max_mhz: int | None = None
) -> float:
    """The time, in µs, that no run of this work on this device can beat.

    `bytes` is what must be read and written at least once; as much as L2 holds is free, since it
    may lie there before, or stay there after. LookupError: a device not in the table.
    """
    limit = limit_of(device)
    if limit is None:
        known = ", ".join(sorted(known.name for known in LIMITS.values()))
        raise LookupError(f"no limits known for {device!r}; there are for {known}")
    clock = max(limit.peak_mhz, limit.max_mhz if max_mhz is None else max_mhz)
    peak = limit.peak_tflops(_dtype(dtype)) * clock / limit.peak_mhz
    compute = flops / (peak * 1e6)
    memory = max(0.0, bytes - limit.l2_bytes) / (limit.bandwidth_gbps * 1e3)
    return max(compute, memory)


def check_entry(entry: Entry, device: str) -> str | None:
    """Why an entry's figure cannot be true on this device; None where it can, or nothing is known.

    Judged where the entry says what `work` a call does.
    """
    work = entry.work
    if work is None or entry.metric not in ("device_us", "kernel_us") or limit_of(device) is None:
        return None
    floor = floor_us(work.flops, work.bytes, work.dtype, device)
    if entry.median >= floor:
        return None
    return (
        f"{entry.median:g} µs is faster than {device} can be: "
        f"{_amounts(work.flops, work.bytes, work.dtype)} take at least {floor:.4g} µs; "
        "is part of the work not measured, or its amount wrong?"
    )


def distance(us: float, flops: float, bytes: float, dtype: str, device: str) -> str | None:
    """How far a run is from the limit, as the datasheet counts; None for a device not in the table.

    `203 TFLOP/s, 65 % of the dense bf16 peak; 297 GB/s, 15 % of the bandwidth`.
    """
    limit = limit_of(device)
    if limit is None or not us > 0:
        return None
    parts: list[str] = []
    if flops:
        done, dtype = flops / us / 1e6, _dtype(dtype)
        share = done / limit.peak_tflops(dtype)
        parts.append(f"{done:.3g} TFLOP/s, {share:.0%} of the dense {dtype} peak")
    if bytes:
        moved = bytes / us / 1e3
        share = moved / limit.bandwidth_gbps
        # More than there is means that L2 served part of it, not that memory did.
        parts.append(f"{moved:.4g} GB/s, {share:.0%} of the memory bandwidth")
    return "; ".join(parts).replace("%", " %") or None


def _dtype(dtype: str) -> str:
    short = dtype.removeprefix("torch.")
    short = _ALIASES.get(short, short)
    if short not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is none of {', '.join(DTYPES)}")
    return short


def _amounts(flops: float, bytes: float, dtype: str) -> str:
    parts = [f"{flops / 1e9:.4g} GFLOP in {_dtype(dtype)}"] if flops else []
    parts += [f"{bytes / 1e6:.4g} MB"] if bytes else []
    return " and ".join(parts)
