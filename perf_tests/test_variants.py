"""The deliberately broken workloads run on the live GPU; `--kernelpin-record` keeps their traces.

That each makes exactly the claims it breaks fail is tested on those traces in `tests/suite`.
"""

from __future__ import annotations

import pytest

from fixtures.sources import LIVE_GPU, Case
from fixtures.variants import VARIANTS
from fixtures.workloads import WORKLOADS

pytestmark = pytest.mark.gpu

REPLACED = [
    pytest.param(variant, workload, mode, id=f"{variant.name}-{workload.name}-{mode}")
    for variant in VARIANTS
    for workload in WORKLOADS
    for mode in workload.modes
    if not workload.cpu and variant.replaces(workload, mode)
]


@pytest.mark.parametrize(("variant", "workload", "mode"), REPLACED)
def test_a_broken_workload_runs(variant, workload, mode, request, capture_trace):
    record = request.config.getoption("--kernelpin-record")
    case = Case(LIVE_GPU, workload, capture=capture_trace, variant=variant, record=record)
    trace = case.trace(mode)
    assert [step for step in trace.steps if step.kernels] == list(trace.steps)
