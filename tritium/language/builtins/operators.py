"""What the operators of Python mean in a kernel: `binary(b, "+", x, y)`, `compare(b, "<", x, y)`, `truth(b, x)`.

Operands are language values: tensors, tuples, or bare Python objects for compile-time constants. Two constants are
computed by Python; a constant that meets a tensor keeps the tensor's type where it can (`rules.promote_number`).
"""

from __future__ import annotations

import builtins
import operator

from tritium.errors import UnsupportedOperator, fail
from tritium.ir import types as T

from ..source.dialect import of_builder
from ..types.dtypes import from_ir
from ..types.limits import check_operator
from ..types.promotion import is_fp8, promote, promote_number
from ..types.returned_constants import settled
from ..types.values import HINT_OF_NONE, constant, literal_type, number, tensor, to_tensor, type_of, unwrap
from .broadcasting import broadcast_together
from .calling import warn
from .casting import convert, is_nonzero, splat_constant
from .deferred import ops
from .indexing import call_own, getitem, setitem

__all__ = ["binary", "bring_together", "compare", "getitem", "logical_and", "logical_not", "logical_or", "setitem",
           "truth", "unary"]  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
# Bringing operands together


def _kind(x):
    return T.element(x.handle.type)


def is_pointer(x):
    """Whether a value is a pointer or a tile of pointers."""
    return isinstance(x, tensor) and type(_kind(x)) is T.Ptr


def name_of(x):
    """A value's element type as the user knows it."""
    return from_ir(_kind(x)) if isinstance(x, tensor) else type_of(x)


def numeric(b, x):
    """A tensor, or a Python number; anything else cannot be an operand."""
    x = settled(b, x)
    if isinstance(x, tensor):
        return x
    plain = number(x)
    return to_tensor(b, x) if plain is None else plain  # to_tensor says why not


def common_kind(x, y, symbol="+"):
    """The IR type in which two operands meet."""
    if is_pointer(x) or is_pointer(y):
        raise fail(TypeError, f"invalid operands of type {name_of(x)} and {name_of(y)} for {symbol}",
                   hint="a pointer can be moved by an integer with + and -; calculate with its address, "
                   "(ptr).to(tl.int64)")
    if not isinstance(x, tensor):
        return promote_number(_kind(y), x, symbol) if isinstance(y, tensor) \
            else promote(literal_type(x), literal_type(y), symbol)
    return promote(_kind(x), _kind(y), symbol) if isinstance(y, tensor) else promote_number(_kind(x), y, symbol)


def as_kind(b, x, kind):
    """An operand (tensor or Python number) as a tensor of IR type `kind`."""
    return convert(b, x, kind) if isinstance(x, tensor) else constant(b, x, kind)


def bring_together(b, x, y, symbol="+"):
    """Two operands as tensors of one type and one shape."""
    x, y = numeric(b, x), numeric(b, y)
    kind = common_kind(x, y, symbol)
    return broadcast_together(b, as_kind(b, x, kind), as_kind(b, y, kind))


def emit(b, kind_of_op, *xs):
    """Emit an elementwise op on tensors of one type; 8-bit floats are computed in f32 and rounded back."""
    kind = _kind(xs[0])
    if is_fp8(kind):
        wide = [convert(b, x, T.f32).handle for x in xs]
        out = tensor(kind_of_op(b, *wide))
        return out if _kind(out) is T.i1 else convert(b, out, kind)
    return tensor(kind_of_op(b, *[x.handle for x in xs]))


def _emit_wide(b, kind_of_op, x, y):
    """Emit an op that bools do not have: they are computed as bytes."""
    if _kind(x) is not T.i1:
        return emit(b, kind_of_op, x, y)
    return is_nonzero(b, tensor(kind_of_op(b, convert(b, x, T.u8).handle, convert(b, y, T.u8).handle)))


# ---------------------------------------------------------------------------------------------------------------------
# Arithmetic


def add(b, x, y, sanitize_overflow=True):
    """x + y; a pointer moves by elements."""
    if is_pointer(x) and is_pointer(y):
        raise fail(TypeError, "cannot add pointers together", hint="add an integer offset to one pointer")
    if is_pointer(x) or is_pointer(y):
        pointer, offset = (x, y) if is_pointer(x) else (y, x)
        return _move(b, pointer, offset, "+")
    return _checked(b, "add", "+", x, y, sanitize_overflow)


def sub(b, x, y, sanitize_overflow=True):
    """x - y; a pointer moves back by elements."""
    if is_pointer(x) and not is_pointer(y):
        return _move(b, x, y, "-")
    return _checked(b, "sub", "-", x, y, sanitize_overflow)


def mul(b, x, y, sanitize_overflow=True):
    """x * y."""
    return _checked(b, "mul", "*", x, y, sanitize_overflow)


