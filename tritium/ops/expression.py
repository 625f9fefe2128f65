"""Formulas over values: `x * y + 1.0` emits ops through the builder that `x` was made with.

The expansions of the mathematical rows are written in it. A Python number takes the element type of the value it
meets; everything has one shape.

    >>> from tritium.ir import types as T
    >>> from tritium.ir.builder import Builder
    >>> b = Builder()
    >>> x = Expr(b, b.argument(T.f32, "x"))
    >>> where(x > 0.0, x, x * 0.5).v
    Op(select: f32)
"""

from __future__ import annotations

from typing import Any

from ..ir import types as T
from ..ir.opdef import KINDS
from .casts import bitcast, cast, select
from .control import constant, while_, yield_
from .elementwise import (
    abs_,
    add,
    and_,
    ceil,
    copysign,
    div,
    eq,
    floor,
    ge,
    gt,
    le,
    lt,
    max_,
    min_,
    mul,
    ne,
    or_,
    rem,
    shl,
    shr,
    sub,
    xor,
)
from .elementwise import fma as fma_row
from .elementwise import rint as rint_row
from .elementwise import sqrt as sqrt_row
from .elementwise import trunc as trunc_row
from .rare import rare
from .reduce import map_
from .shape import splat

SIGNED = {8: T.i8, 16: T.i16, 32: T.i32, 64: T.i64}
UNSIGNED = {8: T.u8, 16: T.u16, 32: T.u32, 64: T.u64}


class Expr:
    """A value `v` and the builder `b` that goes on from it."""

    __slots__ = ("b", "v")

    def __init__(self, b, v):
        self.b, self.v = b, v

    @property
    def element(self):
        return T.element(self.v.type)

    @property
    def bits(self):
        """The bit pattern, as a signed integer of the same width."""
        return self.bitcast(SIGNED[self.element.bits])

    @property
    def ubits(self):
        """The bit pattern, as an unsigned integer of the same width."""
        return self.bitcast(UNSIGNED[self.element.bits])

    def const(self, value, element=None):
        """The number `value` in this value's shape, of its element type or another."""
        element = element or self.element
        made = constant(self.b, value=value if element.is_float or element is T.i1 else int(value), type=element)
        dims = T.shape(self.v.type)
        return Expr(self.b, splat(self.b, made, shape=dims) if dims else made)

    def of(self, value):
        """`value` if it is an Expr, else the constant."""
        return value if type(value) is Expr else self.const(value)

    def cast(self, to, rounding=None):
        """The value converted to element type `to`."""
        return self if to is self.element and rounding is None else \
            Expr(self.b, cast(self.b, self.v, to=to, rounding=rounding))

    def bitcast(self, to):
        """The bits as element type `to`."""
        return self if to is self.element else Expr(self.b, bitcast(self.b, self.v, to=to))

    def __add__(self, y): return call(add, self, y)
    def __radd__(self, x): return call(add, self.of(x), self)
    def __sub__(self, y): return call(sub, self, y)
    def __rsub__(self, x): return call(sub, self.of(x), self)
    def __mul__(self, y): return call(mul, self, y)
    def __rmul__(self, x): return call(mul, self.of(x), self)
    def __truediv__(self, y): return call(div, self, y)
    def __rtruediv__(self, x): return call(div, self.of(x), self)
    def __floordiv__(self, y): return call(div, self, y)
    def __mod__(self, y): return call(rem, self, y)
    def __and__(self, y): return call(and_, self, y)
    def __rand__(self, x): return call(and_, self.of(x), self)
    def __or__(self, y): return call(or_, self, y)
    def __xor__(self, y): return call(xor, self, y)
    def __lshift__(self, y): return call(shl, self, y)
    def __rshift__(self, y): return call(shr, self, y)
    def __lt__(self, y): return call(lt, self, y)
    def __le__(self, y): return call(le, self, y)
    def __gt__(self, y): return call(gt, self, y)
    def __ge__(self, y): return call(ge, self, y)
    def __eq__(self, y): return call(eq, self, y)
    def __ne__(self, y): return call(ne, self, y)
    __hash__: Any = None

    def __neg__(self):
        """-x, exactly (the sign of zero and of NaN too)."""
        return call(sub, self.const(-0.0 if self.element.is_float else 0), self)

    def __invert__(self):
        return call(xor, self, self.const(True if self.element is T.i1 else -1))

    def __abs__(self):
        return call(abs_, self)


