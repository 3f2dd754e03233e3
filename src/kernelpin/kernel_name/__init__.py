"""What the name of a GPU kernel tells: its family, library, architecture, dtype, tile, layout.

`decode_kernel_name(name)` takes any text; a name that nothing here knows is of family `other`.
Every field is what the *name* says: an `ampere_…` kernel also runs on newer GPUs, and the `relu` in
a cuBLAS name is an epilogue the kernel has, whether or not this launch used it. A bare identifier
with `kernel`, `fwd` or `bwd` in it counts as hand-written Triton: C++ kernels bring a signature.
"""

from __future__ import annotations

from functools import lru_cache

from kernelpin.kernel_name import aten, matmul, triton
from kernelpin.kernel_name.cxx import Signature, signature
from kernelpin.kernel_name.decoded import FAMILIES, KernelName, in_family
from kernelpin.kernel_name.mangled import readable

__all__ = ["FAMILIES", "KernelName", "decode_kernel_name", "in_family"]


def decode_kernel_name(name: str) -> KernelName:
    """Decode a kernel's name as the profiler wrote it, mangled or not; TypeError for no text."""
    __tracebackhide__ = True
    if not isinstance(name, str):
        raise TypeError(
            f"decode_kernel_name() takes a kernel's name, a str, not {type(name).__name__}"
        )
    return _decoded(name)


@lru_cache(maxsize=16_384)
def _decoded(name: str) -> KernelName:
    text = name.strip().removesuffix(".kd")  # ROCm's suffix of a kernel descriptor
    taken_apart = signature(readable(text))
    for decode in (_memory, triton.decode, matmul.decode_attention, matmul.decode):
        if (found := decode(name, taken_apart)) is not None:
            return found
    found = aten.decode(name, taken_apart)
    known = found.library is not None or found.family == "communication"
    return found if known else triton.decode_bare(name, taken_apart) or found


def _memory(name: str, signature: Signature) -> KernelName | None:
    head = signature.head
    if name.startswith("Memcpy"):
        return KernelName(name, "copy", short=name.partition(" (")[0])
    if name.startswith("Memset"):
        return KernelName(name, "fill", short="Memset")
    if head.startswith("__amd_rocclr_"):
        family = next((f for f in ("copy", "fill") if f in head.lower()), "other")
        return KernelName(name, family, "hip", short=head)
    return None
