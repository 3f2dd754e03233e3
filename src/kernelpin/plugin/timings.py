"""Tests that use `stopwatch`: found after collection, measured in workers, judged as themselves."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelpin.plugin import benchmark
from kernelpin.plugin.base import bases_of
from kernelpin.plugin.launch import launch_of, stand_aside
from kernelpin.plugin.progress import Line
from kernelpin.plugin.recording import forget_used, tell_continued
from kernelpin.plugin.settings import budget_s, is_xdist_worker, processes, runs_tests, settings_of

if TYPE_CHECKING:
    from kernelpin.session import Case, Judged, Judgement, Session
    from kernelpin.workers import Budget, Source
    from kernelpin.workers.watch import Watch

CASE: pytest.StashKey[Case] = pytest.StashKey()
WATCH: pytest.StashKey[Watch] = pytest.StashKey()
ROW: pytest.StashKey[dict[str, Any]] = pytest.StashKey()
TEXT: pytest.StashKey[str] = pytest.StashKey()
SHARED = "kernelpin_shared"


class CheckFailed(Exception):
    """A timing test failed; the judgement says all there is to show."""

    def __init__(self, judgement: Judgement) -> None:
        super().__init__(judgement.message or judgement.text)
        self.judgement = judgement


class Timings:
    """Replaces the running of timing tests by judging what workers measured of them."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.in_place = processes(config) == 0
        self.collected: list[str] = []
        self.judged: Judged | None = None
        self._cases: dict[str, Case] = {}

    # -- finding them ----------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.collected = [item.nodeid for item in items]
        others: list[pytest.Item] = []
        for item in items:
            if measures(item):
                if not self.in_place:
                    benchmark.offer(item)

            elif self.config.getoption("--kernelpin-journal") is not None:
                others.append(item)
        if others:  # `kernelpin record` runs what it records, and nothing beside it
            items[:] = [item for item in items if measures(item)]
            self.config.hook.pytest_deselected(items=others)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        timed = [item for item in session.items if measures(item)]
        if not timed or not runs_tests(self.config):
            return
        for item in timed:
            case = case_of(item)
            item.stash[CASE] = case
            if not self.in_place:
                self._cases[item.nodeid] = case
                item.runtest = partial(self._report, item)  # type: ignore[method-assign]

    @property
    def any(self) -> bool:
        return bool(self._cases)

    # -- running them ----------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Measure before the first of them begins, outside of its own time and timeout."""
        if item.nodeid in self._cases:
            if self.judged is None:
                self.judged = self._judge_all(item.session)
            # Its fixtures are set up where it was measured, and only there.
            judgement = self.judged.judgements.get(item.nodeid)
            item.fixturenames = benchmark.wanted(item, judgement)  # type: ignore[attr-defined]
        return (yield)

    def _report(self, item: pytest.Item) -> None:
        """The test's own outcome: what stands in the place of its body."""
        assert self.judged is not None
        judgement = self.judged.judgements.get(item.nodeid)
        if judgement is None:
            pytest.fail("this test was not measured: it was not among those selected", False)
        raise_outcome(item, judgement)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """In place, the body has measured; judge it by that one process."""
        result = yield
        if self.in_place and CASE in item.stash and WATCH in item.stash:
            raise_outcome(item, self._judge_here(item, item.stash[CASE], item.stash[WATCH]))
        return result

    # -- measuring -------------------------------------------------------------------------------

    def _judge_all(self, session: pytest.Session) -> Judged:
        """Measure and judge every selected timing test; under xdist one process does for all."""
        if not is_xdist_worker(self.config):
            return self._measure(session)
        from filelock import FileLock
        from msgspec import json

        from kernelpin.session import Judged

        folder = Path(self.config.workerinput[SHARED])  # type: ignore[attr-defined]
        told = folder / "judged.json"
        with FileLock(folder / "lock"):
            if not told.exists():
                partial_ = told.with_suffix(".partial")
                partial_.write_bytes(json.encode(self._measure(session)))
                partial_.replace(told)
            return json.decode(told.read_bytes(), type=Judged)

    def _measure(self, session: pytest.Session) -> Judged:
        from kernelpin.session import skipped_without_gpu
        from kernelpin.workers import Budget

        cases = {
            item.nodeid: self._cases[item.nodeid]
            for item in session.items
            if item.nodeid in self._cases and item.get_closest_marker("skip") is None
        }
        skipped: dict[str, Judgement] = {}
        if self.config.getoption("--kernelpin-replay") is None:
            on_gpu = [case for case in cases.values() if not case.cpu]
            if on_gpu and (why := why_no_gpu()):
                skipped = {case.nodeid: skipped_without_gpu(case, why) for case in on_gpu}
        wanted = [case for nodeid, case in cases.items() if nodeid not in skipped]
        budget = Budget(budget_s(self.config))
        line = Line(self.config)
        measuring = self._session(budget, line)
        try:
            judged = measuring.judge(wanted)
        except BaseException:
            measuring.source.close(at_once=True)
            raise
        measuring.source.close()
        forget_used(measuring.source, judged)
        line.end()
        return replace(judged, judgements=judged.judgements | skipped)

    def _session(self, budget: Budget, line: Line) -> Session:
        from kernelpin.session import Session

        return Session(
            settings_of(self.config),
            self._source(budget, line),
            budget,
            bases_of(self.config, budget, line),
        )

    def _source(self, budget: Budget, line: Line) -> Source:
        from kernelpin.workers import Fleet, Journal, Replay

        replay: Path | None = self.config.getoption("--kernelpin-replay")
        source: Source
        if replay is not None:
            source = Replay(replay)
        else:
            stand_aside()
            source = Fleet(launch_of(self.config), budget, progress=line.tell)
        path: Path | None = self.config.getoption("--kernelpin-journal")
        if path is None:
            return source
        journal = Journal(source, path, benchmark.gpu_of(self.config))
        tell_continued(self.config, journal)
        return journal

    def new_watch(self, item: pytest.Item) -> Watch:
        """The stopwatch of a test that is measured in place."""
        from kernelpin.stopwatch import Stopwatch
        from kernelpin.workers.watch import Phase, Watch

        if item.get_closest_marker("cpu") is None and (why := why_no_gpu()):
            pytest.skip(f"no GPU: {why}")
        item.stash[WATCH] = watch = Watch(Phase.HERE, Stopwatch())
        return watch

    def _judge_here(self, item: pytest.Item, case: Case, watch: Watch) -> Judgement:
        from kernelpin.session import Evidence, judgement_of
        from kernelpin.verdict import too_many_unclear
        from kernelpin.workers import Budget, WorkerResult

        session = self._session(Budget(budget_s(self.config)), Line(self.config))
        test = Evidence(case, session.store, session.settings)
        test.add(
            WorkerResult(
                item.nodeid,
                samples=watch.samples,
                below=watch.below,
                above=watch.above,
                gpu=watch.gpu,
            )
        )
        test.judge(final=True)
        # In place each test is a run of its own: nothing tells how many more will be unclear.
        alone = [] if test.verdict is None else [test.verdict]
        unclear = too_many_unclear(alone) if session.settings.ci and alone else None
        return judgement_of(test, session.settings, unclear=unclear)


