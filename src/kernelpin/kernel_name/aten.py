"""ATen's kernels, and all others that only the words of their name tell: cub, NCCL, MIOpen, …"""

from __future__ import annotations

import re

from kernelpin.kernel_name.cxx import Signature, dtype_in
from kernelpin.kernel_name.decoded import KernelName

_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

# The first pattern that is found in the snake-cased name decides; `_` stands at both of its ends.
_FAMILIES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("communication", re.compile(
        r"_(?:nccl|rccl|nvshmem|all_?reduce|all_?gather|reduce_scatter|all_to_all)|cross_device_reduce")),
    ("softmax", re.compile(r"soft_?max")),
    ("normalization", re.compile(
        r"(?:layer|rms|group|batch|instance|renorm)_?norm|_bn_[fb]w|gamma_beta|rowwise_moments"
        r"|_cu_compute_|compute_fused_params|_norm_kernel")),
    ("elementwise", re.compile(r"_rotary_|_rope_|dropout|triu_tril|_scatter_gather_elementwise"
                               r"|_axpy_|_scal_kernel")),
    ("gather_scatter", re.compile(r"embedding")),  # fbgemm fuses optimizers into its embeddings
    ("optimizer", re.compile(r"multi_tensor_apply|_(?:fused_)?(?:adamw?|sgd|lamb|adagrad)_")),
    ("gather_scatter", re.compile(r"scatter|gather|_index|embedding|_krn_partial")),
    ("convolution", re.compile(
        r"_conv(?:\d\w*|olve|olution\w*|_\w*)?_|_conv\d|implicit_convolve|im2col|col2im|winograd|_igemm")),
    ("copy", re.compile(
        r"batched_copy|direct_copy|nchw_?to_?nhwc|nhwc_?to_?nchw|_copy_|_copy$|_transpose_")),
    ("fill", re.compile(r"_fill_")),
    ("gemm", re.compile(r"gemm|_matmul|_bmm_|_marlin")),
    ("reduction", re.compile(r"_reduc(?:e|tion)")),
    ("elementwise", re.compile(r"elementwise|_epilogue_impl_global_kernel|_pointwise")),
)  # fmt: skip
_WRAPPED_IN_WORDS = ("kernel", "Kernel", "globalKernel")  # names that need their namespace

_ATEN_HEADS = (
    "elementwise_kernel", "vectorized_elementwise_kernel", "unrolled_elementwise_kernel",
    "index_elementwise_kernel", "reduce_kernel", "multi_tensor_apply_kernel",
    "softmax_warp_",
)  # fmt: skip
_WITH_FUNCTOR = ("elementwise", "reduction", "optimizer", "gather_scatter")

# Types and adapters that stand before the functor in a template.
_ADAPTERS = (
    "gpu_kernel_impl", "gpu_kernel_impl_nocast", "gpu_index_kernel", "AUnaryFunctor",
    "BUnaryFunctor", "BinaryFunctor", "UnaryOpFunctor", "BinaryOpScalarFunctor", "ReduceOp",
    "func_wrapper_t", "OpaqueType", "_cuda_scatter_gather_internal_kernel",
)  # fmt: skip
_FUNCTORS = (
    re.compile(r"CUDAFunctor(?:OnSelf|OnOther)?_(\w+)"),
    re.compile(r"([A-Z]\w*?)(?:Math)?Functor"),
    re.compile(r"([A-Z]\w*)CUDAKernelImpl"),
    re.compile(r"([A-Z]\w*)Ops"),
    re.compile(r"launch_(\w+?)(?:_kernel)?"),
    re.compile(r"(\w+)_functor"),
    re.compile(r"(?:gpu_)?(\w+?)_kernel(?:_impl|_cuda|_gpu|_functor)*"),
    re.compile(r"(Copy|TensorAssign|ReduceAdd|ReduceMultiply)"),
)


def decode(name: str, signature: Signature) -> KernelName:
    """The family that the words tell, `other` if they tell none; with the functor as its op."""
    last = signature.last
    if last == "kentry":  # Composable Kernel's wrapper: the template says what runs
        told = "_".join(signature.words[:4])
    else:
        told = signature.head if last in _WRAPPED_IN_WORDS else last
    snake = f"_{_HUMPS.sub('_', told).lower().replace('::', '_')}_"
    family = next((family for family, words in _FAMILIES if words.search(snake)), "other")
    op = _functor(signature) if family in _WITH_FUNCTOR else None
    if op is not None and family in ("elementwise", "optimizer"):
        if op in ("fill", "zero"):
            family = "fill"
        elif op == "copy" or (op.endswith("_copy") and not op.startswith("index")):
            family = "copy"
        elif re.search(r"(?:^|_)(?:index|gather|scatter|take|put)(?:_|$)", op):
            family = "gather_scatter"
    if "_scatter_gather_elementwise_" in snake:
        family = "gather_scatter"
    ops: tuple[str, ...] = (op,) if op else ()
    if last.startswith(("nccl", "rccl")):
        ops = tuple(last.split("_")[1:2])
    return KernelName(
        name,
        family,
        _library(signature, family),
        dtype=dtype_in(signature.template),
        ops=ops,
        short=f"{last}<{op}>" if op else last or name,
    )


def _library(signature: Signature, family: str) -> str | None:
    head = signature.head
    if head.startswith("at::") or signature.last.startswith(_ATEN_HEADS):
        return "aten"
    if family == "communication":
        return "nccl" if signature.last.startswith(("nccl", "rccl")) else None
    for library in ("cudnn", "thrust", "cub::", "fbgemm", "flashinfer", "vllm"):
        if library in head:
            return library.removesuffix("::")
    if signature.last.lower().startswith("miopen"):
        return "miopen"
    if "cublas" in head or "cublas" in signature.template or "epilogue::impl" in head:
        return "cublas"
    return None


def _functor(signature: Signature) -> str | None:
    """The op in an elementwise or reducing kernel's template: `CUDAFunctor_add<float>` → `add`."""
    template = signature.template
    if len(template) > 1 and template.islower() and template.isidentifier():
        return template if dtype_in(template) is None else None  # a short name, read back
    for word in signature.words:
        if word in _ADAPTERS or word.startswith("TensorList"):
            continue
        for pattern in _FUNCTORS:
            if match := pattern.fullmatch(word):
                return _HUMPS.sub("_", match[1]).lower()
    return None
