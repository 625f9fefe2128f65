"""The transpose of a matrix, from the framework's copy to tiles that are transposed on chip."""

from __future__ import annotations

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.ladders import Rung
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def columns_kernel(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    """V1: a program makes a row of the result. It reads a column: neighbours lie N elements apart."""
    column = tl.program_id(0)
    for start in range(0, M, BLOCK):
        row = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + column, mask=row < M)
        tl.store(out_ptr + column * M + row, x, mask=row < M)


@triton.jit
def rows_kernel(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    """V2: a program reads a row, along memory. What it writes is a column."""
    row = tl.program_id(0)
    for start in range(0, N, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + column, mask=column < N)
        tl.store(out_ptr + column * M + row, x, mask=column < N)


@triton.jit
def tiles_kernel(x_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """V3 and V4: a tile is read along the rows of x and written along the rows of the result."""
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N))
    tl.store(out_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=(n[:, None] < N) & (m[None, :] < M))


def _columns(x, out):
    M, N = x.shape
    return (N,), (x, out, M, N), {"BLOCK": 1024}


def _rows(x, out):
    M, N = x.shape
    return (M,), (x, out, M, N), {"BLOCK": 1024}


def _tiles(block_m, block_n, warps):
    def launch(x, out):
        M, N = x.shape
        grid = (triton.cdiv(N, block_n), triton.cdiv(M, block_m))
        return grid, (x, out, M, N), {"BLOCK_M": block_m, "BLOCK_N": block_n, "num_warps": warps}
    return launch


def framework(x):
    """V0: the copy that NumPy or torch makes.

    >>> framework(np.float32([[1, 2]])).tolist()
    [[1.0], [2.0]]
    """
    checks.arguments("framework", checks.NUMBERS, x=(x, "M N"))
    return np.ascontiguousarray(x.T) if isinstance(x, np.ndarray) else x.t().contiguous()


def _rung(name, changed, why, kernel, launch):
    def wrapper(x):
        M, N = checks.arguments(f"transpose_{name.lower()}", checks.NUMBERS, x=(x, "M N")).values()
        checks.countable(f"transpose_{name.lower()}", x=x)
        return rung.run(arrays.empty(x, (N, M)), arrays.contiguous(x))

    made = framework if kernel is None else wrapper
    record = Kernel(
        f"transpose_{name.lower()}", made, lambda x: x.T,
        lambda size, dtype, device: (normal((size, size), dtype, device),), bytes=lambda x: 2 * nbytes(x),
        flops=lambda x: 0, group="ladder: transpose", title=f"transpose {name}: {changed}",
        size_is="rows and columns of a square matrix", scenario="S25", sizes={"cpu": 2048, "cuda": 8192},
        jit=() if kernel is None else (kernel,), rival=lambda torch, x: x.t().contiguous())
    rung = Rung(name, record, changed, why, kernel, launch)
    return rung


RUNGS = (
    _rung("V0", "the framework's copy", "The measure of the others.", None, None),
    _rung("V1", "a row of the result per program",
          "It is slow: the 32 elements that a warp loads at a time lie in 32 sectors of 32 bytes, where 4 would hold "
          "them.", columns_kernel, _columns),
    _rung("V2", "a row of the input per program",
          "Loads are coalesced, stores are not. Stores are not waited for, so it is faster than V1.", rows_kernel,
          _rows),
    _rung("V3", "tiles of 64 x 64, transposed on chip",
          "Loads and stores are both coalesced: the tile changes its layout in shared memory. Writing it there takes "
          "twice the passes it needs: two threads of a pass meet in each bank.", tiles_kernel, _tiles(64, 64, 4)),
    _rung("V4", "tiles of 128 x 32, no bank conflicts",
          "A row of the tile is 128 bytes, one word for each bank, and the compiler's swizzle puts every pass into 32 "
          "banks. It is what a column of padding does in CUDA; here the shape of the tile is what one can choose.",
          tiles_kernel, _tiles(128, 32, 4)),
)
KERNELS = tuple(rung.record for rung in RUNGS)
