"""Narrow loops to the iterations that do something: a branch around the whole body becomes bounds of the loop.

    for i in range(lo, hi, 64):                 for i in range(lo + max(0, cdiv(n - 63 - lo, 64)) * 64, hi, 64):
      if i + 64 > n:                    ->        body
        body

Attention with a window, or a causal one that goes over all keys, is often written so. Iterations that only test are
gone, and the loop is pipelined, as its loads and dots are in no branch. (A case of index-set splitting.)
"""

from __future__ import annotations

from collections.abc import Container

from .... import ops
from ....ir import types as T
from ....ir.builder import several
from ....ir.core import Block, Module, Op, Value, walk
from ....ir.rewrite import Rewriter, effects, substitute, sweep
from ....named_tuples import NamedTuple
from ....passes.dce import dce
from ....passes.functions import each_function
from ....passes.simplify import number


class _Limit(NamedTuple):
    """An iteration counts if its index is at least (`is_lower`) or less than `bound` + `offset`."""

    is_lower: bool
    bound: Value
    offset: int


@each_function
def narrow_loops(module: Module) -> Module:
    """Replace branches around the whole body of a loop that compare its index by bounds of the loop."""
    if ops.for_ not in module.kinds or ops.if_ not in module.kinds:
        return module

    def rule(b: Rewriter, op: Op) -> tuple[Value, ...] | None:
        by = int(number(op.operands[2]) or 0) if op.kind is ops.for_ and op.operands[0].type in (T.i32, T.i64) else 0
        branch = _whole_body(op.regions[0]) if by > 0 else None
        if branch is None:
            return None
        limits = _limits(branch.operands[0], op.regions[0].args[0], {*walk(op.regions[0])})
        return None if limits is None else _narrowed(b, op, by, branch, limits)

    return sweep(module, rule, dce)


def _whole_body(body: Block) -> Op | None:
    """The branch that does all that a loop does: nothing else has effects, and without it all values stay."""
    branches = [op for op in body.ops if op.kind is ops.if_]
    if len(branches) != 1 or any(effects(op) for op in body.ops if op not in branches):
        return None
    branch, carried = branches[0], body.args[1:]
    places = {result: k for k, result in enumerate(branch.results)}
    for arg, y in zip(carried, body.yields):
        if y is not arg and (y not in places or branch.regions[1].yields[places[y]] is not arg):
            return None
    return None if any(not op.kind.terminator for op in branch.regions[1].ops) else branch


_FLIPPED = {ops.lt: ops.gt, ops.gt: ops.lt, ops.le: ops.ge, ops.ge: ops.le}


def _limits(condition: Value, index: Value, inside: Container) -> list[_Limit] | None:
    """The limits of the index that a condition consists of; None if it consists of anything else."""
    if type(condition) is not Op:
        return None
    if condition.kind is ops.and_:
        found = [_limits(x, index, inside) for x in condition.operands]
        return None if None in found else [limit for limits in found for limit in limits or ()]
    if condition.kind not in _FLIPPED or condition.operands[0].type is not index.type:
        return None
    for (x, y), kind in ((condition.operands, condition.kind), (condition.operands[::-1], _FLIPPED[condition.kind])):
        more = _added(x, index)
        if more is not None and y not in inside and y is not index:
            return [_Limit(kind in (ops.gt, ops.ge), y, (kind in (ops.gt, ops.le)) - more)]
    return None


def _added(x: Value, index: Value) -> int | None:
    """What is added to the index, a constant; None if `x` is something else."""
    if x is index:
        return 0
    if type(x) is not Op or x.kind not in (ops.add, ops.sub) or index not in x.operands:
        return None
    by = number(x.operands[1] if x.operands[0] is index else x.operands[0])
    if by is None or x.kind is ops.sub and x.operands[0] is not index:
        return None
    return int(by) if x.kind is ops.add else -int(by)


def _narrowed(b: Rewriter, loop: Op, by: int, branch: Op, limits: list[_Limit]) -> tuple[Value, ...]:
    """The loop, which steps `by` a number, with narrower bounds, and its body without the branch; returns its
    results."""
    (body,), (lo, hi, step, *inits) = loop.regions, loop.operands
    wide = lambda x: x if x.type is T.i64 else ops.cast(b, x, to=T.i64)
    narrow = lambda x: x if lo.type is T.i64 else ops.cast(b, x, to=lo.type)
    integer = lambda n: ops.constant(b, value=n, type=T.i64)
    first, end = wide(lo), wide(hi)

    def steps(gap: Value) -> Value:
        """How many steps it takes to go so far, 0 if it is behind."""
        return ops.div(b, ops.add(b, ops.max_(b, gap, integer(0)), integer(by - 1)), integer(by))

    for is_lower, bound, offset in limits:  # in 64 bits: a window may be as large as an integer can be
        at = ops.add(b, wide(bound), integer(offset))
        if is_lower:
            skipped = ops.min_(b, steps(ops.sub(b, at, first)), steps(ops.sub(b, end, first)))
            lo = ops.add(b, lo, ops.mul(b, narrow(skipped), step))
            first = wide(lo)
        else:
            end = ops.min_(b, end, ops.max_(b, at, first))
            hi = narrow(end)
    with b.region([a.type for a in body.args], [a.name for a in body.args]) as region:
        ops.yield_(b, *substitute(b, _taken(body, branch), region.args))
    attrs = {**loop.attrs, "nonempty": False}
    return several(b.emit_as_is(ops.for_, (lo, hi, step, *inits), attrs, (region.block,)))


def _taken(body: Block, branch: Op) -> Block:
    """The body with its branch taken: what stands before it, and its first region."""
    then, places = branch.regions[0], {result: k for k, result in enumerate(branch.results)}
    ends = body.ops[-1].replace(operands=tuple(then.yields[places[y]] if y in places else y for y in body.yields))
    return Block(body.args, [*body.ops[: body.ops.index(branch)], *then.ops[:-1], ends])
