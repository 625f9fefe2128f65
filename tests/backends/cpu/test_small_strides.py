"""Lanes that are near each other are picked from vectors, and stored by vectors: in descending order, a few elements
apart, and parts of short rows."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.cpu.kernels import guarded
from tritium.backends.compiler import GPUTarget

STEPS, SIZES = [-1, -2, -4, 2, 3, 4, 5], [128, 61, 2]


@triton.jit
def moved(x_ptr, o_ptr, n, FROM: tl.constexpr, TO: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o_ptr + i * TO, tl.load(x_ptr + i * FROM, i < n, 0), i < n)


@triton.jit
def rows(x_ptr, o_ptr, ROW: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * ROW + tl.arange(0, N)
    tl.store(o_ptr + at, tl.load(x_ptr + at) + 1)


@triton.jit
def odd_and_even(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + i // 2 * 2) + tl.load(x_ptr + i // 2 * 2 + 1))


def span(n, step):
    """A slice with `step` of an array without an element more, and the array's size."""
    size = abs(step) * (n - 1) + 1
    return np.s_[::step], size


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "?"])
@pytest.mark.parametrize("step", STEPS)
def test_loads(dtype, step):
    for n in SIZES:
        where, size = span(n, step)
        x = guarded((np.arange(size) * 37 % 101 - 50).astype(dtype))
        out = np.zeros(n, dtype)
        moved[1,](x[where], out, n, step, 1, 128)
        np.testing.assert_array_equal(out, x[where])


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "?"])
@pytest.mark.parametrize("step", STEPS)
def test_stores_leave_what_is_between(dtype, step):
    for n in SIZES:
        where, size = span(n, step)
        x, out = (np.arange(n) * 37 % 101 - 50).astype(dtype), guarded(np.full(size, 7, dtype))
        expected = out.copy()
        expected[where] = x
        moved[1,](x, out[where], n, 1, step, 128)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("row, m, n", [(6, 16, 4), (3, 32, 2), (9, 4, 8), (5, 64, 1), (130, 4, 2)])
def test_parts_of_short_rows(row, m, n):
    x = guarded(np.arange((m - 1) * row + n, dtype=np.float32))
    out = guarded(np.zeros_like(x))
    rows[1,](x, out, row, m, n)
    inside = np.arange(x.size) % row < n
    np.testing.assert_array_equal(out, np.where(inside, x + 1, 0))


def test_lanes_at_one_place():
    x, out = guarded(np.arange(64, dtype=np.int32)), np.zeros(64, np.int32)
    odd_and_even[1,](x, out, 64)
    np.testing.assert_array_equal(out, np.repeat(x[::2] + x[1::2], 2))


@pytest.mark.parametrize("step, cpu, gathers, scatters", [
    (-1, "x86-64-v4", False, False), (2, "x86-64-v4", False, False), (8, "x86-64-v4", True, True),
    (-1, "aarch64", False, False), (2, "aarch64", False, True), (-4, "x86-64-v3", False, True),
])  # fmt: skip
def test_which_lanes_are_near(step, cpu, gathers, scatters):
    def text(*steps):
        target = GPUTarget("cpu", cpu, 1)
        signature = {"x_ptr": "*fp32", "o_ptr": "*fp32", "n": "i32"}
        constants = dict(zip(("FROM", "TO", "BLOCK"), (*steps, 1024), strict=True))
        return triton.compile(triton.compiler.ASTSource(moved, signature, constants), target=target).asm["llir"]
    assert ("call <" in text(step, 1) and "llvm.masked.gather" in text(step, 1)) == gathers
    assert ("llvm.masked.scatter" in text(1, step)) == scatters
