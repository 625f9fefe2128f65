"""Affine forms: a tile of integers or pointers as pointer + base + sum of stride * index over its axes + loose terms.

    x + (pid * 64 + arange(0, 64))[:, None] * s         pointer x, base pid * 64 * s, strides (s, 0)

What the base and the strides are made of is up to an analysis, which is a subclass of `Affine`: numbers, polynomials of
the kernel's scalars (`polynomial`), or instructions of the kernel that is being written. A term that is not affine (a
loaded index, a remainder) is *loose*: a coefficient times a tile, with the views between it and the form.

Sums and products are assumed not to overflow, as signed ones must not. Unsigned integers narrower than 64 bits wrap, so
their sums and products are loose.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..ir import types as T
from ..ir.core import Op
from ..named_tuples import NamedTuple
from .arithmetic import ARITHMETIC, Domain, is_index, pointees, transfer, wraps
from .views import moved

__all__ = ["Affine", "Form", "Loose", "is_uniform", "strides_behind"]


class Loose(NamedTuple):
    """`scale` times a value, reached from the form's tile through the views in `path`, outermost first."""

    scale: Any
    value: Any
    path: tuple = ()


class Form(NamedTuple):
    """pointer + base + sum(strides[d] * index[d]) + loose terms; `pointer` is None for integers."""

    pointer: Any
    base: Any
    strides: tuple
    loose: tuple[Loose, ...] = ()


def is_uniform(form: Form) -> bool:
    """Whether all elements are equal.

    >>> is_uniform(Form(None, 3, (0, 0))), is_uniform(Form(None, 3, (0, 1)))
    (True, False)
    """
    return not form.loose and not any(form.strides)


def strides_behind(path, strides, zero=0):
    """Strides after the views in `path` (outermost first); None if they are not affine."""
    for op in reversed(path):
        strides = moved(op, strides, zero)
        if strides is None:
            return None
    return strides


class Affine(Domain):
    """The affine forms of values. A subclass says what coefficients are, and how a loop moves what it carries.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f() {\\n %0 = arange {start=8, end=16} : tile<8xi32>\\n"
    ...                  " %1 = add %0, %0 : tile<8xi32>\\n}")
    >>> Affine().of(m.body.ops[1])
    Form(pointer=None, base=16, strides=(2,), loose=())
    """

    zero: Any = 0

    def __init__(self):
        self.known = {}

    # -- coefficients: numbers, unless a subclass says otherwise -------------------------------------------------------
    def number(self, n):
        """The coefficient of a number."""
        return n

    def plus(self, a, b):
        return a + b

    def times(self, a, b):
        return a * b

    def number_of(self, a):
        """The number that a coefficient is; None if it is something else."""
        return a if type(a) is int else None

    # -- values --------------------------------------------------------------------------------------------------------
    def of(self, x) -> Form:
        """The form of a value; one that is not affine is its own loose term."""
        found = self.known.get(x)
        if found is None:
            found = self.known[x] = self.find(x)
        return found

    def find(self, x) -> Form:
        """Compute the form of a value."""
        form = transfer(self, x, self.of) if type(x) is Op and x.kind in ARITHMETIC and _is_exact(x) else None
        return self.leaf(x) if form is None else form

    def leaf(self, x) -> Form:
        """The form of a value that is not computed by index arithmetic."""
        return self.form(loose=(Loose(self.number(1), x),), rank=len(T.shape(x.type)))

    def form(self, pointer=None, base=None, rank=0, loose=()):
        """A form without strides."""
        return Form(pointer, self.zero if base is None else base, (self.zero,) * rank, loose)

    # -- rules ---------------------------------------------------------------------------------------------------------
    def constant(self, op, number):
        return Form(None, self.number(int(number)), ())

    def arange(self, op, start):
        return Form(None, self.number(start), (self.number(1),))

    def sum(self, op, x, y, by):
        if y.pointer is not None and x.pointer is not None or op.kind is ops.addptr and x.pointer is None:
            return None
        if by != 1:
            y = self.multiplied(y, self.number(by))
        plus = self.plus
        return Form(x.pointer if y.pointer is None else y.pointer, plus(x.base, y.base),
                    tuple([plus(a, b) for a, b in zip(x.strides, y.strides)]), self.gathered(x.loose, y.loose))

    def gathered(self, xs, ys):
        """The loose terms of a sum: what both sides have is one term, or a chain of sums would have ever more."""
        if not xs or not ys:
            return xs or ys
        scales = {}
        for x in (*xs, *ys):
            key = x._replace(scale=None)
            scales[key] = self.plus(scales[key], x.scale) if key in scales else x.scale
        return tuple([key._replace(scale=scale) for key, scale in scales.items() if self.number_of(scale) != 0])

    def multiplied(self, form, by):
        """A form times a coefficient; None if coefficients have no such product."""
        times = self.times
        return Form(form.pointer, times(form.base, by), tuple([times(s, by) for s in form.strides]),
                    tuple([x._replace(scale=times(x.scale, by)) for x in form.loose]))

    def product(self, op, x, y):
        if x.strides and is_uniform(x):
            x, y = y, x
        return self.multiplied(x, y.base) if is_uniform(y) else None

    def scaled(self, op, x, by):
        return self.multiplied(x, self.number(by))

    def repointed(self, op, x):
        """The same address in units of the new element size."""
        before, after = pointees(op)
        if before == after or x.pointer is None:
            return x
        return None if before % after else self.multiplied(x, self.number(before // after))

    def view(self, op, x):
        strides = self.reshaped(op, x) if op.kind is ops.reshape else moved(op, x.strides, self.zero)
        if strides is None:
            return None
        loose = tuple([y._replace(path=(op, *y.path)) for y in x.loose]) if x.loose else ()
        return Form(x.pointer, x.base, tuple(strides), loose)

    def reshaped(self, op, x):
        """Splitting an axis or moving axes of size 1 keeps a form; merging axes does if their strides are nested."""
        merged = []
        for n, s in zip(T.shape(op.operands[0].type), x.strides):
            if n == 1:
                continue
            number, outer = self.number_of(s), self.number_of(merged[-1][1]) if merged else None
            if number is not None and outer is not None and outer == number * n:
                merged[-1] = (merged[-1][0] * n, s)
            else:
                merged.append((n, s))
        strides, rest = [], merged
        for n in reversed(op.attrs["shape"]):
            if n == 1:
                strides.insert(0, self.zero)
                continue
            if not rest or rest[-1][0] % n:
                return None
            size, s = rest.pop()
            strides.insert(0, s)
            if size > n:
                rest.append((size // n, self.times(s, self.number(n))))
        return strides


def _is_exact(op):
    """Whether an op computes integers or pointers as if they had no end: sums of short unsigned ones wrap."""
    return is_index(op.type) and (op.kind.row is None or not wraps(op.type))
