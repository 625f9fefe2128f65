"""A hint counts for its value: every op of the block that uses the value reads the hint instead.

`tl.multiple_of(x, 16)` may be a statement, whose result nobody uses. Reaching the value means reaching the hint, as far
as both are in one block: so the hint moves to just behind the value, and the uses of the value become uses of the hint.
A hint in a region says nothing about the uses outside of it. `tl.assume(x % 16 == 0)` is such a hint, too. What every
program says of an argument holds of every launch: the argument promises it, also to the launcher.
"""

from __future__ import annotations

from .. import ops
from ..analysis.arithmetic import lowest_bit
from ..ir import types as T
from ..ir.core import Block, Op, Result, Value, walk
from .promise_arguments import promised
from .simplify import number


def apply_hints(module):
    """Make other uses of a value use its hint, if the result of the hint itself is unused.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: i32) {  %0 = hint %x {divisible=(8,)} : i32  print %x {prefix=\\"\\"} }")
    >>> print(apply_hints(m), end="")
    kernel @f(%x: i32 {divisible=8}) {
      %1 = hint %x {divisible=(8,)} : i32
      print %1 {prefix=""}
    }
    """
    made = [_applied(function) for function in module.functions]
    return _applied(module).replace(functions=made)


def _applied(module):
    if ops.hint not in module.kinds and ops.assume not in module.kinds:
        return module
    hints = [op for op in walk(module.body) if op.kind is ops.hint]
    used = {x for op in walk(module.body) for x in op.operands}
    statements = {op for op in hints if op not in used}
    promises = {op: hint for op in walk(module.body) if (hint := _promised(op)) is not None}
    if statements or promises:
        module = module.replace(body=_Apply(statements, promises).block(module.body))
    return promised(module, _divisors(module).values())


def _divisors(module) -> dict[Value, int]:
    """What each argument is a multiple of by its attributes, and by the hints that every program reaches."""
    found = {arg: arg.attrs.get("divisible", 1) for arg in module.args}
    for op in module.body.ops:
        if op.kind is ops.hint and op.attrs["divisible"] and _is_integer(op):
            x = op.operands[0]
            while type(x) is Op and (x.kind is ops.hint or x.kind is ops.cast and _is_integer(x.operands[0])):
                x = x.operands[0]  # casts of integers keep the lowest bits
            if x in found and _is_integer(x):
                found[x] = max(found[x], lowest_bit(op.attrs["divisible"][0]))
    return found


def _is_integer(x: Value) -> bool:
    return type(x.type) is T.Scalar and x.type.kind in ("int", "uint")


def _promised(op: Op) -> Op | None:
    """The hint that an assumption gives, `x % n == 0`; None if it gives none, or it is applied."""
    match op:
        case Op(ops.assume, (Op(ops.eq, (Op(ops.rem, (x, n)), zero)),)) if number(zero) == 0 and (by := number(n)):
            divisible = (abs(int(by)),)
            known = type(x) is Op and x.kind is ops.hint and x.attrs["divisible"] == divisible
            attrs = {**ops.hint.defaults, "divisible": divisible}
            return None if known else Op(ops.hint, (x,), attrs, (x.type,), loc=op.loc)
    return None


class _Apply:
    """Rebuilds blocks with uses replaced; `now` holds what stands for a value, `statements` the hints nobody reads, and
    `promises` those that assumptions give."""

    def __init__(self, statements: set[Op], promises: dict[Op, Op]):
        self.statements, self.promises = statements, promises
        self.now: dict[Value, Value] = {}

    def value(self, x: Value) -> Value:
        if x in self.now:
            return self.now[x]
        return Result(self.now[x.op], x.index) if type(x) is Result and x.op in self.now else x

    def block(self, block: Block) -> Block:
        """The block, with its hints right behind the values they are about; outside of it nothing changes."""
        about: dict[Value, list[Op]] = {}
        for op in block.ops:
            if op in self.statements:
                chain = _chain(op)
                about.setdefault(chain[0].operands[0], []).extend(chain)
            elif op in self.promises:
                about.setdefault(self.promises[op].operands[0], []).append(self.promises[op])
        outer, done = dict(self.now), []
        here = {result for op in block.ops for result in op.results}
        for x in [x for x in about if x not in here]:
            self.promise(x, about[x], done)
        for op in block.ops:
            if op in self.statements:
                continue
            made = self.rebuilt(op)
            done.append(made)
            for result, now in zip(op.results, made.results):
                if now is not result and now != result:
                    self.now[result] = now
                if result in about:
                    self.promise(result, about[result], done)
        self.now = outer
        return Block(block.args, done)

    def promise(self, x: Value, hints: list[Op], done: list[Op]) -> None:
        """Hints about `x`, which every further use reads."""
        for hint in hints:
            made = hint.replace(operands=(self.value(x),))
            done.append(made)
            self.now[x] = made

    def rebuilt(self, op: Op) -> Op:
        operands = tuple([self.value(x) for x in op.operands])
        regions = tuple([self.block(region) for region in op.regions])
        unchanged = all(new is old for new, old in zip(operands, op.operands)) and not regions
        return op if unchanged else op.replace(operands=operands, regions=regions)


def _chain(op: Op) -> list[Op]:
    """A hint and the hints it is about, innermost first: `tl.max_contiguous(tl.multiple_of(x, 16), 16)`."""
    chain = [op]
    while (below := chain[0].operands[0]) and type(below) is Op and below.kind is ops.hint:
        chain.insert(0, below)
    return chain
