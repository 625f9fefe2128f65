"""Histogram of one digit of integer keys, as a radix sort counts them."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.kernels import arrays, checks
from tritium.kernels.registry import Kernel, nbytes


@triton.jit
def digit_histogram_kernel(keys_ptr, counts_ptr, n, shift, BITS: tl.constexpr, BLOCK: tl.constexpr):
    """A program counts its blocks privately and adds the counts to the total once."""
    bins: tl.constexpr = 1 << BITS
    counts = tl.zeros((bins,), tl.int32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < n
        digit = (tl.load(keys_ptr + offsets, mask=mask, other=0) >> shift) & (bins - 1)
        counts += tl.histogram(digit.to(tl.int32), bins, mask=mask)
    tl.atomic_add(counts_ptr + tl.arange(0, bins), counts, sem="relaxed")


def digit_histogram(keys, shift: int = 0, bits: int = 8, block: int = 1024, programs: int = 8):
    """How often each value of `bits` bits from `shift` on occurs in a contiguous array of non-negative integers.

    >>> digit_histogram(np.int32([0, 1, 1, 5]), bits=2)
    array([1, 3, 0, 0], dtype=int32)
    """
    n = checks.flat("digit_histogram", checks.INTEGERS, keys=keys)
    checks.positive("digit_histogram", bits=bits, programs=programs)
    if shift < 0 or bits > 16:
        raise ValueError(f"digit_histogram: shift is {shift} and bits is {bits}; shift must be at least 0, bits at "
                         "most 16.")
    keys = arrays.contiguous(keys)
    counts = arrays.zeros(keys, (1 << bits,), "int32")
    digit_histogram_kernel[(min(programs, triton.cdiv(n, block)),)](keys, counts, n, shift, BITS=bits, BLOCK=block)
    return counts


def reference(keys, shift=0, bits=8):
    """The same in NumPy."""
    return np.bincount((keys.astype(np.int64).ravel() >> shift) & ((1 << bits) - 1), minlength=1 << bits)


def _make(size, dtype, device):
    return (arrays.like_device(np.random.default_rng(0).integers(0, 1 << 24, size).astype(dtype), device),)


KERNELS = (Kernel(
    "digit_histogram", digit_histogram, reference, _make, bytes=lambda keys: nbytes(keys), flops=lambda keys: 0,
    group="histogram", title="histogram of a digit", size_is="keys", scenario="S20",
    sizes={"cpu": 1 << 18, "cuda": 1 << 24}, dtypes=("int32", "int64"), jit=(digit_histogram_kernel,)),)
