"""The command `kernelpin folds`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from kernelpin.folds.drawing import as_markdown, draw
from kernelpin.folds.file import HOW_TO_RECORD, FoldMapError, load
from kernelpin.render import clean


def register(subparsers: Any) -> None:
    """Add the command `kernelpin folds`."""
    parser = subparsers.add_parser(
        "folds", help="draw the fold maps: which kernels serve nn.Linear with bias, by shape"
    )
    parser.add_argument("gpu", nargs="?", help="the GPU's folder under baselines/ (default: all)")
    parser.add_argument(
        "--baselines",
        type=Path,
        default=Path("baselines"),
        metavar="DIR",
        help="where the maps are stored (default: baselines)",
    )
    parser.add_argument("--markdown", action="store_true", help="as tables, for a document")
    parser.set_defaults(func=_run)


def _run(args: argparse.Namespace) -> int:
    paths = sorted(args.baselines.glob(f"{args.gpu or '*'}/fold_map.json"))
    if not paths:
        where = f"{args.baselines}/{args.gpu or '*'}"
        print(
            f"kernelpin folds: no fold map under {where} (--baselines names another folder). "
            "Kernelpin's own suite makes the map; in a checkout of kernelpin, on a GPU: "
            f"{HOW_TO_RECORD}",
            file=sys.stderr,
        )
        return 2
    for path in paths:
        try:
            fold_map = load(path)
        except FoldMapError as error:
            print(clean(f"kernelpin folds: {error}"), file=sys.stderr)
            return 2
        for line in as_markdown(fold_map) if args.markdown else draw(fold_map):
            print(clean(line))
    return 0
