"""C = A @ B by a fixed number of programs, each walking over many tiles: launch and prologue are paid once."""

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays
from tritium.kernels.matmul import grouped_tile, operands, record, usual_tiles


@triton.jit
def persistent_matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
                             stride_cn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                             GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr):
    """Tiles PROGRAMS apart, in grouped order."""
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True):
        i, j = grouped_tile(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        m = i * BLOCK_M + tl.arange(0, BLOCK_M)
        n = j * BLOCK_N + tl.arange(0, BLOCK_N)
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(0, K, BLOCK_K):
            k = start + tl.arange(0, BLOCK_K)
            a = tl.load(a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak,
                        mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
            b = tl.load(b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn,
                        mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
            total = tl.dot(a, b, total, input_precision="ieee")
        tl.store(c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn, total.to(c_ptr.dtype.element_ty),
                 mask=(m[:, None] < M) & (n[None, :] < N))


def persistent_matmul(a, b, blocks=None, group: int = 8, **options):
    """A @ B by one program per multiprocessor.

    >>> import numpy as np
    >>> persistent_matmul(np.eye(2, dtype=np.float32), np.float32([[1, 2], [3, 4]]))
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    c, args = operands("persistent_matmul", a, b)
    blocks, usual = usual_tiles(a, b) if blocks is None else (blocks, {})
    programs = min(arrays.multiprocessors(a), triton.cdiv(args[3], blocks[0]) * triton.cdiv(args[4], blocks[1]))
    persistent_matmul_kernel[(programs,)](*args, BLOCK_M=blocks[0], BLOCK_N=blocks[1], BLOCK_K=blocks[2],
                                          GROUP_M=group, PROGRAMS=max(programs, 1), **{**usual, **options})
    return c


def reference(a, b):
    """The same in NumPy."""
    return a @ b


KERNELS = (record("matmul_persistent", "matmul, persistent", persistent_matmul, (persistent_matmul_kernel,)),)
