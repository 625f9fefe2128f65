"""dot(a, b, 0) + c -> dot(a, b, c): the sum starts at the accumulator, as `acc += tl.dot(a, b)` means it.

The one pass that may change a rounding: the products are summed onto c instead of onto 0 and then c.
"""

from __future__ import annotations

from .. import ops
from ..ir.core import Op, walk
from ..ir.rewrite import sweep, uses
from .functions import each_function
from .simplify import number


@each_function
def accumulate(module):
    """Fold additions to a dot into its accumulator operand.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module('''kernel @f(%p: ptr<f32>, %a: tile<16x16xf16>, %c: tile<16x16xf32>) {
    ...   %0 = constant {value=0.0, type=f32} : f32
    ...   %1 = splat %0 {shape=(16, 16)} : tile<16x16xf32>
    ...   %2 = dot %a, %a, %1 : tile<16x16xf32>
    ...   %3 = add %c, %2 : tile<16x16xf32>
    ... }''')
    >>> accumulate(m).body.ops[-1].operands[2].name
    'c'
    """
    if ops.dot not in module.kinds:
        return module
    if not any(op.kind is ops.add and any(map(_from_zero, op.operands)) for op in walk(module.body)):
        return module
    counts = uses(module.body)

    def rule(b, op):
        if op.kind is not ops.add:
            return None
        for product, other, before in zip(op.operands, op.operands[::-1], b.original.operands):
            if _from_zero(product) and counts[before] == 1 and b.is_here(product):
                x, y, _, *rest = product.operands
                return b.emit_as_is(ops.dot, (x, y, other, *rest), product.attrs, loc=product.loc)
        return None
    return sweep(module, rule)


def _from_zero(x):
    """A product that starts at 0."""
    return type(x) is Op and x.kind is ops.dot and number(x.operands[2]) == 0
