"""Fold constants, cancel what cancels, and bring equal things into one form. Only what is exact to the last bit.

A rule looks at one op and what it is made of, never makes code worse, and has a case in tests/passes/simplify.tir.
"""

from __future__ import annotations

import math

from .. import ops
from ..ir import types as T
from ..ir.core import Op, Result
from ..ir.rewrite import sweep
from ..ops.expand_casts import largest
from .functions import each_function

RULES: dict = {}


@each_function
def simplify(module):
    """The module with every rule applied, operands before users.

    >>> from tritium.ir.text import parse_module
    >>> print(simplify(parse_module('''kernel @f(%x: i32) {
    ...   %0 = constant {value=2, type=i32} : i32
    ...   %1 = constant {value=3, type=i32} : i32
    ...   %2 = mul %0, %1 : i32
    ...   print %2 {prefix=""}
    ... }''')), end="")
    kernel @f(%x: i32) {
      %1 = constant {value=2, type=i32} : i32
      %2 = constant {value=3, type=i32} : i32
      %3 = constant {value=6, type=i32} : i32
      print %3 {prefix=""}
    }
    """
    return sweep(module, apply_rules)


def apply_rules(b, op):
    """The first rule that has something to say about `op`; None if it stays."""
    kind = op.kind
    if kind.elementwise:
        made = _elementwise(b, op)
        if made is not None:
            return made
    for rule in RULES.get(kind, ()):
        made = rule(b, op)
        if made is not None:
            return made
    return kind.fold(b, op) if kind.fold else None


def on(*kinds):
    """Decorator: `rule(b, op)` applies to ops of these kinds."""
    def register(rule):
        for kind in kinds:
            RULES[kind] = (*RULES.get(kind, ()), rule)
        return rule
    return register


# --- numbers ----------------------------------------------------------------------------------------------------
def number(x):
    """The Python number that a constant, or a splat of one, stands for; else None."""
    if type(x) is Op:
        if x.kind is ops.splat:
            x = x.operands[0]
            if type(x) is not Op:
                return None
        if x.kind is ops.constant:
            return x.attrs["value"]
    return None


def full(b, value, type):
    """The constant `value` of a scalar or tile type."""
    made = ops.constant(b, value=value, type=T.element(type))
    return ops.splat(b, made, shape=T.shape(type)) if T.shape(type) else made


def truth(b, value, type):
    return full(b, bool(value), T.with_element(type, T.i1))


def _python(array, t):
    """The Python number in a 0-d array."""
    if t is T.f8e4b15:
        from ..ops.meaning import fp8_values
        return float(fp8_values(t)[array])
    return float(array) if t.is_float else bool(array) if t is T.i1 else int(array)


# --- every elementwise op -----------------------------------------------------------------------------------------
def _elementwise(b, op):
    operands = op.operands
    first = operands[0].kind if type(operands[0]) is Op else None
    if first is not ops.constant and first is not ops.splat:
        return None
    if _all_of(operands, first):
        if first is ops.constant:
            return _fold(b, op)
        # f(splat x, splat y) -> splat f(x, y)
        return ops.splat(b, b.emit(op.kind, [x.operands[0] for x in operands], op.attrs), shape=op.type.shape)
    row = op.kind.row
    if row is not None and row.commutes and number(operands[0]) is not None and number(operands[1]) is None:
        # f(1, x) -> f(x, 1)
        return b.emit(op.kind, operands[::-1], op.attrs)
    return None


def _all_of(xs, kind):
    for x in xs:
        if type(x) is not Op or x.kind is not kind:
            return False
    return True


def _fold(b, op):
    t = op.type
    if type(t) is not T.Scalar or any(type(x.type) is not T.Scalar for x in op.operands):
        return None
    value = _python(op.kind.eval(None, op, *[x.kind.eval(None, x) for x in op.operands]), t)
    if op.kind is ops.bitcast and value != value:
        return None  # a constant has no room for the payload of a NaN
    return ops.constant(b, value=value, type=t)


# --- arithmetic ---------------------------------------------------------------------------------------------------
@on(*[kind for kind in ops.KINDS.values() if kind.row is not None and kind.row.unit is not None])
def unit(b, op):
    """x + 0, x - 0, x * 1, x / 1, x | 0, x & -1, x << 0 -> x"""
    x, y = op.operands
    value = number(y)
    if value is None:
        return None
    t, wanted = T.element(y.type), op.kind.row.unit
    if t.is_float:
        # of the two zeros only -0.0 leaves -0.0 + y alone, and only 0.0 leaves -0.0 - y alone
        wanted = -0.0 if op.kind is ops.add else float(wanted)
        return x if value == wanted and str(float(value)) == str(wanted) else None
    mask = (1 << t.bits) - 1
    return x if int(value) & mask == wanted & mask else None


