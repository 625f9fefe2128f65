"""Cases of `serving_operators.py` from libraries of layers: state-space models, training and quantization. Those of
engines are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from serving_arguments import (
    BATCH,
    CHUNK,
    HEADS,
    HIDDEN,
    INNER,
    KV_HEADS,
    MAMBA_GROUPS,
    MAMBA_HEADS,
    PROMPT,
    SIZE,
    STATE,
    TOKENS,
    WORDS,
    Build,
    bytes8,
    call,
    empty,
    experts,
    fp8,
    half,
    integers,
    normal,
    passes,
    pick,
    positive,
    rows,
    single,
    state_update,
)
from serving_stand_ins import of

# ---- mamba-ssm, unsloth, cut-cross-entropy


def mamba_sequence() -> Sequence[Any]:
    shape = pick(4, 1), pick(2048, 64)
    return (normal(*shape, MAMBA_HEADS, 64), normal(*shape, MAMBA_HEADS), -positive(MAMBA_HEADS) * 100,
            normal(*shape, MAMBA_GROUPS, STATE), normal(*shape, MAMBA_GROUPS, STATE))  # fmt: skip


def mamba_ssm() -> dict[str, Build]:
    ops = "mamba_ssm.ops.triton."
    return {
        "chunks": passes(ops + "ssd_combined:mamba_chunk_scan_combined", lambda: (*mamba_sequence(), CHUNK),
                         dt_softplus=True),
        "update": call(ops + "selective_state_update:selective_state_update", lambda: state_update(None),
                       dt_softplus=True),
        "gated norm": passes(ops + "layernorm_gated:rmsnorm_fn", lambda: (
            rows(), normal(HIDDEN), None, rows())),
        "rms norm": passes(ops + "layer_norm:rms_norm_fn", lambda: (
            rows(), normal(HIDDEN), None, rows())),
        "layer norm": passes(ops + "layer_norm:layer_norm_fn", lambda: (
            rows(), normal(HIDDEN), normal(HIDDEN), rows())),
        "swiglu": passes(ops + "k_activations:SwiGLU", lambda: (normal(TOKENS, 2 * HIDDEN),)),
    }  # fmt: skip


def unsloth() -> dict[str, Build]:
    kernels = "unsloth.kernels."
    angles = lambda: (single(PROMPT, SIZE // 2).repeat(1, 2).bfloat16() for _ in "cs")
    wide = lambda: normal(4, PROMPT, INNER)
    return {
        "rms norm": passes(kernels + "rms_layernorm:Fast_RMS_Layernorm", lambda: (
            normal(4, PROMPT, HIDDEN), normal(HIDDEN), 1e-6, False)),
        "layer norm": passes(kernels + "layernorm:Fast_Layernorm", lambda: (
            normal(4, PROMPT, HIDDEN), normal(HIDDEN), normal(HIDDEN), 1e-6)),
        "rope": call(kernels + "rope_embedding:Fast_RoPE_Embedding.apply", lambda: (
            normal(4, PROMPT, HEADS, SIZE), *angles())),
        "cross entropy": passes(kernels + "cross_entropy_loss:Fast_CrossEntropyLoss", lambda: (
            normal(PROMPT, WORDS), integers(0, WORDS, PROMPT, dtype=torch.int64))),
        "swiglu": call(kernels + "swiglu:swiglu_fg_kernel", lambda: (wide(), wide())),
        "swiglu, backward": call(kernels + "swiglu:swiglu_DWf_DW_dfg_kernel", lambda: tuple(
            normal(TOKENS, INNER) for _ in range(3))),
        "geglu": call(kernels + "geglu:geglu_exact_forward_kernel", lambda: (wide(), wide())),
        "geglu, backward": call(kernels + "geglu:geglu_exact_backward_kernel", lambda: tuple(
            normal(TOKENS, INNER) for _ in range(3))),
        "geglu of tanh": call(kernels + "geglu:geglu_approx_forward_kernel", lambda: (wide(), wide())),
        "grouped gemm": unsloth_grouped,
        "dequantize fp8": call(kernels + "fp8:weight_dequant_block", lambda: (
            fp8(INNER, HIDDEN), positive(INNER // 128, HIDDEN // 128))),
    }  # fmt: skip


def unsloth_grouped() -> Callable[[], object]:
    kernel = of("unsloth.kernels.moe.grouped_gemm.interface:_grouped_gemm_forward_impl")
    _, chosen, *_ = experts(PROMPT, 16)
    order = torch.argsort(chosen.flatten().long(), stable=True).int()
    sizes = torch.bincount(chosen.flatten(), minlength=8).int()
    x, w = rows(PROMPT), normal(8, INNER // 2, HIDDEN)
    return lambda: kernel(x, w, 2, sizes, order, permute_x=True, BLOCK_SIZE_M=64, BLOCK_SIZE_N=64, BLOCK_SIZE_K=64)


def cut_cross_entropy() -> dict[str, Build]:
    make = lambda: (rows(), normal(WORDS, HIDDEN), integers(0, WORDS, TOKENS, dtype=torch.int64))
    return {"loss": passes("cut_cross_entropy.cce:cce_linear_cross_entropy", make)}


# ---- gemlite, torchao, sageattention


def gemlite_linear(width: int, rows: int, kind: str) -> Build:
    def build() -> Callable[[], object]:
        linear, kinds = of("gemlite:GemLiteLinear"), of("gemlite:DType")
        for name in ("gemm", "gemm_splitK", "gemv"):  # their pruning sets it, which happens only when they are tuned
            for config in of(f"gemlite.triton_kernels.{name}_kernels:{name}_INT_kernel").configs:
                config.kwargs.setdefault("NUM_STAGES", config.num_stages)
        layer = linear(width, group_size=64, in_features=HIDDEN, out_features=HIDDEN, input_dtype=kinds.FP16,
                       output_dtype=kinds.FP16)  # fmt: skip
        weights = integers(0, 2**width, HIDDEN, HIDDEN, dtype=torch.uint8)
        layer.pack(weights, half(HIDDEN * HIDDEN // 64, 1), half(HIDDEN * HIDDEN // 64, 1), None)
        x = half(rows, HIDDEN)
        return lambda: layer.forward_manual(x, matmul_type=kind)

    return build


def gemlite() -> dict[str, Build]:
    return {f"{kind.lower()}, {width} bits": gemlite_linear(width, rows, kind) for width in (8, 4, 2) for kind, rows in
            (("GEMM", PROMPT), ("GEMM_SPLITK", BATCH), ("GEMV", 1), ("GEMV_SPLITK", 1),
             ("GEMV_REVSPLITK", 1))}  # fmt: skip


def torchao_int8(scaled: bool) -> Build:
    def build() -> Callable[[], object]:
        import triton

        name = "int_scaled_matmul_kernel" if scaled else "int_matmul_kernel"
        function = of("torchao.kernel.intmm_triton:" + name)
        config = triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}, num_stages=3, num_warps=8)
        a, b = bytes8(PROMPT, HIDDEN), bytes8(HIDDEN, HIDDEN).T
        if scaled:
            scale, out = normal(PROMPT, 1), empty(PROMPT, HIDDEN)
            return lambda: function(a, b, scale, out, config)
        out = empty(PROMPT, HIDDEN, dtype=torch.int32)
        return lambda: function(a, b, out, config)

    return build


def torchao() -> dict[str, Build]:
    blocks, training = "torchao.kernel.blockwise_quantization:", "torchao.prototype.blockwise_fp8_training.kernels:"
    square = lambda: (rows(HIDDEN),)
    return {
        "block quantize": call(blocks + "fp8_blockwise_act_quant", lambda: (rows(),)),
        "block quantize weights": call(blocks + "fp8_blockwise_weight_quant", square),
        "block dequantize weights": call(blocks + "fp8_blockwise_weight_dequant", lambda: (
            fp8(HIDDEN, HIDDEN), positive(HIDDEN // 128, HIDDEN // 128))),
        "block gemm": call(blocks + "blockwise_fp8_gemm", lambda: (
            fp8(PROMPT, HIDDEN), positive(PROMPT, HIDDEN // 128), fp8(HIDDEN, HIDDEN),
            positive(HIDDEN // 128, HIDDEN // 128))),
        "training gemm": call(training + "triton_fp8_gemm_1x128_128x128", lambda: (
            fp8(PROMPT, HIDDEN), fp8(HIDDEN, HIDDEN).T, positive(HIDDEN // 128, PROMPT).T,
            positive(HIDDEN // 128, HIDDEN // 128).T)),
        "training gemm, weights": call(training + "triton_fp8_gemm_1x128_128x1", lambda: (
            fp8(HIDDEN, PROMPT), fp8(HIDDEN, PROMPT).T, positive(-(-PROMPT // 128), HIDDEN).T,
            positive(-(-PROMPT // 128), HIDDEN))),
        "training quantize": call(training + "triton_fp8_blockwise_act_quant_lhs", lambda: (rows(),)),
        "training quantize rhs": call(training + "triton_fp8_blockwise_act_quant_rhs", square),
        "training quantize transposed": call(training + "triton_fp8_blockwise_act_quant_transposed_lhs", square),
        "training quantize weights": call(training + "triton_fp8_blockwise_weight_quant_rhs", square),
        "int8 mm": torchao_int8(False),
        "int8 mm, scaled": torchao_int8(True),
        "int8 mm of training": call("torchao.prototype.quantized_training.int8_mm:scaled_int8_mm_cuda", lambda: (
            bytes8(PROMPT, HIDDEN), bytes8(HIDDEN, HIDDEN).T, positive(PROMPT), positive(HIDDEN))),
    }  # fmt: skip


def sage(causal: bool) -> Build:
    def build() -> Callable[[], object]:
        name = "sageattention.attn_qk_int8_per_block" + ("_causal" if causal else "")
        function = of(name + ":forward")
        tokens = pick(4096, 160)
        q, k, v = bytes8(2, HEADS, tokens, SIZE), bytes8(2, KV_HEADS, tokens, SIZE), half(2, KV_HEADS, tokens, SIZE)
        scales = positive(2, HEADS, -(-tokens // 128), 1), positive(2, KV_HEADS, -(-tokens // 64), 1)
        return lambda: function(q, k, v, *scales)

    return build


def sageattention() -> dict[str, Build]:
    return {
        "int8": sage(False),
        "int8, causal": sage(True),
        "quantize": call("sageattention.quant_per_block:per_block_int8", lambda: (
            half(2, HEADS, pick(4096, 160), SIZE), half(2, KV_HEADS, pick(4096, 160), SIZE))),
    }  # fmt: skip
