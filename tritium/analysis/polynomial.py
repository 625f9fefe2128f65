"""Scalar integers of a kernel as polynomials over opaque values.

Addresses and bounds are compared this way: `K - step * 64`, relative to `step * 64`, ends at `K`. Sums and products are
assumed not to overflow, as in all address analysis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..ir import types as T
from ..ir.core import Arg, Op, Result
from .affine import Affine
from .induction import increment

MOST_TERMS = 8  # a longer sum is a value of its own


class Poly:
    """A sum of terms; `terms` maps a product (a sorted tuple of values) to its coefficient.

    >>> x, y = Poly.of(Arg(T.i32, "x")), Poly.of(Arg(T.i32, "y"))
    >>> (x + y) * 2 - x - y * 2
    Poly(x)
    """

    __slots__ = ("terms",)

    def __init__(self, terms=()):
        self.terms = {m: c for m, c in dict(terms).items() if c}

    @classmethod
    def of(cls, x):
        """The polynomial of one value, or of a number."""
        return cls({(): x}) if isinstance(x, int) else cls({(x,): 1})

    def __repr__(self):
        spell = lambda m, c: "*".join(([] if c == 1 and m else [str(c)]) + [getattr(x, "name", "") or "?" for x in m])
        return f"Poly({' + '.join(spell(m, c) for m, c in self.terms.items())})"

    def __eq__(self, other):
        return self.terms == other.terms

    def __hash__(self):
        return hash(frozenset(self.terms.items()))

    def __bool__(self):
        return bool(self.terms)

    def __add__(self, other):
        out = dict(self.terms)
        for m, c in other.terms.items():
            out[m] = out.get(m, 0) + c
        return Poly(out)

    def __sub__(self, other):
        return self + other * -1

    def __mul__(self, other):
        if isinstance(other, int):
            return Poly({m: c * other for m, c in self.terms.items()})
        out = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                key = tuple(sorted(m + n, key=hash))
                out[key] = out.get(key, 0) + c * d
        return Poly(out)

    @property
    def number(self):
        """The constant it is; None if it has values."""
        return None if any(self.terms) else self.terms.get((), 0)

    @property
    def values(self):
        """The values in its terms."""
        return {x for m in self.terms for x in m}

    def split(self, wanted):
        """(the terms whose values all are `wanted`, the others)."""
        mine = {m: c for m, c in self.terms.items() if all(map(wanted, m))}
        return Poly(mine), Poly({m: c for m, c in self.terms.items() if m not in mine})

    def divided(self, by):
        """(quotient, remainder): the terms that are multiples of `by`, a single term, divided by it, and the rest."""
        ((factor, times),) = by.terms.items()
        quotient, rest = {}, {}
        for m, c in self.terms.items():
            left = _without(m, factor)
            if left is None or c % times:
                rest[m] = c
            else:
                quotient[left] = c // times
        return Poly(quotient), Poly(rest)

    def divisor(self, of):
        """A power of two that divides it, where `of(value)` divides each value."""
        out = 1 << 40
        for m, c in self.terms.items():
            power = c & -c
            for x in m:
                power *= of(x)
            out = min(out, power)
        return out


def _without(product, factor):
    left = list(product)
    for x in factor:
        if x not in left:
            return None
        left.remove(x)
    return tuple(left)


ZERO = Poly()
ITERATION = Arg(T.i64, "iteration")  # the number of the iteration


class Scalars(Affine):
    """Affine forms over the scalars of a kernel, and the polynomials of scalars themselves: `scalars(x)`.

    Inside of a loop, an induction variable is its start plus its step times ITERATION.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%s: i32) {\\n %0 = constant {value=3, type=i32} : i32\\n %1 = mul %s, %0 : i32\\n}")
    >>> Scalars()(m.body.ops[1])
    Poly(3*s)
    """

    zero = ZERO

    def __init__(self, loop=None):
        super().__init__()
        if loop is not None:
            self._enter(loop)

    def _enter(self, loop):
        body, (lo, _, step, *inits) = loop.regions[0], loop.operands
        self._advance(body.args[0], lo, step)
        for arg, init, out in zip(body.args[1:], inits, body.yields):
            by = increment(arg, out) if type(arg.type) is T.Scalar else None
            if by is not None and ITERATION not in self(by).values:
                self._advance(arg, init, by)

    def _advance(self, arg, start, by):
        self.known[arg] = self.form(base=self(start) + self(by) * Poly.of(ITERATION))

    def __call__(self, x):
        """The polynomial of a scalar."""
        return self.of(x).base

    def find(self, x):
        form = super().find(x)
        return self.leaf(x) if type(x.type) is T.Scalar and len(form.base.terms) > MOST_TERMS else form

    def leaf(self, x):
        if type(x.type) is T.Tile:
            return super().leaf(x)
        return self.form(x) if T.is_ptr(x.type) else self.form(base=Poly.of(x))

    def number(self, n):
        return Poly.of(n)

    def number_of(self, a):
        return a.number

    def reshaped(self, op, x):
        return None if op.attrs["reorder"] else super().reshaped(op, x)


def in_order(product):
    """The values of a product, which are sorted by address, in a deterministic order for emission.

    >>> from tritium.ir.builder import Builder
    >>> b = Builder()
    >>> x, y = (ops.cast(b, b.argument(T.i32, name), to=T.i64) for name in "xy")
    >>> in_order((x, y)) == in_order((y, x))
    True
    """
    return sorted(product, key=lambda x: (type(x) is not Arg, _spelling(x)))


def _spelling(x: Any, depth: int = 4) -> str:
    """What a value is computed by, so many ops back."""
    if type(x) is Result:
        return f"{_spelling(x.op, depth)}#{x.index}"
    if type(x) is not Op or not depth:
        return getattr(x, "name", "")
    operands = ", ".join(_spelling(y, depth - 1) for y in x.operands)
    return f"{x.kind.name} {x.attrs} {operands}"


def write(b, poly, iteration: Any = None, value: Callable[[Any], Any] = lambda x: x):
    """Emit a polynomial as an i64; `iteration` stands for ITERATION, `value` maps the others."""
    total = None
    for product, times in poly.terms.items():
        part = None
        for x in in_order(product):
            x = iteration if x is ITERATION else value(x)
            x = x if x.type is T.i64 else ops.cast(b, x, to=T.i64)
            part = x if part is None else ops.mul(b, part, x)
        if part is None or times != 1:
            number = ops.constant(b, value=times, type=T.i64)
            part = number if part is None else ops.mul(b, part, number)
        total = part if total is None else ops.add(b, total, part)
    return ops.constant(b, value=0, type=T.i64) if total is None else total


__all__ = ["ITERATION", "ZERO", "Poly", "Scalars", "in_order", "write"]
