"""Remove what nobody reads: ops, values that loops carry, results of branches, functions nobody calls.

Live is what an op with effects needs, directly or through others. A carried value is live only if its result is, or if
something live in the body reads it: a counter that feeds only itself dies.
"""

from __future__ import annotations

from .. import ops
from ..ir.core import Arg, Block, Op, Result, callees_first
from ..ir.rewrite import same


def dce(module):
    """The module without dead ops and dead carried values.

    >>> from tritium.ir.text import parse_module
    >>> print(dce(parse_module("kernel @f(%x: i32) {\\n  %0 = add %x, %x : i32\\n}")), end="")
    kernel @f(%x: i32) {
    }
    """
    after = _sweep(module)
    if not after.functions:
        return after
    after = after.replace(functions=[_sweep(function) for function in after.functions])
    used = {function.name for function in callees_first(after)}
    return after.replace(functions=[function for function in after.functions if function.name in used])


def _sweep(module):
    return module.replace(body=_Sweep(_Marks(module.body)).block(module.body))


def _is_partial(op):
    """True for an op that can lose single results."""
    return op.kind.loop is not None or op.kind is ops.if_


class _Marks:
    """Which ops are live, and of loops and branches which results."""

    def __init__(self, body):
        self.live = set()           # ops
        self.results = set()        # (loop or branch, index of a live result)
        self.parent = {}            # op in a region -> the op that holds the region
        self.carried = {}           # loop's parameter -> (loop, index of the carried value)
        self.todo = []
        self.enter(body, None)
        for op in self.todo:
            self.live.add(op)
        self.need(body.yields)
        while self.todo:
            item = self.todo.pop()
            self.through(*item) if type(item) is tuple else self.inputs(item)

    def enter(self, block, parent):
        """Note who holds what, and begin with the ops that have effects."""
        for op in block.ops:
            if parent is not None:
                self.parent[op] = parent
            kind = op.kind
            if (kind.effects or kind.effect) and kind.effects_of(op) == "write":
                self.todo.append(op)
            if op.regions:
                carry = op.kind.loop
                for region in op.regions:
                    if carry is not None:
                        for k, arg in enumerate(region.args[carry.parameters:]):
                            self.carried[arg] = (op, k)
                    self.enter(region, op)

    def mark(self, op):
        if op not in self.live:
            self.live.add(op)
            self.todo.append(op)

    def need(self, xs):
        """Values are read: mark what makes them."""
        live, todo = self.live, self.todo
        for x in xs:
            index = 0
            if type(x) is Arg:
                if x in self.carried:
                    self.result(*self.carried[x])
                continue
            if type(x) is Result:
                x, index = x.op, x.index
            if _is_partial(x):
                self.result(x, index)
            elif x not in live:
                live.add(x)
                todo.append(x)

    def result(self, op, index):
        if (op, index) not in self.results:
            self.results.add((op, index))
            self.todo.append((op, index))
            self.mark(op)

    def through(self, op, index):
        """What a live result of a loop or branch comes from."""
        if op.kind is ops.if_:
            self.need([region.yields[index] for region in op.regions])
        else:
            self.need((op.operands[op.kind.loop.operands + index], op.regions[-1].yields[index]))

    def inputs(self, op):
        """What a live op reads, not counting what a loop carries or a branch yields."""
        if op in self.parent:
            self.mark(self.parent[op])
        carry = op.kind.loop
        if carry is not None:
            self.need(op.operands[:carry.operands])
            if op.kind is ops.while_:
                self.need(op.regions[0].yields)
            return
        self.need(op.operands)
        if op.regions and op.kind is not ops.if_:
            for region in op.regions:
                self.need(region.yields)


class _Sweep:
    """Rebuild what lost something; `map` holds the new results of ops that changed."""

    def __init__(self, marks):
        self.marks, self.map = marks, {}

    def values(self, xs):
        """What stands for `xs` now; `xs` itself if nothing changed."""
        if not self.map:
            return xs
        return tuple([self.value(x) for x in xs])

    def value(self, x):
        if type(x) is Result:
            found = self.map.get(x.op)
            return x if found is None else found[x.index]
        found = self.map.get(x)
        return x if found is None else found[0]

    def block(self, block, kept=None):
        """The block with only its live ops; `kept` are the indices of the yields that stay (None: all)."""
        done, live = [], self.marks.live
        for op in block.ops:
            if op.kind.terminator:
                operands = op.operands if kept is None else tuple([op.operands[k] for k in kept])
                done.append(self.settle(op, self.values(operands), (), ()))
            elif op in live:
                if _is_partial(op):
                    done.append(self.partial(op))
                else:
                    regions = tuple([self.block(r) for r in op.regions]) if op.regions else ()
                    done.append(self.settle(op, self.values(op.operands), op.types, regions))
        return block if same(done, block.ops) else Block(block.args, done)

    def settle(self, op, operands, types, regions):
        """`op` with these parts: itself if they are its own."""
        if (operands is op.operands or same(operands, op.operands)) and len(types) == len(op.types) \
                and same(regions, op.regions):
            return op
        new = Op(op.kind, operands, op.attrs, types, regions, op.loc)
        self.map[op] = new.results
        return new

    def partial(self, op):
        """A loop or branch with only its live results."""
        kept = [k for k in range(len(op.types)) if (op, k) in self.marks.results]
        whole = len(kept) == len(op.types)
        carry, operands = op.kind.loop, op.operands
        if carry is not None and not whole:
            operands = (*operands[:carry.operands], *[operands[carry.operands + k] for k in kept])
        operands, regions = self.values(operands), []
        for region in op.regions:
            is_condition = op.kind is ops.while_ and region is op.regions[0]
            inner = self.block(region, None if is_condition or whole else kept)
            if carry is not None and not whole:
                args = (*region.args[:carry.parameters], *[region.args[carry.parameters + k] for k in kept])
                inner = Block(args, inner.ops)
            regions.append(inner)
        made = self.settle(op, operands, tuple([op.types[k] for k in kept]), tuple(regions))
        if made is not op:
            results = iter(made.results)
            self.map[op] = tuple([next(results) if k in kept else None for k in range(len(op.types))])
        return made
