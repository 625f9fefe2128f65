"""Functions applied element by element."""

from __future__ import annotations

import enum
from functools import reduce

from tritium.errors import fail
from tritium.ir import types as T

from ..source.dialect import of_builder
from ..types.constants import unwrap
from ..types.dtypes import from_ir
from ..types.promotion import is_fp8, promote, promote_numbers
from ..types.returned_constants import settled
from ..types.values import literal_type, number, tensor, to_tensor
from .broadcasting import broadcast_together, common_shape, spread
from .calling import builtin, warn
from .casting import bitcast, convert, is_nonzero
from .deferred import ops, row
from .operators import add as _add
from .operators import as_kind, bring_together, common_kind, emit, is_pointer, numeric
from .operators import mul as _mul
from .operators import sub as _sub

__all__ = [
    "PropagateNan", "abs", "add", "ceil", "clamp", "cos", "div_rn", "erf", "exp", "exp2", "fdiv", "floor", "fma",
    "log", "log2", "logical_and", "logical_or", "maximum", "minimum", "mul", "rsqrt", "sin", "sqrt", "sqrt_rn",
    "sub", "umulhi", "where",
]  # fmt: skip


class PropagateNan(enum.Enum):
    """What `minimum`, `maximum` and `clamp` do with NaN: NONE prefers the other operand, ALL gives NaN."""

    NONE = 0
    ALL = 0xFFFF


def _kind(x):
    return T.element(x.handle.type)


def check_dtype(x, allowed, what):
    """Refuse an element type that a function does not have."""
    if _kind(x) not in allowed:
        names = [str(from_ir(t)) for t in allowed]
        hint = "cast it to one of these" if T.f32 not in allowed else "cast it with .to(tl.float32)"
        if T.f32 in allowed and getattr(x.handle, "kind", None) is ops.constant:
            hint = "make the constant a float: 1.0 * n"
        raise fail(ValueError, f"Expected dtype {names} but got {x.dtype}", hint=f"{what}: {hint}")


_WIDE = (T.f32, T.f64)


def _unary(b, name, x, allowed=_WIDE):
    x = to_tensor(b, x)
    check_dtype(x, allowed, f"tl.{name}")
    return tensor(row(name)(b, x.handle))


# ---------------------------------------------------------------------------------------------------------------------
# Functions of one operand


@builtin
def exp(b, x):
    """e to the power x (float32, float64).

        p = tl.exp(x - tl.max(x, axis=0))
    """
    return _unary(b, "exp", x)


@builtin
def exp2(b, x):
    """2 to the power x (float32, float64).

        p = tl.exp2(x * 1.4426950408889634)
    """
    return _unary(b, "exp2", x)


@builtin
def log(b, x):
    """Natural logarithm (float32, float64).

        entropy = -tl.sum(p * tl.log(p), axis=0)
    """
    return _unary(b, "log", x)


@builtin
def log2(b, x):
    """Logarithm to base 2 (float32, float64).

        bits = tl.log2(x)
    """
    return _unary(b, "log2", x)


@builtin
def sin(b, x):
    """Sine of x radians (float32, float64).

        y = tl.sin(angle)
    """
    return _unary(b, "sin", x)


@builtin
def cos(b, x):
    """Cosine of x radians (float32, float64).

        y = tl.cos(angle)
    """
    return _unary(b, "cos", x)


@builtin
def sqrt(b, x):
    """Square root, fast (float32, float64).

        norm = tl.sqrt(tl.sum(x * x, axis=0))
    """
    return _unary(b, "sqrt", x)


@builtin
def sqrt_rn(b, x):
    """Square root, correctly rounded (float32).

        norm = tl.sqrt_rn(tl.sum(x * x, axis=0))
    """
    return _unary(b, "sqrt_rn", x, (T.f32,))


@builtin
def rsqrt(b, x):
    """Reciprocal of the square root (float32, float64).

        y = x * tl.rsqrt(variance + 1e-5)
    """
    return _unary(b, "rsqrt", x)


