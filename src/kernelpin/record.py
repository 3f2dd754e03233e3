"""The command `kernelpin record`: measure timing tests in many processes, store the baselines."""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

PROCESSES = 12
LEAST = 8
_INTERRUPTED = 130
# What was measured yesterday was measured on another machine, as far as anyone can tell.
_JOURNAL_S = 86_400
# Contents are read up to here; of what is larger, and of all beyond, size and time must do.
_READ_BYTES = 64_000_000
_INI_FILES = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "setup.py")
_DESCRIPTION = """\
Measure the timing tests that PYTEST-ARGS select in fresh processes, and store their baselines.

Interrupted, it keeps the processes that finished; the same command on the same code goes on
from there within a day. Exit codes: 0: all stored; 1: a test failed, a figure was refused, or
nothing was measured; 2: wrong use; 130: interrupted; above: ended by a signal (143: SIGTERM)."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `record`."""
    parser = subparsers.add_parser(
        "record",
        help="measure timing tests and store their baselines",
        usage="kernelpin record [-n N] [--add] [--reason TEXT] [--fresh] -- [PYTEST-ARGS ...]",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-n",
        "--processes",
        type=int,
        default=PROCESSES,
        metavar="N",
        help=f"fresh processes a test (default {PROCESSES}, at least {LEAST})",
    )
    parser.add_argument(
        "--add",
        action="store_true",
        help="put the figures beside those of earlier days and cards, not in their place",
    )
    parser.add_argument("--reason", metavar="TEXT", help="why it got slower, where it did")
    parser.add_argument(
        "--fresh", action="store_true", help="start over, and not from an interrupted recording"
    )
    parser.add_argument("pytest_args", nargs="*", metavar="PYTEST-ARGS")
    parser.set_defaults(
        func=run,
        of_unknown="pytest's own go after --, as in: kernelpin record -- -m gpu tests",
    )


def run(args: argparse.Namespace) -> int:
    """Run pytest so that it records; its failure is ours."""
    if args.processes < LEAST:
        print(
            f"kernelpin record: -n {args.processes}: a baseline needs at least {LEAST} processes",
            file=sys.stderr,
        )
        return 2
    from kernelpin.workers.journal import InUseError, alone_with, in_use

    journal = journal_for(args.pytest_args)
    journal.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(journal.with_suffix(".lock"), timeout=0):
            with alone_with(journal):
                pass  # before the journal is touched: the pytest of a killed command lives on
            return _record(args, journal)
    except InUseError as error:
        told = str(error)
    except Timeout:
        told = in_use(journal.with_suffix(".pid"))
    print(f"kernelpin record: {told}", file=sys.stderr)
    return 2


def _record(args: argparse.Namespace, journal: Path) -> int:
    if args.fresh or _is_old(journal):
        journal.unlink(missing_ok=True)
    command = [
        *(sys.executable, "-m", "pytest", *args.pytest_args),
        "--kernelpin-update=all",
        f"--kernelpin-processes={args.processes}",
        f"--kernelpin-journal={journal}",
        *(["--kernelpin-add"] if args.add else []),
        *([f"--kernelpin-reason={args.reason}"] if args.reason else []),
    ]
    status = _status_of(command)
    if status == 0:
        measured = journal.exists()
        journal.unlink(missing_ok=True)
        if measured:
            return 0
        print(
            f"kernelpin record: nothing was measured, so nothing is stored: {_why_nothing()}",
            file=sys.stderr,
        )
        return 1
    if journal.exists() and journal.stat().st_size:
        again = shlex.join(["kernelpin", "record", *sys.argv[2:]])
        print(f"what was measured is kept: {again} goes on from there", file=sys.stderr)
    if status > 128:
        return status
    return _INTERRUPTED if status == 2 else (2 if status in (4, 5) else 1)


