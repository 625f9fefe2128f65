"""Kernels of libraries for serving, state-space models and quantization, for `by_kernel.py`: Llama-3-8B's sizes.

    PYTHONPATH=folder_of_the_libraries python benchmarks/by_kernel.py benchmarks/serving_operators.py

The folder has the Python files of vllm, sglang, mamba-ssm, unsloth, gemlite, torchao, sageattention,
cut-cross-entropy, lightllm and lmdeploy, as their wheels have them; a library that is not there is left out. Their
compiled parts and what they depend on need not be there (`serving_stand_ins.py`). `OPERATORS=vllm,rope` chooses by
parts of names, `DEVICE=cpu` takes small sizes to try the program where no GPU is, `python
benchmarks/serving_operators.py` calls each case once.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from serving_arguments import (
    BATCH,
    CHUNK,
    CONTEXT,
    DEVICE,
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
    bits,
    built,
    bytes8,
    call,
    count,
    empty,
    experts,
    four_bits,
    fp8,
    full,
    half,
    integers,
    normal,
    pages,
    pick,
    positive,
    rows,
    scaled,
    single,
    state_update,
    steps,
)
from serving_layers import cut_cross_entropy, gemlite, mamba_ssm, sageattention, torchao, unsloth
from serving_stand_ins import install, of, without_gpu

# ---- vllm


def vllm_moe(kind: str, tokens: int) -> Build:
    def build() -> Callable[[], object]:
        import triton.language as tl

        block = 16 if tokens <= 64 else 64
        weights, _, ids, of_block, padded = experts(tokens, block)
        config = {"BLOCK_SIZE_M": block, "BLOCK_SIZE_N": 64 if kind in ("int4", "int8 weights") else 128,
                  "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8, "num_warps": 4, "num_stages": 3}  # fmt: skip
        wide, inner = HIDDEN, INNER // 2
        out = empty(tokens, 2, inner)
        if kind in ("int4", "int8 weights"):
            four = kind == "int4"
            b = integers(0, 255, 8, inner, wide // (2 if four else 1), dtype=torch.uint8)
            function = of("vllm.model_executor.layers.fused_moe.fused_moe:fused_moe_kernel_gptq_awq")
            a, scale = normal(tokens, wide), positive(8, inner, wide // 128).bfloat16()
            grid = (len(of_block) * -(-inner // config["BLOCK_SIZE_N"]),)
            return lambda: function[grid](
                a, b, out, scale, None, weights, ids, of_block, padded, inner, wide, len(ids), tokens * 2,
                *a.stride(), b.stride(0), b.stride(2), b.stride(1), out.stride(1), out.stride(2), scale.stride(0),
                scale.stride(2), scale.stride(1), 0, 0, 0, block_k_diviable=True, group_size=128,
                MUL_ROUTED_WEIGHT=False, top_k=2, compute_type=tl.bfloat16, has_zp=False, use_int4_w4a16=four,
                use_int8_w8a16=not four, **config, SPLIT_K=1)  # fmt: skip
        function = of("vllm.model_executor.layers.fused_moe.fused_moe:invoke_fused_moe_triton_kernel")
        make = {"bf16": normal, "fp8": fp8, "fp8 blocks": fp8, "int8": bytes8}[kind]
        a, b = make(tokens, wide), make(8, inner, wide)
        scales: list[Any] = {"bf16": [None, None], "fp8": [positive(1), positive(8)],
                             "fp8 blocks": [positive(tokens, wide // 128), positive(8, inner // 128, wide // 128)],
                             "int8": [positive(tokens, 1), positive(8, inner, 1)]}[kind]  # fmt: skip
        shape = [128, 128] if kind == "fp8 blocks" else None
        eight = kind == "int8"
        return lambda: function(a, b, out, *scales, weights, ids, of_block, padded, False, 2, config, tl.bfloat16,
                                kind.startswith("fp8"), eight, False, False, eight, shape)  # fmt: skip

    return build


def vllm_unified(decode: bool, kv: Callable[..., torch.Tensor] = normal) -> Build:
    def build() -> Callable[[], object]:
        function = of("vllm.v1.attention.ops.triton_unified_attention:unified_attention")
        requests, new, length = (BATCH, 1, CONTEXT) if decode else (4, PROMPT, PROMPT)
        table = pages(requests, length, 16)
        q, k, v = normal(requests * new, HEADS, SIZE), *(kv(table.numel(), 16, KV_HEADS, SIZE) for _ in "kv")
        scale = torch.ones(requests, KV_HEADS, device=DEVICE)
        split = dict(seq_threshold_3D=256, num_par_softmax_segments=16,
                     softmax_segm_output=empty(256, HEADS, 16, SIZE, dtype=torch.float32),
                     softmax_segm_max=empty(256, HEADS, 16, dtype=torch.float32),
                     softmax_segm_expsum=empty(256, HEADS, 16, dtype=torch.float32)) if decode else {}  # fmt: skip
        scales = (None, None) if kv is normal else (scale, scale)
        arguments = (q, k, v, torch.empty_like(q), steps(requests, new), new, full(length, requests), length,
                     SIZE**-0.5, True, (-1, -1), table, 0, None, *scales)  # fmt: skip
        return lambda: function(*arguments, **split)

    return build


def vllm_decode(latent: bool) -> Build:
    def build() -> Callable[[], object]:
        function = of("vllm.v1.attention.ops.triton_decode_attention:decode_attention_fwd")
        heads, kv_heads, size, out = (16, 1, 576, 512) if latent else (HEADS, KV_HEADS, SIZE, SIZE)
        table = pages(BATCH, CONTEXT, 16)
        k = normal(table.numel(), 16, kv_heads, size)
        v = k[..., :out] if latent else torch.randn_like(k)
        parts = (empty(BATCH, heads, out), empty(BATCH, heads, dtype=torch.float32), table, full(CONTEXT, BATCH),
                 empty(BATCH, heads, 8, out + 1, dtype=torch.float32), 8, size**-0.5, 16)  # fmt: skip
        q, one = normal(BATCH, heads, size), torch.ones(1, device=DEVICE)
        return lambda: function(q, k, v, *parts, k_scale=one, v_scale=one, is_mla=latent)

    return build


def vllm_prefix() -> Sequence[Any]:
    table, x = pages(4, 2 * PROMPT, 16), 8
    blocks = table.numel()
    q, k, v = normal(TOKENS, HEADS, SIZE), normal(TOKENS, KV_HEADS, SIZE), normal(TOKENS, KV_HEADS, SIZE)
    one = torch.ones(1, device=DEVICE)
    return (q, k, v, torch.empty_like(q), "auto", normal(blocks, KV_HEADS, SIZE // x, 16, x),
            normal(blocks, KV_HEADS, SIZE, 16), table, steps(4, PROMPT), full(2 * PROMPT, 4), 2 * PROMPT, PROMPT,
            one, one)  # fmt: skip


def plain_prefill() -> Sequence[Any]:
    """Of vllm, sglang and lightllm."""
    q, k, v = normal(TOKENS, HEADS, SIZE), normal(TOKENS, KV_HEADS, SIZE), normal(TOKENS, KV_HEADS, SIZE)
    return q, k, v, torch.empty_like(q), steps(4, PROMPT)[:-1].contiguous(), full(PROMPT, 4), PROMPT


def vllm_lora(expand: bool, tokens: int, rank: int = 16) -> Build:
    def build() -> Callable[[], object]:
        name = "expand" if expand else "shrink"
        function = of(f"vllm.lora.ops.triton_ops.lora_{name}_op:_lora_{name}")
        loras = 4
        mapping = integers(0, loras, tokens)
        order = torch.argsort(mapping, stable=True).int()
        number = torch.bincount(mapping, minlength=loras + 1).int()
        start = torch.cat([count(0), number.cumsum(0).int()])
        ids = count(*range(loras), -1)
        meta = (mapping, order, number, start, ids, torch.tensor([False]), torch.tensor([loras]))
        if expand:
            inputs, out = single(3, tokens, rank), normal(tokens, 3 * HIDDEN)
            weights = [normal(loras, HIDDEN, rank) for _ in "qkv"]
            return lambda: function(inputs, weights, out, *meta, 0, True)
        inputs, out = rows(tokens), single(3, tokens, rank)
        weights = [normal(loras, rank, HIDDEN) for _ in "qkv"]
        return lambda: function(inputs, weights, out, *meta, 1.0)

    return build


def chunks(tokens: int, size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of 4 sequences: their starts, those of chunks, the last chunk and the sequence of each chunk."""
    each = tokens // 4 // size
    return (steps(4, tokens // 4), steps(4 * each, size), steps(4, each)[1:] - 1,
            torch.arange(4, device=DEVICE, dtype=torch.int32).repeat_interleave(each))  # fmt: skip


def vllm_mamba() -> Sequence[Any]:
    tokens = 4 * pick(2048, 64)
    starts, parts, last, owner = chunks(tokens, CHUNK)
    x = normal(tokens, MAMBA_HEADS, 64)
    return (x, normal(tokens, MAMBA_HEADS), -positive(MAMBA_HEADS) * 100, normal(tokens, MAMBA_GROUPS, STATE),
            normal(tokens, MAMBA_GROUPS, STATE), CHUNK, starts, parts, last, owner, torch.empty_like(x),
            single(MAMBA_HEADS), None, single(MAMBA_HEADS), None, True)  # fmt: skip


def convolution() -> Sequence[Any]:
    """Of vllm and sglang."""
    wide = HIDDEN + 2 * STATE
    return (normal(TOKENS, wide).T, normal(wide, 4), normal(wide), normal(8, 3, wide).transpose(1, 2), steps(4, PROMPT))


def logits(rows: int = BATCH) -> torch.Tensor:
    return single(rows, WORDS)


def vllm_topp() -> Sequence[Any]:
    return logits(), integers(20, 100, BATCH), torch.rand(BATCH, device=DEVICE) * 0.2 + 0.8


def vllm_rejection(random: bool) -> Sequence[Any]:
    each, drafts = 4, 4 * BATCH
    chances = logits(drafts).softmax(-1)
    shared = steps(BATCH, each)[1:].contiguous(), integers(0, WORDS, drafts), chances, chances.flip(0)
    if not random:
        return empty(drafts, dtype=torch.int32), *shared, torch.rand(BATCH, WORDS, device=DEVICE)
    return (empty(BATCH, each + 1, dtype=torch.int32), *shared, integers(0, WORDS, BATCH, 1),
            integers(0, WORDS, drafts), torch.rand(drafts, device=DEVICE), full(0, BATCH, dtype=torch.bool), each,
            None)  # fmt: skip


def vllm() -> dict[str, Build]:
    ops, quantization = "vllm.v1.attention.ops.", "vllm.model_executor.layers.quantization."
    of_scaled = quantization + "compressed_tensors.triton_scaled_mm:triton_scaled_mm"
    of_w4a16 = "vllm.model_executor.kernels.linear.mixed_precision.triton_w4a16:_triton_w4a16_gemm_impl"
    of_fp8 = quantization + "utils.fp8_utils:"
    mamba, sample = "vllm.model_executor.layers.mamba.ops.", "vllm.v1.worker.gpu.sample."
    invariant = "vllm.model_executor.determinism.batch_invariant:"
    every = torch.arange(BATCH, device=DEVICE, dtype=torch.int32)
    moe = {f"moe {kind}, {tokens} tokens": vllm_moe(kind, tokens) for kind in
           ("bf16", "fp8", "fp8 blocks", "int8", "int4", "int8 weights") for tokens in (BATCH, PROMPT)}  # fmt: skip
    return moe | {
        "attention, prefill": vllm_unified(False),
        "attention, decode": vllm_unified(True),
        "attention, decode, fp8": vllm_unified(True, fp8),
        "prefix prefill": call(ops + "prefix_prefill:context_attention_fwd", vllm_prefix),
        "plain prefill": call(ops + "triton_prefill_attention:context_attention_fwd", plain_prefill),
        "split decode": vllm_decode(False),
        "split decode, latent": vllm_decode(True),
        "merge states": call(ops + "triton_merge_attn_states:merge_attn_states", lambda: (
            normal(TOKENS, HEADS, SIZE), *(make(*shape) for _ in "ps" for make, shape in
                                           ((normal, (TOKENS, HEADS, SIZE)), (single, (HEADS, TOKENS)))))),
        "store kv": call(ops + "triton_reshape_and_cache_flash:triton_reshape_and_cache_flash", lambda: (
            normal(TOKENS, KV_HEADS, SIZE), normal(TOKENS, KV_HEADS, SIZE), normal(TOKENS // 16, 16, KV_HEADS, SIZE),
            normal(TOKENS // 16, 16, KV_HEADS, SIZE), torch.randperm(TOKENS, device=DEVICE), "auto", positive(1),
            positive(1))),
        "lora shrink, decode": vllm_lora(False, BATCH),
        "lora shrink, prefill": vllm_lora(False, PROMPT),
        "lora expand, decode": vllm_lora(True, BATCH),
        "lora expand, prefill": vllm_lora(True, PROMPT),
        "awq dequantize": call(quantization + "awq_triton:awq_dequantize_triton", lambda: four_bits(INNER)),
        "awq gemm": call(quantization + "awq_triton:awq_gemm_triton", lambda: (
            half(BATCH, HIDDEN), *four_bits(INNER),
            8)),
        "w4a16 gemm, decode": call(of_w4a16, lambda: (
            rows(BATCH), *four_bits(INNER, torch.bfloat16)[:2], None, 128)),
        "w4a16 gemm, prefill": call(of_w4a16, lambda: (
            rows(PROMPT), *four_bits(HIDDEN, torch.bfloat16)[:2], None, 128)),
        "scaled mm int8": call(of_scaled, lambda: scaled(bytes8)),
        "scaled mm fp8": call(of_scaled, lambda: scaled(fp8)),
        "block fp8 gemm": call(of_fp8 + "w8a8_triton_block_scaled_mm", lambda: (
            fp8(PROMPT, HIDDEN), fp8(HIDDEN, HIDDEN), positive(PROMPT, HIDDEN // 128),
            positive(HIDDEN // 128, HIDDEN // 128), [128, 128], torch.bfloat16)),
        "group quantize fp8": call(of_fp8 + "per_token_group_quant_fp8", lambda: (
            rows(), 128)),
        "group quantize fp8, columns": call(of_fp8 + "per_token_group_quant_fp8", lambda: (
            rows(), 128), column_major_scales=True),
        "silu, quantize fp8": call(of_fp8 + "silu_mul_per_token_group_quant_fp8_colmajor", lambda: (
            normal(4 * pick(2048, 64), 2 * HIDDEN),)),
        "quantize int8": call(quantization + "utils.int8_utils:per_token_quant_int8", lambda: (rows(),)),
        "group quantize int8": call(quantization + "utils.int8_utils:per_token_group_quant_int8", lambda: (
            rows(), 128)),
        "mamba chunks": call(mamba + "ssd_combined:mamba_chunk_scan_combined_varlen", vllm_mamba),
        "mamba update": call(mamba + "mamba_ssm:selective_state_update", lambda: (
            *state_update(), None, True, None, None, 0, normal(BATCH, MAMBA_HEADS, 64))),
        "convolution": call(mamba + "causal_conv1d:causal_conv1d_fn", lambda: (
            *convolution(), torch.arange(4, device=DEVICE, dtype=torch.int32) + 1, full(1, 4, dtype=torch.bool))),
        "convolution, decode": call(mamba + "causal_conv1d:causal_conv1d_update", lambda: (
            rows(BATCH), normal(BATCH + 1, HIDDEN, 3), normal(HIDDEN, 4), normal(HIDDEN), "silu", every + 1)),
        "gated norm": call(mamba + "layernorm_gated:rms_norm_gated", lambda: (
            rows(), normal(HIDDEN), None, rows())),
        "lightning attention": call("vllm.model_executor.layers.lightning_attn:lightning_attention", lambda: (
            *(single(4, HEADS, pick(2048, 256), SIZE) for _ in "qkv"), positive(HEADS))),
        "lightning decode": call("vllm.model_executor.layers.lightning_attn:linear_decode_forward_triton", lambda: (
            *(normal(BATCH, HEADS, 1, SIZE) for _ in "qkv"), single(BATCH, HEADS, SIZE, SIZE), positive(HEADS), every)),
        "top k, top p": call("vllm.v1.sample.ops.topk_topp_triton:apply_top_k_top_p_triton", vllm_topp),
        "rejection": call("vllm.v1.sample.rejection_sampler:_rejection_random_sample", lambda: vllm_rejection(True)),
        "recovered tokens": call("vllm.v1.sample.rejection_sampler:_sample_recovered_tokens",
                                 lambda: vllm_rejection(False), max_spec_len=4),
        "gumbel": call(sample + "gumbel:gumbel_sample", lambda: (
            logits(), every, torch.ones(BATCH, device=DEVICE), torch.arange(BATCH, device=DEVICE),
            torch.arange(BATCH, device=DEVICE), True, False)),
        "min p": call(sample + "min_p:apply_min_p", lambda: (logits(), every, torch.rand(BATCH, device=DEVICE))),
        "log probabilities": call(sample + "logprob:compute_token_logprobs", lambda: (
            logits(), integers(0, WORDS, BATCH, 5, dtype=torch.int64))),
        "invariant matmul": call(invariant + "matmul_persistent", lambda: (rows(PROMPT), rows(HIDDEN))),
        "invariant log softmax": call(invariant + "log_softmax", lambda: (logits(),)),
        "invariant rms norm": call(invariant + "rms_norm_batch_invariant", lambda: (rows(), normal(HIDDEN))),
        "mrope": call("vllm.model_executor.layers.rotary_embedding.mrope:triton_mrope", lambda: (
            normal(TOKENS, HEADS * SIZE), normal(TOKENS, KV_HEADS * SIZE), normal(3, TOKENS, SIZE // 2),
            normal(3, TOKENS, SIZE // 2), [SIZE // 8, SIZE * 3 // 16, SIZE * 3 // 16], SIZE, SIZE, False, True)),
    }  # fmt: skip


# ---- sglang


def sglang_decode(latent: bool, group: bool = True) -> Build:
    def build() -> Callable[[], object]:
        function = of("sglang.kernels.ops.attention.decode_attention:decode_attention_fwd")
        heads, kv_heads, size, out = (16, 1, 576, 512) if latent else (HEADS, KV_HEADS if group else HEADS, SIZE, SIZE)
        k = normal(BATCH * CONTEXT, kv_heads, size)
        v = k[..., :out] if latent else torch.randn_like(k)
        arguments = (normal(BATCH, heads, size), k, v, empty(BATCH, heads, out), steps(BATCH, CONTEXT),
                     torch.randperm(BATCH * CONTEXT, device=DEVICE), empty(BATCH, heads, 8, out, dtype=torch.float32),
                     empty(BATCH, heads, 8, dtype=torch.float32), full(8, BATCH), 8, size**-0.5, 1.0, 1.0)  # fmt: skip
        return lambda: function(*arguments, has_mla=latent)

    return build


def sglang_extend() -> Sequence[Any]:
    q, k, v = normal(TOKENS, HEADS, SIZE), normal(TOKENS, KV_HEADS, SIZE), normal(TOKENS, KV_HEADS, SIZE)
    return (q, k, v, torch.empty_like(q), normal(TOKENS, KV_HEADS, SIZE), normal(TOKENS, KV_HEADS, SIZE),
            steps(4, PROMPT), steps(4, PROMPT), torch.randperm(TOKENS, device=DEVICE), None, True, None, PROMPT, 1.0,
            1.0)  # fmt: skip


def sglang_moe(kind: str, tokens: int) -> Build:
    def build() -> Callable[[], object]:
        import triton.language as tl

        function = of("sglang.kernels.ops.moe.fused_moe_triton_kernels:invoke_fused_moe_kernel")
        block, wide, inner = 16 if tokens <= 64 else 64, HIDDEN, INNER // 2
        weights, chosen, ids, of_block, padded = experts(tokens, block)
        config = {"BLOCK_SIZE_M": block, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8, "num_warps": 4,
                  "num_stages": 3}  # fmt: skip
        eight = kind == "fp8 blocks"
        make = fp8 if eight else normal
        scales: list[Any] = [None, None]
        if eight:
            scales = [positive(tokens, wide // 128), positive(8, inner // 128, wide // 128)]
        arguments = (make(tokens, wide), make(8, inner, wide), None, empty(tokens, 2, inner), *scales, None, weights,
                     chosen, ids, of_block, padded, False, 2, config, tl.bfloat16, eight, False, False, False, False,
                     [128, 128] if eight else None)  # fmt: skip
        return lambda: function(*arguments)

    return build


def adapters(tokens: int, rank: int = 16) -> types.SimpleNamespace:
    """A batch of 4 requests, each with its adapter."""
    return types.SimpleNamespace(
        bs=4, max_len=tokens // 4, seg_lens=full(tokens // 4, 4), seg_indptr=steps(4, tokens // 4),
        weight_indices=count(*range(4)), lora_ranks=full(rank, 4), scalings=torch.ones(4, device=DEVICE),
        permutation=None, use_cuda_graph=False, num_segments=4)  # fmt: skip


def sglang() -> dict[str, Build]:
    ops = "sglang.kernels.ops."
    block_gemm = lambda make: (make(PROMPT, HIDDEN), make(HIDDEN, HIDDEN), positive(PROMPT, HIDDEN // 128),
                               positive(HIDDEN // 128, HIDDEN // 128), [128, 128], torch.bfloat16)  # fmt: skip
    moe = {f"moe {kind}, {tokens} tokens": sglang_moe(kind, tokens) for kind in ("bf16", "fp8 blocks")
           for tokens in (BATCH, PROMPT)}  # fmt: skip
    return moe | {
        "decode": sglang_decode(False),
        "decode, without groups": sglang_decode(False, False),
        "decode, latent": sglang_decode(True),
        "extend": call(ops + "attention.extend_attention:extend_attention_fwd", sglang_extend),
        "prefill": call(ops + "attention.prefill_attention:context_attention_fwd", plain_prefill),
        "merge states": call(ops + "attention.merge_state:merge_state_triton", lambda: (
            normal(TOKENS, HEADS, SIZE), single(TOKENS, HEADS), normal(TOKENS, HEADS, SIZE), single(TOKENS, HEADS))),
        "block fp8 gemm": call(ops + "gemm.fp8_kernel:w8a8_block_fp8_matmul_triton", lambda: block_gemm(fp8)),
        "block int8 gemm": call(ops + "gemm.int8_kernel:w8a8_block_int8_matmul", lambda: block_gemm(bytes8)),
        "scaled mm fp8": call(ops + "gemm.fp8_kernel:triton_scaled_mm", lambda: scaled(fp8)),
        "quantize int8": call(ops + "quantization.int8_kernel:per_token_quant_int8", lambda: (rows(),)),
        "group quantize fp8": call(ops + "quantization.fp8_kernel:_per_token_group_quant_8bit_raw", lambda: (
            rows(), 128)),
        "static quantize fp8": call(ops + "quantization.fp8_kernel:static_quant_fp8", lambda: (
            rows(), positive(1))),
        "gelu and mul": call(ops + "activation.gelu_and_mul_triton:gelu_and_mul_triton", lambda: (
            normal(TOKENS, 2 * INNER),)),
        "silu and mul of experts": call(ops + "moe.fused_moe_triton_kernels:act_and_mul_triton", lambda: (
            normal(TOKENS, 2 * INNER), empty(TOKENS, INNER), {"BLOCK_SIZE_M": 64})),
        "sum of experts": call(ops + "moe.fused_moe_triton_kernels:moe_sum_reduce_triton", lambda: (
            normal(TOKENS, 2, HIDDEN), empty(TOKENS, HIDDEN), 1.0)),
        "router": call(ops + "moe.router:fused_moe_router_cudacore", lambda: (
            rows(PROMPT), single(8, HIDDEN), 2, 30.0)),
        "softcap": call(ops + "activation.softcap:softcap_inplace_logits", lambda: (logits(), 30.0)),
        "sigmoid mul": call(ops + "elementwise.elementwise:fused_sigmoid_mul", lambda: (
            rows(), rows())),
        "two rms norms": call(ops + "layernorm.fused_rmsnorm:fused_dual_residual_rmsnorm", lambda: (
            rows(PROMPT), rows(PROMPT), normal(HIDDEN), normal(HIDDEN), 1e-6)),
        "rms norm": call(ops + "layernorm.fused_rmsnorm:fused_rmsnorm", lambda: (
            rows(PROMPT), normal(HIDDEN), 1e-6)),
        "top p": call(ops + "sampling.renorm_triton:top_p_renorm_probs_triton", lambda: (logits().softmax(-1), 0.9)),
        "top k": call(ops + "sampling.renorm_triton:top_k_renorm_probs_triton", lambda: (logits().softmax(-1), 50)),
        "temperature softmax": call(ops + "sampling.temperature_softmax:temperature_softmax", lambda: (
            logits(), torch.ones(BATCH, 1, device=DEVICE))),
        "lora a": call(ops + "lora.dense.sgemm_lora_a:sgemm_lora_a_fwd", lambda: (
            rows(PROMPT), normal(4, 16, HIDDEN), adapters(PROMPT))),
        "lora b": call(ops + "lora.dense.sgemm_lora_b:sgemm_lora_b_fwd", lambda: (
            normal(PROMPT, 16), normal(4, HIDDEN, 16), adapters(PROMPT))),
    }  # fmt: skip


# ---- lightllm, lmdeploy


def lightllm() -> dict[str, Build]:
    llama, common = "lightllm.models.llama.triton_kernel.", "lightllm.common.basemodel.triton_kernel."
    decode = lambda: (half(BATCH, HEADS, SIZE), half(BATCH * CONTEXT, KV_HEADS, SIZE),
                      half(BATCH * CONTEXT, KV_HEADS, SIZE))  # fmt: skip
    table = lambda: pages(BATCH, CONTEXT, 1)
    every = lambda: torch.arange(BATCH, device=DEVICE, dtype=torch.int32)
    blocks = -(-CONTEXT // 256)
    packed = lambda: (half(BATCH, HIDDEN), bits(HIDDEN // 8, HIDDEN), half(HIDDEN // 128, HIDDEN),
                      bits(HIDDEN // 128, HIDDEN // 8))  # fmt: skip
    return {
        "prefill": call(llama + "context_flashattention_nopad:context_attention_fwd_no_prompt_cache", plain_prefill),
        "decode, groups": call(llama + "gqa_decode_flashattention_nopad:gqa_decode_attention_fwd", lambda: (
            *decode(), half(BATCH, HEADS, SIZE), table(), every(), full(CONTEXT, BATCH))),
        "split decode": call(llama + "flash_decoding_stage1:flash_decode_stage1", lambda: (
            *decode(), table(), every(), full(CONTEXT, BATCH), CONTEXT, single(BATCH, HEADS, blocks, SIZE),
            single(BATCH, HEADS, blocks), 256)),
        "split decode, second stage": call(llama + "flash_decoding_stage2:flash_decode_stage2", lambda: (
            single(BATCH, HEADS, blocks, SIZE), single(BATCH, HEADS, blocks), full(CONTEXT, BATCH),
            half(BATCH, HEADS, SIZE), 256)),
        "rms norm": call(llama + "rmsnorm:rmsnorm_forward", lambda: (half(TOKENS, HIDDEN), half(HIDDEN), 1e-6)),
        "rope": call(llama + "rotary_emb:rotary_emb_fwd", lambda: (
            half(TOKENS, HEADS, SIZE), half(TOKENS, KV_HEADS, SIZE), half(TOKENS, SIZE // 2), half(TOKENS, SIZE // 2))),
        "silu and mul": call(llama + "silu_and_mul:silu_and_mul_fwd", lambda: (half(TOKENS, 2 * INNER),)),
        "store kv, int8": call(common + "destindex_copy_kv:destindex_copy_quantize_kv", lambda: (
            half(TOKENS, KV_HEADS, SIZE), torch.randperm(TOKENS, device=DEVICE).int(), bytes8(TOKENS, KV_HEADS, SIZE),
            half(TOKENS, KV_HEADS, 1))),
        "int4 gemm": call(common + "dequantize_gemm_int4:matmul_dequantize_int4_s2", packed),
        "gptq gemm": call(common + "dequantize_gemm_int4:matmul_dequantize_int4_gptq", lambda: (
            *packed(),
            128)),
        "int8 gemm": call(common + "quantize_gemm_int8:matmul_int8", lambda: (
            bytes8(PROMPT, HIDDEN), half(PROMPT, 1), bytes8(HIDDEN, HIDDEN), half(1, HIDDEN), half(PROMPT, HIDDEN))),
        "quantize int8": call(common + "quantize_gemm_int8:quantize_int8_perrow", lambda: (half(TOKENS, HIDDEN),)),
        "penalties": call(common + "apply_penalty:apply_penalty", lambda: (
            logits(), *(torch.rand(BATCH, device=DEVICE) for _ in range(3)), integers(0, WORDS, BATCH * 32),
            integers(1, 5, BATCH * 32), steps(BATCH, 32), 32)),
    }  # fmt: skip


def lmdeploy_moe(kind: str, tokens: int) -> Build:
    def build() -> Callable[[], object]:
        weights, chosen, *_ = experts(tokens, 16)
        inner = INNER // 4
        if kind == "bf16":
            function = of("lmdeploy.pytorch.kernels.cuda.moe.fused_moe:fused_moe")
            arguments: tuple = (rows(tokens), normal(8, 2 * inner, HIDDEN), normal(8, HIDDEN, inner))
            return lambda: function(*arguments, weights, chosen.long(), 2)
        function = of("lmdeploy.pytorch.kernels.cuda.moe.w8a8:fused_moe_w8a8")
        arguments = (bytes8(tokens, HIDDEN), positive(tokens, 1), bytes8(8, 2 * inner, HIDDEN),
                     positive(8, 2 * inner, 1), bytes8(8, HIDDEN, inner), positive(8, HIDDEN, 1))  # fmt: skip
        return lambda: function(*arguments, weights, chosen.long(), 2)

    return build


def lmdeploy() -> dict[str, Build]:
    cuda = "lmdeploy.pytorch.kernels.cuda."
    new = lambda: (normal(TOKENS, KV_HEADS, SIZE), normal(TOKENS, KV_HEADS, SIZE))
    cache = lambda n: tuple(normal(n, 64, KV_HEADS, SIZE) for _ in "kv")
    table = lambda: pages(BATCH, CONTEXT, 64)
    moe = {f"moe {kind}, {tokens} tokens": lmdeploy_moe(kind, tokens) for kind in ("bf16", "int8")
           for tokens in (BATCH, PROMPT)}  # fmt: skip
    return moe | {
        "prefill": call(cuda + "flashattention:flash_attn_varlen_func", lambda: (
            normal(TOKENS, HEADS, SIZE), normal(KV_HEADS, TOKENS, SIZE), normal(KV_HEADS, TOKENS, SIZE),
            steps(4, PROMPT), steps(4, PROMPT), PROMPT, PROMPT), causal=True),
        "decode": call(cuda + "pagedattention:flash_attn_with_kvcache", lambda: (
            normal(BATCH, HEADS, SIZE), *cache(table().numel()), full(CONTEXT, BATCH), table()),
            cu_seqlens_q=steps(BATCH, 1), max_seqlen_q=1, causal=True),
        "store kv": call(cuda + "fill_kv_cache:fill_kv_cache", lambda: (
            *new(), *cache(-(-PROMPT // 64) * 4), steps(4, PROMPT)[:-1].contiguous(), full(PROMPT, 4), full(PROMPT, 4),
            PROMPT, pages(4, PROMPT, 64))),
        "awq gemm": call(cuda + "awq_kernels:awq_linear", lambda: (
            half(BATCH, HIDDEN), *four_bits(INNER))),
        "block fp8 gemm": call(cuda + "blocked_gemm_fp8:blocked_gemm_fp8", lambda: (
            fp8(PROMPT, HIDDEN), positive(PROMPT, HIDDEN // 128), fp8(HIDDEN, HIDDEN).T,
            positive(HIDDEN // 128, HIDDEN // 128), torch.bfloat16)),
        "group quantize fp8": call(cuda + "blocked_gemm_fp8:quant_fp8", lambda: (rows(), 128)),
        "int8 gemm": call(cuda + "w8a8_triton_kernels:matmul_kernel_dynamic_quant", lambda: (
            bytes8(PROMPT, HIDDEN), bytes8(HIDDEN, HIDDEN), positive(PROMPT, 1), positive(HIDDEN, 1))),
        "quantize int8": call(cuda + "w8a8_triton_kernels:per_token_quant_int8", lambda: (rows(), 1e-6)),
        "rms norm, quantize": call(cuda + "w8a8_triton_kernels:rms_norm_dynamic_quant", lambda: (
            rows(), normal(HIDDEN), 1e-6)),
        "rms norm": call(cuda + "rms_norm:rms_norm", lambda: (
            rows(), normal(HIDDEN), 1e-6, rows())),
        "rope": call(cuda + "apply_rotary_pos_emb:apply_rotary_pos_emb", lambda: (
            normal(TOKENS, HEADS, SIZE), normal(TOKENS, KV_HEADS, SIZE), normal(TOKENS, SIZE), normal(TOKENS, SIZE))),
        "silu and mul": call(cuda + "activation:silu_and_mul", lambda: (normal(TOKENS, 2 * INNER),)),
        "multinomial": call(cuda + "multinomial_sampling:multinomial_sampling", lambda: (
            logits().softmax(-1), torch.arange(BATCH, device=DEVICE), torch.arange(BATCH, device=DEVICE))),
        "lora": call(cuda + "fused_lora:fused_lora", lambda: (
            rows(PROMPT), normal(64, HIDDEN), normal(64, HIDDEN), torch.ones(4, device=DEVICE),
            count(0, 16, 32, 48, dtype=torch.int64), count(16, 16, 16, 16, dtype=torch.int64),
            steps(4, PROMPT // 4, torch.int64)[:-1], full(PROMPT // 4, 4, dtype=torch.int64),
            count(0, 1, 2, 3, dtype=torch.int64), 16, PROMPT // 4)),
    }  # fmt: skip


def cases() -> Iterator[tuple[str, Callable[[], None]]]:
    torch.manual_seed(0)
    if DEVICE == "cpu":
        without_gpu()
    install()
    wanted = [word for word in os.environ.get("OPERATORS", "").split(",") if word]
    for library in (vllm, sglang, mamba_ssm, unsloth, cut_cross_entropy, gemlite, torchao, sageattention, lightllm,
                    lmdeploy):  # fmt: skip
        if importlib.util.find_spec(library.__name__):
            for name, build in library().items():
                full_name = f"{library.__name__}: {name}"
                if not wanted or any(word in full_name for word in wanted):
                    yield full_name, built(build)
                    if DEVICE != "cpu":
                        torch.cuda.empty_cache()


def main() -> None:
    """Call each case once."""
    for name, function in cases():
        try:
            function()
            print(f"{name}: runs", flush=True)
        except Exception as error:  # the rest is tried as well
            print(f"{name}: {type(error).__name__}: {error}".splitlines()[0], flush=True)


if __name__ == "__main__":
    main()
