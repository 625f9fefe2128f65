"""C = A @ B: plain two-dimensional tiles, grouped tiles that reuse the cache, and tuned tile sizes.

Inputs may be float16, bfloat16, float32 or fp8 (e4m3, e5m2); sums are float32. float32 inputs use the matrix units'
tf32 where the target has it unless `precision="ieee"` is asked for.
"""

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays


@triton.jit
def plain_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr):
    """Program (i, j) computes tile (i, j) of C; all three edges are masked."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak,
                    mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn,
                    mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn, total.to(c_ptr.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def grouped_tile(pid, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """Tile of program `pid`: GROUP_M rows of tiles are finished together, so that their inputs stay in the cache."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    per_group = GROUP_M * tiles_n
    first_m = pid // per_group * GROUP_M
    rows = min(tiles_m - first_m, GROUP_M)
    return first_m + pid % per_group % rows, pid % per_group // rows


@triton.jit
def leaky_relu(x):
    """x above zero, 0.01 x below."""
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def grouped_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
                   ACTIVATION: tl.constexpr, PRECISION: tl.constexpr):
    """Tiles in grouped order; rows and columns past the edge wrap around, so the loop masks K alone."""
    i, j = grouped_tile(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    m = (i * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    n = (j * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=k[None, :] < K - start, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - start, other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if ACTIVATION == "leaky_relu":
        total = leaky_relu(total)
    m = i * BLOCK_M + tl.arange(0, BLOCK_M)
    n = j * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn, total.to(c_ptr.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


# Tiles for tensor cores and, the last two, for the caches of a CPU.
CONFIGS = [
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8}, num_stages=3, num_warps=8),
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 8}, num_stages=4, num_warps=4),
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP_M": 8}, num_stages=4, num_warps=4),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP_M": 8}, num_stages=4, num_warps=4),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8}, num_stages=3, num_warps=4),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 256, "GROUP_M": 8}, num_stages=2, num_warps=4),
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 256, "GROUP_M": 4}, num_stages=1, num_warps=4),
]

# A CPU has no matrix unit to keep busy but caches to use well: large tiles are copied less often.
CPU_CONFIGS = [
    *CONFIGS[4:],
    triton.Config({"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 256, "GROUP_M": 4}, num_stages=1, num_warps=4),
    triton.Config({"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 512, "GROUP_M": 4}, num_stages=1, num_warps=4),
]

tuned_kernel = triton.autotune(configs=CONFIGS, key=["M", "N", "K"])(grouped_kernel)


def _arguments(a, b, out_dtype: str | None):
    """C, and what all three kernels take: the matrices, their sizes and strides."""
    (M, K), N = a.shape, b.shape[1]
    if b.shape[0] != K:
        raise ValueError(f"cannot multiply {tuple(a.shape)} by {tuple(b.shape)}: {K} columns against {b.shape[0]} rows")
    # fp8 has too few digits to hold a result.
    out_dtype = out_dtype or ("float16" if "float8" in arrays.dtype_name(a) else None)
    c = arrays.empty(a, (M, N), out_dtype)
    return c, (a, b, c, M, N, K, *arrays.strides(a), *arrays.strides(b), *arrays.strides(c))


def matmul_plain(a, b, precision: str | None = None, out_dtype: str | None = None, blocks=(64, 64, 64)):
    """A @ B with one program per tile of C.

    >>> import numpy as np
    >>> matmul_plain(np.eye(2, dtype=np.float32), np.float32([[1, 2], [3, 4]]))
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    c, args = _arguments(a, b, out_dtype)
    block_m, block_n, block_k = blocks
    grid = (triton.cdiv(args[3], block_m), triton.cdiv(args[4], block_n))
    plain_kernel[grid](*args, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, PRECISION=precision)
    return c


def matmul(a, b, activation: str = "", precision: str | None = None, out_dtype: str | None = None,
           blocks=(64, 64, 64), group: int = 8, **options):
    """A @ B with tiles in grouped order, and leaky ReLU on the way out if `activation` says so.

    >>> import numpy as np
    >>> matmul(np.eye(2, dtype=np.float32), np.float32([[1, -100], [3, 4]]), activation="leaky_relu")
    array([[ 1., -1.],
           [ 3.,  4.]], dtype=float32)
    """
    c, args = _arguments(a, b, out_dtype)
    block_m, block_n, block_k = blocks
    grid = (triton.cdiv(args[3], block_m) * triton.cdiv(args[4], block_n),)
    grouped_kernel[grid](*args, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=group,
                         ACTIVATION=activation, PRECISION=precision, **options)
    return c


def matmul_tuned(a, b, activation: str = "", precision: str | None = None, out_dtype: str | None = None):
    """A @ B with the tile sizes that were fastest for this shape when first tried."""
    c, args = _arguments(a, b, out_dtype)
    M, N = args[3:5]
    tuned_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)](
        *args, ACTIVATION=activation, PRECISION=precision)
    return c


def reference(a, b):
    """The same in NumPy."""
    return a @ b
