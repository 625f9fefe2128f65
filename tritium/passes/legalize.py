"""Legalize: rewrite ops that a target lacks into ops that it has.

Rows without an instruction are expanded (ops/expand.py); arithmetic on floats that are not native is done in f32 and
rounded back; conversions of narrow floats become integer arithmetic on their bits. A `TargetInfo` describes the target.
Values keep their types: a bf16 tile stays a bf16 tile, which a backend may carry as 16-bit integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .. import ops
from ..ir import types as T
from ..ir.core import walk
from ..ir.rewrite import same, sweep
from ..named_tuples import NamedTuple
from ..ops.expand import EXPAND
from ..ops.expand_casts import fma_narrow, narrow, to_odd_f32, toward_zero_f32, widen
from ..ops.expression import Expr
from .functions import each_function
from .simplify import apply_rules

WIDE = frozenset((T.f32, T.f64))
BETWEEN_WIDE = frozenset(((T.f32, T.f64), (T.f64, T.f32)))


class TargetInfo(NamedTuple):
    """The operations that a target has instructions for.

    floats  float types with arithmetic and comparison
    casts   pairs (from, to) of float types it converts between, rounding to nearest
    rows    pairs (row name, element type) it computes though the row has no LLVM spelling, or the type no arithmetic
    lacks   pairs (row name, element type) to expand though the row has an LLVM spelling
    dot     float types a matrix product takes; others are widened to f32 first
    dot_as  {float type of an operand: the one that a matrix product takes both operands in}
    fits    of what M, K and N of a matrix product of types below f32 must be multiples; others are widened, too
    rare    whether `ops.rare` is lowered to a branch; otherwise both sides are computed
    """

    floats: frozenset = WIDE
    casts: frozenset = BETWEEN_WIDE
    rows: frozenset = frozenset()
    lacks: frozenset = frozenset()
    dot: frozenset = frozenset(T.FLOATS)
    dot_as: Mapping = MappingProxyType({})
    fits: tuple[int, int, int] = (1, 1, 1)
    rare: bool = False


PORTABLE = TargetInfo()


def legalize(target_info=PORTABLE):
    """The pass that leaves only ops that a target has, simplified.

    Run `simplify` before it, not after: it would join conversions that the target can only do in two steps.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: bf16) {\\n  %0 = add %x, %x : bf16\\n  print %0 {prefix=\\"\\"}\\n}")
    >>> {op.kind.name for op in legalize()(m).body.ops} >= {"bitcast", "shl", "add"}
    True
    """
    chosen = {}     # (kind, element type) -> what to do, or None

    def rule(b, op):
        if op.kind is ops.cast:     # simplification would join again what is split here
            return _cast(target_info, b, op)
        made = apply_rules(b, op)
        return legal(b, op) if made is None else made

    def legal(b, op):
        kind = op.kind
        if kind.row is None and kind not in OTHERS:
            return None
        key = (kind, T.element(op.operands[0].type)) if op.operands else kind
        if key not in chosen:
            chosen[key] = _choose(target_info, *key) if op.operands else None
        make = chosen[key]
        return None if make is None else make(b, op)

    @each_function
    def legalize(module):
        return sweep(module, rule)
    return legalize


def is_legal(module, target_info=PORTABLE) -> bool:
    """Whether a target has all that a module needs: then a simplified module stays as it is.

    >>> from tritium.ir.text import parse_module
    >>> add = "kernel @f(%x: T) {\\n  %0 = add %x, %x : T\\n  print %0 {prefix=\\"\\"}\\n}"
    >>> is_legal(parse_module(add.replace("T", "i32"))), is_legal(parse_module(add.replace("T", "bf16")))
    (True, False)
    """
    known = {}

    def fits(op):
        kind = op.kind
        if kind is ops.cast:
            return _converts(target_info, T.element(op.operands[0].type), op.attrs["to"], op.attrs["rounding"])
        if kind is ops.print_:
            return all(type(t := T.element(x.type)) is not T.Scalar or not t.is_float or t in target_info.floats
                       for x in op.operands)
        if kind.row is None and kind not in OTHERS or not op.operands:
            return True
        key = (kind, T.element(op.operands[0].type))
        if key not in known:
            known[key] = _choose(target_info, *key) is None
        return known[key]
    return all(map(fits, walk(module.body)))


def _choose(target_info, kind, t):
    """What to do with ops of `kind` on elements of type `t`; None to leave them."""
    if kind in OTHERS:
        return OTHERS[kind](target_info, t)
    if (kind.name, t) in target_info.rows:
        return None
    if t.is_float and t not in target_info.floats:
        if kind in BITWISE and t.special != "fnuz":     # there the code of -0 is NaN
            return BITWISE[kind]
        return lambda b, op: _promote(target_info, b, op)
    spelled = t.kind in kind.row.llvm or "any" in kind.row.llvm
    if spelled and (kind.name, t) not in target_info.lacks or kind not in EXPAND:
        return None
    expand = EXPAND[kind]
    return lambda b, op: expand(b, op, *op.operands)


# --- arithmetic in a wider type -----------------------------------------------------------------------------------
def _wider(b, x):
    """x in f32 if it is a narrower float, else itself."""
    t = T.element(x.type)
    return ops.cast(b, x, to=T.f32) if type(t) is T.Scalar and t.is_float and t.bits < 32 else x


def _promote(target_info, b, op):
    """f(x, y) -> narrow(f(widen x, widen y)); what loses nothing on the way back needs no rounding."""
    to = T.element(op.type)
    wide = [_wider(b, x) for x in op.operands]
    if op.kind is ops.fma and to is T.bf16:  # f32 has no more exponents than bf16: products would be lost
        return to_odd_f32(fma_narrow(*[Expr(b, x).cast(T.f64) for x in wide])).cast(to).v
    if op.kind is ops.fma:
        return fma_narrow(*[Expr(b, x) for x in wide]).cast(to).v
    made = b.emit(op.kind, wide, op.attrs)
    if not to.is_float:
        return made
    return _exactly(target_info, b, made, to) if op.kind.row.exact else ops.cast(b, made, to=to)


def _exactly(target_info, b, x, to):
    """f32 `x`, which is a value of `to`, as one."""
    return ops.cast(b, x, to=to) if (T.f32, to) in target_info.casts else narrow(Expr(b, x), to, "exact").v


def _abs(b, op):
    """The bits without the sign."""
    x = Expr(b, op.operands[0])
    return (x.ubits & ((1 << (x.element.bits - 1)) - 1)).bitcast(x.element).v


def _copysign(b, op):
    """The bits of one with the sign of the other."""
    x, y = (Expr(b, v) for v in op.operands)
    top = 1 << (x.element.bits - 1)
    return ((x.ubits & (top - 1)) | (y.ubits & top)).bitcast(x.element).v


BITWISE = {ops.abs_: _abs, ops.copysign: _copysign}


# --- conversions --------------------------------------------------------------------------------------------------
def _cast(target_info, b, op):
    x, = op.operands
    source, to, rounding = T.element(x.type), op.attrs["to"], op.attrs["rounding"]
    if _converts(target_info, source, to, rounding):
        return None
    if not _is_float(source):
        return ops.cast(b, ops.cast(b, x, to=T.f32), to=to)
    if not _is_float(to):      # an integer, a bool
        return ops.cast(b, _wider(b, x), to=to)
    return _between_floats(target_info, Expr(b, x), source, to, rounding)


def _is_float(t):
    return type(t) is T.Scalar and t.is_float


def _converts(target_info, source, to, rounding) -> bool:
    """Whether the target converts between these types by itself."""
    if not _is_float(to):
        return not _is_float(source) or source in target_info.floats
    if not _is_float(source):
        return to in WIDE or to in target_info.floats
    if source is T.f32 and to is T.f64:
        return True
    if source is T.f64 and to is T.f32:
        return rounding != "rtz"
    return source is not to and rounding is None and (source, to) in target_info.casts


def _between_floats(target_info, x, source, to, rounding):
    """What the target does not convert by itself."""
    if source is to:
        return x.v
    if source is T.f64:
        if to is T.f32:
            return toward_zero_f32(x).v
        if rounding == "rtz":
            return toward_zero_f32(x).cast(to, rounding).v
        return (x.cast(T.f32) if to.bits == 8 else to_odd_f32(x)).cast(to).v
    if source is not T.f32:
        wide = x.cast(T.f32) if (source, T.f32) in target_info.casts else widen(x)
        return wide.cast(to, rounding if to.bits < 32 else None).v
    return narrow(x, to, rounding).v


# --- other ops that compute on elements -----------------------------------------------------------------------------
def _dot(target_info, t):
    """Operands that the target's matrix product does not take are widened; so is a narrow accumulator."""
    if any(t.is_float and t.bits == other.bits for other in target_info.dot_as):
        return lambda b, op: _dot_as(target_info.dot_as, b, op)
    if not t.is_float or t in target_info.dot and (t.bits >= 32 or max(target_info.fits) == 1):
        return None

    def widened(b, op):
        x, y, acc = op.operands
        sizes = (*T.shape(x.type)[-2:], T.shape(y.type)[-1])
        fits = not any(n % unit for n, unit in zip(sizes, target_info.fits, strict=True))
        if t in target_info.dot and fits and T.element(op.type) is T.f32:
            return None
        made = b.emit(ops.dot, (_wider(b, x), _wider(b, y), _wider(b, acc)), op.attrs)
        return ops.cast(b, made, to=T.element(op.type))
    return widened


