"""Sums of products whose right side lies the wrong way in memory, computed transposed: c' = b' @ a'.

Warpgroups read both sides of a dot from shared memory, but 32-bit types only along K. The left side may come from
registers instead, and threads can pick it out of a buffer in any order. So if the right side is the one that lies along
N, it becomes the left one:

    for ..., acc:                          for ..., t:
      a, b = load, load         ->           a, b = load, load
      acc = dot a, b, acc                    t = dot b', a', t
                                           acc = t'

Transpositions only give other names to the same registers.
"""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from ...ir.core import Op, walk
from ...ir.rewrite import substitute, sweep
from .pipeline_loops import Plan


def turn_dots(module, abilities):
    """The module with such sums turned; `abilities(module)` says what the target's dots take (see `pipeline_loops`)."""
    if not any(op.kind is ops.dot and op.operands[1].type.element.bits == 32 for op in walk(module.body)):
        return module
    can, depth = abilities(module), module.attrs.get("num_stages", 3)

    def rule(b, op):
        if op.kind is not ops.for_:
            return None
        stages = op.attrs["num_stages"] if op.attrs["num_stages"] is not None else depth
        plan = Plan(op, can)
        chosen = {plan.sum_of(dot) for dot in plan.dots if _gains(plan, dot)} if stages > 1 else set()
        return _turn(b, op, chosen) if chosen else None

    return sweep(module, rule)


def _gains(plan, dot):
    """True if a dot's products are only summed, and better turned."""
    (left, left_turned), (right, right_turned) = (plan.source(x) for x in dot.operands[:2])
    if plan.sum_of(dot) is None or left is None or right is None:
        return False
    if right.type.element.bits != 32 or plan.lies_right(dot, right, "b", right_turned):
        return False
    a, b, total = map(_swapped, dot.operands)
    other = Op(ops.dot, (b, a, total), dot.attrs, (_type(dot),))
    copied = plan.can_copy(left) and plan.can_copy(right)
    return copied and plan.can.fits(other) and plan.lies_right(other, left, "b", not left_turned)


def _type(x):
    return T.with_shape(x.type, x.type.shape[::-1])


def _swapped(x):
    return Op(ops.trans, (x,), {"order": (1, 0)}, (_type(x),))


def _turn(b, loop, chosen):
    """The loop with the chosen sums transposed."""
    swap = lambda x: ops.trans(b, x, order=(1, 0))
    lo, hi, step, *inits = loop.operands
    inits = [swap(x) if k in chosen else x for k, x in enumerate(inits)]
    body = loop.regions[0]
    with b.region([lo.type, *(x.type for x in inits)], [a.name for a in body.args]) as region:
        i, *own = region.args
        ends = list(substitute(b, body, [i, *(swap(x) if k in chosen else x for k, x in enumerate(own))]))
        for k in chosen:
            left, right, _ = ends[k].operands
            ends[k] = ops.dot(b, swap(right), swap(left), own[k], **ends[k].attrs)
        ops.yield_(b, *ends)
    outs = b.emit(ops.for_, (lo, hi, step, *inits), loop.attrs, (region.block,))
    outs = outs if type(outs) is tuple else (outs,)
    return tuple(swap(x) if k in chosen else x for k, x in enumerate(outs))
