"""Entries from measurements, lookups, what is comparable, what is accepted."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from baseline_makers import (
    A100,
    H200,
    OTHER,
    TEST,
    around,
    counted,
    kernel_figures,
    measurement,
    proposal,
    samples,
)

from kernelpin.baselines import (
    BaselineError,
    DeviceRecord,
    Entry,
    File,
    Found,
    Incomparable,
    Missing,
    Store,
    Work,
    accept,
    propose,
)
from kernelpin.baselines.text import encode, parse

PUBLISHED = Entry(
    metric="kernel_us", source="published", median=190.0, cite="a blog", band=0.2, method="profiler"
)


@pytest.fixture(scope="module", autouse=True)
def locks_of_their_own(tmp_path_factory):
    """A lock lies in the temporary folder for good, and these tests make many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("locks")))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "baselines")


def take(store, *proposals, reason=None):
    """Accept what a session proposes, as `kernelpin baselines accept` does."""
    return accept(store, store.proposed(proposals).values(), reason=reason)


def lookup(store, gpu=H200, test_id=TEST, metric="device_us", **more):
    return store.lookup(gpu, test_id, metric, **more)


class TestAnEntry:
    def test_holds_a_figure_a_process_their_median_and_spread(self):
        entry = propose(None, measurement(samples(41.0, 41.2, 41.4)))
        assert entry.processes == (41.0, 41.2, 41.4)
        assert entry.median == 41.2
        assert entry.spread == pytest.approx(0.00485, abs=1e-5)  # SD of the logarithms, n - 1
        assert (entry.metric, entry.source, entry.input) == ("device_us", "measured", "bf16[64,32]")

    def test_says_where_it_comes_from(self):
        (recording,) = propose(None, measurement(samples(41.0, 41.2))).recordings
        assert msgspec.to_builtins(recording) == {
            "date": "2026-11-30", "commit": "3f9c1ab", "uuid": "GPU-1", "driver": "580.159",
            "cuda": "13.0", "torch": "2.11.0+cu130", "triton": "3.6.0", "sm_clock_mhz": 1980,
            "processes": 2, "reason": None,
        }  # fmt: skip

    def test_lists_kernels_with_their_median_over_processes(self):
        given = [
            replace(samples(50.0)[0], kernels=kernel_figures(gemm=us, add=2.0))
            for us in (40.0, 42.0, 41.0)
        ]
        kernels = propose(None, measurement(given)).kernels
        assert [(k.name, k.count, k.median_us) for k in kernels] == [
            ("gemm", 1, 41.0),
            ("add", 1, 2.0),
        ]

    def test_takes_kernels_that_another_pass_listed(self):
        listed = kernel_figures(gemm=40.0)
        entry = propose(None, measurement(samples(50.0), kernels=listed))
        assert [k.name for k in entry.kernels] == ["gemm"]

    def test_says_that_the_card_was_power_capped(self):
        assert propose(None, measurement(samples(50.0, power_cap=True))).power_capped
        assert not propose(None, measurement(samples(50.0))).power_capped

    def test_replaced_keeps_limit_and_first_median_and_nothing_of_the_old_figures(self):
        first = propose(None, measurement(samples(40.0, 40.0)))
        first = msgspec.structs.replace(first, limit=0.03)
        second = propose(first, measurement(samples(44.0, 44.0), date="2026-12-01"))
        assert (second.limit, second.first_median, second.processes) == (0.03, 40.0, (44.0, 44.0))
        assert [r.date for r in second.recordings] == ["2026-12-01"]

    def test_added_to_keeps_every_figure_and_whose_it_is(self):
        first = propose(None, measurement(samples(40.0, 42.0)))
        other = replace(H200, uuid="GPU-2")
        both = propose(first, measurement(samples(44.0), gpu=other, date="2026-12-01"), "add")
        assert both.processes == (40.0, 42.0, 44.0)
        assert both.median == 42.0
        assert [(r.uuid, own) for r, own in both.by_recording()] == [
            ("GPU-1", (40.0, 42.0)),
            ("GPU-2", (44.0,)),
        ]
        assert both.of_card("GPU-2") == (44.0,)
        assert both.of_card(None) == ()

    def test_of_another_input_cannot_be_added_to(self):
        first = propose(None, measurement(samples(40.0)))
        with pytest.raises(
            BaselineError, match=r"cannot add device_us of fp32\[8\], .* replace it instead"
        ):
            propose(first, measurement(samples(40.0, input="fp32[8]")), "add")

    def test_of_another_input_counts_its_drift_anew(self):
        first = propose(None, measurement(samples(40.0)))
        second = propose(first, measurement(samples(80.0, input="fp32[8]")))
        assert second.first_median == 80.0

    @pytest.mark.parametrize("mode", ["replace", "add"])
    def test_that_is_published_gives_way_to_a_measured_one(self, mode):
        published = msgspec.structs.replace(PUBLISHED, work=Work(dtype="bf16", flops=10))
        entry = propose(published, measurement(samples(180.0, metric="kernel_us")), mode)
        assert (entry.source, entry.median, entry.first_median) == ("measured", 180.0, 180.0)
        assert (entry.cite, entry.band, entry.work) == (None, None, Work(dtype="bf16", flops=10))

    def test_of_counts_keeps_those_of_other_torch_versions(self):
        first = propose(None, measurement(counted(kernels=5)))
        newer = replace(H200, torch="2.13.0")
        both = propose(first, measurement(counted(kernels=4), gpu=newer))
        assert both.counts == {"2.11": {"kernels": 5}, "2.13": {"kernels": 4}}
        again = propose(both, measurement(counted(kernels=3), gpu=newer, date="2026-12-02"))
        assert again.counts == {"2.11": {"kernels": 5}, "2.13": {"kernels": 3}}
        assert [r.torch for r in again.recordings] == ["2.11.0+cu130", "2.13.0"]

    def test_of_counts_that_differ_between_processes_is_refused(self):
        given = counted(kernels=5)[:1] + counted(kernels=6)[:1]
        with pytest.raises(BaselineError, match="kernels is 5 in one process and 6 in another"):
            propose(None, measurement(given))

    def test_of_processes_that_measured_different_things_is_refused(self):
        given = samples(40.0) + samples(40.0, method="events")
        with pytest.raises(BaselineError, match="processes differ in method: graph, events"):
            propose(None, measurement(given))

    def test_of_no_process_is_refused(self):
        with pytest.raises(BaselineError, match="no process measured it"):
            propose(None, measurement([]))