def _dot_as(wider, b, op):
    """Both operands in a type that holds the values of either."""
    x, y, *rest = op.operands
    found = [wider[t] for t in map(T.element, (x.type, y.type)) if t in wider]
    if not found:
        return None
    to = max(found, key=lambda t: t.exponent)
    convert = lambda v: v if T.element(v.type) is to else ops.cast(b, v, to=to)
    return b.emit(ops.dot, (convert(x), convert(y), *rest), op.attrs)


def _sort(target_info, t):
    """Narrow floats are sorted as f32."""
    if not t.is_float or t in target_info.floats:
        return None
    return lambda b, op: _exactly(target_info, b, b.emit(op.kind, (_wider(b, op.operands[0]),), op.attrs), t)


def _print(target_info, t):
    """Narrow floats are printed as f32; as the integers that their bits are where the bits are asked for."""
    def widened(b, op):
        bits = op.attrs["hex"] and not op.attrs["exponents"]
        wider = (lambda x: Expr(b, x).ubits.v) if bits else (lambda x: _wider(b, x))
        xs = [wider(x) if type(e := T.element(x.type)) is T.Scalar and e.is_float and e not in target_info.floats else x
              for x in op.operands]
        return None if same(xs, op.operands) else b.emit(ops.print_, xs, op.attrs) or ()
    return widened


def _rare(target_info, t):
    """Without branches the region is computed for every element."""
    return None if target_info.rare else _both


def _both(b, op):
    condition, usual, *arguments = op.operands
    return ops.select(b, condition, lift(b, op.regions[0], arguments)[0], usual)


def lift(b, region, xs):
    """Emit a region of scalar elementwise ops on tiles; returns what it yields."""
    dims = T.shape(xs[0].type)
    made = dict(zip(region.args, xs))

    def value(x):
        if x not in made:   # from outside the region
            made[x] = ops.splat(b, x, shape=dims) if dims else x
        return made[x]

    for inner in region.ops[:-1]:
        new = b.emit(inner.kind, [value(x) for x in inner.operands], inner.attrs)
        made[inner] = ops.splat(b, new, shape=dims) if dims and not inner.operands else new
    return [value(y) for y in region.yields]


OTHERS = {ops.dot: _dot, ops.sort: _sort, ops.topk: _sort, ops.print_: _print, ops.rare: _rare}
