"""Pairs of floats whose sum carries twice the precision: sums, products and what they are made of.

`fma` stands where a product meets a sum, so that no backend's contraction changes an error term.

    >>> from tritium.ir import types as T
    >>> from tritium.ir.builder import Builder
    >>> from tritium.ops.expression import Expr
    >>> b = Builder()
    >>> high, low = two_product(Expr(b, b.argument(T.f32, "x")), Expr(b, b.argument(T.f32, "y")))
    >>> high.v, low.v
    (Op(fma: f32), Op(fma: f32))
"""

from __future__ import annotations

from .expression import fma


def two_sum(x, y):
    """x + y as (sum, what its rounding lost), exactly."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def fast_two_sum(x, y):
    """The same where |x| >= |y| or x is 0."""
    total = x + y
    return total, y - (total - x)


def product(x, y):
    """x * y that no backend joins with a later sum."""
    return fma(x, y, -0.0)


def two_product(x, y):
    """x * y as (product, what its rounding lost), exactly if nothing underflows."""
    high = product(x, y)
    return high, fma(x, y, -high)


def multiply(x, y):
    """The product of two pairs."""
    (xh, xl), (yh, yl) = x, y
    high, low = two_product(xh, yh)
    return fast_two_sum(high, fma(xh, yl, fma(xl, yh, low)))
