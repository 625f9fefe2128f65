"""z = x + y: the first kernel."""

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    """Each program adds BLOCK elements; the mask keeps the last program inside the arrays."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x + y, mask=mask)


def vector_add(x, y, block: int = 1024):
    """The sum of two arrays of one shape and type.

    >>> import numpy as np
    >>> vector_add(np.float32([1, 2]), np.float32([3, 4]))
    array([4., 6.], dtype=float32)
    """
    n = checks.flat("vector_add", checks.NUMBERS, x=x, y=y)
    x, y = arrays.all_contiguous(x, y)
    z = arrays.empty(x)
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, z, n, BLOCK=block)
    return z


def reference(x, y):
    """The same in NumPy."""
    return x + y


KERNELS = (Kernel(
    "vector_add", vector_add, reference,
    lambda size, dtype, device: (normal((size,), dtype, device), normal((size,), dtype, device, 1)),
    bytes=lambda x, y: nbytes(x, y, x), flops=lambda x, y: arrays.numel(x),
    group="element-wise", title="vector add", size_is="elements", scenario="S20",
    sizes={"cpu": 1 << 20, "cuda": 1 << 26}, jit=(add_kernel,), rival=lambda torch, x, y: x + y),)
