"""What a decoded name is, and the families there are."""

from __future__ import annotations

from dataclasses import dataclass

FAMILIES: tuple[str, ...] = (
    "gemm", "gemv", "splitk_reduce", "attention", "elementwise", "reduction", "softmax",
    "normalization", "gather_scatter", "optimizer", "convolution", "communication",
    "triton_pointwise", "triton_reduction", "triton_template", "triton", "copy", "fill", "other",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KernelName:
    """A kernel's name and what it tells; `None` or empty where it tells nothing.

    `tile` is (M, N) or (M, N, K). `layout` is spelled as the name spells it (`tn`, `TNT`, `nhwc`),
    except that rocBLAS's index letters are told as `nn`, `tn`, `nt` or `tt`. `dtype` is what the
    operands are (`bf16`, `f16`, `f32`, `tf32`, `f64`, `e4m3`, `i8`, …). `ops` is what the name says
    is computed: the fused ops of an Inductor kernel, the functor of an elementwise one.
    `tensor_cores` is for matrix products alone. `short` is for people.
    """

    name: str
    family: str
    library: str | None = None
    arch: str | None = None
    dtype: str | None = None
    tile: tuple[int, ...] | None = None
    stages: int | None = None
    layout: str | None = None
    epilogue: tuple[str, ...] = ()
    split_k: bool = False
    ops: tuple[str, ...] = ()
    tensor_cores: bool | None = None
    short: str = ""


def in_family(kernel_family: str, wanted: str) -> bool:
    """Whether a kernel of `kernel_family` counts as `wanted`: `triton` takes in each `triton_*`."""
    return kernel_family == wanted or (wanted == "triton" and kernel_family.startswith("triton_"))
