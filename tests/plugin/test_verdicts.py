"""Each verdict is the outcome of the test itself, on a workstation and where CI is set."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from small_project import GPU, STATE, figures, text_of

from kernelpin.baselines import Entry, KernelEntry, Recording, Store
from kernelpin.session import Case, Evidence, Settings
from kernelpin.stopwatch import KernelFigure, Samples
from kernelpin.workers import WorkerResult


@pytest.fixture
def timed(project):
    """A project with one timing test and a baseline of 41.2 µs."""
    project.timing_tests("test_flash")
    project.baseline("test_flash", figures(41.2))
    return project


@pytest.mark.parametrize("ci", [False, True])
def test_same_passes(timed, ci):
    timed.measured("test_flash", 41.3)
    timed.run(ci=ci).assert_outcomes(passed=1)


@pytest.mark.parametrize("ci", [False, True])
def test_faster_passes_and_says_so(timed, ci):
    timed.measured("test_flash", 30.0)
    result = timed.run(ci=ci)
    result.assert_outcomes(passed=1)
    assert "faster: test_speed.py::test_flash" in text_of(result)


@pytest.mark.parametrize(("limit", "outcome"), [(None, "passed"), (0.05, "failed")])
def test_a_limit_of_the_tests_own_is_meant_as_it_is_on_another_card_too(project, limit, outcome):
    project.timing_tests("test_gelu", marks=(f"kernelpin(limit={limit})",) if limit else ())
    project.baseline("test_gelu", figures(1.475, spread=0.001), recorded_on="GPU-1", kernels=(ADD,))
    project.measured("test_gelu", *figures(1.565, 5, spread=0.001, seed=1))
    project.run(ci=True).assert_outcomes(**{outcome: 1})


def test_a_kernels_own_time_has_one_kernels_floor_however_many_a_call_runs(project):
    project.timing_tests("test_gemm")
    project.baseline(
        "test_gemm",
        figures(20.0, spread=0.001),
        recorded_on="GPU-1",
        kernels=(MANY,),
        metric="kernel_us",
        method="profiler",
    )
    slower = figures(24.0, 5, spread=0.001, seed=1)
    project.measured("test_gemm", *slower, metric="kernel_us", method="profiler")
    project.run(ci=True).assert_outcomes(failed=1)


@pytest.mark.parametrize("ci", [False, True])
def test_a_process_that_was_faster_than_the_baselines_acquits_nobody(project, ci):
    """The gap between kernels became shorter for a while: +6 % looks like nothing in it."""
    project.timing_tests("test_unchanged", "test_slower")
    project.baseline("test_unchanged", figures(3.25, spread=0.001))
    project.baseline("test_slower", figures(3.61, spread=0.001))
    project.measured("test_unchanged", 3.07, *figures(3.25, 4, spread=0.001, seed=1))
    project.measured("test_slower", 3.62, *figures(3.83, 5, spread=0.001, seed=2))
    result = project.run(ci=ci)
    result.assert_outcomes(passed=1, failed=1)
    assert "FAILED test_speed.py::test_slower - slower than the baseline" in text_of(result)
    assert "faster: " not in text_of(result)


def test_a_suspect_of_such_a_process_is_not_acquitted_by_one_other(project):
    project.timing_tests("test_unchanged", "test_slower")
    project.baseline("test_unchanged", figures(3.25, spread=0.001))
    project.baseline("test_slower", figures(3.61, spread=0.001))
    project.measured("test_unchanged", 3.07, 3.25)
    project.measured("test_slower", 3.83, 3.61, *figures(3.83, 3, spread=0.001, seed=2))
    # One of its four confirming processes was as before, which is no proof either way.
    assert "1 same, 1 unclear on NVIDIA H200" in text_of(project.run())


def test_where_the_budget_ends_before_another_process_the_acquittal_stands(project):
    project.baseline("test_it", figures(3.25, spread=0.001))
    settings = Settings(project.path, project.path / "baselines")
    test = Evidence(Case("test_speed.py::test_it"), Store(settings.baselines), settings)
    state = {"l2": "hot", "input": "bf16[64,32]", "state": (STATE,)}
    samples = Samples("device_us", (3.05, 3.07, 3.09), "graph", **state)
    test.add(WorkerResult("test_speed.py::test_it", samples=samples, gpu=GPU))
    test.judge()
    assert test.is_acquitted
    assert test.is_faster
    test.doubt()
    test.judge(final=True)
    assert not test.is_acquitted
    test.end_doubt()
    assert test.is_acquitted
    assert test.first is samples


@pytest.mark.parametrize("ci", [False, True])
def test_slower_in_fresh_processes_fails(timed, ci):
    timed.measured("test_flash", *figures(47.9, 5, seed=1))
    result = timed.run(ci=ci)
    result.assert_outcomes(failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*FAILED test_speed.py::test_flash - slower than the baseline: 4*µs, was 4*µs*"]
    )


ADD = KernelEntry(name="add", count=1, median_us=0.9)
GEMM = KernelEntry(name="gemm", count=1, median_us=1.9)
MANY = KernelEntry(name="tiny", count=400, median_us=2.0)
COPIES = (
    KernelEntry(name="Memset (Device)", count=2, median_us=0.7),
    KernelEntry(name="Memcpy DtoD (Device -> Device)", count=2, median_us=0.9),
)


@pytest.mark.parametrize(
    ("recorded_on", "kernels", "was", "now", "outcome"),
    [
        ("GPU-0", (ADD,), 1.475, 1.565, "failed"),  # on the very card that recorded: the code's
        ("GPU-1", (ADD,), 1.475, 1.565, "passed"),  # twice as two H200 cards differ
        ("GPU-1", (ADD,), 1.475, 1.62, "failed"),
        ("GPU-1", (GEMM, ADD), 3.30, 3.48, "passed"),  # two kernels, twice the difference
        ("GPU-1", (GEMM, ADD), 3.30, 3.60, "failed"),
        ("GPU-1", (ADD, *COPIES), 1.4, 1.6, "failed"),  # copies are no kernels
        ("GPU-1", (MANY,), 100.0, 130.0, "failed"),  # beside each other, on many streams
        ("GPU-1", (MANY,), 100.0, 115.0, "passed"),
    ],
)
def test_a_tenth_of_a_microsecond_a_kernel_is_no_slowdown_on_another_card(
    project, recorded_on, kernels, was, now, outcome
):
    project.timing_tests("test_gelu")
    project.baseline(
        "test_gelu", figures(was, spread=0.001), recorded_on=recorded_on, kernels=kernels
    )
    project.measured("test_gelu", *figures(now, 5, spread=0.001, seed=1))
    project.run(ci=True).assert_outcomes(**{outcome: 1})


@pytest.mark.parametrize("ci", [False, True])
def test_one_slow_process_is_measured_again_and_then_forgotten(timed, ci):
    timed.measured("test_flash", 47.9, *figures(41.2, 4, seed=1))
    timed.run(ci=ci).assert_outcomes(passed=1)


@pytest.mark.parametrize("ci", [False, True])
@pytest.mark.parametrize(
    ("outcome", "said"), [("skipped", "skipped"), ("xfailed", "failed as expected")]
)
def test_a_slow_figure_is_not_hidden_by_another_ending_of_a_later_process(timed, ci, outcome, said):
    timed.measured("test_flash", 47.9)
    timed.result("test_flash", outcome=outcome, message="no GPU: the device was lost")
    result = timed.run(ci=ci)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*FAILED test_speed.py::test_flash - measured 47.90 µs in process 1, "
            f"then {said} in process 2: no GPU: the device was lost; *"
        ]
    )


def test_a_skip_is_not_hidden_by_a_later_figure_either(timed):
    timed.result("test_flash", outcome="skipped", message="not today")
    timed.measured("test_flash", 41.2)
    result = timed.run("--kernelpin-processes=2")
    result.assert_outcomes(failed=1)
    assert "skipped in process 1: not today, then measured 41.20 µs in process 2" in text_of(result)


def test_two_modes_do_not_decide_and_pass_on_a_workstation(timed):
    timed.measured("test_flash", *([47.9, 41.2] * 8))
    result = timed.run()
    result.assert_outcomes(passed=1)
    assert "unclear: test_speed.py::test_flash" in text_of(result)


def test_unclear_beyond_the_limit_fails_in_ci(timed):
    timed.measured("test_flash", *([49.9, 41.2] * 8))
    result = timed.run(ci=True)
    result.assert_outcomes(failed=1)
    assert "unclear" in text_of(result)


def test_more_than_a_fifth_unclear_fails_them_in_ci(project):
    names = [f"test_{letter}" for letter in "abcd"]
    project.timing_tests(*names)
    for name in names:
        project.baseline(name, figures(41.2))
        project.measured(name, *(([44.5, 39.0] * 8) if name == "test_a" else [41.2]))
    result = project.run(ci=True)
    result.assert_outcomes(passed=3, failed=1)
    assert "error: 1 of 4 timings are unclear" in text_of(result)


def test_a_fifth_unclear_is_allowed(project):
    names = [f"test_{letter}" for letter in "abcde"]
    project.timing_tests(*names)
    for name in names:
        project.baseline(name, figures(41.2))
        project.measured(name, *(([44.5, 39.0] * 8) if name == "test_a" else [41.2]))
    project.run(ci=True).assert_outcomes(passed=5)


def test_all_unclear_is_red_in_ci(timed):
    timed.measured("test_flash", 41.2, reason="thermal slowdown (SM 1200 MHz)")
    result = timed.run(ci=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "thermal slowdown" in text_of(result)


@pytest.mark.parametrize("screened", ["well", "disturbed too"])
def test_a_suspect_that_is_disturbed_ever_after_is_no_green_in_ci(timed, screened):
    """A change that heats the card is throttled in each process that would confirm it."""
    others = [f"test_{number}" for number in range(9)]
    timed.timing_tests("test_flash", *others)
    for name in others:
        timed.baseline(name, figures(41.2))
        timed.measured(name, 41.2)
    throttled = "thermal slowdown (SM 1200 MHz)"
    timed.measured("test_flash", 61.0, reason=None if screened == "well" else throttled)
    timed.measured("test_flash", *[61.0] * 5, reason=throttled)
    result = timed.run(ci=True)
    result.assert_outcomes(passed=9, failed=1)
    text = text_of(result)
    assert "unclear" in text
    assert throttled in text
    assert "61.00 µs" in text


def test_one_that_is_disturbed_and_no_slower_is_no_red(timed):
    others = [f"test_{number}" for number in range(9)]
    timed.timing_tests("test_flash", *others)
    for name in others:
        timed.baseline(name, figures(41.2))
        timed.measured(name, 41.2)
    timed.measured("test_flash", *[41.3] * 6, reason="another process on the GPU (pid 7)")
    timed.run(ci=True).assert_outcomes(passed=10)


def test_one_that_is_slower_beside_a_stranger_alone_is_no_red(timed):
    """A neighbour slows whatever runs; that it is unclear counts among the unclear ones."""
    others = [f"test_{number}" for number in range(9)]
    timed.timing_tests("test_flash", *others)
    for name in others:
        timed.baseline(name, figures(41.2))
        timed.measured(name, 41.2)
    stranger = replace(STATE, strangers=(7,))
    timed.measured("test_flash", *[47.0] * 6, reason=stranger.disqualifies, state=(stranger,))
    timed.run(ci=True).assert_outcomes(passed=10)


@pytest.mark.parametrize("counts", [(9, 5), (5, 9)])
def test_counts_that_change_in_any_process_are_a_change(timed, counts):
    recording = Recording(date="2026-08-14", processes=2, torch=GPU.torch, uuid=GPU.uuid)
    timed.timing_tests("test_counts")
    timed.entry(
        "test_counts",
        Entry(
            metric="counts",
            source="measured",
            recordings=(recording,),
            counts={"2.11": {"kernels": 5}},
        ),
    )
    for kernels in counts:
        timed.counted("test_counts", kernels=kernels)
    timed.run("--kernelpin-processes=2", ci=True).assert_outcomes(failed=1)


def test_a_disturbed_process_is_measured_again(timed):
    stranger = "another process on the GPU (pid 7)"
    timed.measured("test_flash", 60.0, reason=stranger)
    timed.measured("test_flash", *figures(41.2, 4, seed=1))
    timed.run(ci=True).assert_outcomes(passed=1)


def test_without_a_baseline_it_skips_with_the_command_that_records_one(project):
    project.timing_tests("test_flash", "test_new")
    project.baseline("test_flash", figures(41.2))
    project.measured("test_flash", 41.2)
    project.measured("test_new", 12.0)
    result = project.run("-rs")
    result.assert_outcomes(passed=1, skipped=1)
    assert "kernelpin record -- test_speed.py::test_new" in text_of(result)


def test_without_a_baseline_it_fails_in_ci(project):
    project.timing_tests("test_flash", "test_new")
    project.baseline("test_flash", figures(41.2))
    project.measured("test_flash", 41.2)
    project.measured("test_new", 12.0)
    result = project.run(ci=True)
    result.assert_outcomes(passed=1, failed=1)
    assert "no baseline: no baseline for this test on NVIDIA H200" in text_of(result)


def test_a_gpu_without_any_baseline_is_told_once_in_ci(project):
    project.timing_tests("test_a", "test_b")
    for name in ("test_a", "test_b"):
        project.measured(name, 12.0)
    result = project.run(ci=True)
    result.assert_outcomes(failed=2)
    assert text_of(result).count("to record:") == 1


@pytest.mark.parametrize(
    "other",
    [
        {"memory_bytes": 141_000_000_000},
        {"mig": "1g.18gb"},
    ],
)
def test_another_memory_or_slice_is_incomparable(timed, other):
    gpu = replace(GPU, **other)
    timed.measured("test_flash", 41.2, gpu=gpu)
    result = timed.run("-rs")
    result.assert_outcomes(skipped=1)
    assert "the baseline is of something else" in text_of(result)
    timed.run(ci=True).assert_outcomes(failed=1)


@pytest.mark.parametrize(
    "other", [{"metric": "kernel_us"}, {"input": "bf16[1,1]"}, {"input": ""}, {"l2": "cold"}]
)
def test_another_metric_or_input_is_incomparable(timed, other):
    timed.measured("test_flash", 41.2, **other)
    timed.run().assert_outcomes(skipped=1)
    timed.run(ci=True).assert_outcomes(failed=1)


def test_a_baseline_of_one_process_is_told_with_its_file_and_can_be_recorded_again(project):
    project.timing_tests("test_a")
    project.baseline("test_a", (41.2,))
    project.measured("test_a", *figures(47.9, 8))
    result = project.run(ci=True)
    result.assert_outcomes(failed=1)
    assert (
        "baselines/nvidia-h200/test_speed.json: the baseline has 1 process figure, to compare with "
        "it takes 2 or more: kernelpin record -n 8 -- test_speed.py::test_a"
    ) in text_of(result)
    project.run("--kernelpin-update=all", "--kernelpin-reason=why").assert_outcomes(passed=1)
    assert len(project.stored()["test_speed.py::test_a"].processes) == 8


def test_processes_that_are_measured_to_be_proposed_do_not_re_roll_the_verdict(timed):
    timed.measured("test_flash", 47.9, *figures(47.9, 4), *figures(41.2, 20))
    result = timed.run("--kernelpin-report=report")
    result.assert_outcomes(failed=1)
    (row,) = timed.report()["rows"]
    assert row["processes_now"] == 4


def test_other_counts_fail_and_say_which(project):
    project.timing_tests("test_counts")
    project.baseline(
        "test_counts",
        (),
        metric="counts",
        method="profiler",
        input=None,
        l2=None,
        counts={"2.11": {"kernels": 5, "launches": 5}},
    )
    project.counted("test_counts", kernels=6, launches=5)
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*- counts differ from the baseline: kernels 5 → 6"])
    project.forget()
    project.counted("test_counts", kernels=5, launches=5)
    project.run(ci=True).assert_outcomes(passed=1)


def test_emptied_counts_are_refused_with_their_line(project):
    project.timing_tests("test_counts")
    project.baseline(
        "test_counts",
        (),
        metric="counts",
        method="profiler",
        input=None,
        l2=None,
        counts={"2.11": {"kernels": 5}},
    )
    path = project.path / "baselines" / GPU.slug / "test_speed.json"
    text = re.sub(r'"2\.11": \{[^}]*\}', '"2.11": {}', path.read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")
    line = text[: text.index('"2.11": {}')].count("\n") + 1
    project.counted("test_counts", kernels=9)
    result = project.run()
    result.assert_outcomes(failed=1)
    assert f"test_speed.json:{line}: test_speed.py::test_counts: counts.2.11" in text_of(result)


def test_a_time_that_became_a_ratio_is_incomparable(timed):
    ratio = Samples("host_ratio", (0.5, 0.5, 0.5), "host")
    timed.result("test_flash", samples=ratio, below=0.9, gpu=GPU)
    result = timed.run("-rs")
    result.assert_outcomes(skipped=1)
    assert "the baseline is of something else: metric host_ratio, was device_us" in text_of(result)
    assert "kernelpin record" not in text_of(result)
    timed.run(ci=True).assert_outcomes(failed=1)


def test_a_ratio_without_an_entry_of_its_own_is_judged_by_its_bound_alone(timed):
    timed.timing_tests("test_flash", "test_ratio")
    timed.measured("test_flash", 41.2)
    ratio = Samples("host_ratio", (0.5, 0.5, 0.5), "host")
    timed.result("test_ratio", samples=ratio, below=0.9, gpu=GPU)
    timed.run(ci=True).assert_outcomes(passed=2)


def test_a_limit_of_the_module_is_no_matter_of_a_ratio(timed):
    ratio = Samples("host_ratio", (0.5, 0.5, 0.5), "host")
    timed.timing_tests("test_ratio", marks=("kernelpin(limit=0.1)",))
    timed.result("test_ratio", samples=ratio, below=0.9, gpu=GPU)
    timed.run().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("bounds", "bound", "outcome"),
    [
        ({"below": 0.9}, "below 0.9", "same"),
        ({"below": 0.4}, "below 0.4", "slower"),
        ({"above": 0.2}, "above 0.2", "same"),
        ({"above": 0.7}, "above 0.7", "slower"),
        ({"below": 0.9, "above": 0.2}, "below 0.9 and above 0.2", "same"),
        ({"below": 0.9, "above": 0.7}, "below 0.9 and above 0.7", "slower"),
        ({"below": 0.4, "above": 0.2}, "below 0.4 and above 0.2", "slower"),
        ({}, None, "same"),
    ],
)
def test_a_report_shows_a_ratios_bound_and_no_change_against_it(timed, bounds, bound, outcome):
    ratio = Samples("host_ratio", (0.5, 0.5, 0.5), "host")
    timed.timing_tests("test_ratio")
    timed.result("test_ratio", samples=ratio, gpu=GPU, **bounds)
    timed.run("--kernelpin-report=rep", ci=True)
    (row,) = json.loads((timed.path / "rep/report.json").read_text())["rows"]
    assert (row["outcome"], row["now"], row["bound"]) == (outcome, 0.5, bound)
    assert {row[key] for key in ("ratio", "low", "high", "limit", "detectable")} == {None}
    (line,) = [
        line
        for line in (timed.path / "rep/summary.md").read_text().splitlines()
        if line.startswith("| <code>")
    ]
    assert f"| – | 0.5× | – | {bound or '–'} | – |" in line


def test_a_published_reference_allows_its_band(project):
    project.timing_tests("test_kernel")
    project.entry(
        "test_kernel",
        Entry(metric="kernel_us", source="published", median=190.0, cite="the paper", band=0.2),
    )
    project.measured("test_kernel", 220.0, metric="kernel_us", method="profiler")
    project.run(ci=True).assert_outcomes(passed=1)
    project.forget()
    project.measured("test_kernel", *figures(240.0, 5), metric="kernel_us", method="profiler")
    result = project.run(ci=True)
    result.assert_outcomes(failed=1)
    assert "slower than the published reference" in text_of(result)
    assert "the paper" in text_of(result)


def test_another_card_of_the_name_has_the_wider_limit(timed):
    timed.measured("test_flash", *figures(43.0, 8, seed=2))
    timed.run().assert_outcomes(failed=1)
    timed.forget()
    timed.measured("test_flash", *figures(43.0, 8, seed=2), gpu=replace(GPU, uuid="GPU-1"))
    timed.run().assert_outcomes(passed=1)


def test_a_power_cap_that_the_baseline_did_not_have_is_not_called_slower(timed):
    capped = (replace(STATE, power_cap=True, sm_clock_mhz=1500),)
    timed.measured("test_flash", *figures(47.9, 5, seed=1), state=capped)
    result = timed.run()
    result.assert_outcomes(passed=1)
    assert "power cap" in text_of(result)
    timed.run(ci=True).assert_outcomes(failed=1)


def test_a_kernel_that_got_slower_is_named_before_those_that_did_not(project):
    """And where it is Triton's, what Inductor may have chosen otherwise."""
    project.timing_tests("test_mlp")
    names = ("gemm", "triton_poi_fused_mul_0")
    before = zip(names, (150.0, 37.6), strict=True)
    project.baseline(
        "test_mlp",
        figures(205.5),
        kernels=tuple(KernelEntry(name=n, count=1, median_us=us) for n, us in before),
    )
    now = tuple(KernelFigure(n, 1, us) for n, us in zip(names, (151.0, 56.3), strict=True))
    project.measured("test_mlp", *figures(220.7, 5, seed=1), kernels=now)
    message = text_of(project.run())
    assert "kernels:     triton_poi_fused_mul_0 37.60 µs → 56.30 µs  ← slower; gemm 150" in message
    assert "hint:        the same Triton kernel, slower: Inductor races block sizes" in message


