"""Reductions between lanes and warps: of every type, few and many results, and functions whose sides matter."""

import re

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import numbers, rng
from tritium import ops
from tritium.backends.compiler import GPUTarget
from tritium.backends.gpu.analysis.operand_order import order_matters
from tritium.frontend import lower
from tritium.insight import emulator
from tritium.ir.core import walk

pytestmark = pytest.mark.sampled

bf16 = ml_dtypes.bfloat16


@triton.jit
def sums(x, o, M: tl.constexpr, K: tl.constexpr, AXIS: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    v = tl.load(x + m[:, None] * K + k[None, :])
    left = k if AXIS == 0 else m
    tl.store(o + left, tl.sum(v, AXIS))


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1024), (4, 512), (64, 32), (512, 8)])
def test_sums(check, rows, columns, axis, warps):
    o = np.zeros(columns if axis == 0 else rows, "f4")
    check(sums, numbers("f4", rows, columns), o, rows, columns, axis, warps=warps)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i8", "f2", bf16, "f8"], ids=str)
def test_every_type_across_warps(check, dtype):
    total = {"i1": "i4", "i2": "i4", bf16: bf16}.get(dtype, dtype)
    check(sums, numbers(dtype, 2, 256), np.zeros(2, total), 2, 256, 1, warps=16)


@triton.jit
def larger(a, i, b, j):
    first = (a > b) | ((a == b) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def truths_and_places(x, o, p, q, N: tl.constexpr):
    n = tl.arange(0, N)
    v = tl.load(x + n)
    value, place = tl.reduce((v, n.to(tl.int64)), 0, larger)
    tl.store(o, value)
    tl.store(p, place)
    tl.store(q, tl.reduce_or(v > 1, 0))


@pytest.mark.parametrize("warps", [4, 16])
def test_values_of_several_sizes(check, warps):
    arrays = np.zeros(1, "i2"), np.zeros(1, "i8"), np.zeros(1, bool)
    check(truths_and_places, numbers("i2", 512), *arrays, 512, warps=warps)


@triton.jit
def joined(mean, spread, count, other, wider, more):
    total = count + more
    part = tl.where(total == 0, 0.0, more / total)
    apart = other - mean
    return mean + apart * part, spread + wider + apart * apart * count * part, total


@triton.jit
def means(x, o, s, c, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    v = tl.load(x + m[:, None] * K + k[None, :])
    weight = tl.broadcast_to((1 + k * k % 97)[None, :], [M, K]).to(tl.float32)
    mean, spread, count = tl.reduce((v, tl.zeros_like(v), weight), 1, joined)
    at = m[:, None] * N + n[None, :]
    tl.store(o + at, tl.broadcast_to(mean[:, None], [M, N]))
    tl.store(s + at, tl.broadcast_to(spread[:, None], [M, N]))
    tl.store(c + at, tl.broadcast_to(count[:, None], [M, N]))


@pytest.mark.parametrize("warps", [1, 2, 8, 16])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1024), (2, 512), (32, 64)])
def test_all_threads_have_the_same_of_a_function_whose_sides_round_apart(check, rows, columns, warps):
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((rows, columns)) * np.exp(3 * rng.standard_normal((rows, columns)))).astype("f4")
    outs = [np.zeros((rows, 1024), "f4") for _ in range(3)]
    seen = check(means, x, *outs, rows, columns, 1024, warps=warps, tolerance=1e-5)
    for out in seen[1:4]:
        assert (out == out[:, :1]).all()


@triton.jit
def last_set(a, b):
    return tl.where(b != 0, b, a)


@triton.jit
def choices(x, o, N: tl.constexpr, K: tl.constexpr):
    """What each thread has of results that depend on the order of operands."""
    i, n = tl.arange(0, K), tl.arange(0, N)
    v = tl.load(x + i)
    largest, most = tl.max(v, 0, return_indices=True)
    smallest, least = tl.min(v, 0, return_indices=True, return_indices_tie_break_left=False)
    tl.store(o + n, largest + 0.0 * n)
    tl.store(o + N + n, most + 0.0 * n)
    tl.store(o + 2 * N + n, smallest + 0.0 * n)
    tl.store(o + 3 * N + n, least + 0.0 * n)
    tl.store(o + 4 * N + n, tl.reduce(v, 0, last_set) + 0.0 * n)


@pytest.mark.parametrize(("columns", "warps"), [(16, 4), (32, 1), (512, 4)])
@pytest.mark.parametrize("at", [[], [0], [3, 7], [*range(16)]], ids=str)
def test_all_threads_choose_the_same_among_equal_elements_and_nans(columns, warps, at):
    for fill in (np.zeros(columns, "f4"), np.random.default_rng(5).standard_normal(columns).astype("f4"),
                 np.zeros(columns, "i4")):
        x, out = fill.copy(), np.zeros((5, 512), "f4")
        x[at] = np.nan if x.dtype.kind == "f" else 0
        with triton.sanitize(target="cuda:90a") as report:
            choices[(1,)](x, out, 512, columns, num_warps=warps)
        assert not report, report.text()
        np.testing.assert_array_equal(out, np.broadcast_to(out[:, :1], out.shape))
        if not at:
            assert out[0, 0] == x.max() and out[1, 0] == x.argmax() and x[int(out[3, 0])] == x.min()


@triton.jit
def larger_or_nan(v, i, w, j):
    """A NaN is larger than all numbers; of equal ones the first is taken."""
    more, same = v > w, v == w
    if v.dtype.is_floating():
        more |= (v != v) & ~(w != w)
        same |= (v != v) & (w != w)
    more |= same & (i < j)
    return tl.where(more, v, w), tl.where(more, i, j)


