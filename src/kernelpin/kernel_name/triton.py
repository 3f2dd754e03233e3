"""Triton kernels: Inductor's names tell which ops are fused, hand-written ones what they are.

Sources: torch 2.13's `codegen/triton.py` (`triton_`, three letters of the category, `fused_` and
the sorted ATen ops, a counter) and the kernels of liger-kernel 0.8.5.
"""

from __future__ import annotations

import re

from kernelpin.kernel_name.cxx import Signature
from kernelpin.kernel_name.decoded import KernelName

_CATEGORIES = {
    "poi": "triton_pointwise", "for": "triton_pointwise",  # a foreach of pointwise kernels
    "red": "triton_reduction", "per": "triton_reduction", "spl": "triton_reduction",
    "tem": "triton_template", "mm": "triton_template", "bmm": "triton_template",
    "addmm": "triton_template", "flex": "triton_template",
}  # fmt: skip
_LIGER = re.compile(
    r"liger_\w+|element_mul_kernel|_triton_(?:rope|qwen2vl_mrope)|_llama4_rope_kernel"
    r"|_(?:block_|fused_add_|modulated_)?rms_norm_(?:forward|backward)_kernel"
    r"|_(?:layer_norm|group_norm|poly_norm|relu_squared|sparsemax|geglu_tanh)_(?:for|back)ward_kernel"
    r"|_swiglu_(?:forward|backward|fused|kernel)_\w+|_softmax_(?:single|multi)_block_\w+_kernel"
    r"|_(?:dyt|grpo_loss|attn_res|mhc_pre|mhc_post_res)_[fb]wd_kernel(?:_seq)?|_mhc_\w+_kernel"
    r"|_jsd_kernel|_kl_?div_kernel(?:_forward|_backward)?|_tv_distance_kernel"
    r"|_selective_log_softmax_kernel|_fused_neighborhood_attention_\w+_kernel"
)
_HAND_WRITTEN = re.compile(r"kernel|triton|fwd|bwd|forward|backward")
# torch 2.0's Triton appended how each argument was specialised: `0d1d2d3de`.
_SPECIALISED = re.compile(r"0[0-9cde]+")

# Ops of more than one word, which Inductor joins by the very `_` it puts between ops.
_LONG_OPS_TEXT = """
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _embedding_bag _foreach_add _foreach_addcdiv
    _foreach_addcmul _foreach_copy _foreach_div _foreach_lerp _foreach_mul _foreach_norm
    _foreach_sqrt _foreach_sub _fused_dropout _fused_rms_norm _fused_rms_norm_backward _grouped_mm
    _log_softmax _log_softmax_backward_data _native_batch_norm_legit
    _native_batch_norm_legit_functional _scaled_dot_product_cudnn_attention
    _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention _scaled_mm _softmax
    _softmax_backward_data _to_copy _unsafe_index _unsafe_index_put _unsafe_view
    _upsample_bilinear2d_aa _weight_norm_interface adaptive_avg_pool2d alias_copy as_strided
    as_strided_scatter avg_pool2d avg_pool2d_backward avg_pool3d batch_norm bitwise_and
    bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor clamp_max clamp_min
    constant_pad_nd convolution_backward cross_entropy_loss elu_backward embedding_bag
    embedding_dense_backward empty_like expand_as flex_attention flex_attention_backward
    floor_divide full_like gelu_backward glu_backward grid_sampler_2d group_norm
    hardsigmoid_backward hardswish_backward hardtanh_backward huber_loss index_add index_copy
    index_fill index_put index_select instance_norm l1_loss layer_norm leaky_relu
    leaky_relu_backward log_sigmoid_backward log_sigmoid_forward log_softmax logical_and logical_not
    logical_or logical_xor masked_fill masked_scatter max_pool2d_with_indices
    max_pool2d_with_indices_backward mse_loss mse_loss_backward nan_to_num native_batch_norm
    native_batch_norm_backward native_dropout native_dropout_backward native_group_norm
    native_group_norm_backward native_layer_norm native_layer_norm_backward new_empty
    new_empty_strided new_full new_ones new_zeros nll_loss nll_loss2d_forward nll_loss_backward
    nll_loss_forward ones_like pixel_shuffle quantize_per_tensor rand_like randn_like
    reflection_pad2d repeat_interleave replication_pad2d rms_norm rrelu_with_noise scalar_tensor
    scaled_dot_product_attention scatter_add scatter_reduce select_backward select_scatter
    sigmoid_backward silu_backward slice_backward slice_scatter smooth_l1_loss softplus_backward
    split_with_sizes tanh_backward threshold_backward true_divide upsample_bicubic2d
    upsample_bilinear2d upsample_nearest2d upsample_nearest2d_backward var_mean view_as
    view_as_complex view_as_real zeros_like
    """
_LONG_OPS = frozenset(_LONG_OPS_TEXT.split())
_LONGEST_OP = max(op.count("_") + 1 for op in _LONG_OPS)


def decode(name: str, signature: Signature) -> KernelName | None:
    """An Inductor or Liger kernel, or `None`."""
    if not signature.bare:
        return None
    head = signature.head
    if head.startswith("triton_"):
        words = head.split("_")
        if len(words) > 2 and _SPECIALISED.fullmatch(words[-1]):
            words.pop()
        family = _CATEGORIES.get(words[1], "triton")
        return KernelName(name, family, "inductor", ops=_fused(words[1:]), short=head)
    if _LIGER.fullmatch(head):
        return KernelName(name, "triton", "liger", short=head)
    return None


def decode_bare(name: str, signature: Signature) -> KernelName | None:
    """What is left of the bare identifiers: C++ kernels bring their signature, Triton's do not."""
    head = signature.head
    if signature.bare and "_" in head and head.islower() and _HAND_WRITTEN.search(head):
        return KernelName(name, "triton", "triton", short=head)
    return None


def _fused(words: list[str]) -> tuple[str, ...]:
    """The ops between `fused` and the counter: the longest op that is known, at each place."""
    if "fused" not in words:
        return (words[0],) if words[0] in ("mm", "bmm", "addmm") else ()
    words = words[words.index("fused") + 1 :]
    if words and words[-1].isdecimal():
        words = words[:-1]
    ops: list[str] = []
    at = 0
    while at < len(words):
        length = min(_LONGEST_OP, len(words) - at)
        while length > 1 and "_".join(words[at : at + length]) not in _LONG_OPS:
            length -= 1
        if length == 1 and not words[at] and at + 1 < len(words):
            length = 2  # an unknown op that begins with an underscore
        if op := "_".join(words[at : at + length]):
            ops.append(op)
        at += length
    return tuple(ops)
