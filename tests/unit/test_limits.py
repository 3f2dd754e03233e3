"""What a GPU cannot beat, and that no stored baseline does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelpin import limits
from kernelpin.baselines import Entry, Store, Work

A100 = "NVIDIA A100-SXM4-80GB"
BASELINES = Path(__file__).parents[2] / "baselines"
MATMUL_4096 = 2 * 4096**3

# What the cards' drivers report: SMs, the largest SM clock in MHz, the memory's clock in MHz and
# width in bits, L2 in bytes. The H200's from the card that recorded the baselines, the others from
# device queries that their owners published.
REPORTED = {
    "NVIDIA A100-SXM4-80GB": (108, 1410, 1593, 5120, 41_943_040),
    "NVIDIA A100-SXM4-40GB": (108, 1410, 1215, 5120, 41_943_040),
    "NVIDIA A100 80GB PCIe": (108, 1410, 1512, 5120, 41_943_040),
    "NVIDIA A100-PCIE-40GB": (108, 1410, 1215, 5120, 41_943_040),
    "NVIDIA H100 80GB HBM3": (132, 1980, 2619, 5120, 52_428_800),
    "NVIDIA H100 PCIe": (114, 1755, 1593, 5120, 52_428_800),
    "NVIDIA H100 NVL": (132, 1785, 2619, 6016, 62_914_560),
    "NVIDIA H200": (132, 1980, 3201, 6016, 62_914_560),
    "NVIDIA L4": (58, 2040, 6251, 192, 50_331_648),
    "NVIDIA A10": (72, 1695, 6251, 384, 6_291_456),
    "Tesla T4": (40, 1590, 5001, 256, 4_194_304),
}
# Dense FLOP of an SM in a clock, from the architectures' whitepapers: two for each multiply-add.
GA100 = {"fp64": 128, "fp32": 128, "tf32": 1024, "bf16": 2048, "fp16": 2048, "int8": 4096}
GH100 = {
    "fp64": 256, "fp32": 256, "tf32": 2048, "bf16": 4096, "fp16": 4096, "fp8": 8192, "int8": 8192,
}  # fmt: skip
GA102 = {"fp32": 256, "tf32": 512, "bf16": 1024, "fp16": 1024, "int8": 2048}
AD104 = {**GA102, "fp8": 2048}
TU104 = {"fp32": 128, "fp16": 1024, "int8": 2048}
SM = {"A100": GA100, "H100": GH100, "H200": GH100, "A10": GA102, "L4": AD104, "T4": TU104}

devices = st.sampled_from([limit.name for limit in limits.LIMITS.values()])
dtypes = st.sampled_from(limits.DTYPES)
amounts = st.integers(0, 10**15)


def entry(median, dtype="bf16", **work):
    return Entry(
        metric="kernel_us",
        source="published",
        median=median,
        cite="x",
        band=0.2,
        work=Work(dtype=dtype, **work) if work else None,
    )


STORED = [
    pytest.param(limits.LIMITS[slug].name if slug in limits.LIMITS else slug, entry, id=test_id)
    for slug in Store(BASELINES).gpus()
    for test_id, entry in Store(BASELINES).entries(slug).items()
]


@pytest.mark.parametrize(("device", "stored"), STORED)
def test_no_stored_baseline_beats_its_gpu(device, stored):
    assert limits.check_entry(stored, device) is None


each_limit = pytest.mark.parametrize(
    "limit", limits.LIMITS.values(), ids=[limit.name for limit in limits.LIMITS.values()]
)


@each_limit
def test_each_peak_is_what_the_sms_do_at_the_clock_it_is_quoted_at(limit):
    sms = REPORTED[limit.name][0]
    per_clock = SM[re.split("[ -]", limit.name)[1]]
    computed = {d: sms * flop * limit.quoted_mhz(d) / 1e6 for d, flop in per_clock.items()}
    assert limit.tflops == pytest.approx(computed, rel=limits.ROUNDED)


@each_limit
def test_each_bandwidth_is_what_the_memorys_clock_and_width_give(limit):
    _, _, mhz, bits, _ = REPORTED[limit.name]
    assert limit.bandwidth_gbps == pytest.approx(mhz * 2 * bits / 8 / 1e3, rel=limits.ROUNDED)


@each_limit
def test_l2_and_the_largest_clock_are_what_the_card_reports(limit):
    _, mhz, _, _, l2 = REPORTED[limit.name]
    assert (limit.max_mhz, limit.l2_bytes) == (mhz, l2)


@pytest.mark.parametrize(
    ("device", "tflops"),
    [
        ("NVIDIA H100 80GB HBM3", 66.9),
        ("NVIDIA H200", 67.0),
        ("NVIDIA H100 PCIe", 51.2),
        ("NVIDIA H100 NVL", 60.0),
    ],
)
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_hopper_quotes_fp32_and_fp64_at_the_clock_it_boosts_to(device, tflops, dtype):
    # Not at that of the tensor peaks, which lies 7 to 14 % below.
    assert limits.floor_us(tflops * 1e6, 0, dtype, device) == pytest.approx(1)
    assert limits.floor_us(tflops * 1e6, 0, dtype, device, max_mhz=1000) == pytest.approx(1)


def test_a_figure_that_no_document_or_card_gives_is_said_to_be_unconfirmed():
    said = {limit.name: limit.unconfirmed for limit in limits.LIMITS.values() if limit.unconfirmed}
    assert list(said) == ["NVIDIA H100 NVL", "NVIDIA H200"]
    assert all(figure.startswith("peak_mhz: ") for figures in said.values() for figure in figures)


def test_a_4096_matmul_takes_440_us_on_an_a100_at_least():
    # 137.4 GFLOP at 312 TFLOP/s
    assert limits.floor_us(MATMUL_4096, 0, "bf16", A100) == pytest.approx(440.5, abs=0.1)


def test_memory_traffic_beyond_l2_takes_its_time():
    moved = 2039 * 10**6  # a millisecond's worth
    l2 = 40 * 1024**2
    assert limits.floor_us(0, moved + l2, "bf16", A100) == pytest.approx(1000)


def test_what_fits_into_l2_is_free():
    assert limits.floor_us(0, 40 * 1024**2, "bf16", A100) == 0


def test_the_slower_of_both_is_the_floor():
    both = limits.floor_us(MATMUL_4096, 10**10, "bf16", A100)
    assert both == limits.floor_us(0, 10**10, "bf16", A100)
    assert both > limits.floor_us(MATMUL_4096, 0, "bf16", A100)


def test_hopper_may_run_above_the_clock_of_its_datasheet():
    at_datasheet = limits.floor_us(MATMUL_4096, 0, "bf16", "NVIDIA H200", max_mhz=1830)
    assert at_datasheet == pytest.approx(MATMUL_4096 / 989.5e6)
    assert limits.floor_us(MATMUL_4096, 0, "bf16", "NVIDIA H200") == pytest.approx(
        at_datasheet * 1830 / 1980
    )


def test_an_entry_faster_than_physics_is_named_with_its_amounts():
    message = limits.check_entry(entry(400.0, flops=MATMUL_4096), A100)
    assert message == (
        "400 µs is faster than NVIDIA A100-SXM4-80GB can be: 137.4 GFLOP in bf16 take at least "
        "440.5 µs; is part of the work not measured, or its amount wrong?"
    )


def test_an_entry_at_the_floor_passes():
    floor = limits.floor_us(MATMUL_4096, 0, "bf16", A100)
    assert limits.check_entry(entry(floor, flops=MATMUL_4096), A100) is None


def test_an_entry_below_the_floor_by_what_documents_round_passes():
    # A T4 does 8.14 TFLOP/s in fp32: 40 SMs × 128 FLOP a clock at 1590 MHz.
    at_peak = 10**9 / 8.14e6
    assert limits.check_entry(entry(at_peak, "fp32", flops=10**9), "Tesla T4") is None
    faster = limits.check_entry(entry(0.98 * at_peak, "fp32", flops=10**9), "Tesla T4")
    assert "is faster than Tesla T4 can be" in faster


def test_an_entry_without_work_or_on_an_unknown_gpu_is_not_judged():
    assert limits.check_entry(entry(0.001), A100) is None
    assert limits.check_entry(entry(0.001, flops=MATMUL_4096), "GeForce 256") is None


def test_the_distance_reads_as_the_datasheet_counts():
    assert limits.distance(190, 38_654_705_664, 0, "bf16", A100) == (
        "203 TFLOP/s, 65 % of the dense bf16 peak"
    )
    assert limits.distance(89.4, 0, 150_994_944, "bf16", A100) == (
        "1689 GB/s, 83 % of the memory bandwidth"
    )
    assert limits.distance(190, 1, 1, "bf16", "GeForce 256") is None
    assert limits.distance(190, 0, 0, "bf16", A100) is None


def test_an_unknown_device_is_named_with_those_that_are_known():
    with pytest.raises(LookupError, match=r"'GeForce 256'; there are for NVIDIA A10, NVIDIA A100"):
        limits.floor_us(1, 1, "bf16", "GeForce 256")


def test_an_unknown_dtype_is_named_with_those_that_are_known():
    with pytest.raises(ValueError, match="dtype 'bf61' is none of fp64, fp32"):
        limits.floor_us(1, 1, "bf61", A100)


@pytest.mark.parametrize(
    ("name", "known"),
    [("torch.bfloat16", "bf16"), ("float32", "fp32"), ("half", "fp16"), ("fp8", "fp8")],
)
def test_torch_names_of_dtypes_are_understood(name, known):
    assert limits.short_dtype(name) == known
    assert limits.floor_us(10**12, 0, name, "NVIDIA H200") == limits.floor_us(
        10**12, 0, known, "NVIDIA H200"
    )


def test_a_mig_slice_has_the_limits_of_its_card():
    assert limits.limit_of("NVIDIA H200 MIG 1g.18gb") is limits.limit_of("nvidia-h200")


def test_variants_of_a_gpu_are_told_apart():
    names = ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe", A100)
    assert [limits.limit_of(name).bandwidth_gbps for name in names] == [1555, 1935, 2039]


@each_limit
def test_each_gpu_names_the_documents_of_its_figures(limit):
    assert all("NVIDIA" in source or "driver" in source for source in limit.sources)
    for figure in ("peaks", "bandwidth", "L2", "clock"):
        assert any(figure in source for source in limit.sources), figure


@each_limit
def test_the_figures_of_each_gpu_are_plausible(limit):
    peaks = [limit.tflops[d] for d in ("fp32", "tf32", "bf16", "fp8") if d in limit.tflops]
    assert peaks == sorted(peaks)
    assert limit.peak_mhz <= limit.max_mhz < 2500
    # Dense, not sparse: one FLOP a byte to some hundreds.
    assert 10 < limit.tflops["fp16"] * 1000 / limit.bandwidth_gbps < 500


@given(devices, dtypes, amounts, amounts, st.floats(1, 100))
def test_more_work_never_takes_less_time(device, dtype, flops, moved, factor):
    less = limits.floor_us(flops, moved, dtype, device)
    assert less >= 0
    assert limits.floor_us(flops * factor, moved, dtype, device) >= less
    assert limits.floor_us(flops, moved * factor, dtype, device) >= less


@given(devices, dtypes, st.integers(10**9, 10**14))
def test_at_the_floor_of_the_datasheet_a_run_is_at_its_peak(device, dtype, flops):
    clock = limits.limit_of(device).quoted_mhz(dtype)
    floor = limits.floor_us(flops, 0, dtype, device, max_mhz=clock)
    assert "100 %" in limits.distance(floor, flops, 0, dtype, device)
