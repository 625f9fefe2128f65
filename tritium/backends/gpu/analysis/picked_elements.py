"""Sums that pick one of two elements: sum(x * mask) along an axis of two, with a mask of 1 at one and 0 at the other.

Sorting networks find both elements that they compare so, Inductor's for one.
"""

from __future__ import annotations

from .... import ops
from ....analysis.affine import Affine
from ....analysis.arithmetic import is_index, keeps_integers
from ....ir import types as T
from ....ir.core import Op, Value


def picked_element(op: Op) -> tuple[Op, Value, int] | None:
    """(product, tile, k) of a reduction of pairs that gives the tile's element k of each; None if it is none.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module('''kernel @f(%x: tile<4x2xi32>) {
    ...   %0 = arange {start=0, end=2} : tile<2xi32>
    ...   %1 = expand_dims %0 {axis=0} : tile<1x2xi32>
    ...   %2 = broadcast %1 {shape=(4, 2)} : tile<4x2xi32>
    ...   %3 = mul %x, %2 : tile<4x2xi32>
    ...   %4 = reduce %3 {axis=1} : tile<4xi32> {
    ...   ^(%a: i32, %b: i32):
    ...     %5 = add %a, %b : i32
    ...     yield %5
    ...   }
    ... }''')
    >>> product, tile, k = picked_element(m.body.ops[4])
    >>> tile.name, k
    ('x', 1)
    """
    match op.regions[0].ops, op.operands:
        case [Op(ops.add, (a, b)), Op(ops.yield_)], (x,) if {a, b} == {*op.regions[0].args}:
            product = x.operands[0] if type(x) is Op and x.kind is ops.cast else x
            if type(product) is Op and product.kind is ops.mul and _widens(product.type, x.type):
                for y, mask in (product.operands, product.operands[::-1]):
                    which = _one_of_two(mask, op.attrs["axis"])
                    if which is not None:
                        return product, y, which
    return None


def _widens(source: T.Type, to: T.Type) -> bool:
    """Whether integers of a type, or of a narrower one that is widened, are multiplied."""
    return T.element(source) is T.element(to) and is_index(to) or keeps_integers(source, to)


def _one_of_two(mask: Value, axis: int) -> int | None:
    """The index along an axis of two at which a tile is 1, where it is 0 at the other one; else None."""
    while type(mask) is Op and (mask.kind is ops.cast or mask.kind.broadcasts):
        inner = mask.operands[0]
        if not is_index(inner.type) or len(T.shape(inner.type)) != len(T.shape(mask.type)):
            break
        mask = inner
    if T.shape(mask.type)[axis : axis + 1] != (2,) or not is_index(mask.type):
        return None
    form = Affine().of(mask)
    step = form.strides[axis]
    if form.loose or any(x for k, x in enumerate(form.strides) if k != axis):
        return None
    return {(0, 1): 1, (1, -1): 0}.get((form.base, step))
