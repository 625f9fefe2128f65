"""Row-wise softmax three ways.

`naive` is made of array operations: it moves 8MN + 4M elements of an M x N matrix through memory. `softmax` gives a
program a row: each element is read once and written once. `persistent` starts only as many programs as the device can
hold at a time, and lets each go from row to row.
"""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays


def naive(x):
    """Softmax of the rows by array operations.

    >>> naive(np.zeros((1, 2)))
    array([[0.5, 0.5]])
    """
    if isinstance(x, np.ndarray):
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)
    e = (x - x.max(1, keepdim=True)[0]).exp()
    return e / e.sum(1, keepdim=True)


@triton.jit
def softmax_kernel(out_ptr, x_ptr, x_stride, out_stride, n_cols, BLOCK: tl.constexpr):
    """One row per program; the row is padded to a power of two with minus infinity, which adds nothing."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < n_cols
    x = tl.load(x_ptr + row * x_stride + columns, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_stride + columns, e / tl.sum(e, axis=0), mask=mask)


def softmax(x):
    """Softmax of the rows of a matrix whose rows are contiguous; each row must fit into one tile.

    >>> softmax(np.zeros((2, 3), np.float32)).sum(1)
    array([1., 1.], dtype=float32)
    """
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    out = arrays.empty(x)
    softmax_kernel[(rows,)](out, x, arrays.strides(x)[0], arrays.strides(out)[0], cols, BLOCK=block,
                            num_warps=min(16, max(4, block // 512)))
    return out


@triton.jit
def persistent_kernel(out_ptr, x_ptr, x_stride, out_stride, n_rows, n_cols, BLOCK: tl.constexpr,
                      num_stages: tl.constexpr):
    """As many programs as fit; the loop's stages overlap the load of the next row with the work on this one."""
    columns = tl.arange(0, BLOCK)
    mask = columns < n_cols
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=num_stages):
        row = row.to(tl.int64)
        x = tl.load(x_ptr + row * x_stride + columns, mask=mask, other=-float("inf")).to(tl.float32)
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + columns, e / tl.sum(e, axis=0), mask=mask)


def resident_programs(kernel, num_warps: int) -> int:
    """How many programs of a compiled kernel the device holds at a time: registers and shared memory decide."""
    driver = triton.runtime.driver.active
    device = driver.utils.get_device_properties(driver.get_current_device())
    if kernel is None:  # interpreted: nothing was compiled
        return device["multiprocessor_count"]
    kernel._init_handles()
    threads = device["warpSize"] * num_warps
    by_registers = device["max_num_regs"] // max(kernel.n_regs * threads, 1)
    by_memory = device["max_shared_mem"] // max(kernel.metadata.shared, 1)
    return device["multiprocessor_count"] * max(1, min(by_registers, by_memory))


def persistent(x):
    """Softmax of the rows by a grid sized from the compiled kernel's own figures.

    >>> persistent(np.zeros((2, 3), np.float32)).sum(1)
    array([1., 1.], dtype=float32)
    """
    rows, cols = x.shape
    out = arrays.empty(x)
    options = {"BLOCK": triton.next_power_of_2(cols), "num_stages": 2, "num_warps": 8}
    args = (out, x, arrays.strides(x)[0], arrays.strides(out)[0], rows, cols)
    kernel = persistent_kernel.warmup(*args, **options, grid=(1,))
    programs = min(resident_programs(kernel, options["num_warps"]), rows)
    persistent_kernel[(programs,)](*args, **options)
    return out


def reference(x):
    """The same in NumPy."""
    return naive(np.asarray(x))
