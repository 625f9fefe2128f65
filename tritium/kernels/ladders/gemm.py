"""A matrix product, from the framework's to tuned tiles."""

from __future__ import annotations

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.ladders import Rung
from tritium.kernels.matmul import CONFIGS, grouped_kernel, plain_kernel, record, tuned_kernel


@triton.jit
def direct_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                  BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """V1: one column of A and one row of B at a time, straight from memory; no matrix units."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K):
        a = tl.load(a_ptr + m * stride_am + k * stride_ak, mask=m < M, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + k * stride_bk + n * stride_bn, mask=n < N, other=0.0).to(tl.float32)
        total += a[:, None] * b[None, :]
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn, total.to(c_ptr.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


def _arguments(a, b, c):
    M, K = a.shape
    return a, b, c, M, b.shape[1], K, *arrays.strides(a), *arrays.strides(b), *arrays.strides(c)


def _by_two_axes(block_m, block_n, **options):
    def launch(a, b, c):
        grid = (triton.cdiv(a.shape[0], block_m), triton.cdiv(b.shape[1], block_n))
        return grid, _arguments(a, b, c), {"BLOCK_M": block_m, "BLOCK_N": block_n, **options}
    return launch


def _pipelined(a, b, c):
    grid = (triton.cdiv(a.shape[0], 128) * triton.cdiv(b.shape[1], 128),)
    return grid, _arguments(a, b, c), {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8, "ACTIVATION": "",
                                       "PRECISION": "ieee", "num_warps": 4, "num_stages": 4}


def _tuned(a, b, c):
    M, N = a.shape[0], b.shape[1]
    grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)
    return grid, _arguments(a, b, c), {"ACTIVATION": "", "PRECISION": "ieee"}


def framework(a, b):
    """V0: the product of NumPy or torch.

    >>> import numpy as np
    >>> framework(np.float32([[2]]), np.float32([[3]]))
    array([[6.]], dtype=float32)
    """
    checks.arguments("framework", a=(a, "M K"), b=(b, "K N"))
    return a @ b


def _rung(name, changed, why, kernel, launch):
    def wrapper(a, b):
        sizes = checks.arguments(f"gemm_{name.lower()}", a=(a, "M K"), b=(b, "K N"))
        c = arrays.empty(a, (sizes["M"], sizes["N"]))
        return rung.run(c, a, b) if arrays.numel(c) else c

    rung = Rung(name, record(f"gemm_{name.lower()}", f"GEMM {name}: {changed}",
                             framework if kernel is None else wrapper, () if kernel is None else (kernel,),
                             group="ladder: gemm", scenario="S26"), changed, why, kernel, launch)
    return rung


RUNGS = (
    _rung("V0", "the framework's product", "The measure of the others.", None, None),
    _rung("V1", "one step of K at a time", "It is slow: each step waits for its loads, and every element of A and B "
          "that is loaded is used for one row or column of a small tile by the plain units.", direct_kernel,
          _by_two_axes(32, 32)),
    _rung("V2", "tiles of K, tl.dot", "64 steps of K are loaded at once and multiplied by the matrix units; tiles go "
          "through shared memory, so threads use each other's elements.", plain_kernel,
          _by_two_axes(64, 64, BLOCK_K=64, PRECISION="ieee", num_stages=1)),
    _rung("V3", "larger tiles, pipelined, grouped", "Four stages: the copies of the next tiles run while this one is "
          "multiplied. Tiles of 128 x 128 read half as often, pointers advance instead of being computed, and the "
          "order of tiles keeps inputs in the L2 cache.", grouped_kernel, _pipelined),
    _rung("V4", f"tuned: {len(CONFIGS)} configurations", "No tile is best for all sizes: the fastest for each (M, N, "
          "K) is measured once and kept.", tuned_kernel, _tuned),
)
KERNELS = tuple(rung.record for rung in RUNGS)
