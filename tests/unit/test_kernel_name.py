"""What kernel names tell. The table holds names from real traces and profiler logs."""

import time
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelpin import load_trace
from kernelpin.kernel_name import FAMILIES, KernelName, decode_kernel_name, in_family
from kernelpin.kernel_name.mangled import readable

ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul>)"
)
MULTI_TENSOR = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::{metadata}, at::native::(anonymous namespace)::{functor}>(x)"
)
REDUCE = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<{op}> >(at::native::Foo)"
STRIDED = (
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<{functor}>(at::"
    "TensorIteratorBase&, {functor} const&)::{{lambda(int)#1}}>(int, at::native::gpu_kernel_impl<"
    "{functor}>(at::TensorIteratorBase&, {functor} const&)::{{lambda(int)#1}})"
)
WHERE = (
    "at::native::(anonymous namespace)::where_kernel_impl(at::TensorIterator&)::{lambda()#1}::"
    "operator()() const::{lambda()#14}::operator()() const::{lambda(bool, float, float)#1}"
)
DIRECT_COPY = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() "
    "const::{lambda()#12}::operator()() const::{lambda(c10::BFloat16)#1}"
)
GELU = (
    "at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#1}::"
    "operator()() const::{lambda()#4}::operator()() const::{lambda(c10::BFloat16)#1}"
)


def gemm(**told):
    return {"family": "gemm", **told}


def elementwise(op, dtype, library="aten"):
    return {"family": "elementwise", "library": library, "ops": (op,), "dtype": dtype}


