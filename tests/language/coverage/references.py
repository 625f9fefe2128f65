"""The words that the tables' references use beside NumPy: dtypes, and definitions that NumPy lacks."""

import ml_dtypes
import mpmath
import numpy as np

F16, F32, F64, BF16 = np.float16, np.float32, np.float64, ml_dtypes.bfloat16
I8, I16, I32, I64 = np.int8, np.int16, np.int32, np.int64
U8, U16, U32, U64 = np.uint8, np.uint16, np.uint32, np.uint64
E5M2, E4M3 = ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn
E5M2FNUZ, E4M3FNUZ = ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e4m3fnuz
LANES = np.arange(16, dtype=I32)
MASK = (1 << 32) - 1

mp = mpmath.mp.clone()
mp.prec = 100
MODES = {"rn": "n", "rz": "d", "rd": "f", "ru": "c"}  # mpmath's: nearest, down (to zero), floor, ceiling


# --- floats ---------------------------------------------------------------------------------------------------------
def in_f64(function, x):
    """A function of float32 numbers, computed in float64 and rounded."""
    return function(x.astype(F64)).astype(F32)


def rounded(value, dtype, mode="rn"):
    """A real number as one of a float type."""
    if not mp.isfinite(value):
        return dtype(float(value))
    return dtype(float(mp.mpf(value, prec=24 if dtype is F32 else 53, rounding=MODES[mode])))


def real(function, *xs, mode="rn"):
    """A function of real numbers applied to arrays, rounded to the wider of their float types."""
    dtype = F64 if any(x.dtype == F64 for x in xs) else F32
    rows = zip(*[x.tolist() for x in xs])
    return np.array([rounded(mp.mpf(function(*map(mp.mpf, row))), dtype, mode) for row in rows], dtype)


def nearby(x, dtype, mode):
    """Numbers of any type as those of a float type, rounded as `mode` says."""
    return np.array([rounded(mp.mpf(v), dtype, mode) for v in x.tolist()], dtype)


def whole(x, dtype, mode):
    """Floats as integers, rounded as `mode` says."""
    how = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}[mode]
    return how(x.astype(F64)).astype(dtype)


def rsqrt(x):
    """One over the square root."""
    return 1 / np.sqrt(x)


def erf(x):
    """The error function."""
    return np.array([float(mp.erf(v)) for v in np.ravel(x).tolist()], F64).reshape(np.shape(x))


def sigmoid(x):
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=None):
    """Exponentials that sum to one."""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def through(x, dtype):
    """What is left of float16 numbers in a smaller type, as float32."""
    return x.astype(F32).astype(dtype).astype(F32)


def e4b15(x):
    """The nearest number with three bits of mantissa and exponents from -14 up, at most 1.75."""
    _, exponent = np.frexp(x.astype(F64))
    step = np.exp2(np.maximum(exponent, -13).astype(F64) - 4)
    return np.clip(np.rint(x.astype(F64) / step) * step, -1.75, 1.75).astype(F16)


# --- integers -------------------------------------------------------------------------------------------------------
def trunc_div(x, y):
    """Integer division toward zero."""
    y = np.broadcast_to(y, x.shape)
    return np.array([abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in zip(x.tolist(), y.tolist())],
                    x.dtype)


def words(function, dtype, *xs):
    """A function of Python's integers, wrapped into an integer type."""
    bits = np.iinfo(dtype).bits
    wrapped = [function(*row) & (1 << bits) - 1 for row in zip(*[x.tolist() for x in xs])]
    return np.array(wrapped, f"u{bits // 8}").view(dtype)


def byte_perm(a, b, selector):
    """Four of the eight bytes of a and b, by the nibbles of the selector."""
    source = (a & MASK) | (b & MASK) << 32
    return sum((source >> 8 * (selector >> 4 * k & 7) & 255) << 8 * k for k in range(4))


def low24(v):
    """The low 24 bits, as a signed number."""
    v &= 0xFFFFFF
    return v - (1 << 24) if v >> 23 else v


# --- scans and functions of several values ----------------------------------------------------------------------------
def lines(a, b):
    """The functions v -> v * a + b, composed up to each."""
    inside, found = (1, 0), []
    for x, y in zip(a.tolist(), b.tolist()):
        inside = (inside[0] * x, inside[1] * x + y)
        found.append(inside)
    return tuple(np.array([v & MASK for v in part], U32).view(I32) for part in zip(*found))


def swapped(i, j):
    """What a function of pairs gives: the sum of the odd ones, then the difference of the even ones."""
    out = np.empty_like(i)
    out[0::2], out[1::2] = i[1::2] + j[1::2], i[0::2] - j[0::2]
    return out


def swizzle(i, j, size_i, size_j, size_g):
    """Row-major indices walked in groups of `size_g` rows, each group column by column."""
    ij = np.asarray(i * size_j + j)
    first = ij // (size_g * size_j) * size_g
    rows = np.minimum(size_i - first, size_g)
    inside = ij % (size_g * size_j)
    return (first + inside % rows).astype(I32), (inside // rows).astype(I32)


# --- random numbers ---------------------------------------------------------------------------------------------------
def philox(seed, offset, rounds=10, c1=0):
    """The four words of Philox-4x32 for one counter."""
    c = [offset & MASK, offset >> 32 | c1, 0, 0]
    key = [seed & MASK, seed >> 32 & MASK]
    for _ in range(rounds):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ key[0], b & MASK, (a >> 32) ^ c[3] ^ key[1], a & MASK]
        key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
    return c


def randoms(seed, offsets, rounds=10, c1=False):
    """Four uint32 arrays for counters that are not negative."""
    rows = [philox(seed, o, rounds, o if c1 else 0) for o in offsets.tolist()]
    return tuple(np.array(word, U32) for word in zip(*rows))


def uniform(word):
    """Floats in [0, 1) of random words."""
    x = word.view(f"i{word.dtype.itemsize}")
    scale = {4: 4.6566127342e-10, 8: 1.0842020432385337e-19}[word.dtype.itemsize]
    return np.where(x < 0, ~x, x).astype(F32) * F32(scale)


def normal(word1, word2):
    """Two independent normal numbers of two random words."""
    u1, u2 = np.maximum(F64(F32(1e-7)), uniform(word1).astype(F64)), uniform(word2).astype(F64)
    r, angle = np.sqrt(-2 * np.log(u1)), 6.283185307179586 * u2
    return (r * np.cos(angle)).astype(F32), (r * np.sin(angle)).astype(F32)


# --- microscaling -----------------------------------------------------------------------------------------------------
def fp4(codes):
    """The values of e2m1 numbers, two in each byte, the first in the low half, along the last axis."""
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], F32)
    return np.stack([table[codes & 15], table[codes >> 4]], axis=-1).reshape(*codes.shape[:-1], -1)


def scaled(values, exponents):
    """Values times powers of two, one for every 32 along the last axis."""
    return values * np.repeat(np.exp2(exponents.astype(F32) - 127), 32, axis=-1)
