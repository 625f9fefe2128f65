"""RMS normalisation, x / sqrt(mean(x^2) + eps) * weight: of one vector, and of the rows of a matrix."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def vector_kernel(x_ptr, weight_ptr, out_ptr, n, eps, BLOCK: tl.constexpr):
    """One program walks a vector of any length twice: first the mean square, then the result."""
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=0) / n + eps)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < n
        x = tl.load(x_ptr + at, mask=mask).to(tl.float32)
        weight = tl.load(weight_ptr + at, mask=mask).to(tl.float32)
        tl.store(out_ptr + at, x * scale * weight, mask=mask)


def rms_norm_vector(x, weight, eps: float = 1e-6, block: int = 1024):
    """RMS normalisation of one vector; a weight may be of another type.

    >>> rms_norm_vector(np.full(4, 3, np.float32), np.ones(4, np.float32), eps=0.0)
    array([1., 1., 1., 1.], dtype=float32)
    """
    checks.arguments("rms_norm_vector", checks.FLOATS, ("weight",), x=(x, "N"), weight=(weight, "N"))
    checks.countable("rms_norm_vector", x=x)
    x, weight = arrays.contiguous(x), arrays.contiguous(weight)
    out = arrays.empty(x)
    vector_kernel[(1,)](x, weight, out, arrays.numel(x), eps, BLOCK=block)
    return out


@triton.jit
def rows_kernel(x_ptr, weight_ptr, out_ptr, x_stride, out_stride, n_cols, eps, BLOCK: tl.constexpr):
    """A program holds one row in registers: it is read once."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_cols
    x = tl.load(x_ptr + row * x_stride + columns, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * out_stride + columns, x * scale * weight, mask=mask)


def rms_norm(x, weight, eps: float = 1e-6):
    """RMS normalisation of the rows of a matrix; each row must fit into one tile.

    >>> rms_norm(np.full((1, 4), 3, np.float32), np.ones(4, np.float32), eps=0.0)
    array([[1., 1., 1., 1.]], dtype=float32)
    """
    rows, cols = checks.arguments("rms_norm", checks.FLOATS, ("weight",), x=(x, "M N"), weight=(weight, "N")).values()
    checks.fits_a_tile("rms_norm", "x", x, cols)
    out, x, weight = arrays.empty(x), arrays.with_rows(x), arrays.contiguous(weight)
    if cols == 0:
        return out
    block = triton.next_power_of_2(cols)
    rows_kernel[(rows,)](x, weight, out, arrays.strides(x)[0], arrays.strides(out)[0], cols, eps, BLOCK=block,
                         num_warps=min(16, max(4, block // 512)))
    return out


def reference(x, weight, eps=1e-6):
    """The same in NumPy, over the last axis."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


KERNELS = (
    Kernel("rms_norm_vector", rms_norm_vector, reference,
           lambda size, dtype, device: (normal((size,), dtype, device), normal((size,), dtype, device, 1)),
           bytes=lambda x, weight: nbytes(x, weight, x), flops=lambda x, weight: 4 * arrays.numel(x),
           group="normalisation of a vector", title="RMSNorm of a vector", size_is="elements", scenario="S22",
           sizes={"cpu": 1 << 18, "cuda": 1 << 18}, jit=(vector_kernel,),
           rival=lambda torch, x, weight: torch.nn.functional.rms_norm(x, x.shape, weight, 1e-6)),
    Kernel("rms_norm", rms_norm, reference,
           lambda size, dtype, device: (normal((size, size), dtype, device), normal((size,), dtype, device, 1)),
           bytes=lambda x, weight: nbytes(x, weight, x), flops=lambda x, weight: 4 * arrays.numel(x),
           group="normalisation", title="RMSNorm of rows", size_is="rows and columns of a square matrix",
           scenario="S22", sizes={"cpu": 1024, "cuda": 8192}, jit=(rows_kernel,),
           rival=lambda torch, x, weight: torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-6)),
)
