"""Keep the rows of scores in one warp: dots whose results are reduced row by row, and those that multiply them.

Where warps lie beside each other along a row, each reduction crosses them through shared memory, behind barriers, and
so does the result on its way to be the lhs of the next dot. Attention's warps have whole rows of both dots. Products
alone keep the grid of warps in which each loads the fewest operands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .... import ops
from ....ir.core import Block, Module, Op, Value, closure, op_of, walk
from ....ir.rewrite import Rewriter, sweep


def keep_rows(module: Module) -> Module:
    """Mark dots `by_rows` whose rows are reduced, and those that multiply what is computed of them.

    >>> from tritium.ir.text import parse_module
    >>> print(keep_rows(parse_module('''kernel @f(%q: tile<64x32xf16>, %k: tile<32x64xf16>, %z: tile<64x64xf32>) {
    ...   %0 = dot %q, %k, %z : tile<64x64xf32>
    ...   %1 = reduce %0 {axis=1} : tile<64xf32> {
    ...   ^(%a: f32, %b: f32):
    ...     %2 = max %a, %b : f32
    ...     yield %2
    ...   }
    ... }''')).body.ops[0].attrs["by_rows"])
    True
    """
    if ops.dot not in module.kinds or ops.reduce not in module.kinds:
        return module
    blocks = [module.body, *(region for op in walk(module.body) for region in op.regions)]
    found = {dot for block in blocks for dot in _by_rows(block)}

    def rule(b: Rewriter, op: Op) -> Op | None:
        marked = op.kind is ops.dot and b.original in found
        return b.place(op.replace(attrs={**op.attrs, "by_rows": True})) if marked else None

    return sweep(module, rule) if found else module


def _by_rows(block: Block) -> set[Op]:
    """The dots of a block whose results it reduces along rows, and those with an lhs that is computed from one."""
    inside = {op for op in block.ops if op.types}
    rows = (x for op in block.ops if op.kind is ops.reduce and op.attrs["axis"] == 1 for x in op.operands)
    found = {*_dots_behind(rows, inside)}
    for op in block.ops:
        if op.kind is ops.dot and not found.isdisjoint(_dots_behind(op.operands[:1], inside)):
            found.add(op)
    return found


def _dots_behind(tiles: Iterable[Value], inside: set[Op]) -> Iterator[Op]:
    """The dots, with results that are matrices, from which tiles are computed element by element."""
    made = lambda values: [op for x in values if (op := op_of(x)) in inside]
    for op in closure(made(tiles), lambda op: made(op.operands) if op.kind.elementwise else ()):
        if op.kind is ops.dot and len(op.type.shape) == 2:
            yield op