# name → every field that its name tells; the fields left out are at their default, `short` aside
NAMES = {
    # cuBLAS, by generation
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn": gemm(
        library="cublas", arch="sm80", dtype="bf16", tile=(128, 128, 32), stages=5, layout="tn",
        tensor_cores=True),
    "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn": gemm(
        library="cublas", arch="sm80", dtype="f16", tile=(64, 64, 64), stages=5, layout="tn",
        tensor_cores=True),
    "ampere_i16832gemm_int8_128x128_ldg16_stages_64x3_tn": gemm(
        library="cublas", arch="sm80", dtype="i8", tile=(128, 128, 64), stages=3, layout="tn",
        tensor_cores=True),
    "ampere_sgemm_32x32_sliced1x4_nt": gemm(
        library="cublas", arch="sm80", dtype="f32", tile=(32, 32), layout="nt", tensor_cores=False),
    "ampere_dgemm_64x64_nn": gemm(
        library="cublas", arch="sm80", dtype="f64", tile=(64, 64), layout="nn", tensor_cores=False),
    "volta_fp16_s884gemm_fp16_256x128_ldg8_f2f_nn": gemm(
        library="cublas", arch="sm70", dtype="f16", tile=(256, 128), layout="nn",
        tensor_cores=True),
    "volta_sgemm_128x64_nn": gemm(
        library="cublas", arch="sm70", dtype="f32", tile=(128, 64), layout="nn",
        tensor_cores=False),
    "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn": gemm(
        library="cublas", arch="sm75", dtype="f16", tile=(128, 128), layout="tn",
        tensor_cores=True),
    "turing_h1688gemm_128x64_ldg8_nn": gemm(
        library="cublas", arch="sm75", dtype="f16", tile=(128, 64), layout="nn",
        tensor_cores=True),
    "trt_ampere_h16816gemm_128x64_ldg8_nn_v1": gemm(
        library="cublas", arch="sm80", dtype="f16", tile=(128, 64), layout="nn",
        tensor_cores=True),
    # nvjet
    "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT": gemm(
        library="cublas", arch="sm90", dtype="bf16", tile=(64, 8, 64), stages=16, layout="TNT",
        epilogue=("bias",), tensor_cores=True),
    "nvjet_sm90_tst_256x128_64x4_1x2_h_badd_coopA_NNT": gemm(
        library="cublas", arch="sm90", dtype="bf16", tile=(256, 128, 64), stages=4, layout="NNT",
        epilogue=("badd",), tensor_cores=True),
    "nvjet_sm90_tst_64x16_64x16_4x1_v_bz_splitK_bias_TNT": gemm(
        library="cublas", arch="sm90", dtype="bf16", tile=(64, 16, 64), stages=16, layout="TNT",
        epilogue=("bias",), split_k=True, tensor_cores=True),
    "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT": gemm(
        library="cublas", arch="sm90", dtype="bf16", tile=(192, 128, 64), stages=5, layout="TNT",
        tensor_cores=True),
    "nvjet_sm90_tst_64x8_64x16_1x1_h_bx_TNT": gemm(
        library="cublas", arch="sm90", dtype="bf16", tile=(64, 8, 64), stages=16, layout="TNT",
        tensor_cores=True),
    "nvjet_hsh_64x8_64x16_4x1_v_bz_splitK_TNT": gemm(
        library="cublas", dtype="f16", tile=(64, 8, 64), stages=16, layout="TNT", split_k=True,
        tensor_cores=True),
    "nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT": gemm(
        library="cublas", dtype="e4m3", tile=(128, 256, 128), stages=6, layout="TNT",
        tensor_cores=True),
    "nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN": gemm(
        library="cublas", arch="sm120", dtype="bf16", tile=(64, 64, 128), stages=3, layout="TNNN",
        tensor_cores=True),
    # XMMA
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_"
    "k_off_kernel__5x_cublas": gemm(
        library="cublas", arch="sm90", dtype="bf16", tile=(64, 64, 64), layout="tn",
        tensor_cores=True),
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x32_stage4_warpsize2x2x1_tensor16x8x16_"
    "kernel": gemm(
        library="cublas", arch="sm80", dtype="f16", tile=(96, 128, 32), stages=4, layout="tn",
        tensor_cores=True),
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_"
    "alignc4_execute_kernel__51_cublas": gemm(
        library="cublas", arch="sm80", dtype="f32", tile=(32, 32, 8), stages=3, layout="tn",
        tensor_cores=False),
    "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_"
    "kernel": gemm(
        library="cublas", arch="sm80", dtype="tf32", tile=(128, 128, 16), stages=4, layout="tn",
        tensor_cores=True),
    # CUTLASS
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>("
    "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8::Params)": gemm(
        library="cutlass", arch="sm80", dtype="bf16", tile=(64, 64, 64), stages=6, layout="tn",
        epilogue=("relu",), tensor_cores=True,
        short="cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8"),
    "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align8": gemm(
        library="cutlass", arch="sm80", dtype="bf16", tile=(32, 32, 32), stages=1, layout="tn",
        tensor_cores=True),
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x10_nt_align4>("
    "cutlass_80_tensorop_s1688gemm_64x64_16x10_nt_align4::Params)": gemm(
        library="cutlass", arch="sm80", dtype="tf32", tile=(64, 64, 16), stages=10, layout="nt",
        tensor_cores=True),
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(T1::Params)": gemm(
        library="cutlass", arch="sm80", dtype="f32", tile=(128, 64, 8), stages=5, layout="nn",
        tensor_cores=False),
    "cutlass3x_sm90_tensorop_s64x256x16gemm_f16_f16_f32_void_f32_128x256x64_2x1x1_0_ttt_align8_"
    "warpspecialized_cooperative_epi_tma": gemm(
        library="cutlass", arch="sm90", dtype="f16", tile=(128, 256, 64), layout="ttt",
        tensor_cores=True),
    "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::kernel:"
    ":GemmUniversal<cute::tuple<int, int, int, int>, cutlass::float_e4m3_t> > >(x)": gemm(
        library="cutlass", dtype="e4m3", tensor_cores=True, short="device_kernel<GemmUniversal>"),
    # products with a vector, and what goes with split-K
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, float, float, "
    "float, false, true, false, false, 7, cublasGemvParams<cublasGemvTensorStridedBatched<float "
    "const>, float> >(cublasGemvParams<float>)": {
        "family": "gemv", "library": "cublas", "dtype": "f32", "tensor_cores": False,
        "short": "gemvx::kernel"},
    "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 16, "
    "4, 4, false, false, cublasGemvParamsEx<int> >(cublasGemvParamsEx<int>, float, float)": {
        "family": "gemv", "library": "cublas", "dtype": "bf16", "tensor_cores": False},
    "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const>, "
    "cublasGemvTensorStridedBatched<float> > >(cublasDotParams<float>)": {
        "family": "gemv", "library": "cublas", "dtype": "f32", "tensor_cores": False},
    "void reduce_1Block_kernel<float, (int)128, (int)7, cublasGemvTensorStridedBatched<float>, "
    "cublasGemvTensorStridedBatched<float>>(const T1 *, T1)": {
        "family": "reduction", "library": "cublas", "dtype": "f32"},
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16, "
    "true, true, false>(cublasLt::cublasSplitKParams<float>)": {
        "family": "splitk_reduce", "library": "cublas", "dtype": "f32", "split_k": True},
    "void gemmk1_kernel<float, 256, 5, false, false, false, false, cublasGemvTensorStridedBatched<"
    "float const>, float, true, true>(cublasGemmk1Params<float>)": gemm(
        library="cublas", dtype="f32"),
    "void epilogue::impl::globalKernel<float, float, float, true, true>(int, int, long, float*, "
    "cublasLtEpilogue_t, int)": {"family": "elementwise", "library": "cublas", "dtype": "f32"},
    # rocBLAS, hipBLASLt
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB1_AFC1_ISA942_IU1_"
    "K1_WS64_WG32_8_1": gemm(
        library="hipblaslt", arch="gfx942", dtype="bf16", tile=(256, 192, 64), layout="tn",
        epilogue=("bias",), tensor_cores=True, short="Cijk_Alik_Bljk_BBS_MT256x192x64"),
    "Cijk_Ailk_Bjlk_HHS_BH_MT128x128x32_MI32x32x8x1_SN_1LDSB0_APM1_GSU4_PGR1": gemm(
        library="rocblas", dtype="f16", tile=(128, 128, 32), layout="nt", split_k=True,
        tensor_cores=True),
    "Cijk_Ailk_Bjlk_DB_MT064x064x08_K1_NLCA01_NLCB01_TT04_04_USFGRO0_WG16_16_01": gemm(
        library="rocblas", dtype="f64", tile=(64, 64, 8), layout="nt"),
    # attention
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, "
    "false, false, cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 4, "
    "cutlass::bfloat16_t> >, false, false, false, false, false, true, false>("
    "pytorch_flash::Flash_fwd_params)": {
        "family": "attention", "library": "flash", "dtype": "bf16", "tensor_cores": True,
        "short": "flash_fwd_kernel"},
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::"
    "CollectiveMainloopFwdSm90<2, cutlass::bfloat16_t, float, cutlass::arch::Sm90> > > >(x)": {
        "family": "attention", "library": "flash", "arch": "sm90", "dtype": "bf16",
        "tensor_cores": True, "short": "device_kernel<FlashAttnFwdSm90>"},
    "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::"
    "bfloat16_t, cutlass::arch::Sm80, true, 64, 128, 128, true, true>::Params)": {
        "family": "attention", "library": "cutlass", "arch": "sm80", "dtype": "bf16",
        "tile": (64, 128), "tensor_cores": True},
    "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_3_64x64x128_4x1x1_kernel0_0": {
        "family": "attention", "library": "cudnn", "arch": "sm80", "dtype": "f16",
        "tile": (64, 64, 128), "tensor_cores": True},
    "attn_fwd": {"family": "attention", "library": "triton"},
    "kernel_unified_attention_2d": {"family": "attention", "library": "triton"},
    "void ck_tile::kentry<256, 1, ck_tile::FmhaFwdKernel<ck_tile::half_t> >(x)": {
        "family": "attention", "library": "ck", "dtype": "f16", "tensor_cores": True},
    # ATen: elementwise, with its functor
    ADD: {**elementwise("add", "bf16"), "short": "vectorized_elementwise_kernel<add>"},
    STRIDED.format(functor="at::native::CUDAFunctor_add<c10::BFloat16>"): {
        **elementwise("add", "bf16"), "short": "elementwise_kernel<add>"},
    STRIDED.format(functor="at::native::BUnaryFunctor<float, float, float, at::native::"
                           "binary_internal::MulFunctor<float> >"): elementwise("mul", "f32"),
    STRIDED.format(functor=WHERE): elementwise("where", "f32"),
    STRIDED.format(functor=DIRECT_COPY): {
        "family": "copy", "library": "aten", "ops": ("direct_copy",), "dtype": "bf16",
        "short": "elementwise_kernel<direct_copy>"},
    f"void at::native::vectorized_elementwise_kernel<8, {GELU}, std::array<char*, 2ul> >(int, "
    f"{GELU}, std::array<char*, 2ul>)": elementwise("gelu", "bf16"),
    "void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<float>, at::detail::"
    "Array<char*, 3>, TrivialOffsetCalculator<2, unsigned int>, TrivialOffsetCalculator<1, "
    "unsigned int>, at::native::memory::LoadWithoutCast, at::native::memory::StoreWithoutCast>("
    "int)": elementwise("add", "f32"),
    "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<long, long, bool, "
    "at::native::(anonymous namespace)::CompareEqFunctor<long> >, std::array<char*, 2ul> >(int)":
        elementwise("compare_eq", "i64"),
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, at::detail::"
    "Array<char*, 1> >(int, at::native::FillFunctor<float>, at::detail::Array<char*, 1>)": {
        "family": "fill", "library": "aten", "ops": ("fill",), "dtype": "f32"},
    "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(at::"
    "TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul> >(int)": {
        "family": "copy", "library": "aten", "ops": ("bfloat16_copy",), "dtype": "f32"},
    "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, unsigned int, "
    "1, 4, bool>(x)": {"family": "elementwise", "library": "aten", "dtype": "f32"},
    # ATen: the rest
    REDUCE.format(op="c10::BFloat16, at::native::MeanOps<c10::BFloat16, float, float, "
                     "c10::BFloat16>, unsigned int, c10::BFloat16, 4, 4"): {
        "family": "reduction", "library": "aten", "ops": ("mean",), "dtype": "bf16",
        "short": "reduce_kernel<mean>"},
    REDUCE.format(op="float, at::native::func_wrapper_t<float, at::native::sum_functor<float, "
                     "float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, "
                     "unsigned int, float, 4"): {
        "family": "reduction", "library": "aten", "ops": ("sum",), "dtype": "f32"},
    "void (anonymous namespace)::softmax_warp_forward<c10::Half, c10::Half, float, 7, false, false>"
    "(c10::Half*, c10::Half const*, int, int, int, bool const*, int, bool)": {
        "family": "softmax", "library": "aten", "dtype": "f16"},
    "void at::native::(anonymous namespace)::cunn_SoftMaxForwardSmem<8, float, float, float, at::"
    "native::(anonymous namespace)::SoftMaxForwardEpilogue, long>(float*, float const*, long)": {
        "family": "softmax", "library": "aten", "dtype": "f32"},
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>("
    "int, float, c10::BFloat16 const*)": {
        "family": "normalization", "library": "aten", "dtype": "bf16"},
    "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>(long)": {
        "family": "normalization", "library": "aten", "dtype": "f32"},
    "void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float>(long, float)": {
        "family": "normalization", "library": "aten", "dtype": "f32"},
    "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)": {
        "family": "normalization", "library": "vllm", "dtype": "bf16"},
    "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(x)": {
        "family": "normalization", "library": "flashinfer", "dtype": "bf16"},
    "void cudnn::bn_fw_inf_1C11_kernel_NHWC<__half, float, true, 1>(float, float)": {
        "family": "normalization", "library": "cudnn", "dtype": "f16"},
    "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned "
    "int, 2, 2, -2, true>(at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>)": {
        "family": "gather_scatter", "library": "aten", "dtype": "bf16"},
    "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int)": {
        "family": "gather_scatter", "library": "aten", "dtype": "i64"},
    "void at::native::_scatter_gather_elementwise_kernel<128, 4, at::native::_cuda_scatter_gather_"
    "internal_kernel<true, float>::operator()<at::native::ReduceAdd>(at::TensorIterator&, long)::"
    "{lambda(int)#1}>(int)": {
        "family": "gather_scatter", "library": "aten", "ops": ("reduce_add",), "dtype": "f32"},
    "void at::native::(anonymous namespace)::embedding_backward_feature_kernel<float, float, long>("
    "x)": {"family": "gather_scatter", "library": "aten", "dtype": "f32"},
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>("
    "float*)": {"family": "copy", "library": "aten", "dtype": "f32"},
    "void at::native::_GLOBAL__N__52_tmpxft_0000230c_00000000_11_Shape_compute_75_cpp1_ii_cedd8df2"
    "::CatArrayBatchedCopy<float, unsigned int, int=4>(float*)": {
        "family": "copy", "library": "aten", "dtype": "f32", "short": "CatArrayBatchedCopy"},
    MULTI_TENSOR.format(
        metadata="FusedOptimizerTensorListMetadata<4>",
        functor="FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)0, false>, float const*"): {
        "family": "optimizer", "library": "aten", "ops": ("fused_adam",), "dtype": "f32"},
    MULTI_TENSOR.format(
        metadata="TensorListMetadata<2>",
        functor="UnaryOpFunctor<c10::BFloat16, 2, 1, 1>, at::native::Copy<c10::BFloat16, "
                "c10::BFloat16>"): {
        "family": "copy", "library": "aten", "ops": ("copy",), "dtype": "bf16"},
    MULTI_TENSOR.format(
        metadata="TensorListMetadata<1>", functor="ZeroFunctor<float, 1, 1, 0>"): {
        "family": "fill", "library": "aten", "ops": ("zero",), "dtype": "f32"},
    "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800,"
    " false, long, int, int, int>(int*)": {"family": "other", "library": "cub", "dtype": "i64"},
    # convolutions
    "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x32x32_stage4_"
    "warpsize4x1x1_g1_tensor16x8x16_execute_kernel__5x_cudnn": {
        "family": "convolution", "library": "cudnn", "arch": "sm80", "dtype": "f16",
        "tile": (128, 32, 32), "stages": 4, "layout": "nhwckrsc", "tensor_cores": True},
    "volta_scudnn_128x64_relu_small_nn_v1": {
        "family": "convolution", "library": "cudnn", "arch": "sm70", "dtype": "f32",
        "tile": (128, 64), "layout": "nn", "epilogue": ("relu",), "tensor_cores": False},
    "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>(int)": {
        "family": "convolution", "library": "cudnn", "dtype": "f32", "tensor_cores": False},
    "miopenSp3AsmConv3x3F.kd": {"family": "convolution", "library": "miopen"},
    # communication
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": {
        "family": "communication", "library": "nccl", "ops": ("AllReduce",)},
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)": {
        "family": "communication", "library": "nccl", "ops": ("SendRecv",)},
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)": {
        "family": "communication", "dtype": "bf16"},
    # Inductor
    "triton_poi_fused__unsafe_view_gelu_mul_0": {
        "family": "triton_pointwise", "library": "inductor",
        "ops": ("_unsafe_view", "gelu", "mul")},
    "triton_red_fused__unsafe_view_add_mean_mul_pow_rsqrt_1": {
        "family": "triton_reduction", "library": "inductor",
        "ops": ("_unsafe_view", "add", "mean", "mul", "pow", "rsqrt")},
    "triton_per_fused__to_copy_add_native_layer_norm_native_layer_norm_backward_3": {
        "family": "triton_reduction", "library": "inductor",
        "ops": ("_to_copy", "add", "native_layer_norm", "native_layer_norm_backward")},
    "triton_tem_fused_addmm_3": {
        "family": "triton_template", "library": "inductor", "ops": ("addmm",)},
    "triton_mm": {"family": "triton_template", "library": "inductor", "ops": ("mm",)},
    "triton_for_fused_0": {"family": "triton_pointwise", "library": "inductor"},
    "triton_poi_fused_relu_threshold_backward_0d1d2de": {
        "family": "triton_pointwise", "library": "inductor", "ops": ("relu", "threshold_backward")},
    "triton__0d1d2d3de": {"family": "triton", "library": "inductor"},
    # hand-written Triton
    "_geglu_tanh_forward_kernel": {"family": "triton", "library": "liger"},
    "_rms_norm_forward_kernel": {"family": "triton", "library": "liger"},
    "liger_cross_entropy_kernel": {"family": "triton", "library": "liger"},
    "fused_moe_kernel": {"family": "triton", "library": "triton"},
    # memory
    "Memcpy DtoD (Device -> Device)": {"family": "copy", "short": "Memcpy DtoD"},
    "Memset (Device)": {"family": "fill", "short": "Memset"},
    "__amd_rocclr_copyBuffer": {"family": "copy", "library": "hip"},
    "__amd_rocclr_fillBufferAligned.kd": {"family": "fill", "library": "hip"},
    # mangled, as Windows traces have them
    "_ZN7cutlass7Kernel2I67cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align8EEvNT"
    "_6ParamsE": gemm(
        library="cutlass", arch="sm80", dtype="bf16", tile=(32, 32, 32), stages=1, layout="tn",
        tensor_cores=True,
        short="cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align8"),
    "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_18GeluCUDAKernelImplERNS_18Tensor"
    "IteratorBaseENS0_8GeluTypeEENKUlvE0_clEvENKUlvE2_clEvEUlN3c108BFloat16EE_NS_6detail5ArrayIPc"
    "Li2EEEEEviT0_T1_": elementwise("gelu", "bf16"),
    "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_49_GLOBAL__N__d2ba64fb_16_Tensor"
    "Compare_cu_71e06f4e19launch_clamp_scalarERNS_18TensorIteratorBaseEN3c106ScalarES6_NS0_6detail"
    "11ClampLimitsEENKUlvE_clEvENKUlvE5_clEvEUlfE_St5arrayIPcLm2EEEEviT0_T1_":
        elementwise("clamp_scalar", "f32"),
    "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfZNS0_11sum_functor"
    "IfffEclERNS_14TensorIteratorEEUlffE_EEjfLi4EEEEEvT1_": {
        "family": "reduction", "library": "aten", "ops": ("sum",), "dtype": "f32"},
    "_Z17gemv2T_kernel_valIiiffffLi128ELi16ELi4ELi4ELb0ELb1E18cublasGemvParamsExIi30cublasGemv"
    "TensorStridedBatchedIKfES3_S1_IfEfEEvT11_T4_S7_": {
        "family": "gemv", "library": "cublas", "dtype": "f32", "tensor_cores": False},
    "_Z23ncclDevKernel_Generic_224ncclDevKernelArgsStorageILm4096EE": {
        "family": "communication", "library": "nccl", "ops": ("Generic",)},
    "??$vectorized_elementwise_kernel@$03U?$CUDAFunctor_add@M@native@at@@V?$Array@PEAD$02@detail@2"
    "@@native@at@@YAXHU?$CUDAFunctor_add@M@01@V?$Array@PEAD$02@detail@01@@Z": {
        "family": "elementwise", "library": "aten", "ops": ("add",)},
    # unknown
    "void some_vendor::mystery<float>(float*)": {"family": "other", "dtype": "f32"},
    "KER3175306122031000704": {"family": "other"},
    "_Z3fooPf": {"family": "other", "short": "foo"},
    "": {"family": "other"},
}  # fmt: skip


