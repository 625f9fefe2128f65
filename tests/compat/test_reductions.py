"""Reductions, sorts and running sums on the extremes of every dtype, on infinities and on NaN."""

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl

pytestmark = pytest.mark.sampled

INTS = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16, "int32": np.int32,
        "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64}  # fmt: skip
FLOATS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
rng = np.random.default_rng(0)


@triton.jit
def extremes(x, high, low, places, in_order, total, running, best, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    square = v.reshape(4, N // 4)
    value, place = tl.max(v, 0, return_indices=True)
    tl.store(high, tl.max(v, 0))
    tl.store(high + 1, value)
    tl.store(high + 2, tl.max(tl.max(square, 1), 0))
    tl.store(low, v.min(0))
    tl.store(low + 1, tl.min(tl.min(square, axis=0, keep_dims=True)))
    tl.store(places, tl.argmax(v, 0))
    tl.store(places + 1, v.argmin(axis=0))
    tl.store(places + 2, place)
    tl.store(in_order + i, tl.sort(v))
    tl.store(in_order + N + i, tl.sort(v, descending=True))
    tl.store(total, tl.sum(v, 0))
    tl.store(running + i, tl.cumsum(v, 0))
    tl.store(best + tl.arange(0, K), tl.topk(v, K))


def run(engine, x, wide, summed, scanned):
    """The eight results for one array; `wide` is the type of extremes, `summed` and `scanned` those of sums."""
    n = len(x)
    outs = [np.zeros(size, t) for size, t in ((3, wide), (2, wide), (3, np.int32), (2 * n, x.dtype), (1, summed),
                                              (n, scanned), (4, wide))]  # fmt: skip
    engine(extremes, [x, *outs, n, 4])
    return outs


@pytest.mark.parametrize("kind", INTS)
def test_integers(engine, kind):
    t, info = INTS[kind], np.iinfo(INTS[kind])
    wide = t if info.bits >= 32 else np.int32
    summed = t if info.bits >= 32 else np.int32 if info.min else np.uint32
    for n in (8, 256):
        x = rng.integers(info.min, info.max, n, t, endpoint=True)
        x[3], x[5] = info.max, info.min
        high, low, places, in_order, total, running, best = run(engine, x, wide, summed, summed)
        assert (high == info.max).all() and (low == info.min).all()
        assert places.tolist() == [x.argmax(), x.argmin(), x.argmax()]
        ordered = np.sort(x)
        np.testing.assert_array_equal(in_order, [*ordered, *ordered[::-1]])
        np.testing.assert_array_equal(total, x.sum(dtype=summed))
        np.testing.assert_array_equal(running, x.cumsum(dtype=summed))
        np.testing.assert_array_equal(best, ordered[::-1][:4])


@pytest.mark.parametrize("kind", FLOATS)
def test_infinities(engine, kind):
    t = FLOATS[kind]
    wide = np.float64 if t is np.float64 else np.float32
    for n in (8, 64):
        x = (rng.standard_normal(n) * 10).astype(np.float32).astype(t)
        x[1], x[2] = np.inf, -np.inf
        high, low, places, in_order, total, _, best = run(engine, x, wide, t, wide if t is ml_dtypes.bfloat16 else t)
        assert np.isposinf(high).all() and np.isneginf(low).all() and places.tolist() == [1, 2, 1]
        ordered = np.sort(x.astype(np.float64))
        np.testing.assert_array_equal(in_order.astype(np.float64), [*ordered, *ordered[::-1]])
        np.testing.assert_array_equal(best.astype(np.float64), ordered[::-1][:4])
        assert np.isnan(total.astype(np.float64)).all()


@triton.jit
def passed_over(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.max(v, 0))
    tl.store(out + 1, tl.min(v, 0))
    tl.store(out + 2, tl.max(v.reshape(2, N // 2), 1).sum(0))
    tl.store(out + 3, tl.sum(v, 0))
    tl.store(out + 4, tl.max(v * float("nan"), 0))


@pytest.mark.parametrize("kind", FLOATS)
def test_nan_is_passed_over(engine, kind):
    for n in (8, 64):
        x, out = np.arange(n).astype(FLOATS[kind]), np.zeros(5)
        x[::3] = np.nan
        engine(passed_over, [x, out, n])
        wide = x.astype(np.float64)
        rows = np.nanmax(wide.reshape(2, -1), 1)
        np.testing.assert_array_equal(out, [np.nanmax(wide), np.nanmin(wide), rows.sum(), np.nan, np.nan])


@triton.jit
def along(x, out, SHAPE: tl.constexpr, REST: tl.constexpr, AXIS: tl.constexpr, KEEP: tl.constexpr, HOW: tl.constexpr):
    v = tl.load(x + tl.arange(0, SHAPE[0] * SHAPE[1] * SHAPE[2])).reshape(SHAPE)
    r = getattr(tl, HOW)(v, AXIS, keep_dims=KEEP)
    tl.static_assert(len(r.shape) == (3 if KEEP else (0 if AXIS is None else 2)))
    tl.store(out + tl.arange(0, REST), r.reshape([REST]) if len(r.shape) > 0 else r[None])


HOW = {"sum": np.sum, "max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin,
       "xor_sum": np.bitwise_xor.reduce, "reduce_or": np.bitwise_or.reduce}  # fmt: skip


@pytest.mark.parametrize("how", HOW)
def test_axes(engine, how):
    for shape in ((2, 4, 8), (1, 1, 16), (8, 1, 2)):
        x = rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.int32)
        for axis in (0, 1, -1, None):
            if axis is None and how in ("argmax", "argmin", "reduce_or"):
                continue
            want = HOW[how](x, axis=axis) if axis is not None or "xor" not in how else HOW[how](x.ravel())
            for keep in (False, True):
                out = np.zeros(np.size(want), np.int32)
                engine(along, [x, out, shape, out.size, axis, keep, how])
                np.testing.assert_array_equal(out, np.ravel(want), err_msg=f"{shape} axis {axis} keep_dims={keep}")