class TestALookup:
    def test_finds_what_was_accepted(self, store):
        take(store, proposal(samples(*around(41.2))))
        found = lookup(store, input="bf16[64,32]", l2="hot", method="graph")
        assert isinstance(found, Found)
        assert found.entry.median == 41.2
        assert found.processes == found.entry.processes
        assert found.path == store.folder / "nvidia-h200" / "test_timings.json"
        assert not found.is_reference
        assert found.changes == ()

    def test_in_an_empty_or_missing_folder_says_so(self, store):
        missing = lookup(store)
        assert isinstance(missing, Missing)
        assert missing.scope == "folder"
        store.folder.mkdir()
        assert lookup(store).scope == "folder"

    def test_for_another_gpu_names_those_that_have_baselines(self, store):
        take(store, proposal(samples(*around(41.2))))
        missing = lookup(store, gpu=A100)
        assert missing == Missing(
            "no baselines for NVIDIA A100-SXM4-80GB; there are for nvidia-h200", "gpu"
        )

    @pytest.mark.parametrize("test_id", [OTHER, "perf_tests/test_else.py::test_x"])
    def test_for_another_test_says_so(self, store, test_id):
        take(store, proposal(samples(*around(41.2))))
        assert lookup(store, test_id=test_id).scope == "test"

    @pytest.mark.parametrize(
        ("gpu", "asked", "difference"),
        [
            ({"memory_bytes": 80 * 10**9}, {}, "memory 80.0 GB, was 150.8 GB"),
            ({"mig": "1g.18gb"}, {}, "MIG slice 1g.18gb, was none"),
            ({"sm_count": 114}, {}, "114 SMs, was 132"),
            ({}, {"metric": "kernel_us"}, "metric kernel_us, was device_us"),
            ({}, {"input": "fp32[8]"}, "input fp32[8], was bf16[64,32]"),
            ({}, {"input": ""}, "input not given, was bf16[64,32]"),
            ({}, {"l2": "cold"}, "L2 cold, was hot"),
            ({}, {"method": "events"}, "method events, was graph"),
        ],
    )
    def test_says_what_makes_the_baseline_incomparable(self, store, gpu, asked, difference):
        take(store, proposal(samples(*around(41.2))))
        found = lookup(store, gpu=replace(H200, **gpu), **asked)
        assert isinstance(found, Incomparable)
        assert found.difference == difference
        assert difference in found.reason

    def test_takes_some_mb_of_the_driver_for_the_same_memory(self, store):
        take(store, proposal(samples(*around(41.2))))
        other_driver = replace(H200, memory_bytes=H200.memory_bytes - 300 * 2**20)
        assert isinstance(lookup(store, gpu=other_driver), Found)

    def test_names_changes_of_the_machine_that_do_not_matter(self, store):
        take(store, proposal(samples(*around(41.2))))
        now = replace(H200, torch="2.13.0", driver="590.1", power_limit_w=600.0)
        assert lookup(store, gpu=now).changes == (
            "driver 580.159 → 590.1",
            "torch 2.11.0+cu130 → 2.13.0",
            "power limit 700 → 600 W",
        )

    def test_gives_a_card_its_own_figures_where_it_recorded_enough(self, store):
        other = replace(H200, uuid="GPU-2")
        take(store, proposal(samples(*around(41.2))))
        take(store, proposal(samples(*around(43.0)), gpu=other, mode="add"), reason="a card")
        for gpu, center in ((H200, 41.2), (other, 43.0)):
            found = lookup(store, gpu=gpu)
            assert found.same_card
            assert len(found.processes) == 8
            assert sum(found.processes) / 8 == pytest.approx(center)
        stranger = lookup(store, gpu=replace(H200, uuid="GPU-3"))
        assert not stranger.same_card
        assert len(stranger.processes) == 16

    def test_does_not_take_two_processes_of_a_card_for_its_baseline(self, store):
        other = replace(H200, uuid="GPU-2")
        take(store, proposal(samples(*around(41.2))))
        take(store, proposal(samples(41.2, 41.2), gpu=other, mode="add"))
        assert not lookup(store, gpu=other).same_card

    def test_finds_counts_of_this_torch_minor_version_only(self, store):
        take(store, proposal(counted(kernels=5)))
        patch = replace(H200, torch="2.11.3")
        assert lookup(store, gpu=patch, metric="counts").counts == {"kernels": 5}
        missing = lookup(store, gpu=replace(H200, torch="2.12.0"), metric="counts")
        assert missing == Missing("no counts for torch 2.12; there are for 2.11", "test")

    def test_calls_a_published_entry_a_reference(self, store):
        path = store.file_for(A100.slug, TEST)
        store.write(path, File(device=DeviceRecord(name=A100.name), entries={TEST: PUBLISHED}))
        found = lookup(store, gpu=A100, metric="kernel_us", input="bf16[8192,768]", l2="hot")
        assert found.is_reference
        assert found.processes == ()
        assert not found.same_card

    def test_sees_a_file_that_changed_since(self, store):
        take(store, proposal(samples(*around(41.2))))
        assert lookup(store).entry.median == 41.2
        take(Store(store.folder), proposal(samples(*around(39.7))))
        assert lookup(store).entry.median == 39.7

    @pytest.mark.parametrize("test_id", ["fold_map.py::test_x", "::test_x", "a\\b.py::test_x"])
    def test_refuses_a_test_that_no_file_can_be_named_after(self, store, test_id):
        with pytest.raises(BaselineError, match="no test module that a file can be named after"):
            store.file_for("nvidia-h200", test_id)

    @pytest.mark.parametrize("slug", ["../etc", "", "NVIDIA H200", "a/b"])
    def test_refuses_a_slug_that_is_none(self, store, slug):
        with pytest.raises(BaselineError, match="is no GPU's name"):
            store.file_for(slug, TEST)


