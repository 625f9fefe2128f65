"""Loads of tiles that overlap, as the neighbours in a filter: x[i - 1], x[i], x[i + 1]."""

from __future__ import annotations

from .... import ops
from ....analysis.polynomial import Poly, Scalars
from ....ir import types as T
from ....ir.core import Block, Op
from ..layout.linear import Layout
from ..layout.values import layout_of

ONE = Poly.of(1)


def overlapping_loads(block: Block) -> frozenset[Op]:
    """The loads of a block, which has layouts, that share elements in a thread with another one, where all between the
    two is arithmetic, or loads.

    >>> from tritium.ir.text import parse_module
    >>> runs = "layout=((256,), (1, 2), (4, 8, 16, 32, 64), (128,))"
    >>> m = parse_module(f'''kernel @f(%x: ptr<f32>) {{
    ...   %0 = arange {{start=0, end=256, {runs}}} : tile<256xi32>
    ...   %1 = constant {{value=1, type=i32}} : i32
    ...   %2 = splat %1 {{shape=(256,), {runs}}} : tile<256xi32>
    ...   %3 = add %0, %2 {{{runs}}} : tile<256xi32>
    ...   %4 = splat %x {{shape=(256,), {runs}}} : tile<256xptr<f32>>
    ...   %5 = addptr %4, %0 {{{runs}}} : tile<256xptr<f32>>
    ...   %6 = load %5 {{{runs}}} : tile<256xf32>
    ...   %7 = addptr %4, %3 {{{runs}}} : tile<256xptr<f32>>
    ...   %8 = load %7 {{{runs}}} : tile<256xf32>
    ... }}''')
    >>> len(overlapping_loads(m.body))
    2
    """
    found: set[Op] = set()
    alike: dict[tuple, list[Op]] = {}
    for op in block.ops:
        if op.kind is ops.load and not op.attrs["volatile"]:
            if type(op.type) is not T.Tile:
                continue
            key = layout_of(op), op.type, op.attrs.get("cache"), op.attrs.get("eviction"), len(op.operands)
            alike.setdefault(key, []).append(op)
        elif op.regions or op.kind.effects_of(op):
            found |= _overlapping(alike)
            alike = {}
    return frozenset(found | _overlapping(alike))


def _overlapping(alike: dict[tuple, list[Op]]) -> set[Op]:
    """Of loads that are alike, those that read what another one reads as well."""
    found, scalars = set(), Scalars()
    for (layout, *_), loads in alike.items():
        if len(loads) < 2 or not any(layout.contiguous(a) > 1 for a in range(len(layout.shape))):
            continue
        for k, op in enumerate(loads):
            near = [other for other in loads[:k] if _overlap(op, other, layout, scalars)]
            found.update(near, [op] if near else [])
    return found


def _overlap(x: Op, y: Op, layout: Layout, scalars: Scalars) -> bool:
    """Whether a thread that reads neighbours of x reads some of them for y, too."""
    a, b = scalars.of(x.pointer), scalars.of(y.pointer)
    if a.pointer is None or a.pointer is not b.pointer or a.strides != b.strides or a.loose != b.loose:
        return False
    distance = (a.base - b.base).number
    runs = [layout.contiguous(axis) for axis, step in enumerate(a.strides) if step == ONE and T.shape(x.type)[axis] > 1]
    return distance is not None and any(0 < abs(distance) < run for run in runs)
