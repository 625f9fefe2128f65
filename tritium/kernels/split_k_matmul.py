"""C = A @ B for long K and small C: several programs share a tile of C, each with a part of K.

A product with few tiles leaves most of the device idle. Here program (tile, part) sums its part of K into a workspace
of float32, and a second kernel adds the parts. Always in the same order: the result is the same every time, which it
would not be with atomic additions.
"""

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays
from tritium.kernels.matmul import operands, record
from tritium.kernels.registry import normal


@triton.jit
def partial_kernel(a_ptr, b_ptr, work_ptr, M, N, K, part, stride_am, stride_ak, stride_bk, stride_bn,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Tile (i, j) of the product of columns [p * part, (p + 1) * part) of A with those rows of B."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    first = tl.program_id(2) * part
    end = min(K, first + part)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(first, end, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak,
                    mask=(m[:, None] < M) & (k[None, :] < end), other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn,
                    mask=(k[:, None] < end) & (n[None, :] < N), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    work_ptr += tl.program_id(2).to(tl.int64) * M * N
    tl.store(work_ptr + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def add_parts_kernel(work_ptr, c_ptr, size, parts, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of the parts, BLOCK elements of C per program and ROWS parts at a time: many loads are in flight."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in range(0, parts, ROWS):
        part = first + tl.arange(0, ROWS)
        total += tl.load(work_ptr + part.to(tl.int64)[:, None] * size + offsets[None, :],
                         mask=(part < parts)[:, None] & (offsets < size)[None, :], other=0.0)
    tl.store(c_ptr + offsets, tl.sum(total, axis=0).to(c_ptr.dtype.element_ty), mask=offsets < size)


def split_k_matmul(a, b, parts: int | None = None, blocks=None):
    """A @ B with K in `parts`, or in as many as keep the device busy.

    >>> import numpy as np
    >>> split_k_matmul(np.ones((1, 1000), np.float32), np.ones((1000, 2), np.float32), parts=3)
    array([[1000., 1000.]], dtype=float32)
    """
    c, (_, _, _, M, N, K, *strides) = operands("split_k_matmul", a, b)
    if blocks is None:
        blocks = (64, 64, 128) if arrays.on_gpu(a) and a.itemsize <= 2 else (64, 64, 64)
    tiles = triton.cdiv(M, blocks[0]) * triton.cdiv(N, blocks[1])
    steps = max(1, triton.cdiv(K, blocks[2]))
    if parts is None:
        parts = (2 if arrays.on_gpu(a) else 1) * arrays.multiprocessors(a) // max(tiles, 1)
    per_part = triton.cdiv(steps, max(1, min(parts, steps))) * blocks[2]
    parts = max(1, triton.cdiv(K, per_part))
    work = arrays.empty(a, (parts, M, N), "float32")
    partial_kernel[(triton.cdiv(M, blocks[0]), triton.cdiv(N, blocks[1]), parts)](
        a, b, work, M, N, K, per_part, *strides[:4], BLOCK_M=blocks[0], BLOCK_N=blocks[1], BLOCK_K=blocks[2])
    rows = min(32, triton.next_power_of_2(parts)) if arrays.on_gpu(a) else 1
    block = 2048 // rows  # elements of all rows: what four warps hold easily
    add_parts_kernel[(triton.cdiv(M * N, block),)](work, c, M * N, parts, ROWS=rows, BLOCK=block)
    return c


def reference(a, b):
    """The same in NumPy."""
    return a @ b


def _long(size, dtype, device):
    return normal((64, size), dtype, device), normal((size, 64), dtype, device, 1)


KERNELS = (record("matmul_split_k", "matmul 64x64, K in parts", split_k_matmul, (partial_kernel, add_parts_kernel),
                  make=_long, size_is="K of a product of 64 by 64", sizes={"cpu": 1 << 14, "cuda": 1 << 18},
                  group="matmul with long K"),)
