"""The largest of scaled elements is the largest element, scaled: one product for each result, not for each element.

    m = max(x * c)    ->    m = max(x) * c        if 0 < c < inf

Attention takes the maximum of scaled products, and then their distances to it. These are fused multiply-adds, so the
products by themselves are for the maximum alone. Rounding keeps the order of elements, and what is no number stays so:
the result is the same to the last bit. Only results of dots are worth it: other elements come from memory, which takes
longer.

Factors are arguments as a rule. That one is neither negative, nor so small or large that constants in the kernel might
turn it to zero or infinity, is the launcher's to see: floats that are not negative are in the order of their bits.
"""

from __future__ import annotations

import struct

from ... import ops
from ...ir import types as T
from ...ir.core import Arg, Op, Result, walk
from ...ir.rewrite import sweep
from . import ops as gpu_ops

ORDINARY = 2.0**-60, 2.0**60  # arguments, and products of constants
DOTS = (ops.dot, gpu_ops.dot_shared, gpu_ops.dot_wait)
EXTREMES = (ops.max_, ops.min_, ops.max_nan, ops.min_nan)


def unscale_extremes(module, taken):
    """The module with such extremes, where nothing needs the scaled elements by themselves.

    What must not be negative is added to `taken`, as rows of `ir.bounds`; without a list, nothing is done.
    """
    spared = {} if taken is None else _spared(module)

    def rule(b, op):
        number = spared.get(id(b.original)) if _is_extreme(op) else None
        if number is None:
            return None
        taken.extend(rows for rows in _rows(number) if rows not in taken)
        x, factor = _factor(op.operands[0])
        found = b.emit_as_is(op.kind, (x,), op.attrs, op.regions)
        return ops.mul(b, found, ops.splat(b, factor, shape=op.type.shape) if type(op.type) is T.Tile else factor)

    return sweep(module, rule) if spared else module


def _spared(module):
    """{id of an extreme of products that are fused with whatever else uses them: number of their factor's argument}."""
    products, readers = [], {}
    for op in walk(module.body):
        for x in op.operands:
            readers.setdefault(id(x.op if type(x) is Result else x), []).append(op)
        if op.kind is ops.mul and _factor(op):
            products.append(op)
    out = {}
    for op in products:
        found, number = readers.get(id(op), []), _argument(_factor(op)[1], module.args)
        if number is not None and all(_is_extreme(x) or x.kind in (ops.add, ops.sub) for x in found):
            out |= {id(x): number for x in found if _is_extreme(x)}
    return out


def _factor(product):
    """(x, c) of a product x * c of a dot's result in single precision and a scalar; None of any other."""
    for x, y in (product.operands, product.operands[::-1]):
        if type(x) is type(y) is Op and x.kind in DOTS and y.kind is ops.splat and T.element(x.type) is T.f32:
            return x, y.operands[0]
    return None


def _argument(x, arguments):
    """The number of the argument that a scalar is, but for constants it is multiplied with; None if there is none."""
    constants = 1.0
    while type(x) is Op and x.kind is ops.mul:
        known = [y.attrs["value"] for y in x.operands if type(y) is Op and y.kind is ops.constant]
        others = [y for y in x.operands if type(y) is Arg or y.kind is not ops.constant]
        if len(known) != 1:
            return None
        constants, (x,) = constants * known[0], others
    if type(x) is not Arg or not ORDINARY[0] <= constants <= ORDINARY[1]:
        return None
    return next((k for k, arg in enumerate(arguments) if arg is x), None)


def _is_extreme(op):
    if op.kind is not ops.reduce or len(op.operands) != 1:
        return False
    combined, last = op.regions[0].ops[0], op.regions[0].ops[-1]
    return len(op.regions[0].ops) == 2 and combined.kind in EXTREMES and last.operands[0] is combined


def _rows(number):
    """That an argument is an ordinary factor, by its bits."""
    least, most = (struct.unpack("i", struct.pack("f", x))[0] for x in ORDINARY)
    bits = ("argument", "i32", number)
    yield bits, ("constant", "i64", least), ("sub", "i64", 0, 1)
    yield bits, ("constant", "i64", most), ("sub", "i64", 1, 0)
