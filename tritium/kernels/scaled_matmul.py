"""C = A @ B of fp8 matrices with a scale for each block, as fp8 weights are kept for training and inference.

e4m3 reaches from 2^-9 to 448. So each run of 128 elements of a row of A, and each tile of 128 x 128 of B, is divided by
its largest magnitude over 448 before it is rounded, and the quotient is kept in float32. The kernel multiplies fp8
tiles and applies both scales to the float32 partial sum of every 128 steps along K.
"""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.matmul import record
from tritium.kernels.registry import as_float64, nbytes, normal

BLOCK = 128  # elements along K under one scale
LARGEST = 448.0  # of e4m3


@triton.jit
def scaled_kernel(a_ptr, b_ptr, a_scale_ptr, b_scale_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                  stride_as, stride_bs, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """A step is one block along K; a tile of C lies under one column of B's scales, as BLOCK_N divides BLOCK_K."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    column = tl.program_id(1) * BLOCK_N // BLOCK_K
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        k = step * BLOCK_K + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak,
                    mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn,
                    mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        a_scale = tl.load(a_scale_ptr + m * stride_as + step, mask=m < M, other=0.0)
        b_scale = tl.load(b_scale_ptr + step * stride_bs + column)
        total += tl.dot(a, b) * (a_scale * b_scale)[:, None]
    tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(c_ptr.dtype.element_ty),
             mask=(m[:, None] < M) & (n[None, :] < N))


def scaled_matmul(a, b, a_scale, b_scale, out_dtype: str = "bfloat16", blocks=(64, 64)):
    """A (M, K) by B (K, N), both e4m3, with float32 scales (M, K/128) and (K/128, N/128), rounded up.

    >>> a, s = quantize_rows(np.full((1, 256), 3, np.float32))
    >>> b, t = quantize_tiles(np.ones((256, 1), np.float32))
    >>> scaled_matmul(a, b, s, t, out_dtype="float32").round()
    array([[768.]], dtype=float32)
    """
    name = "scaled_matmul"
    sizes = checks.arguments(name, ("float8_e4m3fn",), a=(a, "M K"), b=(b, "K N"))
    M, N, K = sizes["M"], sizes["N"], sizes["K"]
    checks.arguments(name, ("float32",), a_scale=(a_scale, "M K/128"), b_scale=(b_scale, "K/128 N/128"))
    for argument, x, wanted in (("a_scale", a_scale, (M, triton.cdiv(K, BLOCK))),
                                ("b_scale", b_scale, (triton.cdiv(K, BLOCK), triton.cdiv(N, BLOCK)))):
        if tuple(x.shape) != wanted:
            raise ValueError(f"{name}: {argument} has the shape {tuple(x.shape)}; for a of shape {tuple(a.shape)} and "
                             f"b of shape {tuple(b.shape)} it must be {wanted}. quantize_rows makes a and a_scale, "
                             "quantize_tiles b and b_scale.")
    if BLOCK % blocks[1]:
        raise ValueError(f"{name}: blocks are {blocks}; the second must divide {BLOCK}.")
    c = arrays.empty(a, (M, N), out_dtype)
    a_scale, b_scale = arrays.with_rows(a_scale), arrays.with_rows(b_scale)
    scaled_kernel[(triton.cdiv(M, blocks[0]), triton.cdiv(N, blocks[1]))](
        a, b, a_scale, b_scale, c, M, N, K, *arrays.strides(a), *arrays.strides(b), arrays.strides(a_scale)[0],
        arrays.strides(b_scale)[0], BLOCK_M=blocks[0], BLOCK_N=blocks[1], BLOCK_K=BLOCK)
    return c


def quantize_rows(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(e4m3, scales): each run of 128 elements of a row by its largest magnitude. On the host, in NumPy.

    >>> quantize_rows(np.float32([[1, 2, 448]]))[1]
    array([[1.]], dtype=float32)
    """
    return _quantize(x, 1)


def quantize_tiles(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(e4m3, scales): each tile of 128 x 128 by its largest magnitude. On the host, in NumPy.

    >>> quantize_tiles(np.ones((300, 200), np.float32))[1].shape
    (3, 2)
    """
    return _quantize(x, BLOCK)


def _quantize(x, high):
    rows, columns = x.shape
    padded = np.zeros((-(-rows // high) * high, -(-columns // BLOCK) * BLOCK), np.float32)
    padded[:rows, :columns] = x
    tiles = padded.reshape(padded.shape[0] // high, high, padded.shape[1] // BLOCK, BLOCK)
    scale = (np.abs(tiles).max((1, 3)) / LARGEST).astype(np.float32)
    scale[scale == 0] = 1
    scaled = (tiles / scale[:, None, :, None]).reshape(padded.shape)[:rows, :columns]
    return scaled.astype(arrays.numpy_dtype("float8_e4m3fn")), scale


def reference(a, b, a_scale, b_scale):
    """The same in NumPy, on the values that the fp8 numbers and scales stand for."""
    rows = np.repeat(a_scale, BLOCK, 1)[:, :a.shape[1]]
    tiles = np.repeat(np.repeat(b_scale, BLOCK, 0), BLOCK, 1)[:b.shape[0], :b.shape[1]]
    return (a * rows) @ (b * tiles)


def _make(size, dtype, device):
    (a, s), (b, t) = (quantize(as_float64(normal((size, size), "float32", "numpy", seed))) for seed, quantize in
                      enumerate((quantize_rows, quantize_tiles)))
    return tuple(arrays.like_device(x, device) for x in (a, b, s, t))


KERNELS = (record("matmul_scaled", "matmul of block-scaled fp8", scaled_matmul, (scaled_kernel,), ("float8_e4m3fn",),
                  _make, reference=reference, slack=4.0, rival=None,
                  bytes=lambda a, b, s, t: nbytes(a, b, s, t) + 2 * a.shape[0] * b.shape[1]),)
