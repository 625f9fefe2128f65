"""The k largest elements of each row with their positions, by sorting one 64-bit number per element.

The upper half orders like the float, the lower half is the position counted down: of equal values the first comes
first, and one sort carries both.
"""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def topk_kernel(x_ptr, values_ptr, indices_ptr, stride, n_cols, k, K: tl.constexpr, BLOCK: tl.constexpr):
    """One row per program; K is k rounded up to a power of two."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row.to(tl.int64) * stride + columns, mask=columns < n_cols, other=-float("inf")).to(tl.float32)
    bits = x.to(tl.uint32, bitcast=True)
    # Unsigned order: negative floats count backwards, so all their bits flip; the others move above them.
    order = tl.where((bits >> 31) != 0, ~bits, bits | 0x80000000)
    packed = (order.to(tl.uint64) << 32) | (0x7FFFFFFF - columns).to(tl.uint64)
    packed = tl.where(columns < n_cols, packed, tl.zeros_like(packed))
    best = tl.topk(packed, K)
    order = (best >> 32).to(tl.uint32)
    bits = tl.where((order >> 31) != 0, order ^ 0x80000000, ~order)
    at = tl.arange(0, K)
    tl.store(values_ptr + row * k + at, bits.to(tl.float32, bitcast=True), mask=at < k)
    tl.store(indices_ptr + row * k + at, 0x7FFFFFFF - (best & 0xFFFFFFFF).to(tl.int32), mask=at < k)


def topk(x, k: int):
    """(values, indices) of the k largest elements of each row, largest first, the earlier of equals first.

    >>> topk(np.float32([[3, 9, 9, 1]]), 3)
    (array([[9., 9., 3.]], dtype=float32), array([[1, 2, 0]], dtype=int32))
    """
    rows, cols = checks.arguments("topk", x=(x, "M N")).values()
    checks.fits_a_tile("topk", "x", x, cols)
    x = arrays.with_rows(x)
    if not 1 <= k <= cols:
        raise ValueError(f"topk: k must be between 1 and the {cols} columns, not {k}")
    values, indices = arrays.empty(x, (rows, k), "float32"), arrays.empty(x, (rows, k), "int32")
    topk_kernel[(rows,)](x, values, indices, arrays.strides(x)[0], cols, k, K=triton.next_power_of_2(k),
                         BLOCK=triton.next_power_of_2(cols))
    return values, indices


def reference(x, k):
    """The same in NumPy."""
    indices = np.argsort(-x, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(x, indices, 1), indices.astype(np.int32)


KERNELS = (Kernel(
    "topk", topk, reference, lambda size, dtype, device: (normal((size, size), dtype, device), min(8, size)),
    bytes=lambda x, k: nbytes(x) + x.shape[0] * k * 8, flops=lambda x, k: 0, group="top k", title="top 8 of rows",
    size_is="rows and columns of a square matrix", scenario="S22", sizes={"cpu": 512, "cuda": 4096},
    jit=(topk_kernel,), rival=lambda torch, x, k: torch.topk(x, k)),)
