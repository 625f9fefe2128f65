"""Kernels of `cpu.py` that the collection does not have: products of bytes, and of floats with weights of bytes."""

from __future__ import annotations

import tritium as triton
import tritium.language as tl


@triton.jit
def bytes_kernel(a_ptr, b_ptr, c_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """C = A @ B of int8 into int32; tiles divide the sizes."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total)


@triton.jit
def weights_kernel(x_ptr, weight_ptr, scale_ptr, out_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                   BLOCK_K: tl.constexpr):
    """out = x @ weight * scale: x is float32, weight int8 with a scale for each column; tiles divide the sizes."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :])
        weight = tl.load(weight_ptr + k[:, None] * N + n[None, :])
        total = tl.dot(x, weight.to(tl.float32), total, input_precision="ieee")
    tl.store(out_ptr + m[:, None] * N + n[None, :], total * tl.load(scale_ptr + n)[None, :])
