"""Loops and branches, compiled for this CPU and compared with the interpreter."""

import numpy as np
import pytest

from tests.backends.cpu.kernels import F, I, check, floats, rng
from tritium import ops
from tritium.ir import types as T


def test_loop_carries_scalars_tiles_and_pointers():
    def build(b, x, y, s, n):
        shape = (64,)
        zero, p = b.full(0.0, shape, T.f32), b.rows(x, shape)
        with b.region([T.i32, T.f32, T.Tile(shape, T.f32), p.type, T.Tile(shape, T.i32)]) as r:
            _, total, acc, q, offset = r.args
            v = ops.load(b, q)
            w = ops.load(b, ops.addptr(b, b.full(x, shape), offset))
            total = ops.add(b, total, ops.reduce(b, v, axis=0, regions=[b.fold(ops.max_, T.f32)]))
            acc = ops.add(b, ops.mul(b, acc, b.full(0.5, shape, T.f32)), ops.add(b, v, w))
            ops.yield_(b, total, acc, ops.addptr(b, q, b.full(64, shape)), ops.sub(b, offset, b.full(64, shape)))
        last = ops.add(b, b.range(64), b.full(ops.mul(b, ops.sub(b, n, b.c(1)), b.c(64)), shape))
        total, acc, q, offset = ops.for_(b, b.c(0), n, b.c(1), b.c(0.0, T.f32), zero, p, last, regions=[r.block])
        ops.store(b, s, total)
        b.put(y, acc)
        ops.store(b, ops.addptr(b, q, b.full(0, shape)), acc)  # pointers after the loop
        b.put(ops.addptr(b, y, b.c(64)), ops.cast(b, offset, to=T.f32))

    for n in (0, 1, 4):
        check(
            build,
            [F, F, F, T.i32],
            [floats(5 * 64), np.zeros(128, np.float32), np.zeros(1, np.float32), n],
            tolerance=1e-5,
        )


@pytest.mark.parametrize("lo, hi, by", [(0, 10, 3), (10, 0, -1), (5, 5, 1), (-4, 4, 2)])
def test_loop_bounds(lo, hi, by):
    def build(b, y):
        with b.region([T.i32, T.i32]) as r:
            i, at = r.args
            ops.store(b, ops.addptr(b, y, at), i)
            ops.yield_(b, ops.add(b, at, b.c(1)))
        count = ops.for_(b, b.c(lo), b.c(hi), b.c(by), b.c(0), regions=[r.block])
        ops.store(b, ops.addptr(b, y, b.c(15)), count)

    check(build, [I], [np.zeros(16, np.int32)])


def test_swapped_and_shifted_tiles():
    """Fibonacci on tiles, and a tile that becomes its own transpose: no value may be overwritten too early."""
    shape = (16, 16)
    t = T.Tile(shape, T.i32)

    def build(b, x, y, z, u):
        v = b.get(x, shape)
        row = T.Tile((16,), T.i32)
        with b.region([T.i32, t, t, t, row, row]) as r:
            _, p, q, m, s, c = r.args
            total = ops.reduce(b, p, axis=1, regions=[b.fold(ops.add, T.i32)])
            spread = ops.broadcast(b, ops.expand_dims(b, s, axis=1), shape=shape)
            ops.yield_(
                b, q, ops.add(b, p, q), ops.add(b, ops.trans(b, m, order=(1, 0)), spread), c, ops.xor(b, total, s)
            )
        inits = [v, ops.add(b, v, b.full(1, shape)), v, b.range(16), b.full(3, (16,))]
        p, q, m, s, c = ops.for_(b, b.c(0), b.c(5), b.c(1), *inits, regions=[r.block])
        b.put(y, ops.sub(b, q, p))
        b.put(z, m)
        b.put(u, ops.sub(b, s, c))

    check(
        build,
        [I, I, I, I],
        [rng.integers(0, 9, shape).astype(np.int32), *np.zeros((2, *shape), np.int32), np.zeros(16, np.int32)],
    )