def _checked(b, name, symbol, x, y, sanitize_overflow):
    x, y = bring_together(b, x, y, symbol)
    op = getattr(ops, name)
    kind = _kind(x)
    if sanitize_overflow and kind.is_int and kind.bits < 64 and b.options.debug and b.options.sanitize_overflow:
        _assert_no_overflow(b, op, x, y, f"int{kind.bits} overflow detected for operation {name}")
    return emit(b, op, x, y)


def _assert_no_overflow(b, op, x, y, message):
    """Compute in 64 bits, where nothing of 32 is lost, and look whether the result still fits."""
    kind = _kind(x)
    exact = op(b, convert(b, x, T.i64).handle, convert(b, y, T.i64).handle)
    name = from_ir(kind)
    low = ops.ge(b, exact, splat_constant(b, name.get_int_min_value(), exact.type))
    high = ops.le(b, exact, splat_constant(b, name.get_int_max_value(), exact.type))
    ops.assert_(b, ops.and_(b, low, high), message=message)


def _move(b, pointer, offset, symbol):
    plain = number(offset)
    if plain is not None and symbol == "-":
        offset, symbol = -plain, "+"
    offset = to_tensor(b, offset)
    kind = _kind(offset)
    if type(kind) is T.Ptr or not kind.is_int:
        raise fail(TypeError, f"invalid operands of type {name_of(pointer)} and {name_of(offset)} for {symbol}",
                   hint="a pointer moves by whole elements: cast the offset with .to(tl.int64)")
    if not kind.signed and kind.bits < 64:  # its top bit is no sign
        offset = convert(b, offset, T.i64)
    if symbol == "-":
        offset = unary(b, "-", offset)
    pointer, offset = broadcast_together(b, pointer, offset)
    return tensor(ops.addptr(b, pointer.handle, offset.handle))


def truediv(b, x, y):
    """x / y, always in floating point: integers are divided in f32."""
    x, y = numeric(b, x), numeric(b, y)
    kind = common_kind(x, y, "/")
    kind = T.f32 if kind.is_int else kind
    return emit(b, ops.div, *broadcast_together(b, as_kind(b, x, kind), as_kind(b, y, kind)))


def floordiv(b, x, y):
    """x // y of integers, towards zero. A pointer counts as its address: `(ptr + 15) // 16 * 16` rounds one up."""
    x, y = _address(b, numeric(b, x), numeric(b, y))
    kind = common_kind(x, y, "//")
    if kind.is_float:
        raise fail(TypeError, f"unexpected type {from_ir(kind)} for //", hint="use tl.floor(x / y) for floats")
    return _emit_wide(b, ops.div, *broadcast_together(b, as_kind(b, x, kind), as_kind(b, y, kind)))


def mod(b, x, y):
    """x % y with the sign of x. A pointer counts as its address, so `ptr % 16 == 0` tests alignment."""
    return _emit_wide(b, ops.rem, *bring_together(b, *_address(b, x, y), "%"))


def _address(b, x, y):
    return (convert(b, x, T.i64) if is_pointer(x) and not is_pointer(y) else x), y


# ---------------------------------------------------------------------------------------------------------------------
# Bits


def _bits(b, op, symbol, x, y):
    x, y = bring_together(b, *_address(b, x, y), symbol)
    if not _kind(x).is_int:
        raise fail(TypeError, f"invalid operands of type {name_of(x)} and {name_of(y)} for {symbol}",
                   hint=f"{symbol} binds tighter than a comparison: write (x > 0) {symbol} (y > 0); bits of a float "
                   "are reached with .to(tl.int32, bitcast=True)")
    return x, y, op


def bit_and(b, x, y):
    """x & y of integers or bools."""
    x, y, op = _bits(b, ops.and_, "&", x, y)
    return emit(b, op, x, y)


def bit_or(b, x, y):
    """x | y of integers or bools."""
    x, y, op = _bits(b, ops.or_, "|", x, y)
    return emit(b, op, x, y)


def bit_xor(b, x, y):
    """x ^ y of integers or bools."""
    x, y, op = _bits(b, ops.xor, "^", x, y)
    return emit(b, op, x, y)


def shift_left(b, x, y):
    """x << y of integers, in their common type."""
    count = y
    x, y, op = _bits(b, ops.shl, "<<", x, y)
    _warn_far_shift(b, x, count)
    return _emit_wide(b, op, x, y)


