"""What the samples of one process come to: its figure, over the places in memory."""

from __future__ import annotations

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelpin.stopwatch import Samples

VALUES = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=9)


@given(st.lists(VALUES, min_size=1, max_size=7))
def test_the_figure_is_the_mean_over_places_of_the_median_at_each(places):
    values = tuple(value for place in places for value in place)
    samples = Samples("device_us", values, "graph", places=tuple(map(len, places)))
    assert samples.figure == pytest.approx(sum(map(median, places)) / len(places))
    assert Samples("device_us", values, "graph").figure == median(values)


@given(st.lists(VALUES, min_size=8, max_size=30), st.floats(1e7, 1e9))
def test_one_disturbed_place_does_not_count(places, disturbed):
    def figure(first):
        values = tuple(value for place in [first, *places[1:]] for value in place)
        kept = (len(first), *map(len, places[1:]))
        return Samples("device_us", values, "graph", places=kept).figure

    assert figure([disturbed] * 5) == figure([2 * disturbed] * 5)


def test_of_two_kinds_of_places_the_figure_lies_between_them():
    def figure(slow):
        values = [1.03] * 5 * slow + [1.0] * 5 * (24 - slow)
        return Samples("device_us", tuple(values), "graph", places=(5,) * 24).figure

    assert figure(12) == pytest.approx(1.015)
    assert figure(13) / figure(11) == pytest.approx(1.0027, abs=1e-4)  # of the median, 1.03


@pytest.mark.parametrize("places", [(3, 3), (5,), (8, 0), (9, -1)])
def test_places_hold_all_values_and_no_others(places):
    with pytest.raises(ValueError, match=r"places \(.*\) do not hold 8 values"):
        Samples("device_us", (1.0,) * 8, "graph", places=places)


def test_figures_without_values_are_refused():
    with pytest.raises(ValueError, match="counts holds no values"):
        Samples("counts", (), "profiler").figure  # noqa: B018
