"""The fold map: which kernels serve `nn.Linear` with bias, shape by shape, on one GPU.

A bias is *folded* when the GEMM (or gemv) adds it itself; a kernel or a copy of its own means that
it is not. Which of the two happens is cuBLAS's and PyTorch's choice by shape, and an upgrade may
change it without a word: the map is what the live GPU is held to.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelpin.render import table

if TYPE_CHECKING:
    from kernelpin.trace import Kernel

SCHEMA = 1
NOTHING = "nothing"
EXAMPLES = 3

# How a part of a class is called: categories and families of the trace, in the reader's words.
_PART = {"copy": "memcpy", "fill": "memset"}
# Work that exists for the bias (or for an operand) alone.
_UNFOLDED = frozenset({"elementwise", "memcpy", "reduction", "copy kernel"})


class FoldMapError(Exception):
    """A fold map that cannot be read: says which file, what was found and what to do."""


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """One call of `F.linear`: x [m, k] (or [2, m/2, k] for `3d`), weight [n, k], bias [n].

    `form` is how x lies in memory: `contiguous`, `transposed`, `sliced` or `3d`.
    """

    m: int
    k: int
    n: int
    dtype: str
    form: str = "contiguous"

    def __str__(self) -> str:
        return f"{self.m}x{self.k}x{self.n} {self.dtype} {self.form}"

    @classmethod
    def parse(cls, text: str) -> Shape:
        """Read back what `str()` wrote; ValueError for anything else."""
        found = re.fullmatch(r"(\d+)x(\d+)x(\d+) (\w+) (\w+)", text)
        if found is None:
            raise ValueError(f"not a shape: {text!r} (wanted: 1024x32x64 bf16 contiguous)")
        m, k, n, dtype, form = found.groups()
        return cls(int(m), int(k), int(n), dtype, form)

    @property
    def plain(self) -> bool:
        """Whether no dimension is 0 or 1."""
        return min(self.m, self.k, self.n) > 1


def classify(kernels: Iterable[Kernel]) -> str:
    """Name what serves one call by its parts in launch order, runs of one part folded."""
    parts: list[str] = []
    for kernel in kernels:
        part = _PART.get(kernel.family, kernel.family)
        if kernel.category == "kernel" and part in ("memcpy", "memset"):
            part = f"{kernel.family} kernel"
        if not parts or parts[-1] != part:
            parts.append(part)
    return " + ".join(parts) or NOTHING


def folds(name: str) -> bool:
    """Whether a class adds the bias without work of its own; a call that launches nothing does."""
    return not _UNFOLDED & set(name.split(" + "))


@dataclass(frozen=True, slots=True)
class FoldMap:
    """What one GPU ran: `classes` maps each class to its shapes, sorted."""

    device: str
    recorded_on: Mapping[str, str]
    classes: Mapping[str, tuple[Shape, ...]]

    @classmethod
    def of(cls, device: str, recorded_on: Mapping[str, str], found: Mapping[Shape, str]) -> FoldMap:
        """Make a map of what each shape ran."""
        names = sorted(set(found.values()), key=lambda n: (not folds(n), n))
        return cls(
            device,
            dict(recorded_on),
            {name: tuple(sorted(s for s in found if found[s] == name)) for name in names},
        )

    def by_shape(self) -> dict[Shape, str]:
        return {shape: name for name, shapes in self.classes.items() for shape in shapes}

    def changes(self, found: Mapping[Shape, str]) -> list[tuple[Shape, str, str]]:
        """Give (shape, was, is) for each shape of the map that runs something else now."""
        was = self.by_shape()
        return [(s, was[s], found[s]) for s in sorted(was) if s in found and found[s] != was[s]]


def condition(shapes: Sequence[Shape]) -> str:
    """Tell where a class was seen: a clause for each set of dimensions of 1 and form of x.

    `K = 1, M 2–512, N 2–512 (12)` reads: twelve shapes have K = 1, M and N within these bounds.
    """
    groups: dict[tuple[str, ...], list[Shape]] = {}
    for shape in shapes:
        ones = [f"{label} = 1" for label, field in _DIMENSIONS if getattr(shape, field) == 1]
        form = [] if shape.form == "contiguous" else [shape.form]
        groups.setdefault((*ones, *form), []).append(shape)
    clauses = []
    for key, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        spans = [
            f"{label} {_span(sorted({getattr(s, field) for s in group}))}"
            for label, field in _DIMENSIONS
            if f"{label} = 1" not in key
        ]
        dtypes = "/".join(sorted({s.dtype for s in group}))
        clauses.append(f"{', '.join([*key, *spans])}, {dtypes} ({len(group)})")
    return "; ".join(clauses)


_DIMENSIONS = (("M", "m"), ("K", "k"), ("N", "n"))


def _span(values: list[int]) -> str:
    if len(values) == 1:
        return f"= {values[0]}"
    return f"{values[0]}–{values[-1]}"


def dump(fold_map: FoldMap) -> str:
    """Write a map as JSON, one line a class, so that a diff in a review is readable."""
    lines = [
        f"{json.dumps(name)}: "
        + json.dumps(
            {
                "folds": folds(name),
                "condition": condition(shapes),
                "count": len(shapes),
                "shapes": [str(s) for s in shapes],
            },
            ensure_ascii=False,
        )
        for name, shapes in fold_map.classes.items()
    ]
    head = json.dumps({"schema": SCHEMA, "device": fold_map.device})[1:-1]
    recorded = json.dumps(dict(fold_map.recorded_on), sort_keys=True)
    body = ",\n    ".join(lines)
    return f'{{\n  {head},\n  "recorded_on": {recorded},\n  "classes": {{\n    {body}\n  }}\n}}\n'


def load(path: Path) -> FoldMap:
    """Read a map; `FoldMapError` names the file and the line or class that is wrong."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FoldMapError(
            f"{path}: no fold map; record one there with "
            "pytest -m gpu perf_tests/test_fold_map.py --kernelpin-record"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise FoldMapError(f"{path}: cannot be read: {error}") from error
    except json.JSONDecodeError as error:
        raise FoldMapError(f"{path}, line {error.lineno}: no JSON: {error.msg}") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise FoldMapError(f"{path}: schema is {found!r}, this kernelpin reads {SCHEMA}")
    try:
        classes = {
            str(name): tuple(sorted(Shape.parse(text) for text in row["shapes"]))
            for name, row in data["classes"].items()
        }
        fold_map = FoldMap(str(data["device"]), dict(data["recorded_on"]), classes)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FoldMapError(f"{path}: no fold map: {type(error).__name__}: {error}") from error
    seen: set[Shape] = set()
    for name, shapes in classes.items():
        twice = seen.intersection(shapes)
        if twice:
            raise FoldMapError(f"{path}: {min(twice)} stands in {name!r} and in another class")
        seen.update(shapes)
    return fold_map


