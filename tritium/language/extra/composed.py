"""Functions of the device library that are compositions of simple ops. Each takes tensors and the result's kind."""

from __future__ import annotations

from tritium.ir import types as T

from ..builtins.casting import bitcast, convert, splat_constant
from ..builtins.deferred import ops
from ..types.values import tensor


def _kind(x):
    return T.element(x.handle.type)


def _emit(b, op, *xs):
    return tensor(getattr(ops, op)(b, *[x.handle for x in xs]))


def _number(b, like, value):
    return tensor(splat_constant(b, value, like.handle.type))


def _choose(b, cond, x, y):
    return _emit(b, "select", cond, x, y)


def _row(b, name, *xs):
    from .library import row_of
    return tensor(row_of(name)(b, *[x.handle for x in xs]))


COMPOSED: dict = {}


def composed(*names):
    """Decorator: a composition, under each of the names."""
    def declare(fn):
        COMPOSED.update(dict.fromkeys(names, fn))
        return fn
    return declare


# ---------------------------------------------------------------------------------------------------------------------
# Bits


@composed("float_as_int", "float_as_uint", "int_as_float", "uint_as_float", "double_as_longlong", "longlong_as_double")
def reinterpret(b, x, result):
    """The same bits as another type."""
    return bitcast(b, x, result)


@composed("double2loint")
def low_word(b, x, result):
    """The low 32 bits."""
    return convert(b, bitcast(b, x, T.i64), T.i32)


@composed("double2hiint")
def high_word(b, x, result):
    """The high 32 bits."""
    bits = bitcast(b, x, T.i64)
    return convert(b, _emit(b, "shr", bits, _number(b, bits, 32)), T.i32)


@composed("hiloint2double")
def from_words(b, high, low, result):
    """The float64 whose high and low 32 bits are given."""
    high, low = convert(b, high, T.u64), convert(b, convert(b, low, T.u32), T.u64)
    return bitcast(b, _emit(b, "or_", _shifted(b, "shl", high, 32), low), T.f64)


def _shifted(b, op, x, count):
    return _emit(b, op, x, _number(b, x, count))


@composed("ffs")
def find_first_set(b, x, result):
    """The 1-based place of the lowest set bit; 0 for 0. x ^ (x - 1) has ones up to and including it."""
    zero = _number(b, x, 0)
    below = _emit(b, "xor", x, _emit(b, "sub", x, _number(b, x, 1)))
    return _choose(b, _emit(b, "eq", x, zero), zero, _emit(b, "popc", below))


@composed("byte_perm")
def byte_perm(b, x, y, selector, result):
    """Four bytes picked by four nibbles (three bits of each) of the selector from the eight of y and x."""
    x, y, selector = (convert(b, convert(b, v, T.u32), T.u64) for v in (x, y, selector))
    both = _emit(b, "or_", _shifted(b, "shl", y, 32), x)
    total = None
    for k in range(4):
        place = _emit(b, "and_", _shifted(b, "shr", selector, 4 * k), _number(b, x, 7))
        byte = _emit(b, "and_", _emit(b, "shr", both, _shifted(b, "shl", place, 3)), _number(b, x, 255))
        part = _shifted(b, "shl", byte, 8 * k)
        total = part if total is None else _emit(b, "or_", total, part)
    return convert(b, total, T.u32)


# ---------------------------------------------------------------------------------------------------------------------
# Integers


@composed("mul24")
def mul24(b, x, y, result):
    """The low 32 bits of the product of the low 24 bits, with the sign of signed types."""
    narrow = [_shifted(b, "shr", _shifted(b, "shl", v, 8), 8) for v in (x, y)]
    return _emit(b, "mul", *narrow)


@composed("hadd")
def halving_add(b, x, y, result):
    """(x + y) / 2 rounded down, without overflow: x + y = 2 (x & y) + (x ^ y)."""
    return _emit(b, "add", _emit(b, "and_", x, y), _shifted(b, "shr", _emit(b, "xor", x, y), 1))


@composed("rhadd")
def rounding_halving_add(b, x, y, result):
    """(x + y + 1) / 2 rounded down, without overflow: x + y = 2 (x | y) - (x ^ y)."""
    return _emit(b, "sub", _emit(b, "or_", x, y), _shifted(b, "shr", _emit(b, "xor", x, y), 1))


@composed("sad")
def sum_of_absolute_difference(b, x, y, z, result):
    """|x - y| + z."""
    distance = _emit(b, "sub", _emit(b, "max_", x, y), _emit(b, "min_", x, y))
    return _emit(b, "add", convert(b, distance, T.u32), z)


# ---------------------------------------------------------------------------------------------------------------------
# Conversions


