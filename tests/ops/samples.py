"""Sample values of every type: what is special about it, and some of no distinction."""

import numpy as np

from tritium.ir import types as T
from tritium.ops.meaning import np_dtype


def special_codes(t):
    """Bits of the values that break things: zeros, smallest, largest, infinities, nan, neighbours of one."""
    top = 1 << (t.bits - 1)
    if t is T.i1:
        return [0, 1]
    if t.is_int:
        return [0, 1, 2, 3, 7, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, t.bits, t.bits - 1]
    one = t.bias << t.mantissa
    largest = ((1 << t.exponent) - 1 << t.mantissa) - 1
    positive = [0, 1, (1 << t.mantissa) - 1, 1 << t.mantissa, one - 1, one, one + 1, one + (1 << t.mantissa - 1),
                largest, largest + 1, largest + 2, top - 1]
    return positive + [top + code for code in positive]


def random_codes(t, count, seed):
    """Random bits, and random values of ordinary size."""
    rng = np.random.default_rng([seed, t.bits, len(t.name)])
    codes = [int(c) for c in rng.integers(0, 1 << t.bits, count, dtype=np.uint64, endpoint=False)] if t.bits < 64 else \
        [int(c) for c in rng.integers(0, 2**64 - 1, count, dtype=np.uint64, endpoint=True)]
    if t.is_int and t is not T.i1:
        return codes + [int(c) & (1 << t.bits) - 1 for c in rng.integers(-20, 20, count)]
    if t.is_float:
        ordinary = rng.integers(0, 6, count) + t.bias - 3 << t.mantissa
        return codes + [int(o) | (c & (1 << t.mantissa) - 1 | c & 1 << t.bits - 1) for o, c in zip(ordinary, codes)]
    return codes


def array_of(t, codes):
    """A NumPy array, as the interpreter holds type `t`, with these bits."""
    if t is T.i1:
        return np.array(codes, np.bool_)
    return np.array(codes, f"u{t.bytes}").view(np_dtype(t))


def sample(t, count=8, seed=0):
    """All special values and 2 * `count` random ones."""
    return array_of(t, special_codes(t) + random_codes(t, count, seed))


def pairs(t, seed=0):
    """Two arrays that hold every pair of a sample."""
    x, y = sample(t, 4, seed), sample(t, 4, seed + 1)
    return np.repeat(x, len(y)), np.tile(y, len(x))


def operands(t, arity):
    """Arrays for an op of `arity` operands: all samples, all pairs, or pairs with a third shuffled in."""
    if arity == 1:
        return (sample(t, 200 if t.bits > 8 else 0),) if t.bits > 8 else (array_of(t, range(2 if t is T.i1 else 256)),)
    x, y = pairs(t)
    if arity == 2:
        return x, y
    z = sample(t, 4, 2)
    rng = np.random.default_rng(7)
    return x, y, z[rng.integers(0, len(z), len(x))]