def told_by(decoded, expected):
    return {
        field.name: getattr(decoded, field.name)
        for field in fields(KernelName)
        if field.name in expected or field.name not in ("name", "short")
    }


@pytest.mark.parametrize(("name", "expected"), NAMES.items(), ids=lambda value: str(value)[:60])
def test_a_real_name_tells_exactly_this(name, expected):
    nothing = KernelName(name, "other")
    everything = {
        field.name: getattr(nothing, field.name)
        for field in fields(KernelName)
        if field.name not in ("name", "short")
    }
    assert told_by(decode_kernel_name(name), expected) == {**everything, **expected}


RECORDED = sorted((Path(__file__).parents[2] / "fixtures" / "traces").rglob("*.json.gz"))


def test_no_kernel_of_a_recorded_trace_is_unknown():
    names = {kernel.name for path in RECORDED for kernel in load_trace(path).kernels}
    assert names
    assert [name for name in names if decode_kernel_name(name).family == "other"] == []


def test_every_family_occurs_in_the_table():
    assert {expected["family"] for expected in NAMES.values()} == set(FAMILIES)


def test_a_wrapped_a_mangled_and_a_bare_name_of_one_kernel_tell_the_same():
    bare = "cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4"
    names = (bare, f"void cutlass::Kernel2<{bare}>({bare}::Params)",
             f"_ZN7cutlass7Kernel2I{len(bare)}{bare}EEvNT_6ParamsE")  # fmt: skip
    told = {
        tuple(getattr(decode_kernel_name(name), f.name) for f in fields(KernelName)[1:])
        for name in names
    }
    assert len(told) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_short_name_read_back_is_its_own_short_name(name):
    short = decode_kernel_name(name).short
    assert decode_kernel_name(short).short == short


