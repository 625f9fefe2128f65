"""Promotion: the table of the language reference, cell by cell, and what its rules say in words."""

import pytest
from builders import Bench, element

from tritium.ir import types as T
from tritium.language.builtins import operators
from tritium.language.types import promotion
from tritium.language.types.values import literal_type

# Tensor with tensor for + - *, comparisons, where, minimum: the upper half, as the reference prints it.
GOLDEN = """
      i1   i8   u8   i16  u16  i32  u32  i64  u64  f8   f16  bf16 f32  f64
i1    i1   i8   u8   i16  u16  i32  u32  i64  u64  ERR  f16  f32  f32  f64
i8         i8   u8   i16  u16  i32  u32  i64  u64  ERR  f16  f32  f32  f64
u8              u8   i16  u16  i32  u32  i64  u64  ERR  f16  f32  f32  f64
i16                  i16  u16  i32  u32  i64  u64  ERR  f16  f32  f32  f64
u16                       u16  i32  u32  i64  u64  ERR  f16  f32  f32  f64
i32                            i32  u32  i64  u64  ERR  f16  f32  f32  f64
u32                                 u32  i64  u64  ERR  f16  f32  f32  f64
i64                                      i64  u64  ERR  f16  f32  f32  f64
u64                                           u64  ERR  f16  f32  f32  f64
f16                                                     f16  f16  f32  f64
bf16                                                         bf16 f32  f64
f32                                                               f32  f64
f64                                                                    f64
"""
F8 = [t for t in T.FLOATS if t.bits == 8]
EVERY = list(T.SCALARS.values())


def golden():
    head, *rows = GOLDEN.strip("\n").split("\n")
    columns = head.split()
    for row in rows:
        name, *cells = row.split()
        for column, cell in zip(columns[-len(cells):], cells):
            yield name, column, cell


@pytest.mark.parametrize("x, y, expected", list(golden()))
def test_the_printed_table(x, y, expected):
    for left, right in ((x, y), (y, x)):
        left, right = (F8[0] if name == "f8" else T.SCALARS[name] for name in (left, right))
        if expected == "ERR":
            with pytest.raises(TypeError, match="unexpected type"):
                promotion.promote(left, right)
        else:
            assert promotion.promote(left, right).name == expected


def in_words(x, y, division, eight_bits=False):
    """Regime T of the reference, rule by rule; None where it is an error. With `eight_bits`, 8-bit floats divide."""
    x, y = (T.f32 if eight_bits and kind in F8 else kind for kind in (x, y))
    kinds = {x, y}
    half = T.f32 if division else T.f16
    for wide in (T.f64, T.f32):
        if wide in kinds:
            return wide
    if T.f16 in kinds:
        return half
    if T.bf16 in kinds:
        return (T.f32 if division else T.bf16) if kinds == {T.bf16} else T.f32
    if x in F8 and y in F8:
        return x if x is y else half
    if x in F8 or y in F8:
        return None
    if x.signed == y.signed:
        return x if x.bits >= y.bits else y
    if division:
        return None
    unsigned, signed = (y, x) if x.signed else (x, y)
    return unsigned if unsigned.bits >= signed.bits else signed


@pytest.mark.parametrize("symbol", ["+", "/", "//", "%"])
def test_every_pair_follows_the_rules(symbol):
    for x in EVERY:
        for y in EVERY:
            expected = in_words(x, y, symbol in promotion.DIVISIONS, symbol in "/%")
            if expected is None:
                with pytest.raises(TypeError, match=r"unexpected type|different signedness"):
                    promotion.promote(x, y, symbol)
            else:
                assert promotion.promote(x, y, symbol) is expected, (x, y, symbol)


@pytest.mark.parametrize("value, expected", [
    (True, T.i1), (0, T.i32), (2**31 - 1, T.i32), (-(2**31), T.i32), (2**31, T.u32), (2**32 - 1, T.u32),
    (2**32, T.i64), (-(2**31) - 1, T.i64), (-(2**63), T.i64), (2**63 - 1, T.i64), (2**63, T.u64), (2**64 - 1, T.u64),
    (0.0, T.f32), (-0.0, T.f32), (float("inf"), T.f32), (float("nan"), T.f32), (2.0**-126, T.f32), (1e-40, T.f64),
    ((2 - 2**-23) * 2.0**127, T.f32), (1e39, T.f64), (-1e39, T.f64),
])
def test_literals(value, expected):
    assert literal_type(value) is expected


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_integers_beyond_64_bits_have_no_type(value):
    with pytest.raises(ValueError, match="Nonrepresentable integer"):
        literal_type(value)


INTS = [t for t in T.INTS if t is not T.i1]


@pytest.mark.parametrize("tensor", EVERY, ids=str)
def test_numbers_adapt_to_the_tensor(tensor):
    """The table of tensors with Python numbers."""
    assert promotion.promote_number(tensor, True) is tensor
    for number, wide in ((3.5, T.f32), (1e300, T.f64)):
        assert promotion.promote_number(tensor, number) is (tensor if tensor.is_float else wide)
    if tensor is T.i1:
        for number, kind in ((1, T.i32), (2**31, T.u32), (2**40, T.i64), (2**63, T.u64)):
            assert promotion.promote_number(tensor, number) is kind
    else:
        assert promotion.promote_number(tensor, 1) is tensor


@pytest.mark.parametrize("tensor, number, symbol, expected", [
    (T.f16, 2, "/", T.f32), (T.bf16, 2.0, "%", T.f32), (T.f32, 2, "/", T.f32), (T.f64, 2, "/", T.f64),
    (T.i32, 3, "//", T.i32), (T.u8, 3, "%", T.u8), (T.i1, 2**31, "//", T.u32),
])
def test_division_by_a_number(tensor, number, symbol, expected):
    assert promotion.promote_number(tensor, number, symbol) is expected


def test_division_of_bools_by_signed_numbers_is_refused():
    with pytest.raises(TypeError, match="because they have different signedness"):
        promotion.promote_number(T.i1, 3, "//")


@pytest.mark.parametrize("tensor, number, message", [
    (T.u8, -1, "unsigned tensor and a negative scalar"), (T.u8, 300, "is out of range for type uint8"),
    (T.i32, 2**40, "is out of range for type int32"), (T.i8, -129, "is out of range for type int8"),
])
def test_numbers_that_do_not_fit(tensor, number, message):
    with pytest.raises(ValueError, match=message) as raised:
        promotion.promote_number(tensor, number)
    assert raised.value.hint


@pytest.mark.parametrize("symbol", ["+", "-", "*"])
def test_operators_use_the_table(symbol):
    b = Bench()
    for x in EVERY:
        for y in EVERY:
            expected = in_words(x, y, division=False)
            if expected is not None:
                out = operators.binary(b, symbol, b.tile(x, 4), b.tile(y, 4))
                assert element(out) == expected.name, (x, y)
                assert out.shape == (4,)
