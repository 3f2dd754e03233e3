"""Whether the sessions of one recording measured the same code."""

from __future__ import annotations

import numpy as np
import pytest

from kernelpin.verdict import disagreement


def differ(*sessions, limit=0.03, min_difference=0.05):
    return disagreement(sessions, limit, min_difference=min_difference)


def quiet(center, number, spread=0.003, seed=0):
    return list(center * np.exp(np.random.default_rng(seed).normal(0, spread, number)))


@pytest.mark.parametrize(("then", "now"), [(1, 11), (3, 5), (7, 1), (6, 6)])
@pytest.mark.parametrize("center", [45.3, 37.5, 43.0])
def test_another_code_is_found_in_one_process_too(then, now, center):
    i, j, ratio = differ(quiet(41.2, then), quiet(center, now, seed=1))
    assert (i, j) == (0, 1)
    assert ratio == pytest.approx(center / 41.2, rel=0.01)


def test_the_two_that_differ_most_are_told():
    i, j, ratio = differ(quiet(41.2, 3), quiet(43.0, 3, seed=1), quiet(45.3, 6, seed=2))
    assert (i, j) == (0, 2)
    assert ratio == pytest.approx(45.3 / 41.2, rel=0.01)


def test_one_session_agrees_with_itself():
    assert differ([41.2, 45.3, 48.0, 41.0]) is None


def test_what_is_within_the_limit_agrees():
    assert differ(quiet(41.2, 3), quiet(42.0, 5, seed=1)) is None
    assert differ(quiet(41.2, 3), quiet(42.0, 5, seed=1), limit=0.01)


def test_of_a_short_test_no_difference_below_the_least_counts():
    assert differ(quiet(1.0, 6), quiet(1.04, 6, seed=1)) is None
    assert differ(quiet(1.0, 6), quiet(1.04, 6, seed=1), min_difference=0.0)


def test_with_a_process_a_session_the_noise_is_not_known_and_the_limit_alone_decides():
    assert differ(*([figure] for figure in (41.2, 41.3, 41.1, 41.2))) is None
    assert differ(*([figure] for figure in (41.2, 41.3, 41.1, 45.3)))


def test_noise_is_seldom_taken_for_another_code():
    """5 % between processes, of one code: 2,000 recordings interrupted after 3 of 12."""
    draw = np.random.default_rng(7)
    found = 0
    for _ in range(2000):
        figures = 41.2 * np.exp(draw.normal(0, 0.05, 12))
        found += differ(figures[:3], figures[3:]) is not None
    assert found <= 8
