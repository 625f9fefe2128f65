"""Scheduling fences behind loads, where much is computed from them."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data
from tritium.insight import emulator

pytestmark = pytest.mark.sampled


def fences(kernel, *args, **options):
    """How many scheduling fences a kernel has."""
    text, _ = emulator.llvm_of(module_of(kernel, args)[0], **options)
    return text.count("@p exit")


@triton.jit
def distances(x_ptr, y_ptr, o_ptr, n, first, BLOCK: tl.constexpr):
    """A loop that loads two rows, and a branch that loads them again."""
    row = tl.program_id(0)
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        x = tl.exp(tl.load(x_ptr + row * n + at, mask=at < n, other=0.0))
        y = tl.exp(tl.load(y_ptr + row * n + at, mask=at < n, other=0.0))
        if row >= first:
            x -= tl.exp(tl.load(x_ptr + at, mask=at < n, other=0.0)) * y
            y += tl.exp(tl.load(y_ptr + at, mask=at < n, other=0.0)) * x
        tl.store(o_ptr + row * n + at, tl.log(x * x + y * y + 1.0) + tl.sin(x), mask=at < n)


@pytest.mark.parametrize(("n", "warps"), [(512, 1), (500, 1), (129, 2), (1024, 4)])
def test_rows(check, n, warps):
    x, y = data("f4", 3, n), data("f4", 3, n)
    x[:, 7] = 50000.0 if n == 500 else x[:, 7]  # the sine of it is computed behind a branch
    check(distances, x / 8, y / 8, np.zeros((3, n), "f4"), n, 2, 512, grid=(3,), warps=warps, tolerance=1e-5)


def test_each_block_has_its_own():
    args = data("f4", 3, 512), data("f4", 3, 512), np.zeros((3, 512), "f4"), 512, 2, 512
    assert fences(distances, *args, num_warps=1) == 2
    assert fences(distances, *args, num_warps=16) == 0  # one load of a thread from each row


@triton.jit
def gathered(i_ptr, x_ptr, o_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    i = tl.load(i_ptr + at)
    weight = tl.exp(i.to(tl.float32) / BLOCK)
    tl.store(o_ptr + at, tl.exp(tl.load(x_ptr + i) * weight) + tl.exp(weight))


def test_addresses_that_are_loaded(check):
    i = np.arange(256, dtype="i4")[::-1].copy()
    check(gathered, i, data("f4", 256) / 8, np.zeros(256, "f4"), 256, warps=1, tolerance=1e-5)
