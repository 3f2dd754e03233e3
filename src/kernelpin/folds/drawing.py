"""A fold map as text for a terminal, and as tables for a document. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kernelpin.folds.compiled import NO_GEMM, CompiledMap
from kernelpin.folds.file import HOW_TO_RECORD
from kernelpin.folds.map import FoldMap, folds
from kernelpin.folds.shape import condition
from kernelpin.render import count, kernel_labels, table

EXAMPLES = 3


def draw(fold_map: FoldMap) -> list[str]:
    """Draw a map as text: per class whether the bias folds, how many shapes, where, examples."""
    total = sum(len(shapes) for shapes in fold_map.classes.values())
    lines = [
        f"{fold_map.device}: {total} shapes of nn.Linear with bias "
        f"({_versions(fold_map.recorded_on)})"
    ]
    width = max((len(name) for name in fold_map.classes), default=0)
    for name, shapes in fold_map.classes.items():
        mark = "folds" if folds(name) else "NOT  "
        clauses = condition(shapes).split("; ")
        lines.append(f"  {mark}  {name:<{width}}  {len(shapes):>4}  {clauses[0]}")
        lines += [f"         {'':<{width}}        {clause}" for clause in clauses[1:]]
        step = max(1, len(shapes) // EXAMPLES)
        examples = ", ".join(str(s) for s in shapes[::step][:EXAMPLES])
        lines.append(f"         {'':<{width}}        e.g. {examples}")
    return lines + [f"  {line}" for line in draw_compiled(fold_map.compiled)]


def draw_compiled(part: CompiledMap | None) -> list[str]:
    """Draw the compiled part: how many shapes run eager's GEMM kernels, and each that does not."""
    if part is None:
        return [f"compiled: not recorded; record it with {HOW_TO_RECORD}"]
    lines = [f"{_headline(part)} ({_versions(part.recorded_on)})"]
    if part.exceptions:
        lines.append(f"  where: {condition(list(part.exceptions))}")
        lines += [f"  {row}" for row in table(_rows(part))]
    return lines


def as_markdown(fold_map: FoldMap) -> list[str]:
    """Write a map as tables for the docs: one row a class, not folded last; then the exceptions."""
    rows = [["served by", "bias", "shapes", "where"]]
    rows += [
        [name, "folded" if folds(name) else "not folded", str(len(shapes)), condition(shapes)]
        for name, shapes in fold_map.classes.items()
    ]
    heading = f"### {fold_map.device} ({_versions(fold_map.recorded_on)})"
    lines = [heading, "", *table(rows, markdown=True)]
    part = fold_map.compiled
    if part is None:
        return lines
    lines += ["", f"C{_headline(part)[1:]} ({_versions(part.recorded_on)})."]
    if part.exceptions:
        lines += ["", *table(_rows(part), markdown=True)]
    return lines


def _headline(part: CompiledMap) -> str:
    same = len(part.shapes) - len(part.exceptions)
    return (
        f"compiled: {same} of {count(len(part.shapes), 'shape')} run eager's GEMM kernels, "
        f"{count(len(part.exceptions), 'exception')}"
    )


def _rows(part: CompiledMap) -> list[list[str]]:
    """A row an exception; names that differ show as labels that differ."""
    names = [
        name
        for pair in part.exceptions.values()
        for told in (*pair.eager, *pair.compiled)
        for name in told.removeprefix(NO_GEMM).split(" + ")
    ]
    labels = kernel_labels(names)

    def shown(names: tuple[str, ...]) -> str:
        return " + ".join(_shown(name, labels) for name in names)

    rows = [["exception", "eager", "compiled"]]
    rows += [
        [str(shape), shown(pair.eager), shown(pair.compiled)]
        for shape, pair in part.exceptions.items()
    ]
    return rows


def _shown(told: str, labels: Mapping[str, str]) -> str:
    mark = NO_GEMM if told.startswith(NO_GEMM) else ""
    names = told.removeprefix(NO_GEMM).split(" + ")
    return mark + " + ".join(labels[name] for name in names)


def _versions(recorded_on: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(recorded_on.items()))
