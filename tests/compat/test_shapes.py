"""Moving elements about, for every dtype: shapes, orders, halves, positions; and what loops and branches carry."""

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl

pytestmark = pytest.mark.sampled

DTYPES = [np.bool_, np.int8, np.uint8, np.uint16, np.int32, np.int64, np.uint64, np.float16, ml_dtypes.bfloat16,
          np.float32, np.float64, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn]  # fmt: skip


def numbers(t, n):
    return np.arange(n) % 3 == 0 if t is np.bool_ else np.arange(n).astype(np.float32).astype(t)


@triton.jit
def moved(x, out):
    i = tl.arange(0, 32)
    v = tl.load(x + i)
    m = v.reshape(4, 8)
    a, b = tl.split(v.reshape(16, 2))
    first, second = tl.permute(v.reshape(2, 16), 1, 0).split()
    results = (
        tl.permute(m.reshape(2, 2, 8), (2, 0, 1)).reshape(32), tl.trans(m).reshape((32,)),
        tl.trans(m.reshape([2, 4, 4]), 2, 1, 0).ravel(), tl.join(b, a).reshape(32), tl.interleave(b, a),
        tl.cat(first, second, can_reorder=True), tl.flip(m, 0).ravel(), m.flip(-1).reshape(32),
        tl.gather(m, tl.arange(0, 4)[:, None] * 0 + 7 - tl.arange(0, 8)[None, :], 1).reshape(32),
        m.gather(3 - tl.arange(0, 4)[:, None] + tl.zeros((1, 8), tl.int32), axis=0).reshape(32),
        tl.expand_dims(tl.expand_dims(v, 0), [-1, 1]).reshape(32), tl.broadcast_to(v[:, None], (32, 1)).reshape(32),
        m.T.T.reshape(32, can_reorder=False), m.reshape([2] * 5).permute(4, 3, 2, 1, 0).ravel(),
        tl.where(i < 16, v, tl.flip(v, 0)), tl.full([32], tl.load(x + 3), v.dtype),
    )
    for k in tl.static_range(len(results)):
        tl.store(out + 32 * k + i, results[k])


@pytest.mark.parametrize("t", DTYPES, ids=lambda t: np.dtype(t).name)
def test_elements_move(engine, t):
    x = numbers(t, 32)
    m, pairs = x.reshape(4, 8), x.reshape(16, 2)
    want = [
        m.reshape(2, 2, 8).transpose(2, 0, 1), m.T, m.reshape(2, 4, 4).transpose(2, 1, 0), pairs[:, ::-1],
        pairs[:, ::-1], x, m[::-1], m[:, ::-1], m[:, ::-1], m[::-1], x, x, x, m.reshape([2] * 5).transpose(),
        [*x[:16], *x[:16][::-1]], [x[3]] * 32,
    ]  # fmt: skip
    out = np.zeros((len(want), 32), t)
    engine(moved, [x, out])
    for k, (row, expected) in enumerate(zip(out, want)):
        np.testing.assert_array_equal(row, np.ravel(np.asarray(expected, t)), err_msg=f"result {k}")


@triton.jit
def carried(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tile, pointers, scalar = tl.zeros_like(v), x + i, tl.load(x)
    for k in range(n):
        tile = tl.where(i < k, v, tile)
        pointers = pointers + 0
        scalar = tl.load(x + k)
    if n > 2:
        chosen, where, one, mask = tile, pointers, scalar, i > 1
    else:
        chosen, where, one, mask = v, pointers + 0, tl.load(x + 1), i > 2
    k = 0
    while k < n:
        chosen = tl.where(mask, chosen, v)
        k += 1
    tl.store(out + i, chosen)
    tl.store(out + N + i, tl.load(tl.where(mask, where, pointers)))
    tl.store(out + 2 * N, one)


@pytest.mark.parametrize("t", DTYPES, ids=lambda t: np.dtype(t).name)
def test_what_loops_and_branches_carry(engine, t):
    n = 8
    x = numbers(t, n)
    for turns in (1, 4):
        out, i = np.zeros(2 * n + 1, t), np.arange(n)
        engine(carried, [x, out, turns, n])
        chosen = np.where((i > 1) & (i >= turns - 1), np.zeros_like(x), x) if turns > 2 else x
        np.testing.assert_array_equal(out, np.array([*chosen, *x, x[turns - 1] if turns > 2 else x[1]], t))


@triton.jit
def tiny(x, out):
    a, b = tl.load(x), tl.load(x + 1)
    both = tl.join(a, b)
    tl.static_assert(both.shape == (2,))
    _, second = tl.split(both)
    tl.static_assert(len(second.shape) == 0)
    one = tl.full((1,), 7, tl.int32)
    tl.store(out + tl.arange(0, 2), tl.interleave(a, b))
    tl.store(out + 2, second)
    tl.store(out + 3, one.item())
    tl.store(out + 4, one.reshape(()))
    tl.store(out + 5, tl.full((), 9, tl.int32))
    tl.store(out + 6, tl.sum(tl.broadcast_to(a, (2, 2))))
    tl.store(out + 7, tl.sum(tl.broadcast_to(b, 4, 2)))
    tl.store(out + 8, tl.expand_dims(5, (0, 1)).reshape(()))
    tl.store(out + 9, tl.max(a[None, None], 1).item())


def test_scalars_and_tiles_of_one(engine):
    out = np.zeros(10, np.int32)
    engine(tiny, [np.array([3, 4], np.int32), out])
    assert out.tolist() == [3, 4, 4, 7, 7, 9, 12, 32, 5, 3]


@triton.jit
def compared_shapes(out, N: tl.constexpr):
    x = tl.arange(0, N)
    tl.static_assert(x[None, :].shape == [1, N])
    tl.static_assert(x[:, None].shape != [1, N])
    tl.static_assert(tl.expand_dims(x, (0, -1)).shape == [tl.constexpr(1), N, 1])
    tl.static_assert(tl.sum(x).shape == [])
    tl.store(out, x.shape == [N])


def test_shapes_equal_lists(engine):
    out = np.zeros(1, np.int32)
    engine(compared_shapes, [out, 8])
    assert out[0] == 1
