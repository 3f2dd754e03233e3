"""What the name of a GPU kernel tells: its family, library, architecture, dtype, tile, layout.

`decode_kernel_name(name)` never raises; a name that nothing here knows is of family `other`. Every
field is what the *name* says: an `ampere_…` kernel also runs on newer GPUs, and the `relu` in a
cuBLAS name is an epilogue the kernel has, whether or not this launch used it.

Sources of the schemes: names in traces of A100, H100, H200, RTX 4050 and MI300X (the table in
`tests/unit/test_kernel_name.py`); CUTLASS's and Tensile's naming rules; Inductor's
`get_fused_kernel_name`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from kernelpin.mangled import readable

__all__ = ["FAMILIES", "KernelName", "decode_kernel_name", "in_family"]

FAMILIES: tuple[str, ...] = (
    "gemm", "gemv", "splitk_reduce", "attention", "elementwise", "reduction", "softmax",
    "normalization", "gather_scatter", "optimizer", "convolution", "communication",
    "triton_pointwise", "triton_reduction", "triton_template", "triton", "copy", "fill", "other",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KernelName:
    """A kernel's name and what it tells; `None` or empty where it tells nothing.

    `tile` is (M, N) or (M, N, K); `layout` is spelled as the name spells it (`tn`, `TNT`, `nhwc`);
    `ops` are what the name says is computed: the fused ops of an Inductor kernel, the functor of an
    elementwise one. `short` is for people.
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
    """Whether a kernel of `kernel_family` counts as `wanted`: `triton` takes in every `triton_*`."""
    return kernel_family == wanted or (wanted == "triton" and kernel_family.startswith("triton_"))


@lru_cache(maxsize=16_384)
def decode_kernel_name(name: str) -> KernelName:
    """Decode a kernel's name as the profiler wrote it, mangled or not."""
    head, template = _split(readable(name.strip()))
    if head.endswith((".kd", ".kernel")):
        head = head.rpartition(".")[0]
    for decode in (_memory, _triton, _tensile, _wrapped, _attention, _communication, _matmul):
        if (found := decode(name, head, template)) is not None:
            return found
    return _by_words(name, head, template)


# --- the C++ name, taken apart -------------------------------------------------------------

_NAMELESS = re.compile(r"(?:\(anonymous namespace\)|<unnamed>|`anonymous namespace'|\{anonymous\})::")


def _split(name: str) -> tuple[str, str]:
    """`void a::b<c, d>(e)` → (`a::b`, `c, d`): the return type and the parameters dropped."""
    name = _NAMELESS.sub("", name)
    depth = start = opened = 0
    closed = end = -1
    for at, char in enumerate(name):
        if char == "(" and depth == 0 and at > start:
            end = at
            break
        if char in "<({":
            if depth == 0 and char == "<":
                opened, closed = at, -1
            depth += 1
        elif char in ">)}" and depth > 0:
            depth -= 1
            if depth == 0:
                closed = at
        elif char == " " and depth == 0:
            start, opened = at + 1, 0
    whole = name[start : end if end >= 0 else len(name)]
    if opened <= start:
        return whole.strip(), ""
    inside = name[opened + 1 : closed if closed > opened else len(name)]
    return name[start:opened].strip(), inside


def _last(head: str) -> str:
    return head.rpartition("::")[2] or head


_WORD = re.compile(r"[A-Za-z_]\w*")


# --- dtypes --------------------------------------------------------------------------------

_DTYPES = {
    "bf16": "bf16", "bfloat16": "bf16", "bfloat16_t": "bf16", "__nv_bfloat16": "bf16",
    "fp16": "f16", "f16": "f16", "half": "f16", "half_t": "f16", "__half": "f16",
    "fp32": "f32", "f32": "f32", "float": "f32", "tf32": "tf32", "tfloat32_t": "tf32",
    "fp64": "f64", "f64": "f64", "double": "f64",
    "int8": "i8", "s8": "i8", "i8": "i8", "u8": "u8", "int4": "i4", "s4": "i4",
    "e4m3": "e4m3", "e5m2": "e5m2", "e2m1": "e2m1", "float8_e4m3fn": "e4m3",
    "float8_e4m3fnuz": "e4m3", "float8_e5m2": "e5m2", "float8_e5m2fnuz": "e5m2",
    "__nv_fp8_e4m3": "e4m3", "__nv_fp8_e5m2": "e5m2", "float_e4m3_t": "e4m3",
    "float_e5m2_t": "e5m2", "complex": "c64",
}  # fmt: skip
_INTEGERS = {"int": "i32", "long": "i64", "short": "i16", "char": "i8", "bool": "bool"}
_LETTERS = {"h": "f16", "s": "f32", "d": "f64", "c": "c64", "z": "c128", "i": "i8", "t": "bf16",
            "b": "bf16", "q": "e4m3", "r": "e5m2"}  # fmt: skip
