"""Masks behind a branch: tiles that a mask does not cut are not compared element by element.

    for n0:                                          for n0:
      s = dot(q, k)                                    s = dot(q, k)
      s = select(m >= n0 + arange, s, -inf)    ->      if not m0 >= n0 + 63: s = select(m >= n0 + arange, s, -inf)

A comparison and a select are two instructions for each element, in a loop around dots that has some six. A causal mask
cuts the tiles on the diagonal, and a bound the last one; all others take the branch. It is uniform, so the loop stays
one loop: buffers, the ping-pong schedule and dots in flight are as without it.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Block, Module, Op, Value, walk
from ....ir.rewrite import Rewriter, sweep
from ....passes.dce import dce
from ..analysis.whole_masks import Guard, guards


def guard_masks(module: Module) -> Module:
    """Skip comparing and selecting elements in iterations whose mask is all true."""
    if ops.for_ not in module.kinds:
        return module
    bodies = (op.regions[0] for op in walk(module.body) if op.kind is ops.for_)
    found = {op: guard for body in bodies for op, guard in guards(body).items()}

    def rule(b: Rewriter, op: Op) -> Value | None:
        guard = found.get(b.original) if b.original and op.kind is ops.select else None
        return None if guard is None else _branch(b, op, guard)

    return dce(sweep(module, rule)) if found else module


def _branch(b: Rewriter, op: Op, guard: Guard) -> Value:
    """A select behind a branch. What only the mask needs is computed there, and is not looked for outside."""
    whole = None
    for condition in guard.conditions:
        holds = condition.write(b, b.value)
        whole = holds if whole is None else ops.and_(b, whole, holds)
    inside: list[Op] = []
    mask = _moved(op.operands[0], inside, {})
    cut = Op(ops.select, (mask, *op.operands[1:]), op.attrs, op.types, (), op.loc)
    regions = _yielding([], b.value(guard.chosen)), _yielding([*inside, cut], cut)
    return b.emit_as_is(ops.if_, (whole,), {}, regions)


def _yielding(made: list[Op], value: Value) -> Block:
    return Block([], [*made, Op(ops.yield_, (value,), {}, ())])


def _moved(x: Value, inside: list[Op], known: dict[Value, Value]) -> Value:
    """A copy of a tile in a region, with what it is computed from."""
    if type(x) is not Op or type(x.type) is not T.Tile or not x.kind.rematerializable:
        return x
    if x not in known:
        known[x] = made = x.replace(operands=tuple(_moved(y, inside, known) for y in x.operands))
        inside.append(made)
    return known[x]
