"""Ops that move elements, compiled for this CPU and compared with the interpreter."""

import numpy as np
import pytest

from tests.backends.cpu.kernels import F, I, check, floats, rng
from tritium import ops
from tritium.ir import types as T


@pytest.mark.parametrize(
    "source, target",
    [
        ((64,), (4, 16)),
        ((4, 16), (64,)),
        ((8, 8), (2, 4, 8)),
        ((2, 32), (32, 2)),
        ((4, 2, 8), (8, 8)),
        ((3, 8), (6, 4)),
        ((1, 64), (64,)),
        ((16,), (2, 2, 2, 2)),
    ],
    ids=str,
)
def test_reshape(source, target):
    def build(b, x, y, z):
        v = b.get(x, source)
        b.put(y, ops.reshape(b, ops.add(b, v, v), shape=target))
        order = tuple(reversed(range(len(target))))
        b.put(z, ops.trans(b, ops.reshape(b, v, shape=target), order=order))

    n = int(np.prod(source))
    check(build, [F, F, F], [floats(*source), np.zeros(n, np.float32), np.zeros(n, np.float32)], opt=0)


def test_reshape_of_indices():
    def build(b, x, y):
        i = ops.reshape(b, b.range(64), shape=(8, 8))
        b.put(y, ops.load(b, ops.addptr(b, b.full(x, (8, 8)), ops.trans(b, i, order=(1, 0)))))

    check(build, [F, F], [floats(64), np.zeros((8, 8), np.float32)])


def test_join_split_cat():
    def build(b, x, y, z, u, s):
        v, w = b.get(x, (4, 16)), b.get(y, (4, 16))
        both = ops.join(b, v, w)
        b.put(z, ops.reshape(b, both, shape=(4, 32)))
        one, two = ops.split(b, both)
        b.put(u, ops.cat(b, ops.sub(b, one, two), w, axis=1))
        b.put(ops.addptr(b, u, b.c(128)), ops.cat(b, one, two, axis=0))
        pair = ops.join(b, ops.load(b, x), ops.load(b, y))
        p, q = ops.split(b, pair)
        ops.store(b, s, ops.sub(b, p, q))
        ops.store(b, ops.addptr(b, s, b.c(1)), ops.reshape(b, b.full(p, (1,)), shape=()))

    check(
        build,
        [F, F, F, F, F],
        [floats(4, 16), floats(4, 16), np.zeros(128, np.float32), np.zeros(256, np.float32), np.zeros(2, np.float32)],
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_gather(axis):
    def build(b, x, i, y):
        b.put(
            y,
            ops.gather(b, ops.mul(b, b.get(x, (16, 16)), b.full(2.0, (16, 16), T.f32)), b.get(i, (16, 16)), axis=axis),
        )

    check(
        build,
        [F, I, F],
        [floats(16, 16), rng.integers(-1, 17, (16, 16)).astype(np.int32), np.zeros((16, 16), np.float32)],
    )


def test_extract_insert():
    def build(b, x, y, s, k):
        v = b.get(x, (8, 8))
        e = ops.extract(b, v, k, b.c(3))
        ops.store(b, s, e)
        w = ops.insert(b, v, b.c(9.0, T.f32), b.c(1), k)
        w = ops.insert(b, w, e, k, k)
        b.put(y, ops.add(b, w, v))

    check(build, [F, F, F, T.i32], [floats(8, 8), np.zeros((8, 8), np.float32), np.zeros(1, np.float32), 5])


@pytest.mark.parametrize("t", [T.f32, T.i16, T.u8, T.f16, T.i64], ids=str)
def test_sort(t):
    from tritium.ops.meaning import np_dtype

    def build(b, x, y, z):
        v = b.get(x, (4, 32))
        b.put(y, ops.sort(b, v, descending=False))
        b.put(z, ops.sort(b, ops.add(b, v, v), descending=True))

    x = rng.integers(0, 100, (4, 32)).astype(np_dtype(t))
    check(build, [T.Ptr(t)] * 3, [x, np.zeros_like(x), np.zeros_like(x)])


@pytest.mark.parametrize("k", [1, 4, 16])
@pytest.mark.parametrize("shape", [(32,), (4, 32), (2, 3, 64)])
@pytest.mark.parametrize("t", [T.f32, T.i16, T.u8, T.f16, T.i64, T.u64], ids=str)
def test_topk(t, shape, k):
    from tritium.ops.meaning import np_dtype

    def build(b, x, y, z):
        v = b.get(x, shape)
        b.put(y, ops.topk(b, v, k=k, descending=False))
        b.put(z, ops.topk(b, ops.add(b, v, v), k=k, descending=True))

    x = rng.integers(0, 100, shape).astype(np_dtype(t))
    if t.is_float:
        x[..., 3], x[..., 5], x[..., 7], x[..., 9::4] = np.nan, np.inf, -np.inf, 0
    check(build, [T.Ptr(t)] * 3, [x, *(np.zeros((*shape[:-1], k), x.dtype) for _ in range(2))])


def test_histogram():
    def build(b, x, y, z):
        v = b.get(x, (128,))
        b.put(y, ops.histogram(b, v, bins=16))
        b.put(z, ops.histogram(b, v, ops.lt(b, b.range(128), b.full(50, (128,))), bins=8))

    check(build, [I, I, I], [rng.integers(-2, 18, 128).astype(np.int32), np.zeros(16, np.int32), np.zeros(8, np.int32)])
