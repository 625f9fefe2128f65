"""Operands that a loop loads go to shared memory at once, and each of its dots reads them from there.

    k = load pk; v = load pv                    k = load pk; v = load pv
    s = dot q, k'                               bk, bv = share k, v
    acc = dot s, v, acc                 ->      s = dot q, (buffer_load bk)'
    state = dot k, v, state                     acc = dot s, (buffer_load bv), acc
                                                state = dot (buffer_load bk), (buffer_load bv), state

Without asynchronous copies (a single stage, rows that are not aligned) the tiles would wait in registers for the dot
that reads them, and go through shared memory each for itself, between two barriers. This way they take no registers
while other dots multiply, and all of them take two barriers. It is for loops with several MMAs on registers: those on
shared memory write their operands themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import ops
from ....ir.builder import several
from ....ir.core import Module, Op, Result, Value, op_of, walk
from ....ir.rewrite import Rewriter, copy_region, effects, sweep
from .. import ops as gpu_ops
from ..ops import bytes_of
from ..target import Target
from .capabilities import capabilities
from .loop_info import LoopInfo


def share_loads(module: Module, target: Target) -> Module:
    """Stage loaded operands of innermost loops with several register dots in shared memory, if occupancy allows."""
    if ops.for_ not in module.kinds or not any(map(_has_several, walk(module.body))):
        return module
    can = capabilities(target, module, None)
    room = target.shared_bytes * module.attrs["num_warps"] // target.cost.warps_with_all_registers

    def rule(b: Rewriter, op: Op) -> tuple[Value, ...] | None:
        if not _has_several(op) or any(inner.kind.loop for inner in walk(op.regions[0])):
            return None
        info = LoopInfo.of(op, can)
        if len(info.in_registers) < 2:
            return None
        tiles = {x: _axis(info, x) for dot in info.in_registers for x in _operands(dot) if _is_loaded(info, x)}
        taken = sum(bytes_of(x.type) for x in tiles)
        return _shared(b, info, tiles) if tiles and taken <= room else None

    return sweep(module, rule)


def _has_several(op: Op) -> bool:
    """True for a loop with several dots."""
    return op.kind is ops.for_ and sum(inner.kind is ops.dot for inner in op.regions[0].ops) > 1


def _operands(dot: Op) -> list[Value]:
    """What a dot multiplies, before it is transposed."""
    return [x.operands[0] if type(x) is Op and x.kind is ops.trans else x for x in dot.operands[:2]]


def _is_loaded(info: LoopInfo, x: Value) -> bool:
    """True for a tile that is loaded in the loop, or cheaply computed from such loads, if only dots on registers read
    it, directly or transposed."""
    if info.needs_dots(x) or next(info.loads_behind(x), None) is None:
        return False
    elsewhere = {y for op in info.body.ops for region in op.regions for z in walk(region) for y in z.operands}
    readers = [user for op in info.users(x) for user in (info.users(op) if op.kind is ops.trans else [op])]
    multiplied = all(op in info.in_registers and x in _operands(op) for op in readers)
    return multiplied and x not in elsewhere and x not in info.body.yields


def _axis(info: LoopInfo, x: Value) -> int:
    """The contiguous axis of the loads behind a tile."""
    return info.can.axis(next(info.loads_behind(x)))


def _shared(b: Rewriter, info: LoopInfo, tiles: dict[Value, int]) -> tuple[Value, ...]:
    """The results of the loop on shared tiles."""
    loop, body = info.loop, info.body
    with b.region([a.type for a in body.args], [a.name for a in body.args]) as region:
        names: dict[Value, tuple] = {old: (new,) for old, new in zip(body.args, region.args)}
        value = lambda x: names.get(op_of(x), (x,))[x.index if type(x) is Result and op_of(x) in names else 0]
        waiting: list[Op] = []
        buffers: dict[Value, Value] = {}
        read = lambda x: gpu_ops.buffer_load(b, buffers[x], tile=x.type, axis=tiles[x])
        for op in _with_early_stores(body.ops[:-1]):
            if any(x in waiting for x in op.operands):
                buffers |= _share(b, {x: tiles[x] for x in waiting}, value)
                waiting = []
            operands = [read(x) if x in buffers else value(x) for x in op.operands]
            made = b.emit(op.kind, operands, op.attrs, [copy_region(b, r, names) for r in op.regions], op.loc)
            names[op] = several(made)
            waiting += [op] if op in tiles else []
        gpu_ops.release(b, next(iter(buffers.values())))
        ops.yield_(b, *map(value, body.yields))
    return several(b.emit_as_is(ops.for_, loop.operands, loop.attrs, (region.block,)))


def _with_early_stores(body: Sequence[Op]) -> list[Op]:
    """The ops of a block with each store right behind the last dot it needs: a tile that waits for its store takes
    registers. Accesses to memory keep their order."""
    done: dict[Any, None] = {}  # in order
    inside, accesses = {*body}, [op for op in body if effects(op)]

    def missing(op: Any, found: dict[Any, None]) -> dict[Any, None]:
        """`found`, with the op, and before it what it needs and is not done."""
        for x in map(op_of, op.operands):
            if x in inside and x not in done and x not in found:
                missing(x, found)
        found[op] = None
        return found

    for op in body:
        done[op] = None
        while accesses and (accesses[0] in done or accesses[0].kind is ops.store):
            wanted = {} if accesses[0] in done else missing(accesses[0], {})
            if any(x.kind.mma or x.regions or effects(x) and x is not accesses[0] for x in wanted):
                break
            done |= wanted
            accesses.pop(0)
    return list(done)


def _share(b: Rewriter, tiles: dict[Value, int], value: Callable[[Value], Value]) -> dict[Value, Value]:
    """Write tiles into buffers, those with the same contiguous axis together; returns their addresses."""
    out: dict[Value, Value] = {}
    for axis in sorted({*tiles.values()}):
        mine = [x for x in tiles if tiles[x] == axis]
        out |= zip(mine, several(gpu_ops.share(b, *map(value, mine), axis=axis)))
    return out
