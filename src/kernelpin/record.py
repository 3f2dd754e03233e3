"""The command `kernelpin record`: measure timing tests in many processes, store the baselines."""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

PROCESSES = 12
LEAST = 8
_INTERRUPTED = 130
_DESCRIPTION = """\
Measure the timing tests that PYTEST-ARGS select in fresh processes, and store their baselines.

Interrupted, it keeps the processes that finished; the same command on the same code goes on
from there. Exit codes: 0: all stored; 1: a test failed or a figure was refused; 2: wrong use;
130: interrupted."""


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
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run pytest so that it records; its failure is ours."""
    if args.processes < LEAST:
        print(
            f"kernelpin record: -n {args.processes}: a baseline needs at least {LEAST} processes",
            file=sys.stderr,
        )
        return 2
    journal = journal_for(args.pytest_args)
    if args.fresh:
        journal.unlink(missing_ok=True)
    command = [
        *(sys.executable, "-m", "pytest", *args.pytest_args),
        "--kernelpin-update=all",
        f"--kernelpin-processes={args.processes}",
        f"--kernelpin-journal={journal}",
        *(["--kernelpin-add"] if args.add else []),
        *([f"--kernelpin-reason={args.reason}"] if args.reason else []),
    ]
    process = subprocess.Popen(command)
    while True:
        try:
            status = process.wait()
            break
        except KeyboardInterrupt:
            continue  # pytest was interrupted by the same key, and ends by itself
    if status == 0:
        journal.unlink(missing_ok=True)
        return 0
    if journal.exists():
        again = shlex.join(["kernelpin", "record", *sys.argv[2:]])
        print(f"what was measured is kept: {again} goes on from there", file=sys.stderr)
    return _INTERRUPTED if status == 2 else (2 if status in (4, 5) else 1)


def journal_for(pytest_args: list[str], folder: Path | None = None) -> Path:
    """Where the finished processes of this recording are noted: one file a selection and code."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    base = Path(tempfile.gettempdir()) / f"kernelpin-{user}" if folder is None else folder
    state = "\0".join([os.getcwd(), *pytest_args, _git("rev-parse", "HEAD"), _git("diff", "HEAD")])
    return base / f"record-{hashlib.sha256(state.encode()).hexdigest()[:16]}.jsonl"


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")