class TestAFile:
    def test_is_sorted_with_one_line_a_figure(self, store):
        given = samples(*around(41.0), kernels=kernel_figures(gemm=38.9, add=2.0))
        take(store, proposal(given), proposal(counted(kernels=5, ops=29), test_id=OTHER))
        text = (store.folder / "nvidia-h200" / "test_timings.json").read_text()
        recording = (
            '{"commit": "3f9c1ab", "cuda": "13.0", "date": "2026-11-30", "driver": "580.159", '
            '"processes": %d, %s"torch": "2.11.0+cu130", "triton": "3.6.0", "uuid": "GPU-1"}'
        )
        clock = '"sm_clock_mhz": 1980, '
        processes = "40.713, 40.795, 40.877, 40.959, 41.041, 41.123, 41.205, 41.287"
        assert (
            text
            == f"""\
{{
  "device": {{
    "memory_bytes": 150754820096,
    "name": "NVIDIA H200",
    "power_limit_w": 700.0,
    "sm_count": 132
  }},
  "entries": {{
    "{OTHER}": {{
      "counts": {{
        "2.11": {{
          "kernels": 5,
          "ops": 29
        }}
      }},
      "input": "bf16[64,32]",
      "method": "profiler",
      "metric": "counts",
      "recordings": [
        {recording % (2, "")}
      ],
      "source": "measured"
    }},
    "{TEST}": {{
      "first_median": 41.0,
      "input": "bf16[64,32]",
      "kernels": [
        {{"count": 1, "median_us": 38.9, "name": "gemm"}},
        {{"count": 1, "median_us": 2.0, "name": "add"}}
      ],
      "l2": "hot",
      "median": 41.0,
      "method": "graph",
      "metric": "device_us",
      "processes": [{processes}],
      "recordings": [
        {recording % (8, clock)}
      ],
      "source": "measured",
      "spread": 0.0049
    }}
  }},
  "schema": 1
}}
"""
        )

    def test_written_twice_is_the_same_text(self, store):
        take(store, proposal(samples(*around(41.0))))
        path = store.file_for("nvidia-h200", TEST)
        content = path.read_bytes()
        assert encode(parse(content, "x")) == content

    def test_of_another_gpu_in_this_folder_is_an_error(self, store):
        path = store.folder / "nvidia-h200" / "test_timings.json"
        path.parent.mkdir(parents=True)
        path.write_bytes(encode(File(device=DeviceRecord(name=A100.name), entries={})))
        with pytest.raises(BaselineError, match="belong in the folder nvidia-a100-sxm4-80gb, not"):
            lookup(store)

    def test_of_another_test_module_is_an_error(self, store):
        entry = propose(None, measurement(samples(1.0)))
        path = store.folder / "nvidia-h200" / "test_other.json"
        store.write(path, File(device=DeviceRecord(name=H200.name), entries={TEST: entry}))
        with pytest.raises(BaselineError, match=r"belongs in test_timings\.json"):
            store.entries("nvidia-h200")

    def test_copied_from_a_proposal_by_hand_is_an_error(self, store, tmp_path):
        store.write_proposed(store.folder, [proposal(samples(*around(41.0)))])
        with pytest.raises(BaselineError, match=r"is a proposal, .* kernelpin baselines accept"):
            lookup(store)

    def test_of_the_fold_map_is_none_of_the_baselines(self, store):
        folder = store.folder / "nvidia-h200"
        folder.mkdir(parents=True)
        (folder / "fold_map.json").write_text("[1]")
        (folder / ".test_x.json.1.tmp").write_text("{")
        assert store.gpus() == ()
        assert store.files("nvidia-h200") == ()


