"""Reductions, scans and maps, compiled for this CPU and compared with the interpreter."""


import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.cpu import kernels
from tests.backends.cpu.kernels import F, I, check, floats, rng
from tritium import ops
from tritium.backends.llvm.target import cpu_target
from tritium.interp.eager import launch as interpreted
from tritium.ir import types as T

pytestmark = pytest.mark.sampled


def argmax(b, v1, i1, v2, i2):
    first = ops.or_(b, ops.gt(b, v1, v2), ops.and_(b, ops.eq(b, v1, v2), ops.lt(b, i1, i2)))
    return ops.select(b, first, v1, v2), ops.select(b, first, i1, i2)


@pytest.mark.parametrize(
    "shape", [(64,), (1,), (4,), (8, 64), (64, 8), (16, 2), (2, 4, 32), (4, 1, 16), (1, 64), (64, 1)], ids=str
)
def test_reduce(shape):
    for axis in range(len(shape)):
        rest = shape[:axis] + shape[axis + 1 :]

        def build(b, x, total, top, where, axis=axis, rest=rest):
            v = b.get(x, shape)
            index = b.range(shape[axis], axis, len(shape), shape)
            s = ops.reduce(b, v, axis=axis, regions=[b.fold(ops.add, T.f32)])
            m, i = ops.reduce(b, v, index, axis=axis, regions=[b.fold(argmax, T.f32, T.i32)])
            for p, y in ((total, s), (top, m), (where, i)):
                b.put(p, y)

        x = floats(*shape)
        outs = [np.zeros(rest or 1, d) for d in (np.float32, np.float32, np.int32)]
        check(build, [F, F, F, I], [x, *outs], tolerance=1e-5, opt=0)


@pytest.mark.parametrize("shape", [(2,) * 9, (4, 2, 1, 2, 8, 4), (3, 2, 2, 4, 2), (2, 16, 2, 2, 2)], ids=str)
def test_reductions_over_short_axes(shape):
    """Each depends on the one before, along another axis, as in a bitonic sort: lanes and loops differ in each."""
    axes, n = [*range(len(shape)), *reversed(range(len(shape)))], int(np.prod(shape))

    def build(b, x, y):
        v = b.get(x, shape)
        for axis in axes:
            total = ops.reduce(b, v, axis=axis, regions=[b.fold(ops.xor, T.i32)])
            spread = ops.broadcast(b, ops.expand_dims(b, total, axis=axis), shape=shape)
            place = b.range(shape[axis], axis, len(shape), shape)
            v = ops.select(b, ops.gt(b, v, spread), ops.sub(b, spread, v), ops.add(b, v, place))
        b.put(y, ops.reshape(b, v, shape=(n,)))

    check(build, [I, I], [rng.integers(0, 10**6, shape).astype(np.int32), np.zeros(n, np.int32)], opt=0)


KINDS_OF_SUM = [
    (ops.add, T.i32),
    (ops.max_, T.i64),
    (ops.min_, T.u32),
    (ops.and_, T.i8),
    (ops.or_, T.i1),
    (ops.xor, T.u16),
    (ops.mul, T.f64),
    (ops.max_, T.f32),
    (ops.min_, T.f16),
    (ops.max_nan, T.f32),
    (ops.max_, T.i1),
]


@pytest.mark.parametrize("kind, t", KINDS_OF_SUM, ids=lambda x: getattr(x, "name", None))
def test_reduce_kinds(kind, t):
    from tritium.ops.meaning import np_dtype

    d = np_dtype(t)

    def build(b, x, y, z):
        v = b.get(x, (8, 32))
        b.put(y, ops.reduce(b, v, axis=1, regions=[b.fold(kind, t)]))
        b.put(z, ops.reduce(b, v, axis=0, regions=[b.fold(kind, t)]))

    x = (
        rng.standard_normal((8, 32)).astype(d)
        if d.kind == "f"
        else rng.integers(0, 2 if d.kind == "b" else 100, (8, 32)).astype(d)
    )
    if d.kind == "f":
        x[3, 5] = np.nan
    P = T.Ptr(t)
    check(build, [P, P, P], [x, np.zeros(8, d), np.zeros(32, d)], tolerance=1e-6, opt=0)


