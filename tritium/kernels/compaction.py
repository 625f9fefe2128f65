"""Stream compaction: keep the elements above a threshold, densely. Programs take their place with one atomic each."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def compact_kernel(x_ptr, out_ptr, indices_ptr, count_ptr, n, threshold, BLOCK: tl.constexpr):
    """A scan places the kept elements inside the program's share; the atomic says where the share begins."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    keep = (x > threshold) & (offsets < n)
    place = tl.cumsum(keep.to(tl.int32), axis=0)
    start = tl.atomic_add(count_ptr, tl.sum(keep.to(tl.int32), axis=0))
    tl.store(out_ptr + start + place - 1, x, mask=keep)
    tl.store(indices_ptr + start + place - 1, offsets, mask=keep)


def compact(x, threshold: float = 0.0, block: int = 1024):
    """(values, indices) of the elements of a vector above `threshold`; the order between blocks is that of arrival.

    >>> compact(np.float32([1, -1, 2]))
    (array([1., 2.], dtype=float32), array([0, 2], dtype=int32))
    """
    checks.arguments("compact", x=(x, "N"))
    checks.countable("compact", x=x)
    x = arrays.contiguous(x)
    n = arrays.numel(x)
    out, indices, count = arrays.empty(x), arrays.empty(x, None, "int32"), arrays.zeros(x, (1,), "int32")
    compact_kernel[(triton.cdiv(n, block),)](x, out, indices, count, n, threshold, BLOCK=block)
    kept = int(count[0])
    return out[:kept], indices[:kept]


def reference(x, threshold=0.0):
    """The same in NumPy, in order."""
    indices = np.flatnonzero(x > threshold)
    return x[indices], indices.astype(np.int32)


def _in_order(x):
    values, indices = compact(x)
    order = indices.argsort()
    return values[order], indices[order]


KERNELS = (Kernel(
    "compact", _in_order, reference, lambda size, dtype, device: (normal((size,), dtype, device),),
    bytes=lambda x: nbytes(x) + (nbytes(x) + 4 * arrays.numel(x)) // 2, flops=lambda x: arrays.numel(x),
    group="compaction", title="compaction and sort", size_is="elements", scenario="S20",
    sizes={"cpu": 1 << 18, "cuda": 1 << 24}, jit=(compact_kernel,)),)
