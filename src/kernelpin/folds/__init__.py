"""The fold map: which kernels serve `nn.Linear` with bias, shape by shape, on one GPU.

A bias is *folded* when the GEMM (or gemv) adds it itself; a kernel or a copy of its own means that
it is not. Which of the two happens is cuBLAS's and PyTorch's choice by shape, and an upgrade may
change it without a word: the map is what the live GPU is held to. Its second part tells for which
shapes the compiled `nn.Linear` runs other GEMM kernels than the eager one.
"""

from __future__ import annotations

from kernelpin.folds.command import register
from kernelpin.folds.compiled import CompiledMap, Difference, Pair, products
from kernelpin.folds.drawing import as_markdown, draw, draw_compiled
from kernelpin.folds.file import FoldMapError, NotRecorded, dump, load, store
from kernelpin.folds.map import FoldMap, classify, folds
from kernelpin.folds.shape import Shape, condition

__all__ = [
    "CompiledMap",
    "Difference",
    "FoldMap",
    "FoldMapError",
    "NotRecorded",
    "Pair",
    "Shape",
    "as_markdown",
    "classify",
    "condition",
    "draw",
    "draw_compiled",
    "dump",
    "folds",
    "load",
    "products",
    "register",
    "store",
]
