"""The command `kernelpin record`: measure timing tests in many processes, store the baselines."""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from filelock import FileLock, Timeout

from kernelpin.state_of_code import state_of_code

PROCESSES = 12
LEAST = 8
_INTERRUPTED = 130
# What was measured yesterday was measured on another machine, as far as anyone can tell.
_JOURNAL_S = 86_400
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
        if journal_for(args.pytest_args) == journal:
            print(f"what was measured is kept: {again} goes on from there", file=sys.stderr)
        else:
            print(
                "what was measured is kept, but the checkout is another now, so that the next "
                "recording begins anew: a file that git does not ignore was written or changed "
                f"meanwhile (a report, a log?). Undo that, and {again} goes on from there; or "
                "let git ignore such files",
                file=sys.stderr,
            )
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
    for part in state_of_code(base.resolve(), *_reports(pytest_args)):
        state.update(b"\0" + part)
    return base / f"record-{state.hexdigest()[:16]}.jsonl"


def _is_old(journal: Path) -> bool:
    try:
        return time.time() - journal.stat().st_mtime > _JOURNAL_S
    except OSError:
        return False


def _reports(arguments: list[str]) -> Iterator[Path]:
    """The folder of the report, which the recording writes anew."""
    for argument, following in pairwise([*arguments, ""]):
        option, has_value, value = argument.partition("=")
        if option == "--kernelpin-report":
            yield Path(value if has_value else following).resolve()


def _without_budget(arguments: list[str]) -> Iterator[str]:
    was_budget = False
    for argument in arguments:
        is_budget = argument.split("=", 1)[0] == "--kernelpin-budget"
        if not (is_budget or was_budget):
            yield argument
        was_budget = is_budget and "=" not in argument