def test_softmax_and_layernorm():
    def build(b, x, y, z, n):
        shape, row = (128,), ops.mul(b, ops.program_id(b, axis=0), n)
        inside = ops.lt(b, b.range(128), b.full(n, shape))
        at = [ops.addptr(b, b.full(ops.addptr(b, p, row), shape), b.range(128)) for p in (x, y, z)]
        v = ops.load(b, at[0], inside, b.full(float("-inf"), shape, T.f32))
        top = ops.reduce(b, v, axis=0, regions=[b.fold(ops.max_, T.f32)])
        e = ops.exp(b, ops.sub(b, v, b.full(top, shape)))
        ops.store(
            b, at[1], ops.div(b, e, b.full(ops.reduce(b, e, axis=0, regions=[b.fold(ops.add, T.f32)]), shape)), inside
        )
        w = ops.load(b, at[0], inside)
        count = ops.cast(b, n, to=T.f32)
        mean = ops.div(b, ops.reduce(b, w, axis=0, regions=[b.fold(ops.add, T.f32)]), count)
        d = ops.select(b, inside, ops.sub(b, w, b.full(mean, shape)), b.full(0.0, shape, T.f32))
        variance = ops.div(b, ops.reduce(b, ops.mul(b, d, d), axis=0, regions=[b.fold(ops.add, T.f32)]), count)
        scale = ops.rsqrt(b, ops.add(b, variance, b.c(1e-5, T.f32)))
        ops.store(b, at[2], ops.mul(b, d, b.full(scale, shape)), inside)

    for n in (128, 100, 17):
        check(build, [F, F, F, T.i32], [floats(6, n), *np.zeros((2, 6, n), np.float32), n], (6,), tolerance=1e-5)


@pytest.mark.parametrize("lanes", [8, 32])
@pytest.mark.parametrize("shape", [(16, 16), (64, 16), (32, 64), (6, 24)], ids=str)
def test_chunks_of_other_widths(monkeypatch, lanes, shape):
    """What runs along rows stays inside them, however wide chunks are."""
    wide = cpu_target()._replace(W=lanes)
    monkeypatch.setattr(kernels, "cpu_target", lambda: wide)

    def build(b, x, y, z, u):
        v = b.get(x, shape)
        sums = ops.reduce(b, v, axis=1, regions=[b.fold(ops.add, T.i32)])
        b.put(y, ops.scan(b, v, axis=1, reverse=False, regions=[b.fold(ops.add, T.i32)]))
        b.put(z, sums)
        b.put(u, ops.sub(b, v, ops.broadcast(b, ops.expand_dims(b, sums, axis=1), shape=shape)))

    x = rng.integers(0, 100, shape).astype(np.int32)
    check(build, [I, I, I, I], [x, np.zeros_like(x), np.zeros(shape[0], np.int32), np.zeros_like(x)])


def test_sum_and_sum_of_squares_share_a_loop():
    def build(b, x, y):
        v = b.get(x, (256,))
        s = ops.reduce(b, v, axis=0, regions=[b.fold(ops.add, T.f32)])
        mean = ops.mul(b, s, b.c(1 / 256, T.f32))
        q = ops.reduce(b, ops.mul(b, v, v), axis=0, regions=[b.fold(ops.add, T.f32)])
        ops.store(b, y, ops.sub(b, ops.mul(b, q, b.c(1 / 256, T.f32)), ops.mul(b, mean, mean)))

    text = check(build, [F, F], [floats(256), np.zeros(1, np.float32)], tolerance=1e-5)
    chunk = f"<{cpu_target().W} x float>"
    assert text.count(f"phi {chunk}") == 2  # two carried accumulators
    assert text.count(f"load {chunk}") == 1


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(64,), (8,), (4, 32), (32, 4), (2, 16, 8)], ids=str)
def test_scan(shape, reverse):
    for axis in range(len(shape)):

        def build(b, x, y, p, q, axis=axis):
            v = b.get(x, shape)
            b.put(y, ops.scan(b, v, axis=axis, reverse=reverse, regions=[b.fold(ops.add, T.i32)]))

            def linear(b, a1, b1, a2, b2):  # x -> a x + b, not commutative
                return ops.mul(b, a1, a2), ops.add(b, ops.mul(b, a2, b1), b2)

            small = ops.rem(b, v, b.full(3, shape))
            one, two = ops.scan(b, small, v, axis=axis, reverse=reverse, regions=[b.fold(linear, T.i32, T.i32)])
            b.put(p, one)
            b.put(q, two)

        x = rng.integers(0, 100, shape).astype(np.int32)
        check(build, [I, I, I, I], [x, *[np.zeros(shape, np.int32) for _ in range(3)]], opt=0)


