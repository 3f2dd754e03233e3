"""Inside a worker: the pytest plugin that runs the ordered tests and writes what they measure."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from filelock import Timeout

from kernelpin.machine import current_gpu, device_lock
from kernelpin.stopwatch import Samples, Stopwatch, fresh_compiler
from kernelpin.workers.lifeline import watch_session
from kernelpin.workers.result import (
    NO_SUCH_TEST,
    NOT_COLLECTED,
    Event,
    Order,
    WorkerResult,
    decode,
    encode,
)
from kernelpin.workers.watch import Deferred, Phase, Watch

if TYPE_CHECKING:
    from kernelpin.base.loaded import Loaded

_ONE_TEST_S = 60.0
_SIGN_OF_LIFE_S = 2.0
_HELD_POLL_S = 0.02
# Imported on a first compilation, which takes as long as importing torch.
_COMPILER = ("torch._dynamo", "torch._inductor.compile_fx")


class Bench:
    """Runs the tests in two passes: all timing first, then whatever needs the profiler.

    A process that has profiled is slower for good at launching small kernels, so that nothing may
    be timed after the first trace was taken.
    """

    def __init__(self, file: Path) -> None:
        self.order = decode(file.read_bytes(), Order)
        watch_session(self.order.session, file.parent)
        self.phase = Phase.TIME
        self.watch: Watch | None = None
        self._out = open(self.order.results, "ab", buffering=0)  # noqa: SIM115 - the process's own
        self._uncollected: list[str] = []
        self._reports: list[pytest.TestReport] = []
        self._body_passed = False
        self._was_deferred = False
        self._earlier: dict[str, Samples] = {}
        self._started = time.monotonic()
        self._loaded = _loaded()
        self._output_file = Path(self.order.output)
        self._output_start = 0

    def new_watch(self, item: pytest.Item) -> Watch:
        """The stopwatch of the test that runs now."""
        left = self.order.budget_s - (time.monotonic() - self._started)
        stopwatch = Stopwatch(budget_s=max(1.0, min(_ONE_TEST_S, left)))
        self.watch = Watch(self.phase, stopwatch, self._earlier.get(item.nodeid))
        return self.watch

    # -- hooks ---------------------------------------------------------------------------------

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.showfspath = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._uncollected.append(report.longreprtext)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep what was ordered, in that order, whatever other plugins selected."""
        found = {item.nodeid: item for item in session.items}
        session.items[:] = [found[id_] for id_ in self.order.nodeids if id_ in found]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if self.order.held:
            self._wait_for_order(Path(self.order.held))
        if not self.order.nodeids:
            return True  # not needed after all
        self._say(Event("ready", text="on the GPU" if _is_on_gpu() else ""))
        collected = {item.nodeid: item for item in session.items}
        items = [collected[id_] for id_ in self.order.nodeids if id_ in collected]
        found = set(collected)
        for nodeid in self.order.nodeids:
            if nodeid not in found:
                self._say_missing(nodeid)
        with self._gpu_to_itself():
            deferred = self._run(items)
            self.phase = Phase.PROFILE
            self._run(deferred)
            if self.order.kernels:
                self._run([item for item in items if item.nodeid in self._earlier])
        self._say(Event("loaded", text=" ".join(name for name in _COMPILER if name in sys.modules)))
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        if call.when == "call":
            # An xfail that passes is reported failed, though its body came to its end.
            self._body_passed = call.excinfo is None
        if call.excinfo is not None and isinstance(call.excinfo.value, Deferred):
            self._was_deferred = True
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self) -> tuple[str, str, str]:
        """Keep the terminal's own letters and summary out of what the tests write."""
        return "", "", ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._output_start = self._where_output_ends()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    # -- one pass ------------------------------------------------------------------------------

    def _run(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Run each; those that asked for the profiler too early come back."""
        deferred: list[pytest.Item] = []
        for index, item in enumerate(items):
            nextitem = items[index + 1] if index + 1 < len(items) else None
            self._reports, self.watch = [], None
            self._body_passed = self._was_deferred = False
            self._say(Event("start", item.nodeid))
            started = time.monotonic()
            _prepare()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            if self._was_deferred:
                deferred.append(item)
                self._say(Event("deferred", item.nodeid))
            elif item.nodeid in self._earlier:
                kernels = None if self.watch is None else self.watch.kernels
                self._say(Event("kernels", item.nodeid, kernels=kernels))
            else:
                result = self._result(item, time.monotonic() - started)
                self._say(Event("result", item.nodeid, result=result))
            gc.collect()
        return deferred

    def _result(self, item: pytest.Item, duration: float) -> WorkerResult:
        watch = self.watch
        samples = watch.samples if watch is not None else None
        if samples is not None and self.phase is Phase.TIME:
            self._earlier[item.nodeid] = samples
        outcome, report = self._outcome()
        told = {} if report is None else _told(report, outcome)
        return WorkerResult(
            nodeid=item.nodeid,
            outcome=outcome,
            output=self._output() if outcome == "failed" else "",
            samples=samples,
            below=watch.below if watch is not None else None,
            above=watch.above if watch is not None else None,
            gpu=watch.gpu if watch is not None else None,
            duration=duration,
            foreign=(self._loaded.foreign() or "") if self._loaded is not None else "",
            **told,
        )

    def _outcome(self) -> tuple[str, pytest.TestReport | None]:
        for report in self._reports:
            if self._body_passed and _is_unexpected_pass(report):
                continue
            if report.skipped:
                return ("xfailed" if hasattr(report, "wasxfail") else "skipped"), report
            if report.failed:
                return "failed", report
        return "passed", None

    def _say_missing(self, nodeid: str) -> None:
        why = self._uncollected or [NO_SUCH_TEST]
        found = "\n".join([NOT_COLLECTED, *why])
        self._say(Event("result", nodeid, WorkerResult(nodeid, "failed", NOT_COLLECTED, found)))

    def _say(self, event: Event) -> None:
        self._out.write(encode(event) + b"\n")

    def _wait_for_order(self, file: Path) -> None:
        """Wait, all imported and nothing of the GPU touched, until another worker has ended."""
        for name in self.order.preload:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        while not file.exists():
            time.sleep(_HELD_POLL_S)
        self.order = decode(file.read_bytes(), Order)
        self._started = time.monotonic()

    # -- the machine ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def _gpu_to_itself(self) -> Iterator[None]:
        """Wait until no other measuring process of this user is at work on the GPU."""
        gpu = current_gpu()
        if gpu is None:
            yield
            return
        lock = device_lock(gpu.uuid)
        while True:
            try:
                lock.acquire(timeout=_SIGN_OF_LIFE_S)
                break
            except Timeout:
                self._say(Event("waiting", text="another session measures on this GPU"))
        try:
            yield
        finally:
            lock.release()

    def _where_output_ends(self) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        return self._output_file.stat().st_size if self._output_file.exists() else 0

    def _output(self) -> str:
        """What the test wrote, its last 16 kB."""
        end = self._where_output_ends()
        if not end:
            return ""
        with self._output_file.open("rb") as file:
            file.seek(max(self._output_start, end - 16_384))
            return file.read().decode(errors="replace").strip()


def _is_unexpected_pass(report: pytest.TestReport) -> bool:
    """Whether all that failed is xfail(strict=True); the session that asked judges that.

    Any other failure counts though the body came to its end: that of a subtest, or a check's.
    """
    told = report.longrepr
    return report.failed and isinstance(told, str) and told.startswith("[XPASS(strict)]")


def _loaded() -> Loaded | None:
    """What a worker of the base asks of its modules; nothing of that is imported in any other."""
    if not os.environ.get("KERNELPIN_HEADS_CODE"):
        return None
    from kernelpin.base.loaded import loaded

    return loaded()


def _is_on_gpu() -> bool:
    """Whether collecting the tests has used the GPU already."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def _told(report: pytest.TestReport, outcome: str) -> dict[str, Any]:
    """What a report says of why the test did not pass: message, longrepr, path, line."""
    told: dict[str, Any] = {"longrepr": report.longreprtext, "message": ""}
    crash = getattr(report.longrepr, "reprcrash", None)
    if isinstance(report.longrepr, tuple):
        path, told["line"], told["message"] = report.longrepr
        told["path"] = str(path)
    elif crash is not None:
        told |= {"path": str(crash.path), "line": crash.lineno, "message": crash.message}
    if outcome == "xfailed":
        told["message"] = report.wasxfail
    if report.when != "call" and outcome == "failed":
        told["longrepr"] = f"in the test's {report.when}:\n{told['longrepr']}"
    return told


def _prepare() -> None:
    """Give each test the same start: seeded, and no code compiled for another shape."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(0)
        fresh_compiler()
        if torch.cuda.is_initialized():
            # Where memory comes from should not depend on which tests ran before.
            torch.cuda.empty_cache()