@builtin
def erf(b, x):
    """Error function (float32, float64).

        gelu = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    """
    return _unary(b, "erf", x)


@builtin
def floor(b, x):
    """Largest whole number not above x (float32, float64).

        cell = tl.floor(x).to(tl.int32)
    """
    return _unary(b, "floor", x)


@builtin
def ceil(b, x):
    """Smallest whole number not below x (float32, float64).

        blocks = tl.ceil(x / 16.0)
    """
    return _unary(b, "ceil", x)


@builtin
def abs(b, x):
    """Absolute value of any number; the smallest integer stays itself.

        largest = tl.max(tl.abs(x), axis=0)
    """
    x = to_tensor(b, x)
    kind = _kind(x)
    if is_pointer(x):
        raise fail(ValueError, f"Unexpected dtype {x.dtype} for abs")
    if is_fp8(kind):  # the sign is the top bit of the code
        bits = emit(b, ops.and_, *bring_together(b, bitcast(b, x, T.u8), 0x7F, "&"))
        return bitcast(b, bits, kind)
    return x if kind.is_int and not kind.signed else tensor(ops.abs_(b, x.handle))


# ---------------------------------------------------------------------------------------------------------------------
# Functions of several operands


def _promoted(b, *xs):
    """Operands brought to one type and shape; Python numbers become tensors first, up to 3.8."""
    if of_builder(b).numbers_adapt:
        return _adapted(b, [numeric(b, unwrap(x)) for x in xs])
    xs = [to_tensor(b, x) for x in xs]
    kind = reduce(promote, map(_kind, xs))
    return broadcast_together(b, *[convert(b, x, kind) for x in xs])


def _adapted(b, xs):
    """The same where numbers take the type of the tensors: tensors meet first, then numbers, then both."""
    tensors, plain = [x for x in xs if isinstance(x, tensor)], [x for x in xs if not isinstance(x, tensor)]
    if tensors:
        kind = reduce(promote, map(_kind, tensors))
        kind = promote_numbers(kind, plain) if plain else kind
    else:
        kind = reduce(promote, map(literal_type, plain))
    return broadcast_together(b, *[as_kind(b, x, kind) for x in xs])


@builtin
def add(b, x, y, sanitize_overflow: bool = True):
    """x + y; `sanitize_overflow=False` leaves out the check that `debug` adds to integers.

        counter = tl.add(hash, 1, sanitize_overflow=False)
    """
    return _add(b, x, y, sanitize_overflow)


@builtin
def sub(b, x, y, sanitize_overflow: bool = True):
    """x - y; `sanitize_overflow=False` leaves out the check that `debug` adds to integers.

        distance = tl.sub(x, y, sanitize_overflow=False)
    """
    return _sub(b, x, y, sanitize_overflow)


@builtin
def mul(b, x, y, sanitize_overflow: bool = True):
    """x * y; `sanitize_overflow=False` leaves out the check that `debug` adds to integers.

        hash = tl.mul(hash, 0x9E3779B1, sanitize_overflow=False)
    """
    return _mul(b, x, y, sanitize_overflow)


@builtin
def fdiv(b, x, y, ieee_rounding: bool = False, approx: bool = False):
    """Division of floats of one dtype, which the result keeps (16-bit floats too).

    `ieee_rounding` rounds float32 correctly. `approx` lets float32 be off by 2 ulp where that is faster, as it allows
    y from 2**-126 to 2**126 only. From 3.9 on operands are promoted as `/` promotes them: 16-bit floats give float32.

        y = tl.fdiv(numerator, denominator)
    """
    if unwrap(ieee_rounding) and unwrap(approx):
        raise fail(ValueError, "ieee_rounding and approx exclude each other", argument="approx")
    x, y = _quotient(b, settled(b, unwrap(x)), settled(b, unwrap(y)))
    kind = _kind(x)
    if unwrap(approx) and kind is not T.f32:
        raise fail(ValueError, f"approx divides float32, not {from_ir(kind)}", hint="leave approx out, or cast",
                   argument="approx")
    return emit(b, row("div_rn") if unwrap(ieee_rounding) and kind is T.f32 else ops.div, x, y)