_LAMBDA = re.compile(r"\{lambda\(([^(){}]+)\)#\d+\}")


def _dtype_in(text: str) -> str | None:
    """The type that C++ text computes in: its last lambda's arguments first, floats before ints."""
    lambdas = _LAMBDA.findall(text)
    for part in (lambdas[-1], text) if lambdas else (text,):
        words = _WORD.findall(part)
        for table in (_DTYPES, _INTEGERS):
            for word in words:
                if found := table.get(word.lower()):
                    return found
    return None


# --- copies, fills ---------------------------------------------------------------------------


def _memory(name: str, head: str, template: str) -> KernelName | None:
    if name.startswith("Memcpy"):
        return KernelName(name, "copy", short=name.partition(" (")[0])
    if name.startswith("Memset"):
        return KernelName(name, "fill", short="Memset")
    if head.startswith("__amd_rocclr_"):
        family = "copy" if "copy" in head.lower() else "fill" if "fill" in head else "other"
        return KernelName(name, family, "hip", short=head)
    return None


# --- Triton --------------------------------------------------------------------------------

_INDUCTOR = {
    "poi": "triton_pointwise", "for": "triton_pointwise", "red": "triton_reduction",
    "per": "triton_reduction", "spl": "triton_reduction", "mix": "triton_reduction",
    "tem": "triton_template", "mm": "triton_template", "bmm": "triton_template",
    "addmm": "triton_template", "flex": "triton_template",
}  # fmt: skip
# Triton 2 appended how it specialised each argument: `_0d1d2de3c`
_SPECIALISED = re.compile(r"_?\d+(?:d|c|e|de|dc|ec)(?:\d+(?:de|dc|ec|d|c|e)?)*$")
_LIGER = re.compile(
    r"_?(?:block_)?(?:geglu_tanh|swiglu|rms_norm|layer_norm|group_norm|poly_norm|fused_add_rms_norm"
    r"|dyt|tiled_\w{1,40})_(?:forward|backward|fwd|bwd)(?:_\w{1,40})?|liger_\w{1,80}"
    r"|_triton_rope|_triton_qwen2vl_mrope|_jsd_kernel|_kldiv_kernel_(?:forward|backward)"
    r"|_tv_distance_kernel|element_mul_kernel|_selective_log_softmax_kernel|_grpo_loss_\w{1,40}"
)
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]*")

# Ops of more than one word, as Inductor joins them into a name; a leading `_` is an empty word.
_LONG_OPS = frozenset(
    """
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _embedding_bag _fused_dropout
    _fused_rms_norm _fused_rms_norm_backward _log_softmax _log_softmax_backward_data
    _native_batch_norm_legit _native_batch_norm_legit_functional _prelu_kernel _scaled_mm
    _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
    _scaled_dot_product_cudnn_attention _softmax _softmax_backward_data _to_copy _unsafe_index
    _unsafe_index_put _unsafe_view _upsample_bilinear2d_aa _weight_norm_interface _grouped_mm
    _foreach_add _foreach_addcdiv _foreach_addcmul _foreach_copy _foreach_div _foreach_lerp
    _foreach_mul _foreach_norm _foreach_sqrt _foreach_sub
    adaptive_avg_pool2d alias_copy as_strided as_strided_scatter avg_pool2d avg_pool2d_backward
    avg_pool3d batch_norm bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor cat clamp_max clamp_min clone constant_pad_nd convolution
    convolution_backward copysign cross_entropy cross_entropy_loss dequantize_per_tensor
    detach dropout elu_backward embedding embedding_bag embedding_dense_backward empty_like
    expand_as fill_ flex_attention floor_divide full_like gelu_backward glu_backward
    grid_sampler_2d group_norm hardsigmoid_backward hardswish_backward hardtanh_backward
    huber_loss index_add index_copy index_fill index_put index_select instance_norm
    l1_loss layer_norm leaky_relu leaky_relu_backward log_sigmoid_forward log_softmax
    logical_and logical_not logical_or logical_xor masked_fill masked_scatter
    max_pool2d_with_indices max_pool2d_with_indices_backward mse_loss mse_loss_backward
    nan_to_num native_batch_norm native_batch_norm_backward native_dropout
    native_dropout_backward native_group_norm native_group_norm_backward native_layer_norm
    native_layer_norm_backward new_empty new_empty_strided new_full new_ones new_zeros
    nll_loss nll_loss_backward nll_loss_forward nll_loss2d_forward ones_like pad_sequence
    pixel_shuffle pow_backward quantize_per_tensor rand_like randn_like reflection_pad2d
    repeat_interleave replication_pad2d rms_norm rope_ rrelu_with_noise scalar_tensor
    scaled_dot_product_attention scatter_add scatter_reduce select_backward select_scatter
    sigmoid_backward silu_backward slice_backward slice_scatter smooth_l1_loss
    softplus_backward split_with_sizes squared_relu tanh_backward threshold_backward
    true_divide upsample_bicubic2d upsample_bilinear2d upsample_nearest2d
    upsample_nearest2d_backward var_mean view_as view_as_complex view_as_real
    zeros_like
    """.split()
)  # fmt: skip
_LONGEST_OP = max(op.count("_") + 1 for op in _LONG_OPS)


