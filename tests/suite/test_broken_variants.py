"""Each claim of the suite can fail: a broken workload makes exactly the tests it breaks fail."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.sources import recorded_sources
from fixtures.variants import VARIANTS

ROOT = Path(__file__).parents[2]
SOURCES = recorded_sources()


def failures(variant, keyword: str) -> tuple[set[str], str]:
    """Run the subject's tests with that variant: the names of those that failed, and the output."""
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", f"perf_tests/test_{variant.subject}.py"),
            *("-k", keyword, "--break", variant.name, "-p", "no:cacheprovider", "-rfE"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    assert "ERROR perf_tests" not in run.stdout, run.stdout
    return set(re.findall(r"^FAILED \S+?::(\w+)", run.stdout, re.MULTILINE)), run.stdout


@pytest.mark.parametrize("source", SOURCES, ids=lambda s: s.name)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_on_recorded_traces_exactly_these_claims_fail(variant, source):
    failed, output = failures(variant, source.name)
    assert failed == variant.breaks, output


@pytest.mark.cpu
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.breaks_on_cpu], ids=lambda v: v.name)
def test_on_the_live_cpu_exactly_these_claims_fail(variant):
    failed, output = failures(variant, "cpu")
    assert failed == variant.breaks_on_cpu, output


def test_every_claim_has_a_variant_that_breaks_it():
    broken = {name for variant in VARIANTS for name in variant.breaks | variant.breaks_on_cpu}
    claims = {
        name
        for subject in ("matmul_add", "linear", "geglu_mlp")
        for name in re.findall(
            r"^def (test_\w+)\(case\)",
            (ROOT / "perf_tests" / f"test_{subject}.py").read_text(),
            re.MULTILINE,
        )
    }
    # No workload of ours makes cuBLAS ask for occupancy on Hopper; tests/unit breaks that claim.
    assert claims - broken == {"test_an_occupancy_query_precedes_a_gemm_on_ampere_only"}
