"""Row-wise softmax four ways.

`naive` is made of array operations: it moves 8MN + 4M elements of an M x N matrix through memory. `softmax` gives a
program a row: each element is read once and written once. `persistent` starts only as many programs as the device can
hold at a time, and lets each go from row to row; on a CPU to the next one, as a core reads ahead. `online` takes a row
in parts, so that rows may have any length: it reads them twice, and needs no third reading for the maximum because it
corrects the sum whenever the maximum grows.
"""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal

ON_A_CPU = 4  # programs for each thread, which runs one at a time: those that are held up leave some to the others


def naive(x):
    """Softmax of the rows by array operations.

    >>> naive(np.zeros((1, 2), np.float32))
    array([[0.5, 0.5]], dtype=float32)
    """
    checks.arguments("naive", (*checks.FLOATS, "float64"), x=(x, "M N"))
    if x.shape[1] == 0:
        return arrays.empty(x)
    if isinstance(x, np.ndarray):
        return _by_numpy(x)
    e = (x - x.max(1, keepdim=True)[0]).exp()
    return e / e.sum(1, keepdim=True)


def _by_numpy(x):
    e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
    return e / e.sum(1, keepdims=True)


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
    """Softmax of the rows of a matrix; each row must fit into one tile.

    >>> softmax(np.zeros((2, 3), np.float32)).sum(1)
    array([1., 1.], dtype=float32)
    """
    rows, cols = checks.arguments("softmax", x=(x, "M N")).values()
    checks.fits_a_tile("softmax", "x", x, cols)
    out, x = arrays.empty(x), arrays.with_rows(x)
    if cols == 0:
        return out
    block = triton.next_power_of_2(cols)
    softmax_kernel[(rows,)](out, x, arrays.strides(x)[0], cols, cols, BLOCK=block,
                            num_warps=min(16, max(4, block // 512)))
    return out


@triton.jit
def persistent_kernel(out_ptr, x_ptr, x_stride, out_stride, n_rows, n_cols, BLOCK: tl.constexpr,
                      num_stages: tl.constexpr, SHARES: tl.constexpr = False):
    """As many programs as fit; the loop's stages overlap the load of the next row with the work on this one.

    Programs stride through the rows together, or each has a share of rows that follow each other.
    """
    columns = tl.arange(0, BLOCK)
    mask = columns < n_cols
    first, last, step = tl.program_id(0), n_rows, tl.num_programs(0)
    if SHARES:
        share = tl.cdiv(n_rows, step)
        first, step = first * share, 1
        last = tl.minimum(first + share, n_rows)
    for row in tl.range(first, last, step, num_stages=num_stages):
        row = row.to(tl.int64)
        x = tl.load(x_ptr + row * x_stride + columns, mask=mask, other=-float("inf")).to(tl.float32)
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + columns, e / tl.sum(e, axis=0), mask=mask)


def resident_programs(kernel, processors: int) -> int:
    """How many programs of a compiled kernel a device holds at a time: registers and shared memory decide."""
    if kernel is None:  # interpreted: nothing was compiled
        return processors
    kernel._init_handles()
    try:
        from tritium.backends.occupancy import MACHINES, occupancy
    except ImportError:  # Triton runs this file: `tritium bench run --against triton`
        driver = triton.runtime.driver.active
        device = driver.utils.get_device_properties(driver.get_current_device())
        threads = device["warpSize"] * kernel.metadata.num_warps
        return processors * max(1, device["max_num_regs"] // max(kernel.n_regs * threads, 1))
    known = kernel.metadata.target.backend in MACHINES
    return processors * (max(1, occupancy(kernel).programs) if known else ON_A_CPU)


def persistent(x, shares: bool | None = None):
    """Softmax of the rows by a grid sized from the compiled kernel's own figures.

    With `shares`, the default on a CPU, there are a few programs for each thread, and each has rows that follow each
    other.

    >>> persistent(np.zeros((2, 3), np.float32)).sum(1)
    array([1., 1.], dtype=float32)
    """
    rows, cols = checks.arguments("persistent", x=(x, "M N")).values()
    checks.fits_a_tile("persistent", "x", x, cols)
    out, x = arrays.empty(x), arrays.with_rows(x)
    if rows * cols == 0:
        return out
    shares = not arrays.on_gpu(x) if shares is None else shares
    args = (out, x, arrays.strides(x)[0], cols, rows, cols)
    options = {"BLOCK": triton.next_power_of_2(cols), "num_stages": 2, "num_warps": 8, "SHARES": shares}
    programs = ON_A_CPU * arrays.multiprocessors(x)
    if not shares:
        kernel = persistent_kernel.warmup(*args, **options, grid=(1,))
        programs = resident_programs(kernel, arrays.multiprocessors(x))
    persistent_kernel[(min(programs, rows),)](*args, **options)
    return out


@triton.jit
def online_kernel(out_ptr, x_ptr, x_stride, out_stride, n_cols, BLOCK: tl.constexpr, LANES: tl.constexpr = True):
    """One row per program, in parts: what was summed so far shrinks whenever the maximum grows.

    Each of the lanes has a maximum of its own, and waits for no other; or all have one, and half as many exponentials.
    """
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    out_ptr += row * out_stride
    top = tl.full((BLOCK,), -float("inf"), tl.float32) if LANES else -float("inf")
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + columns, mask=columns < n_cols, other=-float("inf")).to(tl.float32)
        grown = tl.maximum(top, x if LANES else tl.max(x, axis=0))
        safe = tl.where(grown == -float("inf"), 0.0, grown)  # nothing seen yet: infinity less infinity is no number
        total = total * tl.exp(top - safe) + tl.exp(x - safe)
        top = grown
    highest = tl.max(top, axis=0) if LANES else top
    total_of_row = tl.sum(total * tl.exp(top - highest), axis=0)
    for start in range(0, n_cols, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + columns, mask=columns < n_cols, other=-float("inf")).to(tl.float32)
        tl.store(out_ptr + columns, tl.exp(x - highest) / total_of_row, mask=columns < n_cols)


def online(x, block: int = 4096, lanes: bool | None = None):
    """Softmax of rows of any length, `block` elements at a time.

    With `lanes`, the default on a GPU, each of these has a running maximum of its own.

    >>> online(np.zeros((2, 5), np.float32), block=2).round(1)
    array([[0.2, 0.2, 0.2, 0.2, 0.2],
           [0.2, 0.2, 0.2, 0.2, 0.2]], dtype=float32)
    """
    rows, cols = checks.arguments("online", x=(x, "M N")).values()
    out, x = arrays.empty(x), arrays.with_rows(x)
    block = min(block, triton.next_power_of_2(max(cols, 1)))
    online_kernel[(rows,)](out, x, arrays.strides(x)[0], cols, cols, BLOCK=block,
                           LANES=arrays.on_gpu(x) if lanes is None else lanes,
                           num_warps=min(16, max(4, block // 512)))
    return out


def reference(x):
    """The same in NumPy."""
    return _by_numpy(np.asarray(x))


def _record(name, title, wrapper, jit, traffic):
    return Kernel(name, wrapper, reference, lambda size, dtype, device: (normal((size, size), dtype, device),),
                  bytes=traffic, flops=lambda x: 5 * arrays.numel(x), group="softmax", title=title,
                  size_is="rows and columns of a square matrix", scenario="S21", sizes={"cpu": 1024, "cuda": 8192},
                  jit=jit, rival=lambda torch, x: torch.softmax(x, 1), slack=1.5)


KERNELS = (
    _record("softmax_naive", "softmax by array operations", naive, (), lambda x: 2 * nbytes(x)),
    _record("softmax", "softmax, a row per program", softmax, (softmax_kernel,), lambda x: 2 * nbytes(x)),
    _record("softmax_persistent", "softmax, persistent", persistent, (persistent_kernel,), lambda x: 2 * nbytes(x)),
    _record("softmax_online", "softmax, rows in parts", online, (online_kernel,), lambda x: 3 * nbytes(x)),
)