def _triton(name: str, head: str, template: str) -> KernelName | None:
    """Inductor's names say which ops are fused; hand-written kernels say what they were called."""
    if template or not _IDENTIFIER.fullmatch(head):
        return None
    if head.startswith("triton_"):
        words = _SPECIALISED.sub("", head).split("_")
        family = _INDUCTOR.get(words[1], "triton")
        ops = _fused_ops(words)
        return KernelName(name, family, "inductor", ops=ops, short=head)
    if _LIGER.fullmatch(head):
        return KernelName(name, "triton", "liger", short=head)
    return None


def _fused_ops(words: list[str]) -> tuple[str, ...]:
    if "fused" not in words:
        return (words[1],) if words[1] in ("mm", "bmm", "addmm") else ()
    words = words[words.index("fused") + 1 :]
    if words and words[-1].isdecimal():
        words = words[:-1]
    ops: list[str] = []
    at = 0
    while at < len(words):
        for length in range(min(_LONGEST_OP, len(words) - at), 0, -1):
            op = "_".join(words[at : at + length])
            if length == 1 or op in _LONG_OPS:
                break
        if op:
            ops.append(op)
        at += length
    return tuple(ops)


# --- rocBLAS, hipBLASLt: Tensile's scheme --------------------------------------------------------

_TENSILE_LAYOUT = {
    ("Ailk", "Bljk"): "nn", ("Alik", "Bljk"): "tn", ("Ailk", "Bjlk"): "nt", ("Alik", "Bjlk"): "tt",
}  # fmt: skip
_TENSILE_TYPES = {"B": "bf16", "H": "f16", "S": "f32", "D": "f64", "C": "c64", "Z": "c128",
                  "I": "i8", "F8": "e4m3", "B8": "e5m2", "4xi8": "i8"}  # fmt: skip
_NUMBERED = re.compile(r"(MT|MI|ISA|GSU|PGR)(\d[\dx]{0,20})")


def _tensile(name: str, head: str, template: str) -> KernelName | None:
    if not head.startswith("Cijk_"):
        return None
    words = head.split("_")
    numbers = {m[1]: m[2] for word in words if (m := _NUMBERED.fullmatch(word))}
    types = words[3] if len(words) > 3 else ""
    tile = _dims(numbers.get("MT", ""))
    library = "hipblaslt" if "UserArgs" in words else "rocblas"
    isa = numbers.get("ISA", "")
    short = "_".join([*words[:4], *(["MT" + numbers["MT"]] if "MT" in numbers else [])])
    return KernelName(
        name,
        "gemm",
        library,
        arch=f"gfx{isa}" if isa else None,
        dtype=_TENSILE_TYPES.get(types[:2]) or _TENSILE_TYPES.get(types[:1]),
        tile=tile,
        layout=_TENSILE_LAYOUT.get((words[1], words[2])) if len(words) > 2 else None,
        epilogue=("bias",) if "Bias" in words else (),
        split_k=numbers.get("GSU", "1") not in ("0", "1"),
        tensor_cores="MI" in numbers,
        short=short,
    )


# --- matrix products ---------------------------------------------------------------------------

