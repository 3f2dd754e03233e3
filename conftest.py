"""The suite's own option and its `case` fixture; the plugin comes by its entry point."""

from __future__ import annotations

import pytest

from fixtures.sources import Case, variant


def pytest_addoption(parser):
    parser.getgroup("kernelpin suite").addoption(
        "--break",
        metavar="VARIANT",
        help="run the suite with a deliberately broken workload of fixtures/variants.py",
    )


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
