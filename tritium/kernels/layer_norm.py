"""Layer normalisation of rows, forward and backward.

The backward pass has a reduction across programs: the gradients of weight and bias sum over all rows. Rows are dealt
to GROUPS partial sums, each guarded by a lock; a second kernel adds the partial sums up.
"""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def forward_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, mean_ptr, rstd_ptr, stride, n_cols, eps,
                   BLOCK: tl.constexpr):
    """One row per program, kept in registers: mean, then variance about it, then the result."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_cols
    offset = row.to(tl.int64) * stride
    x = tl.load(x_ptr + offset + columns, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=0) / n_cols + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    weight = tl.load(weight_ptr + columns, mask=mask).to(tl.float32)
    bias = tl.load(bias_ptr + columns, mask=mask).to(tl.float32)
    tl.store(out_ptr + offset + columns, centred * rstd * weight + bias, mask=mask)


@triton.jit
def backward_kernel(dx_ptr, dout_ptr, partial_dw_ptr, partial_db_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, lock_ptr,
                    stride, n_cols, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient of one row, and its share of dw and db added to a partial sum under a lock."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_cols
    offset = row.to(tl.int64) * stride
    x = tl.load(x_ptr + offset + columns, mask=mask, other=0.0).to(tl.float32)
    dout = tl.load(dout_ptr + offset + columns, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    xhat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdout = weight * dout
    along_xhat = tl.sum(xhat * wdout, axis=0) / n_cols
    along_one = tl.sum(wdout, axis=0) / n_cols
    tl.store(dx_ptr + offset + columns, (wdout - xhat * along_xhat - along_one) * rstd, mask=mask)

    group = row % GROUPS
    lock = lock_ptr + group
    used = lock_ptr + GROUPS + group
    dw_ptrs = partial_dw_ptr + group * n_cols + columns
    db_ptrs = partial_db_ptr + group * n_cols + columns
    dw = dout * xhat
    db = dout
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(used) == 0:
        tl.store(used, 1)  # the first of its group finds nothing to add to
    else:
        dw += tl.load(dw_ptrs, mask=mask)
        db += tl.load(db_ptrs, mask=mask)
    tl.store(dw_ptrs, dw, mask=mask)
    tl.store(db_ptrs, db, mask=mask)
    tl.debug_barrier()  # every store is done before the lock is given back
    tl.atomic_xchg(lock, 0)


@triton.jit
def partials_kernel(partial_dw_ptr, partial_db_ptr, dw_ptr, db_ptr, groups, n_cols, ROWS: tl.constexpr,
                    BLOCK: tl.constexpr):
    """Sum the partial gradients over the groups, BLOCK columns per program."""
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dw = tl.zeros((ROWS, BLOCK), tl.float32)
    db = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, groups, ROWS):
        rows = start + tl.arange(0, ROWS)
        mask = (rows[:, None] < groups) & (columns[None, :] < n_cols)
        offsets = rows[:, None] * n_cols + columns[None, :]
        dw += tl.load(partial_dw_ptr + offsets, mask=mask, other=0.0)
        db += tl.load(partial_db_ptr + offsets, mask=mask, other=0.0)
    tl.store(dw_ptr + columns, tl.sum(dw, axis=0), mask=columns < n_cols)
    tl.store(db_ptr + columns, tl.sum(db, axis=0), mask=columns < n_cols)


def layer_norm(x, weight, bias, eps: float = 1e-5):
    """The normalised rows of a matrix, with the means and reciprocal deviations the backward pass needs.

    Each row must fit into one tile; weight and bias may be of another type.

    >>> out, mean, rstd = layer_norm(np.float32([[1, 3]]), np.ones(2, np.float32), np.zeros(2, np.float32), eps=0.0)
    >>> out, mean
    (array([[-1.,  1.]], dtype=float32), array([2.], dtype=float32))
    """
    rows, cols = checks.arguments("layer_norm", checks.FLOATS, ("weight", "bias"), x=(x, "M N"), weight=(weight, "N"),
                                  bias=(bias, "N")).values()
    checks.fits_a_tile("layer_norm", "x", x, cols)
    x, weight, bias = map(arrays.contiguous, (x, weight, bias))
    out = arrays.empty(x)
    mean, rstd = arrays.zeros(x, (rows,), "float32"), arrays.zeros(x, (rows,), "float32")
    if cols == 0:
        return out, mean, rstd
    block = triton.next_power_of_2(cols)
    forward_kernel[(rows,)](x, weight, bias, out, mean, rstd, arrays.strides(x)[0], cols, eps, BLOCK=block,
                            num_warps=min(8, max(1, block // 256)))
    return out, mean, rstd


def layer_norm_backward(dout, x, weight, mean, rstd, groups: int = 32):
    """The gradients (dx, dweight, dbias) for the gradient `dout` of the result; `mean` and `rstd` are layer_norm's.

    >>> x, one = np.float32([[1, 3]]), np.ones(2, np.float32)
    >>> _, mean, rstd = layer_norm(x, one, one, eps=0.0)
    >>> layer_norm_backward(np.float32([[1, 1]]), x, one, mean, rstd)
    (array([[0., 0.]], dtype=float32), array([-1.,  1.], dtype=float32), array([1., 1.], dtype=float32))
    """
    name = "layer_norm_backward"
    rows, cols = checks.arguments(name, checks.FLOATS, ("weight", "mean", "rstd"), dout=(dout, "M N"), x=(x, "M N"),
                                  weight=(weight, "N"), mean=(mean, "M"), rstd=(rstd, "M")).values()
    checks.arguments(name, ("float32",), mean=(mean, "M"), rstd=(rstd, "M"))
    checks.positive(name, groups=groups)
    checks.fits_a_tile(name, "x", x, cols)
    dout, x, weight, mean, rstd = map(arrays.contiguous, (dout, x, weight, mean, rstd))
    if cols == 0:
        return arrays.empty(x), arrays.empty(weight), arrays.empty(weight)
    dx, dw, db = arrays.empty(x), arrays.empty(weight), arrays.empty(weight)
    partial_dw, partial_db = (arrays.zeros(x, (groups, cols), "float32") for _ in range(2))
    locks = arrays.zeros(x, (2 * groups,), "int32")
    block = triton.next_power_of_2(cols)
    backward_kernel[(rows,)](dx, dout, partial_dw, partial_db, x, weight, mean, rstd, locks, arrays.strides(x)[0],
                             cols, GROUPS=groups, BLOCK=block, num_warps=min(8, max(1, block // 256)))
    partials_kernel[(triton.cdiv(cols, 128),)](partial_dw, partial_db, dw, db, min(groups, rows), cols,
                                               ROWS=32, BLOCK=128)
    return dx, dw, db


def reference(x, weight, bias, eps=1e-5):
    """The forward pass in NumPy."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * weight + bias


