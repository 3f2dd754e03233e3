"""What one GPU ran, class by class. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelpin.folds.compiled import NOTHING, CompiledMap
from kernelpin.folds.shape import Shape

if TYPE_CHECKING:
    from kernelpin.trace import Kernel

# How a part of a class is called: categories and families of the trace, in the reader's words.
_PART = {"copy": "memcpy", "fill": "memset"}
# Work that exists for the bias (or for an operand) alone.
_UNFOLDED = frozenset({"elementwise", "memcpy", "reduction", "copy kernel"})


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
    """What one GPU ran: `classes` maps each class to its shapes, sorted.

    `compiled` is None in a map that was recorded without the compiled sweep.
    """

    device: str
    recorded_on: Mapping[str, str]
    classes: Mapping[str, tuple[Shape, ...]]
    compiled: CompiledMap | None = None

    @classmethod
    def of(
        cls,
        device: str,
        recorded_on: Mapping[str, str],
        found: Mapping[Shape, str],
        compiled: CompiledMap | None = None,
    ) -> FoldMap:
        """Make a map of what each shape ran."""
        names = sorted(set(found.values()), key=lambda n: (not folds(n), n))
        return cls(
            device,
            dict(recorded_on),
            {name: tuple(sorted(s for s in found if found[s] == name)) for name in names},
            compiled,
        )

    def by_shape(self) -> dict[Shape, str]:
        return {shape: name for name, shapes in self.classes.items() for shape in shapes}

    def changes(self, found: Mapping[Shape, str]) -> list[tuple[Shape, str, str]]:
        """Give (shape, was, is) for each shape of the map that runs something else now."""
        was = self.by_shape()
        return [(s, was[s], found[s]) for s in sorted(was) if s in found and found[s] != was[s]]
