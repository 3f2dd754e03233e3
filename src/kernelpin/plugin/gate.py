"""What a session as a whole came to: its report, and what must not pass in silence."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelpin.plugin.settings import (
    baselines_folder,
    ci_variable,
    is_xdist_worker,
    report_folder,
    runs_tests,
)
from kernelpin.plugin.silence import (
    Tally,
    cut_off,
    never_ran,
    nothing_checked,
    swallowed,
    unregistered,
    without_gpu,
)
from kernelpin.plugin.stale import stale, was_filtered
from kernelpin.plugin.timings import SHARED, Timings, shared_folder
from kernelpin.plugin.traces import kind_of

if TYPE_CHECKING:
    from kernelpin.plugin.ending import Ending
    from kernelpin.report import Report
    from kernelpin.session import Judged

_COLLECTED = "kernelpin_collected"
_SELECTED = "kernelpin_selected"
_FILTERED = "kernelpin_filtered"


class Gate:
    """Counts what ran, writes the report, and fails a session that checked less than it says."""

    def __init__(self, config: pytest.Config, timings: Timings, ending: Ending) -> None:
        self.config = config
        self.timings = timings
        self.ending = ending
        self.tally = Tally()
        self.rows: dict[str, dict[str, Any]] = {}
        self.collected: list[str] = []
        self.skipped: list[pytest.CollectReport] = []  # modules that were, while being collected
        self.selected: dict[str, str] | None = None
        self.filtered = False
        self.hidden: set[str] = set()  # judged failed, reported as something else
        self.expected: set[str] = set()  # judged failed, marked xfail
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.recorded = 0
        self.known = 0
        self.report: Report | None = None
        self.has_written = False
        self.annotations: list[str] = []
        self._collects = False  # a run was asked for, not `--fixtures` or the like
        self._has_all = False  # and collected to its end
        self._looked = False  # for what must not pass in silence
        self._shared: Path | None = None

    # -- counting ----------------------------------------------------------------------------------

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.tally.add(report)
        told = getattr(report, "kernelpin", None)
        if report.outcome == "rerun":
            return  # what it comes to is yet to be seen
        if told is not None and told["row"] is not None:
            known_to_fail = self.rows.get(report.nodeid, {}).get("failed", False)
            if known_to_fail and not told["row"]["failed"]:
                return  # a subtest failed, and the test around it came to its end
            self.rows[report.nodeid] = told["row"]
            self.hidden.discard(report.nodeid)
            self.expected.discard(report.nodeid)
            if told["row"]["failed"] and report.outcome in ("passed", "skipped"):
                known = hasattr(report, "wasxfail")
                (self.expected if known else self.hidden).add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.skipped += [report] if report.skipped else []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Iterator[None]:
        self._collects = True
        result = yield
        self._has_all = True
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        kinds = {item.nodeid: kind_of(item) for item in session.items}
        self.selected = {id_: kind for id_, kind in kinds.items() if kind is not None}

    def pytest_sessionstart(self) -> None:
        folder = report_folder(self.config)
        if folder is not None and not is_xdist_worker(self.config):
            forget_report(folder)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give xdist's processes one folder, so that one of them measures for all."""
        if self._shared is None:
            self._shared = shared_folder()
        node.workerinput[SHARED] = str(self._shared)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        told = getattr(node, "workeroutput", {})
        self.collected = self.collected or told.get(_COLLECTED, [])
        self.selected = told.get(_SELECTED) if self.selected is None else self.selected
        self.filtered = self.filtered or told.get(_FILTERED, False)

    # -- the end -----------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Iterator[None]:
        self._finish(session, exitstatus)
        failing = session.exitstatus == pytest.ExitCode.TESTS_FAILED
        result = yield
        # Another hook may have set it after us, and the summary is written by now.
        failed = self._failed()
        if failing and session.exitstatus == pytest.ExitCode.OK and (failed or self.problems):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            reporter: Any = self.config.pluginmanager.getplugin("terminalreporter")
            if failed and reporter is not None:
                reporter.write_line(f"error: {swallowed(failed)}", red=True, bold=True)
        return result

    def _finish(self, session: pytest.Session, exitstatus: int) -> None:
        if is_xdist_worker(self.config):
            self.config.workeroutput.update(  # type: ignore[attr-defined]
                {
                    _COLLECTED: self.timings.collected,
                    _SELECTED: self.selected,
                    _FILTERED: was_filtered(self.config),
                }
            )
            return
        self.collected = self.collected or self.timings.collected
        self.filtered = self.filtered or was_filtered(self.config)
        judged = self._judged()
        self.recorded = 0 if judged is None else judged.recorded
        self.known = 0 if judged is None else judged.known
        if self._shared is not None:
            shutil.rmtree(self._shared, ignore_errors=True)
        finished = exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        )
        if not self._is_run or exitstatus == pytest.ExitCode.USAGE_ERROR:
            return
        if finished:
            self._look_for_silence(judged, exitstatus)
        if self.rows or self.problems or self.warnings:
            self._write(judged)
        if self.problems and finished:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @property
    def _is_run(self) -> bool:
        if not runs_tests(self.config):
            return False
        return self._collects or self.ending.exit is not None

    def unheeded(self) -> str | None:
        """Why a session that ended green is not, where its end was kept from us or overruled."""
        if failed := self._failed():
            return swallowed(failed)
        if self._looked:
            return next(iter(self.problems), None)
        ci, selected = ci_variable() is not None, self.selected or {}
        gone = unregistered(selected, self.config) if ci else None
        if gone is None and not self._is_run:
            return None
        early = self._cut_short()
        if self.ending.exit is None:  # a part that was taken out saw no test run
            early = gone or early
        early = early or gone
        if early is not None:
            self.problems.append(early)
            self._write(None)
            for annotation in self.annotations:
                print(annotation)
        return early

    def _cut_short(self) -> str | None:
        """What is wrong with a session that ended green before its tests had run."""
        ci, message = ci_variable() is not None, self.ending.exit
        selected = self.selected or {}
        early = never_ran(self.tally, selected, message, self.config) if ci else None
        asked = ci or self.config.getoption("--kernelpin-require-gpu")
        if early is not None or message is None or self._has_all or not asked:
            return early
        return cut_off(message, selected, self.config)

    def _failed(self) -> list[str]:
        """The tests that were judged failed, and not expected to."""
        failed = (id_ for id_, row in self.rows.items() if row["failed"])
        return [id_ for id_ in failed if id_ not in self.expected]

    def _judged(self) -> Judged | None:
        if self._shared is None:
            return self.timings.judged
        told = self._shared / "judged.json"
        if not told.exists():
            return None
        from msgspec.json import decode

        from kernelpin.session import Judged

        return decode(told.read_bytes(), type=Judged)

    def _look_for_silence(self, judged: Judged | None, exitstatus: int) -> None:
        """Find what would leave a gate green that checked nothing."""
        self._looked = True
        ci = ci_variable() is not None
        green = exitstatus == pytest.ExitCode.OK
        silent = self._cut_short() if green else None
        if silent is None and self.config.getoption("--kernelpin-require-gpu"):
            silent = without_gpu(self.tally, self.config)
        if silent is None and ci:
            silent = nothing_checked(self.tally, self.config)
        self.problems += [silent] if silent is not None else []
        failed = self._failed()
        hidden = failed if green else sorted(self.hidden)
        self.problems += [swallowed(hidden)] if hidden else []
        self._look_for_stale(judged, ci=ci)
        gone = unregistered(self.selected or {}, self.config)
        self.problems += [gone] if ci and gone is not None else []
        if judged is not None:
            self.warnings += judged.warnings
            self.problems += [judged.unclear] if judged.unclear is not None else []

    def _look_for_stale(self, judged: Judged | None, *, ci: bool) -> None:
        """Find baselines that no test is checked against, unless `--lf` hid the tests."""
        if self.filtered or self.selected is None:
            return
        failed = self._failed()
        found = stale(
            self.config, self._slug(judged), self.collected, failed, self.tally, self.skipped
        )
        (self.problems if ci else self.warnings).extend(found.told)
        self.warnings += found.passed_over

    def _slug(self, judged: Judged | None) -> str | None:
        """The GPU this session ran on."""
        if judged is not None and judged.slug is not None:
            return judged.slug
        live = [row for row in self.rows.values() if row["source"] == "live"]
        names = [row["gpu"] for row in live if row["gpu"] is not None]
        if not names:
            return None
        from kernelpin.trace import slugify

        return slugify(names[0])

    # -- the report ------------------------------------------------------------------------------

    def _write(self, judged: Judged | None) -> None:
        from kernelpin.report import publish

        self.report = self._report(judged)
        try:
            self.annotations = publish(
                self.report, report_folder(self.config), rootdir=self.config.rootpath
            )
            self.has_written = True
        except OSError as error:
            self.problems.append(f"the report could not be written: {error}")

    def _report(self, judged: Judged | None) -> Report:
        from msgspec import convert

        from kernelpin.report import Report, Row
        from kernelpin.session import commit_of, differences_of

        rows = tuple(convert(row, Row) for row in self.rows.values())
        folder = report_folder(self.config)
        gpus = [row.gpu for row in rows if row.gpu is not None and row.source == "live"]
        return Report(
            rows=rows,
            gpu=(judged.gpu if judged is not None else None) or next(iter(gpus), None),
            environment=() if judged is None else judged.environment,
            differences=() if judged is None else differences_of(judged.changes),
            problems=tuple(self.problems),
            warnings=(*self.warnings, *self._failed_beside()),
            proposed=_proposed(folder, judged),
            commit=commit_of(self.config.rootpath),
            ci=ci_variable() is not None,
            seconds=None if judged is None else judged.seconds,
        )

    def _failed_beside(self) -> Iterator[str]:
        """What the report says of failed tests that it has no row for; pytest itself lists them."""
        beside = sorted(self.tally.failed - self.rows.keys())
        if beside:
            more = f" and {len(beside) - 3} more" if len(beside) > 3 else ""
            told = ", ".join(beside[:3]) + more
            yield f"failed beside these, and no checks of kernelpin's: {told}"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        report = self.report
        if report is None or terminalreporter.verbosity < -1:
            return
        from kernelpin.report import headline
        from kernelpin.session import shown

        terminalreporter.section("kernelpin")
        for row in report.rows:
            if row.is_news and not row.failed:
                terminalreporter.write_line(f"{row.outcome}: {row.nodeid}: {row.reason}")
        for warning in self.warnings:
            terminalreporter.write_line(f"warning: {warning}", yellow=True)
        for problem in self.problems:
            terminalreporter.write_line(f"error: {problem}", red=True, bold=True)
        terminalreporter.write_line(headline(report))
        if self.recorded:
            where = shown(baselines_folder(self.config))
            plural = "s" if self.recorded > 1 else ""
            known = f", {self.known} of them stored already" if self.known else ""
            terminalreporter.write_line(
                f"recorded: {self.recorded} baseline{plural} in {where}{known}"
            )
        folder = report_folder(self.config)
        if folder is not None and self.has_written:
            terminalreporter.write_line(f"report: {shown(folder)}")
        if report.proposed is not None and self.has_written:
            terminalreporter.write_line(
                f"proposed baselines: kernelpin baselines accept {report.proposed}"
            )
        for annotation in self.annotations:
            terminalreporter.write_line(annotation)