def _quotient(b, x, y):
    """The operands of `fdiv` as tensors of one type and shape."""
    if of_builder(b).fdiv_promotes:
        x, y = numeric(b, x), numeric(b, y)
        kind = common_kind(x, y, "/")
        if kind.is_int:
            raise fail(TypeError, "fdiv needs an operand of floating point", hint="divide integers with / or //")
        return broadcast_together(b, as_kind(b, x, kind), as_kind(b, y, kind))
    tensors = [v for v in (x, y) if isinstance(v, tensor)]
    kinds = {_kind(v) for v in tensors} or {T.f32}
    if not all(type(k) is T.Scalar and k.is_float for k in kinds):
        raise fail(TypeError, "both operands of fdiv must have floating scalar type", hint="cast integers first")
    if len(kinds) != 1:
        raise fail(TypeError, f"fdiv does not promote: {tensors[0].dtype} and {tensors[1].dtype}",
                   hint="cast one operand, or use /")
    kind = kinds.pop()
    return broadcast_together(b, *[as_kind(b, v if isinstance(v, tensor) else number(v), kind) for v in (x, y)])


@builtin
def div_rn(b, x, y):
    """Division, correctly rounded (float32).

        y = tl.div_rn(numerator, denominator)
    """
    x, y = _promoted(b, x, y)
    check_dtype(x, (T.f32,), "tl.div_rn")
    return tensor(row("div_rn")(b, x.handle, y.handle))


@builtin
def umulhi(b, x, y):
    """High half of the unsigned product of 32- or 64-bit integers.

        high = tl.umulhi(x, 0xD2511F53)
    """
    x, y = _promoted(b, x, y)
    check_dtype(x, (T.i32, T.i64, T.u32, T.u64), "tl.umulhi")
    kind = _kind(x)
    unsigned = T.u32 if kind.bits == 32 else T.u64
    return convert(b, tensor(ops.mulhi(b, convert(b, x, unsigned).handle, convert(b, y, unsigned).handle)), kind)


@builtin
def fma(b, x, y, z):
    """x * y + z with one rounding.

        acc = tl.fma(a, b, acc)
    """
    x, y, z = _promoted(b, x, y, z)
    if not _kind(x).is_float:
        raise fail(ValueError, f"Expected a floating point dtype for fma but got {x.dtype}", hint="use x * y + z")
    return emit(b, ops.fma, x, y, z)


def _comparable(b, *xs):
    """The operands of `minimum`, `maximum` and `clamp`; up to 3.8 the comparison of bf16 is done, and stays, in f32."""
    if not of_builder(b).keeps_bf16:
        xs = [to_tensor(b, x) for x in xs]
        xs = [convert(b, x, T.f32) if _kind(x) is T.bf16 else x for x in xs]
    return _promoted(b, *xs)


def _extreme(b, plain, with_nan, x, y, propagate_nan):
    x, y = _comparable(b, x, y)
    return emit(b, _nan_rule(propagate_nan, x, plain, with_nan), x, y)


def _nan_rule(propagate_nan, x, plain, with_nan):
    rule = unwrap(propagate_nan)
    if not isinstance(rule, PropagateNan):
        raise fail(ValueError, f"Unexpected propagate_nan {rule}", hint="use tl.PropagateNan.NONE or .ALL",
                   argument="propagate_nan")
    return with_nan if rule is PropagateNan.ALL and _kind(x).is_float else plain


@builtin
def minimum(b, x, y, propagate_nan=PropagateNan.NONE):
    """The smaller of two values; a NaN loses unless `propagate_nan` is ALL.

        capped = tl.minimum(x, 6.0)
    """
    return _extreme(b, ops.min_, ops.min_nan, x, y, propagate_nan)


