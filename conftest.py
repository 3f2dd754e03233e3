"""The suite's own option and its `case` fixture; the plugin comes by its entry point."""

from __future__ import annotations

import pytest
from hypothesis import settings

from fixtures.sources import Case, left_out, recorded_sources, variant

# The plugin's tests run pytest inside pytest. Only here: pytest refuses it in a conftest below.
pytest_plugins = ("pytester",)

# CI draws the same examples on every run; `--hypothesis-profile=thorough` looks for new ones.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("thorough", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("ci")


def pytest_addoption(parser):
    parser.getgroup("kernelpin suite").addoption(
        "--break",
        metavar="VARIANT",
        help="run the suite with a deliberately broken workload of fixtures/variants.py",
    )


def pytest_configure(config):
    variant(config.getoption("--break"))  # an unknown one is said once, before any test


def pytest_report_header(config):
    """Name the sources that this session's claims are checked on, and those left out."""
    recorded = ", ".join(source.name for source in recorded_sources()) or "none"
    lines = [f"suite: traces recorded on: {recorded}"]
    return lines + [f"suite: left out: {what}: {why}" for what, why in left_out()]


@pytest.fixture
def case(request, capture_trace):
    """One workload on one source; see fixtures/sources.py."""
    source, workload = request.param
    return Case(
        source,
        workload,
        capture=capture_trace,
        variant=variant(request.config.getoption("--break")),
        record=request.config.getoption("--kernelpin-record"),
    )