def draw(fold_map: FoldMap) -> list[str]:
    """Draw a map as text: per class whether the bias folds, how many shapes, where, examples."""
    total = sum(len(shapes) for shapes in fold_map.classes.values())
    versions = ", ".join(f"{key} {value}" for key, value in sorted(fold_map.recorded_on.items()))
    lines = [f"{fold_map.device}: {total} shapes of nn.Linear with bias ({versions})"]
    width = max((len(name) for name in fold_map.classes), default=0)
    for name, shapes in fold_map.classes.items():
        mark = "folds" if folds(name) else "NOT  "
        clauses = condition(shapes).split("; ")
        lines.append(f"  {mark}  {name:<{width}}  {len(shapes):>4}  {clauses[0]}")
        lines += [f"         {'':<{width}}        {clause}" for clause in clauses[1:]]
        step = max(1, len(shapes) // EXAMPLES)
        examples = ", ".join(str(s) for s in shapes[::step][:EXAMPLES])
        lines.append(f"         {'':<{width}}        e.g. {examples}")
    return lines


def as_markdown(fold_map: FoldMap) -> list[str]:
    """Write a map as a table for the docs: one row a class, not folded last."""
    rows = [["served by", "bias", "shapes", "where"]]
    rows += [
        [name, "folded" if folds(name) else "not folded", str(len(shapes)), condition(shapes)]
        for name, shapes in fold_map.classes.items()
    ]
    versions = ", ".join(f"{key} {value}" for key, value in sorted(fold_map.recorded_on.items()))
    return [f"### {fold_map.device} ({versions})", "", *table(rows, markdown=True)]


def register(subparsers: Any) -> None:
    """Add the command `kernelpin folds`."""
    parser = subparsers.add_parser(
        "folds", help="draw the fold maps: which kernels serve nn.Linear with bias, by shape"
    )
    parser.add_argument("gpu", nargs="?", help="the GPU's folder under baselines/ (default: all)")
    parser.add_argument("--baselines", type=Path, default=Path("baselines"), metavar="DIR")
    parser.add_argument("--markdown", action="store_true", help="as tables, for a document")
    parser.set_defaults(func=_run)


def _run(args: argparse.Namespace) -> int:
    paths = sorted(args.baselines.glob(f"{args.gpu or '*'}/fold_map.json"))
    if not paths:
        print(
            f"no fold map under {args.baselines}/{args.gpu or '*'}: record one on a GPU with "
            "pytest -m gpu perf_tests/test_fold_map.py --kernelpin-record"
        )
        return 2
    for path in paths:
        try:
            fold_map = load(path)
            print("\n".join(as_markdown(fold_map) if args.markdown else draw(fold_map)))
        except FoldMapError as error:
            print(error)
            return 2
    return 0
