"""Matrix transposition by tiles: both the read and the write go along memory."""

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, stride_xm, stride_xn, stride_on, stride_om, BLOCK_M: tl.constexpr,
                     BLOCK_N: tl.constexpr):
    """A tile is read row by row and written column by column; the compiler turns it on chip."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + m[:, None] * stride_xm + n[None, :] * stride_xn, mask=(m[:, None] < M) & (n[None, :] < N))
    tl.store(out_ptr + n[:, None] * stride_on + m[None, :] * stride_om, tl.trans(x),
             mask=(n[:, None] < N) & (m[None, :] < M))


def transpose(x, blocks=(64, 64)):
    """The transpose of a matrix with any strides, contiguous.

    >>> import numpy as np
    >>> transpose(np.float32([[1, 2], [3, 4]]))
    array([[1., 3.],
           [2., 4.]], dtype=float32)
    """
    M, N = checks.arguments("transpose", checks.NUMBERS, x=(x, "M N")).values()
    out = arrays.empty(x, (N, M))
    grid = (triton.cdiv(M, blocks[0]), triton.cdiv(N, blocks[1]))
    transpose_kernel[grid](x, out, M, N, *arrays.strides(x), *arrays.strides(out), BLOCK_M=blocks[0],
                           BLOCK_N=blocks[1])
    return out


def reference(x):
    """The same in NumPy."""
    return x.T.copy()


KERNELS = (Kernel(
    "transpose", transpose, reference, lambda size, dtype, device: (normal((size, size), dtype, device),),
    bytes=lambda x: 2 * nbytes(x), flops=lambda x: 0, group="transpose", title="transpose by tiles",
    size_is="rows and columns of a square matrix", scenario="S25", sizes={"cpu": 2048, "cuda": 8192},
    jit=(transpose_kernel,), rival=lambda torch, x: x.t().contiguous()),)
