"""Tiles that dots read where they lie: a load whose rows are contiguous in memory needs no copy in scratch.

Where a tile crosses the edge of its mask, or an index wraps round (`(start + arange) % n`), it is copied after all:
which one it is turns out when the kernel runs.
"""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from ...ir.core import Arg, Result
from ..llvm.rows import memory_type
from . import lower_masks, nests
from .affine import form_of, unfolded, uniform
from .scratch import View

__all__ = ["view"]


def view(lo, x) -> View | None:
    """The tile that `x` loads, where it lies; None if its rows are not contiguous."""
    form = form_of(lo, x.operands[0])
    if form.pointer is None:
        return None
    tests, base, strides = [], form.base, form.strides
    for loose in form.loose:
        straight = _straight(lo, loose, tests)
        if straight is None:
            return None
        base, strides = lo.add(base, straight[0]), [lo.add(a, b) for a, b in zip(strides, straight[1], strict=True)]
    if type(strides[-1]) is not int or strides[-1] != 1:
        return None
    masks = {lo.key(m): m for m in x.operands[1:2]}
    inside = lower_masks.tile_inside(lo, masks)
    if masks and inside is None:
        return None
    tests += [inside] if masks else []
    start, outer = lo.offset(memory_type(T.element(x.type)), form.pointer, base), [lo.const(s) for s in strides[:-1]]
    if not tests:
        return View(x.type, start, outer)
    return _checked(lo, x, tests, start, outer)


def _straight(lo, loose, tests):
    """(base, strides) of a remainder that does not wrap inside the tile; adds the test for that. None for others."""
    x = loose.value
    if type(x) in (Arg, Result) or x.kind is not ops.rem or len(T.shape(x.type)) != 1:
        return None
    top, n = (form_of(lo, y) for y in x.operands)
    if top.loose or not uniform(n) or type(top.strides[0]) is not int or top.strides[0] < 0:
        return None
    strides = unfolded(loose.path, top.strides)
    if strides is None:
        return None
    w, reach = lo.w, top.strides[0] * (T.shape(x.type)[0] - 1)
    first = lo.const(lo.index_of(lo.ev(x, ((0, None),)), T.element(x.type)))
    tests.append(w.compare("icmp sge", first, lo.const(0)))
    tests.append(w.compare("icmp slt", lo.const(lo.add(first, reach)), lo.const(n.base)))
    return lo.mul(first, loose.scale), [lo.mul(s, loose.scale) for s in strides]


def _checked(lo, x, tests, start, outer):
    """The tile where it lies if all tests hold, else a copy."""
    ok, room = tests[0], lo.arena.take(T.shape(x.type), T.element(x.type))
    for test in tests[1:]:
        ok = lo.w.binary("and", ok, test)

    lo.ahead.discard(id(x))  # what is rarely done need not be done fast

    def copy():
        with lo.inside():
            nests.fill(lo, [(x, room)])
        return [lo.address(room), *[lo.const(s) for s in room.strides[:-1]]]
    start, *outer = lo.either(ok, lambda: [start, *outer], copy, likely=True)
    return View(x.type, start, outer, room)
