"""Tests that read traces: `capture_trace`, the trace a failure leaves, and how it is shown."""

from __future__ import annotations

import gzip
import hashlib
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelpin.plugin.claimed import Claimed, is_claim, is_finding, is_wrong_claim, outcome_of
from kernelpin.plugin.settings import processes, report_folder
from kernelpin.plugin.timings import (
    CASE,
    ROW,
    TEXT,
    CheckFailed,
    measures,
    row_told,
    uses_ours,
    why_no_gpu,
)

if TYPE_CHECKING:
    from kernelpin.claims import ClaimFailed
    from kernelpin.trace import Trace

CAPTURED: pytest.StashKey[TraceCapture] = pytest.StashKey()
BASETEMP: pytest.StashKey[pytest.TempPathFactory] = pytest.StashKey()
CLAIMED: pytest.StashKey[Claimed] = pytest.StashKey()
_PACKAGE = Path(__file__).resolve().parents[1]
_MOST_SAVED = 4


class TraceCapture:
    """Captures traces as `kernelpin.capture` does; keeps their JSON until the test has ended.

    `asked`: whether the test called it, whatever came of that.
    """

    def __init__(self, *, locks: bool = True) -> None:
        self.kept: list[tuple[Trace | None, bytes]] = []
        self.asked = False
        self._locks = locks

    def __call__(self, fn: Any, *args: Any, steps: int = 3) -> Trace:
        """Return the trace of `steps` warm calls of `fn(*args)`."""
        from kernelpin.profiling import IncompleteCapture, record

        self.asked = True
        try:
            with self._gpu_to_itself():
                recording = record(fn, *args, steps=steps)
        except IncompleteCapture as error:
            self.kept.append((None, error.data))
            raise
        self.kept.append((recording.trace, recording.data))
        return recording.trace

    def _gpu_to_itself(self) -> AbstractContextManager[Any]:
        """Keep out of the way of another session that measures on this GPU."""
        torch: Any = sys.modules.get("torch")
        if not self._locks or torch is None or not torch.cuda.is_initialized():
            return nullcontext()
        from kernelpin.machine import current_gpu, device_lock

        gpu = current_gpu()
        return nullcontext() if gpu is None else device_lock(gpu.uuid)

    def json_of(self, trace: Trace) -> bytes:
        """Return the JSON of a trace that this fixture captured; ValueError for another one."""
        for kept, payload in self.kept:
            if kept is trace:
                return payload
        raise ValueError("this trace was not captured by this test's capture_trace")


