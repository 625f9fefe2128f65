"""How views rearrange the axes of a tile, in both directions."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..ir import types as T

__all__ = ["axes_behind", "moved"]


def moved(op, facts, new, stretched=None) -> Any:
    """Facts about each axis of a view's result, of those about its operand's axes; None for a reshape.

    An axis that the view adds has the fact `new`, and so has one of size 1 that it stretches, unless
    `stretched(fact, length)` says otherwise.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: tile<8xf32>) {\\n %0 = expand_dims %x {axis=0} : tile<1x8xf32>\\n"
    ...                  " %1 = broadcast %0 {shape=(4, 8)} : tile<4x8xf32>\\n}")
    >>> facts = moved(m.body.ops[0], ("rows",), "once")
    >>> facts, moved(m.body.ops[1], facts, "copied")
    (('once', 'rows'), ('copied', 'rows'))
    """
    if op.kind is ops.broadcast:
        sizes = zip(facts, T.shape(op.operands[0].type), T.shape(op.type), strict=True)
        return tuple([x if m != 1 else stretched(x, n) if stretched else new for x, m, n in sizes])
    if op.kind is ops.expand_dims:
        at = op.attrs["axis"]
        return (*facts[:at], new, *facts[at:])
    if op.kind is ops.trans:
        return tuple([facts[axis] for axis in op.attrs["order"]])
    if op.kind is ops.splat:
        return (new,) * len(op.attrs["shape"])
    return None if op.kind is ops.reshape else tuple(facts)


def axes_behind(op, axes, single=None) -> Any:
    """Facts about the axes of a view's operand, of those about its result's; fresh ones behind a reshape.

    An axis of size 1 that is broadcast has the fact `single`; with None, that of the axis it becomes. `axes` may be
    None: nothing is known.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: tile<8xf32>) {\\n %0 = expand_dims %x {axis=0} : tile<1x8xf32>\\n"
    ...                  " %1 = broadcast %0 {shape=(4, 8)} : tile<4x8xf32>\\n}")
    >>> axes_behind(m.body.ops[0], ("i", "j")), axes_behind(m.body.ops[1], ("i", "j"), 0)
    (('j',), (0, 'j'))
    """
    if axes is None or op.kind is ops.splat:
        return axes and ()
    if op.kind is ops.expand_dims:
        return (*axes[:op.attrs["axis"]], *axes[op.attrs["axis"] + 1:])
    if op.kind is ops.trans:
        return tuple([axes[op.attrs["order"].index(a)] for a in range(len(axes))])
    if op.kind is ops.broadcast and single is not None:
        return tuple([single if n == 1 else x for x, n in zip(axes, T.shape(op.operands[0].type), strict=True)])
    if op.kind is ops.reshape:
        return tuple([(op, axes, a) for a in range(len(T.shape(op.operands[0].type)))])
    return axes