def forget_report(folder: Path) -> None:
    """Remove the files of an earlier report that a later one need not replace.

    Only what such a report writes goes: `proposed/<gpu>/<module>.json` and `traces/<test>.json.gz`
    that it names. A report that cannot be read removes nothing, and nothing here raises.
    """
    from kernelpin.report.schema import SCHEMA

    report = folder / "report.json"
    try:
        # A pipe of that name would never end.
        told = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else None
        if not isinstance(told, dict) or told.get("schema") != SCHEMA:
            return
        rows = told.get("rows")
        files = list((folder / "proposed").glob("*/*.json"))
    except (OSError, ValueError, RecursionError):
        return
    for row in rows if isinstance(rows, list) else ():
        trace = row.get("trace") if isinstance(row, dict) else None
        parts = trace.split("/") if isinstance(trace, str) else []
        if len(parts) == 2 and parts[0] == "traces" and parts[1].endswith(".json.gz"):
            files.append(folder / "traces" / parts[1])
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            # Through a link it would be another folder's.
            if file.is_file() and file.resolve() == folder.resolve() / file.relative_to(folder):
                file.unlink()
    for emptied in {file.parent for file in files if file.parent.name != "traces"}:
        with contextlib.suppress(OSError):
            emptied.rmdir()
    with contextlib.suppress(OSError):
        (folder / "proposed").rmdir()


def _proposed(folder: Path | None, judged: Judged | None) -> str | None:
    if folder is None or judged is None or not judged.proposed:
        return None
    from kernelpin.session import shown

    return shown(folder / "proposed")
