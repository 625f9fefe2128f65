"""Swap the operands of dots (transposed MMA): acc' = b' @ a', where the rhs is better as the lhs.

wgmma reads both operands from shared memory, the lhs from registers as well. So the rhs becomes the lhs

- if threads compute it, from weights of few bits for example: it is not written to a buffer in every iteration, between
  two barriers;
- if it has a 32-bit type and is contiguous along N. Such types are read from shared memory along K only, but threads
  can read them from a buffer in any order;
- if the lhs has fewer rows than an instruction, and both are loaded.

    for ..., acc:                          for ..., t:
      a, b = load, load         ->           a, b = load, load
      acc = dot a, b, acc                    t = dot b', a', t
                                           acc = t'

Transposes only rename registers. A dot with fewer than 64 rows fits wgmma only this way: N may be small, M may not.
"""

from __future__ import annotations

from typing import Any

from .... import ops
from ....ir import types as T
from ....ir.builder import several
from ....ir.core import Module, Op, Value, closure, walk
from ....ir.rewrite import Rewriter, substitute, sweep
from ....passes.dce import dce
from ..layout.rules import simple
from ..pipeline.capabilities import capabilities
from ..pipeline.loop_info import LoopInfo, is_loaded, stages_of
from ..pipeline.schedule import prefetched_loads
from ..target import Target


def swap_operands(module: Module, target: Target) -> Module:
    """Swap the operands of dots, and transpose their sums, where tensor cores read the rhs better as the lhs."""
    if ops.dot not in module.kinds:
        return module
    if not any(op.kind is ops.dot and _may_gain(op) for op in walk(module.body)):
        return module
    can = capabilities(target, module, [])

    def rule(b: Rewriter, op: Op) -> tuple[Value, ...] | None:
        if op.kind is not ops.for_ or stages_of(op, module) < 2:
            return None
        info = LoopInfo.of(op, can)
        dots = (*info.dots, *info.in_registers)
        sums = ((info.sum_of(dot), dot) for dot in dots)
        chosen = {k for k, dot in sums if k is not None and _gains(info, dot)}
        return _transpose(b, op, chosen) if chosen else None

    return sweep(module, rule, dce)


def _may_gain(dot: Op) -> bool:
    """True for a dot that may be better swapped."""
    rows, columns = dot.type.shape[-2:]
    return T.element(dot.operands[1].type).bits == 32 or not is_loaded(dot.operands[1]) or rows < columns


def _gains(info: LoopInfo, dot: Op) -> bool:
    """True if a dot is better swapped: it then has a wgmma, and reads the former lhs from a buffer."""
    left, transposed = info.source(dot.operands[0])
    if left is None or not info.can_copy(left):
        return False
    other = swapped(dot)
    if not info.can.fits(other) or not info.layout_fits(other, left, "b", not transposed):
        return False
    if _has_few_rows(info, dot, other):
        return True
    return _needs_other_layout(info, dot) or info.can.lhs_once(other) and _computed(info, dot.operands[1])


def _has_few_rows(info: LoopInfo, dot: Op, other: Op) -> bool:
    """True if only the swapped dot fits, and reads the former rhs from a buffer as it is laid out."""
    right, transposed = info.source(dot.operands[1])
    if info.can.fits(dot) or right is None or not info.can_copy(right):
        return False
    return info.layout_fits(other, right, "a", not transposed)


def _needs_other_layout(info: LoopInfo, dot: Op) -> bool:
    """True if a dot cannot read its rhs from a buffer as it is laid out, but threads can."""
    right, transposed = info.source(dot.operands[1])
    if dot not in info.dots or right is None or right.type.element.bits != 32:
        return False
    return info.can_copy(right) and not info.layout_fits(dot, right, "b", transposed)


def _computed(info: LoopInfo, right: Value) -> bool:
    """True if threads compute an rhs in its iteration, in any layout: from prefetched loads and scalars."""
    if is_loaded(right) or not any(info.loads_behind(right)):
        return False
    staged = prefetched_loads(info)
    if staged is None:
        return False
    there = lambda x: x in staged.loads or type(x.type) is not T.Tile or info.outside(x)
    computed = lambda x: simple(x) or type(x) is Op and x.kind is ops.join
    return all(there(x) or computed(x) for x in closure([right], lambda x: () if there(x) else x.operands))


def swapped(dot: Op) -> Op:
    """The dot that gives the transpose of another, not emitted."""
    turn = lambda x: T.with_shape(x.type, x.type.shape[::-1])
    a, b, total = (Op(ops.trans, (x,), {"order": (1, 0)}, (turn(x),)) for x in dot.operands)
    return Op(ops.dot, (b, a, total), dot.attrs, (turn(dot),))


def _transpose(b: Rewriter, loop: Op, chosen: set[int]) -> tuple[Value, ...]:
    """The loop with the chosen accumulators transposed."""
    swap = lambda x: ops.trans(b, x, order=(1, 0))
    lo, hi, step, *inits = loop.operands
    inits = [swap(x) if k in chosen else x for k, x in enumerate(inits)]
    body = loop.regions[0]
    with b.region([lo.type, *(x.type for x in inits)], [a.name for a in body.args]) as region:
        i, *own = region.args
        ends: list[Any] = list(substitute(b, body, [i, *(swap(x) if k in chosen else x for k, x in enumerate(own))]))
        for k in chosen:
            left, right, _ = ends[k].operands
            ends[k] = ops.dot(b, swap(right), swap(left), own[k], **ends[k].attrs)
        ops.yield_(b, *ends)
    # As it is: nothing is known of the new loop's values, and all that gains has been transposed.
    outs = several(b.emit_as_is(ops.for_, (lo, hi, step, *inits), loop.attrs, (region.block,)))
    return tuple(swap(x) if k in chosen else x for k, x in enumerate(outs))
