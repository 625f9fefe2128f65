"""Atomics of every kind on every dtype they take: masks, scalars, one element, two axes, duplicates, descriptors."""

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl

pytestmark = pytest.mark.sampled

HOW = {"add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
       "xor": np.bitwise_xor, "xchg": lambda old, new: new}  # fmt: skip
INTS = {"int32": np.int32, "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64}
FLOATS = {"float32": np.float32, "float64": np.float64}
HALVES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


@triton.jit
def update(p, v, old, n, HOW: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr):
    combine: tl.constexpr = getattr(tl, "atomic_" + HOW)
    i = tl.arange(0, 8)
    tl.store(old + i, combine(p + i, tl.load(v + i), mask=i < n, sem=SEM, scope=SCOPE), mask=i < n)
    tl.store(old + 8, combine(p + 8, tl.load(v), sem=SEM))
    one = tl.arange(0, 1)
    tl.store(old + 9 + one, combine(p + 9 + one, tl.load(v + 1)))
    square = tl.arange(0, 2)[:, None] * 2 + tl.arange(0, 2)[None, :]
    combine(p + 10 + square, 1)


def cases():
    for kind in (*INTS, *FLOATS, *HALVES):
        for how in HOW:
            if kind in INTS or (kind in FLOATS and how in ("add", "max", "min", "xchg")) or how == "add":
                yield kind, how


@pytest.mark.parametrize("kind, how", list(cases()))
def test_updates(engine, kind, how):
    t = {**INTS, **FLOATS, **HALVES}[kind]
    p = np.array([5, -3, 0, 7, 100, -100, 2, 1, 4, 3, 9, 8, -7, 6, 5, 4], np.int64).astype(t)
    v = np.array([1, -5, 3, -9, 50, 200, 2, -1], np.int64).astype(t)
    found, lanes = p.copy(), [*range(6), *range(8, 14)]
    combined = np.concatenate([v[:6], v[:2], np.ones(4, t)])
    want = p.copy()
    want[lanes] = HOW[how](p[lanes], combined)
    for sem, scope in ((None, None), ("relaxed", "cta"), ("acquire", "gpu"), ("release", "sys"), ("acq_rel", None)):
        p[:], old = found, np.zeros(10, t)
        engine(update, [p, v, old, 6, how, sem, scope])
        np.testing.assert_array_equal(p.astype(np.float64), want.astype(np.float64))
        np.testing.assert_array_equal(old[[*range(6), 8, 9]].astype(np.float64), found[[*range(6), 8, 9]].astype(float))


@triton.jit
def swap(p, expected, v, old):
    i = tl.arange(0, 4)
    tl.store(old + i, tl.atomic_cas(p + i, tl.load(expected + i), tl.load(v + i), sem="acquire", scope="gpu"))
    tl.store(old + 4, (p + 4).atomic_cas(tl.load(expected), tl.load(v)))


@pytest.mark.parametrize("t", [np.int16, np.uint16, *INTS.values(), *FLOATS.values(), *HALVES.values()])
def test_compare_and_swap(engine, t):
    p, expected, v = (np.array(x).astype(t) for x in ([1, 2, 3, 4, 1], [1, 0, 3, 0], [10, 20, 30, 40]))
    old = np.zeros(5, t)
    engine(swap, [p, expected, v, old])
    assert p.astype(int).tolist() == [10, 2, 30, 4, 10]
    assert old.astype(int).tolist() == [1, 2, 3, 4, 1]


@triton.jit
def take_flags(flags, taken, signed):
    for at in tl.static_range(3):
        old = tl.full((), 1, tl.int32)
        while old != 0:
            old = tl.atomic_cas(flags + at, 0, 1, sem="release", scope="sys")  # int32, as the number is
    i = tl.arange(0, 4)
    high = tl.load(signed + i)
    found = tl.atomic_cas(flags + 4 + i, high, high + 1)
    tl.static_assert(found.dtype == tl.int32)
    tl.store(taken + i, found < 0)


def test_compare_and_swap_of_the_other_sign(engine):
    flags = np.array([0, 0, 0, 7, 5, 2**31, 2**32 - 2, 9], np.uint32)
    taken, signed = np.zeros(4, np.int32), np.array([5, -2**31, -2, 8], np.int32)
    engine(take_flags, [flags, taken, signed])
    assert flags.tolist() == [1, 1, 1, 7, 6, 2**31 + 1, 2**32 - 1, 9] and taken.tolist() == [0, 1, 1, 0]


@triton.jit
def collide(p, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(p + i % 4, 1)
    tl.atomic_max(p + 4 + i * 0, i)
    tl.atomic_add(p + 5 + i * 0, i, mask=i % 2 == 0)


def test_lanes_that_meet(engine):
    p = np.zeros(6, np.int32)
    engine(collide, [p, 64], (5,))
    assert p.tolist() == [80, 80, 80, 80, 63, 5 * sum(range(0, 64, 2))]


@triton.jit
def described(p, v, HOW: tl.constexpr):
    desc = tl.make_tensor_descriptor(p, [8, 16], [16, 1], [4, 16])
    tile = tl.load(v + tl.arange(0, 4)[:, None] * 16 + tl.arange(0, 16)[None, :])
    getattr(desc, "atomic_" + HOW)([6, 0], tile)


# What descriptors combine: not the same as pointers, which lack extremes of halves and have all others of f32.
DESCRIBED = {"add": ("uint32", "int32", "uint64", "float32", "float16", "bfloat16"),
             **dict.fromkeys(("min", "max"), (*INTS, *HALVES)), **dict.fromkeys(("and", "or", "xor"), tuple(INTS))}


@pytest.mark.parametrize("how", DESCRIBED)
def test_descriptors(engine, how):
    rng = np.random.default_rng(1)
    for kind, t in {**INTS, **FLOATS, **HALVES}.items():
        p, v = (rng.integers(0, 50, (rows, 16)).astype(t) for rows in (8, 4))
        if kind not in DESCRIBED[how]:
            with pytest.raises(triton.TritonError, match="Unsupported dtype"):
                engine(described, [p, v, how])
            continue
        want = p.copy()
        want[6:] = HOW[how](p[6:], v[:2])  # the other two rows lie outside
        engine(described, [p, v, how])
        np.testing.assert_array_equal(p.astype(np.float64), want.astype(np.float64), err_msg=kind)
