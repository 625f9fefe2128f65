"""Casts between all types against exact arithmetic: every 8- and 16-bit value, and samples of the wider types."""

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.ops.exact import allowed, codes, decode, is_special, largest, rounded, same, values, wrap
from tests.ops.samples import array_of, random_codes, sample, special_codes
from tritium import ops
from tritium.ir import types as T
from tritium.ir.core import Arg, Op
from tritium.ops.meaning import fp8_values, np_dtype

TYPES = tuple(T.SCALARS.values())
SMALL_FLOATS = (T.f8e5, T.f8e5b16, T.f8e4nv, T.f8e4b8, T.f8e4b15)


def cast(x, source, target, rounding=None):
    attrs = {"to": target, "rounding": rounding}
    op = Op(ops.cast, (Arg(T.Tile(x.shape, source)),), attrs, (T.Tile(x.shape, target),))
    return ops.cast.eval(None, op, x)


def every(t):
    """All values of an 8-bit type; of a larger one, samples with the ties of every narrower float among them."""
    if t.bits <= 8:
        return array_of(t, range(1 << t.bits))
    found = special_codes(t) + random_codes(t, 200, 5)
    if t in (T.f32, T.f64):
        for narrow in T.FLOATS:
            if narrow.bits < t.bits:
                found += ties(t, narrow)
    return array_of(t, found)


def ties(t, narrow):
    """Bits of `t` half way between two values of `narrow`, and their neighbours."""
    rng = np.random.default_rng(narrow.bits)
    out = []
    for code in rng.integers(0, (1 << narrow.bits - 1) - 2, 60).tolist():
        low, high = decode(narrow, code), decode(narrow, code + 1)
        if is_special(low) or is_special(high):
            continue
        middle = rounded(t, (Fraction(low) + Fraction(high)) / 2)
        bits = code_of(t, middle)
        out += [bits, bits + 1, max(bits - 1, 0), bits | 1 << t.bits - 1]
    return out


def code_of(t, value):
    """Bits of a value of f32 or f64."""
    return codes(np.array([float(value)], np_dtype(t)))[0]


def expected_cast(x, source, target):
    if target is T.i1:
        return int(x != 0)
    if target.is_int:
        if source.is_int:
            return wrap(target, x)
        if is_special(x) and math.isnan(x):
            return 0
        low, high = (-(1 << target.bits - 1), (1 << target.bits - 1) - 1) if target.signed else (0, 2**target.bits - 1)
        if is_special(x):
            return high if x > 0 else low
        return min(max(math.trunc(x), low), high)
    if source.is_int and target is not T.f64:
        x = rounded(T.f32, Fraction(x) or 0.0)
    if target.bits == 8 and not source.is_int:
        x = rounded(T.f32, x)
    return rounded(target, Fraction(x) if isinstance(x, int) and x else x, saturate=target.bits == 8)


@pytest.mark.parametrize("source, target", list(itertools.product(TYPES, TYPES)), ids=str)
def test_cast(source, target):
    if source is T.f8e4b15 and target is T.f8e4b15:
        return
    x = every(source)
    out = cast(x, source, target)
    assert out.dtype == np_dtype(target) and out.shape == x.shape
    for value, got in zip(values(source, x), values(target, out)):
        expected = value if source is target else expected_cast(value, source, target)
        assert allowed(target, got, value, expected), \
            f"{source} {value!r} -> {target} is {got!r}, expected {expected!r}"


def nearest(x, t):
    """float64 -> the nearest value of a small float type, from a table of all its values; ties to the even code."""
    finite = [(v, code) for code in range(1 << t.bits - 1) if not is_special(v := decode(t, code)) and v <= largest(t)]
    table = np.array([float(v) for v, _ in finite])
    above = np.searchsorted(table, np.abs(x)).clip(1, len(table) - 1)
    low, high, size = table[above - 1], table[above], np.abs(x)
    up = (size - low > high - size) | ((size - low == high - size) & (above % 2 == 0))
    out = np.where(up, high, low)
    if t.bits > 8:  # past the last tie lies infinity
        out = np.where(size - table[-1] >= (table[-1] - table[-2]) / 2, np.inf, out)
    out = np.where(np.isnan(x), 1.75 if t is T.f8e4b15 else np.nan, out)
    return np.where(out == 0, 0.0, np.copysign(out, x)) if t.special == "fnuz" else np.copysign(out, x)


SMALL = [t for t in T.FLOATS if t.bits <= 16]
EVERY_16_BIT = [(s, t) for s in TYPES if s.bits == 16 for t in SMALL if s is not t]


