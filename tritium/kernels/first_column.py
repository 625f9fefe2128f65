"""Copy the first column of a matrix: one element per row, a strided read."""

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, normal


@triton.jit
def first_column_kernel(x_ptr, out_ptr, rows, row_stride, BLOCK: tl.constexpr):
    """Neighbours in the result lie `row_stride` apart in the matrix; 64-bit offsets allow large ones."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = row < rows
    x = tl.load(x_ptr + row.to(tl.int64) * row_stride, mask=mask)
    tl.store(out_ptr + row, x, mask=mask)


def first_column(x, block: int = 256):
    """The first column of a matrix with any strides, as a contiguous vector.

    >>> import numpy as np
    >>> first_column(np.float32([[1, 2], [3, 4]]))
    array([1., 3.], dtype=float32)
    """
    rows = checks.arguments("first_column", checks.NUMBERS, x=(x, "M N"))["M"]
    if x.shape[1] == 0:
        raise ValueError(f"first_column: x has the shape {tuple(x.shape)}; it must have a column.")
    out = arrays.empty(x, (rows,))
    first_column_kernel[(triton.cdiv(rows, block),)](x, out, rows, arrays.strides(x)[0], BLOCK=block)
    return out


def reference(x):
    """The same in NumPy."""
    return x[:, 0].copy()


def _sectors(x) -> int:
    """Bytes read and written: memory is read in sectors of 32 bytes, and neighbours of the column lie in others."""
    return x.shape[0] * (min(32, x.itemsize * max(1, abs(arrays.strides(x)[0]))) + x.itemsize)


KERNELS = (Kernel(
    "first_column", first_column, reference, lambda size, dtype, device: (normal((size, 64), dtype, device),),
    bytes=_sectors, flops=lambda x: 0, group="copy", title="first column", size_is="rows of 64 columns",
    scenario="S20", sizes={"cpu": 1 << 16, "cuda": 1 << 22}, jit=(first_column_kernel,),
    rival=lambda torch, x: x[:, 0].contiguous()),)
