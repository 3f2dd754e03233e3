"""The pytest plugin: options, markers, fixtures and hooks, each of which only wires."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kernelpin.trace import Trace

UPDATES = ("none", "new", "failed", "all")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernelpin", "GPU kernels and their times (kernelpin)")
    group.addoption(
        "--kernelpin-require-gpu",
        action="store_true",
        help="fail a session that ran no GPU test",
    )
    group.addoption(
        "--kernelpin-record",
        action="store_true",
        help="the suite's own: write the live GPU's traces to fixtures/traces",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kernelpin(limit=0.03, because=...): how much slower this test may get, and why",
    )


class TraceCapture:
    """What the fixture `capture_trace` gives: call it as `kernelpin.capture`."""

    def __init__(self) -> None:
        self._kept: list[tuple[Trace, bytes]] = []

    def __call__(self, fn: Any, *args: Any, steps: int = 3) -> Trace:
        """Return the trace of `steps` warm calls of `fn(*args)`."""
        from kernelpin.kineto import load_trace
        from kernelpin.profiling import capture_bytes

        payload = capture_bytes(fn, *args, steps=steps)
        trace = load_trace(payload)
        self._kept.append((trace, payload))
        return trace

    def json_of(self, trace: Trace) -> bytes:
        """Return the JSON of a trace that this fixture captured."""
        for kept, payload in self._kept:
            if kept is trace:
                return payload
        raise ValueError("this trace was not captured by this test's capture_trace")


@pytest.fixture
def capture_trace() -> TraceCapture:
    """Capture a callable's trace; a failing test leaves it as a file that the message names."""
    return TraceCapture()


@pytest.fixture
def stopwatch() -> Any:
    """Measure a callable's device time against this GPU's baseline."""
    pytest.skip("measuring is not wired yet")
