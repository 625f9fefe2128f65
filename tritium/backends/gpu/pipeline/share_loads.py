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

An operand that the loop does not change is written before it, if it takes more registers of a thread than a loop may
hold (`CostModel.held_bytes`). Otherwise it would take them, or be converted in each iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import ops
from ....ir.builder import several
from ....ir.core import Module, Op, Result, Value, op_of, walk
from ....ir.rewrite import Rewriter, copy_region, effects, sweep
from ....passes.dce import dce
from .. import ops as gpu_ops
from ..layout.rematerialization import Rematerialization
from ..ops import bytes_of
from ..target import Target
from .capabilities import capabilities
from .loop_info import LoopInfo, untransposed


def share_loads(module: Module, target: Target) -> Module:
    """Stage operands of register dots in innermost loops in shared memory, if occupancy allows.

    These are what a loop with several dots loads, and large ones that the loop does not change."""
    if ops.for_ not in module.kinds or not any(map(_may_gain, walk(module.body))):
        return module
    can, warps = capabilities(target, module, None), module.attrs["num_warps"]
    room = target.shared_bytes * warps // target.cost.warps_with_all_registers
    taken = lambda tiles: sum(bytes_of(x.type) for x in tiles)

    def rule(b: Rewriter, op: Op) -> tuple[Value, ...] | None:
        if not _may_gain(op) or any(inner.kind.loop for inner in walk(op.regions[0])):
            return None
        info = LoopInfo.of(op, can)
        tiles = {x: _axis(info, x) for dot in info.in_registers for x in _operands(dot) if _is_loaded(info, x)}
        if len(info.in_registers) < 2 or taken(tiles) > room:
            tiles = {}
        outer = _unchanged(info, target, warps)
        if taken({**tiles, **outer}) > room:
            outer = {}
        return _shared(b, info, tiles, outer) if tiles or outer else None

    return sweep(module, rule, dce)


def _may_gain(op: Op) -> bool:
    """True for a loop with several dots, or one that multiplies what the loop does not change."""
    if op.kind is not ops.for_:
        return False
    inside, dots = {*op.regions[0].ops, *op.regions[0].args}, [x for x in op.regions[0].ops if x.kind is ops.dot]
    return len(dots) > 1 or any(op_of(x) not in inside for dot in dots for x in _operands(dot))


def _operands(dot: Op) -> list[Value]:
    """What a dot multiplies, before it is transposed."""
    return [untransposed(x)[0] for x in dot.operands[:2]]


def _unchanged(info: LoopInfo, target: Target, warps: int) -> dict[Value, int]:
    """The operands of dots that the loop does not change and registers should not hold, before they are transposed, and
    the axes along which dots read words."""
    remat, found = Rematerialization(), {}
    for dot in info.in_registers:
        for k, (x, layout) in enumerate(zip(dot.operands, target.mma.operands_of(dot, warps))):
            (tile, transposed), held = untransposed(x), layout.registers * x.type.element.bytes
            if held > target.cost.held_bytes and info.outside(tile) and remat.cost(tile) is None:
                found.setdefault(tile, k if transposed else 1 - k)
    return found


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


def _shared(b: Rewriter, info: LoopInfo, tiles: dict[Value, int], outer: dict[Value, int]) -> tuple[Value, ...]:
    """The results of the loop on shared tiles; `outer` are those that it does not change."""
    loop, body = info.loop, info.body
    axes, written = {**tiles, **outer}, _share(b, outer, lambda x: x)
    with b.region([a.type for a in body.args], [a.name for a in body.args]) as region:
        names: dict[Value, tuple] = {old: (new,) for old, new in zip(body.args, region.args)}
        value = lambda x: names.get(op_of(x), (x,))[x.index if type(x) is Result and op_of(x) in names else 0]
        waiting: list[Op] = []
        buffers: dict[Value, Value] = {}
        load = lambda x, address: gpu_ops.buffer_load(b, address, tile=x.type, axis=axes[x])

        def read(op: Op, x: Value) -> Value:
            tile, transposed = untransposed(x)
            if op in info.in_registers and tile in written:
                found = load(tile, written[tile])
                return ops.trans(b, found, order=(1, 0)) if transposed else found
            return load(x, buffers[x]) if x in buffers else value(x)

        for op in _with_early_stores(body.ops[:-1]):
            if any(x in waiting for x in op.operands):
                buffers |= _share(b, {x: tiles[x] for x in waiting}, value)
                waiting = []
            operands = [read(op, x) for x in op.operands]
            made = b.emit(op.kind, operands, op.attrs, [copy_region(b, r, names) for r in op.regions], op.loc)
            names[op] = several(made)
            waiting += [op] if op in tiles else []
        if buffers:
            gpu_ops.release(b, next(iter(buffers.values())))
        ops.yield_(b, *map(value, body.yields))
    outs = b.emit_as_is(ops.for_, loop.operands, loop.attrs, (region.block,))
    if written:
        gpu_ops.release(b, next(iter(written.values())))
    return several(outs)


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