def measures(item: pytest.Item) -> bool:
    """Whether the test uses the fixture `stopwatch`, itself or through another fixture."""
    return isinstance(item, pytest.Function) and uses_ours(item, "stopwatch")


def uses_ours(item: pytest.Item, name: str) -> bool:
    """Whether the fixture of this name that the test gets is ours, or one that asks for ours.

    A suite may have had a fixture of that name before this plugin was installed.
    """
    info = getattr(item, "_fixtureinfo", None)
    if info is None:
        return False
    for definition in reversed(info.name2fixturedefs.get(name) or ()):  # nearest the test first
        if getattr(definition.func, "__module__", None) == "kernelpin.plugin":
            return True
        if name not in definition.argnames:
            return False
    return False


def case_of(item: pytest.Item) -> Case:
    """What the session has to know of the test; UsageError on a wrong marker."""
    from kernelpin.session import Case, from_marker, misplaced

    for name in ("gpu", "cpu"):
        for mark in item.iter_markers(name):
            if told := misplaced(name, mark.kwargs):
                raise pytest.UsageError(f"{item.nodeid}: {told}")
    # Of a module, a class and the test itself, the nearest says what it says.
    arguments: dict[str, Any] = {}
    try:
        for mark in reversed(list(item.iter_markers("kernelpin"))):
            from_marker(mark.args, mark.kwargs)  # each has to be right by itself
            arguments |= {key: it for key, it in mark.kwargs.items() if it is not None}
        fields = from_marker((), arguments)
    except ValueError as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from None
    file, line, _ = item.location
    return Case(
        nodeid=item.nodeid,
        file=Path(file).as_posix(),
        line=None if line is None else line + 1,
        cpu=item.get_closest_marker("cpu") is not None,
        **fields,
    )


def raise_outcome(item: pytest.Item, judgement: Judgement) -> None:
    """End the running test as its judgement says."""
    item.stash[ROW] = row_told(judgement.row)
    item.stash[TEXT] = judgement.text
    item.user_properties += judgement.properties
    benchmark.play(item, judgement)
    if judgement.outcome == "failed":
        raise CheckFailed(judgement)
    if judgement.outcome == "skipped":
        pytest.skip(judgement.message.removeprefix("Skipped: "))
    if judgement.outcome == "xfailed":
        pytest.xfail(judgement.message.removeprefix("reason: "))


def row_told(row: Any) -> dict[str, Any]:
    """A report's row in builtin types: what a test report can carry from one process to another."""
    from msgspec import to_builtins

    told: dict[str, Any] = to_builtins(row)
    return told


def why_no_gpu() -> str:
    """Why there is no GPU to measure on; empty where there is one. Imports torch."""
    from kernelpin import machine

    return machine.why_no_gpu()


def shared_folder() -> Path:
    """A new folder for the processes of one distributed session."""
    return Path(tempfile.mkdtemp(prefix="kernelpin-session-"))
