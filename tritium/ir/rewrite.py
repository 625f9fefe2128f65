"""How passes change a module: one forward sweep that rebuilds only what differs."""

from __future__ import annotations

from .builder import Builder
from .core import Block, Result


def sweep(module, rule):
    """Apply `rule(b, op)` to every op, operands and regions first rewritten; returns the same module if nothing changed.

    The rule gives None to keep the op, a Value (or tuple of values, one per result) to put in its place, or `ERASE`.
    It may emit ops through `b`; equal pure ops are merged on the way.
    """
    b = Builder()
    b.arguments = list(module.args)
    body = _Sweep(b, rule).block(module.body, outermost=True)
    return module.replace(body=body)


ERASE = ()


class _Sweep:
    def __init__(self, b, rule):
        self.b, self.rule, self.map = b, rule, {}

    def value(self, x):
        """What stands for `x` now."""
        if type(x) is Result:
            found = self.map.get(id(x.op))
            return x if found is None else found[x.index]
        found = self.map.get(id(x))
        return x if found is None else found[0]

    def block(self, block, outermost=False):
        b = self.b
        if outermost:
            self.ops(block)
            done = b.finish().ops
        else:
            with b.region() as region:
                self.ops(block)
            done = region.block.ops
        same = len(done) == len(block.ops) and all(x is y for x, y in zip(done, block.ops))
        return block if same else Block(block.args, done)

    def ops(self, block):
        for op in block.ops:
            self.b.loc = op.loc
            operands = tuple([self.value(x) for x in op.operands])
            regions = tuple([self.block(r) for r in op.regions])
            new = op
            if any(x is not y for x, y in zip(operands, op.operands)) or \
                    any(x is not y for x, y in zip(regions, op.regions)):
                new = op.replace(operands=operands, regions=regions)
            made = self.rule(self.b, new)
            if made is not None:
                self.map[id(op)] = made if type(made) is tuple else (made,)
            elif (placed := self.b.place(new)) is not op:
                self.map[id(op)] = placed.results


def uses(block, counts=None):
    """How often each value is used in a block and its regions: {id of op or arg: count} (results count for their op)."""
    counts = {} if counts is None else counts
    for op in block.ops:
        for x in op.operands:
            key = id(x.op if type(x) is Result else x)
            counts[key] = counts.get(key, 0) + 1
        for region in op.regions:
            uses(region, counts)
    return counts


def substitute(b, block, values):
    """Emit a copy of `block`'s ops through `b` with its parameters replaced; returns what it yields."""
    sweep_ = _Sweep(b, lambda b, op: None)
    sweep_.map = {id(a): (v,) for a, v in zip(block.args, values, strict=True)}
    for op in block.ops[:-1]:
        operands = tuple(sweep_.value(x) for x in op.operands)
        regions = tuple(sweep_.block(r) for r in op.regions)
        sweep_.map[id(op)] = b.place(op.replace(operands=operands, regions=regions)).results
    return tuple(sweep_.value(y) for y in block.yields)


__all__ = ["sweep", "substitute", "uses", "ERASE"]