_DIMS = re.compile(r"\d{1,5}(?:x\d{1,5}){1,2}")
_PRODUCT = re.compile(r"([a-z]{0,2})(\d{2,9}|\d{1,3}x\d{1,3}x\d{1,3})?(gemm|fprop|dgrad|wgrad|cudnn|conv)")
_GENERATIONS = {"maxwell": "sm50", "pascal": "sm60", "volta": "sm70", "turing": "sm75",
                "ampere": "sm80", "ada": "sm89", "hopper": "sm90", "blackwell": "sm100"}  # fmt: skip
_ARCH = re.compile(r"sm_?(\d{2,3})[af]?")
_LAYOUT = re.compile(r"[ntc]{2,3}|[NTC]{2,3}|nhwc|nchw|ndhwc|ncdhw|nhwckrsc")
_TILESIZE = re.compile(r"tilesize(\d[\dx]{0,20})")
_STAGE = re.compile(r"stages?(\d{1,2})")
_TENSOR = re.compile(r"tensor\d[\dx]*")
_EPILOGUES = ("bias", "badd", "relu", "gelu", "drelu", "dgelu", "dbias", "silu", "swish", "bgrad")
_CONVOLUTIONS = {"fprop", "dgrad", "wgrad", "cudnn", "conv"}
_XMMA_TYPES = re.compile(r"(bf16|tf32|f16|f32|f64|i8|e4m3|e5m2)(?:bf16|tf32|f16|f32|f64|i8|e4m3|e5m2)")


def _dims(text: str) -> tuple[int, ...] | None:
    if not re.fullmatch(r"\d{1,9}(?:x\d{1,9}){0,5}", text):
        return None
    return tuple(int(part) for part in text.split("x"))


def _wrapped(name: str, head: str, template: str) -> KernelName | None:
    """CUTLASS launches everything through `Kernel`, `Kernel2` and `device_kernel`."""
    if _last(head) not in ("Kernel", "Kernel2", "device_kernel") or "cutlass" not in head:
        return None
    words = _WORD.findall(template)
    if not words:
        return None
    inner = words[0]
    if inner.startswith("cutlass"):
        found = _matmul(name, inner, "")
        if found is not None:
            return found
    lowered = [word.lower() for word in words]
    if any("flash" in word or "fmha" in word or "attention" in word for word in lowered):
        family = "attention"
    elif any(word in ("conv", "convuniversal") for word in lowered):
        family = "convolution"
    elif any("gemm" in word for word in lowered):
        family = "gemm"
    else:
        return None
    telling = next((w for w in words if "Flash" in w or "Fmha" in w or "Gemm" in w or "Conv" in w), words[-1])
    return KernelName(
        name, family, "flash" if "flash" in words else "cutlass", arch=_arch_of(words),
        dtype=_dtype_in(template), tensor_cores=True, short=f"{_last(head)}<{telling}>",
    )  # fmt: skip


def _arch_of(words: list[str]) -> str | None:
    for word in words:
        if match := _ARCH.fullmatch(word.lower()):
            return f"sm{match[1]}"
    return None


def _matmul(name: str, head: str, template: str) -> KernelName | None:
    """cuBLAS, cuDNN and CUTLASS names: words between underscores, each with a meaning of its own."""
    last = _last(head)
    words = last.split("_")
    if last.startswith("nvjet_"):
        return _nvjet(name, last, words)
    lowered = last.lower()
    if lowered.startswith("splitkreduce") or "splitk_reduce" in lowered:
        return KernelName(name, "splitk_reduce", "cublas", dtype=_dtype_in(template), split_k=True, short=last)
    if "gemv" in head:
        return KernelName(name, "gemv", "cublas", dtype=_dtype_in(template), tensor_cores=False,
                          short=last if "gemv" in last else "::".join(head.split("::")[-2:]))  # fmt: skip
    if last in ("dot_kernel", "reduce_1Block_kernel"):
        family = "gemv" if last == "dot_kernel" else "reduction"
        return KernelName(name, family, "cublas", dtype=_dtype_in(template), tensor_cores=False, short=last)
    product = next((m for word in words if (m := _PRODUCT.fullmatch(word))), None)
    if product is None or head.startswith("at::"):
        return None
    return _worded(name, last, words, product, template)


