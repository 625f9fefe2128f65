"""The cases `gpu_code.py` compiles: a kernel of one of the files, the types of its arguments, constants, options.

Arguments are words in the order of the parameters: `*fp16` is a pointer to 16 aligned bytes, `16` an i32 that 16
divides, `1` one that is 1, `i32` and `fp32` any number. `6x16` stands for six words.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Case(NamedTuple):
    """One specialisation of a kernel."""

    file: str
    kernel: str
    arguments: str
    constants: dict[str, Any]
    warps: int
    stages: int

    @property
    def name(self) -> str:
        """A name that tells cases of one kernel apart: its arguments that vary, sizes, warps, stages."""
        sizes = "x".join(str(x) for x in self.constants.values())
        strides = "runtime " if "xi32" in self.arguments else ""
        kind = words(self.arguments)[0].lstrip("*")
        return f"{self.kernel} {kind} {strides}{sizes} w{self.warps} s{self.stages}"


def words(arguments: str) -> list[str]:
    """The words of arguments, with repeated ones written out.

    >>> words("*fp32 2x16 i32")
    ['*fp32', '16', '16', 'i32']
    """
    out = []
    for word in arguments.split():
        count, x, rest = word.partition("x")
        out += [rest] * int(count) if x and count.isdigit() else [word]
    return out


def _tile(m: int, n: int, k: int, **more: Any) -> dict[str, Any]:
    return {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, **more}


_ALIGNED, _RUNTIME = "3x16 16 1 16 1 16 1", "3xi32 6xi32"  # M, N, K and the strides of three matrices
_PLAIN, _HINTED, _SURVEY, _CODE, _ROWS = ("gpu_kernels", "gpu_code_kernels", "gpu_survey_kernels", "gpu_code_kernels",
                                          "gpu_code_rows")  # fmt: skip
_LIBRARY, _LOOPS = "gpu_code_libraries", "gpu_loop_kernels"
_HALF, _SINGLE = "3x*fp16 ", "3x*fp32 "
_SQUARE = {"BLOCK_M": 128, "BLOCK_N": 128}

CASES = [
    # products with pointers: strides that are known to divide, and strides of the run time
    Case(_PLAIN, "matmul_kernel", _HALF + _ALIGNED, _tile(128, 256, 64, GROUP_M=8), 8, 3),
    Case(_PLAIN, "matmul_kernel", _HALF + _ALIGNED, _tile(128, 128, 32, GROUP_M=8), 4, 4),
    Case(_PLAIN, "matmul_kernel", _SINGLE + _ALIGNED, _tile(64, 128, 32, GROUP_M=8), 4, 3),
    Case(_PLAIN, "matmul_kernel", _HALF + _RUNTIME, _tile(128, 256, 64, GROUP_M=8), 8, 3),
    Case(_PLAIN, "matmul_kernel", _HALF + _RUNTIME, _tile(256, 256, 64, GROUP_M=8), 8, 3),
    Case(_PLAIN, "matmul_kernel", _HALF + _RUNTIME, _tile(128, 128, 64, GROUP_M=8), 4, 4),
    Case(_PLAIN, "matmul_kernel", _HALF + _RUNTIME, _tile(64, 64, 32, GROUP_M=8), 4, 4),
    Case(_PLAIN, "matmul_kernel", _HALF + "3xi32 i32 1 i32 1 i32 1", _tile(128, 128, 64, GROUP_M=8), 8, 3),
    Case(_PLAIN, "matmul_kernel", "3x*fp8e5 " + _RUNTIME, _tile(128, 128, 128, GROUP_M=8), 8, 3),
    Case(_PLAIN, "matmul_kernel", _SINGLE + _RUNTIME, _tile(128, 64, 32, GROUP_M=8), 8, 3),
    Case(_HINTED, "hinted_matmul", _HALF + _ALIGNED, _tile(128, 256, 64, GROUP_M=8), 8, 3),
    Case(_HINTED, "hinted_matmul", _HALF + "3xi32 i32 1 i32 1 i32 1", _tile(128, 128, 64, GROUP_M=8), 4, 3),
    Case(_HINTED, "hinted_matmul", _HALF + _RUNTIME, _tile(128, 128, 32, GROUP_M=8), 4, 4),
    Case(_CODE, "block_pointer_matmul", _HALF + _ALIGNED, _tile(128, 128, 64), 8, 3),
    Case(_CODE, "block_pointer_matmul", _HALF + _RUNTIME, _tile(128, 128, 64), 8, 3),
    Case(_CODE, "grouped_gemm", "3x*i64 2x*i32 i32", _tile(128, 128, 32, NUM_SM=132), 4, 3),
    Case(_CODE, "grouped_gemm", "3x*i64 2x*i32 i32", _tile(64, 128, 64, NUM_SM=132), 4, 3),
    Case(_CODE, "strided_bmm", _HALF + "3xi32 9xi32", {"TILE_M": 128, "TILE_N": 128, "TILE_K": 32}, 8, 3),
    Case(_CODE, "strided_bmm", _SINGLE + "3xi32 9xi32", {"TILE_M": 64, "TILE_N": 64, "TILE_K": 32}, 4, 2),
    Case(_CODE, "linear_layer", "5x*fp16 6xi32", _tile(128, 64, 32, SAVE=True), 4, 4),
    Case(_CODE, "linear_layer", "5x*fp16 3x16 3xi32", _tile(128, 256, 64, SAVE=False), 8, 3),
    Case(_CODE, "linear_layer", "5x*fp16 6x16", _tile(64, 32, 64, SAVE=True), 2, 5),
    Case(_CODE, "weight_gradient", _HALF + _RUNTIME, _tile(64, 128, 128), 8, 3),
    Case(_CODE, "weight_gradient", _HALF + _ALIGNED, _tile(64, 128, 64), 4, 3),
    Case(_CODE, "gated_mlp", "4x*bf16 8xi32", _tile(64, 128, 64), 8, 3),
    Case(_CODE, "gated_mlp", "4x*bf16 3x16 16 1 16 1 16", _tile(128, 128, 64), 8, 3),
    Case(_CODE, "int8_weights", "*fp16 *fp16 *i8 *fp16 3xi32 6xi32", _tile(64, 128, 64), 4, 3),
    Case(_CODE, "int8_weights", "*fp16 *fp16 *i8 *fp16 " + _ALIGNED, _tile(64, 128, 64), 4, 3),
    Case(_CODE, "gptq_matmul", "2x*fp16 *i32 *fp16 2x*i32 " + _ALIGNED + " 2x16", _tile(16, 128, 64), 4, 3),
    Case(_CODE, "gptq_matmul", "2x*fp16 *i32 *fp16 2x*i32 3xi32 8xi32", _tile(64, 128, 32), 4, 2),
    Case(_CODE, "convolution", _HALF + "7x16 12xi32", _tile(128, 64, 32, R=3, S=3), 4, 3),
    Case(_CODE, "lora_expand", "3x*bf16 3x*i32 2x16 7xi32", _tile(64, 64, 16), 4, 2),
    Case(_SURVEY, "linear_kernel", "5x*fp16 3xi32", _tile(128, 128, 64), 4, 3),
    Case(_SURVEY, "int4_kernel", "2x*fp16 *i32 2x*fp16 3x16", _tile(16, 64, 64, GROUP=128), 4, 3),
    Case(_SURVEY, "experts_kernel", "3x*bf16 2x*i32 3x16", _tile(64, 128, 64, TOP=2), 4, 3),
    Case(_SURVEY, "experts_kernel", "3x*bf16 2x*i32 3xi32", _tile(64, 64, 32, TOP=2), 4, 4),
    Case(_SURVEY, "block_scaled_kernel", "*bf16 2x*fp8e4nv 2x*fp32 3x16", _tile(64, 128, 128, GROUP=128), 4, 3),
    Case(_SURVEY, "grouped_kernel", _HALF + "*i32 i32 2x16", _tile(128, 128, 64, PROGRAMS=132), 8, 3),
    # attention
    Case(_PLAIN, "attention_kernel", "4x*fp16 fp32 16", {"BLOCK_M": 128, "BLOCK_N": 64, "D": 64}, 4, 3),
    Case(_CODE, "block_pointer_attention", "5x*fp16 fp32 " + "16 16 1 " * 4 + "16",
         {"BLOCK_M": 128, "BLOCK_N": 64, "D": 64, "CAUSAL": True}, 4, 4),
    Case(_CODE, "block_pointer_attention", "5x*fp16 fp32 12xi32 i32",
         {"BLOCK_M": 128, "BLOCK_N": 64, "D": 128, "CAUSAL": False}, 8, 3),
    Case(_CODE, "biased_attention", "6x*fp16 fp32 15x16 4xi32",
         {"EVEN": False, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_D": 64}, 4, 1),
    Case(_CODE, "biased_attention", "6x*fp16 fp32 15xi32 4x16",
         {"EVEN": True, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_D": 128}, 4, 2),
    Case(_CODE, "prefill_attention", "3x*fp16 fp32 2x*i32 *fp16 8x16",
         {"GROUP": 4, "BLOCK_M": 128, "D": 128, "BLOCK_N": 128}, 8, 1),
    Case(_SURVEY, "attention_dkdv_kernel", "6x*fp16 2x*fp32 fp32 16", {"BLOCK_M": 32, "BLOCK_N": 128, "D": 128}, 8, 3),
    Case(_SURVEY, "attention_dq_kernel", "5x*fp16 2x*fp32 fp32 16", {"BLOCK_M": 128, "BLOCK_N": 32, "D": 64}, 4, 3),
    Case(_SURVEY, "decode_kernel", "2x*fp32 3x*fp16 2x*i32 fp32 16",
         {"HEADS": 8, "GROUP": 8, "D": 128, "PAGE": 16, "SPLIT": 8, "BLOCK_N": 64}, 4, 2),
    Case(_SURVEY, "linear_attention_kernel", "4x*fp16 16", {"BLOCK": 64, "D": 64}, 4, 2),
    Case(_CODE, "linear_attention_forward", "6x*fp16 4x16 i32 fp32",
         {"BT": 64, "DK": 128, "DV": 128, "BK": 64, "BV": 64}, 2, 1),
    Case(_CODE, "linear_attention_forward", "6x*fp16 4xi32 i32 fp32",
         {"BT": 32, "DK": 100, "DV": 100, "BK": 64, "BV": 64}, 2, 1),
    Case(_CODE, "linear_attention_backward", "7x*fp16 4x16 i32 fp32",
         {"BT": 64, "DK": 128, "DV": 128, "BK": 64, "BV": 64}, 2, 1),
    Case(_CODE, "linear_attention_backward", "7x*bf16 4x16 i32 fp32",
         {"BT": 32, "DK": 128, "DV": 128, "BK": 64, "BV": 64}, 4, 2),
    Case(_CODE, "gated_chunk_output", "3x*bf16 *fp32 2x*bf16 fp32 i32",
         {"H": 4, "DK": 128, "DV": 128, "BT": 64, "BK": 64, "BV": 64}, 4, 2),
    Case(_CODE, "chunk_state", "3x*bf16 2x*fp32 5x16 16xi32", _tile(64, 128, 32), 4, 3),
    Case(_CODE, "chunk_state", "3x*bf16 2x*fp32 5x16 2x16 1 2x16 1 3x16 1 2x16 1 2x16 1", _tile(128, 128, 64), 8, 3),
    # reductions, norms, scans
    Case(_ROWS, "strided_argmax", "*fp32 *i64 2xi32 2xi32", _SQUARE, 4, 3),
    Case(_ROWS, "strided_argmax", "*fp16 *i64 3x16 1", _SQUARE, 8, 3),
    Case(_ROWS, "middle_max", "*fp32 *fp32 *i64 3xi32", {"BLOCK_M": 32, "BLOCK_N": 256}, 4, 3),
    Case(_ROWS, "strided_sum", "2x*fp32 2xi32 2xi32", {"AXIS": 1, **_SQUARE}, 4, 3),
    Case(_ROWS, "strided_sum", "2x*fp32 2xi32 2xi32", {"AXIS": 0, **_SQUARE}, 4, 3),
    Case(_ROWS, "strided_sum", "2x*fp32 3x16 1", {"AXIS": 0, **_SQUARE}, 4, 3),
    Case(_ROWS, "strided_variance", "2x*fp32 4xi32", {"BLOCK_M": 8, "BLOCK_N": 512}, 8, 3),
    Case(_ROWS, "middle_softmax", "2x*fp32 2xi32", {"TILE_N": 64, "TILE_K": 32}, 4, 3),
    Case(_ROWS, "log_softmax_backward", "3x*fp32 3xi32", {"BLOCK_M": 8, "BLOCK_N": 1024}, 8, 3),
    Case(_ROWS, "running_max", "*fp32 *fp32 *i32 4xi32", {"BLOCK_M": 16, "BLOCK_N": 128}, 4, 3),
    Case(_ROWS, "layer_norm_backward_locked", "6x*fp16 2x*fp32 *i32 2x16", {"GROUPS": 64, "BLOCK": 4096}, 8, 3),
    Case(_ROWS, "weight_sums", "4x*fp32 2x16", {"BLOCK_M": 32, "BLOCK_N": 128}, 4, 3),
    Case(_ROWS, "rms_norm_backward", "4x*bf16 2x*fp32 3x16 2x16", {"BLOCK": 4096}, 8, 3),
    Case(_ROWS, "inductor_layer_norm", "*fp32 4x*bf16 2x16", {"XBLOCK": 1, "RBLOCK": 2048}, 8, 1),
    Case(_ROWS, "inductor_layer_norm", "*fp32 4x*bf16 2xi32", {"XBLOCK": 8, "RBLOCK": 512}, 8, 1),
    Case(_ROWS, "cross_entropy_in_place", "*bf16 16 *i64 *fp32 16 2xi32 fp32", {"BLOCK": 32768}, 32, 3),
    Case(_ROWS, "penalties", "3x*fp32 3x*i32 2xi32", {"BLOCK": 1024}, 4, 3),
    Case(_ROWS, "chunk_topk", "*fp32 *i64 *fp32 i32", {"K": 8, "BLOCK": 1024}, 4, 3),
    Case(_ROWS, "chunk_cumsum", "2x*fp32 i32", {"S": 64, "BT": 64, "BS": 32}, 2, 3),
    Case(_ROWS, "strided_cumsum", "2x*fp32 4xi32", {"BLOCK_M": 32, "BLOCK_N": 64}, 4, 3),
    Case(_ROWS, "time_recurrence", "5x*fp32 2x16", {"BLOCK": 32}, 1, 3),
    Case(_SURVEY, "recurrence_kernel", "3x*fp32 2x16", {"BLOCK_L": 32, "BLOCK_D": 64}, 4, 3),
    Case(_SURVEY, "sort_kernel", "2x*fp32", {"N": 1024}, 4, 3),
    # pointwise, gathers, windows
    Case(_ROWS, "broadcast_add", "3x*fp32 4xi32 8xi32", {"BLOCK": 1024}, 4, 3),
    Case(_ROWS, "max_pool_flat", "2x*fp32 16", {"SIDE": 112, "XBLOCK": 1024}, 4, 3),
    Case(_ROWS, "upsample", "2x*fp32 5xi32 2xfp32", {"BLOCK": 1024}, 4, 3),
    Case(_ROWS, "rotary_in_place", "4x*bf16 7xi32 i32", {"HEADS": 32, "KV_HEADS": 8, "D": 128, "BLOCK": 16}, 4, 3),
    Case(_ROWS, "cache_write", "4x*fp16 *i32 2x16 4xi32", {"HEADS": 8, "D": 128, "PAGE": 16}, 4, 3),
    Case(_ROWS, "quantize_groups", "*bf16 *fp8e4nv *fp32 2xi32 2xi32", {"GROUP": 128, "BLOCK_M": 32}, 4, 3),
    Case(_ROWS, "strided_copy", "2x*fp16 2xi32 4xi32", {"BLOCK_M": 64, "BLOCK_N": 64}, 4, 3),
    Case(_ROWS, "index_rows", "2x*fp16 *i64 4xi32", {"BLOCK_M": 16, "BLOCK_N": 256}, 4, 3),
    Case(_SURVEY, "permute_kernel", "2x*fp16 2x16", {"D": 128, "BLOCK": 32}, 4, 3),
    Case(_SURVEY, "swiglu_kernel", "3x*bf16 16", {"BLOCK": 1024}, 4, 3),
    Case(_LOOPS, "cross_entropy_kernel", "*fp32 *bf16 *i64 16", {"BLOCK": 4096}, 8, 3),
    Case(_SURVEY, "split_k_kernel", _HALF + "3x16", _tile(64, 64, 64, SPLIT=4), 4, 3),
    Case(_SURVEY, "adamw_kernel", "7x*fp32 7xfp32 16", {"BLOCK": 1024}, 4, 3),
    Case(_PLAIN, "conv2d_kernel", "3x*fp32 2xi32", {"BLOCK_Y": 32, "BLOCK_X": 64}, 4, 3),
    # serving, linear recurrences, code generators
    Case(_LIBRARY, "while_matmul", _HALF + _ALIGNED, _tile(128, 128, 64), 8, 3),
    Case(_LIBRARY, "persistent_matmul", _HALF + "*fp16 " + _ALIGNED,
         _tile(128, 128, 64, GROUP_M=8, PROGRAMS=132), 8, 3),
    Case(_LIBRARY, "persistent_matmul", _HALF + "*fp16 3xi32 16 1 16 1 16 1",
         _tile(128, 256, 64, GROUP_M=8, PROGRAMS=132), 8, 3),
    Case(_LIBRARY, "packed_bytes", "2x*fp16 *u8 *fp16 6x16", _tile(32, 128, 64, GROUP=128), 4, 3),
    Case(_LIBRARY, "cut_cross_entropy", "2x*bf16 *fp32 *i64 2xi32 16 16 1 16 1",
         {"BLOCK_B": 128, "BLOCK_V": 256, "BLOCK_D": 64}, 8, 3),
    Case(_LIBRARY, "inductor_conv", _HALF + "7x16", _tile(128, 64, 32, KH=3, KW=3, STRIDE=1, PAD=1), 4, 3),
    Case(_LIBRARY, "inductor_conv", _HALF + "i32 16 2xi32 16 2xi32",
         _tile(64, 128, 64, KH=3, KW=3, STRIDE=2, PAD=1), 8, 3),
    Case(_LIBRARY, "window_attention", "4x*fp16 fp32 2x16", {"BLOCK_M": 128, "BLOCK_N": 64, "D": 64}, 4, 3),
    Case(_LIBRARY, "attention_backward", "7x*fp16 2x*fp32 fp32 3x16", {"D": 64, "BLOCK_M": 64, "BLOCK_N": 64}, 4, 3),
    Case(_LIBRARY, "unified_attention", "4x*fp16 3x*i32 3xfp32 11x16",
         {"PAGE": 16, "TILE": 32, "D": 128, "GROUP": 4, "BLOCK_M": 16, "BLOCK_Q": 4}, 4, 3),
    Case(_LIBRARY, "unified_attention", "2x*fp16 2x*fp8e4nv 3x*i32 3xfp32 11x16",
         {"PAGE": 16, "TILE": 64, "D": 128, "GROUP": 4, "BLOCK_M": 64, "BLOCK_Q": 16}, 4, 3),
    Case(_LIBRARY, "decode_stage1", "3x*fp16 fp32 3x*i32 *fp32 9x16",
         {"GROUP": 8, "D": 128, "DV": 128, "BLOCK_N": 32, "BLOCK_H": 16, "HEADS": 32, "SPLITS": 8}, 4, 2),
    Case(_LIBRARY, "delta_state", "4x*bf16 *fp32 *bf16 2x*fp32 i32",
         {"H": 4, "DK": 128, "DV": 128, "BT": 64, "BV": 32}, 4, 3),
    Case(_LIBRARY, "delta_state", "4x*bf16 *fp32 *bf16 2x*fp32 i32",
         {"H": 4, "DK": 128, "DV": 128, "BT": 64, "BV": 64}, 2, 2),
    Case(_LIBRARY, "scan_output", "2x*bf16 2x*fp32 *bf16 2x*fp32 *bf16 10x16", _tile(64, 64, 32, BLOCK_S=128), 4, 4),
    Case(_LIBRARY, "inductor_upsample", "2x*fp32 16", {"XBLOCK": 1024}, 4, 1),
    Case(_LIBRARY, "selected_attention", "3x*bf16 *i32 *bf16 fp32 16",
         {"ROWS": 8, "HEADS": 16, "D": 64, "SELECTED": 4, "BLOCK": 16}, 4, 1),
    Case(_LIBRARY, "wide_head_gradients", "6x*bf16 2x*fp32 fp32 2x16", {"D": 512, "BLOCK_M": 16, "BLOCK_N": 32}, 8, 1),
    Case(_LIBRARY, "widened_chunk_gradients", "7x*bf16 *fp32 16", {"D": 128, "DV": 128, "BLOCK": 64}, 4, 3),
]
