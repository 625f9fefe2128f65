"""Copy the first column of a matrix: one element per row, a strided read."""

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays


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
    rows = x.shape[0]
    out = arrays.empty(x, (rows,))
    first_column_kernel[(triton.cdiv(rows, block),)](x, out, rows, arrays.strides(x)[0], BLOCK=block)
    return out


def reference(x):
    """The same in NumPy."""
    return x[:, 0].copy()