def with_branch(b, x, y):
    """A combination with control flow: the larger, by a branch."""
    with b.region() as yes:
        ops.yield_(b, x)
    with b.region() as no:
        ops.yield_(b, y)
    return ops.if_(b, ops.gt(b, x, y), regions=[yes.block, no.block])


def with_loop(b, x, y):
    """The greatest common divisor, by a loop."""
    with b.region([T.i32, T.i32]) as test:
        ops.yield_(b, ops.ne(b, test.args[1], b.c(0)))
    with b.region([T.i32, T.i32]) as body:
        p, q = body.args
        ops.yield_(b, q, ops.rem(b, p, q))
    return ops.while_(b, x, y, regions=[test.block, body.block])[0]


@pytest.mark.parametrize("combination", [with_branch, with_loop])
def test_combination_with_control_flow(combination):
    def build(b, x, y, z, u):
        v = b.get(x, (4, 32))
        b.put(y, ops.reduce(b, v, axis=1, regions=[b.fold(combination, T.i32)]))
        b.put(z, ops.reduce(b, v, axis=0, regions=[b.fold(combination, T.i32)]))
        b.put(u, ops.scan(b, v, axis=1, regions=[b.fold(combination, T.i32)]))

    x = (rng.integers(1, 30, (4, 32)) * 6).astype(np.int32)
    check(build, [I, I, I, I], [x, np.zeros(4, np.int32), np.zeros(32, np.int32), np.zeros((4, 32), np.int32)])


def test_map():
    def build(b, x, y, z):
        v = b.get(x, (4, 16))
        with b.region([T.i32, T.i32]) as simple:
            ops.yield_(b, ops.max_(b, *simple.args))
        b.put(y, ops.map_(b, v, b.range(16, 1, 2, (4, 16)), regions=[simple.block]))
        with b.region([T.i32] * 2) as pair:
            p, q = pair.args
            ops.yield_(b, ops.add(b, p, q), with_loop(b, p, q))
        b.put(z, ops.map_(b, v, pack=2, regions=[pair.block]))

    check(build, [I, I, I], [rng.integers(1, 50, (4, 16)).astype(np.int32), *np.zeros((2, 4, 16), np.int32)])


@pytest.mark.parametrize("pack", [2, 4])
@pytest.mark.parametrize("shape", [(4, 64), (64, 2), (2, 8)])
def test_map_of_packs(shape, pack):
    """Sixteen packs at a time, of two tiles, to results of two types."""
    def build(b, x, y, z):
        v = b.get(x, shape)
        with b.region([T.i32] * 2 * pack) as region:
            ones, others = region.args[:pack], region.args[pack:]
            ops.yield_(b, *[ops.sub(b, p, q) for p, q in zip(ones, others[::-1], strict=True)],
                       *[ops.lt(b, p, q) for p, q in zip(ones, others, strict=True)])
        u = ops.mul(b, v, v)
        differences, smaller = ops.map_(b, u, v, pack=pack, regions=[region.block])
        b.put(y, differences)
        b.put(z, ops.cast(b, smaller, to=T.i32))

    check(build, [I, I, I], [rng.integers(-3, 3, shape).astype(np.int32), *np.zeros((2, *shape), np.int32)])


@triton.jit
def masked_sums(x, total, least, rows, columns, stride_row, stride_column, R: tl.constexpr, C: tl.constexpr,
                BOTH: tl.constexpr):  # fmt: skip
    """Of each row; a row's elements may lie one after another or far apart."""
    i = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    sums = tl.zeros((R, C), tl.float32)
    smallest = tl.full((R, C), float("inf"), tl.float32)
    for at in range(0, columns, C):
        j = at + tl.arange(0, C)[None, :]
        mask = (i < rows) & (j < columns)
        v = tl.load(x + i * stride_row + j * stride_column, mask, other=-7.0)
        sums = tl.where(mask, sums + v * v, sums)
        if BOTH:
            smallest = tl.where(mask, tl.minimum(smallest, v), smallest)
    tl.store(total + i, tl.sum(sums, 1)[:, None], i < rows)
    if BOTH:
        tl.store(least + i, tl.min(smallest, 1)[:, None], i < rows)


