"""SiLU, x * sigmoid(x)."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Computes in float32 whatever the storage type."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, x * tl.sigmoid(x), mask=mask)


def silu(x, block: int = 1024):
    """SiLU of an array.

    >>> silu(np.float32([0, 100]))
    array([  0., 100.], dtype=float32)
    """
    n = checks.count("silu", x)
    x = arrays.contiguous(x)
    out = arrays.empty(x)
    silu_kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)
    return out


def reference(x):
    """The same in NumPy."""
    return x / (1 + np.exp(-x))


KERNELS = (Kernel(
    "silu", silu, reference, lambda size, dtype, device: (normal((size,), dtype, device, scale=3.0),),
    bytes=lambda x: 2 * nbytes(x), flops=lambda x: 4 * arrays.numel(x), group="element-wise", title="SiLU",
    size_is="elements", scenario="S20", sizes={"cpu": 1 << 20, "cuda": 1 << 26}, jit=(silu_kernel,),
    rival=lambda torch, x: torch.nn.functional.silu(x)),)
