"""Verdicts: what they are on any figures, and what each means for the test and the session."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks import detection, sessions
from kernelpin.verdict import (
    LOOKS,
    MIN_CONFIRM,
    PAIRED,
    STORED,
    STORED_SAME_CARD,
    Outcome,
    Rule,
    Verdict,
    fails,
    is_suspect,
    judge,
    judge_counts,
    judge_pairs,
    judge_reference,
    needs_more,
    too_many_unclear,
)
from kernelpin.verdict.evidence import paired, unpaired

QUIET = [100.0, 100.3, 99.8, 100.1, 99.9, 100.2, 100.0, 99.7]  # SD 0.2 %, as measured on an H200
RANK = {Outcome.FASTER: 0, Outcome.SAME: 1, Outcome.UNCLEAR: 2, Outcome.SLOWER: 3}

figure = st.floats(1.0, 1e4)
rules = st.sampled_from([STORED, STORED_SAME_CARD, PAIRED, Rule(0.2, 0.3, "wide")])


def figures(least: int, most: int = 12):
    """Process figures around one value, spread by anything from nothing to a factor of two."""
    return st.builds(
        lambda centre, spread, units: [centre * math.exp(spread * unit) for unit in units],
        figure,
        st.sampled_from([0.0, 0.001, 0.005, 0.02, 0.1, 0.7]),
        st.lists(st.floats(-1, 1), min_size=least, max_size=most),
    )


def times(factor, values):
    return [value * factor for value in values]


# -- on any figures ----------------------------------------------------------------------------


@given(figures(2), figures(2), rules, st.sampled_from([2.0**-9, 0.25, 2.0, 1024.0]))
def test_the_unit_of_the_figures_does_not_matter(baseline, now, rule, scale):
    plain = judge(baseline, now, rule, min_difference=0)
    scaled = judge(times(scale, baseline), times(scale, now), rule, min_difference=0)

    assert (scaled.outcome, scaled.ratio, scaled.low, scaled.high) == (
        plain.outcome,
        plain.ratio,
        plain.low,
        plain.high,
    )


@given(figures(2), figures(2), rules, st.floats(1.0, 3.0))
def test_slower_figures_are_judged_no_better(baseline, now, rule, slowdown):
    before = judge(baseline, now, rule, min_difference=0)
    after = judge(baseline, times(slowdown, now), rule, min_difference=0)

    # Rounding alone may move an interval that ends at a bound to the bit.
    ends = [end for end in (before.low, before.high) if end is not None]
    bounds = (1 + rule.limit, 1 + rule.catch, 1 - rule.limit)
    assume(all(abs(end / bound - 1) > 1e-9 for end in ends for bound in bounds))
    assert RANK[after.outcome] >= RANK[before.outcome]


@given(figures(2), rules)
def test_identical_figures_are_never_slower(values, rule):
    assert judge(values, values, rule).outcome in (Outcome.SAME, Outcome.UNCLEAR)
    assert judge_pairs(values, values, rule).outcome is Outcome.SAME


@given(
    figure,
    st.lists(st.floats(-1e-5, 1e-5), min_size=8, max_size=12),
    st.lists(st.floats(-1e-5, 1e-5), min_size=1, max_size=12),
    rules,
    st.floats(1.001, 3.0),
)
def test_tight_evidence_beyond_the_limit_is_never_same(centre, base, now, rule, beyond):
    baseline = [centre * math.exp(unit) for unit in base]
    slower = [centre * (1 + rule.limit) * beyond * math.exp(unit) for unit in now]
    verdict = judge(baseline, slower, rule, min_difference=0)

    assert verdict.outcome is (Outcome.SLOWER if len(now) >= MIN_CONFIRM else Outcome.UNCLEAR)


@given(figures(2), figures(2), rules, st.randoms(use_true_random=False))
def test_the_order_of_the_figures_does_not_matter(baseline, now, rule, shuffler):
    mixed = random.Random.sample(shuffler, baseline, len(baseline))
    turned = random.Random.sample(shuffler, now, len(now))

    assert judge(mixed, turned, rule) == judge(baseline, now, rule)


@given(st.lists(st.tuples(figure, figure), min_size=2, max_size=12), rules, st.randoms())
def test_the_order_of_the_pairs_does_not_matter(pairs, rule, shuffler):
    mixed = random.Random.sample(shuffler, pairs, len(pairs))

    assert judge_pairs(*zip(*mixed, strict=True), rule) == judge_pairs(
        *zip(*pairs, strict=True), rule
    )


@given(figures(MIN_CONFIRM), rules)
def test_pairs_against_a_constant_base_are_one_sided_evidence_of_the_same_rule(now, rule):
    """judge and judge_pairs differ in the log ratios they are given, and in nothing after."""
    base = [now[0]] * len(now)
    pairs, stored = judge_pairs(base, now, rule), judge(base, now, rule)

    assert pairs.ratio == pytest.approx(stored.ratio)
    assert pairs.low == pytest.approx(stored.low)
    assert pairs.high == pytest.approx(stored.high)


@given(figures(2), figures(MIN_CONFIRM), rules)
def test_an_outcome_never_contradicts_the_interval_it_prints(baseline, now, rule):
    verdict = judge(baseline, now, rule, min_difference=0)

    if verdict.outcome is Outcome.SLOWER:
        assert verdict.low >= (1 + rule.limit) * (1 - 1e-12)
        assert verdict.ratio - 1 >= verdict.detectable - 1e-9
    if verdict.outcome is Outcome.SAME:
        assert verdict.high <= (1 + rule.catch) * (1 + 1e-12)
    assert verdict.low <= verdict.ratio <= verdict.high


@given(figures(2), figures(1, 3), rules)
def test_fewer_than_four_processes_are_never_slower(baseline, now, rule):
    assume(len(now) > 1 or len(baseline) >= 8)

    assert judge(baseline, now, rule).outcome is not Outcome.SLOWER


@given(st.lists(st.tuples(figure, figure), min_size=2, max_size=3), rules)
def test_fewer_than_four_pairs_are_never_slower(pairs, rule):
    assert judge_pairs(*zip(*pairs, strict=True), rule).outcome is not Outcome.SLOWER


# -- what is no figure -------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, -3.0])
@pytest.mark.parametrize(
    ("where", "call"),
    [
        ("baseline", lambda spoilt: judge(spoilt, QUIET, STORED)),
        ("now", lambda spoilt: judge(QUIET, spoilt, STORED)),
        ("base", lambda spoilt: judge_pairs(spoilt, QUIET[:4])),
        ("head", lambda spoilt: judge_pairs(QUIET[:4], spoilt)),
        ("published", lambda spoilt: judge_reference(spoilt[0], 0.2, QUIET)),
    ],
)
def test_what_is_no_positive_number_is_refused_with_its_place(bad, where, call):
    with pytest.raises(ValueError, match=rf"{where}: figure 0 is {bad!r}, allowed is a positive"):
        call([bad, 100.0, 100.0, 100.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: judge([], QUIET, STORED), "baseline: no figure, allowed are 2 or more"),
        (lambda: judge([100.0], QUIET, STORED), "baseline: 1 figure, allowed are 2 or more"),
        (lambda: judge(QUIET, [], STORED), "now: no figure, allowed are 1 or more"),
        (lambda: judge_pairs([100.0], [100.0]), "base: 1 figure, allowed are 2 or more"),
        (lambda: judge_pairs(QUIET, QUIET[:5]), "found 8 of base and 5 of head"),
        (lambda: judge(QUIET[:5], [100.0], STORED), "needs 8 in the baseline .* found 5"),
        (lambda: is_suspect([100.0], 100.0, STORED), "baseline: 1 figure"),
        (lambda: is_suspect(QUIET[:5], math.nan, STORED), "now: figure 0 is nan"),
    ],
)
def test_too_few_figures_are_refused_with_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# -- one process screens -----------------------------------------------------------------------


def test_a_figure_like_the_baselines_is_no_suspect():
    assert not is_suspect(QUIET, 100.4, STORED)
    assert judge(QUIET, [100.4], STORED).outcome is Outcome.SAME


def test_a_figure_near_what_must_be_caught_is_a_suspect():
    assert is_suspect(QUIET, 107.5, STORED)


def test_much_slower_is_a_suspect_too_and_not_yet_slower():
    assert judge(QUIET, [200.0], STORED).outcome is Outcome.UNCLEAR
    assert is_suspect(QUIET, 200.0, STORED)


def test_a_faster_figure_needs_no_second_process():
    assert not is_suspect(QUIET, 80.0, STORED)


@pytest.mark.parametrize(("now", "outcome"), [(95.1, Outcome.SAME), (94.9, Outcome.FASTER)])
def test_faster_begins_at_the_limit_below(now, outcome):
    assert judge([100.0] * 8, [now], STORED).outcome is outcome


def test_with_a_short_baseline_everything_is_a_suspect():
    assert is_suspect(QUIET[:7], 100.0, STORED)


def test_a_verdict_tells_the_noise_and_each_sides_own_interval():
    verdict = judge(QUIET, QUIET[:4], STORED)
    logs = np.log(QUIET)
    half = 2.3646 * logs.std(ddof=1) / math.sqrt(8)  # Student's t for 7 degrees of freedom

    assert verdict.noise == pytest.approx(logs.std(ddof=1))
    assert np.log(verdict.baseline_interval) == pytest.approx(
        [logs.mean() - half, logs.mean() + half]
    )
    assert verdict.now_interval is not None
    assert judge(QUIET, [100.0], STORED).now_interval is None


# -- the looks ---------------------------------------------------------------------------------


def test_an_undecided_verdict_asks_for_the_processes_up_to_the_next_look():
    noisy = [100.0, 110.0, 95.0, 104.0, 92.0, 108.0]
    asked = [needs_more(judge(noisy, times(1.05, noisy[:n]), STORED)) for n in (2, 3, 4, 5, 6)]

    assert asked == [2, 1, 2, 1, 2]


def test_the_last_look_decides_whatever_it_sees():
    noisy = [100.0, 110.0, 95.0, 104.0] * 3
    verdict = judge(noisy, times(1.06, noisy), STORED)

    assert (verdict.outcome, verdict.decided, needs_more(verdict)) == (Outcome.UNCLEAR, True, 0)
    assert len(noisy) == LOOKS[-1]


def test_when_the_budget_is_over_unclear_is_final():
    noisy = [100.0, 110.0, 95.0, 104.0]

    assert not judge(noisy, times(1.06, noisy), STORED).decided
    assert judge(noisy, times(1.06, noisy), STORED, final=True).decided


def test_evidence_beyond_the_limit_that_chance_could_give_is_unclear_and_says_so():
    two_modes = [*QUIET, 100.1, 112.2, 99.9, 100.0]
    verdict = judge(two_modes, [112.1, 112.0, 112.2, 112.1], STORED)

    assert verdict.outcome is Outcome.UNCLEAR
    assert verdict.low > 1.05
    assert "too much to rule out that nothing changed" in verdict.reason


def test_pairs_know_the_noise_of_the_stored_baseline():
    base, head = [100.0, 100.6, 99.7, 100.2], [102.6, 103.0, 102.2, 102.9]
    stored = judge(QUIET, head, STORED)

    assert judge_pairs(base, head).outcome is Outcome.UNCLEAR
    assert judge_pairs(base, head, stored=stored).outcome is Outcome.SLOWER


def test_pairs_without_a_stored_baseline_are_six_before_they_are_slower():
    base, head = [100.0, 100.01, 99.99], [112.0, 112.0, 112.01]

    assert judge_pairs([*base, 100.0], [*head, 112.0]).outcome is Outcome.UNCLEAR
    assert judge_pairs(base * 2, head * 2).outcome is Outcome.SLOWER


def test_each_figure_is_compared_with_its_own_pair():
    """Sorted, these would be six times +2 %."""
    verdict = judge_pairs([100.0, 110.0] * 3, [112.0, 102.0] * 3)

    assert verdict.outcome is Outcome.UNCLEAR


def test_todays_noise_counts_where_the_baseline_was_quiet():
    verdict = judge(QUIET, [104.0, 116.0, 109.0, 103.0], STORED)

    assert verdict.outcome is Outcome.UNCLEAR


def test_figures_however_far_apart_give_a_verdict():
    assert judge_pairs([1e-9, 1e9], [1e9, 1e-9]).outcome is Outcome.UNCLEAR


def test_a_pairs_noise_is_that_of_two_processes():
    ratios = np.log([1.001, 0.999] * 3)
    of_one_process = np.asarray(ratios.std(ddof=1) / math.sqrt(2))

    few, many = paired(ratios, of_one_process, 3), paired(ratios, of_one_process, 10**6)
    assert many.sure == pytest.approx(ratios.std(ddof=1) / math.sqrt(6) * 4.753, rel=1e-3)
    assert few.sure > many.sure


def test_pairs_are_judged_no_worse_for_a_baseline_that_several_cards_spread():
    base, head = [100.0, 100.1] * 6, [105.0, 105.2] * 6
    stored = judge([90.0, 100.0, 110.0, 120.0] * 2, head, STORED)

    assert judge_pairs(base, head, stored=stored).outcome is Outcome.SLOWER


@pytest.mark.parametrize("evidence", ["stored", "pairs"])
def test_looking_again_and_again_keeps_the_rate_of_false_alarms(evidence):
    """A slowdown of exactly the limit is called in at most 2.5 % of cases at any of nine looks."""
    rng = np.random.default_rng(3)
    tests, noise = 20_000, 0.01
    baseline = rng.normal(0, noise, (tests, 12))
    now = rng.normal(math.log1p(STORED.limit), noise, (tests, LOOKS[-1]))
    called = np.zeros(tests, bool)
    for n in range(MIN_CONFIRM, LOOKS[-1] + 1):
        seen = unpaired(baseline, now[:, :n]) if evidence == "stored" else paired(now[:, :n])
        called |= seen.is_beyond(STORED.limit)

    assert 0.015 < called.mean() < 0.028  # 2.5 % and three standard errors


# -- limits ------------------------------------------------------------------------------------


def test_a_limit_of_ones_own_takes_what_must_be_caught_along():
    assert STORED.with_limit(0.025, floor=0.01) == Rule(0.025, 0.04, "stored baseline")


def test_a_limit_below_twice_the_noise_floor_is_refused_with_the_floor():
    with pytest.raises(ValueError, match=r"limit=0.01 .* noise floor of 0.62%.* allow 0.0124"):
        STORED.with_limit(0.01, floor=0.0062)


@pytest.mark.parametrize("limit", [0.0, -0.01, 1.0, 3, math.nan])
def test_a_limit_that_is_no_fraction_is_refused_with_an_example(limit):
    with pytest.raises(ValueError, match=r"no fraction between 0 and 1: 0.03 is 3 %"):
        STORED.with_limit(limit, floor=0.0)


def test_less_than_the_clock_resolves_is_never_slower():
    tiny = times(0.004, QUIET)  # 0.4 µs
    verdict = judge(tiny, times(1.12, tiny), STORED)  # + 0.048 µs

    assert verdict.outcome is Outcome.SAME
    assert verdict.rule.limit == pytest.approx(0.125)
    assert judge(tiny, times(1.12, tiny), STORED, min_difference=0).outcome is Outcome.SLOWER
    assert judge(tiny, times(1.30, tiny), STORED).outcome is Outcome.SLOWER


def test_a_baseline_shorter_than_the_clock_resolves_is_judged_all_the_same():
    tiny = times(0.0003, QUIET)  # 0.03 µs: the limit becomes 167 %

    assert judge(tiny, times(2.0, tiny), STORED).outcome is Outcome.SAME
    assert judge(tiny, times(9.0, tiny), STORED).outcome is Outcome.SLOWER


# -- base, references, counts --------------------------------------------------------------------


def test_head_slower_than_the_baseline_but_not_than_base_is_already_slower():
    head = times(1.2, QUIET)
    verdict = judge_pairs(times(1.2, QUIET), head, stored=judge(QUIET, head, STORED))

    assert verdict.outcome is Outcome.ALREADY_SLOWER
    assert "+20" in verdict.reason
    assert not fails(verdict, ci=True)


def test_head_slower_than_base_is_slower_whatever_the_baseline_says():
    head = times(1.03, QUIET)
    verdict = judge_pairs(QUIET, head, stored=judge(QUIET, head, STORED))

    assert verdict.outcome is Outcome.SLOWER


def test_head_faster_than_base_but_slower_than_the_baseline_is_already_slower():
    head = times(1.2, QUIET)
    verdict = judge_pairs(times(1.3, QUIET), head, stored=judge(QUIET, head, STORED))

    assert verdict.outcome is Outcome.ALREADY_SLOWER


def test_undecided_pairs_do_not_excuse_head():
    base, head = [100.0, 108.0, 95.0, 102.0], [120.0, 118.0, 131.0, 119.0]
    stored = judge(QUIET, times(1.2, QUIET), STORED)

    assert judge_pairs(base, times(0.85, head), stored=stored).outcome is Outcome.UNCLEAR


@pytest.mark.parametrize(
    ("now", "outcome"),
    [
        ([200.0], Outcome.SAME),
        ([240.0], Outcome.UNCLEAR),
        ([240.0, 241.0, 239.0, 240.0], Outcome.SLOWER),
        ([227.0, 240.0, 222.0, 239.0], Outcome.UNCLEAR),
        ([140.0], Outcome.FASTER),
    ],
)
def test_a_published_figure_is_right_to_within_its_band(now, outcome):
    assert judge_reference(190.0, 0.2, now).outcome is outcome


def test_counts_are_judged_exactly_and_named():
    before = {"kernels": 5, "ops": 29, "syncs": 0}

    assert judge_counts(before, dict(before)).outcome is Outcome.SAME
    slower = judge_counts(before, {"kernels": 4, "ops": 29, "syncs": 1})
    assert (slower.outcome, slower.reason) == (Outcome.SLOWER, "syncs 0 → 1; kernels 5 → 4")
    assert judge_counts(before, {"kernels": 4, "ops": 29, "syncs": 0}).outcome is Outcome.FASTER


def test_a_count_that_this_run_has_not_is_incomparable_and_a_new_one_is_told():
    missing = judge_counts({"kernels": 5, "graphs": 1}, {"kernels": 5})
    assert (missing.outcome, "graphs" in missing.reason) == (Outcome.INCOMPARABLE, True)
    for kernels in (4, 5, 6):
        told = judge_counts({"kernels": 5}, {"kernels": kernels, "graphs": 1}).reason
        assert told.endswith("; new: graphs")


@pytest.mark.parametrize("now", [{}, {"kernels": 5, "ops": 2}])
def test_a_baseline_without_counts_is_incomparable_and_names_what_it_lacks(now):
    verdict = judge_counts({}, now)
    assert verdict.outcome is Outcome.INCOMPARABLE
    assert all(name in verdict.reason for name in now)


# -- what a verdict means ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "locally", "in_ci"),
    [
        (Outcome.SAME, False, False),
        (Outcome.FASTER, False, False),
        (Outcome.SLOWER, True, True),
        (Outcome.ALREADY_SLOWER, False, False),
        (Outcome.NO_BASELINE, False, True),
        (Outcome.INCOMPARABLE, False, True),
        (Outcome.UNCLEAR, False, False),
    ],
)
def test_each_outcome_fails_where_the_design_says(outcome, locally, in_ci):
    verdict = Verdict(outcome, "because")

    assert (fails(verdict, ci=False), fails(verdict, ci=True)) == (locally, in_ci)


def test_unclear_fails_in_ci_when_its_estimate_is_beyond_the_limit():
    beyond = Verdict(Outcome.UNCLEAR, "noise", ratio=1.06, rule=STORED)
    within = Verdict(Outcome.UNCLEAR, "noise", ratio=1.04, rule=STORED)

    assert fails(beyond, ci=True)
    assert not fails(beyond, ci=False)
    assert not fails(within, ci=True)


def test_more_than_a_fifth_unclear_fails_the_session_and_says_how_many():
    same, unclear = Verdict(Outcome.SAME, ""), Verdict(Outcome.UNCLEAR, "")

    assert too_many_unclear([]) is None
    assert too_many_unclear([same] * 8 + [unclear] * 2) is None
    assert too_many_unclear([same] * 7 + [unclear] * 2).startswith("2 of 9 timings are unclear")
    assert too_many_unclear([unclear]) is not None


# -- the simulation ------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [STORED, STORED_SAME_CARD, PAIRED])
@pytest.mark.parametrize("noise", [0.003, 0.02])
def test_the_simulation_asks_what_judging_asks(rule, noise):
    rng = np.random.default_rng(5)
    baseline = rng.normal(0, noise, (40, 12))
    for n in (1, 4, 6):
        now = rng.normal(0, noise, (40, n)) + rng.uniform(-2, 2, (40, 1)) * rule.catch
        simulated = sessions.outcome(unpaired(baseline, now), rule)
        judged = [
            judge(np.exp(before), np.exp(after), rule, min_difference=0).outcome
            for before, after in zip(baseline, now, strict=True)
        ]
        assert [sessions.NAMES[code] for code in simulated] == judged


def test_a_short_simulation_finds_what_the_long_one_does(tmp_path):
    page = tmp_path / "detection.md"
    detection.main(["--sessions", "3", "--out", str(page)])

    text = page.read_text(encoding="utf-8")
    assert "| no false SLOWER | same card (3 / 5 %) | 1 % | 0 | 0 of 3 sessions |" in text
    assert "| caught at +8 % | another card (5 / 8 %) | 0.2–0.5 % | 0 | 100 % of 180 tests" in text


def test_importing_the_plugin_imports_no_verdict():
    code = (
        "import sys, kernelpin, kernelpin.plugin;"
        "print(sorted({'numpy', 'scipy', 'kernelpin.verdict'} & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.strip() == "[]"


def test_in_pairs_a_smaller_difference_counts_than_against_what_is_stored():
    """3.25 µs, +2 %, on a quiet card: 0.065 µs. Of 1.3 µs it is 0.026 µs, which is never SLOWER."""
    quiet = np.array([0.9995, 1.0, 1.0005, 1.0, 1.0005, 0.9995])
    for base, outcome in ((3.25, Outcome.SLOWER), (1.3, Outcome.SAME)):
        verdict = judge_pairs(base * quiet, 1.02 * base * quiet[::-1])
        assert verdict.outcome is outcome, base
    assert judge_pairs(3.25 * quiet, 3.25 * quiet[::-1]).outcome is Outcome.SAME