class TestAcceptance:
    def test_of_a_new_entry_needs_no_reason(self, store):
        done = take(store, proposal(samples(*around(41.2)), verdict="NO_BASELINE"))
        assert [change.old for change in done.changes] == [None]
        assert done.written == (store.file_for("nvidia-h200", TEST),)
        assert lookup(store).entry.pending is None

    def test_writes_nothing_where_a_slower_one_has_no_reason(self, store):
        take(store, proposal(samples(*around(40.0))))
        done = take(
            store,
            proposal(samples(*around(47.9))),
            proposal(samples(*around(7.0)), test_id=OTHER),
        )
        assert [change.test_id for change in done.asks_reason] == [TEST]
        assert done.written == ()
        assert lookup(store).entry.median == 40.0
        assert isinstance(lookup(store, test_id=OTHER), Missing)

    def test_of_a_slower_one_keeps_the_reason(self, store):
        take(store, proposal(samples(*around(40.0))))
        done = take(store, proposal(samples(*around(47.9))), reason="needs fp32 accumulation")
        assert done.changes[0].ratio == pytest.approx(47.9 / 40)
        assert done.changes[0].drift == pytest.approx(47.9 / 40)
        entry = lookup(store).entry
        assert [r.reason for r in entry.recordings] == ["needs fp32 accumulation"]
        assert (entry.median, entry.first_median) == (47.9, 40.0)

    def test_of_a_faster_one_needs_and_keeps_no_reason(self, store):
        take(store, proposal(samples(*around(40.0))))
        take(store, proposal(samples(*around(30.0)), verdict="FASTER"), reason="for another")
        entry = lookup(store).entry
        assert (entry.median, entry.recordings[0].reason) == (30.0, None)

    def test_of_small_steps_asks_for_a_reason_once_they_add_up(self, store):
        take(store, proposal(samples(*around(40.0))))
        for median in (40.3, 40.6, 40.9, 41.2, 41.5, 41.8):
            assert take(store, proposal(samples(*around(median)))).asks_reason == ()
        done = take(store, proposal(samples(*around(42.1))))
        assert done.asks_reason[0].ratio < 1.01
        assert done.asks_reason[0].drift == pytest.approx(1.0525)

    def test_of_more_kernels_needs_a_reason(self, store):
        take(store, proposal(counted(kernels=5, syncs=0)))
        done = take(store, proposal(counted(kernels=5, syncs=1)))
        assert done.asks_reason[0].grown == {"syncs": (0, 1)}
        fewer = take(store, proposal(counted(kernels=4, syncs=0)))
        assert fewer.written

    def test_of_a_measured_figure_above_a_published_one_needs_no_reason(self, store):
        path = store.file_for(A100.slug, TEST)
        store.write(path, File(device=DeviceRecord(name=A100.name), entries={TEST: PUBLISHED}))
        done = take(store, proposal(samples(*around(200.0), metric="kernel_us"), gpu=A100))
        assert done.written
        assert done.changes[0].ratio == pytest.approx(200 / 190)
        assert store.read(path).device.memory_bytes == A100.memory_bytes

    def test_of_unclear_figures_is_refused_with_why(self, store):
        done = take(
            store,
            proposal(samples(*around(41.2)), verdict="UNCLEAR", reason="thermal slowdown"),
            proposal(samples(*around(7.0)), test_id=OTHER),
        )
        assert [(r.test_id, r.why) for r in done.refusals] == [
            (TEST, "UNCLEAR figures are no baseline: thermal slowdown; measure again")
        ]
        assert list(store.entries("nvidia-h200")) == [OTHER]

    def test_of_fewer_than_eight_processes_is_refused_with_the_command(self, store):
        (refusal,) = take(store, proposal(samples(*around(41.2, 7)))).refusals
        assert refusal.why == (
            "recorded from 7 processes, a baseline needs 8: kernelpin record -n 8 -- "
            "'perf_tests/test_timings.py::test_time[mlp]'"
        )
        assert store.gpus() == ()

    def test_counts_the_processes_that_were_there_when_some_are_added(self, store):
        take(store, proposal(samples(*around(41.2))))
        done = take(store, proposal(samples(41.2, 41.3), mode="add", date="2026-12-01"))
        assert done.refusals == ()
        assert len(lookup(store).entry.processes) == 10

    def test_of_counts_takes_two_processes(self, store):
        assert take(store, proposal(counted(kernels=5))).refusals == ()

    def test_of_a_figure_that_beats_the_gpu_is_refused(self, store):
        work = Work(dtype="bf16", flops=2 * 4096**3)
        (refusal,) = take(store, proposal(samples(*around(41.2)), work=work)).refusals
        assert refusal.why.startswith("41.2 µs is faster than NVIDIA H200 can be: 137.4 GFLOP")

    def test_of_a_card_with_other_memory_is_refused(self, store):
        take(store, proposal(samples(*around(41.2))))
        small = replace(H200, memory_bytes=100 * 10**9)
        (refusal,) = take(store, proposal(samples(*around(41.2)), gpu=small)).refusals
        assert "is of another device: memory 100.0 GB, was 150.8 GB; delete that" in refusal.why

    def test_twice_changes_nothing_the_second_time(self, store):
        take(store, proposal(samples(*around(40.0))))
        proposed = store.proposed([proposal(samples(*around(47.9)), date="2026-12-01")]).values()
        accept(store, proposed, reason="why")
        before = store.file_for("nvidia-h200", TEST).read_bytes()
        again = accept(store, proposed)
        assert (again.changes, again.refusals, again.unchanged) == ((), (), (TEST,))
        assert store.file_for("nvidia-h200", TEST).read_bytes() == before

    def test_of_added_figures_twice_adds_them_once(self, store):
        take(store, proposal(samples(*around(40.0))))
        more = proposal(samples(*around(40.1)), mode="add", date="2026-12-01")
        proposed = store.proposed([more]).values()
        accept(store, proposed)
        assert accept(store, proposed).unchanged == (TEST,)
        assert len(lookup(store).entry.processes) == 16

    def test_of_a_proposal_that_another_overtook_is_refused(self, store):
        take(store, proposal(samples(*around(40.0))))
        ours = store.proposed([proposal(samples(*around(39.0)), date="2026-12-01")]).values()
        take(store, proposal(samples(*around(38.0)), date="2026-12-02"))
        (refusal,) = accept(store, ours).refusals
        assert refusal.why.startswith("the stored baseline has changed since this was proposed")
        assert lookup(store).entry.median == 38.0

    def test_of_additions_that_crossed_keeps_both(self, store):
        take(store, proposal(samples(*around(40.0))))
        crossing = [
            store.proposed([proposal(samples(*around(c)), mode="add", date=day)]).values()
            for c, day in ((40.1, "2026-12-01"), (40.2, "2026-12-02"))
        ]
        for proposed in crossing:
            accept(store, proposed)
        assert [r.date for r in lookup(store).entry.recordings] == [
            "2026-11-30", "2026-12-01", "2026-12-02",
        ]  # fmt: skip

    def test_of_counts_of_two_torch_versions_that_crossed_keeps_both(self, store):
        crossing = [
            store.proposed(
                [proposal(counted(kernels=n), gpu=replace(H200, torch=version))]
            ).values()
            for version, n in (("2.11.0", 5), ("2.13.0", 4))
        ]
        for proposed in crossing:
            assert accept(store, proposed).refusals == ()
        counts = store.entries("nvidia-h200")[TEST].counts
        assert counts == {"2.11": {"kernels": 5}, "2.13": {"kernels": 4}}

    def test_leaves_what_is_not_pending_as_it_is_stored_now(self, store):
        take(store, proposal(samples(*around(40.0))))
        ours = store.proposed([proposal(samples(*around(7.0)), test_id=OTHER)]).values()
        take(store, proposal(samples(*around(38.0)), date="2026-12-02"))
        accept(store, ours)
        assert lookup(store).entry.median == 38.0
        assert lookup(store, test_id=OTHER).entry.median == 7.0

    def test_of_one_that_contradicts_itself_does_not_stop_the_others(self, store):
        torn = counted(kernels=5)[:1] + counted(kernels=6)[:1]
        given = [proposal(torn), proposal(samples(*around(7.0)), test_id=OTHER)]
        with pytest.raises(BaselineError, match="kernels is 5 in one process and 6"):
            store.proposed(given)
        refused = {}
        accept(store, store.proposed(given, refused).values())
        assert list(refused) == [TEST]
        assert list(store.entries("nvidia-h200")) == [OTHER]

    def test_can_be_tried_without_writing(self, store):
        proposed = store.proposed([proposal(samples(*around(40.0)))]).values()
        done = accept(store, proposed, dry=True)
        assert len(done.changes) == 1
        assert done.written == ()
        assert store.gpus() == ()


