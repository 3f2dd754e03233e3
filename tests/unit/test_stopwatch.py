"""How samples are taken, on a bench without a GPU: calibration, warm-up, blocks."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kernelpin.machine import State
from kernelpin.stopwatch import MeasureError, Stopwatch
from kernelpin.stopwatch.sampling import (
    MAX_CALLS,
    Plan,
    Reading,
    block_sizes,
    calibrate,
    calls_for,
    is_steady,
    measure,
    take,
)

GOOD = State(sm_clock_mhz=1980)
HOT = State(sm_clock_mhz=1200, thermal=True)


class FakePlay:
    def __init__(self, bench, calls, moved=False):
        self.bench, self.calls, self.moved, self.closed = bench, calls, moved, False
        self.sampled = 0
        bench.plays.append(self)

    def sample(self):
        assert not self.closed
        assert not self.bench.working, "a sample begins on an idle GPU"
        self.sampled += 1
        ms = self.bench.next_call_ms() * self.calls + self.bench.launch_ms
        self.bench.clock += ms / 1000
        return Reading(ms, ms)

    def start(self):
        self.bench.working = True

    def finish(self):
        self.bench.working = False

    def close(self):
        self.closed = True


class FakeBench:
    """A bench whose clock moves by what runs on it; `states` are observed in turn, then GOOD."""

    method, note, most_calls, moves = "graph", None, MAX_CALLS, True

    def __init__(self, call_ms=0.01, states=(), launch_ms=0.0, call_times=()):
        self.call_ms, self.launch_ms = call_ms, launch_ms
        self.states, self.call_times = list(states), list(call_times)
        self.clock, self.working, self.plays, self.pauses = 0.0, False, [], []

    def next_call_ms(self):
        return self.call_times.pop(0) if self.call_times else self.call_ms

    def work(self, call, *, cold):
        return self

    def play(self, calls, *, moved=False):
        return FakePlay(self, calls, moved and self.moves)

    def observe(self):
        assert self.working, "the state of an idle GPU shows neither clock nor throttling"
        return self.states.pop(0) if self.states else GOOD

    def pause(self, seconds):
        self.pauses.append(seconds)
        self.clock += seconds

    def now(self):
        return self.clock


# -- calibration ----------------------------------------------------------------------------------


@given(
    call_ms=st.floats(0.0009, 50.0),
    launch_ms=st.floats(0.0, 0.02),
    noise=st.floats(0.0, 0.02),
    seed=st.integers(0, 2**32),
    min_ms=st.floats(0.5, 10.0),
)
def test_a_sample_is_long_enough_and_not_much_longer(call_ms, launch_ms, noise, seed, min_ms):
    rng = random.Random(seed)
    bench = FakeBench(launch_ms=launch_ms)
    bench.next_call_ms = lambda: call_ms * (1 + noise * rng.uniform(-1, 1))
    play = calibrate(bench.play, min_ms)
    lasts = play.calls * call_ms + launch_ms
    assert lasts >= min_ms * (1 - 2 * noise)
    assert play.calls == 1 or lasts <= min_ms * 1.05 * (1 + 4 * noise) + 2 * call_ms
    assert len(bench.plays) <= 8
    assert [p.closed for p in bench.plays] == [True] * (len(bench.plays) - 1) + [False]


@given(st.integers(1, 10_000), st.floats(0.0, 2.49))
@example(40, 0.04)
def test_too_short_a_sample_always_gets_more_calls(calls, lasted_ms):
    """At most 64 times as many, and the surplus of 5 %."""
    assert calls < calls_for(calls, lasted_ms, 2.5) <= 64 * 1.05 * calls + 1


@given(st.integers(1, 10_000), st.floats(2.5, 1e6))
def test_a_long_enough_sample_keeps_its_calls(calls, lasted_ms):
    assert calls_for(calls, lasted_ms, 2.5) == calls


def test_work_that_takes_no_time_is_an_error():
    with pytest.raises(MeasureError, match="hardly launches anything") as caught:
        calibrate(FakeBench(call_ms=1e-6).play, 2.5)
    assert "a sample needs 2.5 ms" in str(caught.value)


@given(st.integers(1, 300), st.floats(0.0009, 50.0))
def test_a_sample_has_no_more_calls_than_can_be_queued(most, call_ms):
    bench = FakeBench(call_ms=call_ms)
    bench.most_calls = most
    taken = measure(bench, bench, Plan())
    assert max(play.calls for play in bench.plays) <= most
    assert taken.calls == most or taken.calls * call_ms >= 2.5
    assert len(bench.plays) <= 8 + 8


def test_a_sample_of_all_calls_that_can_be_queued_is_not_looked_for_again():
    bench = FakeBench(call_ms=0.01)
    bench.most_calls = 4
    measure(bench, bench, Plan())
    assert [play.calls for play in bench.plays] == [1, 4, *[4] * 8]


def test_a_slow_clock_at_calibration_is_noticed_once_warm():
    bench = FakeBench(call_ms=0.01, call_times=[0.03] * 9)
    taken = measure(bench, bench, Plan())
    assert taken.calls * 0.01 >= 2.5
    assert all(play.closed for play in bench.plays)


# -- warm-up --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "steady"),
    [
        ([1.0] * 9, False),
        ([1.0] * 10, True),
        ([2.0] * 5 + [1.0] * 5, False),
        ([2.0] * 5 + [1.0] * 10, True),
        ([1.0] * 5 + [1.0] * 2 + [9.0] + [1.0] * 2, True),
        ([1.004] * 5 + [1.0] * 5, True),
        ([1.008] * 5 + [1.0] * 5, False),
    ],
)
def test_warm_means_ten_samples_of_which_the_last_five_are_like_those_before(seen, steady):
    assert is_steady(seen) is steady


def test_the_samples_begin_after_the_warm_up_has_settled():
    drift = [0.02 * 0.97**i for i in range(40)]
    bench = FakeBench(call_ms=drift[-1], call_times=[0.02] * 9 + drift)
    taken = measure(bench, bench, Plan())
    assert {round(r.counted_ms / taken.calls, 6) for r in taken.readings} == {round(drift[-1], 6)}
    assert taken.note is None


def test_work_that_never_settles_is_measured_and_says_so():
    bench = FakeBench()
    times = iter(range(10**6))
    bench.next_call_ms = lambda: 0.01 * 1.003 ** next(times)
    taken = measure(bench, bench, Plan(samples=8))
    assert taken.note == "the warm-up did not become steady"
    assert len(taken.readings) == 8


# -- samples and blocks ---------------------------------------------------------------------------


def test_every_sample_follows_a_pause():
    bench = FakeBench()
    taken = measure(bench, bench, Plan(samples=40, pause_ms=5.0))
    assert len(taken.readings) == 40
    assert set(bench.pauses) == {0.005}
    assert len(bench.pauses) >= 40 + 10


@given(st.integers(5, 500))
def test_blocks_hold_all_samples_and_are_as_equal_as_can_be(samples):
    sizes = block_sizes(samples)
    assert sum(sizes) == samples
    assert len(sizes) == max(1, min(8, samples // 3))
    assert min(sizes) >= 3
    assert max(sizes) - min(sizes) <= 1


def test_the_state_is_read_before_and_after_each_block_while_the_gpu_works():
    bench = FakeBench()
    taken = measure(bench, bench, Plan())
    assert taken.states == (GOOD,) * 16
    assert taken.reason is None


def test_each_block_replays_a_graph_of_its_own_that_was_replayed_before():
    """So that the figure is one of several places in memory; the first replay uploads a graph."""
    bench = FakeBench(call_ms=0.02)
    taken = measure(bench, bench, Plan())
    *_, warmed = (play for play in bench.plays[:-8] if play.calls == taken.calls)
    assert {play.calls for play in bench.plays[-8:]} == {warmed.calls}
    assert [play.sampled for play in bench.plays[-8:]] == [2 + 5] * 8
    assert len(taken.readings) == 8 * 5
    assert all(play.closed for play in bench.plays)


@pytest.mark.parametrize(("apart", "blocks"), [(0.003, 8), (0.03, 24)])
def test_where_the_place_in_memory_shows_more_places_are_tried(apart, blocks):
    """One place in four is slower: the more of them, the less it matters which were drawn."""
    bench = FakeBench()
    build = bench.play

    def play(calls, *, moved=False):
        bench.call_ms = 0.01 * (1 + apart * (len(bench.plays) % 4 == 0))
        return build(calls, moved=moved)

    bench.play = play
    taken = measure(bench, bench, Plan())
    assert taken.places == (5,) * blocks
    assert len(taken.readings) == blocks * 5
    assert len(taken.states) == blocks * 2
    assert taken.reason is None


def test_samples_that_scatter_are_no_reason_for_more_places():
    tried = []
    for seed in range(100):
        rng = random.Random(seed)
        bench = FakeBench()
        bench.next_call_ms = lambda rng=rng: 0.01 * rng.gauss(1, 0.01)
        tried.append(len(measure(bench, bench, Plan()).places))
    assert tried.count(24) <= 3


def test_what_cannot_move_is_all_at_one_place():
    bench = FakeBench()
    bench.moves = False
    bench.next_call_ms = lambda: 0.01 * (1 + 0.03 * (len(bench.plays) % 4 == 0))
    taken = measure(bench, bench, Plan())
    assert taken.places == ()
    assert len(taken.readings) == 40


@pytest.mark.parametrize(("moved", "places"), [(3, (5, 5, 5, 25)), (8, (5,) * 8), (12, (5,) * 12)])
def test_where_room_runs_out_the_places_before_count_and_the_rest_is_one(moved, places):
    bench = FakeBench()
    build = bench.play
    drawn = []

    def play(calls, *, moved=False):
        if moved:
            drawn.append(calls)
            bench.moves = len(drawn) <= most
            bench.call_ms = 0.01 * (1 + 0.03 * (len(drawn) % 2))
        return build(calls, moved=moved)

    most = moved
    bench.play = play
    taken = measure(bench, bench, Plan())
    assert taken.places == places
    assert len(taken.readings) == sum(places)


def test_a_sample_that_fails_while_the_calls_are_counted_gives_back_what_it_held():
    bench = FakeBench()
    bench.next_call_ms = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        measure(bench, bench, Plan())
    assert [play.closed for play in bench.plays] == [True]


def test_throttling_once_all_samples_are_taken_spoils_none_of_them():
    """Of the further places those that throttle are left out."""
    bench = FakeBench()
    build = bench.play
    built = []

    def play(calls, *, moved=False):
        built.append(calls)
        bench.call_ms = 0.01 * (1 + 0.03 * (len(built) % 4 == 0))
        return build(calls, moved=moved)

    bench.play = play
    bench.observe = lambda: GOOD if len(built) < 15 else HOT
    taken = measure(bench, bench, Plan(budget_s=5.0))
    assert taken.reason is None
    assert set(taken.states) == {GOOD}
    assert 8 <= len(taken.places) < 24
    assert len(taken.readings) == 5 * len(taken.places)


@given(st.floats(0.5, 40_000.0), st.sampled_from([1.0, 5.0, 30.0]))
@example(3000.0, 30.0)
@example(65.0, 1.0)
@example(35.0, 1.0)  # the budget ends while the third block warms up
def test_a_slow_callable_has_fewer_samples_and_says_so(call_ms, budget_s):
    bench = FakeBench(call_ms=call_ms)
    taken = measure(bench, bench, Plan(budget_s=budget_s))
    assert 5 <= len(taken.readings) <= 40
    assert sum(taken.places) == len(taken.readings)
    assert min(taken.places) >= 1
    assert (taken.reason is None) == (len(taken.readings) == 40)
    assert all(play.closed for play in bench.plays)


def test_half_a_minute_holds_all_samples_of_long_calls():
    bench = FakeBench(call_ms=430.0)
    assert measure(bench, bench, Plan(budget_s=30.0)).places == (10,) * 4


def test_no_graph_is_built_when_the_budget_is_spent():
    bench = FakeBench(call_ms=3000.0)
    taken = measure(bench, bench, Plan(budget_s=5.0))
    assert taken.places == (5,)  # and none of the three other blocks was begun
    assert bench.plays[-1].sampled == 2 + 5


def test_a_throttled_block_is_taken_again():
    bench = FakeBench(states=[GOOD, HOT, GOOD, GOOD])
    taken = measure(bench, bench, Plan())
    assert taken.reason is None
    assert taken.states == (GOOD,) * 16
    assert len(taken.readings) == 40


def test_throttling_that_lasts_is_the_reason_and_the_samples_stay():
    bench = FakeBench()
    bench.observe = lambda: HOT
    taken = measure(bench, bench, Plan(budget_s=2.0))
    assert taken.reason == "thermal slowdown (SM 1200 MHz)"
    assert len(taken.readings) == block_sizes(40)[0]
    assert bench.clock < 4.0


def test_what_disqualified_one_block_is_the_reason_whatever_the_others():
    bench = FakeBench(states=[HOT, HOT])
    blocks, reason = take(bench, 250, 2.5, bench, Plan(), deadline=0.0)
    assert reason == "thermal slowdown (SM 1200 MHz)"
    assert [len(block.readings) for block in blocks] == [5]
    assert blocks[0].states == (HOT, HOT)


def test_samples_and_states_are_of_the_same_block():
    bench = FakeBench(call_times=[0.01] * 60 + [0.02] * 10)
    bench.observe = lambda: HOT if bench.call_times else GOOD
    taken = measure(bench, bench, Plan(samples=8))
    assert taken.reason is None
    assert {round(reading.counted_ms / taken.calls, 9) for reading in taken.readings} == {0.01}


def test_a_stranger_is_waited_for():
    stranger = State(strangers=(4711,))
    bench = FakeBench(states=[stranger] * 6)
    taken = measure(bench, bench, Plan())
    assert taken.reason is None
    assert stranger not in taken.states


def test_a_power_cap_is_recorded_and_no_reason():
    capped = State(sm_clock_mhz=1500, power_cap=True)
    bench = FakeBench()
    bench.observe = lambda: capped
    samples = Stopwatch(bench=bench)(lambda: None)
    assert samples.reason is None
    assert samples.power_capped
    assert samples.sm_clock_mhz == 1500


def test_a_budget_that_ends_early_gives_fewer_samples_and_the_reason():
    bench = FakeBench(call_ms=200.0)
    taken = measure(bench, bench, Plan(budget_s=5.0))
    assert 5 <= len(taken.readings) < 40
    assert taken.reason == f"{len(taken.readings)} of 40 samples within the budget of 5 s"
    assert bench.clock < 9.0


def test_an_error_in_the_middle_still_gives_the_graph_back():
    bench = FakeBench()

    def fails():
        raise RuntimeError("out of memory")

    bench.observe = fails
    with pytest.raises(RuntimeError, match="out of memory"):
        measure(bench, bench, Plan())
    assert all(play.closed for play in bench.plays)


@pytest.mark.parametrize(
    "options", [{"min_sample_ms": 0.0}, {"budget_s": 0.0}, {"pause_ms": -1.0}, {"samples": 4}]
)
def test_a_plan_that_measures_nothing_is_refused(options):
    with pytest.raises(ValueError, match=r"samples a process|longer than nothing"):
        Stopwatch(**options)


def test_the_stopwatch_gives_us_per_call_and_tells_the_places_apart():
    samples = Stopwatch(bench=FakeBench(call_ms=0.25))(lambda: None)
    assert samples.places == (5,) * 8
    assert samples.figure == pytest.approx(250.0)
    assert samples.calls_per_sample == 11  # 2.5 ms and a small surplus


def test_a_call_lost_in_the_flush_of_the_cache_is_an_error(monkeypatch):
    monkeypatch.setattr(FakePlay, "sample", lambda play: Reading(-0.01, 3.0))
    with pytest.raises(MeasureError, match="beside the flush of the L2 cache"):
        Stopwatch(bench=FakeBench())(lambda: None, l2="cold")