@pytest.mark.parametrize("name", ["ampere_sgemm_128x64_tn", ADD, "attn_fwd"])
def test_blanks_around_a_name_change_nothing_but_the_name(name):
    padded = decode_kernel_name(f"  {name}\n")
    plain = decode_kernel_name(name)
    assert padded.name == f"  {name}\n"
    assert (padded.family, padded.dtype, padded.short) == (plain.family, plain.dtype, plain.short)


@given(st.text() | st.text(alphabet="_ZNIEUlLSx0123456789<>(){}: ,kernelgemm"))
def test_any_text_has_a_family_and_keeps_its_name(name):
    decoded = decode_kernel_name(name)
    assert decoded.name == name
    assert decoded.family in FAMILIES
    assert decode_kernel_name(decoded.name) == decoded


@given(st.sampled_from(sorted(NAMES)), st.data())
def test_a_real_name_cut_off_anywhere_has_a_family(name, data):
    cut = data.draw(st.integers(0, len(name)))
    assert decode_kernel_name(name[:cut]).family in FAMILIES
    assert decode_kernel_name(name[cut:]).family in FAMILIES


@given(st.sampled_from(sorted(NAMES)), st.sampled_from(sorted(NAMES)))
def test_two_real_names_run_together_have_a_family(one, other):
    assert decode_kernel_name(f"{one}{other}").family in FAMILIES
    assert decode_kernel_name(f"void {one}<{other}>({one})").family in FAMILIES


