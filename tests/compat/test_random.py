"""Random numbers are the same bits everywhere: words of Philox, uniform and normal floats."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl

pytestmark = pytest.mark.sampled


def philox(seed, offset, wide_offset, rounds=10):
    """Four words of Philox-4x32, counted in Python's integers."""
    low = 0xFFFFFFFF
    seed %= 1 << 64
    keys = [seed & low, seed >> 32]
    c = [offset & low, (offset >> 32) & low if wide_offset else 0, 0, 0]
    for _ in range(rounds):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ keys[0], q & low, p >> 32 ^ c[3] ^ keys[1], p & low]
        keys = [(keys[0] + 0x9E3779B9) & low, (keys[1] + 0xBB67AE85) & low]
    return c


def philox64(seed, offset, rounds=10):
    """The first word of the variant with 64-bit counters."""
    low = (1 << 64) - 1
    keys, c = [seed & low, 0], [offset & low, 0, 0, 0]
    for _ in range(rounds):
        p, q = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [q >> 64 ^ c[1] ^ keys[0], q & low, p >> 64 ^ c[3] ^ keys[1], p & low]
        keys = [(keys[0] + 0x9E3779B97F4A7C15) & low, (keys[1] + 0xBB67AE8584CAA73B) & low]
    return c[0]


def uniform(words):
    """Words as floats in [0, 1)."""
    signed = np.asarray(words, np.uint32).view(np.int32)
    return np.where(signed < 0, ~signed, signed).astype(np.float32) * np.float32(4.6566127342e-10)


@triton.jit
def words(seed, offset, out, ROUNDS: tl.constexpr):
    i = tl.arange(0, 4)
    made = tl.randint4x(seed, offset + i, n_rounds=ROUNDS)
    for k in tl.static_range(4):
        tl.static_assert(made[k].dtype == tl.uint32)
        tl.store(out + 4 * k + i, made[k])


@pytest.mark.parametrize("seed", [0, 42, -1, 123456789, 0xFCAFEB0BA, 2**63 + 5])
def test_words(engine, seed):
    for offset in (0, 7, -3, 2**32 + 5):
        for rounds in (10, 6, 1):
            out = np.zeros((4, 4), np.uint32)
            engine(words, [seed, offset, out, rounds])
            expected = [philox(seed, offset + k, offset > 2**31, rounds) for k in range(4)]
            np.testing.assert_array_equal(out, np.transpose(expected), err_msg=f"offset {offset}, {rounds} rounds")


@triton.jit
def floats(seed_ptr, out, N: tl.constexpr):
    seed, i = tl.load(seed_ptr), tl.arange(0, N)
    tl.store(out + i, tl.rand(seed, i))
    tl.store(out + N + i, tl.rand(seed=seed, offset=i.to(tl.uint32), n_rounds=10))
    tl.store(out + 2 * N + i, tl.rand(seed, i.to(tl.int64)))
    tl.store(out + 3 * N + i, tl.rand(seed + i, i))
    square = tl.rand(seed, i[:, None] * N + i[None, :])
    tl.store(out + 4 * N + i, tl.max(square, 1))
    tl.store(out + 5 * N, tl.rand(seed, 5))
    tl.store(out + 5 * N + 1, tl.rand(7, 0))
    _a, _b, _c, d = tl.rand4x(seed, i)
    tl.store(out + 6 * N + i, d)
    tl.store(out + 7 * N + i, tl.uint_to_uniform_float(tl.randint(seed, i)))


def test_uniform_floats(engine):
    n, seed = 16, 42
    out = np.zeros((8, n), np.float32)
    engine(floats, [np.array([seed], np.int64), out, n])
    plain = uniform([philox(seed, k, False)[0] for k in range(n)])
    for row in (0, 1, 2, 7):
        np.testing.assert_array_equal(out[row], plain)
    np.testing.assert_array_equal(out[3], uniform([philox(seed + k, k, False)[0] for k in range(n)]))
    square = uniform([philox(seed, k, False)[0] for k in range(n * n)]).reshape(n, n)
    np.testing.assert_array_equal(out[4], square.max(1))
    np.testing.assert_array_equal(out[5, :2], [plain[5], uniform(philox(7, 0, False)[0])])
    np.testing.assert_array_equal(out[6], uniform([philox(seed, k, False)[3] for k in range(n)]))


@triton.jit
def normals(seed, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.randn(seed, i))
    made = tl.randn4x(seed, i)
    for k in tl.static_range(4):
        tl.store(out + (k + 1) * N + i, made[k])
    _, second = tl.pair_uniform_to_normal(tl.rand(seed, i), tl.rand(seed, i + N))
    tl.store(out + 5 * N + i, second)


def box_muller(u, v):
    radius = np.sqrt(-2 * np.log(np.maximum(1e-7, u.astype(np.float64))))
    return radius * np.cos(2 * np.pi * v), radius * np.sin(2 * np.pi * v)


def test_normal_floats(engine):
    n, seed = 16, 9
    out = np.zeros((6, n), np.float32)
    engine(normals, [seed, out, n])
    u = [uniform(row) for row in np.transpose([philox(seed, k, False) for k in range(2 * n)])]
    first = [x[:n] for x in u]
    want = [*box_muller(first[0], first[1]), *box_muller(first[2], first[3])]
    want = [want[0], *want, box_muller(u[0][:n], u[0][n:])[1]]
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)


@triton.jit
def wide_words(seed, out):
    i = tl.arange(0, 4)
    zero = tl.zeros((4,), tl.uint64)
    a, _b, _c, _d = tl.philox(seed, i.to(tl.uint64), zero, zero, zero)
    tl.static_assert(a.dtype == tl.uint64)
    tl.store(out + i, a)


def test_wide_words(engine):
    out = np.zeros(4, np.uint64)
    engine(wide_words, [9, out])
    np.testing.assert_array_equal(out, np.array([philox64(9, k) for k in range(4)], np.uint64))