def _nvjet(name: str, last: str, words: list[str]) -> KernelName:
    arch = _arch_of(words)
    types = next((w for w in words[1:] if re.fullmatch(r"[a-z]{3,5}", w)), "")
    dims = [d for word in words if _DIMS.fullmatch(word) and (d := _dims(word))]
    deep = dims[1] if len(dims) > 1 and len(dims[1]) == 2 else None
    tile = dims[0] if dims else None
    return KernelName(
        name,
        "gemm",
        "cublas",
        arch=arch,
        dtype=_LETTERS.get(types[:1]),
        tile=(*tile, deep[0]) if tile and deep and len(tile) == 2 else tile,
        stages=deep[1] if deep else None,
        layout=next((w for w in reversed(words) if re.fullmatch(r"[NTC]{3}", w)), None),
        epilogue=_epilogue(words),
        split_k=any(word.lower().startswith("splitk") for word in words),
        tensor_cores=True,
        short=last,
    )


def _epilogue(words: list[str]) -> tuple[str, ...]:
    return tuple(word.lower() for word in words if word.lower() in _EPILOGUES)


def _worded(
    name: str, last: str, words: list[str], product: re.Match[str], template: str
) -> KernelName:
    accumulate, instruction, kind = product[1], product[2], product[3]
    convolution = kind in _CONVOLUTIONS or any(w in _CONVOLUTIONS for w in words)
    arch = _arch_of(words) or next((_GENERATIONS[w] for w in words if w in _GENERATIONS), None)
    if arch is None and words[0] == "cutlass" and len(words) > 1 and words[1].isdecimal():
        arch = f"sm{words[1]}"
    dims = [d for word in words if _DIMS.fullmatch(word) and (d := _dims(word))]
    tile, stages = (dims[0] if dims else None), None
    if len(dims) > 1 and tile and len(tile) == 2 and len(dims[1]) == 2:
        tile, stages = (*tile, dims[1][0]), dims[1][1]
    for word in words:
        if match := _TILESIZE.fullmatch(word):
            tile = _dims(match[1])
        elif match := _STAGE.fullmatch(word):
            stages = int(match[1])
    tensor = (
        instruction is not None
        or any(_TENSOR.fullmatch(w) or w in ("tensorop", "wmma", "bstensorop") for w in words)
        or any(w.startswith("warpgroupsize") for w in words)
    )
    if words[0].startswith("cutlass"):
        library = "cutlass"
    elif words[-1] == "cudnn" or "cudnn" in last or convolution:
        library = "cudnn"
    else:
        library = "cublas"
    return KernelName(
        name,
        "convolution" if convolution else "gemm",
        library,
        arch=arch,
        dtype=_product_dtype(words, accumulate, instruction) or _dtype_in(template),
        tile=tile,
        stages=stages,
        layout=next((w for w in words if _LAYOUT.fullmatch(w)), None),
        epilogue=_epilogue(words),
        split_k=any(word.lower().startswith("splitk") for word in words),
        tensor_cores=tensor,
        short=last,
    )


def _product_dtype(words: list[str], accumulate: str, instruction: str | None) -> str | None:
    if "tf32" in words or any(w.startswith("tf32") for w in words):
        return "tf32"
    for word in words:
        if found := _DTYPES.get(word):
            return found
        if match := _XMMA_TYPES.fullmatch(word):
            return _DTYPES[match[1]]
    if accumulate == "s" and instruction == "1688":
        return "tf32"  # single precision through tensor cores has no other operand
    return _LETTERS.get(accumulate[-1:])


# --- attention, communication ------------------------------------------------------------------


def _attention(name: str, head: str, template: str) -> KernelName | None:
    last = _last(head)
    lowered = last.lower()
    words = last.split("_")
    if lowered.startswith("cudnn_generated") and "sdpa" in lowered:
        library, dtype = "cudnn", next((_DTYPES[w] for w in words if w in _DTYPES), None)
    elif lowered.startswith("fmha_cutlass"):
        library, dtype = "cutlass", next((_DTYPES[w] for w in words if w in _DTYPES), None)
    elif "flash_fwd" in lowered or "flash_bwd" in lowered or "flash::" in head:
        library, dtype = "flash", _dtype_in(template)
    elif "fmha" in lowered or "attention" in lowered or "attn" in words:
        plain = not template and _IDENTIFIER.fullmatch(head)
        library, dtype = ("triton" if plain else None), _dtype_in(template)
    else:
        return None
    dims = next((d for word in words if _DIMS.fullmatch(word) and (d := _dims(word))), None)
    return KernelName(
        name, "attention", library, arch=_arch_of(words), dtype=dtype, tile=dims,
        tensor_cores=None if library == "triton" else True, short=last,
    )  # fmt: skip


