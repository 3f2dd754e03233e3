"""Which GEMM kernels compiled `nn.Linear` runs where they are not eager's. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelpin.folds.shape import Shape

if TYPE_CHECKING:
    from kernelpin.trace import Kernel

NO_GEMM = "no GEMM: "
NOTHING = "nothing"

# Kernels that multiply the matrices, or sum the parts of one product.
_PRODUCTS = frozenset({"gemm", "gemv", "splitk_reduce", "triton_template"})


def products(kernels: Iterable[Kernel]) -> tuple[str, ...]:
    """The kernels of a matrix product by full name, in launch order.

    Without any: one entry, `no GEMM: ` and what runs in their place
    (`no GEMM: triton_poi_fused_addmm_0`, `no GEMM: nothing`).
    """
    ran = list(kernels)
    names = tuple(kernel.name for kernel in ran if kernel.family in _PRODUCTS)
    return names or (NO_GEMM + (" + ".join(kernel.name for kernel in ran) or NOTHING),)


@dataclass(frozen=True, slots=True)
class Pair:
    """What one shape ran in one session, eager and compiled, as `products` names it."""

    eager: tuple[str, ...]
    compiled: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        return self.eager == self.compiled


@dataclass(frozen=True, slots=True)
class Difference:
    """One shape that does not run what the map says, with what it was and is, where known."""

    shape: Shape
    what: str
    was: Pair | None = None
    now: Pair | None = None

    def lines(self) -> list[str]:
        """The shape and what is the matter, then both lists of kernels, before and now."""
        told = [f"{self.shape}: {self.what}"]
        for when, pair in (("map", self.was), ("now", self.now)):
            if pair is not None:
                told.append(f"  {when}: eager     {' + '.join(pair.eager)}")
                told.append(f"  {when}: compiled  {' + '.join(pair.compiled)}")
        return told


@dataclass(frozen=True, slots=True)
class CompiledMap:
    """What one GPU's compiled sweep found: all `shapes` run eager's GEMM kernels but `exceptions`.

    `shapes` is sorted and holds those of the exceptions too.
    """

    recorded_on: Mapping[str, str]
    shapes: tuple[Shape, ...]
    exceptions: Mapping[Shape, Pair]

    @classmethod
    def of(cls, recorded_on: Mapping[str, str], found: Mapping[Shape, Pair]) -> CompiledMap:
        """Make the part of what each shape ran."""
        apart = {shape: found[shape] for shape in sorted(found) if not found[shape].agrees}
        return cls(dict(recorded_on), tuple(sorted(found)), apart)

    def differences(self, found: Mapping[Shape, Pair]) -> list[Difference]:
        """Each shape that is not as the map says, by shape; none: the live GPU is held to it."""
        told = (self._difference(s, found.get(s)) for s in sorted({*self.shapes, *found}))
        return [difference for difference in told if difference is not None]

    def _difference(self, shape: Shape, now: Pair | None) -> Difference | None:
        was = self.exceptions.get(shape)
        if now is None:
            return Difference(shape, "on the map, and not swept", was)
        if now.eager == (NO_GEMM + NOTHING,) and 0 not in (shape.m, shape.k, shape.n):
            return Difference(shape, "eager launched nothing: the trace cannot tell", was, now)
        if was is None and not now.agrees:
            what = "compiled runs other GEMM kernels than eager, and it is no exception on the map"
        elif shape not in self.shapes:
            what = "swept, and not on the map"
        elif was is not None and now.agrees:
            what = "an exception on the map, and compiled runs eager's GEMM kernels now"
        elif was is not None and now != was:
            what = "an exception on the map, and its kernels are others now"
        else:
            return None
        return Difference(shape, what, was, now)
