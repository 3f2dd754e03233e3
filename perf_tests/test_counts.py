"""What does not depend on clocks: kernels, launches, ops, synchronisations, memory of one call."""

from __future__ import annotations

import pytest

from fixtures.timed import TIMED, build, training_step

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("name", "mode"), TIMED)
def test_counts(stopwatch, name, mode):
    fn, args = build(name, mode)
    stopwatch.counts(fn, *args)


def test_training_step_counts(stopwatch):
    stopwatch.counts(training_step())
