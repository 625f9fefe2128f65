"""Let dots overwrite the sums (accumulators) that a loop sets to zero, instead of moving zeros into their registers.

    for i:                                    for i:
      acc = dot(a, b, acc)                      acc = dot(a, b, cleared(acc, fresh))
      if last:                          ->      if last:
        store acc                                 store acc
        acc = zeros                             fresh = last

A persistent product with one loop over all steps of all its tiles is such a loop. Its sums are carried as they are, so
the dot of an iteration may be in flight when the next one begins: only the branch waits for it.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Block, Module, Op, Result, Value, behind_views
from ....ir.rewrite import Rewriter, inputs, substitute, sweep
from ....named_tuples import NamedTuple
from ....passes.dce import dce
from .. import ops as gpu_ops
from ..pipeline.loop_info import is_zero, stages_of
from ..target import Target


class _Reset(NamedTuple):
    """A carried value that is zero where `condition` is `when`, and else the result of a dot that adds to it."""

    position: int
    dot: Op
    condition: Value
    when: bool


def clear_sums(module: Module, target: Target) -> Module:
    """Carry the sums of pipelined loops as dots leave them, with a flag that says whether they count.

    Only for asynchronous MMAs: others take zeros from registers.
    """
    if target.mma.started is None or ops.for_ not in module.kinds:
        return module
    warps = module.attrs["num_warps"]

    def rule(b: Rewriter, op: Op) -> tuple[Value, ...] | None:
        found = _resets(op.regions[0]) if op.kind is ops.for_ and stages_of(op, module) > 1 else []
        found = [reset for reset in found if _is_asynchronous(reset.dot, target, warps)]
        return _cleared(b, op, found) if found else None

    return sweep(module, rule, dce)


def _resets(body: Block) -> list[_Reset]:
    found = [_reset(body, k, y) for k, y in enumerate(body.yields)]
    return [x for x in found if x is not None and _only_adds(body, x)]


def _reset(body: Block, k: int, y: Value) -> _Reset | None:
    """How a yielded value is reset by a branch, or by a select; None if it is not."""
    if type(y) is Op and y.kind is ops.select:
        (condition, *sides), condition = y.operands, behind_views(y.operands[0])
    else:
        branch, index = (y.op, y.index) if type(y) is Result else (y, 0)
        if type(branch) is not Op or branch.kind is not ops.if_:
            return None
        condition, sides = branch.operands[0], [region.yields[index] for region in branch.regions]
    if T.shape(condition.type):
        return None
    for zero, dot, when in ((*sides, True), (*reversed(sides), False)):
        if is_zero(zero) and type(dot) is Op and dot.kind is ops.dot and dot in body.ops:
            return _Reset(k, dot, condition, when)
    return None


def _only_adds(body: Block, reset: _Reset) -> bool:
    """True if nobody but the dot reads the carried value."""
    arg = body.args[1 + reset.position]
    return reset.dot.operands[2] is arg and sum(x is arg for op in body.ops for x in inputs(op)) == 1


def _is_asynchronous(dot: Op, target: Target, warps: int) -> bool:
    a, b, _ = (x.type for x in dot.operands)
    return target.mma.in_shared(a, b, dot.type, dot.attrs["precision"], warps)


def _cleared(b: Rewriter, loop: Op, found: list[_Reset]) -> tuple[Value, ...]:
    """The loop with flags behind its carried values; returns its results."""
    (body,), (lo, _, _, *inits) = loop.regions, loop.operands
    raw = {reset.position: reset.dot for reset in found}
    ends = [raw.get(k, y) for k, y in enumerate(body.yields)]
    ends = body.ops[-1].replace(operands=(*ends, *(reset.condition for reset in found)))
    false = ops.constant(b, value=False, type=T.i1)
    carried = [*inits, *[false] * len(found)]
    names = [*(arg.name for arg in body.args), *["fresh"] * len(found)]
    with b.region([lo.type, *(x.type for x in carried)], names) as region:
        own, flags = region.args[: len(body.args)], region.args[len(body.args) :]
        for reset, flag in zip(found, flags):
            own[1 + reset.position] = gpu_ops.cleared(b, own[1 + reset.position], flag)
        outs = list(substitute(b, Block(body.args, [*body.ops[:-1], ends]), own))
        for k, reset in enumerate(found, len(inits)):
            outs[k] = outs[k] if reset.when else ops.xor(b, outs[k], ops.constant(b, value=True, type=T.i1))
        ops.yield_(b, *outs)
    outs = list(b.emit_as_is(ops.for_, (*loop.operands[:3], *carried), loop.attrs, (region.block,)))
    for reset, flag in zip(found, outs[len(inits) :]):
        outs[reset.position] = gpu_ops.cleared(b, outs[reset.position], flag)
    return tuple(outs[: len(inits)])
