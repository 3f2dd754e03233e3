"""Where a report goes: a folder, GitHub's step summary, annotations in the log."""

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kernelpin.report.markdown import LIMIT_BYTES, write_summary
from kernelpin.report.rows import Report, headline, worst_first
from kernelpin.report.schema import report_json

COMMENT_BYTES = 60_000  # GitHub refuses a comment of more than 65,536 characters
_STEP_BYTES = 1024 * 1024
_ANNOTATIONS = 9  # GitHub shows ten of a kind in a step; the tenth counts the rest


def publish(
    report: Report,
    directory: Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    rootdir: Path | None = None,
) -> list[str]:
    """Write the report where this run wants it; returns the lines to print, one annotation each.

    Into `directory`: summary.md, comment.md (the same in a comment's size) and report.json, each
    replaced whole or not at all. With GITHUB_STEP_SUMMARY set the summary is appended there; with
    GITHUB_ACTIONS the annotations come back. Raises OSError where a file cannot be written.
    """
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        document = json.dumps(report_json(report), indent=1, allow_nan=False)
        _replace(directory / "report.json", document + "\n")
        _replace(directory / "summary.md", write_summary(report))
        _replace(directory / "comment.md", write_summary(report, COMMENT_BYTES))
    if environ.get("GITHUB_STEP_SUMMARY"):
        _append(report, Path(environ["GITHUB_STEP_SUMMARY"]))
    if environ.get("GITHUB_ACTIONS") != "true":
        return []
    return annotations(report, prefix=_prefix(rootdir, environ.get("GITHUB_WORKSPACE")))


def annotations(report: Report, prefix: str = "") -> list[str]:
    """GitHub workflow commands: session problems and failed rows, the nine worst and a count.

    `prefix` leads from the repository's root to pytest's rootdir ("", "sub/").
    """
    lines = [_command("", None, "kernelpin", problem) for problem in report.problems]
    for row in worst_first(row for row in report.rows if row.failed):
        message = (row.message or row.reason or row.outcome).strip()
        file = f"{prefix}{row.file}" if row.file else ""
        lines.append(
            _command(file, row.line, f"kernelpin: {row.outcome}", f"{row.nodeid}\n{message}")
        )
    rest = len(lines) - _ANNOTATIONS
    if rest <= 0:
        return lines
    return [
        *lines[:_ANNOTATIONS],
        _command("", None, "kernelpin", f"and {rest} more: {headline(report)}"),
    ]


def _command(file: str, line: int | None, title: str, message: str) -> str:
    properties = {"file": file, "line": str(line) if file and line else "", "title": title}
    told = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::error {told}::{_data(message[:4000])}"


def _data(text: str) -> str:
    """A command's message: it ends at a line break, and % begins an escape."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _prefix(rootdir: Path | None, workspace: str | None) -> str:
    if rootdir is None or not workspace:
        return ""
    try:
        relative = rootdir.resolve().relative_to(Path(workspace).resolve()).as_posix()
    except ValueError:
        return ""
    return "" if relative == "." else f"{relative}/"


def _append(report: Report, path: Path) -> None:
    taken = path.stat().st_size if path.exists() else 0
    summary = write_summary(report, min(LIMIT_BYTES, max(0, _STEP_BYTES - taken - 1024)))
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" + summary)


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # mkstemp's file is its owner's alone; a report is for whoever collects it.
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
