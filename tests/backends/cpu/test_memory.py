"""Loads, stores and masks, compiled for this CPU and compared with the interpreter."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.cpu.kernels import F, I, check, floats, rng
from tritium import ops
from tritium.ir import types as T


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 63, 64, 100, 255, 256])
def test_masked_copy(n):
    def build(b, x, y, n):
        shape = (256,)
        m = ops.lt(b, b.range(256), b.full(n, shape))
        other = b.full(-1.0, shape, T.f32)
        ops.store(b, b.rows(y, shape), ops.load(b, b.rows(x, shape), m, other), m)

    check(build, [F, F, T.i32], [floats(max(n, 1)), np.zeros(max(n, 1), np.float32), n])


def test_masked_off_lanes_get_other():
    def build(b, x, y, n):
        m = ops.lt(b, b.range(64), b.full(n, (64,)))
        b.put(y, ops.load(b, b.rows(x, (64,)), m, b.full(7.0, (64,), T.f32)))

    check(build, [F, F, T.i32], [floats(10), np.zeros(64, np.float32), 10])


@pytest.mark.parametrize("rows, columns", [(3, 5), (16, 16), (9, 31), (0, 4), (12, 32)])
def test_masked_2d(rows, columns):
    shape = (16, 32)

    def build(b, x, y, m, n, stride):
        mask = ops.and_(
            b,
            ops.lt(b, b.range(16, 0, 2, shape), b.full(m, shape)),
            ops.lt(b, b.range(32, 1, 2, shape), b.full(n, shape)),
        )
        v = ops.load(b, b.at(x, stride, 1, shape=shape), mask)
        ops.store(b, b.at(y, stride, 1, shape=shape), ops.add(b, v, v), mask)

    x = floats(16 * 40)
    check(build, [F, F, T.i32, T.i32, T.i32], [x, np.zeros_like(x), rows, columns, 40])


def test_lower_and_upper_bounds():
    shape = (64,)

    def build(b, x, y, base, n):
        offset = ops.add(b, b.full(base, shape), b.range(64))
        m = ops.and_(b, ops.ge(b, offset, b.full(0, shape)), ops.lt(b, offset, b.full(n, shape)))
        v = ops.load(b, ops.addptr(b, b.full(x, shape), offset), m, b.full(3.0, shape, T.f32))
        b.put(y, v)

    for base in (-70, -33, -3, 0, 20, 99):
        check(build, [F, F, T.i32, T.i32], [floats(50), np.zeros(64, np.float32), base, 50], opt=0)


def test_mask_from_data_and_reversed_bound():
    shape = (48,)

    def build(b, x, y, n):
        v = b.get(x, shape)
        m = ops.and_(b, ops.gt(b, v, b.full(0.0, shape, T.f32)), ops.gt(b, b.full(n, shape), b.range(48)))
        ops.store(b, b.rows(y, shape), v, m)

    check(build, [F, F, T.i32], [floats(48), np.zeros(48, np.float32), 37])


@pytest.mark.parametrize("s0, s1", [(1, 16), (16, 1), (-16, 1), (2, 40), (0, 1), (1, 0)])
def test_strides(s0, s1):
    shape = (16, 16)

    def build(b, x, y):
        base = ops.addptr(b, x, b.c(300))
        b.put(y, ops.load(b, b.at(base, s0, s1, shape=shape)))

    check(build, [F, F], [floats(1000), np.zeros(256, np.float32)])


def test_strides_at_run_time_and_transposed_store():
    shape = (32, 16)

    def build(b, x, y, s0, s1, t0, t1):
        v = ops.load(b, b.at(x, s0, s1, shape=shape))
        ops.store(b, b.at(y, t0, t1, shape=shape), ops.mul(b, v, v))

    for s in ((16, 1, 1, 32), (1, 40, 16, 1), (2, 70, 3, 100)):
        check(build, [F, F, *[T.i32] * 4], [floats(4000), np.zeros(4000, np.float32), *s], opt=0)


def test_transpose():
    def build(b, x, y):
        b.put(y, ops.trans(b, ops.add(b, b.get(x, (32, 64)), b.full(1.0, (32, 64), T.f32)), order=(1, 0)))

    check(build, [F, F], [floats(32, 64), np.zeros((64, 32), np.float32)])


@pytest.mark.parametrize("shape, rows", [((64, 32), 64), ((32, 64), 48), ((32, 16), 40), ((16, 48), 16), ((8, 24), 24)])
@pytest.mark.parametrize("t", [T.f32, T.f64, T.f16, T.bf16, T.i8, T.i64, T.i1], ids=str)
def test_transpose_of_aligned_rows(t, shape, rows):
    """Squares of many lines where rows are a multiple of them apart, of four elsewhere."""
    from tritium.ops.meaning import np_dtype

    def build(b, x, y, z, u):
        v = ops.load(b, b.at(x, 1, rows, shape=shape))
        other = ops.load(b, b.rows(z, shape))
        ops.store(b, b.rows(y, shape), v)
        ops.store(b, b.rows(u, shape), ops.max_(b, v, other))

    x, z = (rng.integers(0, 2 if t is T.i1 else 100, n).astype(np_dtype(t)) for n in (shape[1] * rows, shape))
    check(build, [T.Ptr(t)] * 4, [x, np.zeros(shape, x.dtype), z, np.zeros(shape, x.dtype)])


def test_transposed_store_of_contiguous_load():
    def build(b, x, y):
        ops.store(b, b.at(y, 1, 32, shape=(32, 64)), b.get(x, (32, 64)))

    check(build, [F, F], [floats(32, 64), np.zeros((64, 32), np.float32)])


def test_gathered_rows_and_scattered_lanes():
    shape = (8, 32)

    def build(b, x, index, y, z):
        rows = ops.expand_dims(b, ops.load(b, b.rows(index, (8,))), axis=1)
        at = ops.add(b, ops.mul(b, ops.broadcast(b, rows, shape=shape), b.full(32, shape)), b.range(32, 1, 2, shape))
        b.put(y, ops.load(b, ops.addptr(b, b.full(x, shape), at)))
        lanes = ops.load(b, b.rows(index, (8,)))
        ops.store(b, ops.addptr(b, b.full(z, (8,)), lanes), ops.cast(b, lanes, to=T.f32))

    check(
        build,
        [F, I, F, F],
        [
            floats(20, 32),
            rng.permutation(20)[:8].astype(np.int32),
            np.zeros(shape, np.float32),
            np.zeros(20, np.float32),
        ],
    )


@pytest.mark.parametrize("n", [5, 16, 50, 64, 100])
def test_wrapped_index(n):
    shape = (8, 64)

    def build(b, x, y, base, n):
        column = ops.rem(b, ops.add(b, b.full(base, (64,)), b.range(64)), b.full(n, (64,)))
        row = ops.rem(b, ops.add(b, b.full(3, (8,)), b.range(8)), b.full(5, (8,)))
        at = ops.add(
            b,
            ops.broadcast(b, ops.expand_dims(b, column, axis=0), shape=shape),
            ops.mul(b, ops.broadcast(b, ops.expand_dims(b, row, axis=1), shape=shape), b.full(n, shape)),
        )
        b.put(y, ops.load(b, ops.addptr(b, b.full(x, shape), at)))

    check(build, [F, F, T.i32, T.i32], [floats(5 * n), np.zeros(shape, np.float32), 37, n])


def test_uniform_loads_and_scalars():
    shape = (4, 32)

    def build(b, x, bias, scale, y):
        rows = ops.broadcast(b, ops.expand_dims(b, ops.load(b, b.rows(bias, (4,))), axis=1), shape=shape)
        b.put(y, ops.add(b, ops.mul(b, b.get(x, shape), b.full(ops.load(b, scale), shape)), rows))

    check(build, [F, F, F, F], [floats(*shape), floats(4), floats(1), np.zeros(shape, np.float32)], tolerance=1e-6)


def test_masked_uniform_load():
    shape = (8, 16)

    def build(b, x, bias, y, n):
        inside = ops.lt(b, b.range(8), b.full(n, (8,)))
        v = ops.load(b, b.rows(bias, (8,)), inside, b.full(5.0, (8,), T.f32))
        b.put(y, ops.mul(b, b.get(x, shape), ops.broadcast(b, ops.expand_dims(b, v, axis=1), shape=shape)))

    check(build, [F, F, F, T.i32], [floats(*shape), floats(3), np.zeros(shape, np.float32), 3])


def test_in_place_with_later_use():
    def build(b, x, y):
        v = b.get(x, (64,))
        b.put(x, ops.add(b, v, v))
        b.put(y, ops.mul(b, v, v))  # what was loaded before the store
        w = b.get(x, (64,))
        b.put(y, ops.add(b, w, b.get(y, (64,))))

    check(build, [F, F], [floats(64), np.zeros(64, np.float32)])


def test_load_waits_for_barrier_and_store_elsewhere():
    def build(b, x, y):
        v = b.get(x, (64,))
        reverse = ops.sub(b, b.full(63, (64,)), b.range(64))
        ops.barrier(b)
        ops.store(b, ops.addptr(b, b.full(x, (64,)), reverse), v)
        b.put(y, v)

    check(build, [F, F], [floats(64), np.zeros(64, np.float32)])


def test_bools_in_memory():
    P = T.Ptr(T.i1)

    def build(b, x, y, z):
        m = ops.load(b, b.rows(x, (32,)))
        b.put(y, ops.xor(b, m, b.full(True, (32,), T.i1)))
        ops.store(b, b.rows(z, (32,)), b.range(32), m)

    check(build, [P, P, I], [rng.integers(0, 2, 32).astype(bool), np.zeros(32, bool), np.zeros(32, np.int32)])


@triton.jit
def take(x, index, out, n, far, N: tl.constexpr, HOW: tl.constexpr):
    k = tl.arange(0, N)
    if HOW == "index":
        at = tl.load(index + k)
    elif HOW == "stride":
        at = k * far
    elif HOW == "constant stride":
        at = k * 30000000
    elif HOW == "wrapped":
        at = (k + far) % (2 * far)
    else:
        at = k * 0 + far
    inside = (at < n) & (k < 50) if HOW == "some lanes" else at < n
    v = tl.load(x + at, mask=inside, other=-1.0)
    tl.store(x + at, v * 2, mask=inside)
    tl.store(out + k, v)


@pytest.mark.parametrize("how", ["index", "stride", "constant stride", "wrapped", "one", "some lanes"])
@pytest.mark.parametrize("n", [64, 16])
def test_masked_off_lanes_are_not_touched(how, n):
    """Not even read: their addresses are nobody's."""
    far, k, x = 30000000, np.arange(n), floats(100)
    at = {"wrapped": (k + far) % (2 * far), "one": k * 0 + far, "some lanes": k * 0 + far}.get(how, k * far)
    expected = np.where(at < 100, x[np.where(at < 100, at, 0)], np.float32(-1))
    out = np.zeros(n, np.float32)
    take[(1,)](x, (k * far).astype(np.int32), out, 100, far, N=n, HOW=how)
    np.testing.assert_array_equal(out, expected)
