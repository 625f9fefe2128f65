"""Dropout whose mask is a function of a seed: nothing is stored for the backward pass, it is computed again."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes, normal


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    """Element i is kept when the random number of (seed, i) exceeds p."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


def dropout(x, p: float, seed: int, block: int = 1024):
    """Set each element to zero with probability `p` and scale the others by 1 / (1 - p); `seed` says which.

    >>> x = np.ones(1000, np.float32)
    >>> bool((dropout(x, 0.5, seed=3) == dropout(x, 0.5, seed=3)).all())
    True
    """
    checks.arguments("dropout", x=(x, "*"))
    _check(p, seed, x, "dropout")
    x = arrays.contiguous(x)
    out = arrays.empty(x)
    n = arrays.numel(x)
    dropout_kernel[(triton.cdiv(n, block),)](x, out, n, p, seed, BLOCK=block)
    return out


def dropout_backward(dout, p: float, seed: int, block: int = 1024):
    """The gradient for the gradient `dout` of the result: the same elements are zero, the others scaled alike.

    >>> x = np.ones(9, np.float32)
    >>> bool((dropout_backward(x, 0.5, seed=3) == dropout(x, 0.5, seed=3)).all())
    True
    """
    checks.arguments("dropout_backward", dout=(dout, "*"))
    _check(p, seed, dout, "dropout_backward")
    return dropout(dout, p, seed, block)


def _check(p, seed, x, function):
    checks.countable(function, x=x)
    if not 0 <= p < 1:
        raise ValueError(f"{function}: p is {p}; it must be at least 0 and below 1.")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"{function}: seed is {seed!r}; it must be an integer.")


def uniform(seed: int, offsets: np.ndarray) -> np.ndarray:
    """`tl.rand(seed, offsets)` in NumPy: ten rounds of Philox on 32-bit counters.

    >>> bool(0 <= uniform(1, np.arange(1))[0] < 1)
    True
    """
    low = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = offsets.astype(np.uint64) & low, *(np.zeros(offsets.shape, np.uint64) for _ in range(3))
    k0, k1 = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = ((b >> np.uint64(32)) ^ c1 ^ np.uint64(k0), b & low,
                          (a >> np.uint64(32)) ^ c3 ^ np.uint64(k1), a & low)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    word = c0.astype(np.uint32).view(np.int32)
    return np.where(word < 0, ~word, word).astype(np.float32) * np.float32(4.6566127342e-10)


def reference(x, p, seed):
    """The same in NumPy."""
    keep = uniform(seed, np.arange(x.size)).reshape(x.shape) > np.float32(p)
    return np.where(keep, x / (1 - p), 0)


def _record(name, title, wrapper, argument):
    return Kernel(name, wrapper, reference, lambda size, dtype, device: (normal((size,), dtype, device), 0.3, 42),
                  bytes=lambda x, p, seed: 2 * nbytes(x), flops=lambda x, p, seed: 3 * arrays.numel(x),
                  group=title, title=title, size_is="elements", scenario="S22",
                  sizes={"cpu": 1 << 20, "cuda": 1 << 26}, jit=(dropout_kernel,))


KERNELS = (_record("dropout", "dropout", dropout, "x"),
           _record("dropout_backward", "dropout, backward", dropout_backward, "dout"))
