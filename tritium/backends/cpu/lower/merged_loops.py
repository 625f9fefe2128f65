"""Loops over neighbouring axes that become one loop: bitonic networks over 1024 elements have ten axes of two.

Where everything that a nest computes treats two axes alike, the index of the second counts on beyond its size, and that
of the first stays 0: elements have the same places in row-major order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .... import ops
from ....analysis.views import axes_behind
from ....ir import types as T
from ....ir.core import Op, Value
from ..fuse.index import Chunks, groups
from .scratch import Buffer

if TYPE_CHECKING:
    from .function import Lowering


def merged(lo: Lowering, walk: Chunks, tiles: Sequence[Value], axis: int) -> Chunks:
    """A traversal of the axes of `tiles` without one, with as few loops as possible."""
    outer, sizes, seen = [], [], {}
    for b, size in zip(walk.outer, walk.sizes, strict=True):
        pair = [a + (a >= axis) for a in (*outer[-1:], b)]
        if len(pair) == 2 and all(_alike(lo, x, pair[0], pair[1], seen) for x in tiles):
            outer[-1], sizes[-1] = b, sizes[-1] * size
        else:
            outer.append(b)
            sizes.append(size)
    return walk._replace(outer=tuple(outer), sizes=tuple(sizes))


def _alike(lo: Lowering, x: Value, a: int, b: int, seen: dict[tuple, bool]) -> bool:
    """Whether the index of axis `b` may stand for those of `a` and `b` in all that a tile is computed from."""
    found = seen.get((x, a, b))
    if found is None:
        found = seen[x, a, b] = _in_order(x, a, b) and _stored_alike(lo, x, a, b) and _computed_alike(lo, x, a, b, seen)
    return found


def _in_order(x: Value, a: int, b: int) -> bool:
    return a < b and all(n == 1 for n in T.shape(x.type)[a + 1:b])


def _stored_alike(lo: Lowering, x: Value, a: int, b: int) -> bool:
    buffer: Any = lo.buffers.get(x) or lo.pending.get(x)
    return buffer is None or type(buffer) is Buffer and buffer.strides[a] == buffer.shape[b] * buffer.strides[b]


def _computed_alike(lo: Lowering, x: Value, a: int, b: int, seen: dict[tuple, bool]) -> bool:
    if x in lo.buffers:
        return True
    if type(x) is not Op or x.kind is ops.load or not lo.is_lazy(x):
        return False
    if x.kind is ops.reshape:
        return any(a in after and b in after for _, after in groups(T.shape(x.operands[0].type), T.shape(x.type)))
    if x.kind.elementwise:
        return all(_alike(lo, y, a, b, seen) for y in x.operands if type(y.type) is T.Tile)
    if not x.kind.view or not x.operands:
        return False
    axes = axes_behind(x, tuple(range(len(T.shape(x.type)))), -1)
    if a not in axes and b not in axes:
        return True
    return a in axes and b in axes and _alike(lo, x.operands[0], axes.index(a), axes.index(b), seen)
