"""Matrix products, convolutions and attention: names made of words, each with a meaning of its own.

Schemes, as seen in traces and in the libraries' own documents:

- cuBLAS, cuDNN (`ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn`): generation, operand
  type, accumulator and instruction shape, MxN, K x stages, layout;
- CUTLASS (`cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2`, `cutlass3x_sm90_…`);
- XMMA (`sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x32_stage4_…_tensor16x8x16_kernel`);
- nvjet (`nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT`): types of operands, accumulator and result
  by letter, MxN, K x stages, cluster, raster, beta (`badd`: beta·C is added), epilogue, layout;
- Tensile, behind rocBLAS and hipBLASLt (`Cijk_Alik_Bljk_BBS_BH_…_MT256x192x64_MI16x16x1_…`).
"""

from __future__ import annotations

import re

from kernelpin.kernel_name.cxx import DTYPES, Signature, dtype_in
from kernelpin.kernel_name.decoded import KernelName

_DIMS = re.compile(r"\d{1,5}(?:x\d{1,5}){1,2}", re.ASCII)
_PRODUCT = re.compile(
    r"([a-z]{0,2})(\d{2,9}|\d{1,3}x\d{1,3}x\d{1,3})?(gemm|fprop|dgrad|wgrad|cudnn|conv)", re.ASCII
)
_CONVOLUTIONS = ("fprop", "dgrad", "wgrad", "cudnn", "conv", "convolve", "winograd")
_GENERATIONS = {
    "maxwell": "sm50", "pascal": "sm60", "volta": "sm70", "turing": "sm75", "ampere": "sm80",
    "ada": "sm89", "hopper": "sm90", "blackwell": "sm100",
}  # fmt: skip
_ARCH = re.compile(r"sm_?(\d{2,3})[af]?", re.ASCII)
_LAYOUT = re.compile(r"[ntc]{2,3}|[NTC]{2,4}|nhwc|nchw|ndhwc|ncdhw|nhwckrsc")
_TILESIZE = re.compile(r"tilesize(\d{1,5}x\d{1,5}(?:x\d{1,5})?)", re.ASCII)
_STAGES = re.compile(r"stages?(\d{1,2})", re.ASCII)
_TENSOR = re.compile(r"tensor\d.*|tensorop|wmma|wgmma|bstensorop|warpgroupsize.*")
_EPILOGUES = ("bias", "badd", "relu", "gelu", "drelu", "dgelu", "dbias", "silu", "swish", "bgrad")
_LETTERS = {"h": "f16", "s": "f32", "d": "f64", "c": "c64", "z": "c128", "i": "i8",
            "t": "bf16", "q": "e4m3"}  # fmt: skip
_XMMA_OPERANDS = re.compile(r"(bf16|tf32|f16|f32|f64|i8|e4m3|e5m2)+")


def decode(name: str, signature: Signature) -> KernelName | None:
    """A matrix product, a convolution or a split-K reduction, or `None`."""
    head, last = signature.head, signature.last
    if last in ("Kernel", "Kernel2", "device_kernel", "kernel", "kentry"):
        if (found := _wrapped(name, signature)) is not None:
            return found
    elif last.startswith("Cijk_"):
        return _tensile(name, last)
    elif last.startswith("nvjet_"):
        return _nvjet(name, last)
    lowered = last.lower()
    if lowered.startswith("splitkreduce"):
        return KernelName(name, "splitk_reduce", "cublas", dtype=dtype_in(signature.template),
                          split_k=True, short=last)  # fmt: skip
    if last == "reduce_1Block_kernel":  # the second half of a vector product
        return KernelName(name, "reduction", "cublas", dtype=dtype_in(signature.template),
                          short=last)  # fmt: skip
    if last == "dot_kernel" or ("gemv" in head and not signature.bare):
        return KernelName(name, "gemv", "cublas", dtype=dtype_in(signature.template),
                          tensor_cores=False, short=_told(head))  # fmt: skip
    words = last.split("_")
    product = next((m for word in words if (m := _PRODUCT.fullmatch(word))), None)
    if product is None or head.startswith("at::"):
        return None
    return _worded(name, signature, words, product)


def _told(head: str) -> str:
    """As much of a qualified name's end as tells something: `gemvx::kernel`, but `dot_kernel`."""
    return (
        "::".join(head.split("::")[-2:]) if head.endswith("::kernel") else head.rpartition("::")[2]
    )


