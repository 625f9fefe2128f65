"""Loads of loops without dots, started a round ahead in registers where the user asks for stages.

    for i in tl.range(lo, hi, step, num_stages=4):        x = load p(lo), if lo < hi
      x = load p(i)                                       for i, with x:
      body(x)                                      ->       next = load p(i + step), if i + step < hi
                                                            body(x); x = next

So while a program computes with one row, the next is on its way. One round ahead is as far as this goes, whatever
number above 1 is asked for: every stage takes a tile of registers, which other programs on the same SM would have had.
That there is a next round is asked just as the loop asks it, so its index is one the loop itself comes to.

Loads whose addresses follow from other loads run ahead with these. What a round loads must be carried, so loads are
taken in order as long as there are registers for them. Loops around other loops are left as they are, and so are those
that write in other ways than by stores which the launcher can see to be elsewhere (`loop_plan.Overtaking`).
"""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from ...ir.core import walk
from ...ir.rewrite import substitute, sweep
from . import ops as gpu_ops
from .loop_plan import Overtaking, Plan
from .round_copy import Copy

_NOT_IN_BODY = (ops.for_, ops.while_, ops.dot, gpu_ops.dot_shared)


def load_ahead(module, registers, apart=None):
    """The module with the loads of such loops a round ahead, where these take no more than `registers` of a thread.

    Accesses that are taken to be apart (`ir.bounds.Pair`) are added to the list `apart`; with None there is no launcher
    to see to it.
    """
    overtaking, threads = None if apart is None else Overtaking(module, apart), 32 * module.attrs["num_warps"]

    def rule(b, op):
        if op.kind is not ops.for_ or (op.attrs["num_stages"] or 1) < 2:
            return None
        if any(x.kind in _NOT_IN_BODY for x in walk(op.regions[0])):
            return None
        plan = Plan(op, None, overtaking)
        fits = plan.only_stores() and plan.choose_loads(lambda load: _registers(load.type, threads), registers)
        return _ahead(plan, b) if fits and plan.take_pairs() else None

    return sweep(module, rule)


def _registers(t, threads):
    """How many registers of 32 bits a thread holds a value in. Two short elements share one, but what is computed from
    them has 32 bits, so they count as one each."""
    numel, element = (t.numel, t.element) if type(t) is T.Tile else (1, t)
    return max(1, numel // threads) * (2 if type(element) is T.Ptr or element.bits > 32 else 1)


def _ahead(plan, b):
    """The new loop's results."""
    loop, body = plan.loop, plan.body
    lo, hi, step, *inits = loop.operands
    plan.carry_out(b, hi)
    first = _loaded(plan, lo, [inits[k] for k in plan.params])
    names = [*(arg.name for arg in body.args), *[""] * len(first)]
    with b.region([lo.type, *(x.type for x in (*inits, *first))], names) as region:
        own, carried = region.args[: len(body.args)], region.args[len(body.args) :]
        known = {id(load): x for load, x in zip(plan.indices, carried)}
        copy = Copy(plan, {**known, **{id(arg): x for arg, x in zip(body.args, own)}})
        following = [copy.value(body.yields[k]) for k in plan.params]
        following = _loaded(plan, ops.add(b, own[0], step), following)
        ops.yield_(b, *substitute(b, body, own, known), *following)
    # It has the stage it can have, and is not to be given another.
    attrs = {**loop.attrs, "num_stages": 1}
    outs = b.emit_as_is(ops.for_, (*loop.operands, *first), attrs, (region.block,))
    return (outs if type(outs) is tuple else (outs,))[: len(inits)]


def _loaded(plan, i, values):
    """What the round with index `i` loads, if there is such a round; `values` are the carried ones that count."""
    args = [plan.body.args[0], *(plan.body.args[1 + k] for k in plan.params)]
    copy = Copy(plan, {id(arg): x for arg, x in zip(args, (i, *values))}, more=plan.goes_on(i))
    return [copy.value(load) for load in plan.indices]