def shift_right(b, x, y):
    """x >> y of integers: the sign is kept when the *left* operand is signed, whatever the common type."""
    count, owner = y, x if isinstance(x, tensor) else y
    keeps_sign = _kind(owner).signed if not is_pointer(owner) and _kind(owner).is_int else False
    x, y, op = _bits(b, ops.shr, ">>", x, y)
    _warn_far_shift(b, x, count)
    kind = _kind(x)
    if kind is T.i1 or kind.signed == keeps_sign:
        return _emit_wide(b, op, x, y)
    same_bits = T.SCALARS[f"{'i' if keeps_sign else 'u'}{kind.bits}"]
    return convert(b, emit(b, op, convert(b, x, same_bits), convert(b, y, same_bits)), kind)


def _warn_far_shift(b, x, count):
    plain = number(count)
    if plain is not None and plain >= _kind(x).bits:
        warn(b, f"Value {plain} exceeds the maximum bitwidth ({_kind(x).bits}) for type '{name_of(x)}'. This may "
             "result in undefined behavior.")


# ---------------------------------------------------------------------------------------------------------------------
# Operators by symbol

_PYTHON = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

_BINARY = {"+": add, "-": sub, "*": mul, "/": truediv, "//": floordiv, "%": mod, "<<": shift_left, ">>": shift_right,
           "&": bit_and, "|": bit_or, "^": bit_xor}  # fmt: skip

_INSTEAD = {"**": ("__pow__", "write x * x, or use libdevice.pow(x, y), tl.exp2(y * tl.log2(x))"),
            "@": ("__matmul__", "use tl.dot"), "+": ("__pos__", "leave the sign out")}  # fmt: skip


def _no_such_operator(symbol, *operands):
    method, hint = _INSTEAD[symbol]
    names = " and ".join(f"'{type(x).__name__}'" for x in operands)
    return fail(UnsupportedOperator, f"'tensor' object has no attribute '{method}': unsupported operand type(s) for "
                f"{symbol}: {names}", hint=hint)


def _is_python(x):
    """Whether Python itself computes with `x`: a constant or a tuple, but no tensor and no composite value."""
    return not isinstance(x, tensor) and not hasattr(x, "remade")


def _by_python(symbol, x, y):
    """An operator on two constants."""
    try:
        return _PYTHON[symbol](x, y)
    except TypeError as error:
        if x is not None and y is not None:
            raise
        raise fail(TypeError, str(error), hint=HINT_OF_NONE) from None


def binary(b, symbol, x, y):
    """`x symbol y` for one of + - * / // % ** @ << >> & | ^."""
    x, y = settled(b, unwrap(x)), settled(b, unwrap(y))
    if _is_python(x) and _is_python(y):
        check_operator(symbol, x, y)
        return _by_python(symbol, x, y)
    if not (_is_operand(x) and _is_operand(y)):
        return _overloaded(b, symbol, x, y)
    if symbol not in _BINARY:
        raise _no_such_operator(symbol, x, y)
    return _BINARY[symbol](b, x, y)


METHODS = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow",
            "@": "matmul", "<<": "lshift", ">>": "rshift", "&": "and", "|": "or", "^": "xor", "==": "eq", "!=": "ne",
            "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}  # fmt: skip


def _is_operand(x):
    """Whether the operators are ours: on a tensor, or on a constant that meets one."""
    return isinstance(x, tensor) or not hasattr(x, "remade")


_MIRRORED = {"==": "eq", "!=": "ne", "<": "gt", "<=": "ge", ">": "lt", ">=": "le"}


def _overloaded(b, symbol, x, y):
    """An operator that a user's aggregate defines as a method; one that gives NotImplemented leaves it to the other."""
    tries = [(x, y, f"__{METHODS[symbol]}__"), (y, x, f"__{_MIRRORED.get(symbol, 'r' + METHODS[symbol])}__")]
    if type(y) is not type(x) and issubclass(type(y), type(x)):
        tries.reverse()
    for owner, other, name in tries:
        found = by_method(b, owner, name, other)
        if found is not NotImplemented:
            return found
    raise fail(TypeError, f"unsupported operand type(s) for {symbol}: {type(x).__name__!r} and {type(y).__name__!r}: "
               f"invalid operands of type {name_of(x)} and {name_of(y)} for {symbol}",
               hint=getattr(x, "operator_hint", None))


def by_method(b, owner, name, *others):
    """What a user's aggregate makes of an operator; NotImplemented if it has no method for it."""
    method = getattr(type(owner), name, None) if hasattr(owner, "remade") else None
    if method is None or method is getattr(object, name, None):
        return NotImplemented
    return call_own(b, method, owner, *others)


_UNARY_METHODS = {"-": "__neg__", "~": "__invert__", "+": "__pos__", "not": "__not__"}


