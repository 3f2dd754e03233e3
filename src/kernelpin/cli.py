"""The command `kernelpin`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from kernelpin.render.plain import never_unprintable

_PIPE_CLOSED = 141  # what a shell calls the end by SIGPIPE
# Each module offers `register(subparsers)`, which adds its command and sets `func`; it may set
# `of_unknown`, what more to say of an unknown argument.
COMMANDS = ("inspect", "baselines_cli", "record", "folds")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0: done, 1: what was asked for does not hold, 2: wrong use or input."""
    never_unprintable()
    parser = argparse.ArgumentParser(
        prog="kernelpin",
        description="Which kernels a PyTorch program runs, and how long they take.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        import_module(f"kernelpin.{name}").register(subparsers)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        more = getattr(args, "of_unknown", "")
        subparsers.choices[args.command].error(
            f"unrecognized arguments: {' '.join(unknown)}" + (f"; {more}" if more else "")
        )
    try:
        status: int = args.func(args)
        sys.stdout.flush()
    except BrokenPipeError:  # a reader that left early, as `| head`
        # Python would flush once more at exit, and complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    return status


class _Version(argparse.Action):
    """Looked up when asked for: it takes longer than everything else here."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("pytest-kernelpin")
        except PackageNotFoundError:
            found = "of unknown version: pytest-kernelpin is not installed here"
        print(f"kernelpin {found}")
        parser.exit()
