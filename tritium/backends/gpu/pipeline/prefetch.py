"""Software prefetching: loads of loops are issued one iteration early, into registers.

    for i in tl.range(lo, hi, step, num_stages=4):        x = load p(lo), if lo < hi        (prologue)
      x = load p(i)                                       for i, with x:
      body(x)                                      ->       next = load p(i + step), if i + step < hi
                                                            body(x); x = next

The load of the next iteration overlaps with the computation of this one. The prefetch distance is one iteration for any
`num_stages` above 1: each stage holds a tile in registers, which lowers occupancy. The predicate of a prefetched load
is the exit condition of the loop itself, so the prefetch reads no address that the loop does not.

A load whose address depends on other loads is prefetched together with them. Loads are taken in program order until the
register budget is spent. Loops that contain loops are left alone. So are loops with side effects other than stores, and
atomics without a result, that the launcher can prove not to alias the prefetched loads (`reordering.Reordering`).

Loops with dots are pipelined through shared memory (`software_pipeline`). Where a target has no asynchronous copies for
all tiles that a loop multiplies, and its cost model says so (`prefetched_dots`), they are prefetched like the others,
in the kernel's `num_stages`: the tiles of the next iteration arrive while this one multiplies.
"""

from __future__ import annotations

from .... import ops
from ....ir.builder import several
from ....ir.core import Module, Op, Value, walk
from ....ir.rewrite import Rewriter, substitute, sweep
from ....passes.assumed import Assumed
from ....passes.dce import dce
from ..target import Target
from .capabilities import NO_DOTS, capabilities
from .iteration import Emission, IterationEmitter
from .loop_info import LoopInfo, registers_of, stages_of
from .reordering import Reordering
from .schedule import Schedule, prefetched_loads, register_loads, schedule_dots


def prefetch_loads(module: Module, target: Target, copies: bool = True) -> Module:
    """Prefetch loads of loops without dots one iteration ahead, into registers; with dots, where nothing else is done.

    A part of a thread's registers is their budget (`CostModel.prefetch_share`). A load moves above a store only if the
    launcher checks that they do not alias. Without `copies`, no loop is left to asynchronous copies.
    """
    if ops.for_ not in module.kinds:
        return module
    assumed, threads = Assumed(module), target.warp_size * module.attrs["num_warps"]
    most = target.machine.registers_of(module.attrs["num_warps"], module.attrs.get("maxnreg"))
    reordering, registers = Reordering.of(module, assumed), (most + 1) // target.cost.prefetch_share
    dots, copies = target.cost.prefetched_dots, copies and target.async_copies is not None
    can = capabilities(target, module, assumed.nonnegative) if dots and copies else NO_DOTS

    def rule(b: Rewriter, op: Op) -> tuple[Value, ...] | None:
        if op.kind is not ops.for_ or any(x.kind.loop for x in walk(op.regions[0])):
            return None
        with_dots = any(x.kind.mma for x in walk(op.regions[0]))
        if with_dots and not dots or (stages_of(op, module) if with_dots else op.attrs["num_stages"] or 1) < 2:
            return None
        if with_dots and copies and _copied(LoopInfo.of(op, can, reordering)):
            return None
        info = LoopInfo.of(op, NO_DOTS, reordering)
        cost = lambda load: registers_of(load.type, threads, with_dots)
        sums = sum(registers_of(x.type, threads, packed=True) for x in op.operands[3:])
        room = min(dots, most - sums - target.cost.registers_beside_dots) if with_dots else registers
        loads = register_loads(info, cost, room) if info.only_stores() else None
        if loads is None:
            return None
        schedule = schedule_dots(info, loads)
        return _ahead(schedule, b) if reordering is None or reordering.take(schedule.pairs) else None

    return sweep(module, rule, assumed.stated_by, dce)


def _copied(info: LoopInfo) -> bool:
    """True if asynchronous copies bring all tiles that the dots of a loop are computed from."""
    dots = [op for op in info.body.ops if op.kind.mma]
    if not all(dot in (*info.dots, *info.in_registers, *info.by_threads) for dot in dots):
        return False
    found = prefetched_loads(info)
    tiles = {load for dot in dots for x in dot.operands[:2] for load in info.loads_behind(x)}
    return found is not None and tiles.issubset(found.loads)


def _ahead(schedule: Schedule, b: Rewriter) -> tuple[Value, ...]:
    """The new loop's results."""
    loop, body = schedule.loop, schedule.body
    lo, hi, step, *inits = loop.operands
    emission, (_, params, _, indices) = Emission(schedule, b, hi), schedule.prefetched
    first = emission.load_indices(lo, [inits[k] for k in params])
    names = [*(arg.name for arg in body.args), *[""] * len(first)]
    with b.region([lo.type, *(x.type for x in (*inits, *first))], names) as region:
        own, carried = region.args[: len(body.args)], region.args[len(body.args) :]
        known = dict(zip(indices, carried))
        emitter = IterationEmitter(emission, {**known, **dict(zip(body.args, own))})
        following = [emitter.value(body.yields[k]) for k in params]
        following = emission.load_indices(ops.add(b, own[0], step), following)
        ops.yield_(b, *substitute(b, body, own, known), *following)
    # The new loop must not be prefetched again.
    attrs = {**loop.attrs, "num_stages": 1}
    outs = b.emit_as_is(ops.for_, (*loop.operands, *first), attrs, (region.block,))
    return several(outs)[: len(inits)]
