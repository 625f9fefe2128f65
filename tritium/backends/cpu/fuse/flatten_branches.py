"""Flatten small branches between tiles: both sides are computed, and a select takes the results of one.

    if first:                                 weight = select(first, 1, weight + 1)
      weight = 1                         ->
    else:
      weight = weight + 1

The results of a branch pass through scratch memory, and the loops before and after it are apart. Where both sides are
a few elementwise ops, one loop nest takes less time than that memory. Branches with effects, loads, integer divisions
or costly ops stay. So do those that hand on a tile that is in memory already: that side costs nothing.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Module, Op, Value, walk
from ....ir.rewrite import effects, sweep
from ....passes.branches import flat
from ....passes.dce import dce
from ....passes.simplify import apply_rules

MOST = 16  # ops of both sides


def flatten_branches(module: Module) -> Module:
    """Replace small branches whose results are tiles by selects.

    >>> from tritium.ir.text import parse_module
    >>> module = parse_module('''kernel @f(%x: tile<16xf32>, %p: i1) {
    ...   %0 = if %p : tile<16xf32> {
    ...     %1 = add %x, %x : tile<16xf32>
    ...     yield %1
    ...   } {
    ...     %2 = mul %x, %x : tile<16xf32>
    ...     yield %2
    ...   }
    ...   print %0 {prefix=""}
    ... }''')
    >>> [op.kind.name for op in walk(flatten_branches(module).body)]
    ['add', 'mul', 'splat', 'select', 'print']
    """
    if ops.if_ not in module.kinds:
        return module
    found = {op for op in walk(module.body) if op.kind is ops.if_ and _is_small(op)}
    if not found:
        return module
    rule = lambda b, op: flat(b, op) if op.kind is ops.if_ and b.original in found else apply_rules(b, op)
    return dce(sweep(module, rule))


def _is_small(branch: Op) -> bool:
    """Whether a branch gives tiles, each of them made of a few elementwise ops."""
    inner = [op for region in branch.regions for op in walk(region) if not op.kind.terminator]
    given = [x for region in branch.regions for x in region.yields if type(x.type) is T.Tile]
    computed = [op for op in inner if type(op.type) is T.Tile and op.kind.elementwise]
    return bool(given) and len(computed) <= MOST and all(map(_is_cheap, inner)) and all(map(_is_computed, given))


def _is_cheap(op: Op) -> bool:
    kind = op.kind
    if kind in (ops.div, ops.rem):
        return T.element(op.type).is_float
    return not effects(op) and kind.cost != "slow" if kind.elementwise else kind.cost == "free"


def _is_computed(x: Value) -> bool:
    """Whether the loops that use a tile compute it."""
    return type(x) is Op and (x.kind.elementwise or x.kind is ops.load or x.kind.cost == "free")
