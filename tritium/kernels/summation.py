"""The sum of all elements: a tile per program and step, one atomic addition per program."""

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Programs stride through the array together; each keeps BLOCK partial sums until its end."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, tl.num_programs(0) * BLOCK):
        at = start + offsets
        total += tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.atomic_add(out_ptr, tl.sum(total), sem="relaxed")


def sum_of(x, block: int = 4096, programs: int | None = None):
    """The float32 sum of an array, as an array of one element.

    >>> import numpy as np
    >>> sum_of(np.arange(100, dtype=np.float32))
    array([4950.], dtype=float32)
    """
    checks.arguments("sum_of", x=(x, "*"))
    checks.countable("sum_of", x=x)
    x = arrays.contiguous(x)
    n = arrays.numel(x)
    programs = 8 * arrays.multiprocessors(x) if programs is None else programs
    out = arrays.zeros(x, (1,), "float32")
    sum_kernel[(min(programs, triton.cdiv(n, block)),)](x, out, n, BLOCK=block)
    return out


def reference(x):
    """The same in NumPy."""
    return x.sum(keepdims=True).reshape(1)


def _make(size, dtype, device):
    return (abs(normal((size,), dtype, device)),)  # of one sign: a sum near zero would have a large relative error


KERNELS = (Kernel(
    "sum", sum_of, reference, _make, bytes=lambda x: nbytes(x), flops=lambda x: arrays.numel(x),
    group="reduction", title="sum", size_is="elements", scenario="S20", sizes={"cpu": 1 << 20, "cuda": 1 << 26},
    jit=(sum_kernel,), rival=lambda torch, x: x.sum(dtype=torch.float32)),)