@pytest.mark.parametrize(
    "repeated",
    [
        "a_", "a", "_", "<", ">", "<>", "(", "()", "1x", "128x128_", "s16816gemm_", "_ZN1aI", "1a",
        "I", "Ul", "LN", "0d", "1", "d1", "Conv", "_conv", "Functor", "x_kernel_impl", "E", "S_",
        "kernel_cuda_gpu, ", "{lambda(", "{lambda(a)#1}", "(anonymous namespace)::", "unsigned ",
        "?@a", "splitK", "a_kernel", "_kernel_impl", "launch_a", "ab, ",
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", ["", "_ZN", "triton_poi_fused_", "void at::reduce_kernel<"])
def test_a_name_of_many_thousand_characters_is_decoded_at_once(before, repeated):
    name = before + repeated * (20_000 // len(repeated))
    started = time.perf_counter()
    decode_kernel_name(name + "!")
    assert time.perf_counter() - started < 1.0  # quadratic would be minutes


SHORT_OPS = (
    "add",
    "clone",
    "cos",
    "embedding",
    "exp",
    "gelu",
    "mul",
    "relu",
    "sigmoid",
    "tanh",
)
LONG_OPS = (
    "_softmax",
    "_to_copy",
    "_unsafe_view",
    "native_layer_norm",
    "silu_backward",
    "var_mean",
)


@given(st.sets(st.sampled_from(SHORT_OPS + LONG_OPS), min_size=1), st.integers(0, 99))
def test_the_ops_fused_into_an_inductor_kernel_are_read_back(ops, counter):
    fused = tuple(sorted(ops))
    name = f"triton_poi_fused_{'_'.join(fused)}_{counter}"
    assert decode_kernel_name(name).ops == fused


def test_an_unknown_op_that_begins_with_an_underscore_keeps_it():
    assert decode_kernel_name("triton_poi_fused_add__mystery_0").ops == ("add", "_mystery")


@pytest.mark.parametrize(
    ("family", "wanted", "expected"),
    [
        ("gemm", "gemm", True),
        ("gemv", "gemm", False),
        ("triton_pointwise", "triton", True),
        ("triton_template", "triton", True),
        ("triton", "triton", True),
        ("triton", "triton_pointwise", False),
        ("attention", "triton", False),
    ],
)
def test_triton_takes_in_every_kind_of_triton_kernel(family, wanted, expected):
    assert in_family(family, wanted) is expected


@pytest.mark.parametrize(
    ("mangled", "expected"),
    [
        ("_Z3fooPf", "foo"),
        ("_ZN12_GLOBAL__N_16kernelEPf", "kernel"),
        ("_ZN2ns3fooIfLi4EEEvT_", "ns::foo<float, 4>"),
        ("_ZN2ns3fooILin3ENS_3BarEEEvv", "ns::foo<-3, Bar>"),
        ("_ZN2ns3fooILNS_4ModeE12EfEEvv", "ns::foo<Mode, float>"),
        ("_ZN2ns3fooIL4Mode3EfEEvv", "ns::foo<Mode, float>"),
        ("_ZN2ns3fooIZNS_3barEvEUlffE_EEvv", "ns::foo<bar, {lambda(float, float)#1}>"),
        (
            "_ZN2ns3fooIZZNS_3barEvENKUlvE5_clEvEUlN3c108BFloat16EE_EEvv",
            "ns::foo<bar, {lambda(void)#1}, {lambda(c10, BFloat16)#1}>",
        ),
        ("foo<float>(int)", "foo<float>(int)"),
        ("_Zebra", "_Zebra"),
    ],
)
def test_a_mangled_name_is_brought_into_the_open(mangled, expected):
    assert readable(mangled) == expected