def _communication(name: str, head: str, template: str) -> KernelName | None:
    last = _last(head)
    if last.startswith(("nccl", "rccl")):
        return KernelName(name, "communication", "nccl", ops=tuple(last.split("_")[1:2]), short=last)
    lowered = last.lower()
    if any(word in lowered for word in ("all_reduce", "allreduce", "reduce_scatter", "all_gather", "all_to_all", "cross_device_reduce", "nvshmem")):  # fmt: skip
        return KernelName(name, "communication", short=last)
    return None


# --- everything that is told by its words: ATen and others -------------------------------------

_WRAPPERS = frozenset(
    "gpu_kernel_impl gpu_kernel_impl_nocast AUnaryFunctor BUnaryFunctor BinaryFunctor ReduceOp "
    "func_wrapper_t TensorListMetadata UnaryOpFunctor BinaryOpScalarFunctor "
    "at native c10 std cuda detail binary_internal TensorIteratorBase TensorIterator opmath_gpu_kernel_with_scalars".split()
)  # fmt: skip
_FUNCTORS = (
    re.compile(r"CUDAFunctor(?:OnSelf|OnOther)?_(\w{1,60})"),
    re.compile(r"([A-Z]\w{0,60})Functor"),
    re.compile(r"([A-Z]\w{0,60})CUDAKernelImpl"),
    re.compile(r"([A-Z]\w{0,60})Ops"),
    re.compile(r"launch_(\w{1,60})"),
    re.compile(r"(\w{1,60})_functor"),
)
_KERNEL_FUNCTION = re.compile(r"(?:gpu_)?(\w{1,60}?)_kernel(?:_impl|_cuda|_gpu){0,2}")
_BARE_FUNCTORS = frozenset(("Copy", "Identity"))
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_FAMILY_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("softmax", ("softmax",)),
    ("normalization", ("layer_norm", "layernorm", "rms_norm", "rmsnorm", "group_norm", "batch_norm",
                       "batchnorm", "bn_fw", "bn_bw", "gammabeta", "rowwise_moments",
                       "instance_norm", "cu_compute_grad", "cu_compute_part", "fused_params")),
    ("gather_scatter", ("scatter", "gather", "index", "embedding", "krn_partial")),
    ("optimizer", ("multi_tensor_apply", "adam", "adagrad", "lamb_", "fused_sgd")),
    ("convolution", ("conv", "im2col", "col2im", "winograd", "igemm")),
    ("copy", ("cat_array", "batched_copy", "direct_copy", "nchw_to_nhwc", "nhwc_to_nchw", "copy_kernel", "copy_async")),
    ("fill", ("fill",)),
    ("reduction", ("reduce", "reduction")),
    ("elementwise", ("elementwise", "global_kernel", "dropout", "triu_tril")),
    ("gemm", ("gemm", "matmul")),
)  # fmt: skip


def _by_words(name: str, head: str, template: str) -> KernelName:
    last = _last(head)
    snake = _HUMPS.sub("_", last).lower()
    family = next((f for f, words in _FAMILY_WORDS if any(w in snake for w in words)), "other")
    op = _functor(template) if family in ("elementwise", "reduction", "optimizer", "gather_scatter") else None
    if op and family in ("elementwise", "optimizer"):
        if op in ("fill", "zero"):
            family = "fill"
        elif op == "copy" or op.endswith("_copy"):
            family = "copy"
        elif family == "elementwise" and any(w in op for w in ("index", "gather", "scatter")):
            family = "gather_scatter"
    plain = not template and not name.rstrip().endswith(")") and _IDENTIFIER.fullmatch(head)
    if plain and family not in ("elementwise", "reduction") and (last.startswith("_") or "_kernel" in last):
        return KernelName(name, "triton", "triton", short=last)
    library = "aten" if head.startswith("at::") else "cudnn" if "cudnn" in head else \
        "cub" if head.startswith("cub::") else "cublas" if "cublas" in head or "cublas" in template else None  # fmt: skip
    return KernelName(
        name, family, library, dtype=_dtype_in(template), ops=(op,) if op else (),
        short=f"{last}<{op}>" if op else last or name,
    )  # fmt: skip


def _functor(template: str) -> str | None:
    """The op in an elementwise or reducing kernel's template: `CUDAFunctor_add<float>` → `add`."""
    for word in _WORD.findall(template):
        if word in _WRAPPERS:
            continue
        if word in _BARE_FUNCTORS:
            return word.lower()
        for pattern in _FUNCTORS:
            if match := pattern.fullmatch(word):
                return _HUMPS.sub("_", match[1]).lower().removesuffix("_kernel")
        if match := _KERNEL_FUNCTION.fullmatch(word):
            return match[1]
    return None
