"""Remove what nobody reads: ops, values carried round loops, results of branches.

Live is what an op with effects needs, directly or through others; a carried value is live only if its result is, or if
something live in the body reads it. (A counter that feeds only itself dies.)
"""

from __future__ import annotations

from .. import ops
from ..ir.core import Arg, Block, Op, Result
from .regions import LOOPS


def dce(module):
    """The module without dead ops and dead carried values.

    >>> from tritium.ir.text import parse_module
    >>> print(dce(parse_module("kernel @f(%x: i32) {\\n  %0 = add %x, %x : i32\\n}")), end="")
    kernel @f(%x: i32) {
    }
    """
    marks = _Marks(module.body)
    return module.replace(body=_Sweep(marks).block(module.body))


class _Marks:
    """Which ops are live, and of loops and branches which results."""

    def __init__(self, body):
        self.live = set()           # ids of ops
        self.results = set()        # (id of a loop or branch, index of a live result)
        self.parent = {}            # id of an op in a region -> the op that holds the region
        self.carried = {}           # id of a loop's parameter -> (loop, index of the carried value)
        roots = []
        self.enter(body, None, roots)
        self.todo = roots
        while self.todo:
            self.visit(self.todo.pop())

    def enter(self, block, parent, roots):
        for op in block.ops:
            if parent is not None:
                self.parent[id(op)] = parent
            if op.kind.effects_of(op) == "write":
                roots.append(op)
            for region in op.regions:
                carry = LOOPS.get(op.kind)
                if carry is not None:
                    for k, arg in enumerate(region.args[carry.parameters:]):
                        self.carried[id(arg)] = (op, k)
                self.enter(region, op, roots)

    def visit(self, item):
        """Mark an op, or (loop or branch, index of a result)."""
        if type(item) is tuple:
            op, index = item
            if (id(op), index) in self.results:
                return
            self.results.add((id(op), index))
            self.visit(op)
            if op.kind is ops.if_:
                sources = [region.yields[index] for region in op.regions]
            else:
                sources = [op.operands[LOOPS[op.kind].operands + index], op.regions[-1].yields[index]]
            for x in sources:
                self.need(x)
            return
        op = item
        if id(op) in self.live:
            return
        self.live.add(id(op))
        parent = self.parent.get(id(op))
        if parent is not None:
            self.todo.append(parent)
        carry = LOOPS.get(op.kind)
        for x in op.operands if carry is None else op.operands[:carry.operands]:
            self.need(x)
        if op.kind is ops.while_:
            self.need(op.regions[0].yields[0])
        elif carry is None and op.kind is not ops.if_:
            for region in op.regions:
                for x in region.yields:
                    self.need(x)

    def need(self, x):
        if type(x) is Arg:
            if id(x) in self.carried:
                self.todo.append(self.carried[id(x)])
        elif type(x) is Result:
            self.todo.append((x.op, x.index) if x.op.kind in PARTIAL else x.op)
        else:
            self.todo.append((x, 0) if x.kind in PARTIAL else x)


PARTIAL = {*LOOPS, ops.if_}  # ops that can lose single results


class _Sweep:
    """Rebuild what lost something; `map` holds the new results of ops that changed."""

    def __init__(self, marks):
        self.marks, self.map = marks, {}

    def value(self, x):
        if type(x) is Result:
            found = self.map.get(id(x.op))
            return x if found is None else found[x.index]
        found = self.map.get(id(x))
        return x if found is None else found[0]

    def block(self, block, kept=None):
        """The block with only its live ops; `kept` are the indices of the yields that stay (None: all)."""
        done = []
        for op in block.ops:
            if op.kind.terminator:
                done.append(self.rebuilt(op, op.operands if kept is None else [op.operands[k] for k in kept]))
            elif id(op) in self.marks.live:
                done.append(self.partial(op) if op.kind in PARTIAL else self.rebuilt(op, op.operands))
        same = len(done) == len(block.ops) and all([x is y for x, y in zip(done, block.ops)])
        return block if same else Block(block.args, done)

    def rebuilt(self, op, operands):
        operands = tuple([self.value(x) for x in operands])
        regions = tuple([self.block(r) for r in op.regions])
        return self.settle(op, operands, op.types, regions)

    def settle(self, op, operands, types, regions):
        same = len(operands) == len(op.operands) and len(types) == len(op.types) \
            and all([x is y for x, y in zip(operands, op.operands)]) and all([x is y for x, y in zip(regions, op.regions)])
        if same:
            return op
        new = Op(op.kind, operands, op.attrs, types, regions, op.loc)
        self.map[id(op)] = new.results
        return new

    def partial(self, op):
        """A loop or branch with only its live results."""
        kept = [k for k in range(len(op.types)) if (id(op), k) in self.marks.results]
        carry = LOOPS.get(op.kind)
        operands, regions = op.operands, op.regions
        if carry is not None:
            operands = (*operands[:carry.operands], *[operands[carry.operands + k] for k in kept])
        operands = tuple([self.value(x) for x in operands])
        new = []
        for region in regions:
            is_condition = op.kind is ops.while_ and region is regions[0]
            inner = self.block(region, None if is_condition or len(kept) == len(op.types) else kept)
            if carry is not None and len(kept) != len(op.types):
                args = (*region.args[:carry.parameters], *[region.args[carry.parameters + k] for k in kept])
                inner = Block(args, inner.ops)
            new.append(inner)
        made = self.settle(op, operands, tuple([op.types[k] for k in kept]), tuple(new))
        if made is not op:
            results = iter(made.results)
            self.map[id(op)] = tuple([next(results) if k in kept else None for k in range(len(op.types))])
        return made
