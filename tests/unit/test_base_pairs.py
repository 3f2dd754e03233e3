"""Pairs of base and head: in which order, how many, which count, and when there is no base."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from kernelpin.base import Pairs, measure_pairs, new_in_head
from kernelpin.machine import State
from kernelpin.stopwatch import Samples
from kernelpin.verdict import LOOKS, Outcome, Verdict, judge_pairs
from kernelpin.workers import WorkerResult
from kernelpin.workers.result import NO_SUCH_TEST, NOT_COLLECTED

QUIET = (1.0, 1.002, 0.999, 1.001)
NOISY = (1.0, 1.05, 0.97, 1.02)
A, B = "perf/test_a.py::test_a", "perf/test_b.py::test_b"


def result(nodeid, figure, clock=1980, reason=None, **samples):
    made = Samples(
        metric="device_us",
        values=(figure,) * 3,
        method="graph",
        state=(State(sm_clock_mhz=clock),) * 2,
        reason=reason,
    )
    return WorkerResult(nodeid, samples=replace(made, **samples))


class Card:
    """Measures what it is told; `took` is what each process takes of the clock."""

    def __init__(self, figures, took=10.0):
        self.turns = {key: itertools.cycle(values) for key, values in figures.items()}
        self.asked = []
        self.now, self.took = 0.0, took

    def measure(self, side, nodeids):
        self.asked.append((side, tuple(nodeids)))
        self.now += self.took
        found = {}
        for nodeid in nodeids:
            value = next(self.turns[side, nodeid], None)
            if value is not None:
                value = value if isinstance(value, WorkerResult) else result(nodeid, value)
                found[nodeid] = value
        return found

    def pairs(self, *nodeids, budget=10_000.0):
        return measure_pairs(
            nodeids,
            self.measure,
            lambda nodeid, base, head, final: judge_pairs(base, head, final=final),
            lambda: budget - self.now,
            clock=lambda: self.now,
        )

    @property
    def sides(self):
        return [side for side, _ in self.asked]


def card(base=QUIET, head=QUIET, nodeid=A, scale=100.0, **options):
    def scaled(values):
        return [v * scale if isinstance(v, float) else v for v in values]

    return Card({("base", nodeid): scaled(base), ("head", nodeid): scaled(head)}, **options)


def test_the_sides_take_turns_and_so_does_who_goes_first():
    measured = card(NOISY, NOISY[1:] + NOISY[:1])
    measured.pairs(A)

    assert measured.sides[:8] == ["base", "head", "head", "base"] * 2


def test_each_figure_stands_beside_its_own_pairs():
    turns = card([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0])

    assert turns.pairs(A)[A].figures == tuple((100.0 * n, 100.0 * n) for n in (1, 2, 3, 4))


def test_four_quiet_pairs_are_enough():
    pairs = card().pairs(A)[A]

    assert (pairs.verdict.outcome, len(pairs.base), pairs.seconds) == (Outcome.SAME, 4, 80.0)


def test_it_ends_as_soon_as_the_interval_decides():
    pairs = card(QUIET, [value * 1.05 for value in QUIET]).pairs(A)[A]

    assert (pairs.verdict.outcome, len(pairs.base)) == (Outcome.SLOWER, 6)


def test_what_does_not_decide_ends_after_twelve_pairs():
    pairs = card(NOISY, [1.06, 0.97, 1.04, 0.99]).pairs(A)[A]

    assert (pairs.verdict.outcome, len(pairs.base)) == (Outcome.UNCLEAR, LOOKS[-1])
    assert pairs.verdict.decided


def test_twelve_pairs_are_the_end_even_for_a_judge_that_never_decides():
    measured, undecided = card(), Verdict(Outcome.UNCLEAR, "hm", decided=False)
    pairs = measure_pairs([A], measured.measure, lambda *_: undecided, lambda: 1e9)

    assert len(pairs[A].base) == LOOKS[-1]


def test_a_base_that_fails_later_on_is_no_base():
    failed = WorkerResult(A, "failed", "out of memory")
    pairs = card([*NOISY, failed], [1.06, 0.97, 1.04, 0.99, 1.0]).pairs(A)[A]

    assert (pairs.verdict, len(pairs.base)) == (None, 4)
    assert pairs.reason == "base does not measure it (failed): out of memory"


def test_a_test_that_is_decided_is_not_measured_on():
    both = Card(
        {
            ("base", A): [100.0],
            ("head", A): [100.0],
            ("base", B): [100.0 * value for value in NOISY],
            ("head", B): [100.0, 110.0, 99.0, 95.0],
        }
    )
    pairs = both.pairs(A, B)

    assert [nodeids for _, nodeids in both.asked].count((A, B)) == 8
    assert {nodeids for _, nodeids in both.asked[8:]} == {(B,)}
    assert len(pairs[A].base) < len(pairs[B].base)


def test_a_pair_whose_clocks_differ_is_repeated():
    slow_clock = result(A, 103.0, clock=1930)
    pairs = card(head=[slow_clock, 1.0, 1.001, 1.002, 0.999]).pairs(A)[A]

    assert (len(pairs.base), pairs.repeated) == (4, 1)
    assert slow_clock not in pairs.head
    assert pairs.verdict.outcome is Outcome.SAME


def test_a_clock_within_two_percent_counts():
    pairs = card(head=[result(A, 100.0, clock=1945)]).pairs(A)[A]

    assert pairs.repeated == 0


def test_a_disturbed_process_repeats_its_pair():
    disturbed = result(A, 130.0, reason="another process on the GPU (pid 7)")
    pairs = card(base=[disturbed, 1.0, 1.001, 1.0, 1.0]).pairs(A)[A]

    assert (len(pairs.base), pairs.repeated) == (4, 1)


def test_a_card_that_never_settles_is_unclear_and_says_why():
    measured = card(head=[result(A, 104.0, clock=1800)])
    pairs = measured.pairs(A)[A]

    assert pairs.verdict.outcome is Outcome.UNCLEAR
    assert "0 of 4 pairs were measured; 8 pairs were repeated (clocks differ: 1980 and 1800" in (
        pairs.verdict.reason
    )


def test_no_round_is_begun_that_the_budget_does_not_hold():
    measured = card(NOISY, [1.06, 0.97, 1.04, 0.99])
    pairs = measured.pairs(A, budget=130.0)[A]  # six rounds of 20 s, and a half

    assert len(pairs.base) == 6
    assert measured.now == 120.0
    assert (pairs.verdict.outcome, pairs.verdict.decided) == (Outcome.UNCLEAR, True)


def test_a_budget_for_fewer_than_four_pairs_says_so():
    verdict = card().pairs(A, budget=70.0)[A].verdict

    assert (verdict.outcome, verdict.reason) == (Outcome.UNCLEAR, "3 of 4 pairs were measured")


def test_a_budget_that_ends_in_the_middle_of_a_pair_leaves_the_pair_out():
    pairs = card(head=[1.0, None]).pairs(A)[A]

    assert len(pairs.base) == len(pairs.head) == 1


def test_without_any_budget_nothing_is_measured():
    measured = card()

    assert measured.pairs(A, budget=0.0)[A].verdict.outcome is Outcome.UNCLEAR
    assert measured.asked == []


MISSING = WorkerResult(A, "failed", NOT_COLLECTED, f"{NOT_COLLECTED}\n{NO_SUCH_TEST}")
UNBUILT = WorkerResult(A, "failed", NOT_COLLECTED, f"{NOT_COLLECTED}\nE   no module 'ext'")
FAILED = WorkerResult(A, "failed", "AssertionError: no\nmore", "traceback")
SKIPPED = WorkerResult(A, "skipped", "no liger")


@pytest.mark.parametrize(
    ("base", "head", "reason"),
    [
        (MISSING, 1.0, "new in head: base has no such test"),
        (UNBUILT, 1.0, "base does not measure it (failed): no module 'ext'"),
        (FAILED, 1.0, "base does not measure it (failed): AssertionError: no"),
        (SKIPPED, 1.0, "base does not measure it (skipped): no liger"),
        (1.0, FAILED, "head does not measure it (failed): AssertionError: no"),
        (WorkerResult(A), 1.0, "base measures nothing that can be compared in pairs"),
        (
            result(A, 100.0, metric="counts", values=()),
            1.0,
            "base measures nothing that can be compared in pairs",
        ),
        (
            result(A, 100.0, input="bf16[8]"),
            result(A, 100.0, input="bf16[16]"),
            "base measures another input: bf16[8], head bf16[16]",
        ),
        (
            result(A, 100.0, method="events"),
            1.0,
            "base measures another method: events, head graph",
        ),
    ],
)
def test_without_a_base_to_compare_with_there_is_a_reason_and_no_verdict(base, head, reason):
    measured = card([base], [head])
    pairs = measured.pairs(A)[A]

    assert (pairs.verdict, pairs.reason) == (None, reason)
    assert len(measured.asked) == 2  # not asked again


def test_one_test_without_a_base_does_not_hold_up_the_others():
    both = Card({("base", A): [MISSING], ("head", A): [1.0]} | card(nodeid=B).turns)
    pairs = both.pairs(A, B)

    assert pairs[A].reason is not None
    assert pairs[B].verdict.outcome is Outcome.SAME


def test_a_test_whose_file_base_does_not_have_is_new(tmp_path):
    (tmp_path / "perf").mkdir()
    (tmp_path / "perf" / "test_a.py").touch()

    assert new_in_head(tmp_path, [A, B]) == {
        B: Pairs((), (), 0, None, "new in head: base has no such test", 0.0)
    }
