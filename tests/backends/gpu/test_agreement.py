"""All threads get bit-identical results of a reduction: they may branch on it. Without a GPU."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.compiler import ASTSource
from tritium.insight import emulator


@triton.jit
def joined(mean, squares, count, other_mean, other_squares, other_count):
    away, total = other_mean - mean, count + other_count
    share = other_count / total
    return mean + away * share, squares + other_squares + away * away * count * share, total


@triton.jit
def moments(x_ptr, mean_ptr, squares_ptr, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + rows[:, None] * N + columns[None, :])
    count = tl.broadcast_to((columns % 3 + 1).to(tl.float32)[None, :], (M, N))
    mean, squares, _ = tl.reduce((x, tl.zeros_like(x), count), 1, joined)
    tl.store(mean_ptr + rows, mean)
    tl.store(squares_ptr + rows, squares)


@triton.jit
def first_of(x, i, y, j):
    left = (x > y) | ((x == y) & (i < j))
    return tl.where(left, x, y), tl.where(left, i, j)


@triton.jit
def first_or_nan(x, i, y, j):
    alike = (x == y) | ((x != x) & (y != y))
    left = (x > y) | ((x != x) & (y == y)) | (alike & (i < j))
    return tl.where(left, x, y), tl.where(left, i, j)


@triton.jit
def by(combine: tl.constexpr, x_ptr, mean_ptr, squares_ptr, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + rows[:, None] * N + columns[None, :])
    value, index = tl.reduce((x, tl.broadcast_to(columns[None, :], (M, N))), 1, combine)
    tl.store(mean_ptr + rows, value)
    tl.store(squares_ptr + rows, index.to(tl.float32))


@triton.jit
def greatest_number(x_ptr, mean_ptr, squares_ptr, M: tl.constexpr, N: tl.constexpr):
    by(first_of, x_ptr, mean_ptr, squares_ptr, M, N)


@triton.jit
def greatest(x_ptr, mean_ptr, squares_ptr, M: tl.constexpr, N: tl.constexpr):
    by(first_or_nan, x_ptr, mean_ptr, squares_ptr, M, N)


def module_of(kernel, shape, warps, arch):
    target = GPUTarget("cuda", arch, 32)
    types = dict.fromkeys(("x_ptr", "mean_ptr", "squares_ptr"), "*fp32")
    options = BaseBackend(target).parse_options({"num_warps": warps})
    return ASTSource(kernel, types, dict(zip("MN", shape))).make_ir(target, options)


@pytest.mark.parametrize("arch", [75, 90])
@pytest.mark.parametrize(("shape", "warps"), [((8, 128), 4), ((1, 256), 8), ((4, 32), 1)])
def test_moments(shape, warps, arch):
    """The emulator sees threads that write different bits to one place."""
    x = np.random.default_rng(1).normal(50, 1, shape).astype(np.float32)
    mean, squares = (np.zeros(shape[0], np.float32) for _ in range(2))
    emulator.run(module_of(moments, shape, warps, arch), [x, mean, squares], (1,), arch, warps)
    count = np.arange(shape[1]) % 3 + 1
    wanted = np.average(x.astype(np.float64), 1, count)
    np.testing.assert_allclose(mean, wanted, rtol=1e-6)
    np.testing.assert_allclose(squares, ((x - wanted[:, None]) ** 2 * count).sum(1), rtol=1e-4)


@pytest.mark.parametrize(("kernel", "values"), [(greatest, 0), (greatest_number, 2), (moments, 3)])
def test_what_is_handed_round(kernel, values):
    """The first lane's result is handed to the others where theirs may differ: where they round apart, and where a NaN
    compares with nothing."""
    text, _ = emulator.llvm_of(module_of(kernel, (1, 32), 1, 90), 90, 1)
    assert text.count("= call i32 @llvm.nvvm.shfl.sync.idx") == values
    assert kernel is not moments or " select " not in text


@pytest.mark.parametrize("kernel", [greatest, greatest_number])
def test_what_chooses(kernel):
    x, value, index = np.arange(32, dtype=np.float32) % 7, np.zeros(1, np.float32), np.zeros(1, np.float32)
    emulator.run(module_of(kernel, (1, 32), 1, 90), [x, value, index], (1,), 90, 1)
    assert (value[0], index[0]) == (6, 6)
