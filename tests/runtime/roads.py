"""A kernel and its arguments, for tests of launches and warm-ups."""

import numpy as np

import tritium as triton
import tritium.language as tl

N, BLOCK = 96, 32


@triton.jit
def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n) * factor, i < n)


def arrays(kind=np.asarray, n=N, dtype=np.float32):
    return kind(np.arange(n, dtype=dtype)), kind(np.zeros(n, dtype))


def warm(*args, kernel=scale, **options):
    return kernel.warmup(*args, BLOCK=BLOCK, grid=(1,), **options)