def test_nested_loops_update_in_place():
    shape = (32, 32)

    def build(b, x, y):
        t = T.Tile(shape, T.f32)
        half = b.full(0.5, shape, T.f32)
        with b.region([T.i32, t]) as outer:
            _, acc = outer.args
            with b.region([T.i32, t]) as inner:
                j, sum_ = inner.args
                v = b.get(ops.addptr(b, x, ops.mul(b, j, b.c(7))), shape)
                ops.yield_(b, ops.dot(b, v, half, ops.mul(b, sum_, half), precision="ieee", imprecise=0))
            ops.yield_(b, ops.for_(b, b.c(0), b.c(3), b.c(1), acc, regions=[inner.block]))
        b.put(y, ops.for_(b, b.c(0), b.c(2), b.c(1), b.full(1.0, shape, T.f32), regions=[outer.block]))

    text = check(build, [F, F], [floats(1100), np.zeros(shape, np.float32)], tolerance=1e-4)
    assert text.count("zeroinitializer") == 0


def test_while_and_if_with_tiles():
    shape = (32,)

    def build(b, x, y, n):
        t = T.Tile(shape, T.i32)
        with b.region([T.i32, t]) as test:
            ops.yield_(b, ops.gt(b, test.args[0], b.c(1)))
        with b.region([T.i32, t]) as body:
            k, v = body.args
            with b.region() as even:
                ops.yield_(b, ops.div(b, k, b.c(2)), ops.add(b, v, b.range(32)))
            with b.region() as odd:
                ops.store(b, b.rows(ops.addptr(b, y, b.c(32)), shape), v)
                ops.yield_(b, ops.add(b, ops.mul(b, k, b.c(3)), b.c(1)), ops.mul(b, v, b.full(3, shape)))
            k, v = ops.if_(b, ops.eq(b, ops.and_(b, k, b.c(1)), b.c(0)), regions=[even.block, odd.block])
            ops.yield_(b, k, v)
        _, v = ops.while_(b, n, b.get(x, shape), regions=[test.block, body.block])
        b.put(y, v)

    for n in (1, 7):
        check(build, [I, I, T.i32], [np.arange(32, dtype=np.int32), np.zeros(64, np.int32), n])


def test_branch_uses_load_from_outside_after_store():
    shape = (64,)

    def build(b, x, y, n):
        v = b.get(x, shape)
        with b.region() as yes:
            b.put(x, b.full(1.0, shape, T.f32))
            total = ops.reduce(b, v, axis=0, regions=[b.fold(ops.add, T.f32)])
            ops.yield_(b, ops.mul(b, v, b.full(total, shape)))
        with b.region() as no:
            ops.yield_(b, b.full(2.0, shape, T.f32))
        b.put(y, ops.if_(b, ops.gt(b, n, b.c(0)), regions=[yes.block, no.block]))

    for n in (0, 1):
        check(build, [F, F, T.i32], [floats(64), np.zeros(64, np.float32), n], tolerance=1e-5)


def test_loop_with_stores_reads_what_was_loaded_before():
    shape = (32,)

    def build(b, x):
        v = b.get(x, shape)
        with b.region([T.i32]) as r:
            w = b.get(x, shape)
            b.put(x, ops.add(b, w, v))
            ops.yield_(b)
        ops.for_(b, b.c(0), b.c(3), b.c(1), regions=[r.block])

    check(build, [F], [floats(32)])


def test_long_chains_are_cut():
    def build(b, x, y):
        v = w = b.get(x, (32,))
        for k in range(700):
            w = ops.add(b, ops.mul(b, w, b.full(0.5, (32,), T.f32)), v)
            if k % 3 == 0:
                w = ops.sub(b, w, b.full(1.0, (32,), T.f32))
        b.put(y, w)

    check(build, [F, F], [floats(32), np.zeros(32, np.float32)], tolerance=1e-4, opt=0)


def test_large_tiles_stay_small_code():
    def build(b, *ps):
        xs = [b.get(p, (65536,)) for p in ps[:4]]
        b.put(ps[4], ops.add(b, ops.add(b, xs[0], xs[1]), ops.mul(b, xs[2], xs[3])))

    text = check(build, [F] * 5, [*[floats(65536) for _ in range(4)], np.zeros(65536, np.float32)], tolerance=1e-5)
    assert len(text.splitlines()) < 80
