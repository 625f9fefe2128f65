"""max(x + bias, 0) * scale in one pass over memory instead of three."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def add_relu_mul_kernel(x_ptr, bias_ptr, out_ptr, scale, n, BLOCK: tl.constexpr):
    """Two loads and one store per element; the intermediate values never leave the registers."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    y = tl.load(x_ptr + offsets, mask=mask) + tl.load(bias_ptr + offsets, mask=mask)
    y = tl.where(y > 0, y, 0)
    tl.store(out_ptr + offsets, y * scale, mask=mask)


def add_relu_mul(x, bias, scale: float, block: int = 1024):
    """`relu(x + bias) * scale` of two arrays of one shape and type.

    >>> add_relu_mul(np.float32([1, -3]), np.float32([1, 1]), 0.5)
    array([1., 0.], dtype=float32)
    """
    n = checks.flat("add_relu_mul", (*checks.FLOATS, "float64"), x=x, bias=bias)
    x, bias = arrays.all_contiguous(x, bias)
    out = arrays.empty(x)
    add_relu_mul_kernel[(triton.cdiv(n, block),)](x, bias, out, scale, n, BLOCK=block)
    return out


def reference(x, bias, scale):
    """The same in NumPy: three passes."""
    return np.maximum(x + bias, 0) * scale


KERNELS = (Kernel(
    "add_relu_mul", add_relu_mul, reference,
    lambda size, dtype, device: (normal((size,), dtype, device), normal((size,), dtype, device, 1), 0.5),
    bytes=lambda x, bias, scale: nbytes(x, bias, x), flops=lambda x, bias, scale: 3 * arrays.numel(x),
    group="element-wise", title="add, ReLU, multiply", size_is="elements", scenario="S20",
    sizes={"cpu": 1 << 20, "cuda": 1 << 26}, jit=(add_relu_mul_kernel,),
    rival=lambda torch, x, bias, scale: torch.relu(x + bias) * scale),)
