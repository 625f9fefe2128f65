"""Load the rhs of a dot by columns: dot a, trans(load p) -> dot a, load(trans p).

The tile unit reads tiles by columns as well as by rows, where they lie: the weights of a linear layer, the keys of
attention. A load that something else reads too stays.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .... import ops
from ....ir import types as T
from ....ir.core import Module, Op
from ....ir.rewrite import Rewriter, sweep, uses
from ....passes.dce import dce
from ....passes.licm import licm
from ....passes.transposes import Transposes


def load_columns(module: Module, types: Collection[T.Scalar]) -> Module:
    """Move transposes of the rhs of dots of these types before its load.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module('''kernel @f(%p: tile<32x32xptr<bf16>>, %a: tile<32x32xbf16>, %c: tile<32x32xf32>) {
    ...   %x = load %p : tile<32x32xbf16>
    ...   %b = trans %x {order=(1, 0)} : tile<32x32xbf16>
    ...   %d = dot %a, %b, %c : tile<32x32xf32>
    ...   store %p, %d
    ... }''')
    >>> [op.kind.name for op in load_columns(m, [T.bf16]).body.ops]
    ['trans', 'load', 'dot', 'store']
    """
    if not types or ops.trans not in module.kinds or ops.dot not in module.kinds:
        return module
    counts = uses(module.body)

    def rule(b: Rewriter, op: Op) -> Any:
        if op.kind is not ops.dot:
            return None
        x, turned, acc = op.operands
        if type(turned) is not Op or turned.kind is not ops.trans or T.element(turned.type) not in types:
            return None
        load = turned.operands[0]
        if type(load) is not Op or load.kind is not ops.load or len(T.shape(load.type)) != 2:
            return None
        if counts.get(turned) != 1 or counts.get(load) != 1:
            return None
        made = Transposes(b).of(load)
        if type(made) is not Op or made.kind is not ops.load:  # it has to stay where it is
            return None
        return b.emit_as_is(ops.dot, (x, made, acc), op.attrs, (), op.loc)

    made = sweep(module, rule)
    return module if made is module else licm(dce(made))