class TestOrphans:
    @pytest.fixture
    def full(self, store):
        ids = (TEST, OTHER, "perf_tests/test_else.py::test_x")
        take(store, *(proposal(samples(*around(40.0)), test_id=test_id) for test_id in ids))
        return store

    def test_removed_leave_the_others_and_no_empty_file(self, full):
        gone = full.remove("nvidia-h200", [OTHER, "perf_tests/test_else.py::test_x", "never"])
        assert gone == ("perf_tests/test_else.py::test_x", OTHER)
        assert list(full.entries("nvidia-h200")) == [TEST]
        assert [path.name for path in full.files("nvidia-h200")] == ["test_timings.json"]


def test_the_a100_has_the_published_figures_and_no_others():
    root = Path(__file__).parents[2]
    entries = Store(root / "baselines").entries("nvidia-a100-sxm4-80gb")
    suite = (root / "perf_tests" / "test_kernel_times.py").read_text()
    published = {
        "geglu-mlp-gate": 190.0,
        "geglu-mlp-up": 190.0,
        "geglu-mlp-down": 170.0,
        "geglu-mlp-inductor-fused": 89.4,
        "geglu-mlp-liger": 92.8,
        "matmul-4096": 580.0,
        "copy-32mb": 33.0,
    }
    assert {test_id: entry.median for test_id, entry in entries.items()} == {
        f"perf_tests/test_kernel_times.py::test_kernel_time[{name}]": us
        for name, us in published.items()
    }
    for name, entry in zip(sorted(published), entries.values(), strict=True):
        assert f'"{name}"' in suite
        assert (entry.source, entry.metric, entry.band) == ("published", "kernel_us", 0.2)
        assert "Profiling in PyTorch, part" in entry.cite
        assert entry.note


def test_the_store_and_its_command_import_neither_torch_nor_numpy():
    code = (
        "import sys, kernelpin.baselines_cli, kernelpin.baselines, kernelpin.limits\n"
        "print([m for m in ('torch', 'numpy', 'scipy', 'pynvml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