def _status_of(command: list[str]) -> int:
    """Run it to its end; 128 and more: a signal ended it.

    A SIGTERM may come to this process alone: pytest must not go on without it.
    """
    from kernelpin.workers.lifeline import signals_to

    process = subprocess.Popen(command)
    passed_on: list[int] = []

    def pass_on(number: int, frame: object) -> None:
        if not passed_on:
            passed_on.append(number)
            process.send_signal(number)

    with signals_to(pass_on):
        while True:
            try:
                status = process.wait()
                return status if status >= 0 else 128 - status
            except KeyboardInterrupt:
                continue  # pytest was interrupted by the same key, and ends by itself


def _why_nothing() -> str:
    from kernelpin import machine  # asks torch, which is loaded for this answer alone

    if why := machine.why_no_gpu():
        return f"there is no GPU to measure on: {why}"
    return "the tests skipped, or none uses the fixture stopwatch (pytest -rs gives the reasons)"


def journal_for(pytest_args: list[str], folder: Path | None = None) -> Path:
    """Where the finished processes of this recording are noted: one file a selection and code.

    However long it may take is no part of that: what a budget cut goes on with a larger one.
    """
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    base = Path(tempfile.gettempdir()) / f"kernelpin-{user}" if folder is None else folder
    state = hashlib.sha256("\0".join([os.getcwd(), *_without_budget(pytest_args)]).encode())
    for part in (*_code(), *_installed()):
        state.update(b"\0" + part)
    return base / f"record-{state.hexdigest()[:16]}.jsonl"


def _is_old(journal: Path) -> bool:
    try:
        return time.time() - journal.stat().st_mtime > _JOURNAL_S
    except OSError:
        return False


def _code() -> Iterator[bytes]:
    """What the code is: commit, changes and untracked files; without git, the .py files."""
    top = _git("rev-parse", "--show-toplevel")
    if top is not None:
        folder = os.fsdecode(top.removesuffix(b"\n"))
        commit = _git("rev-parse", "HEAD", folder=folder)
        changes = _git("diff", "--no-ext-diff", "HEAD", folder=folder)
        others = _git("ls-files", "-z", "-o", "--exclude-standard", folder=folder)
        if commit is not None and changes is not None and others is not None:
            yield from (commit, changes)
            names = sorted(os.fsdecode(name) for name in others.split(b"\0") if name)
            # Compiled files come of the recording itself.
            yield from _contents(Path(folder, n) for n in names if not n.endswith(".pyc"))
            return
    yield from _contents(_modules(_root(Path.cwd())))


def _without_budget(arguments: list[str]) -> Iterator[str]:
    was_budget = False
    for argument in arguments:
        is_budget = argument.split("=", 1)[0] == "--kernelpin-budget"
        if not (is_budget or was_budget):
            yield argument
        was_budget = is_budget and "=" not in argument


def _installed() -> Iterator[bytes]:
    """Every installed distribution: where, which version, and the hashes of its files."""
    found = importlib.metadata.distributions()
    told = (f"{it.locate_file('')} {it.version} {it.read_text('RECORD')}" for it in found)
    yield from (text.encode(errors="replace") for text in sorted(set(told)))


def _root(folder: Path) -> Path:
    """The nearest folder at or above this one that configures pytest, else this one."""
    for candidate in (folder, *folder.parents):
        if any((candidate / name).is_file() for name in _INI_FILES):
            return candidate
    return folder


def _modules(root: Path) -> Iterator[Path]:
    """The .py files below, but for hidden folders and virtual environments."""
    for folder, below, files in os.walk(root):
        if "pyvenv.cfg" in files:
            below.clear()
            continue
        below[:] = sorted(name for name in below if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".py"))


def _contents(files: Iterable[Path]) -> Iterator[bytes]:
    """Each file's path and content, or its size and time once `_READ_BYTES` are read."""
    left = _READ_BYTES
    for file in files:
        yield os.fsencode(file)
        try:
            stat = file.stat()
            if file.is_file() and stat.st_size <= left:
                left -= stat.st_size
                yield hashlib.sha256(file.read_bytes()).digest()
            else:
                yield f"{stat.st_size} {stat.st_mtime_ns}".encode()
        except OSError as error:
            yield type(error).__name__.encode()


def _git(*arguments: str, folder: str | None = None) -> bytes | None:
    """What git says there; None where there is no git, no repository or no answer."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
