"""SiLU, x * sigmoid(x)."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Computes in float32 whatever the storage type."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, x * tl.sigmoid(x), mask=mask)


def silu(x, block: int = 1024):
    """SiLU of a contiguous array.

    >>> silu(np.float32([0, 100]))
    array([  0., 100.], dtype=float32)
    """
    out = arrays.empty(x)
    n = arrays.numel(x)
    silu_kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)
    return out


def reference(x):
    """The same in NumPy."""
    return x / (1 + np.exp(-x))
