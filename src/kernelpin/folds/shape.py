"""One call of `nn.Linear`, and where a set of them lies. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


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
