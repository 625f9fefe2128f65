"""Double buffering: the next tile is on its way while this one is worked on.

`by_hand` keeps two tiles in variables and swaps them, as one would in CUDA. `by_stages` leaves it to the compiler:
`tl.range(..., num_stages=n)` keeps n - 1 tiles on their way in shared memory. Both compute a polynomial of each element
by Horner's rule, so that there is something to overlap with the loads.
"""

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal

TERMS = 8


@triton.jit
def polynomial(x, TERMS: tl.constexpr):
    """1 + x/2 + x^2/4 + ..., TERMS terms."""
    total = x * 0.0 + 1.0
    for _ in tl.static_range(TERMS - 1):
        total = total * (x * 0.5) + 1.0
    return total


@triton.jit
def by_hand_kernel(x_ptr, out_ptr, n, tiles, TERMS: tl.constexpr, BLOCK: tl.constexpr):
    """`tiles` neighbouring tiles per program; the load of the next one comes before the work on this one."""
    offsets = tl.program_id(0) * tiles * BLOCK + tl.arange(0, BLOCK)
    now = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    for _ in range(1, tiles):
        following = tl.load(x_ptr + offsets + BLOCK, mask=offsets + BLOCK < n, other=0.0)
        tl.store(out_ptr + offsets, polynomial(now.to(tl.float32), TERMS), mask=offsets < n)
        now, following = following, now
        offsets += BLOCK
    tl.store(out_ptr + offsets, polynomial(now.to(tl.float32), TERMS), mask=offsets < n)


@triton.jit
def by_stages_kernel(x_ptr, out_ptr, n, tiles, TERMS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """The same loop without a thought for buffers; the compiler makes STAGES of them."""
    for i in tl.range(0, tiles, num_stages=STAGES):
        offsets = (tl.program_id(0) * tiles + i) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
        tl.store(out_ptr + offsets, polynomial(x.to(tl.float32), TERMS), mask=offsets < n)


def by_hand(x, tiles: int = 8, block: int = 1024):
    """1 + x/2 + (x/2)^2 + ... of an array, eight terms, with two buffers swapped by hand.

    >>> import numpy as np
    >>> by_hand(np.float32([0, 1]))
    array([1.       , 1.9921875], dtype=float32)
    """
    x, out, grid = _prepared("by_hand", x, tiles, block)
    by_hand_kernel[grid](x, out, arrays.numel(x), tiles, TERMS=TERMS, BLOCK=block)
    return out


def by_stages(x, tiles: int = 8, block: int = 1024, stages: int = 3):
    """The same with buffers that the compiler makes.

    >>> import numpy as np
    >>> by_stages(np.float32([0, 1]))
    array([1.       , 1.9921875], dtype=float32)
    """
    checks.positive("by_stages", stages=stages)
    x, out, grid = _prepared("by_stages", x, tiles, block)
    by_stages_kernel[grid](x, out, arrays.numel(x), tiles, TERMS=TERMS, BLOCK=block, STAGES=stages)
    return out


def _prepared(function, x, tiles, block):
    n = checks.count(function, x)
    checks.positive(function, tiles=tiles)
    x = arrays.contiguous(x)
    return x, arrays.empty(x), (triton.cdiv(n, tiles * block),)


def reference(x):
    """The same in NumPy."""
    return sum((x / 2) ** i for i in range(TERMS))


def _torch(torch, x):
    total = torch.ones_like(x)
    for _ in range(TERMS - 1):
        total = total * (x * 0.5) + 1
    return total


def _record(name, title, wrapper, kernel):
    return Kernel(name, wrapper, reference, lambda size, dtype, device: (normal((size,), dtype, device),),
                  bytes=lambda x: 2 * nbytes(x), flops=lambda x: 3 * (TERMS - 1) * arrays.numel(x),
                  group="double buffering", title=title, size_is="elements", scenario="S24",
                  sizes={"cpu": 1 << 20, "cuda": 1 << 26}, jit=(kernel,), rival=_torch)


KERNELS = (_record("double_buffer_by_hand", "double buffering by hand", by_hand, by_hand_kernel),
           _record("double_buffer", "double buffering by stages", by_stages, by_stages_kernel))