def unary(b, symbol, x):
    """`symbol x` for one of - ~ + not. Minus of a float changes its sign, also that of a zero."""
    x = settled(b, unwrap(x))
    if isinstance(x, builtins.tuple):
        raise fail(AttributeError, f"`{symbol}` of a tuple is not supported",
                   hint="ask for its length: len(t) == 0" if symbol == "not" else None)
    if hasattr(x, "remade"):
        found = by_method(b, x, _UNARY_METHODS[symbol])
        if found is NotImplemented:
            raise fail(TypeError, f"bad operand type for unary {symbol}: {type(x).__name__!r}",
                       hint=getattr(x, "operator_hint", None))
        return found
    if not isinstance(x, tensor):
        return {"-": operator.neg, "~": operator.invert, "+": operator.pos, "not": operator.not_}[symbol](x)
    if symbol == "not":
        return logical_not(b, x)
    if symbol == "+":
        raise _no_such_operator("+", x)
    name = "minus" if symbol == "-" else "invert"
    kind = _kind(x)
    if type(kind) is T.Ptr or (symbol == "~" and not kind.is_int):
        raise fail(ValueError, f"wrong type argument to unary {name} ({name_of(x)})")
    if symbol == "-":
        zero = -0.0 if kind.is_float else 0  # of the two zeros only -0.0 - x is the other zero for x = 0.0
        return emit(b, ops.sub, tensor(splat_constant(b, zero, x.handle.type)), x)
    ones = True if kind is T.i1 else (-1 if kind.signed else (1 << kind.bits) - 1)
    return emit(b, ops.xor, x, tensor(splat_constant(b, ones, x.handle.type)))


def compare(b, symbol, x, y):
    """`x symbol y` for one of == != < <= > >=. Numbers become tensors first, up to 3.8; the result is int1."""
    x, y = settled(b, unwrap(x)), settled(b, unwrap(y))
    if isinstance(x, builtins.tuple) and isinstance(y, builtins.tuple) and symbol in ("==", "!="):
        return _compare_tuples(b, symbol, x, y)
    if _is_python(x) and _is_python(y):
        return _by_python(symbol, x, y)
    if not (_is_operand(x) and _is_operand(y)):
        return _overloaded(b, symbol, x, y)
    if x is None or y is None:
        raise fail(TypeError, f"cannot compare {name_of(x)} with {name_of(y)}",
                   hint="test for None with `is` or `is not`")
    if not of_builder(b).numbers_adapt:
        x, y = to_tensor(b, x), to_tensor(b, y)
    x, y = bring_together(b, x, y, symbol)
    return emit(b, getattr(ops, METHODS[symbol]), x, y)


def _compare_tuples(b, symbol, x, y):
    equal = len(x) == len(y)
    for left, right in zip(x, y) if equal else ():
        equal = logical_and(b, equal, compare(b, "==", left, right))
    return equal if symbol == "==" else unary(b, "not", equal)


# ---------------------------------------------------------------------------------------------------------------------
# Truth


def _as_bool(b, x, word):
    x = to_tensor(b, x)
    if _kind(x) is not T.i1:
        raise fail(ValueError, f"Cannot bitcast data-type of size {_kind(x).bits} to data-type of size 1: `{word}` "
                   f"works on int1, not on {name_of(x)}", hint="compare first, for instance with != 0")
    return x


def _logical(b, op, word, absorbing, x, y):
    x, y = unwrap(x), unwrap(y)
    for owner, other in ((x, y), (y, x)):
        found = by_method(b, owner, f"logical_{word}", other)
        if found is not NotImplemented:
            return found
    for value, other in ((x, y), (y, x)):
        if isinstance(value, bool):
            return value if value is absorbing else other
    x, y = _as_bool(b, x, word), _as_bool(b, y, word)
    return emit(b, op, *broadcast_together(b, x, y))


def logical_and(b, x, y):
    """`x and y` of run-time bools; both are evaluated. A constant bool decides at compile time."""
    return _logical(b, ops.and_, "and", False, x, y)


def logical_or(b, x, y):
    """`x or y` of run-time bools; both are evaluated. A constant bool decides at compile time."""
    return _logical(b, ops.or_, "or", True, x, y)


def logical_not(b, x):
    """`not x` of a run-time bool."""
    return unary(b, "~", _as_bool(b, x, "not"))


def truth(b, x):
    """The int1 scalar that `if x:` tests: any number or pointer that is not zero."""
    x = to_tensor(b, x)
    dims = T.shape(x.handle.type)
    if T.numel(x.handle.type) != 1:
        raise fail(ValueError, "Boolean value of Tensor with more than one value is ambiguous",
                   hint="reduce it first, with tl.max(x, axis=0), or choose element by element with tl.where")
    if dims:
        warn(b, "If conditional called with multidimensional Tensor instead of scalar; please use `x.item()`")
        x = tensor(ops.reshape(b, x.handle, shape=()))
    return is_nonzero(b, x)
