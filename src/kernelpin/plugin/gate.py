"""What a session as a whole came to: its report, and what must not pass in silence."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelpin.plugin.settings import (
    baselines_folder,
    ci_variable,
    is_xdist_worker,
    report_folder,
)
from kernelpin.plugin.timings import SHARED, Timings, shared_folder

if TYPE_CHECKING:
    from kernelpin.report import Report
    from kernelpin.session import Judged

_COLLECTED = "kernelpin_collected"


class Gate:
    """Counts what ran, writes the report, and fails a session that checked less than it says."""

    def __init__(self, config: pytest.Config, timings: Timings) -> None:
        self.config = config
        self.timings = timings
        self.kinds: dict[str, str] = {}
        self.on_gpu: set[str] = set()
        self.ran: set[str] = set()
        self.others: set[str] = set()
        self.skips: Counter[str] = Counter()
        self.rows: dict[str, dict[str, Any]] = {}
        self.collected: list[str] = []
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.recorded = 0
        self.report: Report | None = None
        self.annotations: list[str] = []
        self._shared: Path | None = None

    # -- counting ----------------------------------------------------------------------------------

    def pytest_runtest_logreport(self, report: Any) -> None:
        told = getattr(report, "kernelpin", None)
        if told is None:
            self.others.add(report.nodeid)
            return
        self.kinds[report.nodeid] = told["kind"]
        if told["gpu"] or (told["row"] is not None and told["row"]["gpu"] is not None):
            self.on_gpu.add(report.nodeid)
        if told["row"] is not None:
            self.rows[report.nodeid] = told["row"]
        is_xfail = hasattr(report, "wasxfail")
        if report.skipped and not is_xfail:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "skipped"
            self.skips[reason.removeprefix("Skipped: ")] += 1
        elif report.when == "call" or report.failed or is_xfail:
            self.ran.add(report.nodeid)

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
        self.collected = self.collected or getattr(node, "workeroutput", {}).get(_COLLECTED, [])

    # -- the end -----------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if is_xdist_worker(self.config):
            self.config.workeroutput[_COLLECTED] = self.timings.collected  # type: ignore[attr-defined]
            return
        self.collected = self.collected or self.timings.collected
        judged = self._judged()
        self.recorded = 0 if judged is None else judged.recorded
        if self._shared is not None:
            shutil.rmtree(self._shared, ignore_errors=True)
        finished = exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        )
        if self.config.option.collectonly or exitstatus == pytest.ExitCode.USAGE_ERROR:
            return
        if finished:
            self._look_for_silence(judged)
        if self.rows or self.problems:
            self._write(judged)
        if self.problems and finished:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _judged(self) -> Judged | None:
        if self._shared is None:
            return self.timings.judged
        told = self._shared / "judged.json"
        if not told.exists():
            return None
        from msgspec.json import decode

        from kernelpin.session import Judged

        return decode(told.read_bytes(), type=Judged)

    def _look_for_silence(self, judged: Judged | None) -> None:
        """Find what would leave a gate green that checked nothing."""
        asked = asks_for_gpu(self.config.getoption("markexpr", "") or "")
        if self.config.getoption("--kernelpin-require-gpu") and not self.ran & self.on_gpu:
            self.problems.append(f"no GPU test ran: {self._why_none()}")
        ci = ci_variable()
        ours = self._ours(asked)
        if ci is not None and (ours or asked):
            if not ours and not self.others:
                self.problems.append(
                    f"-m {self.config.getoption('markexpr')!r} selected no test: "
                    "is the marker gpu gone, or the path wrong?"
                )
            elif not self.problems and not self.ran & ours and not self.others:
                self.problems.append(
                    f"every kernelpin test was skipped, and nothing else ran: {self._reasons()}"
                )
            elif not self.problems and ours & self.on_gpu and not self.ran & self.on_gpu:
                if self._has_gpu():
                    self.problems.append(f"every GPU test was skipped: {self._reasons()}")
        orphans = self._orphans(judged)
        if orphans and ci is not None:
            self.problems.append(_orphaned(orphans))
        elif orphans:
            self.warnings.append(_orphaned(orphans))
        if judged is not None:
            self.warnings += judged.warnings
            if judged.unclear is not None:
                self.problems.append(judged.unclear)

    def _ours(self, asked: bool) -> set[str]:
        """The tests the rules for CI are about.

        A marker named gpu alone is anybody's: it counts beside a test that uses our fixtures, or
        where it was asked for.
        """
        ours = {id_ for id_, kind in self.kinds.items() if kind != "gpu"}
        if ours or asked:
            return set(self.kinds)
        self.others |= set(self.kinds)
        return set()

    def _has_gpu(self) -> bool:
        from kernelpin import machine

        return machine.gpu_present()

    def _why_none(self) -> str:
        from kernelpin import machine

        why = machine.why_no_gpu()
        if why:
            return why
        return f"all were skipped: {self._reasons()}" if self.on_gpu else "none was selected"

    def _reasons(self) -> str:
        told = [f"{reason} ({number})" for reason, number in self.skips.most_common(3)]
        more = len(self.skips) - 3
        return "; ".join([*told, f"{more} other reasons"] if more > 0 else told) or "no reason told"

    def _orphans(self, judged: Judged | None) -> list[str]:
        """Baselines of this GPU whose test is gone, as far as this run can know."""
        slug = judged.slug if judged is not None else None
        if slug is None:
            names = [row["gpu"] for row in self.rows.values() if row["gpu"] is not None]
            if not names:
                return []
            from kernelpin.trace import slugify

            slug = slugify(names[0])
        if self.config.getoption("lf", False) or not baselines_folder(self.config).is_dir():
            return []
        from kernelpin.baselines import BaselineError, Store

        try:
            found = Store(baselines_folder(self.config)).orphans(
                slug, self.collected, complete=True
            )
        except BaselineError:
            return []  # said by the tests that need the file
        known = {nodeid.split("::", 1)[0] for nodeid in self.collected}
        return [id_ for id_ in found if self._was_looked_at(id_.split("::", 1)[0], known)]

    def _was_looked_at(self, module: str, known: set[str]) -> bool:
        """Whether this run would have collected the module's tests, were they there."""
        path = self.config.rootpath / module
        arguments = [str(argument) for argument in self.config.args]
        if any("::" in a and _resolved(self.config, a) == path for a in arguments):
            return False
        whole = [_resolved(self.config, a) for a in arguments if "::" not in a]
        if not any(path == place or place in path.parents for place in whole):
            return False
        ignores = self.config.getoption("ignore", None) or self.config.getoption(
            "ignore_glob", None
        )
        return module in known or (not ignores)

    # -- the report ------------------------------------------------------------------------------

    def _write(self, judged: Judged | None) -> None:
        from kernelpin.report import publish

        self.report = self._report(judged)
        try:
            self.annotations = publish(
                self.report, report_folder(self.config), rootdir=self.config.rootpath
            )
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
            warnings=tuple(self.warnings),
            proposed=_proposed(folder, judged),
            commit=commit_of(self.config.rootpath),
            ci=ci_variable() is not None,
            seconds=None if judged is None else judged.seconds,
        )

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
        for warning in report.warnings:
            terminalreporter.write_line(f"warning: {warning}", yellow=True)
        for problem in self.problems:
            terminalreporter.write_line(f"error: {problem}", red=True, bold=True)
        terminalreporter.write_line(headline(report))
        if self.recorded:
            where = shown(baselines_folder(self.config))
            plural = "s" if self.recorded > 1 else ""
            terminalreporter.write_line(f"recorded: {self.recorded} baseline{plural} in {where}")
        folder = report_folder(self.config)
        if folder is not None:
            terminalreporter.write_line(f"report: {shown(folder)}")
        if report.proposed is not None:
            terminalreporter.write_line(
                f"proposed baselines: kernelpin baselines accept {report.proposed}"
            )
        for annotation in self.annotations:
            terminalreporter.write_line(annotation)


