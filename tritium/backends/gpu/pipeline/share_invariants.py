"""Operands of asynchronous MMAs in loops that are not pipelined go to shared memory as early as possible.

    for i:                                      bq = share q
      k = load pk; v = load pv                  for i:
      s = dot q, k'                               k = load pk; v = load pv
      p = ...                                     bk, bv = share k, v
      acc = dot p, v, acc               ->        s = dot_shared bq, bk'
                                                  p = ...
                                                  acc = dot_shared p, bv, acc
                                                  release bk
                                                release bq

An asynchronous MMA reads its rhs from shared memory, and may read its lhs from there. A dot of a loop without
asynchronous copies (a single stage, rows that are not aligned, nothing to load) would write them there itself: what the
loop does not change in each iteration, and both would wait for it in registers. An lhs that is computed from other dots
stays in registers.
"""

from __future__ import annotations

from .... import ops
from ....ir.builder import several
from ....ir.core import Module, Op, Value, walk
from ....ir.rewrite import Rewriter, sweep
from ....passes.dce import dce
from .. import ops as gpu_ops
from ..ops import bytes_of
from ..target import Target
from .capabilities import capabilities
from .iteration import Emission, IterationEmitter, buffer_of
from .loop_info import LoopInfo
from .schedule import Schedule, schedule_in_place


def share_invariants(module: Module, target: Target) -> Module:
    """Stage loop-invariant and loaded operands of asynchronous MMAs in shared memory, if occupancy allows."""
    if ops.for_ not in module.kinds or ops.dot not in module.kinds or target.mma.started is None:
        return module
    can = capabilities(target, module, None)
    room = target.shared_bytes * module.attrs["num_warps"] // target.cost.warps_with_all_registers

    def rule(b: Rewriter, op: Op) -> tuple[Value, ...] | None:
        if op.kind is not ops.for_ or any(inner.kind.loop for inner in walk(op.regions[0])):
            return None
        info = LoopInfo.of(op, can)
        alone = all(x in info.dots for x in walk(info.body) if x.kind.mma)
        if not info.dots or not alone or not all(map(info.can_clone, info.body.ops)):
            return None
        schedule = schedule_in_place(info)
        gains = schedule.outer_operands() or len(info.dots) > 1 and schedule.early_operands()
        return _shared(b, schedule) if gains and _bytes(schedule) <= room else None

    return sweep(module, rule, dce)


def _bytes(schedule: Schedule) -> int:
    """The shared memory that the operands of a loop take."""
    staged = {buffer_of(dot.operands["ab".index(which)], found.axis) for (dot, which), found
              in schedule.operands.items() if found.where in ("outside", "written")}  # fmt: skip
    return sum(bytes_of(x.type) for x, _ in staged)


def _shared(b: Rewriter, schedule: Schedule) -> tuple[Value, ...]:
    """The results of the loop on staged operands."""
    loop, body = schedule.loop, schedule.body
    emission = Emission(schedule, b, loop.operands[1])
    emission.outer = emission.share(schedule.outer_operands())
    with b.region([a.type for a in body.args], [a.name for a in body.args]) as region:
        emitter = IterationEmitter(emission, dict(zip(body.args, region.args)))
        for op in body.ops[:-1]:
            emitter.value(op)
        for address in list(emitter.put.values())[:1]:
            gpu_ops.release(b, address)
        ops.yield_(b, *map(emitter.value, body.yields))
    outs = b.emit_as_is(ops.for_, loop.operands, loop.attrs, (region.block,))
    for address, _ in list(emission.outer.values())[:1]:
        gpu_ops.release(b, address)
    return several(outs)