@pytest.mark.parametrize("source, target", EVERY_16_BIT, ids=str)
def test_cast_of_every_16_bit_value(source, target):
    x = array_of(source, range(1 << 16))
    out = cast(x, source, target)
    out = fp8_values(target)[out] if target is T.f8e4b15 else out.astype(np.float64)
    expected = nearest(x.astype(np.float64), target)
    if target is T.f8e4b15:
        nan = np.isnan(x)
        assert (np.abs(out[nan]) == 1.75).all()
        out, expected = out[~nan], expected[~nan]
    assert np.array_equal(out, expected, equal_nan=True) and np.array_equal(np.signbit(out[~np.isnan(out)]),
                                                                            np.signbit(expected[~np.isnan(out)]))


@pytest.mark.parametrize("source, target", [(s, t) for s in T.FLOATS for t in T.FLOATS if t.bits < s.bits], ids=str)
def test_cast_towards_zero(source, target):
    x = every(source)
    for value, got in zip(values(source, x), values(target, cast(x, source, target, "rtz"))):
        saturate = target.bits == 8
        expected = rounded(target, value, towards_zero=True, saturate=saturate)
        assert allowed(target, got, value, expected), \
            f"{source} {value!r} -> {target} is {got!r}, expected {expected!r}"


@pytest.mark.parametrize("t", [t for t in SMALL_FLOATS if t is not T.f8e4b15], ids=str)
def test_values_are_those_of_ml_dtypes(t):
    """The 256 values of each 8-bit float that ml_dtypes knows."""
    ours = [decode(t, code) for code in range(256)]
    theirs = np.arange(256, dtype=np.uint8).view(np_dtype(t)).astype(np.float64)
    for code in range(256):
        assert same(float(ours[code]), float(theirs[code])), f"{t} code {code:#x}"
    assert largest(t) == Fraction(float(ml_dtypes.finfo(np_dtype(t)).max))


def test_values_of_e4b15():
    assert [float(v) for v in fp8_values(T.f8e4b15)] == [float(decode(T.f8e4b15, c)) for c in range(256)]


# LANGUAGE's golden values: what NVIDIA's saturating conversion gives
GOLDEN_FP8 = {
    T.f8e4nv: {1.0625: 1.0, 1.1875: 1.25, 500.0: 448.0, -500.0: -448.0, math.inf: 448.0, 0.001: 0.001953125,
               1.9375: 2.0},
    T.f8e5: {1.0625: 1.0, 1.1875: 1.25, 500.0: 512.0, math.inf: 57344.0, 0.001: 0.0009765625, 1.9375: 2.0},
}


@pytest.mark.parametrize("t", GOLDEN_FP8, ids=str)
def test_golden_fp8(t):
    x = np.array([*GOLDEN_FP8[t], math.nan], np.float32)
    out = cast(x, T.f32, t).astype(np.float64)
    assert out[:-1].tolist() == list(GOLDEN_FP8[t].values()) and math.isnan(out[-1])


def test_golden_small():
    def one(value, source, target):
        return cast(np.array([value], np_dtype(source)), source, target)[0]
    assert [one(v, T.i32, T.i1) for v in (2, 256, -1, 0)] == [True, True, True, False]
    assert one(math.nan, T.f32, T.i1) and not one(-0.0, T.f32, T.i1)
    assert one(256, T.i32, T.i8) == 0 and one(-1, T.i32, T.u8) == 255
    assert one(1 + 2.0**-8 + 2.0**-40, T.f64, T.bf16) == 1 + 2.0**-7  # one rounding, not two


@pytest.mark.parametrize("t", [t for t in TYPES if t.is_int or t.bits > 8], ids=str)
def test_pointer_casts(t):
    p = np.array([0, 1, 2**63, 2**64 - 8], np.uint64)
    if t is T.i1:
        assert cast(p, T.Ptr(T.f32), t).tolist() == [False, True, True, True]
    elif t in (T.i64, T.u64):
        assert cast(p, T.Ptr(T.f32), t).tolist() == [wrap(t, v) for v in p.tolist()]
        assert cast(cast(p, T.Ptr(T.f32), t), t, T.Ptr(T.i8)).tolist() == p.tolist()


@pytest.mark.parametrize("source, target", [(s, t) for s in TYPES for t in TYPES if s.bits == t.bits], ids=str)
def test_bitcast_keeps_the_bits(source, target):
    x = sample(source, 4)
    op = Op(ops.bitcast, (Arg(T.Tile(x.shape, source)),), {"to": target}, (T.Tile(x.shape, target),))
    out = ops.bitcast.eval(None, op, x)
    assert out.dtype == np_dtype(target) and codes(out) == codes(x)


def test_bitcast_refuses_other_widths():
    with pytest.raises(TypeError, match="f32 has 32 bits, i64 has 64"):
        ops.bitcast.infer(T.f32, to=T.i64)