@on(ops.mul, ops.and_)
def zero(b, op):
    """x * 0, x & 0 -> 0 (integers)"""
    y = op.operands[1]
    return y if T.element(y.type).is_int and number(y) == 0 else None


@on(ops.or_)
def all_ones(b, op):
    """x | -1 -> -1"""
    y = op.operands[1]
    value, bits = number(y), T.element(y.type).bits
    return y if value is not None and int(value) & ((1 << bits) - 1) == (1 << bits) - 1 else None


@on(ops.or_)
def greater_or_equal(b, op):
    """x > y | x == y -> x >= y, and the same of <"""
    for one, other in (op.operands, op.operands[::-1]):
        match one, other:
            case Op(ops.gt | ops.lt as kind, pair), Op(ops.eq, same) if pair in (same, same[::-1]):
                return (ops.ge if kind is ops.gt else ops.le)(b, *pair)
    return None


@on(ops.sub, ops.xor)
def itself_cancels(b, op):
    """x - x, x ^ x -> 0 (integers)"""
    x, y = op.operands
    if x == y and T.element(x.type).is_int:
        return full(b, False if T.element(x.type) is T.i1 else 0, x.type)
    return None


@on(ops.rem)
def no_remainder(b, op):
    """x % 1 -> 0 (integers)"""
    x, y = op.operands
    t = T.element(y.type)
    return full(b, 0, x.type) if t.is_int and t is not T.i1 and number(y) in (1, -1) else None


@on(*[kind for kind in ops.KINDS.values() if kind.row and kind.row.idempotent])
def itself_stays(b, op):
    """x & x, max(x, x) ... -> x"""
    x, y = op.operands
    return x if x == y else None


@on(ops.sub)
def subtract_constant(b, op):
    """x - 3 -> x + -3 (integers)"""
    x, y = op.operands
    value, t = number(y), T.element(y.type)
    if value is None or t.is_float or t is T.i1:
        return None
    return ops.add(b, x, full(b, _wrap(-value, t), y.type))


@on(ops.add, ops.mul)
def two_constants(b, op):
    """(x + 1) + 2 -> x + 3, (x * 2) * 3 -> x * 6 (integers)"""
    x, y = op.operands
    if type(x) is not Op or x.kind is not op.kind or number(y) is None or not T.element(y.type).is_int:
        return None
    z, w = x.operands
    return b.emit(op.kind, (z, b.emit(op.kind, (w, y)))) if number(w) is not None else None


@on(ops.div, ops.rem)
def power_of_two(b, op):
    """x / 8 -> x >> 3, x % 8 -> x & 7 (unsigned)"""
    x, y = op.operands
    value, t = number(y), T.element(y.type)
    if t.kind != "uint" or not value or value & (value - 1):
        return None
    if op.kind is ops.div:
        return ops.shr(b, x, full(b, value.bit_length() - 1, y.type))
    return ops.and_(b, x, full(b, value - 1, y.type))


@on(ops.KINDS["pow"])
def small_power(b, op):
    """pow(x, 1) -> x; pow(x, 2), pow(x, 3), pow(x, 4) -> products; pow(x, -1) -> 1 / x"""
    x, y = op.operands
    value = number(y)
    if value == -1:
        return ops.div(b, full(b, 1.0, x.type), x)
    if value not in (1, 2, 3, 4):
        return None
    square = ops.mul(b, x, x) if value > 1 else x
    return ops.mul(b, square, x if value == 3 else square) if value > 2 else square


@on(ops.abs_)
def no_sign(b, op):
    """abs(x) -> x for types without a sign; abs(abs(x)) -> abs(x)"""
    x, = op.operands
    t = T.element(x.type)
    if t.is_int and not t.signed:
        return x
    return x if type(x) is Op and x.kind is ops.abs_ else None


def _wrap(value, t):
    value &= (1 << t.bits) - 1
    return value - (1 << t.bits) if t.signed and value >> (t.bits - 1) else value


# --- comparison ---------------------------------------------------------------------------------------------------
SWAPPED = {ops.lt: ops.gt, ops.gt: ops.lt, ops.le: ops.ge, ops.ge: ops.le}
OPPOSITE = {ops.eq: ops.ne, ops.ne: ops.eq, ops.lt: ops.ge, ops.ge: ops.lt, ops.gt: ops.le, ops.le: ops.gt}


@on(*SWAPPED)
def constant_right(b, op):
    """3 < x -> x > 3"""
    x, y = op.operands
    return SWAPPED[op.kind](b, y, x) if number(x) is not None and number(y) is None else None


@on(*OPPOSITE)
def with_itself(b, op):
    """x == x, x <= x -> true; x < x -> false (integers)"""
    x, y = op.operands
    if x == y and T.element(x.type).is_int:
        return truth(b, op.kind in (ops.eq, ops.le, ops.ge), x.type)
    return None