@pytest.mark.parametrize("both", [False, True], ids=["sums", "and minima"])
@pytest.mark.parametrize("r, c", [(64, 64), (64, 4), (32, 16), (8, 32), (2, 128), (1, 64)])
@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "columns"])
def test_masked_sums_in_loops(transposed, r, c, both):
    rows, columns = 150, 203
    x = np.random.default_rng(0).standard_normal((columns, rows) if transposed else (rows, columns)).astype(np.float32)
    strides = (1, rows) if transposed else (columns, 1)
    outs = [np.zeros((2, rows), np.float32) for _ in range(2)]
    grid, options = (-(-rows // r),), dict(R=r, C=c, BOTH=both)
    interpreted(masked_sums, grid, (x, *outs[0], rows, columns, *strides), options)
    masked_sums[grid](x, *outs[1], rows, columns, *strides, **options)
    np.testing.assert_allclose(outs[1], outs[0], rtol=1e-5)


def test_sums_across_rows_load_no_element_alone():
    """Columns that lie side by side are added up side by side."""
    x, out = np.ones((64, 512), np.float32), np.zeros(512, np.float32)
    kernel = masked_sums[(8,)](x, out, out, 512, 64, 1, 512, R=64, C=16, BOTH=False)
    assert out.tolist() == [64.0] * 512
    assert "gather" not in kernel.asm["llir"]


@triton.jit
def smaller(a, b):
    """The smaller one, or a NaN."""
    return tl.where((a < b) | (a != a), a, b)


@triton.jit
def masked_choices(x, least, rows, columns, stride_row, stride_column, R: tl.constexpr, C: tl.constexpr,
                   SWAPPED: tl.constexpr):  # fmt: skip
    i = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    chosen = tl.full((R, C), float("inf"), tl.float32)
    for at in range(0, columns, C):
        j = at + tl.arange(0, C)[None, :]
        mask = (i < rows) & (j < columns)
        v = tl.load(x + i * stride_row + j * stride_column, mask, other=-70.0)
        chosen = tl.where(mask, smaller(v, chosen) if SWAPPED else smaller(chosen, v), chosen)
    tl.store(least + i, tl.reduce(chosen, 1, smaller)[:, None], i < rows)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("r, c", [(64, 64), (64, 4), (8, 32), (1, 64)])
@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "columns"])
def test_masked_choices_in_loops(transposed, r, c, swapped):
    rows, columns = 150, 203
    x = np.random.default_rng(0).standard_normal((columns, rows) if transposed else (rows, columns)).astype(np.float32)
    by_row = x.T if transposed else x
    by_row[::7, 100], by_row[3, 202], by_row[5, 0], by_row[149, 30] = np.nan, np.nan, np.nan, -np.inf
    strides = (1, rows) if transposed else (columns, 1)
    outs = [np.zeros(rows, np.float32) for _ in range(2)]
    grid, options = (-(-rows // r),), dict(R=r, C=c, SWAPPED=swapped)
    interpreted(masked_choices, grid, (x, outs[0], rows, columns, *strides), options)
    kernel = masked_choices[grid](x, outs[1], rows, columns, *strides, **options)
    np.testing.assert_array_equal(outs[1], outs[0])
    np.testing.assert_array_equal(outs[1], by_row.min(1))
    if transposed and r == 64:
        assert "gather" not in kernel.asm["llir"]


@triton.jit
def store_then_norm(X, W, S, NORM, Y, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(X + columns, mask=mask, other=0.0)
    s = x * x + x * x * x + x / 3 + x / 5 + x / 7
    tl.store(S + columns, s, mask=mask)
    w = tl.load(W + columns, mask=mask, other=0.0)
    norm = tl.sum(s * s, axis=0)
    tl.store(NORM, norm)
    tl.store(Y + columns, s / norm * w, mask=mask)


def test_clipped_sum_of_a_tile_that_the_loops_of_a_store_buffer():
    """The store stops at the end of its mask; the sum reads a chunk more of the buffer, where an earlier launch left
    values."""
    block = 512
    x, outs = np.full(block, 9, np.float32), [np.zeros(k, np.float32) for k in (block, 1, block)]
    store_then_norm[1,](x, x, *outs, block, block)
    x = floats(block)
    for n in (75, 200, 0, 33, 511):
        s = x[:n].astype(np.float64)
        s = s * s + s * s * s + s / 3 + s / 5 + s / 7
        store_then_norm[1,](x, x, *outs, n, block)
        assert outs[1][0] == pytest.approx((s * s).sum(), rel=1e-5, abs=1e-6)
