"""Elementwise ops and casts -> LLVM, on scalars and vectors.

Cases that LLVM leaves undefined get the meaning of the op: division by zero is 0, a shift by the width or more shifts
all bits out, a float outside an integer type's range saturates. So every line may be executed speculatively, and can be
hoisted out of loops and branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import CompilationError
from ...ir import types as T
from ..llvm.writer import Val, Writer, lanes, vector

if TYPE_CHECKING:
    from ...ir.opdef import OpKind

# 8-bit floats and bf16 are represented by their encodings: arithmetic on them has been legalized.
_TYPES = {t: f"i{t.bits}" for t in T.SCALARS.values()} | {T.f16: "half", T.f32: "float", T.f64: "double"}
_FUSABLE = frozenset(("fadd", "fsub", "fmul"))
# Orderings of atomics, as LLVM calls them.
ORDERINGS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}


def atomic_name(how: str, t: T.Scalar | T.Ptr) -> str:
    """LLVM's name of an atomic update of elements of type `t`.

    >>> atomic_name("add", T.f32), atomic_name("max", T.u32), atomic_name("add", T.u32), atomic_name("xchg", T.f32)
    ('fadd', 'umax', 'add', 'xchg')
    """
    if how not in ("add", "min", "max") or type(t) is T.Ptr:
        return how
    return ("f" if t.is_float else "u" if how != "add" and not t.signed else "") + how


def llvm_type(t: T.Scalar | T.Ptr) -> str:
    """LLVM's name of an element type.

    >>> llvm_type(T.u16), llvm_type(T.Ptr(T.f32)), llvm_type(T.bf16), llvm_type(T.i1)
    ('i16', 'ptr', 'i16', 'i1')
    """
    return "ptr" if type(t) is T.Ptr else _TYPES[t]


def memory_type(t: T.Scalar | T.Ptr) -> str:
    """The LLVM type of an element in memory: a bool is a byte.

    >>> memory_type(T.i1), memory_type(T.f16)
    ('i8', 'half')
    """
    return "i8" if t is T.i1 else llvm_type(t)


def elementwise(w: Writer, kind: OpKind, t: T.Scalar, xs: list[Val], contract: bool = True) -> Val:
    """An op of the table on operands of element type `t`; `contract` lets products and sums share one rounding.

    >>> from tritium import ops
    >>> w = Writer()
    >>> with w.function("float", "f", ["float x"]) as (x,): w.ret(elementwise(w, ops.add, T.f32, [x, x]))
    >>> "fadd contract float %x, %x" in w.text()
    True
    """
    row: Any = kind.row
    spelled = row.llvm.get(t.kind) or row.llvm.get("any")
    if spelled is None:
        raise CompilationError(None, None, f"op {kind.name} on {t} has no LLVM instruction and was not expanded")
    return _GUARDED[spelled](w, spelled, t, *xs) if spelled in _GUARDED else instruction(w, spelled, xs, contract)


def instruction(w: Writer, spelled: str, xs: Sequence[Val], contract: bool) -> Val:
    """The LLVM line that a row of the table spells."""
    if spelled.startswith(("icmp", "fcmp")):
        return w.compare(spelled, *xs)
    if spelled.startswith("@llvm."):
        may_be_poison = (w.const("i1", False),) if spelled in ("@llvm.abs", "@llvm.ctlz") else ()
        return w.intrinsic(spelled[6:], xs[0].type, *xs, *may_be_poison)
    if contract and spelled in _FUSABLE:
        spelled += " contract"
    return w.binary(spelled, *xs) if len(xs) == 2 else w.unary(spelled, *xs)


def _number(x: Val) -> int | None:
    """The value of an integer constant (or a splat of one); None for other values."""
    text = x[x.rindex(" ") + 1 : -1] if x.startswith("splat") else x
    if text == "zeroinitializer":
        return 0
    return int(text) if text.lstrip("-").isdigit() else None


def _division(w: Writer, opcode: str, t: T.Scalar, x: Val, y: Val) -> Val:
    known = _number(y)
    if known and known != -1:
        return w.binary(opcode, x, y)
    zero = w.const(y.type, 0)
    by_zero = w.compare("icmp eq", y, zero)
    safe, wide = w.select(by_zero, w.const(y.type, 1), y), x
    if t.signed and t.bits < 64:  # the smallest integer divided by -1 overflows, unless computed in a wider type
        type = vector(lanes(x.type), f"i{2 * t.bits}")
        wide, safe = w.cast("sext", x, type), w.cast("sext", safe, type)
    elif t.signed:
        smallest = w.compare("icmp eq", x, w.const(x.type, -(1 << t.bits - 1)))
        overflows = w.binary("and", smallest, w.compare("icmp eq", y, w.const(y.type, -1)))
        safe = w.select(overflows, w.const(y.type, 1), safe)
    out = w.cast("trunc", w.binary(opcode, wide, safe), x.type)
    return w.select(by_zero, x if opcode.endswith("rem") else zero, out)


def _shift(w: Writer, opcode: str, t: T.Scalar, x: Val, n: Val) -> Val:
    known = _number(n)
    if known is not None and 0 <= known < t.bits:
        return w.binary(opcode, x, n)
    if opcode == "ashr":
        return w.binary(opcode, x, w.intrinsic("umin", n.type, n, w.const(n.type, t.bits - 1)))
    inside = w.compare("icmp ult", n, w.const(n.type, t.bits))
    return w.select(inside, w.binary(opcode, x, n), w.const(x.type, 0))


_GUARDED = dict.fromkeys(("sdiv", "udiv", "srem", "urem"), _division) | dict.fromkeys(("shl", "lshr", "ashr"), _shift)


def convert(w: Writer, x: Val, source: Any, target: Any) -> Val:
    """`x` of element type `source` as `target`, as the cast table of the language says (nearest even).

    >>> w = Writer()
    >>> with w.function("i32", "f", ["float x"]) as (x,): w.ret(convert(w, x, T.f32, T.i32))
    >>> "fptosi.sat" in w.text()
    True
    """
    if source is target:
        return x
    out = vector(lanes(x.type), llvm_type(target))
    if type(source) is T.Ptr or type(target) is T.Ptr:
        return _pointer(w, x, source, target, out)
    if target is T.i1:
        zero = w.const(x.type, 0)
        return w.compare("fcmp une" if source.is_float else "icmp ne", x, zero)
    if source.is_int:
        return _from_int(w, x, source, target, out)
    for t in (source, target):
        if t.is_float and llvm_type(t)[0] == "i":
            raise CompilationError(None, None, f"the conversion of {source} to {target} was not expanded")
    if target.is_int:
        name = "fptosi.sat" if target.signed else "fptoui.sat"
        return w.intrinsic(name, out, x, overload=(out, x.type))
    return w.cast("fpext" if target.bits > source.bits else "fptrunc", x, out)


def _from_int(w: Writer, x: Val, source: Any, target: Any, out: str) -> Val:
    if target.is_int:
        if target.bits <= source.bits:
            return w.cast("trunc", x, out)
        return w.cast("sext" if source.signed else "zext", x, out)
    opcode = "sitofp" if source.signed else "uitofp"
    if target.bits == 16:  # narrower floats are reached through f32, as on the hardware
        return w.cast("fptrunc", w.cast(opcode, x, vector(lanes(x.type), "float")), out)
    return w.cast(opcode, x, out)


def _pointer(w: Writer, x: Val, source: Any, target: Any, out: str) -> Val:
    if type(source) is type(target):
        return x
    if type(target) is T.Ptr:
        return w.cast("inttoptr", x, out)
    if target is T.i1:
        return w.compare("icmp ne", x, w.const(x.type, 0))
    return w.cast("ptrtoint", x, out)


def bitcast(w: Writer, x: Val, source: Any, target: Any) -> Val:
    """The same bits as another element type.

    >>> w = Writer()
    >>> with w.function("i32", "f", ["float x"]) as (x,): w.ret(bitcast(w, x, T.f32, T.u32))
    >>> "bitcast float %x to i32" in w.text()
    True
    """
    if type(source) is T.Ptr or type(target) is T.Ptr:
        return convert(w, x, source, target)
    return w.cast("bitcast", x, vector(lanes(x.type), llvm_type(target)))