@on(ops.lt, ops.gt)
def beyond_infinity(b, op):
    """x < -inf, x > inf -> false"""
    x, y = op.operands
    if T.element(y.type).is_float and number(y) == (-math.inf if op.kind is ops.lt else math.inf):
        return truth(b, False, x.type)
    return None


@on(ops.eq, ops.ne)
def with_truth(b, op):
    """c == true, c != false -> c; c == false, c != true -> c ^ true"""
    x, y = op.operands
    value = number(y)
    if value is None or T.element(y.type) is not T.i1:
        return None
    return x if bool(value) == (op.kind is ops.eq) else ops.xor(b, x, truth(b, True, x.type))


@on(ops.xor)
def negation(b, op):
    """not not c -> c; not (x < y) -> x >= y (floats: only ==, which NaN does not upset)"""
    x, y = op.operands
    value = number(y)
    if value is None or type(x) is not Op:
        return None
    if x.kind is ops.xor and number(x.operands[1]) is not None:
        return ops.xor(b, x.operands[0], ops.xor(b, x.operands[1], y))
    if T.element(y.type) is T.i1 and x.kind in OPPOSITE:
        if T.element(x.operands[0].type).is_int or x.kind in (ops.eq, ops.ne):
            return OPPOSITE[x.kind](b, *x.operands)
    return None


@on(ops.select)
def choose(b, op):
    """select with a known condition, equal sides, a negated condition, or truth values"""
    c, x, y = op.operands
    value = number(c)
    if value is not None:
        return x if value else y
    if x == y:
        return x
    match c:
        case Op(ops.xor, (inner, other)) if number(other) is not None and number(other):
            return ops.select(b, inner, y, x)
    if T.element(x.type) is T.i1:
        nx, ny = number(x), number(y)
        if nx is not None and ny is not None:
            return c if nx else ops.xor(b, c, truth(b, True, c.type))
        if ny is not None and not ny:
            return ops.and_(b, c, x)        # c ? x : false
        if nx is not None and nx:
            return ops.or_(b, c, y)         # c ? true : y
    return None


@on(ops.select)
def extremum_or_nan(b, op):
    """(x > 3 or x is NaN) ? x : 3 -> x <= 3 ? 3 : x, and the same of <"""
    c, x, y = op.operands
    value = number(y)
    if value is None or value != value or type(c) is not Op or c.kind is not ops.or_:
        return None
    for side, other in (c.operands, c.operands[::-1]):
        match side, other:
            case Op(ops.gt | ops.lt as kind, operands), Op(ops.ne, tested) if operands == (x, y) and tested == (x, x):
                return ops.select(b, OPPOSITE[kind](b, x, y), y, x)
    return None


# --- conversions --------------------------------------------------------------------------------------------------
def preserves(a, b):
    """True when every value of scalar type `a` exists in `b`.

    >>> preserves(T.u8, T.i16), preserves(T.i8, T.u16), preserves(T.bf16, T.f32), preserves(T.i32, T.f32)
    (True, False, True, False)
    """
    if type(a) is not T.Scalar or type(b) is not T.Scalar or b is T.i1:
        return a is b
    if a.is_float:
        return a is b or (b.is_float and b.bits > 8 and b.mantissa >= a.mantissa and b.exponent >= a.exponent
                          and 1 - b.bias - b.mantissa <= 1 - a.bias - a.mantissa)
    if b.is_float:
        return a.bits - a.signed <= b.mantissa + 1 and b.bits > 8
    return a is b or (b.bits > a.bits and (b.signed or not a.signed))


@on(ops.cast)
def conversion(b, op):
    """A conversion to the same type, or after another that lost nothing"""
    x, = op.operands
    source, to = T.element(x.type), op.attrs["to"]
    if source is to:
        return x
    if type(x) is not Op or x.kind is not ops.cast or (op.attrs["rounding"], x.attrs["rounding"]) != (None, None):
        return None
    inner = x.operands[0]
    first = T.element(inner.type)
    if type(first) is not T.Scalar or type(to) is not T.Scalar or type(source) is not T.Scalar:
        return None
    low_bits = all(t.is_int and t is not T.i1 for t in (first, source, to)) and to.bits <= source.bits
    through_float = first.is_int and source.is_float and (to.is_int or to.bits == 8)
    if low_bits or (preserves(first, source) and not through_float):
        return ops.cast(b, inner, to=to)
    return None


@on(ops.cast)
def saturated_anyway(b, op):
    """A bound that the type converted to has itself, of a number that is no nan"""
    x, = op.operands
    to = op.attrs["to"]
    if type(x) is not Op or x.kind not in EXTREMES or not T.element(x.type).is_float or op.attrs["rounding"]:
        return None
    y, bound = x.operands[0], number(x.operands[1])
    if bound is None or type(y) is not Op or y.kind not in EXTREMES:
        return None
    other, (least, most) = number(y.operands[1]), _range(to)
    if other is None or other != other:
        return None
    return ops.cast(b, y, to=to) if (bound >= most if x.kind is ops.min_ else bound <= least) else None