class Traces:
    """Shows failed claims without the reader's frames, and saves the traces they are about."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._why_no_gpu: str | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a live test of ours where there is no GPU, before its fixtures look for one."""
        if not self._looks_for_a_gpu(item):
            return
        if self._why_no_gpu is None:
            self._why_no_gpu = why_no_gpu()
        if self._why_no_gpu:
            pytest.skip(f"no GPU: {self._why_no_gpu}")

    def _looks_for_a_gpu(self, item: pytest.Item) -> bool:
        kind = kind_of(item)
        if kind == "stopwatch":  # measured in place, its fixtures are set up here
            return processes(self.config) == 0 and needs_gpu(item)
        if kind != "trace" or item.get_closest_marker("gpu") is None:
            return False
        return self.config.getoption("--kernelpin-replay") is None

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Note what the test claims, next to its body: a conftest may eat what comes out of it."""
        item.stash[CLAIMED] = claimed = Claimed()
        with claimed.noting():
            try:
                return (yield)
            except BaseException as error:
                claimed.error = error if is_finding(error) else None
                raise

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        report: Any = yield
        error = None if call.excinfo is None else call.excinfo.value
        saved: list[Path] = []
        if report.failed and CAPTURED in item.stash:
            try:
                saved = self._save(item, error)
            except OSError as unwritten:  # the claim still has to be told
                told = f"the trace could not be written: {unwritten}"
                report.sections.append(("kernelpin", told))
        if isinstance(error, CheckFailed) and call.excinfo is not None and report.failed:
            show_judgement(item, report, call.excinfo)
        elif report.failed and call.excinfo is not None and is_claim(error):
            show_claim(item, report, call.excinfo)
        elif saved:
            report.sections.append(("kernelpin", "\n".join(f"trace: {path}" for path in saved)))
        elif report.skipped and isinstance(report.longrepr, tuple) and from_here(report):
            report.longrepr = (str(item.path), (item.location[1] or 0) + 1, report.longrepr[2])
        elif report.skipped and item.stash.get(TEXT, ""):
            report.longrepr = item.stash[TEXT]  # an xfail shows the worker's traceback, not ours
        claimed = item.stash.get(CLAIMED, Claimed()) if report.when != "setup" else Claimed()
        found = error if is_finding(error) else claimed.error if report.when == "call" else None
        refused = report.failed and is_wrong_claim(error)
        carried = self._told(item, report, saved, claimed, found, refused)
        if carried is not None:
            # Carried by the report, since with xdist the session's end is in another process.
            report.kernelpin = carried
        if report.when == "teardown":
            _forget(item)
        return report  # type: ignore[no-any-return]

    def _told(
        self,
        item: pytest.Item,
        report: Any,
        saved: list[Path],
        claimed: Claimed,
        found: BaseException | None,
        refused: bool,
    ) -> dict[str, Any] | None:
        kind = kind_of(item)
        if kind in (None, "gpu") and (claimed.any or found is not None or refused):
            kind = "trace"
        if kind is None:
            return None
        told: dict[str, Any] = {"kind": kind, "gpu": needs_gpu(item), "row": None}
        final = report.when == "call" or (report.when == "setup" and not report.passed)
        if not final and not report.failed:
            return told
        if ROW in item.stash and not (report.when == "teardown" and report.failed):
            told["row"] = item.stash[ROW]
        elif kind in ("stopwatch", "trace"):
            told["row"] = row_told(_row(item, report, saved, self.config, claimed, found))
        return told

    def _save(self, item: pytest.Item, error: BaseException | None) -> list[Path]:
        """Write the traces of a failed test: the one its claim is about, else what it captured."""
        kept = item.stash[CAPTURED].kept
        about = error.finding.trace if is_claim(error) else None
        chosen = [pair for pair in kept if pair[0] is about] or ([] if about else kept)
        if not chosen:
            return []
        folder = self._folder(item)
        if folder is None:
            return []
        folder.mkdir(parents=True, exist_ok=True)
        saved: list[Path] = []
        for number, (_, payload) in enumerate(chosen[-_MOST_SAVED:], 1):
            name = file_name(item.nodeid) + (f"-{number}" if len(chosen) > 1 else "")
            path = folder / f"{name}.json.gz"
            path.write_bytes(gzip.compress(payload, mtime=0))
            saved.append(path)
        if is_claim(error) and saved:
            error.finding = error.finding.saved_as(str(saved[0]))
        return saved

    def _folder(self, item: pytest.Item) -> Path | None:
        report = report_folder(self.config)
        if report is not None:
            return report / "traces"
        base = item.stash.get(BASETEMP, None)
        return None if base is None else base.getbasetemp() / "kernelpin-traces"


def kind_of(item: pytest.Item) -> str | None:
    """`stopwatch`, `trace` (uses capture_trace), `gpu` (marked so, or by `kernelpin`), or None."""
    if CASE in item.stash or measures(item):
        return "stopwatch"
    if uses_ours(item, "capture_trace"):
        return "trace"
    if item.get_closest_marker("kernelpin") or item.get_closest_marker("gpu"):
        return "gpu"
    return None


def needs_gpu(item: pytest.Item) -> bool:
    """Whether the test is one that a GPU runs: marked so, or timed and not for the CPU."""
    if item.get_closest_marker("gpu") is not None:
        return True
    return measures(item) and item.get_closest_marker("cpu") is None


def from_here(report: Any) -> bool:
    """Whether a skip was raised by the plugin: it is then told at the test."""
    return _PACKAGE in Path(report.longrepr[0]).resolve().parents


def _forget(item: pytest.Item) -> None:
    """Let go of the test's traces: the session keeps its items to the end."""
    if CAPTURED in item.stash:
        del item.stash[CAPTURED]
    if CLAIMED in item.stash:
        del item.stash[CLAIMED]


def file_name(nodeid: str) -> str:
    """A file's name for a test: its id without what shells and file systems mind."""
    plain = re.sub(r"[^A-Za-z0-9_.=-]+", "-", nodeid).strip("-.")
    if len(plain) <= 120:
        return plain
    return f"{plain[:110]}-{hashlib.sha256(nodeid.encode()).hexdigest()[:8]}"


