"""Masks that the bounds of a tile decide while the kernel is compiled, register by register: a row of 768 elements in a
tile of 1024. Against the interpreter."""

import re

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data
from tritium.insight import emulator


@triton.jit
def centred(x_ptr, out_ptr, last_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    """A row without its mean; elements that are not there are 7, and count in the sum of the tile."""
    at = tl.arange(0, BLOCK)
    inside = at < N
    x = tl.load(x_ptr + at, mask=inside, other=7.0)
    mean = tl.sum(tl.where(inside, x, 0.0)) / N
    tl.store(out_ptr + at, x - mean, mask=inside)
    tl.store(last_ptr, tl.sum(x))


def of_centred(n, block):
    return data("f4", n), np.zeros(n, "f4"), np.zeros(1, "f4"), n, block


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("n", [768, 1000, 512, 1024, 1])
def test_rows_that_do_not_fill_their_tile(check, n, warps):
    check(centred, *of_centred(n, 1024), warps=warps, tolerance=1e-5)


@pytest.mark.parametrize(("n", "warps", "masked"), [(768, 2, 0), (768, 4, 1), (512, 4, 0), (1024, 4, 0), (1000, 2, 1)])
def test_only_registers_that_the_bound_parts_are_masked(n, warps, masked):
    """Two warps have 256 elements in a register of each thread: three of the four are always there."""
    text, _ = emulator.llvm_of(module_of(centred, of_centred(n, 1024))[0], num_warps=warps)
    assert len(re.findall(r"icmp slt", text)) == masked


@triton.jit
def doubled(x_ptr, out_ptr, all_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    """Twice a row, and what is loaded in place of elements that are not there."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < N)
    tl.store(out_ptr + at, (x + x).to(x.dtype), mask=at < N)
    tl.store(all_ptr + at, x)


@pytest.mark.parametrize("t", [*"f2 f4 f8 i1 i2 i4 i8 ?".split(), ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_elements_that_are_not_there_are_zeros_of_their_type(check, t):
    for n in (768, 1):
        check(doubled, data(t, n), data(t, n), data(t, 1024), n, 1024, warps=2)


@triton.jit
def compared(out_ptr, LOW: tl.constexpr, HIGH: tl.constexpr):
    """Every way to compare numbers of a tile, which begin below zero, with numbers."""
    at = tl.arange(0, 64)
    x = at - 32
    found = (at < LOW).to(tl.int32) + (at <= LOW) * 2 + (at > LOW) * 4 + (at >= LOW) * 8 + (at == LOW) * 16
    found += (HIGH < at) * 32 + (HIGH >= at) * 64 + (x < LOW) * 128 + (x >= HIGH) * 256 + (~(at < HIGH)) * 512
    wide, byte = at.to(tl.int64), at.to(tl.uint8)
    found += (wide < HIGH) * 1024 + (byte < 40) * 2048 + ((at < LOW) & (at < 50)) * 4096 + ((at < LOW) | (x > 3)) * 8192
    tl.store(out_ptr + at, found)


@pytest.mark.parametrize(("low", "high"), [
    (0, 63), (1, 64), (63, 0), (64, -1), (-1, 32), (31, 33), (2**31 - 1, -(2**31)),
])  # fmt: skip
def test_comparisons_with_numbers(check, low, high):
    for warps in (1, 2):
        check(compared, np.zeros(64, "i4"), low, high, warps=warps)


@triton.jit
def counted(out_ptr, old_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + at, 1, mask=at < N)
    tl.store(old_ptr + at, tl.atomic_max(out_ptr + at, at, mask=at < N), mask=at < N)


@pytest.mark.parametrize("n", [768, 1024, 300])
def test_atomics(check, n):
    for warps in (2, 4):
        check(counted, np.zeros(n, "i4"), np.zeros(n, "i4"), n, 1024, warps=warps)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, steps, M: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of K elements in tiles of BLOCK."""
    i, k = tl.arange(0, M), tl.arange(0, BLOCK)
    total = tl.zeros((M, M), tl.float32)
    for s in range(steps):
        a = tl.load(a_ptr + (s * M + i[:, None]) * BLOCK + k[None, :], mask=k[None, :] < K, other=0.0)
        b = tl.load(b_ptr + (s * BLOCK + k[:, None]) * M + i[None, :], mask=k[:, None] < K, other=0.0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + i[:, None] * M + i[None, :], total)


@pytest.mark.parametrize("arch", [90, 80])
@pytest.mark.parametrize("k", [48, 32, 64])
def test_copies(check, k, arch):
    a, b = data("f2", 3, 64, 64), data("f2", 3, 64, 64)
    check(product, a, b, np.zeros((64, 64), "f4"), 3, 64, k, 64, arch=arch, tolerance=1e-3)