def arch_of(words: list[str] | tuple[str, ...]) -> str | None:
    """The first word that names an architecture, as `sm90`."""
    return next((f"sm{m[1]}" for word in words if (m := _ARCH.fullmatch(word.lower()))), None)


def dims_of(words: list[str]) -> list[tuple[int, ...]]:
    """Every `MxN` or `MxNxK` among the words."""
    return [tuple(map(int, word.split("x"))) for word in words if _DIMS.fullmatch(word)]


def _tile(dims: list[tuple[int, ...]]) -> tuple[tuple[int, ...] | None, int | None]:
    """`128x64`, `32x5` → (128, 64, 32) and 5 stages; `128x64x32` has its K already."""
    if not dims:
        return None, None
    if len(dims) > 1 and len(dims[0]) == len(dims[1]) == 2:
        return (*dims[0], dims[1][0]), dims[1][1]
    return dims[0], None


def _epilogue(words: list[str]) -> tuple[str, ...]:
    return tuple(word.lower() for word in words if word.lower() in _EPILOGUES)


def _splits_k(words: list[str]) -> bool:
    return any(word.lower().startswith("splitk") for word in words)


def _wrapped(name: str, signature: Signature) -> KernelName | None:
    """CUTLASS and CK launch everything through a wrapper; the template says what runs."""
    words = signature.words
    if not words:
        return None
    if words[0].startswith("cutlass_") or words[0].startswith("cutlass3x_"):
        return decode(name, Signature(words[0], "", True))
    telling = next((w for w in words if "flash" in w.lower() or "fmha" in w.lower()), None)
    if telling is not None or any("attention" in word.lower() for word in words):
        telling = next((w for w in words if w[:1].isupper() and _ATTENTION.search(w)), telling)
        family, library = "attention", "flash" if "flash" in words else "cutlass"
    elif telling := next((w for w in words if "Conv" in w or w == "implicit_gemm"), None):
        family, library = "convolution", "cutlass"
    elif telling := next((w for w in words if "Gemm" in w), None):
        family, library = "gemm", "cutlass"
    else:
        return None
    if signature.head.startswith("ck"):
        library = "ck"
    elif "cudnn" in signature.head:
        library = "cudnn"
    return KernelName(
        name, family, library, arch=arch_of(words), dtype=dtype_in(signature.template),
        tensor_cores=True, short=f"{signature.last}<{telling or family}>",
    )  # fmt: skip


def _nvjet(name: str, last: str) -> KernelName:
    words = last.split("_")
    dims = dims_of(words)
    types = next((w for w in words[1:] if w.isalpha() and w.islower() and len(w) >= 3), "")
    tile, stages = _tile(dims)
    if tile is not None and stages is None:  # sm120: `…_64x64x128_3_…`
        after = words[next(i for i, word in enumerate(words) if _DIMS.fullmatch(word)) + 1 :]
        stages = int(after[0]) if after and after[0].isdecimal() else None
    return KernelName(
        name,
        "gemm",
        "cublas",
        arch=arch_of(words),
        dtype=_LETTERS.get(types[:1]),
        tile=tile,
        stages=stages,
        layout=next((w for w in reversed(words) if re.fullmatch(r"[NTC]{3,4}", w)), None),
        epilogue=_epilogue(words),
        split_k=_splits_k(words),
        tensor_cores=True,
        short=last,
    )


def _worded(
    name: str, signature: Signature, words: list[str], product: re.Match[str]
) -> KernelName:
    dims = dims_of(words)
    tile, stages = _tile(dims)
    for word in words:
        if match := _TILESIZE.fullmatch(word):
            tile = tuple(map(int, match[1].split("x")))
        elif match := _STAGES.fullmatch(word):
            stages = int(match[1])
    arch = arch_of(words) or next((_GENERATIONS[w] for w in words if w in _GENERATIONS), None)
    if arch is None and words[0] == "cutlass" and words[1].isdecimal():
        arch = f"sm{words[1]}"
    convolution = product[3] != "gemm" or any(w in _CONVOLUTIONS for w in words)
    if words[0] in ("cutlass", "cutlass3x", "magma"):
        library = words[0].removesuffix("3x")
    elif convolution or "cudnn" in signature.head:
        library = "cudnn"
    else:
        library = signature.head.partition("::")[0] if "::" in signature.head else "cublas"
    tensor_cores = product[2] is not None or any(_TENSOR.fullmatch(w) for w in words)
    return KernelName(
        name,
        "convolution" if convolution else "gemm",
        library,
        arch=arch,
        dtype=_operands(words, product) or dtype_in(signature.template),
        tile=tile,
        stages=stages,
        layout=next((w for w in words if _LAYOUT.fullmatch(w)), None),
        epilogue=_epilogue(words),
        split_k=_splits_k(words),
        tensor_cores=tensor_cores or (False if product[1] or "ffma" in words else None),
        short=signature.last,
    )


