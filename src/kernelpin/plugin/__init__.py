"""The pytest plugin: options, markers, fixtures and hooks, each of which only wires.

What is heavy (msgspec, numpy, torch) is imported when a test of ours is there; a suite that has
none pays for a handful of small modules and is left as it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelpin.plugin.benchmark import MachineInfo
from kernelpin.plugin.ending import ENDING, Ending, last_word, watch_the_end
from kernelpin.plugin.gate import Gate
from kernelpin.plugin.header import header
from kernelpin.plugin.recording import be_alone
from kernelpin.plugin.refusals import Refusals, refuse_parts
from kernelpin.plugin.settings import BUDGET_S, check, folder_named, is_xdist_worker, runs_tests
from kernelpin.plugin.timings import CASE, Timings
from kernelpin.plugin.traces import BASETEMP, CAPTURED, TraceCapture, Traces, kind_of

if TYPE_CHECKING:
    from kernelpin.workers.watch import Watch

UPDATES = ("none", "new", "failed", "all")
_WATCHES: pytest.StashKey[Callable[[pytest.Item], Watch]] = pytest.StashKey()
_GATE: pytest.StashKey[Gate] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernelpin", "GPU kernels and their times (kernelpin)")
    group.addoption(
        "--kernelpin-update",
        choices=UPDATES,
        default="none",
        help="store baselines: of tests without one (new), also of those that got slower (failed), "
        "of all; default none. Refused where CI is set",
    )
    group.addoption(
        "--kernelpin-processes",
        type=int,
        metavar="N",
        help="fresh processes each timing test is measured in at first (default 1, 8 to store "
        "baselines); 0 measures in pytest's own, for a debugger",
    )
    group.addoption(
        "--kernelpin-budget",
        type=float,
        metavar="SECONDS",
        help=f"how long all measuring may take (default {BUDGET_S:.0f} for each process "
        "asked for at first)",
    )
    group.addoption(
        "--kernelpin-report",
        type=folder_named,
        metavar="DIR",
        help="write summary.md, report.json, proposed baselines and traces of failed checks there",
    )
    group.addoption(
        "--kernelpin-baselines",
        type=folder_named,
        metavar="DIR",
        help="where baselines are stored (default: baselines in the rootdir)",
    )
    group.addoption(
        "--kernelpin-base",
        metavar="REF",
        help="measure suspects in base and head in turn, base in a worktree of REF; 'merge-base' "
        "is the default where CI is set, 'none' compares with stored baselines alone",
    )
    group.addoption(
        "--kernelpin-base-all",
        action="store_true",
        help="compare every timing test with the base, not only suspects",
    )
    group.addoption(
        "--kernelpin-base-python",
        type=Path,
        metavar="PATH",
        help="the interpreter of an environment where base is installed, for code that compiles",
    )
    group.addoption(
        "--kernelpin-require-gpu",
        action="store_true",
        help="fail a session that ran no GPU test",
    )
    group.addoption(
        "--kernelpin-reason",
        metavar="TEXT",
        help="why it got slower, stored with baselines that --kernelpin-update replaces",
    )
    group.addoption(
        "--kernelpin-record",
        action="store_true",
        help="a suite's own: write the live GPU's traces to its fixtures",
    )
    # Not for people: what a worker is told, figures to play instead of measuring, what
    # `kernelpin record` keeps between its runs.
    for hidden in ("worker", "replay", "journal"):
        group.addoption(f"--kernelpin-{hidden}", type=Path, help=argparse.SUPPRESS)
    group.addoption("--kernelpin-add", action="store_true", help=argparse.SUPPRESS)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Iterator[None]:
    if is_xdist_worker(config) or config.getoption("--kernelpin-worker") is not None:
        return (yield)
    watch_the_end(config)
    status: Any = yield
    gate = config.stash.get(_GATE, None)
    if gate is None and config.stash[ENDING].exit is not None:
        # A pytest_configure ended the session before ours was asked.
        gate = Gate(config, Timings(config), config.stash[ENDING])
    return status if gate is None else last_word(gate, status)  # type: ignore[return-value]


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "kernelpin(limit=0.03, because=..., flops=..., bytes=..., dtype=...): how much slower this "
        "test may get, why, and the work of one call",
        "gpu: runs on the live GPU, and skips without one",
        "cpu: runs on the live CPU; its stopwatch.ratio needs no GPU",
    ):
        config.addinivalue_line("markers", marker)
    refuse_parts(config)
    order: Path | None = config.getoption("--kernelpin-worker")
    if order is not None:
        from kernelpin.workers.bench import Bench

        bench = Bench(order)
        config.stash[_WATCHES] = bench.new_watch
        config.pluginmanager.register(bench, "kernelpin-bench")
        return
    check(config)
    be_alone(config)
    timings = Timings(config)
    gate = Gate(config, timings, config.stash.setdefault(ENDING, Ending()))
    config.stash[_GATE] = gate
    for plugin, name in (
        (timings, "kernelpin-timings"),
        (Refusals(config), "kernelpin-refusals"),
        (Traces(config), "kernelpin-traces"),
        (gate, "kernelpin-gate"),
        (MachineInfo(), "kernelpin-machine-info"),
    ):
        config.pluginmanager.register(plugin, name)
    if timings.in_place:
        config.stash[_WATCHES] = timings.new_watch


def pytest_report_collectionfinish(
    config: pytest.Config, items: Sequence[pytest.Item]
) -> list[str]:
    """Say what the session measures on, where a test of ours is there."""
    if config.getoption("--kernelpin-worker") is not None or config.option.verbose < 0:
        return []
    if not any(kind_of(item) in ("stopwatch", "trace") for item in items):
        return []
    return header(config)


@pytest.fixture
def capture_trace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> TraceCapture:
    """Capture a callable's trace; a failing test leaves it as a file that the message names."""
    in_worker = request.config.getoption("--kernelpin-worker") is not None
    capture = TraceCapture(locks=not in_worker)
    request.node.stash[CAPTURED] = capture
    request.node.stash[BASETEMP] = tmp_path_factory
    return capture


@pytest.fixture
def stopwatch(request: pytest.FixtureRequest) -> Watch:
    """Measure a callable against this GPU's baseline: device time, counts, a kernel, a ratio."""
    if not runs_tests(request.config):
        pytest.skip("no body runs, and so nothing is measured")
    new_watch = request.config.stash.get(_WATCHES, None)
    in_worker = request.config.getoption("--kernelpin-worker") is not None
    # In place too nothing would judge it: it was not among the tests that are.
    if new_watch is None or (not in_worker and CASE not in request.node.stash):
        pytest.fail(
            f"{request.node.nodeid}: stopwatch was asked for at run time; "
            "name it among the arguments of the test or of one of its fixtures",
            pytrace=False,
        )
    watch: Watch = new_watch(request.node)
    return watch
