"""Sorting along the last axis: a bitonic network whose partner in each step differs in one bit of the index."""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from .lower import lower
from .lower_reduce import Axis, exchange_warps


@lower(ops.sort)
def sort(g, op, x):
    w, layout, t = g.w, g.layout(op), T.element(op.type)
    axis = Axis(layout, len(layout.shape) - 1)
    n = len(axis.bits)
    less = {"int": "icmp slt", "uint": "icmp ult", "bool": "icmp ult", "float": "fcmp olt"}[t.kind]
    for k in range(n):
        for j in range(k, -1, -1):
            partners = _partners(g, op, layout, axis.bits[j], x)
            out = []
            for r, (mine, other) in enumerate(zip(x, partners)):
                upper = _bit(g, axis, j, r)
                turned = _bit(g, axis, k + 1, r) if k + 1 < n else False
                keep_larger = _xor(g, _xor(g, upper, turned), bool(op.attrs["descending"]))
                smaller = w.select(w.compare(less, other, mine), other, mine)
                larger = w.select(w.compare(less, other, mine), mine, other)
                out.append(
                    (larger if keep_larger else smaller)
                    if isinstance(keep_larger, bool)
                    else w.select(keep_larger, larger, smaller)
                )
            x = out
    return x


def _partners(g, op, layout, home, x):
    part, bit = home
    if part == "reg":
        return [x[r ^ (1 << bit)] for r in range(len(x))]
    if part == "lane":
        return [g.target.shuffle_xor(g, v, 1 << bit) for v in x]
    return [items[0] for items in exchange_warps(g, [T.element(op.type)], bit, [[v] for v in x])]


def _bit(g, axis, k, r):
    """Bit k of the element's index: known for register bits, a value of this thread otherwise."""
    part, bit = axis.bits[k]
    if part == "reg":
        return bool(r >> bit & 1)
    return g.w.compare("icmp ne", g.w.binary("and", g.place(part), g.int(1 << bit)), g.int(0))


def _xor(g, a, b):
    if isinstance(a, bool) and isinstance(b, bool):
        return a != b
    if isinstance(a, bool):
        a, b = b, a
    if isinstance(b, bool):
        return g.w.binary("xor", a, g.w.const("i1", True)) if b else a
    return g.w.binary("xor", a, b)
