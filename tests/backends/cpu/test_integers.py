"""Chunks of integers: quotients and remainders of all kinds, and floats that become integers."""

import numpy as np
import pytest

from tests.backends.cpu.kernels import check
from tritium import ops
from tritium.ir import types as T
from tritium.ops.meaning import np_dtype

INTS = [T.i8, T.i16, T.i32, T.i64, T.u8, T.u16, T.u32, T.u64]


def numbers(t, count, seed):
    """Small ones, large ones and both ends of a type."""
    rng, info = np.random.default_rng(seed), np.iinfo(np_dtype(t))
    edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, info.max // 2, info.max // 3]
    edges += [-1, -2, -3, info.min // 2, info.min // 3] if t.signed else []
    bits = rng.integers(1, t.bits, count)
    found = rng.integers(info.min, info.max, count, np_dtype(t), endpoint=True) >> bits.astype(np_dtype(t))
    found[: count // 2] = rng.choice(np.array(edges, np_dtype(t)), count // 2)
    return found


def both(n):
    """Builds a kernel that stores quotients and remainders of n elements."""
    def build(b, x, y, q, r):
        u, v = b.get(x, (n,)), b.get(y, (n,))
        b.put(q, ops.div(b, u, v))
        b.put(r, ops.rem(b, u, v))

    return build


@pytest.mark.parametrize("t", INTS, ids=str)
def test_quotients(t):
    """Of both, and of both by one number that is known at the launch."""
    n = 4096

    def build(b, x, y, q, r, by, one, rest):
        u, v, w = b.get(x, (n,)), b.get(y, (n,)), b.full(ops.load(b, by), (n,))
        for kind, out, z in ((ops.div, q, v), (ops.rem, r, v), (ops.div, one, w), (ops.rem, rest, w)):
            b.put(out, kind(b, u, z))

    x, y = numbers(t, n, 1), numbers(t, n, 2)
    for by in (7, 0, 1, *([-1, -13] if t.signed else [])):
        outs = [np.zeros(n, np_dtype(t)) for _ in range(3)]
        check(build, [T.Ptr(t)] * 7, [x, y, outs[0], outs[1], np.array([by], np_dtype(t)), outs[2], outs[0].copy()])


@pytest.mark.parametrize("t", [T.i64, T.u64], ids=str)
def test_quotients_of_64_bits_that_32_hold(t):
    """Chunks are divided as 32 bits unless an element needs more, or the quotient of the smallest by -1 does."""
    n = 4096

    x, y = (numbers(T.i32 if t.signed else T.u32, n, seed).astype(np_dtype(t)) for seed in (1, 2))
    x[:1024] >>= np_dtype(t).type(2)
    y[:1024] >>= np_dtype(t).type(2)
    for k, (a, b) in enumerate(((2**31 - 1, 1), (2**31, 2), (2**40, 3), (5, 2**33), (7, 0), (2**63 - 1, 2**31))):
        x[100 * k], y[100 * k] = a, b
    if t.signed:
        x[700], y[700], x[800], y[800] = -(2**31), -1, -(2**31), 1
    check(both(n), [T.Ptr(t)] * 4, [x, y, np.zeros_like(x), np.zeros_like(x)])


@pytest.mark.parametrize("t", [T.i8, T.u8], ids=str)
def test_all_quotients_of_bytes(t):
    n = 65536

    x, y = (z.astype(np.uint8).view(np_dtype(t)) for z in np.divmod(np.arange(n), 256))
    check(both(n), [T.Ptr(t)] * 4, [x, y, np.zeros_like(x), np.zeros_like(x)])


@pytest.mark.parametrize("t", [T.i32, T.u32, T.i16], ids=str)
def test_quotients_next_to_integers(t):
    """Fractions that are as near to an integer as fractions get."""
    n = 4096

    def build(b, x, y, q):
        b.put(q, ops.div(b, b.get(x, (n,)), b.get(y, (n,))))

    rng, most = np.random.default_rng(3), np.iinfo(np_dtype(t)).max
    y = rng.integers(1, most >> rng.integers(0, t.bits - 2, n))
    quotient = (most - 1) // y
    x = quotient * y + rng.integers(-1, 2, n)
    x, y = (np.clip(z, 1, most).astype(np_dtype(t)) for z in (x, y))
    check(build, [T.Ptr(t)] * 3, [x, y, np.zeros_like(x)])


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("source", [T.f16, T.f32, T.f64], ids=str)
def test_floats_that_become_integers(source, t):
    """What an integer does not reach becomes the nearest it does, and NaN 0."""
    n, dtype = 512, np_dtype(source).type

    def build(b, x, y):
        b.put(y, ops.cast(b, b.get(x, (n,)), to=t))

    info = np.iinfo(np_dtype(t))
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        ends = np.array([info.min, info.max, 0, 1, -1], np.float64).astype(dtype)
        near = np.concatenate([ends, np.nextafter(ends, dtype(np.inf)), np.nextafter(ends, dtype(-np.inf)), ends * 2])
        special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.5, -0.5, 0.99, -0.99, 1e30, -1e30]).astype(dtype)
        rest = (rng.standard_normal(n) * 2.0 ** rng.integers(0, 70, n)).astype(dtype)
    x = np.concatenate([near, special, rest])[:n]
    check(build, [T.Ptr(source), T.Ptr(t)], [x, np.zeros(n, np_dtype(t))])
