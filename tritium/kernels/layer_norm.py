"""Layer normalisation of rows, forward and backward.

The backward pass has a reduction across programs: the gradients of weight and bias sum over all rows. On a GPU, where
a row has a program, rows are dealt to GROUPS partial sums, each guarded by a lock. On a CPU a program has a share of
the rows and a partial sum of its own, and nobody waits. A second kernel adds the partial sums up.
"""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal

SHARE = 32  # rows that are worth a partial sum of a CPU
SHARES = 256  # about as many at most


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
def _gradient_of_row(dx_ptr, dout_ptr, x_ptr, weight, mean_ptr, rstd_ptr, row, last, stride, columns, n_cols):
    """Store the gradient of one row, and return its share of dw and db; of none if there are rows up to `last` only."""
    mask = columns < n_cols
    if last is None:
        mean, rstd = tl.load(mean_ptr + row), tl.load(rstd_ptr + row)
    else:
        mask = mask & (row < last)
        mean = tl.load(mean_ptr + row, mask=row < last, other=0.0)
        rstd = tl.load(rstd_ptr + row, mask=row < last, other=0.0)
    offset = row.to(tl.int64) * stride
    x = tl.load(x_ptr + offset + columns, mask=mask, other=0.0).to(tl.float32)
    dout = tl.load(dout_ptr + offset + columns, mask=mask, other=0.0).to(tl.float32)
    xhat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdout = weight * dout
    along_xhat = tl.sum(xhat * wdout, axis=0) / n_cols
    along_one = tl.sum(wdout, axis=0) / n_cols
    # in this order, products and differences are two fused multiply-adds
    tl.store(dx_ptr + offset + columns, (wdout - along_one - xhat * along_xhat) * rstd, mask=mask)
    return dout * xhat, dout


@triton.jit
def backward_kernel(dx_ptr, dout_ptr, partial_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, lock_ptr, stride, n_rows,
                    n_cols, share, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient of a row, and its part of dw and db added to a partial sum under a lock.

    Without a lock: the gradients of a share of the rows, and a partial sum that no other program writes. It takes two
    rows at a time, as adding to the sum takes longer than what is added.
    """
    program = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_cols
    weight = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    if lock_ptr is None:
        dw = tl.zeros((BLOCK,), tl.float32)
        db = tl.zeros((BLOCK,), tl.float32)
        last = tl.minimum(program * share + share, n_rows)
        for row in range(program * share, last, 2):
            dw_of_row, db_of_row = _gradient_of_row(dx_ptr, dout_ptr, x_ptr, weight, mean_ptr, rstd_ptr, row, None,
                                                    stride, columns, n_cols)
            dw_of_next, db_of_next = _gradient_of_row(dx_ptr, dout_ptr, x_ptr, weight, mean_ptr, rstd_ptr, row + 1,
                                                      last, stride, columns, n_cols)
            dw += dw_of_row + dw_of_next
            db += db_of_row + db_of_next
        dw_ptrs = partial_ptr + program * 2 * n_cols + columns
        tl.store(dw_ptrs, dw, mask=mask)
        tl.store(dw_ptrs + n_cols, db, mask=mask)
    else:
        dw, db = _gradient_of_row(dx_ptr, dout_ptr, x_ptr, weight, mean_ptr, rstd_ptr, program, None, stride,
                                  columns, n_cols)
        group = program % GROUPS
        lock = lock_ptr + group
        used = lock_ptr + GROUPS + group
        dw_ptrs = partial_ptr + group * 2 * n_cols + columns
        db_ptrs = dw_ptrs + n_cols
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
def partials_kernel(partial_ptr, dw_ptr, db_ptr, groups, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Sum the partial gradients over the groups, BLOCK columns per program."""
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dw = tl.zeros((ROWS, BLOCK), tl.float32)
    db = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, groups, ROWS):
        rows = start + tl.arange(0, ROWS)
        mask = (rows[:, None] < groups) & (columns[None, :] < n_cols)
        offsets = rows[:, None] * 2 * n_cols + columns[None, :]
        dw += tl.load(partial_ptr + offsets, mask=mask, other=0.0)
        db += tl.load(partial_ptr + n_cols + offsets, mask=mask, other=0.0)
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
    x, weight, bias = arrays.all_contiguous(x, weight, bias)
    out = arrays.empty(x)
    make = arrays.empty if cols else arrays.zeros
    mean, rstd = make(x, (rows,), "float32"), make(x, (rows,), "float32")
    if cols == 0:
        return out, mean, rstd
    block = triton.next_power_of_2(cols)
    forward_kernel[(rows,)](x, weight, bias, out, mean, rstd, cols, cols, eps, BLOCK=block,
                            num_warps=min(8, max(1, block // 256)))
    return out, mean, rstd


def layer_norm_backward(dout, x, weight, mean, rstd, groups: int | None = None, shares: bool | None = None):
    """The gradients (dx, dweight, dbias) for the gradient `dout` of the result; `mean` and `rstd` are layer_norm's.

    There are `groups` partial sums. With `shares`, the default on a CPU, each belongs to a program and its share of the
    rows, and the result is always the same. Without, each row has a program, and is added to one of the sums.

    >>> x, one = np.float32([[1, 3]]), np.ones(2, np.float32)
    >>> _, mean, rstd = layer_norm(x, one, one, eps=0.0)
    >>> layer_norm_backward(np.float32([[1, 1]]), x, one, mean, rstd)
    (array([[0., 0.]], dtype=float32), array([-1.,  1.], dtype=float32), array([1., 1.], dtype=float32))
    """
    name = "layer_norm_backward"
    rows, cols = checks.arguments(name, checks.FLOATS, ("weight",), dout=(dout, "M N"), x=(x, "M N"),
                                  weight=(weight, "N"), mean=(mean, "M: float32"), rstd=(rstd, "M: float32")).values()
    if groups is not None:
        checks.positive(name, groups=groups)
    checks.fits_a_tile(name, "x", x, cols)
    dout, x, weight, mean, rstd = arrays.all_contiguous(dout, x, weight, mean, rstd)
    dx, dw, db = arrays.empty(x), arrays.empty(weight), arrays.empty(weight)
    if cols == 0:
        return dx, dw, db
    if shares is None:
        shares = not arrays.on_gpu(x)
    if shares:
        if groups is None:
            share = SHARE if rows <= SHARE * SHARES else rows // SHARES
        else:
            share = (rows + groups - 1) // groups or 1
        programs = sums = (rows + share - 1) // share
        locks, groups = None, 1
    else:
        groups = 32 if groups is None else groups
        share, programs, sums = 1, rows, min(groups, rows)
        locks = arrays.zeros(x, (2 * groups,), "int32")
    partial = arrays.scratch(x, sums, 2, cols)
    block = triton.next_power_of_2(cols)
    backward_kernel[(programs,)](dx, dout, partial, x, weight, mean, rstd, locks, cols, rows, cols, share,
                                 GROUPS=groups, BLOCK=block, num_warps=min(8, max(1, block // 256)))
    partials_kernel[((cols + 127) // 128,)](partial, dw, db, sums, cols, ROWS=8 if shares else 32, BLOCK=128)
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