@builtin
def maximum(b, x, y, propagate_nan=PropagateNan.NONE):
    """The larger of two values; a NaN loses unless `propagate_nan` is ALL.

        relu = tl.maximum(x, 0.0)
    """
    return _extreme(b, ops.max_, ops.max_nan, x, y, propagate_nan)


@builtin
def clamp(b, x, min, max, propagate_nan=PropagateNan.NONE):
    """x kept between `min` and `max`.

        relu6 = tl.clamp(x, 0.0, 6.0)
    """
    x, low, high = _comparable(b, x, min, max)
    raised = emit(b, _nan_rule(propagate_nan, x, ops.max_, ops.max_nan), x, low)
    return emit(b, _nan_rule(propagate_nan, x, ops.min_, ops.min_nan), raised, high)


def check_several(name, args):
    """Python's `min` and `max` compare several values: of one tensor alone, a reduction is meant.

    >>> check_several("max", (1, 2))
    """
    if len(args) == 1 and isinstance(args[0], tensor):
        block = bool(args[0].shape)
        raise fail(TypeError, f"{name}() of one {'block' if block else 'scalar'}: it compares several values",
                   hint=f"reduce a block with tl.{name}(x, axis)" if block else f"write {name}(x, y)")


def warn_of_blocks(b, name, xs):
    """Python's `min` and `max` are for scalars; of blocks they are still what `name`, our own function, gives."""
    if any(isinstance(x, tensor) and x.shape for x in xs):
        warn(b, f"min and max of blocks are deprecated: use tl.{name}", BlocksDeprecation)


class BlocksDeprecation(UserWarning, DeprecationWarning):
    """Python's `min` or `max` of blocks: a DeprecationWarning in 3.6, a UserWarning from 3.7 on.

    >>> issubclass(BlocksDeprecation, UserWarning)
    True
    """


@builtin
def where(b, condition, x, y):
    """x where the condition holds, y elsewhere; both are always evaluated.

        y = tl.where(x > 0, x, 0.01 * x)
    """
    condition, x, y = to_tensor(b, condition), settled(b, unwrap(x)), settled(b, unwrap(y))
    if _kind(condition) is not T.i1:
        warn(b, "tl.where with a non-boolean condition is deprecated and will error out in a future triton release. "
             f"Got {condition.dtype}")
        condition = is_nonzero(b, condition)
    x, y = _choices(b, x, y)
    shape = common_shape(condition.shape, x.shape, y.shape)
    return tensor(ops.select(b, *[spread(b, v, shape).handle for v in (condition, x, y)]))


def _choices(b, x, y):
    """The two sides of `where` in one type: numbers adapt to a tensor, two pointers must agree."""
    if is_pointer(x) and is_pointer(y):
        if _kind(x) is not _kind(y):
            raise fail(TypeError, f"invalid operands of type {x.dtype} and {y.dtype} for where",
                       hint="cast one pointer to the other's type")
        return x, y
    x, y = numeric(b, x), numeric(b, y)
    kind = common_kind(x, y, "where")
    return as_kind(b, x, kind), as_kind(b, y, kind)


@builtin
def logical_and(b, input, other):
    """`input and other` of bools, element by element.

        inside = (rows < M)[:, None].logical_and((columns < N)[None, :])
    """
    from .operators import logical_and as both
    return to_tensor(b, both(b, input, other))


@builtin
def logical_or(b, input, other):
    """`input or other` of bools, element by element.

        outside = (rows >= M)[:, None].logical_or((columns >= N)[None, :])
    """
    from .operators import logical_or as either
    return to_tensor(b, either(b, input, other))


# Functions in which the type of a number decides, as in operators.
for _function in (add, sub, mul, fdiv, div_rn, umulhi, fma, minimum, maximum, clamp, where):
    _function.adapts = True
