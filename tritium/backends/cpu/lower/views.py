"""Views: dots read a tile with contiguous rows in global memory, without a copy in scratch.

A tile that crosses the edge of its mask, or whose index wraps (`(start + arange) % n`), is copied; the kernel tests for
that at run time. A dot whose operands both end before K does not read what follows, so that only the other edges count.
Nor does it read rows of its lhs, and columns of its rhs, that only count for results that no store writes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .... import ops
from ....ir import types as T
from ....ir.core import Op, Value
from ...llvm.rows import memory_type
from ..fuse.affine import form_of
from ..fuse.demanded_dots import divides_integers
from ..library import dot_amx
from . import loop_nests, predication, tile_copies
from .scratch import Buffer, View

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .function import Lowering
    from .tile_copies import Wrap


def view(lo: Lowering, x: Op) -> View | None:
    """A view of the tile that `x` loads; None if its rows are not contiguous, nor its columns where that will do."""
    form = form_of(lo, x.operands[0])
    if form.pointer is None:
        return None
    found = [tile_copies.wrap_of(lo, loose) for loose in form.loose]
    wraps = [wrap for wrap in found if wrap is not None]
    if len(wraps) < len(found):
        return None
    base, strides = form.base, form.strides
    for wrap in wraps:  # as if it did not wrap
        base = lo.add(base, lo.mul(wrap.first, wrap.scale))
        strides = [lo.add(a, lo.mul(b, wrap.scale)) for a, b in zip(strides, wrap.strides, strict=True)]
    masks, dot, shape = x.operands[1:2], lo.scope.dots.get(x), [*T.shape(x.type)]
    by_columns = not _is_one(strides[-1])
    if by_columns and not (_is_one(strides[0]) and _takes_columns(lo, x, dot)):
        return None
    tests = []
    if dot is not None and len(shape) == 2:
        own = dot.operands.index(x)
        shape[own] = demanded_part(lo, dot)[own]
        axes = (own,) if dot_end(lo, dot) is None else (own, 1 - own)
        if masks:
            (end, *_), masks = predication.split_off(lo, masks[0], axes)
            tests += [] if end is None else [lo.w.compare("icmp sge", lo.const(end), lo.const(shape[own]))]
    inside = predication.tile_inside(lo, masks)
    if masks and inside is None:
        return None
    tests += [test for wrap in wraps for test in _straight(lo, wrap, shape)]
    tests += [] if inside is None else [inside]
    start = lo.offset(memory_type(T.element(x.type)), form.pointer, base)
    ok = lo.w.all_of(*tests) if tests else lo.w.const("i1", True)
    outer = [lo.const(s) for s in (strides[1:] if by_columns else strides[:-1])]
    found = View(x.type, start, outer, by_columns=ok if by_columns else None)
    return _checked(lo, x, ok, found, lambda buffer: tile_copies.load(lo, x, form, wraps, buffer)) if tests else found


def _is_one(stride: int | Val) -> bool:
    return type(stride) is int and stride == 1


def _takes_columns(lo: Lowering, x: Op, dot: Op | None) -> bool:
    """Whether a dot reads a tile by columns: the tile unit packs them as well as rows."""
    kind = str(T.element(x.type))
    if dot is None or dot.operands[1] is not x or not dot_amx.is_amx(lo.target, kind) or len(T.shape(x.type)) != 2:
        return False
    m, n = T.shape(dot.type)
    return dot_amx.takes(kind, m, n, T.shape(x.type)[0])


def dot_end(lo: Lowering, dot: Op) -> int | Val | None:
    """Where the masks of both operands end along K, behind which both are zero; None if they do not, or not there."""
    a, b = dot.operands[:2]
    if len(T.shape(a.type)) != 2 or T.element(a.type) not in (T.f32, T.f64):
        return None
    ends = []
    for x, axis in ((a, 1), (b, 0)):
        if type(x) is not Op or x.kind is not ops.load or len(x.operands) != 3:
            return None
        end = predication.split_along(lo, x.operands[1], axis)[0] if tile_copies.is_zero(x.operands[2]) else None
        if end is None:
            return None
        ends.append(end)
    return ends[0] if ends[0] == ends[1] else None


def demanded_part(lo: Lowering, dot: Op) -> tuple[int | Val, int | Val]:
    """The rows and columns of a dot that stores may write; for the tile unit, rounded up to its multiples."""
    masks, shape = lo.store_masks.get(dot, ()), T.shape(dot.type)
    if not masks or len(shape) != 2 or not _are_at_hand(lo, masks):
        return shape[-2], shape[-1]
    units = dot_amx.MULTIPLES if dot_amx.is_amx(lo.target, str(T.element(dot.operands[0].type))) else (1, 1, 1)
    rows, columns = (_end(lo, masks, axis, size, units[2 * axis]) for axis, size in enumerate(shape))
    return rows, columns


def _end(lo: Lowering, masks: Sequence[Value], axis: int, size: int, unit: int) -> int | Val:
    """The index along an axis behind which all masks are false, rounded up to whole units."""
    found = [predication.split_along(lo, mask, axis)[0] for mask in masks]
    ends = [end for end in found if end is not None]
    if len(ends) < len(found):
        return size
    w = lo.w
    largest = functools.reduce(lambda x, y: w.intrinsic("smax", "i64", x, y), map(lo.const, ends), lo.const(0))
    if unit > 1:
        largest = w.binary("and", w.binary("add", largest, lo.const(unit - 1)), lo.const(-unit))
    return w.intrinsic("smin", "i64", largest, lo.const(size))


def _are_at_hand(lo: Lowering, masks: Sequence[Value]) -> bool:
    """True if the scalars that masks are computed from are known here, or computed without a trap from those that are:
    the stores of the masks come later."""
    seen: set[Value] = set()
    todo = [*masks]
    while todo:
        x = todo.pop()
        if x in seen or type(x.type) is not T.Tile and x in lo.values:
            continue
        seen.add(x)
        if type(x) is not Op or x.regions or x.kind.effects_of(x) or x.kind.elementwise and divides_integers(x):
            return False
        if type(x.type) is not T.Tile and not x.kind.elementwise and x.operands:
            return False
        todo += x.operands
    return True


def _straight(lo: Lowering, wrap: Wrap, shape: Sequence[int | Val]) -> list[Val]:
    """Tests that a remainder equals its dividend in the whole tile."""
    reach = functools.reduce(lo.add, [lo.mul(s, lo.sub(n, 1)) for s, n in zip(wrap.strides, shape, strict=True)])
    return [lo.w.compare("icmp sge", lo.const(wrap.first), lo.const(0)),
            lo.w.compare("icmp slt", lo.const(lo.add(wrap.first, reach)), lo.const(wrap.by))]


def _checked(lo: Lowering, x: Op, ok: Val, found: View, by_runtime: Callable[[Buffer], bool]) -> View:
    """The view `found` if that is `ok`, else one of a copy."""
    buffer = lo.arena.take(T.shape(x.type), T.element(x.type))
    lo.rows_ahead[x] = 0  # the copy is cold: no prefetching

    def copy():
        with lo.inside():
            if not by_runtime(buffer):
                loop_nests.fill(lo, [(x, buffer)])
        return [lo.address(buffer), *[lo.const(s) for s in buffer.strides[:-1]]]
    start, *outer = lo.either(ok, lambda: [found.start, *found.strides[:-1]], copy, likely=True)
    return View(x.type, start, outer, buffer, found.by_columns)