def _to_int(rounding, unsigned):
    def run(b, x, result):
        whole = _emit(b, rounding, x) if rounding else x
        return convert(b, whole, T.SCALARS[f"u{result.bits}"] if unsigned else result)
    run.__doc__ = "Float to integer, rounded as the name says; results of unsigned conversions are typed signed."
    return run


for _source in ("float", "double"):
    for _target, _unsigned in (("int", False), ("uint", True), ("ll", False), ("ull", True)):
        for _suffix, _rounding in (("rn", "rint"), ("rz", None), ("rd", "floor"), ("ru", "ceil")):
            composed(f"{_source}2{_target}_{_suffix}")(_to_int(_rounding, _unsigned))


@composed("int2float_rn", "uint2float_rn", "ll2float_rn", "ull2float_rn", "ll2double_rn", "ull2double_rn",
          "int2double_rn", "uint2double_rn", "double2float_rn")  # fmt: skip
def to_nearest(b, x, result):
    """The nearest float, halves to even: what a plain cast gives."""
    return convert(b, x, result)


@composed("llrint")
def llrint(b, x, result):
    """The nearest integer, halves to even."""
    return convert(b, _emit(b, "rint", x), T.i64)


@composed("llround")
def llround(b, x, result):
    """The nearest integer, halves away from zero."""
    return convert(b, _emit(b, "round_", x), T.i64)


# ---------------------------------------------------------------------------------------------------------------------
# Classification


@composed("isnan")
def is_nan(b, x, result):
    """Only NaN differs from itself."""
    return _emit(b, "ne", x, x)


@composed("isinf")
def is_infinite(b, x, result):
    """|x| is infinite."""
    return _emit(b, "eq", _emit(b, "abs_", x), _number(b, x, float("inf")))


@composed("finitef", "isfinited")
def is_finite(b, x, result):
    """|x| is less than infinity; NaN is not."""
    return _emit(b, "lt", _emit(b, "abs_", x), _number(b, x, float("inf")))


@composed("signbit")
def sign_bit(b, x, result):
    """1 if the sign bit is set."""
    bits = bitcast(b, x, T.SCALARS[f"u{_kind(x).bits}"])
    return convert(b, _shifted(b, "shr", bits, _kind(x).bits - 1), T.i32)


@composed("ilogb")
def exponent(b, x, result):
    """The exponent as an integer; the smallest one for 0 and NaN, the largest for infinity."""
    power = _row(b, "logb", x)
    smallest, largest = (tensor(splat_constant(b, v, T.with_element(x.handle.type, T.i32)))
                         for v in (-(1 << 31), (1 << 31) - 1))
    finite = is_finite(b, power, T.i1)
    whole = convert(b, _choose(b, finite, power, _number(b, x, 0)), T.i32)
    infinite = _emit(b, "gt", power, _number(b, x, 0))  # false for NaN and for -inf, the exponent of 0
    return _choose(b, finite, whole, _choose(b, infinite, largest, smallest))


# ---------------------------------------------------------------------------------------------------------------------
# Floats


@composed("abs")
def absolute(b, x, result):
    """|x|."""
    return _emit(b, "abs_", x)


@composed("saturatef")
def saturate(b, x, result):
    """x between 0 and 1; NaN gives 0."""
    return _emit(b, "min_", _emit(b, "max_", x, _number(b, x, 0)), _number(b, x, 1))


@composed("fdim")
def positive_difference(b, x, y, result):
    """x - y where it is positive, else 0; NaN stays."""
    return _choose(b, _emit(b, "le", x, y), _number(b, x, 0), _emit(b, "sub", x, y))


def _reciprocal(row):
    def run(b, x, result):
        return _row(b, row, _number(b, x, 1), x)
    run.__doc__ = "1 / x, rounded as the name says."
    return run


for _suffix in ("rn", "rz", "rd", "ru"):
    composed(f"rcp_{_suffix}")(_reciprocal(f"div_{_suffix}"))


@composed("rcp64h")
def rough_reciprocal(b, x, result):
    """1 / x from the high word of x, the low word of the result being 0."""
    top = (1 << 64) - (1 << 32)
    mask = lambda v: bitcast(b, _emit(b, "and_", bitcast(b, v, T.u64), _number(b, bitcast(b, v, T.u64), top)), T.f64)
    return mask(_emit(b, "div", _number(b, x, 1), mask(x)))


@composed("pow")
def power(b, x, y, result):
    """x to the power y. An integer exponent may not be exact in float32, so its parity gives the sign."""
    if _kind(y).is_float:
        return _row(b, "pow", x, y)
    size = _row(b, "pow", _emit(b, "abs_", x), convert(b, y, _kind(x)))
    odd = _emit(b, "ne", _emit(b, "and_", y, _number(b, y, 1)), _number(b, y, 0))
    signed = _emit(b, "copysign", size, x)
    return _choose(b, odd, signed, size)