EXTREMES = (ops.min_, ops.max_)


def _range(t):
    """The numbers at which conversions of floats to a type saturate: none where it has infinities.

    >>> _range(T.i8), _range(T.u8), _range(T.f8e4nv), _range(T.f16)
    ((-128, 127), (0, 255), (-448.0, 448.0), (-inf, inf))
    """
    if type(t) is not T.Scalar or t is T.i1 or t.bits > 8 and t.is_float:
        return -math.inf, math.inf
    if t.is_float:
        return -largest(t), largest(t)
    return (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.signed else (0, (1 << t.bits) - 1)


@on(ops.bitcast)
def bits(b, op):
    """bitcast to the same type, or of a bitcast"""
    x, = op.operands
    if T.element(x.type) is op.attrs["to"]:
        return x
    return ops.bitcast(b, x.operands[0], to=op.attrs["to"]) if type(x) is Op and x.kind is ops.bitcast else None


@on(ops.addptr)
def no_offset(b, op):
    """p + 0 -> p; (p + 1) + 2 -> p + 3"""
    p, offset = op.operands
    value = number(offset)
    if value is None:
        return None
    if int(value) == 0:
        return p
    match p:
        case Op(ops.addptr, (start, first)) if (before := number(first)) is not None:
            total = int(before) + int(value)
            return ops.addptr(b, start, full(b, total, T.with_element(offset.type, T.i64)))
    return None


# --- shapes -------------------------------------------------------------------------------------------------------
@on(ops.reshape, ops.broadcast, ops.expand_dims, ops.trans)
def of_splat(b, op):
    """A splat in another shape is a splat"""
    x, = op.operands
    if type(x) is not Op or x.kind is not ops.splat:
        return None
    scalar, dims = x.operands[0], T.shape(op.type)
    return ops.splat(b, scalar, shape=dims) if dims else scalar


@on(ops.arange)
def range_of_one(b, op):
    """A range of one number is that number"""
    start = op.attrs["start"]
    return full(b, start, op.type) if op.attrs["end"] == start + 1 else None


@on(ops.reshape, ops.broadcast)
def same_shape(b, op):
    """reshape or broadcast to the shape it has"""
    x, = op.operands
    return x if x.type is op.type else None


@on(ops.broadcast)
def broadcast_twice(b, op):
    """broadcast of a broadcast"""
    x, = op.operands
    if type(x) is Op and x.kind is ops.broadcast:
        return ops.broadcast(b, x.operands[0], shape=op.attrs["shape"])
    return None


@on(ops.reshape)
def reshape_twice(b, op):
    """reshape of a reshape or expand_dims; an inserted axis is expand_dims"""
    x, = op.operands
    if type(x) is Op and x.kind in (ops.reshape, ops.expand_dims):
        reorder = op.attrs["reorder"] or x.attrs.get("reorder", False)
        return ops.reshape(b, x.operands[0], shape=op.attrs["shape"], reorder=reorder)
    old, new = T.shape(x.type), T.shape(op.type)
    if len(new) == len(old) + 1 and old:
        for axis in range(len(new)):
            if new[axis] == 1 and new[:axis] + new[axis + 1:] == old:
                return ops.expand_dims(b, x, axis=axis)
    return None


@on(ops.trans)
def transpose(b, op):
    """trans in order, or of a trans"""
    x, = op.operands
    order = tuple(op.attrs["order"])
    if order == tuple(range(len(order))):
        return x
    if type(x) is Op and x.kind is ops.trans:
        return ops.trans(b, x.operands[0], order=tuple(x.attrs["order"][k] for k in order))
    return None


@on(ops.split)
def split_join(b, op):
    """split(join(x, y)) -> x, y"""
    x, = op.operands
    return x.operands if type(x) is Op and x.kind is ops.join else None


@on(ops.join)
def join_split(b, op):
    """join of the two halves of x -> x"""
    match op.operands:
        case (Result(Op(ops.split, (x,)) as halves, 0), Result(other, 1)) if halves is other:
            return x
    return None


@on(ops.extract)
def extracted(b, op):
    """The element of a splat, or the one just inserted"""
    x, *index = op.operands
    match x:
        case Op(ops.splat, (value,)):
            return value
        case Op(ops.insert, (_, value, *at)) if index == list(at):
            return value
    return None


@on(ops.hint)
def promise(b, op):
    """A promise about a constant, or no promise"""
    x, = op.operands
    return x if number(x) is not None or all(v is None for v in op.attrs.values()) else None


from . import simplify_control  # noqa: E402,F401  (adds the rules for memory, reductions, loops and branches)
