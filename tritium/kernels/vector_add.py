"""z = x + y: the first kernel."""

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    """Each program adds BLOCK elements; the mask keeps the last program inside the arrays."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x + y, mask=mask)


def vector_add(x, y, block: int = 1024):
    """The sum of two contiguous arrays of one shape.

    >>> import numpy as np
    >>> vector_add(np.float32([1, 2]), np.float32([3, 4]))
    array([4., 6.], dtype=float32)
    """
    z = arrays.empty(x)
    n = arrays.numel(x)
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, z, n, BLOCK=block)
    return z


def reference(x, y):
    """The same in NumPy."""
    return x + y
