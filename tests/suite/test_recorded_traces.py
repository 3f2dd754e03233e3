"""What `fixtures/traces` holds: traces of real GPUs that tell nothing of where they were made."""

from __future__ import annotations

import gzip
import json
import re

import pytest

from fixtures.sources import TRACES
from fixtures.workloads import WORKLOADS
from kernelpin import load_trace

PATHS = sorted(TRACES.glob("**/*.json.gz"))
# A folder of some machine, a drive, or who recorded it.
TELLTALE = re.compile(r'"(?:host_name|traceName)"|/(?:home|root|tmp|work|usr|opt)/|[A-Z]:\\\\')


def identity(path):
    return str(path.relative_to(TRACES))


def test_there_are_recorded_traces():
    assert PATHS


@pytest.mark.parametrize("path", PATHS, ids=identity)
def test_a_recorded_trace_is_whole_and_tells_no_path_or_host(path):
    text = gzip.decompress(path.read_bytes()).decode()
    assert TELLTALE.search(text) is None
    recorded_on = json.loads(text)["recorded_on"]
    assert {"date", "torch", "cuda", "driver"} <= {k for k, v in recorded_on.items() if v}
    trace = load_trace(path)
    trace.require_complete()
    assert trace.warnings == ()
    assert trace.device.slug == path.relative_to(TRACES).parts[0]


@pytest.mark.parametrize("gpu", sorted(TRACES.iterdir()), ids=lambda p: p.name)
def test_every_workload_with_claims_is_recorded_in_every_mode(gpu):
    wanted = {f"{w.name}-{mode}" for w in WORKLOADS if not w.cpu for mode in w.modes}
    # Timed and counted, but no claim of the suite is about its graph.
    wanted -= {f"matmul_add-{n}-reduce-overhead" for n in (64, 4096)}
    assert wanted == {path.name.removesuffix(".json.gz") for path in gpu.glob("*.json.gz")}