def _operands(words: list[str], product: re.Match[str]) -> str | None:
    if any(word.startswith("tf32") for word in words):
        return "tf32"
    for word in words:
        if found := DTYPES.get(word):
            return found
        if _XMMA_OPERANDS.fullmatch(word) and (match := _XMMA_OPERANDS.match(word[:4])):
            return DTYPES[match[1]]
    if product[1] == "s" and product[2] == "1688":
        return "tf32"  # the tensor cores take single precision in no other form
    return _LETTERS.get(product[1][-1:])


_TENSILE_LAYOUT = {
    ("Ailk", "Bljk"): "nn", ("Alik", "Bljk"): "tn", ("Ailk", "Bjlk"): "nt", ("Alik", "Bjlk"): "tt",
}  # fmt: skip
_TENSILE_TYPES = {"B": "bf16", "H": "f16", "S": "f32", "D": "f64", "C": "c64", "Z": "c128",
                  "I": "i8", "4": "i8", "F8": "e4m3", "B8": "e5m2"}  # fmt: skip
_TENSILE_NUMBER = re.compile(r"(MT|MI|ISA|GSU)(\d[\dx]*)", re.ASCII)


def _tensile(name: str, last: str) -> KernelName:
    words = last.split("_")
    numbers = {m[1]: m[2] for word in words if (m := _TENSILE_NUMBER.fullmatch(word))}
    tile = numbers.get("MT", "")
    indices, types = tuple(words[1:3]), "".join(words[3:4])
    return KernelName(
        name,
        "gemm",
        "hipblaslt" if "UserArgs" in words else "rocblas",
        arch=f"gfx{numbers['ISA']}" if "ISA" in numbers else None,
        dtype=_TENSILE_TYPES.get(types[:2]) or _TENSILE_TYPES.get(types[:1]),
        tile=tuple(map(int, tile.split("x"))) if _DIMS.fullmatch(tile) else None,
        layout=_TENSILE_LAYOUT.get((indices[0], indices[1])) if len(indices) == 2 else None,
        epilogue=("bias",) if "Bias" in words else (),
        split_k=numbers.get("GSU", "1") not in ("0", "1"),
        tensor_cores=True if "MI" in numbers else None,
        short="_".join([*words[:4], *([f"MT{tile}"] if tile and len(words) > 4 else [])]),
    )


_ATTENTION = re.compile(r"flash_?attn|flash_(?:fwd|bwd)|fmha|sdpa|attention|mha_", re.I)
_PAGED = re.compile(r"Batch(?:Prefill|Decode)With\w*KVCache|SinglePrefillWith|SingleDecodeWith")


def decode_attention(name: str, signature: Signature) -> KernelName | None:
    """A fused attention kernel, or `None`: flash, memory-efficient, cuDNN's, Triton's."""
    last = signature.last
    words = last.split("_")
    if not (_ATTENTION.search(last) or _PAGED.search(last) or "attn" in words):
        return None
    if "softmax" in last or "embedding" in last or signature.head.startswith("at::"):
        return None
    if last.startswith("cudnn_"):
        library = "cudnn"
    elif last.startswith("fmha_cutlass"):
        library = "cutlass"
    elif signature.bare and last.islower() and not last.startswith("flash_"):
        library = "triton"
    elif "flash" in signature.head:
        library = "flash" if "flashinfer" not in signature.head else "flashinfer"
    else:
        library = None
    return KernelName(
        name,
        "attention",
        library,
        arch=arch_of(words),
        dtype=next((DTYPES[w] for w in words if w in DTYPES), None) or dtype_in(signature.template),
        tile=next(iter(dims_of(words)), None),
        tensor_cores=True if library in ("cudnn", "cutlass", "flash") else None,
        short=last,
    )