def show_judgement(item: pytest.Item, report: Any, excinfo: pytest.ExceptionInfo[Any]) -> None:
    """Show a judged failure at the test, its first line alone as the summary's."""
    judgement = excinfo.value.judgement
    report.longrepr = excinfo.getrepr(style="value", chain=False)
    text = judgement.text or "\n".join(f"E  {line}" for line in judgement.message.splitlines())
    _show(report, text, judgement.message.split("\n", 1)[0])
    _place(report, item, judgement.path, judgement.line)
    if judgement.output:
        report.sections.append(("Captured output of the measuring process", judgement.output))


def show_claim(item: pytest.Item, report: Any, excinfo: pytest.ExceptionInfo[Any]) -> None:
    """Show a failed claim as its message and the line that made it."""
    error: ClaimFailed = excinfo.value
    report.longrepr = excinfo.getrepr(style="value", chain=False)
    lines = [f"E  {line}" for line in str(error).splitlines()]
    path = line = None
    for entry in excinfo.traceback:
        if _PACKAGE not in Path(entry.path).resolve().parents:
            path, line, statement = str(entry.path), entry.lineno + 1, str(entry.statement).strip()
    if path is not None:
        try:
            told = Path(path).relative_to(item.config.rootpath).as_posix()
        except ValueError:
            told = path
        lines.append(f"\n{told}:{line}: {statement}")
    _show(report, "\n".join(lines), error.finding.headline)
    _place(report, item, path, line)


def _show(report: Any, text: str, line1: str) -> None:
    """Put `text` in the place of a value-style traceback, and `line1` before any summary."""
    entries = report.longrepr.reprtraceback.reprentries
    entries[0].lines[:] = text.splitlines()
    del entries[1:]
    report.longrepr.reprcrash.message = line1


def _place(report: Any, item: pytest.Item, path: str | None, line: int | None) -> None:
    report.longrepr.reprcrash.path = path or str(item.path)
    report.longrepr.reprcrash.lineno = line or (item.location[1] or 0) + 1


def _row(
    item: pytest.Item,
    report: Any,
    saved: list[Path],
    config: pytest.Config,
    claimed: Claimed,
    found: BaseException | None,
) -> Any:
    """The report's row of a test that was not judged as a timing.

    `found`: the claim that failed, or the trace that could not be judged. That it left the test is
    what counts, whatever a conftest made of the report; an expected one is skipped.
    """
    from kernelpin.report import Row

    file, line, _ = item.location
    gpus, live = _place_of(item, claimed)
    outcome, reason, message = "same", None, None
    failed = report.failed or (found is not None and not hasattr(report, "wasxfail"))
    if failed:
        message = report.longreprtext if report.failed else str(found)
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = (crash.message if crash is not None else message).split("\n", 1)[0]
        outcome = outcome_of(found) if is_claim(found) else "error"
    elif report.skipped:
        outcome = "skipped"
        reason = getattr(report, "wasxfail", None)
        if isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
    folder = report_folder(config)
    kept = None
    if saved:
        kept = saved[0].relative_to(folder).as_posix() if folder is not None else str(saved[0])
    return Row(
        nodeid=item.nodeid,
        outcome=outcome,
        failed=failed,
        source="live" if live else "recorded",
        gpu=next((gpu for gpu in gpus if gpu is not None), None),
        file=Path(file).as_posix(),
        line=None if line is None else line + 1,
        reason=reason,
        message=message,
        trace=kept,
    )


def _place_of(item: pytest.Item, claimed: Claimed) -> tuple[list[str | None], bool]:
    """The GPUs of the traces that the test is about, and whether it was live."""
    capture = item.stash.get(CAPTURED, None)
    kept = [] if capture is None else [trace for trace, _ in capture.kept if trace is not None]
    here = [None if trace.device is None else trace.device.name for trace in kept]
    here += claimed.captured
    on_cpu = item.get_closest_marker("cpu") is not None
    marked = on_cpu or item.get_closest_marker("gpu") is not None
    live = bool(here) or marked or measures(item) or (capture is not None and capture.asked)
    if claimed.recorded and item.get_closest_marker("gpu") is not None and not here:
        live = not why_no_gpu()  # it may have profiled by itself, and read the file
    return here if on_cpu else here or claimed.recorded, live
