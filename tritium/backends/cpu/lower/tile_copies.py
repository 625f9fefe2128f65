"""Calls of the runtime's tile copies (tile_copy.py): matrices with contiguous rows, clipped by their masks.

Inline loops would be most of a kernel's code, and run seldom: at the edges of matrices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .... import ops
from ....analysis.affine import Form, Loose, is_uniform, strides_behind
from ....ir import types as T
from ....ir.core import Op
from ....named_tuples import NamedTuple
from ....passes.simplify import number
from ...llvm.rows import memory_type
from ..fuse.affine import form_of
from . import predication
from .scratch import Buffer

if TYPE_CHECKING:
    from .function import Lowering

_NARROW = 128  # bytes; shorter rows are copied faster inline


class Wrap(NamedTuple):
    """`scale` times ((first + sum of strides * index) % by)."""

    scale: Any
    first: Any
    by: Any
    strides: tuple


def wrap_of(lo: Lowering, loose: Loose) -> Wrap | None:
    """A loose term (affine.py) that is a remainder of indices; None for others."""
    x = loose.value
    if type(x) is not Op or x.kind is not ops.rem or len(T.shape(x.type)) != 1 or not T.element(x.type).signed:
        return None
    top, by = (form_of(lo, y) for y in x.operands)
    if top.loose or not is_uniform(by) or type(top.strides[0]) is not int or top.strides[0] < 0:
        return None
    strides = strides_behind(loose.path, top.strides)
    return None if strides is None else Wrap(loose.scale, top.base, by.base, strides)


def load(lo: Lowering, op: Op, form: Form, wraps: list[Wrap], buffer: Buffer) -> bool:
    """Call the runtime to copy the tile that `op` loads from pointers of this form; False if it cannot."""
    _, mask, other = (*op.operands, None, None)[:3]
    shape = T.shape(op.type)
    if len(shape) != 2 or other is not None and not is_zero(other):
        return False
    ends = predication.limits(lo, mask, shape)
    axes = [(stride, 0, 0) for stride in form.strides]
    for wrap in wraps:
        axis = wrap.strides.index(1) if sorted(map(str, wrap.strides)) == ["0", "1"] else None
        if axis is None or axes[axis] != (0, 0, 0):
            return False
        axes[axis] = (wrap.scale, wrap.first, wrap.by)
    if ends is None or axes[1][0] != 1:
        return False
    element = T.element(op.type)
    start = lo.offset(memory_type(element), form.pointer, form.base)
    sizes = (axes[0][0], *shape, *ends, *axes[0][1:], *axes[1][1:], element.bytes)
    lo.w.call("void", "tt.tile.load", lo.address(buffer), lo.const(buffer.strides[0]), start, *map(lo.const, sizes))
    return True


def store(lo: Lowering, op: Op) -> bool:
    """Call the runtime to store a buffered tile; False if the tile is not buffered or the runtime cannot."""
    x = op.operands[1]
    shape, element, buffer = T.shape(x.type), T.element(x.type), lo.buffers.get(x)
    if type(buffer) is not Buffer or len(shape) != 2 or shape[1] * element.bytes < _NARROW:
        return False
    form, ends = form_of(lo, op.pointer), predication.limits(lo, op.mask, shape)
    if form.pointer is None or form.loose or form.strides[1] != 1 or ends is None:
        return False
    start = lo.offset(memory_type(element), form.pointer, form.base)
    lo.w.call("void", "tt.tile.store", start, lo.const(form.strides[0]), lo.address(buffer),
              *map(lo.const, (buffer.strides[0], *shape, *ends, element.bytes)))
    return True


def is_zero(x: Any) -> bool:
    """Whether all bits of a tile are zero."""
    known = number(x)
    return known == 0 and str(known)[0] != "-"
