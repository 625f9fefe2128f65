"""Functions that kernels of another file call."""

import tritium as triton
import tritium.language as tl


@triton.jit
def square_of(x_ptr, N: tl.constexpr):
    """The product of a tile with itself."""
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i[:, None] * N + i[None, :])
    return tl.dot(x, tl.trans(x))


@triton.jit
def put(out_ptr, x, N: tl.constexpr):
    """Stores a tile as columns."""
    i = tl.arange(0, N)
    tl.store(out_ptr + i[None, :] * N + i[:, None], x)