def test_a_slowdown_without_a_slower_triton_kernel_gives_no_hint(project):
    project.timing_tests("test_mlp")
    name = "triton_poi_fused_mul_0"
    kernel = KernelEntry(name=name, count=1, median_us=37.6)
    project.baseline("test_mlp", figures(41.2), kernels=(kernel,))
    now = (KernelFigure(name, 1, 38.1), KernelFigure("add", 1, 6.0))
    project.measured("test_mlp", *figures(47.9, 5, seed=1), kernels=now)
    message = text_of(project.run())
    assert "← new" in message
    assert "← slower" not in message
    assert "hint:" not in message


def test_the_message_says_what_was_found_and_what_to_do(project):
    project.timing_tests("test_flash", marks=('kernelpin(because="attention is one kernel")',))
    project.baseline(
        "test_flash",
        figures(41.2),
        kernels=(KernelEntry(name="flash_fwd_kernel", count=1, median_us=38.9),),
    )
    new = (
        KernelFigure("flash_fwd_kernel", 1, 39.0),
        KernelFigure("void at::native::vectorized_elementwise_kernel<4, X>(int)", 1, 6.5),
    )
    project.measured(
        "test_flash", *figures(47.9, 5, seed=1), kernels=new, gpu=replace(GPU, torch="2.13.0")
    )
    result = project.run("--kernelpin-report=report")
    message = text_of(result)
    assert "E  slower than the baseline: " in message
    assert "2026-08-14  3f9c1ab" in message
    assert "← new" in message
    assert "SM 1980 MHz (baseline 1980), no throttling; torch 2.11.0+cu130 → 2.13.0" in message
    assert "because:     attention is one kernel" in message
    assert 'kernelpin baselines accept report/proposed --reason "…"' in message
    assert "Traceback" not in message
    assert "plugin/timings.py" not in message
