"""store(p, if c: x else: y) -> if c: store(p, x) else: store(p, y).

On a CPU the tile that a branch makes goes through memory to its users. Where the only user is a store, the branch does
better to store it itself: its loops have the elements at hand.
"""

from __future__ import annotations

from collections import Counter

from .. import ops
from ..ir import types as T
from ..ir.core import Block, op_of, walk
from ..ir.rewrite import ERASE, effects, sweep

MOST = 4  # stores of one branch: each is written twice


def sink_stores(module):
    """Sink stores of a branch's results into the branches.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module('''kernel @f(%p: tile<16xptr<f32>>, %c: i1, %x: tile<16xf32>, %y: tile<16xf32>) {
    ...   %0 = if %c : tile<16xf32> {
    ...     yield %x
    ...   } {
    ...     yield %y
    ...   }
    ...   store %p, %0
    ... }''')
    >>> [op.kind.name for op in sink_stores(m).body.ops]
    ['if']
    """
    if ops.if_ not in module.kinds:
        return module
    blocks = [module.body, *(region for op in walk(module.body) for region in op.regions)]
    if not any(op.kind is ops.if_ and op.types for block in blocks for op in block.ops):
        return module
    counts = Counter(x for op in walk(module.body) for x in op.operands)
    found = {}  # branch -> its stores, each with the number of the result it writes
    for block in blocks:
        found |= _branches(block, counts)
    sunk = {store for stores in found.values() for store, _ in stores}

    def rule(b, op):
        if op.kind is ops.if_ and b.original in found:
            return _with_stores(b, op, found[b.original])
        return ERASE if op.kind is ops.store and b.original in sunk else None
    return sweep(module, rule) if found else module


def _branches(block, counts):
    """The branches of a block behind which nothing happens before their tiles are stored."""
    found = {}
    for at, op in enumerate(block.ops):
        if op.kind is not ops.if_ or not any(type(t) is T.Tile for t in op.types):
            continue
        stores, later = [], {op}
        for after in block.ops[at + 1:]:
            k = _stored(op, after, later, counts) if len(stores) < MOST else None
            if k is not None:
                stores.append((after, k))
            elif effects(after):
                break
            later.add(after)
        if stores:
            found[op] = stores
    return found


def _stored(branch, op, later, counts):
    """Which tile of a branch an op stores, if nobody else wants it and all else is known before the branch."""
    if op.kind is not ops.store or type(op.operands[1].type) is not T.Tile:
        return None
    pointer, tile, *mask = op.operands
    known = not any(op_of(x) in later for x in (pointer, *mask))
    return branch.results.index(tile) if tile in branch.results and counts[tile] == 1 and known else None


def _with_stores(b, branch, stores):
    """The branch with the stores inside; returns its results, for those stored something that nobody wants."""
    written = [k for _, k in stores]
    left = [k for k in range(len(branch.types)) if k not in written]
    regions = []
    for region in branch.regions:
        *lines, last = region.ops
        for store, k in stores:
            pointer, _, *mask = map(b.value, store.operands)
            lines.append(store.replace(operands=(pointer, last.operands[k], *mask)))
        lines.append(last.replace(operands=tuple([last.operands[k] for k in left])))
        regions.append(Block(region.args, lines))
    made = b.emit_as_is(ops.if_, branch.operands, branch.attrs, regions, branch.loc)
    values = iter(made if type(made) is tuple else (made,))
    return tuple([next(values) if k in left else branch.operands[0] for k in range(len(branch.types))])