def call(kind, *xs):
    """Emit `kind` on expressions and numbers; the first is an expression."""
    first = xs[0]
    made = kind(first.b, *[x.v if type(x) is Expr else first.const(x).v for x in xs])
    return Expr(first.b, made)


def row(name, *xs):
    """Emit the row called `name`."""
    return call(KINDS[name], *xs)


def fma(x, y, z):
    """x * y + z with one rounding; any two may be numbers."""
    first = next(v for v in (x, y, z) if type(v) is Expr)
    return call(fma_row, first.of(x), first.of(y), first.of(z))


def where(condition, x, y):
    """x where the condition holds, else y; one of them may be a number."""
    first = x if type(x) is Expr else y
    return Expr(first.b, select(first.b, condition.v, first.of(x).v, first.of(y).v))


def rarely(condition, usual, fn, *xs):
    """fn(*xs) where the condition holds, else the usual value; fn is written on one element and often skipped."""
    b = usual.b
    with b.region([x.element for x in xs]) as region:
        yield_(b, fn(*[Expr(b, a) for a in region.args]).v)
    return Expr(b, rare(b, condition.v, usual.v, *[x.v for x in xs], regions=(region.block,)))


def repeat(condition, body, *inits):
    """while condition(*values): values = body(*values), on single elements; returns the last values."""
    b, types = inits[0].b, [x.element for x in inits]
    regions = []
    for fn in (condition, body):
        with b.region(types) as region:
            made = fn(*[Expr(b, a) for a in region.args])
            yield_(b, *[x.v for x in (made if type(made) is tuple else (made,))])
        regions.append(region.block)
    made = while_(b, *[x.v for x in inits], regions=tuple(regions))
    return [Expr(b, v) for v in (made if type(made) is tuple else (made,))]


def element_by_element(fn, *xs):
    """fn of single elements, which may hold loops, applied to all."""
    b = xs[0].b
    if not T.shape(xs[0].v.type):
        return fn(*xs)
    with b.region([x.element for x in xs]) as region:
        yield_(b, fn(*[Expr(b, a) for a in region.args]).v)
    return Expr(b, map_(b, *[x.v for x in xs], regions=(region.block,)))


def minimum(x, y): return call(min_, x, y)
def maximum(x, y): return call(max_, x, y)
def sign_of(x, y): return call(copysign, x, y)
def rint(x): return call(rint_row, x)
def floor_(x): return call(floor, x)
def ceil_(x): return call(ceil, x)
def trunc(x): return call(trunc_row, x)
def sqrt(x): return call(sqrt_row, x)


def poly(x, coefficients):
    """c[0] + c[1] x + c[2] x^2 ..., by Horner's rule with fma."""
    *rest, total = coefficients
    for c in reversed(rest):
        total = fma(total, x, c)
    return total


EXPAND: dict = {}


def expands(*names):
    """Decorator: the function of expressions writes the rows called `names` in terms of simpler rows.

    EXPAND then maps each row's kind to `fn(b, op, *values) -> Value`.
    """
    def register(fn):
        def expand(b, op, *xs):
            return fn(*[Expr(b, x) for x in xs]).v
        for name in names:
            EXPAND[KINDS[name]] = expand
        return fn
    return register


def in_f64(fn):
    """Decorator: on f32 compute in f64 and round once, for functions too rare to be written twice."""
    def run(*xs):
        if not any(x.element is T.f32 for x in xs):
            return fn(*xs)
        return fn(*[x.cast(T.f64) if x.element is T.f32 else x for x in xs]).cast(T.f32)
    return run
