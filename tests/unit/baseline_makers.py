"""GPUs, samples and entries as a session on a real card hands them to the store."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from kernelpin.baselines import (
    DeviceRecord,
    Entry,
    File,
    KernelEntry,
    Measurement,
    Proposal,
    Recording,
    Work,
)
from kernelpin.baselines.entry import median_of, round_figure, spread_of
from kernelpin.machine import Gpu, State
from kernelpin.stopwatch import KernelFigure, Samples

H200 = Gpu(
    name="NVIDIA H200",
    slug="nvidia-h200",
    uuid="GPU-1",
    memory_bytes=150_754_820_096,
    sm_count=132,
    power_limit_w=700.0,
    mig=None,
    driver="580.159",
    cuda="13.0",
    torch="2.11.0+cu130",
    triton="3.6.0",
    compute_capability=(9, 0),
    sm_clock_max_mhz=1980,
)
A100 = replace(
    H200,
    name="NVIDIA A100-SXM4-80GB",
    slug="nvidia-a100-sxm4-80gb",
    uuid="GPU-A",
    memory_bytes=85_097_971_712,
    sm_count=108,
    power_limit_w=400.0,
)
TEST = "perf_tests/test_timings.py::test_time[mlp]"
OTHER = "perf_tests/test_timings.py::test_time[linear]"


def samples(
    *figures,
    metric="device_us",
    input="bf16[64,32]",
    l2="hot",
    method="graph",
    kernels=None,
    clock=1980,
    power_cap=False,
):
    """One process each, with that figure."""
    return [
        Samples(
            metric=metric,
            values=(figure * 0.99, figure, figure * 1.01),
            method=method,
            l2=l2,
            input=input,
            state=(State(sm_clock_mhz=clock, power_cap=power_cap),),
            kernels=kernels,
        )
        for figure in figures
    ]


def counted(**counts):
    """Two processes that counted the same."""
    one = Samples(metric="counts", values=(), method="profiler", input="bf16[64,32]", counts=counts)
    return [one, one]


def around(center, processes=8):
    """Figures of that many processes, 0.2 % apart, with that median."""
    return [center * (1 + 0.002 * (i - (processes - 1) / 2)) for i in range(processes)]


def measurement(given, test_id=TEST, gpu=H200, date="2026-11-30", commit="3f9c1ab", **more):
    return Measurement(test_id, gpu, given, date, commit, **more)


def proposal(given, verdict="SLOWER", mode="replace", reason=None, **more):
    return Proposal(measurement(given, **more), verdict, reason, mode)


def file_of(entries, device=None):
    return File(device=device or DeviceRecord(name=H200.name), entries=entries)


def kernel_figures(**durations):
    return tuple(KernelFigure(name, 1, us) for name, us in durations.items())


words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
maybe = st.none() | words
figures = st.floats(1e-3, 1e7).map(round_figure)
days = st.dates().map(lambda day: day.isoformat())
minors = st.builds("{}.{}".format, st.integers(1, 9), st.integers(0, 30))
tables = st.dictionaries(words, st.integers(0, 2**40), min_size=1, max_size=3)
kernel_entries = st.builds(
    KernelEntry, name=words, count=st.integers(1, 99), median_us=st.none() | figures
)
works = st.builds(
    Work,
    flops=st.integers(0, 10**15),
    bytes=st.integers(0, 10**12),
    dtype=st.sampled_from(["bf16", "fp32"]),
)
shares = st.none() | st.floats(0.001, 0.9)


@st.composite
def recordings(draw, processes):
    return Recording(
        date=draw(days),
        processes=processes,
        **{name: draw(maybe) for name in ("commit", "uuid", "driver", "cuda", "torch", "reason")},
        sm_clock_mhz=draw(st.none() | st.integers(100, 3000)),
    )


@st.composite
def entries(draw):
    """Any entry that may be stored."""
    about = {name: draw(maybe) for name in ("input", "l2", "method", "note")}
    about |= {"limit": draw(shares), "work": draw(st.none() | works)}
    kind = draw(st.sampled_from(["measured", "counts", "published"]))
    if kind == "published":
        return Entry(
            metric="kernel_us", source="published", median=draw(figures), cite=draw(words),
            band=draw(st.floats(0.01, 0.5)), **about,
        )  # fmt: skip
    parts = draw(st.lists(st.lists(figures, min_size=1, max_size=4), min_size=1, max_size=3))
    recorded = tuple(draw(recordings(len(part))) for part in parts)
    about |= {
        "kernels": tuple(draw(st.lists(kernel_entries, max_size=3))),
        "recordings": recorded,
        "power_capped": draw(st.booleans()),
    }
    counts = draw(st.none() | st.dictionaries(minors, tables, min_size=1, max_size=3))
    if kind == "counts":
        counts = counts or {"2.11": {"kernels": 5}}
        return Entry(metric="counts", source="measured", counts=counts, **about)
    processes = tuple(figure for part in parts for figure in part)
    return Entry(
        metric=draw(st.sampled_from(["device_us", "kernel_us", "host_ratio"])),
        source="measured",
        processes=processes,
        median=median_of(processes),
        spread=spread_of(processes),
        first_median=draw(st.none() | figures),
        counts=counts,
        **about,
    )


devices = st.builds(
    DeviceRecord,
    name=words.filter(str.strip),
    memory_bytes=st.none() | st.integers(1, 10**12),
    sm_count=st.none() | st.integers(1, 200),
    power_limit_w=st.none() | st.floats(10, 1000),
    mig=maybe,
)
files = st.builds(
    File,
    device=devices,
    entries=st.dictionaries(words.filter(str.strip), entries(), max_size=3),
)
