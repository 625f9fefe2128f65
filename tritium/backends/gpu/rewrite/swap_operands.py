"""Sums of products whose right side had better be the left one, computed transposed: c' = b' @ a'.

Warpgroups read both sides of a dot from shared memory, the left one from registers as well. So a right side becomes the
left one

- if threads compute it, from weights of few bits for example: they need not put it into a buffer in every round, and
  wait for each other before and after;
- if it has a 32-bit type and lies along N. Such types are read from shared memory along K only, but threads can pick
  them out of a buffer in any order.

    for ..., acc:                          for ..., t:
      a, b = load, load         ->           a, b = load, load
      acc = dot a, b, acc                    t = dot b', a', t
                                           acc = t'

Transpositions only give other names to the same registers. A dot with few rows is also one that warpgroups can do only
so: they want 64, but few columns will do.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Op, walk
from ....ir.rewrite import substitute, sweep
from ..layout.rules import simple
from ..pipeline.schedule import Plan, is_loaded


def swap_operands(module, capabilities):
    """The module with such sums turned; `capabilities(module)` says what the target's dots take (see `loop_plan`)."""
    if not any(op.kind is ops.dot and _may_gain(op.operands[1]) for op in walk(module.body)):
        return module
    can, depth = capabilities(module), module.attrs.get("num_stages", 3)

    def rule(b, op):
        if op.kind is not ops.for_:
            return None
        stages = op.attrs["num_stages"] if op.attrs["num_stages"] is not None else depth
        plan = Plan(op, can)
        dots = (*plan.dots, *plan.in_registers) if stages > 1 else ()
        chosen = {plan.sum_of(dot) for dot in dots if plan.sum_of(dot) is not None and _gains(plan, dot)}
        return _turn(b, op, chosen) if chosen else None

    return sweep(module, rule)


def _may_gain(right):
    """True for a right side that is worth a closer look."""
    return T.element(right.type).bits == 32 or not is_loaded(right)


def _gains(plan, dot):
    """True if a dot is better turned: then it fits, and reads what was on the left from a buffer."""
    left, turned = plan.source(dot.operands[0])
    if left is None or not plan.can_copy(left):
        return False
    a, b, total = map(_swapped, dot.operands)
    other = Op(ops.dot, (b, a, total), dot.attrs, (_type(dot),))
    if not plan.can.fits(other) or not plan.lies_right(other, left, "b", not turned):
        return False
    return _lies_wrong(plan, dot) or plan.can.left_once(other) and _computed(plan, dot.operands[1])


def _lies_wrong(plan, dot):
    """True if a dot cannot read its right side from a buffer, but could pick it out of there."""
    right, turned = plan.source(dot.operands[1])
    if dot not in plan.dots or right is None or right.type.element.bits != 32:
        return False
    return plan.can_copy(right) and not plan.lies_right(dot, right, "b", turned)


def _computed(plan, right):
    """True if threads compute a right side in its round, in whatever layout: of what is copied ahead, and of numbers
    they have anyway."""
    if is_loaded(right) or not any(plan.behind(right)) or not plan.works_with_registers():
        return False
    todo, seen = [right], set()
    while todo:
        x = todo.pop()
        if id(x) in seen or id(x) in plan.loads or type(x.type) is not T.Tile or plan.outside(x):
            continue
        if not simple(x):
            return False
        seen.add(id(x))
        todo += x.operands
    return True


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
    # As it is: nothing is known of the new loop's values, and all that gains has been turned.
    outs = b.emit_as_is(ops.for_, (lo, hi, step, *inits), loop.attrs, (region.block,))
    outs = outs if type(outs) is tuple else (outs,)
    return tuple(swap(x) if k in chosen else x for k, x in enumerate(outs))