def reference_backward(dout, x, weight, eps=1e-5):
    """The backward pass in NumPy: (dx, dweight, dbias)."""
    centred = x - x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    xhat, wdout = centred * rstd, weight * dout
    dx = (wdout - xhat * (xhat * wdout).mean(-1, keepdims=True) - wdout.mean(-1, keepdims=True)) * rstd
    return dx, (dout * xhat).sum(0), dout.sum(0)


def _forward_arguments(size, dtype, device):
    return normal((size, size), dtype, device), *(normal((size,), dtype, device, seed) for seed in (1, 2))


def _backward_arguments(size, dtype, device):
    dout, x = (normal((size, size), dtype, device, seed) for seed in (3, 0))
    weight = normal((size,), dtype, device, 1)
    return dout, x, weight, *layer_norm(x, weight, weight)[1:]


def _torch_backward(torch, dout, x, weight, mean, rstd):
    return torch.ops.aten.native_layer_norm_backward(dout, x, [x.shape[1]], mean[:, None].to(x.dtype),
                                                     rstd[:, None].to(x.dtype), weight, weight, [True] * 3)


KERNELS = (
    Kernel("layer_norm", layer_norm, reference, _forward_arguments, bytes=lambda x, w, b: 2 * nbytes(x) + nbytes(w, b),
           flops=lambda x, w, b: 8 * arrays.numel(x), group="layer norm", title="layer norm", scenario="S22",
           size_is="rows and columns of a square matrix", sizes={"cpu": 1024, "cuda": 8192}, jit=(forward_kernel,),
           rival=lambda torch, x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b), main=0),
    Kernel("layer_norm_backward", layer_norm_backward,
           lambda dout, x, weight, mean, rstd: reference_backward(dout, x, weight), _backward_arguments,
           bytes=lambda dout, x, w, m, r: 3 * nbytes(x) + 3 * nbytes(w) + nbytes(m, r),
           flops=lambda dout, x, w, m, r: 14 * arrays.numel(x), group="layer norm, backward",
           title="layer norm, backward", size_is="rows and columns of a square matrix", scenario="S22",
           sizes={"cpu": 1024, "cuda": 8192}, jit=(backward_kernel, partials_kernel), rival=_torch_backward,
           slack=10.0),
)
