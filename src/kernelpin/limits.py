"""What a GPU cannot beat: dense peaks, memory bandwidth and L2, as NVIDIA publishes them.

A roofline. A call of `flops` operations that must move `bytes` takes at least as long as either
takes at its peak. Peaks are dense: where a datasheet quotes tensor cores with sparsity, half of it.
A peak holds at the SM clock that it is quoted at and grows with it; `floor_us` computes with
`max_mhz`, since Hopper boosts beyond the clock of its tensor peaks. What fits into L2 need not come
from memory.

`sources` name where a figure is published. All were compared, in November 2026, with what public
pages quote of these documents, which were not at hand themselves, and with what cards report of
themselves: SMs × FLOP a clock × clock, memory clock × bus width (tests/unit/test_limits.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelpin.trace import slugify

if TYPE_CHECKING:
    from kernelpin.baselines.entry import Entry

_MIB = 1024**2
ROUNDED = 0.01  # documents round: 8.1 TFLOP/s for 8.14, 60 for 60.6


@dataclass(frozen=True, slots=True)
class Limit:
    """One GPU's peaks: TFLOP/s by dtype, GB/s (10^9), L2 in bytes, clocks in MHz.

    `tf32` is fp32 on tensor cores; fp64 is on tensor cores where the GPU has them. A dtype that is
    missing has no peak of its own in the datasheet. fp32 and fp64 are quoted at `max_mhz`, the
    others at `peak_mhz`. `sources` name the documents of the peaks, the bandwidth, L2 and clocks;
    `unconfirmed` says which figure none of them and no card was seen to give.
    """

    name: str
    tflops: Mapping[str, float]
    bandwidth_gbps: float
    l2_bytes: int
    peak_mhz: int
    max_mhz: int
    sources: tuple[str, ...]
    unconfirmed: tuple[str, ...] = ()

    def peak_tflops(self, dtype: str) -> float:
        """The datasheet's figure; the highest floating-point one for a dtype it does not quote."""
        known = self.tflops.get(dtype)
        return max(v for k, v in self.tflops.items() if k != "int8") if known is None else known

    def quoted_mhz(self, dtype: str) -> int:
        """The SM clock at which `peak_tflops` holds."""
        at_boost = dtype in ("fp32", "fp64") and dtype in self.tflops
        return self.max_mhz if at_boost else self.peak_mhz


_A100 = {
    "fp64": 19.5, "fp32": 19.5, "tf32": 156.0, "bf16": 312.0, "fp16": 312.0, "int8": 624.0,
}  # fmt: skip
_A100_SOURCES = (
    "NVIDIA A100 Tensor Core GPU Datasheet, 1758950-r4 (peaks, bandwidth of those with 80 GB)",
    "NVIDIA A100 Tensor Core GPU Architecture whitepaper (bandwidth with 40 GB, L2, boost clock)",
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
_H100_SHEET = "NVIDIA H100 Tensor Core GPU Datasheet"
# The first edition had preliminary figures: 60 TFLOP/s in fp32, not 66.9.
_H100_PAPER = "NVIDIA H100 Tensor Core GPU Architecture whitepaper, revised edition"


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
        (f"{_H100_SHEET} (bandwidth)", f"{_H100_PAPER} (peaks, L2, both clocks)"),
    ),
    Limit(
        "NVIDIA H100 PCIe",
        _H100_PCIE,
        2039,
        50 * _MIB,
        1620,
        1755,
        (
            f"{_H100_SHEET} (peaks: half of those with sparsity)",
            f"{_H100_PAPER} (L2, clock of the tensor peaks)",
            "NVIDIA H100 PCIe GPU Product Brief, PB-11133-001 (boost clock)",
            # The datasheet has 2 TB/s.
            "5120 bit at 1593 MHz, as the card's driver reports them (bandwidth)",
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
            f"{_H100_SHEET}, NVL column (peaks: half of those with sparsity)",
            "NVIDIA H100 NVL GPU Product Brief, PB-11773-001 (bandwidth, boost clock)",
            "the card's own L2 as its driver reports it",
        ),
        ("peak_mhz: computed from the tensor peaks, 132 SMs and Hopper's 4096 FLOP a clock each",),
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
            "the card's own L2 and maximum SM clock as its driver reports them",
        ),
        ("peak_mhz: that of the H100 SXM, whose SMs and peaks are the same",),
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
            "the card's own L2 and maximum SM clock as its driver reports them",
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
            "NVIDIA A10 Tensor Core GPU Datasheet (peaks: those without sparsity, bandwidth)",
            "the card's own L2 and maximum SM clock as its driver reports them",
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
            # Newer datasheets have 300 GB/s.
            "256 bit at 5001 MHz, as the card's driver reports them (bandwidth)",
            "the card's own L2 and maximum SM clock as its driver reports them",
        ),
    ),
)
LIMITS: Mapping[str, Limit] = {slugify(limit.name): limit for limit in _TABLE}

_ALIASES = {
    "float64": "fp64", "double": "fp64", "float32": "fp32", "float": "fp32", "bfloat16": "bf16",
    "float16": "fp16", "half": "fp16", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8",
}  # fmt: skip
DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")


def short_dtype(dtype: str) -> str:
    """One of `DTYPES`, also for torch's names: `bf16` for `torch.bfloat16`; ValueError: no such."""
    short = dtype.removeprefix("torch.")
    short = _ALIASES.get(short, short)
    if short not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is none of {', '.join(DTYPES)}")
    return short


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
    dtype = short_dtype(dtype)
    quoted = limit.quoted_mhz(dtype)
    clock = max(quoted, limit.max_mhz if max_mhz is None else max_mhz)
    peak = limit.peak_tflops(dtype) * clock / quoted
    compute = flops / (peak * 1e6)
    memory = max(0.0, bytes - limit.l2_bytes) / (limit.bandwidth_gbps * 1e3)
    return max(compute, memory)


def check_entry(entry: Entry, device: str) -> str | None:
    """Why an entry's figure cannot be true on this device; None where it can, or nothing is known.

    Judged where the entry says what `work` a call does, and as finely as documents round.
    """
    work = entry.work
    if work is None or entry.metric not in ("device_us", "kernel_us") or limit_of(device) is None:
        return None
    floor = floor_us(work.flops, work.bytes, work.dtype, device)
    if entry.median >= floor * (1 - ROUNDED):
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
        done, dtype = flops / us / 1e6, short_dtype(dtype)
        share = done / limit.peak_tflops(dtype)
        parts.append(f"{done:.3g} TFLOP/s, {share:.0%} of the dense {dtype} peak")
    if bytes:
        moved = bytes / us / 1e3
        share = moved / limit.bandwidth_gbps
        # More than there is means that L2 served part of it, not that memory did.
        parts.append(f"{moved:.4g} GB/s, {share:.0%} of the memory bandwidth")
    return "; ".join(parts).replace("%", " %") or None


def _amounts(flops: float, bytes: float, dtype: str) -> str:
    parts = [f"{flops / 1e9:.4g} GFLOP in {short_dtype(dtype)}"] if flops else []
    parts += [f"{bytes / 1e6:.4g} MB"] if bytes else []
    return " and ".join(parts)
