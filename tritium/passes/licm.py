"""Move out of a loop what the loop does not change.

Ops without effects are total (they have a value for every operand), so computing one that the loop would have skipped
is harmless. A load moves only out of a loop that writes nothing and runs at least once, and only from its top level.
"""

from __future__ import annotations

from ..ir.core import op_of, walk
from ..ir.rewrite import Rewriter, effects
from .functions import each_function
from .regions import trip_count

STAY, PURE, LOADS = range(3)  # what may leave a region


@each_function
def licm(module):
    """The module with invariant ops before their loops.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module('''kernel @f(%x: i32, %n: i32) {
    ...   for %x, %n, %x {
    ...   ^(%i: i32):
    ...     %0 = mul %n, %n : i32
    ...     print %0 {prefix=""}
    ...     yield
    ...   }
    ... }''')
    >>> [op.kind.name for op in licm(m).body.ops]
    ['mul', 'for']
    """
    if not any(kind.loop for kind in module.kinds):
        return module
    return _Hoist().module(module)


class _Hoist(Rewriter):
    """Places each op in the outermost block that its operands and the regions in between allow."""

    def __init__(self):
        super().__init__(lambda b, op: None)
        self.level = {}         # op or parameter -> depth of the block that defines it
        self.lets = [STAY]      # for each open block, what may leave it

    def region_of(self, block, owner):
        """As for every sweep, noting where the region's parameters live and what may leave it."""
        self.lets.append(_lets(owner))
        for arg in block.args:
            self.level[arg] = len(self.lets) - 1
        done = super().region_of(block, owner)
        self.lets.pop()
        return done

    def place(self, op):
        """Append `op` where it belongs; returns it or its equal there."""
        at = depth = len(self.lets) - 1
        if not depth:  # out of all loops already
            return super().place(op)
        effect = effects(op)
        if op.types and effect != "write" and not op.kind.terminator:
            wanted = LOADS if effect else PURE
            while at and self.lets[at] >= wanted:
                at -= 1
            if at < depth:
                at = max([at, *[self.level.get(x, 0) for x in _used(op)]])
        if at == depth:
            placed = super().place(op)
        else:
            inner = self._blocks[at + 1:], self._seen[at + 1:]
            del self._blocks[at + 1:], self._seen[at + 1:]
            placed = super().place(op)
            self._blocks += inner[0]
            self._seen += inner[1]
        self.level.setdefault(placed, at)
        return placed


def _lets(owner):
    if not owner.kind.loop:
        return STAY
    return LOADS if effects(owner) != "write" and trip_count(owner) else PURE


def _used(op):
    """The ops and parameters an op needs: its operands, and what its regions take from outside."""
    used = [op_of(x) for x in op.operands]
    if op.regions:
        own = {op}
        for region in op.regions:
            own.update(region.args)
        for inner in (i for region in op.regions for i in walk(region)):
            used += [op_of(x) for x in inner.operands]
            own.add(inner)
            own.update(a for region in inner.regions for a in region.args)
        used = [x for x in used if x not in own]
    return used
