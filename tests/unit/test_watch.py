"""The fixture `stopwatch` in a test: what it refuses before it measures."""

from __future__ import annotations

import pytest

from kernelpin.stopwatch import MeasureError, Samples
from kernelpin.workers import watch as watching
from kernelpin.workers.watch import Phase, Watch


class Ratios:
    """A stopwatch that knows the answer."""

    def ratio(self, a, b, *args):
        return Samples("host_ratio", (0.5, 0.5, 0.5), "host")


@pytest.fixture
def watch(monkeypatch):
    monkeypatch.setattr(watching, "current_gpu", lambda: None)
    return Watch(Phase.HERE, Ratios())


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"below": 0}, "below=0: allowed is a positive ratio"),
        ({"above": -1.5}, "above=-1.5: allowed is a positive ratio"),
        ({"below": float("nan")}, "below=nan: allowed is a positive ratio"),
        ({"below": "2"}, "below='2': allowed is a positive ratio"),
        ({"below": 0.5, "above": 0.5}, "no ratio is both; allowed is above < below"),
        ({"below": 0.5, "above": 2}, "below=0.5 with above=2: no ratio is both"),
    ],
)
def test_bounds_that_no_ratio_keeps_are_refused(watch, bounds, said):
    with pytest.raises(MeasureError, match=said):
        watch.ratio(print, print, **bounds)
    assert watch.samples is None


def test_a_forgotten_second_callable_is_told(watch):
    with pytest.raises(MeasureError, match="b is a list: allowed are two callables"):
        watch.ratio(print, [1, 2])


@pytest.mark.parametrize("bounds", [{}, {"below": 2}, {"above": 0.1}, {"below": 2, "above": 0.1}])
def test_bounds_that_can_be_kept_are_taken(watch, bounds):
    assert watch.ratio(print, print, **bounds).figure == 0.5
    assert {"below": watch.below, "above": watch.above} == {"below": None, "above": None} | bounds