def forget_report(folder: Path) -> None:
    """Remove what an earlier report left that a later one need not replace: its own files alone."""
    try:
        told = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        traces = [row.get("trace") for row in told["rows"]]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return  # no report of ours: nothing in this folder is ours to remove
    shutil.rmtree(folder / "proposed", ignore_errors=True)
    for trace in traces:
        if isinstance(trace, str) and not Path(trace).is_absolute() and ".." not in trace:
            (folder / trace).unlink(missing_ok=True)


def asks_for_gpu(expression: str) -> bool:
    """Whether `-m` selects GPU tests: `gpu`, `gpu and not slow`; not `not gpu`."""
    return re.search(r"(?<!not )\bgpu\b", expression) is not None


def _proposed(folder: Path | None, judged: Judged | None) -> str | None:
    if folder is None or judged is None or not judged.proposed:
        return None
    from kernelpin.session import shown

    return shown(folder / "proposed")


def _orphaned(orphans: list[str]) -> str:
    shown = ", ".join(orphans[:3]) + (f" and {len(orphans) - 3} more" if len(orphans) > 3 else "")
    return (
        f"baselines without a test: {shown}; renamed? record the new name. gone? "
        "kernelpin baselines prune --yes"
    )


def _resolved(config: pytest.Config, argument: str) -> Path:
    return (config.invocation_params.dir / argument.split("::", 1)[0]).resolve()
