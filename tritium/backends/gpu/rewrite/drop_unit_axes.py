"""Access memory by tiles of two axes where the others have one element.

    %1 = load %0 : tile<1x128x64xf16>                  %1 = load %0 : tile<128x64xf16>
    %2 = reshape %1 {shape=(128, 64)}           ->     %2 = %1
    dot %2, ...                                        dot %2, ...

Descriptors of batches make such tiles. Dots have two axes, and so do the tiles that TMA and asynchronous copies move.
The addresses are computed of tiles without these axes; an access whose addresses cannot be keeps its shape.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Module, Op, Value
from ....ir.rewrite import Rewriter, sweep
from ....passes import CLEANUP

AXES = 2


def drop_unit_axes(module: Module) -> Module:
    """Drop axes of size 1 of the tiles of accesses, down to two axes.

    >>> from tritium.ir.text import parse_module
    >>> print(drop_unit_axes(parse_module('''kernel @f(%p: ptr<f32>, %q: tile<8x16xptr<f32>>) {
    ...   %0 = splat %p {shape=(1, 8, 16)} : tile<1x8x16xptr<f32>>
    ...   %1 = load %0 : tile<1x8x16xf32>
    ...   %2 = reshape %1 {shape=(8, 16)} : tile<8x16xf32>
    ...   store %q, %2
    ... }''')), end="")
    kernel @f(%p: ptr<f32>, %q: tile<8x16xptr<f32>>) {
      %2 = splat %p {shape=(8, 16)} : tile<8x16xptr<f32>>
      %3 = load %2 : tile<8x16xf32>
      store %q, %3
    }
    """
    if not any(kind.access for kind in module.kinds):
        return module

    def rule(b: Rewriter, op: Op) -> Value | tuple[()] | None:
        if not op.kind.access:
            return None
        pointer = op.operands[op.kind.access.pointer]
        axes = _unit_axes(T.shape(pointer.type))
        found: dict[tuple[Value, tuple[int, ...]], Value | None] = {}
        if not axes or _without(b, pointer, axes, found) is None:
            return None
        operands = [_without(b, x, axes, found) or _reshaped(b, x, axes) for x in op.operands]
        made = b.emit_as_is(op.kind, operands, op.attrs, op.regions)
        if not op.types:
            return ()
        for axis in axes:
            made = ops.expand_dims(b, made, axis=axis)
        return made

    return sweep(module, rule, *CLEANUP)


def _unit_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of size 1 that are dropped of a shape, the first ones first."""
    return tuple(k for k, size in enumerate(shape) if size == 1)[:max(len(shape) - AXES, 0)]


def _kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for k, size in enumerate(shape) if k not in axes)


def _reshaped(b: Rewriter, x: Value, axes: tuple[int, ...]) -> Value:
    return ops.reshape(b, x, shape=_kept(T.shape(x.type), axes))


def _without(b: Rewriter, x: Value, axes: tuple[int, ...], found: dict) -> Value | None:
    """A tile without some axes of size 1, computed of tiles without them; None if it is loaded, carried or the like."""
    if not axes:
        return x
    if (x, axes) not in found:
        found[x, axes] = _computed_without(b, x, axes, found) if isinstance(x, Op) else None
    return found[x, axes]


def _computed_without(b: Rewriter, x: Op, axes: tuple[int, ...], found: dict) -> Value | None:
    shape = _kept(T.shape(x.type), axes)
    if x.kind is ops.splat:
        return ops.splat(b, x.operands[0], shape=shape)
    if x.kind is ops.expand_dims:
        return _without_inserted(b, x, axes, found)
    if x.kind is not ops.broadcast and not (x.kind.elementwise and not x.kind.effects and not x.regions):
        return None
    operands = [_without(b, y, axes, found) if type(y.type) is T.Tile else y for y in x.operands]
    if any(y is None for y in operands):
        return None
    return b.emit_as_is(x.kind, operands, {**x.attrs, "shape": shape} if x.kind is ops.broadcast else x.attrs)


def _without_inserted(b: Rewriter, x: Op, axes: tuple[int, ...], found: dict) -> Value | None:
    """An `expand_dims` without some axes: the one that it inserts, or others of its operand."""
    at = x.attrs["axis"]
    before = tuple(axis - (axis > at) for axis in axes if axis != at)
    inner = _without(b, x.operands[0], before, found)
    if inner is None or at in axes:
        return inner
    return ops.expand_dims(b, inner, axis=at - sum(axis < at for axis in axes))
