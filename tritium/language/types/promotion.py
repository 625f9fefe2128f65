"""Promotion: which type two operands are brought to. One table, and the rule for Python numbers.

    >>> promote(T.i32, T.bf16), promote(T.f16, T.bf16), promote(T.i8, T.u8)
    (f32, f16, u8)
    >>> promote_number(T.f16, 1.0), promote_number(T.i8, 2.5), promote_number(T.f16, 2, "/")
    (f16, f32, f32)
"""

from __future__ import annotations

from functools import reduce

from tritium.errors import fail
from tritium.ir import types as T

from .dtypes import from_ir
from .values import literal_type

# Tensor with tensor; symmetric. "f8" is any 8-bit float: two of one kind stay, two kinds meet in f16. "-": no rule.
_TABLE = """
        i1    i8    u8    i16   u16   i32   u32   i64   u64   f8    f16   bf16  f32   f64
i1      i1    i8    u8    i16   u16   i32   u32   i64   u64   -     f16   f32   f32   f64
i8      i8    i8    u8    i16   u16   i32   u32   i64   u64   -     f16   f32   f32   f64
u8      u8    u8    u8    i16   u16   i32   u32   i64   u64   -     f16   f32   f32   f64
i16     i16   i16   i16   i16   u16   i32   u32   i64   u64   -     f16   f32   f32   f64
u16     u16   u16   u16   u16   u16   i32   u32   i64   u64   -     f16   f32   f32   f64
i32     i32   i32   i32   i32   i32   i32   u32   i64   u64   -     f16   f32   f32   f64
u32     u32   u32   u32   u32   u32   u32   u32   i64   u64   -     f16   f32   f32   f64
i64     i64   i64   i64   i64   i64   i64   i64   i64   u64   -     f16   f32   f32   f64
u64     u64   u64   u64   u64   u64   u64   u64   u64   u64   -     f16   f32   f32   f64
f8      -     -     -     -     -     -     -     -     -     f16   f16   f32   f32   f64
f16     f16   f16   f16   f16   f16   f16   f16   f16   f16   f16   f16   f16   f32   f64
bf16    f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f16   bf16  f32   f64
f32     f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   f64
f64     f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   f64
"""

DIVISIONS = ("/", "//", "%")


def _read(table):
    head, *rows = (line.split() for line in table.strip().split("\n"))
    cells = {(row[0], column): cell for row in rows for column, cell in zip(head, row[1:], strict=True)}

    def name(t):
        return "f8" if is_fp8(t) else t.name

    everything = T.SCALARS.values()
    return {(x, y): x if x is y else T.SCALARS.get(cells[name(x), name(y)]) for x in everything for y in everything}


def is_fp8(t):
    """Whether an IR type is an 8-bit float."""
    return type(t) is T.Scalar and t.is_float and t.bits == 8


PROMOTE = _read(_TABLE)


def promote(x, y, symbol="+"):
    """The IR type in which `x symbol y` is computed, for two tensors' element types."""
    if symbol == "/" or symbol == "%":  # 8-bit floats are divided as f32, also by integers
        x, y = (T.f32 if is_fp8(kind) else kind for kind in (x, y))
    kind = PROMOTE.get((x, y))
    if kind is None:
        what = "unexpected type" if (x, y) in PROMOTE else "invalid operands of type"
        hint = "convert the 8-bit float with .to(tl.float16) first" if is_fp8(x) or is_fp8(y) else None
        raise fail(TypeError, f"{what} {from_ir(x)} and {from_ir(y)} for {symbol}", hint=hint)
    if symbol in DIVISIONS:
        if kind.is_int and x.signed != y.signed:
            raise fail(TypeError, f"Cannot use {symbol} with {from_ir(x)} and {from_ir(y)} because they have different "
                       "signedness", hint=f"cast one side, for instance with .to(tl.{from_ir(x if x.signed else y)})")
        return _division_kind(kind, symbol)
    return kind


def promote_number(tensor_kind, value, symbol="+"):
    """The IR type in which a tensor of `tensor_kind` meets the Python number `value`."""
    if type(tensor_kind) is T.Ptr:
        return promote(tensor_kind, literal_type(value), symbol)
    return promote_numbers(tensor_kind, [value], symbol)


def promote_numbers(tensor_kind, numbers, symbol="+"):
    """The IR type in which tensors of common type `tensor_kind` meet several Python numbers.

    >>> promote_numbers(T.f16, [1, 2.5]), promote_numbers(T.i8, [1, 2.5])
    (f16, f32)
    """
    theirs = reduce(promote, map(literal_type, numbers))
    if _rank(theirs) <= _rank(tensor_kind):
        kind = _division_kind(tensor_kind, symbol) if symbol in DIVISIONS else tensor_kind
    else:
        kind = promote(tensor_kind, theirs, symbol)
    if kind.is_int:
        for value in numbers:
            check_fits(kind, value)
    return kind


def check_fits(kind, value):
    """Refuse a Python number that an integer type does not have."""
    name = from_ir(kind)
    if value < 0 and not kind.signed:
        raise fail(ValueError, "Cannot perform a binary operation between an unsigned tensor and a negative scalar: "
                   f"{value} is not a {name}", hint="cast the tensor to a signed type first")
    if not name.get_int_min_value() <= value <= name.get_int_max_value():
        raise fail(ValueError, f"Scalar {value} is out of range for type {name}",
                   hint="cast the tensor to a wider type first, for instance with .to(tl.int64)")


def _rank(kind):
    """bool < integer < float."""
    return 2 if kind.is_float else int(kind is not T.i1)


def _division_kind(kind, symbol):
    """Division of 16- and 8-bit floats is done, and stays, in f32."""
    return T.f32 if kind is T.f16 or kind is T.bf16 or (is_fp8(kind) and symbol != "//") else kind
