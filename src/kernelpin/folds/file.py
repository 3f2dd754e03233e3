"""The file that holds a fold map: written, replaced in one step, read back or refused."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelpin.folds.compiled import CompiledMap, Pair
from kernelpin.folds.map import FoldMap, folds
from kernelpin.folds.shape import Shape, condition

SCHEMA = 1
HOW_TO_RECORD = "pytest -m gpu perf_tests/test_fold_map.py --kernelpin-record"


class FoldMapError(Exception):
    """A fold map that cannot be read: says which file, what was found and what to do."""


class NotRecorded(FoldMapError):
    """There is no map, or not this part of it: says how to record it."""


def dump(fold_map: FoldMap) -> str:
    """Write a map as JSON, a line a class and a line an exception, readable as a diff."""
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
    text = f'{{\n  {head},\n  "recorded_on": {recorded},\n  "classes": {{\n    {body}\n  }}'
    if fold_map.compiled is not None:
        text += f',\n  "compiled": {_dump_compiled(fold_map.compiled)}'
    return f"{text}\n}}\n"


def _dump_compiled(part: CompiledMap) -> str:
    recorded = json.dumps(dict(part.recorded_on), sort_keys=True)
    shapes = json.dumps([str(shape) for shape in part.shapes])
    lines = [
        f'\n      "{shape}": '
        + json.dumps({"eager": list(pair.eager), "compiled": list(pair.compiled)})
        for shape, pair in sorted(part.exceptions.items())
    ]
    body = f"{','.join(lines)}\n    " if lines else ""
    return (
        f'{{\n    "recorded_on": {recorded},\n    "shapes": {shapes},\n'
        f'    "exceptions": {{{body}}}\n  }}'
    )


def store(path: Path, fold_map: FoldMap) -> None:
    """Put the map in the place of what lies there, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(dump(fold_map), encoding="utf-8")
    os.replace(partial, path)


def load(path: Path, *, compiled: bool = False) -> FoldMap:
    """Read a map; `FoldMapError` names the file and the line or part that is wrong.

    `compiled`: a map without the part of the compiled sweep is `NotRecorded`, as a missing one.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_once)
    except FileNotFoundError:
        raise NotRecorded(f"{path}: no fold map; record one there with {HOW_TO_RECORD}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FoldMapError(f"{path}: cannot be read: {error}") from error
    except json.JSONDecodeError as error:
        raise FoldMapError(f"{path}, line {error.lineno}: no JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise FoldMapError(f"{path}: no fold map: {error}") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise FoldMapError(f"{path}: schema is {found!r}, this kernelpin reads {SCHEMA}")
    try:
        classes = {
            str(name): tuple(sorted(Shape.parse(text) for text in row["shapes"]))
            for name, row in data["classes"].items()
        }
        fold_map = FoldMap(
            str(data["device"]),
            _texts(data["recorded_on"], "recorded_on"),
            classes,
            _compiled(data["compiled"]) if "compiled" in data else None,
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FoldMapError(f"{path}: no fold map: {type(error).__name__}: {error}") from error
    seen: set[Shape] = set()
    for name, shapes in classes.items():
        twice = seen.intersection(shapes)
        if twice:
            raise FoldMapError(f"{path}: {min(twice)} stands in {name!r} and in another class")
        seen.update(shapes)
    if compiled and fold_map.compiled is None:
        raise NotRecorded(
            f"{path}: what compiled nn.Linear runs is not recorded; record it there with "
            f"{HOW_TO_RECORD}"
        )
    return fold_map


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of the file: of a name that stands twice, one half would be lost."""
    read = dict(pairs)
    if len(read) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice in one object")
    return read


def _compiled(data: Any) -> CompiledMap:
    """The part of the compiled sweep; ValueError says where in it what is wrong."""
    where = "compiled"
    _require(data, dict, where, "an object")
    for key in ("recorded_on", "shapes", "exceptions"):
        if key not in data:
            raise ValueError(f"{where}: {key!r} is missing")
    _require(data["exceptions"], dict, f"{where}.exceptions", "an object")
    shapes = [_shape(text, f"{where}.shapes") for text in _names(data["shapes"], f"{where}.shapes")]
    if len(set(shapes)) < len(shapes):
        twice = next(shape for shape in shapes if shapes.count(shape) > 1)
        raise ValueError(f"{where}.shapes: {twice} stands twice")
    exceptions = {}
    for text, row in data["exceptions"].items():
        at = f"{where}.exceptions: {text}"
        shape = _shape(text, f"{where}.exceptions")
        if shape not in shapes:
            raise ValueError(f"{at}: not among compiled.shapes")
        _require(row, dict, at, "an object")
        if set(row) != {"eager", "compiled"}:
            raise ValueError(f"{at}: wanted eager and compiled, found {sorted(row)}")
        pair = Pair(
            *(tuple(_names(row[mode], f"{at}: {mode}", least=1)) for mode in ("eager", "compiled"))
        )
        if pair.agrees:
            raise ValueError(f"{at}: eager and compiled are the same: no exception")
        if shape in exceptions:
            raise ValueError(f"{at}: stands twice")
        exceptions[shape] = pair
    recorded_on = _texts(data["recorded_on"], f"{where}.recorded_on")
    return CompiledMap(recorded_on, tuple(sorted(shapes)), dict(sorted(exceptions.items())))


def _shape(text: str, where: str) -> Shape:
    try:
        return Shape.parse(text)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _names(value: Any, where: str, least: int = 0) -> list[str]:
    _require(value, list, where, "a list")
    for name in value:
        _require(name, str, where, "a list of texts")
    if len(value) < least:
        raise ValueError(f"{where}: is empty")
    return list(value)


def _texts(value: Any, where: str) -> Mapping[str, str]:
    _require(value, dict, where, "an object")
    for text in value.values():
        _require(text, str, where, "an object of texts")
    return dict(value)


def _require(value: Any, kind: type, where: str, wanted: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{where}: wanted {wanted}, found {json.dumps(value)[:60]}")
