"""What would leave a session green that checked less than it says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from _pytest.mark.expression import Expression

from kernelpin.plugin.benchmark import gpu_of
from kernelpin.plugin.refusals import PARTS
from kernelpin.plugin.settings import baselines_folder, report_folder


@dataclass(slots=True)
class Tally:
    """What ran: ours by kind (`stopwatch`, `trace`, `gpu`), which of them need a GPU, the rest.

    `skips` counts the reasons; `skipped` holds whose they are. `failed`, `passed` and
    `expected` (to fail): of all tests.
    """

    kinds: dict[str, str] = field(default_factory=dict)
    on_gpu: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    expected: set[str] = field(default_factory=set)
    skips: Counter[str] = field(default_factory=Counter)
    failed: set[str] = field(default_factory=set)

    def add(self, report: Any) -> None:
        """Count one report of one test."""
        told = getattr(report, "kernelpin", None)
        if report.failed:
            self.failed.add(report.nodeid)
        if hasattr(report, "wasxfail"):
            self.expected.add(report.nodeid)
        if report.passed and report.when == "call":
            self.passed.add(report.nodeid)
        if told is None:
            self.others.add(report.nodeid)
            return
        self.kinds[report.nodeid] = told["kind"]
        row = told["row"]
        if told["gpu"] or (row is not None and row["source"] == "live" and row["gpu"] is not None):
            self.on_gpu.add(report.nodeid)
        if report.skipped:
            self.skipped.add(report.nodeid)
            self.skips[_reason(report)] += 1
        elif report.when == "call" or report.failed:
            self.ran.add(report.nodeid)

    @property
    def unmeasured(self) -> set[str]:
        """The tests that passed and are no timing tests."""
        return {id_ for id_ in self.passed if self.kinds.get(id_) != "stopwatch"}

    def ours(self, asked: bool) -> set[str]:
        """The tests that the rules for CI are about.

        A marker named gpu alone is anybody's: it counts beside a test that uses our fixtures, or
        where it was asked for.
        """
        if asked or any(kind != "gpu" for kind in self.kinds.values()):
            return set(self.kinds)
        return set()

    @property
    def reasons(self) -> str:
        """Why tests were skipped, the commonest first."""
        told = [f"{reason} ({number})" for reason, number in self.skips.most_common(3)]
        more = len(self.skips) - 3
        return "; ".join([*told, f"{more} other reasons"] if more > 0 else told) or "no reason told"


def _reason(report: Any) -> str:
    """Why a test did not run to its end; one that failed as expected did not either."""
    if hasattr(report, "wasxfail"):
        return f"xfail: {report.wasxfail.removeprefix('reason: ')}"
    reason: str = report.longrepr[2] if isinstance(report.longrepr, tuple) else "skipped"
    return reason.removeprefix("Skipped: ")


def asks_for_gpu(expression: str) -> bool:
    """Whether `-m` selects tests for being marked gpu: `gpu and not slow`; not `not gpu`."""
    if not expression.strip():
        return False
    try:
        compiled = Expression.compile(expression)
        return any(
            compiled.evaluate(_marks(gpu=True, others=others))
            and not compiled.evaluate(_marks(gpu=False, others=others))
            for others in (False, True)
        )
    except Exception:  # pytest's own, of no public promise: then nobody is accused
        return False


def _marks(*, gpu: bool, others: bool) -> Any:
    """A matcher for a test that is marked gpu or not, and with every other mark or none."""

    def matches(name: str, /, **arguments: Any) -> bool:
        return gpu and not arguments if name == "gpu" else others

    return matches


def why_no_gpu(config: pytest.Config) -> str:
    """Why this session has no GPU, be it a recorded one; empty where it has one."""
    if config.getoption("--kernelpin-replay") is not None and gpu_of(config) is not None:
        return ""
    from kernelpin import machine

    return machine.why_no_gpu()


def without_gpu(tally: Tally, config: pytest.Config) -> str | None:
    """Why a session that must run a GPU test fails, or None."""
    # Asked first: a test that is marked gpu can pass without one.
    if why := why_no_gpu(config):
        return f"no GPU test ran: {why}"
    if tally.ran & tally.on_gpu:
        return None
    why = f"all were skipped: {tally.reasons}" if tally.on_gpu else "none was selected"
    return f"no GPU test ran: {why}"


def nothing_checked(tally: Tally, config: pytest.Config) -> str | None:
    """Why a CI run that is about our tests checked nothing, or None."""
    markexpr = config.getoption("markexpr", "") or ""
    asked = asks_for_gpu(markexpr)
    ours = tally.ours(asked)
    if not ours and not asked:
        return None
    others = tally.others | (tally.kinds.keys() - ours)
    if not ours and not others:
        return f"-m {markexpr!r} selected no test: is the marker gpu gone, or the path wrong?"
    if not tally.ran & ours and not others:
        return f"every kernelpin test was skipped, and nothing else ran: {tally.reasons}"
    if not ours & tally.on_gpu:
        return None
    if not tally.ran & tally.on_gpu:
        from kernelpin import machine

        # Without a card, beside tests that need none, this is a run on the CPU.
        if machine.gpu_present():
            return f"every GPU test was skipped: {tally.reasons}"
        return None
    if all(tally.kinds[id_] == "gpu" for id_ in ours):
        return None  # a marker named gpu alone is anybody's, and so is their GPU
    meant = asked or not others | (ours - tally.on_gpu)
    if meant and (why := why_no_gpu(config)):
        return f"what passed of the GPU tests ran without one: {why}"
    return None


def never_ran(
    tally: Tally, selected: dict[str, str], message: str | None, config: pytest.Config
) -> str | None:
    """Why a CI run that calls itself green did not come to all that it selected, or None.

    `selected`: the kinds of our tests by id, as they were after deselection; `message`: what
    `pytest.exit` was told, if it was called.
    """
    asked = asks_for_gpu(config.getoption("markexpr", "") or "")
    if not asked and all(kind == "gpu" for kind in selected.values()):
        return None
    # One that was set up, and no more, did not run.
    missing = sorted(selected.keys() - tally.ran - tally.skipped - tally.others)
    if not missing:
        return None
    how = "the session ended" if message is None else f"pytest.exit({message!r}) ended the session"
    return (
        f"{len(missing)} of {len(selected)} kernelpin tests never ran, the first of them "
        f"{missing[0]}: {how} before its end, with exit status 0"
    )


def is_ours(selected: dict[str, str], config: pytest.Config) -> bool:
    """Whether the session is about our tests, as far as what was collected and asked for says."""
    if any(kind != "gpu" for kind in selected.values()):
        return True
    if asks_for_gpu(config.getoption("markexpr", "") or ""):
        return True
    if config.getoption("--kernelpin-require-gpu") or report_folder(config) is not None:
        return True
    if not baselines_folder(config).is_dir():
        return False
    from kernelpin.baselines import Store

    return bool(Store(baselines_folder(config)).gpus())


def cut_off(message: str, selected: dict[str, str], config: pytest.Config) -> str | None:
    """Why a session that ended green before all its tests were collected fails, or None.

    `message`: what `pytest.exit` was told; `selected`: as for `never_ran`, as far as it got.
    """
    if not is_ours(selected, config):
        return None
    return (
        f"found pytest.exit({message!r}) with exit status 0 before the tests were collected, so "
        "that no kernelpin test ran; allowed is another status: leave returncode out, or skip the "
        "tests"
    )


def unregistered(selected: dict[str, str], config: pytest.Config) -> str | None:
    """Why a session fails in which a part of kernelpin was taken out of pytest, or None."""
    gone = [name for name in PARTS if not config.pluginmanager.hasplugin(name)]
    if not gone or not is_ours(selected, config):
        return None
    return (
        f"{', '.join(gone)} was unregistered while the session ran, by a conftest.py or a plugin: "
        "what it checks was not checked; take all of kernelpin out, or none of it: -p no:kernelpin"
    )


def swallowed(nodeids: list[str]) -> str:
    """What is said of tests that were judged failed and reported as something else."""
    return (
        f"{len(nodeids)} failed, but the session was told otherwise: {', '.join(nodeids[:3])}; "
        "does a conftest.py or a plugin change reports or the exit status?"
    )