@triton.jit
def larger_of_any(v, i, w, j):
    return tl.where(v > w, v, w), tl.where(v > w, i, j)


@triton.jit
def largest_and_sum(v, i, w, j):
    return tl.where(v > w, v, w), (i + j) % 7


@triton.jit
def pair(x, o, N: tl.constexpr, combine: tl.constexpr):
    i = tl.arange(0, N)
    v, k = tl.reduce((tl.load(x + i), i), 0, combine)
    tl.store(o, v)
    tl.store(o + 1, k)


@pytest.mark.parametrize(("combine", "type_", "matters"), [
    (larger_or_nan, "i32", False), (larger_or_nan, "fp32", False), (larger_or_nan, "bf16", False),
    (larger_of_any, "i32", True), (larger_of_any, "fp32", True),
    (largest_and_sum, "i32", False), (largest_and_sum, "fp32", True),
])  # fmt: skip
def test_whether_the_order_of_operands_matters(combine, type_, matters):
    signature = {"x": f"*{type_}", "o": f"*{type_}", "N": "constexpr", "combine": "constexpr"}
    module = lower(pair, signature, {"N": 32, "combine": combine})
    (found,) = [op for op in walk(module.body) if op.kind is ops.reduce]
    assert order_matters(found.regions[0]) == matters


@triton.jit
def moments(x, o, s, c, M: tl.constexpr, K: tl.constexpr, COUNTED: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    v = tl.load(x + m[:, None] * K + k[None, :])
    weight = tl.full([M, K], 1.0, tl.float32) if COUNTED else tl.load(c + m[:, None] * 0 + k[None, :] * 0)
    mean, spread, count = tl.reduce((v, tl.zeros_like(v), weight), 1, joined)
    tl.store(o + m, mean)
    tl.store(s + m, spread)
    tl.store(c + m, count)


@pytest.mark.parametrize("warps", [1, 8])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1024), (2, 512), (32, 64)])
def test_weights_that_are_constants(check, rows, columns, warps):
    outs = [np.ones(rows, "f4") for _ in range(3)]
    check(moments, numbers("f4", rows, columns), *outs, rows, columns, True, warps=warps, tolerance=1e-5)


def shuffles(counted):
    types = dict.fromkeys("xosc", "*fp32")
    source = triton.compiler.ASTSource(moments, types, {"M": 2, "K": 2048, "COUNTED": counted})
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 16})
    return len(re.findall(r"= call i32 @llvm.nvvm.shfl", made.asm["llir"])), made.asm["llir"].count("div.full")


def test_weights_that_are_constants_are_added_by_the_compiler():
    """Means and spreads go five times between lanes and twice behind the exchange of warps; weights need not."""
    assert shuffles(True) == (14, 0)
    assert shuffles(False)[0] == 21 and shuffles(False)[1] > 0


@triton.jit
def largest(a, b):
    mask = a > b
    mask |= a != a
    return tl.where(mask, a, b)


@triton.jit
def smallest(a, b):
    mask = a < b
    mask |= a != a
    return tl.where(mask, a, b)


@triton.jit
def extremes(x, o, M: tl.constexpr, K: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    v = tl.load(x + m[:, None] * K + k[None, :])
    tl.store(o + m, tl.reduce(v, 1, largest))
    tl.store(o + M + m, tl.reduce(v, 1, smallest))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_extremes_or_nan(check, dtype):
    x = numbers(dtype, 8, 256)
    x[1, 3], x[2, 0], x[3, 255], x[4, 7] = np.nan, np.inf, -np.inf, -np.nan
    check(extremes, x, np.zeros(16, dtype), 8, 256, warps=4)


@triton.jit
def centred(x, o, rows, K: tl.constexpr, BLOCK: tl.constexpr):
    """A row for each program; programs behind the last row store nothing."""
    row = tl.program_id(0) + tl.arange(0, 1)[:, None]
    there, k = row < rows, tl.arange(0, BLOCK)[None, :]
    v = tl.load(x + row * K + k, there & (k < K), other=0.0)
    mean = tl.sum(v, 1)[:, None] / K
    tl.store(o + row * K + k, v - mean, there & (k < K))


@pytest.mark.parametrize("columns", [256, 200])
def test_programs_without_a_row_store_nothing(check, columns):
    x = numbers("f4", 6, columns)
    check(centred, x, np.full((6, columns), 7, "f4"), 4, columns, 256, grid=(6,), tolerance=1e-6)


@triton.jit
def first_largest(x, o, p, M: tl.constexpr, N: tl.constexpr, LEFT: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    value, place = tl.max(tl.load(x + m[:, None] * N + n[None, :]), 1, return_indices=True,
                          return_indices_tie_break_left=LEFT)  # fmt: skip
    tl.store(o + m, value)
    tl.store(p + m, place)


@pytest.mark.parametrize(("rows", "columns", "warps"), [(1, 1024, 4), (8, 256, 4), (2, 512, 1)])
def test_a_thread_knows_which_of_its_elements_is_first(check, rows, columns, warps):
    """It compares no places: it counts them from its first, and takes neighbours together."""
    x = rng.integers(0, 9, (rows, columns)).astype("f4")
    args = x, np.zeros(rows, "f4"), np.zeros(rows, "i4"), rows, columns, True
    made = check(first_largest, *args, warps=warps)
    np.testing.assert_array_equal(made[2], x.argmax(1))
    text, _ = emulator.llvm_of(module_of(first_largest, args)[0], 90, warps)
    within = rows * columns // (32 * warps) - 1
    assert text.count("fcmp oge") >= within // 2 and text.count("icmp slt") < within + 20
