"""The command `kernelpin`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

# Each module offers `register(subparsers)`, which adds its command and sets `func`.
COMMANDS = ("inspect", "baselines_cli", "record", "folds")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0: done, 1: what was asked for does not hold, 2: wrong use or input."""
    parser = argparse.ArgumentParser(
        prog="kernelpin",
        description="Which kernels a PyTorch program runs, and how long they take.",
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        import_module(f"kernelpin.{name}").register(subparsers)
    args = parser.parse_args(argv)
    status: int = args.func(args)
    return status
