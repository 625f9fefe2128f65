"""Software pipelining: loads that feed dots are issued several iterations ahead, into multi-stage buffers.

    for i:                          for i:
      a = load pa(i)                  wait for the copies of iteration i
      b = load pb(i)         ->       issue the copies of iteration i + S - 1
      acc += a @ b                    acc += buffer_a[i % S] @ buffer_b[i % S]

Where a block has a multiprocessor to itself, and three stages or more, copies are issued behind the first dot that
reads registers: else tensor cores idle while its warps compute addresses.

A tile that a dot reads from registers, or that other ops use first, is read back from its buffer. So are 1-D tiles such
as scales: each user reads them in its own layout.

A dot whose result is only yielded may stay in flight across the back edge: accumulators, onto which the dots of the
next iteration chain, or attention's product with V, which overlaps with the next product with K. Copies of such a loop
overwrite buffers of the previous iteration, so a barrier precedes them, placed after the wait for a dot issued later,
or at the end of an iteration without such a wait. Dots that depend on no other are issued together at the start of an
iteration, and each is waited for where its result is used.

The addresses of a later iteration need its scalars: the slice of the body that computes them is cloned, and a second
set of loop-carried scalars runs ahead. If the slice has loads (a page table, the row of a token), their results are
carried in registers from one iteration to the next, which hides their latency:

    iteration i:  load the indices of iteration i + S, predicated on its existence
                  issue the copies of iteration i + S - 1, with the indices loaded an iteration ago

Loads that depend on such an index in turn are not prefetched.

Loop-invariant operands, such as attention's Q, are written to a buffer before the loop. If a later loop of the block
reads one too (a causal mask splits the loop), the buffer is kept while the multibuffers of the first loop are released,
and the tile is not live in registers across that loop.

Asynchronous copies have at least four bytes. A tile of smaller elements that are not aligned, as in a matrix with an
odd number of columns, is copied by the threads through registers, if these have room (`thread_copies`): loaded an
iteration early, and written to its buffer when the iteration has issued its dots (`buffer_store`). Then its registers
take the tile of the iteration after that.

A prefetched load is hoisted above the stores of earlier iterations, and above atomics whose old values nobody reads. A
loop with these is pipelined if the launcher can check that they do not alias; each such pair of accesses is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Block, Module, Op, Value, walk
from ....ir.rewrite import Rewriter, sweep
from ....passes.assumed import Assumed
from ....passes.dce import dce
from ....passes.regions import trip_count
from .. import ops as gpu_ops
from ..ops import MIN_TRANSFER
from ..target import Target
from .capabilities import Capabilities, capabilities
from .iteration import Emission, IterationEmitter
from .loop_info import LoopInfo, registers_of, stages_of
from .reordering import Reordering
from .schedule import Schedule, prefetched_loads, schedule_dots

Key: TypeAlias = "tuple[Value, str]"  # of `Emission.outer`: an operand, and which it is


def software_pipeline(module: Module, target: Target, most: int | None = None) -> Module:
    """Pipeline every innermost loop around dots, in at most `most` stages.

    A load moves above a store only if the launcher checks that they do not alias.
    """
    if ops.for_ not in module.kinds:
        return module
    assumed, kept = Assumed(module), _Kept(module)
    can, reordering = capabilities(target, module, assumed.nonnegative), Reordering.of(module, assumed)
    is_short = lambda load: len(T.shape(load.type)) == 2 and can.vector(load) < MIN_TRANSFER

    def rule(b: Rewriter, op: Op) -> tuple[Value, ...] | None:
        if op.kind is not ops.for_:
            return None
        stages = stages_of(op, module)
        stages = min(stages, most or stages)
        if stages < 2:
            return None
        info = LoopInfo.of(op, can, reordering)
        thread_copies = [load for load in op.regions[0].ops if load.kind is ops.load and is_short(load)]
        if thread_copies and _fit_registers(info, thread_copies, module, target):
            info = LoopInfo.of(op, _through_registers(info, thread_copies), reordering)
        loads = prefetched_loads(info)
        if loads is None:
            return None
        thread_copies = [load for load in loads.loads if is_short(load)]
        if len(thread_copies) == len(loads.loads):
            stages = 2  # what is loaded an iteration early needs no more
        trips = 0 if thread_copies else trip_count(op) or 0
        schedule = schedule_dots(info, loads, "copies", stages)
        if reordering is not None and not reordering.take(schedule.pairs):
            return None
        late = stages > 2 and bool(info.in_registers) and _alone(info, loads.loads, stages, module, target)
        return _Pipelined(schedule, b, stages, kept, thread_copies, trips, late).build()

    return sweep(module, rule, assumed.stated_by, dce)


def _fit_registers(info: LoopInfo, loads: Sequence[Op], module: Module, target: Target) -> bool:
    """True if the tiles of loads have room in half of the registers that the sums of a loop leave, and beside the
    fragments of dots that read registers, which are as large."""
    threads = target.warp_size * module.attrs["num_warps"]
    most = target.machine.registers_of(module.attrs["num_warps"], module.attrs.get("maxnreg"))
    sums = sum(registers_of(x.type, threads, packed=True) for x in info.loop.operands[3:])
    room = min(target.cost.thread_copy_registers, (most - sums) // 2)
    return sum(registers_of(load.type, threads) for load in loads) * (1 if info.dots else 2) <= room


def _alone(info: LoopInfo, loads: Sequence[Op], stages: int, module: Module, target: Target) -> bool:
    """True if a multiprocessor has room for one block: no other multiplies while the warps of one issue copies."""
    warps, machine = module.attrs["num_warps"], target.machine
    sums = sum(registers_of(x.type, target.warp_size * warps, packed=True) for x in info.loop.operands[3:])
    buffers = stages * sum(gpu_ops.bytes_of(load.type) for load in loads)
    registers = sums + target.multiprocessor.beside_tiles_at_ease
    return buffers > machine.shared_of(2) or machine.programs_of(warps, registers) == 1


def _through_registers(info: LoopInfo, thread_copies: Sequence[Op]) -> Capabilities:
    """The capabilities with loads that threads write to buffers. These have rows along the axis that is not contiguous
    in global memory, if dots can read them so: lanes load neighbours along the other, so each writes some of a row."""
    can, axes = info.can, {}
    for dot in info.dots:
        for x, operand in zip(dot.operands, "ab"):
            load, transposed = info.source(x)
            if load in thread_copies:
                axis = can.axis(load)
                axes |= {} if can.takes(dot, operand, axis if transposed else 1 - axis) else {load: axis}
    axes = {load: 1 - can.axis(load) for load in thread_copies} | axes
    return can._replace(vector=lambda load: MIN_TRANSFER if load in axes else can.vector(load),
                        axis=lambda load: axes[load] if load in axes else can.axis(load))  # fmt: skip


def most_stages(module: Module) -> int:
    """The most stages that a loop of the module asks for; 1 without loops."""
    loops = (op for op in walk(module.body) if op.kind is ops.for_) if ops.for_ in module.kinds else ()
    return max((stages_of(op, module) for op in loops), default=1)


class _Kept:
    """Buffers that outlive the loop they were made for, because a later loop of the block reads them."""

    def __init__(self, module: Module):
        self.buffers = []  # (key of `Emission.outer`, address, axis) in the order in which they are made
        self.siblings = {}  # id of an op of the module -> its block, and its place there
        self._note(module.body)

    def _note(self, block: Block) -> None:
        for k, op in enumerate(block.ops):
            self.siblings[op] = block, k
            for region in op.regions:
                self._note(region)

    def here(self, b: Rewriter) -> dict[Key, tuple[Value, int]]:
        """{key: (address, axis)} of those in the block that is being emitted."""
        return {key: (address, axis) for key, address, axis in self.buffers if b.is_here(address)}

    def wanted(self, b: Rewriter) -> set[Value]:
        """The operands of dots in later loops of the block."""
        block, k = self.siblings[b.original]
        loops = [op for op in block.ops[k + 1 :] if op.kind is ops.for_]
        dots = [dot for loop in loops for dot in walk(loop.regions[0]) if dot.kind is ops.dot]
        return {b.value(x) for dot in dots for x in dot.operands[:2]}

    def end(self, b: Rewriter, wanted: set[Value]) -> Value | None:
        """The first buffer of the block such that no later loop reads it or any made after it; None if there is
        none."""
        first = None
        while self.buffers and b.is_here(self.buffers[-1][1]) and self.buffers[-1][0][0] not in wanted:
            first = self.buffers.pop()[1]
        return first


class _Pipelined:
    """Emits a loop whose iterations issue the copies of later ones, or load what threads copy (`thread_copies`).

    If the loop has fewer `trips` than stages (0: not known), the copies of all of them are issued in front. Those of an
    iteration start behind its wait; if that is `late`, behind its first dot that reads registers, so that addresses
    are computed while tensor cores are busy.
    """

    def __init__(self, schedule: Schedule, b: Rewriter, stages: int, kept: _Kept, thread_copies: Sequence[Op],
                 trips: int, late: bool):  # fmt: skip
        self.schedule, self.b, self.body, self.kept = schedule, b, schedule.body, kept
        self.thread_copies, self.in_front, self.late = thread_copies, 0 < trips < stages, late
        self.slots, self.stages = (trips, trips + 1) if self.in_front else (stages, stages)
        lo, hi, self.step, *_ = schedule.loop.operands
        self.index, self.emission = lo.type, Emission(schedule, b, hi)
        self.params, self.indices = schedule.prefetched.params, schedule.prefetched.indices

    def build(self) -> tuple[Value, ...]:
        """Emit the prologue, the loop and the final waits; returns the results of the loop."""
        b, schedule, emission, stages = self.b, self.schedule, self.emission, self.stages
        lo, hi, step, *inits = schedule.loop.operands
        buffer = lambda x: gpu_ops.multibuffer(b, tile=x.type, slots=self.slots, axis=schedule.axes[x])
        wanted = self.kept.wanted(b)
        own = self.share_kept(wanted)
        emission.multibuffers = {load: buffer(load) for load in schedule.loads}
        emission.outer |= emission.share(own)
        ahead: list[Any]
        ahead_i, ahead = lo, [inits[k] for k in self.params]
        ahead += emission.load_indices(lo, ahead)
        for s in range(stages - 1):  # the prologue
            tiles = self.load_thread_copies(ahead_i, ahead)
            ahead = self.issue_copies(self.number(s), ahead_i, ahead, emission.has_iteration(ahead_i))
            self.store_thread_copies(self.number(s), tiles)
            ahead_i = ops.add(b, ahead_i, step)
        tiles = self.load_thread_copies(ahead_i, ahead)
        carried = [*inits, ahead_i, self.number(0), self.number(stages - 1), *ahead, *tiles]
        names = ["i", *(a.name for a in self.body.args[1:]), *[""] * (len(carried) - len(inits))]
        with b.region([self.index, *(x.type for x in carried)], names) as region:
            ops.yield_(b, *self.iteration(region.args))
        # As it is: the new loop may hold dots that take registers, and is not to be pipelined again.
        outs = b.emit_as_is(ops.for_, (lo, hi, step, *carried), schedule.loop.attrs, (region.block,))
        outs = list(outs)[: len(inits)]
        for k in schedule.in_flight:
            outs[k] = gpu_ops.dot_wait(b, outs[k], pending=0)
        gpu_ops.async_wait(b, pending=0, fenced=bool(schedule.dots))
        gpu_ops.release(b, self.kept.end(b, wanted) or next(iter(emission.multibuffers.values())))
        return tuple(outs)

    def share_kept(self, wanted: set[Value]) -> dict[Key, int]:
        """Reuse operands that are in buffers already, and write those that later loops read; returns the others."""
        operands, there = self.schedule.outer_operands(), self.kept.here(self.b)
        new = {key: axis for key, axis in operands.items() if key not in there and key[0] in wanted}
        made = self.emission.share(new)
        self.kept.buffers += [(key, *found) for key, found in made.items()]
        self.emission.outer = {key: found for key, found in {**there, **made}.items() if key in operands}
        return {key: axis for key, axis in operands.items() if key not in self.emission.outer}

    def number(self, value: int) -> Value:
        return ops.constant(self.b, value=value, type=self.index)

    def load_thread_copies(self, i: Value, values: Sequence[Value]) -> list[Value]:
        """The tiles of a later iteration that threads copy."""
        if not self.thread_copies:
            return []
        emitter = self.emission.run_ahead(i, values, self.emission.has_iteration(i))
        return [emitter.loaded(load) for load in self.thread_copies]

    def store_thread_copies(self, slot: Value, tiles: Sequence[Value]) -> None:
        """Write these tiles into a slot."""
        for load, x in zip(self.thread_copies, tiles):
            address = self.emission.slot_address(load, slot)
            gpu_ops.buffer_store(self.b, address, x, axis=self.schedule.axes[load], loc=load.loc)

    def issue_copies(self, slot: Value, i: Value, values: Sequence[Value], more: Value) -> list[Value]:
        """Issue the copies of one iteration into a slot; returns the scalars of the iteration after it."""
        b, emitter = self.b, self.emission.run_ahead(i, values, more)
        following = lambda: [emitter.value(self.body.yields[k]) for k in self.params]
        indices = self.emission.load_indices(ops.add(b, i, self.step), following()) if self.indices else []
        for load in self.schedule.loads:
            if load in self.thread_copies:
                continue
            mask = emitter.mask(load)
            gpu_ops.async_load(
                b,
                self.emission.slot_address(load, slot),
                emitter.value(load.operands[0]),
                mask,
                tile=load.type,
                axis=self.schedule.axes[load],
                loc=load.loc,
            )
        if len(self.thread_copies) < len(self.schedule.loads):
            gpu_ops.async_commit(b)
        return [*following(), *indices]

    def issue_none(self, values: Sequence[Value]) -> list[Value]:
        """Keep the count of groups of copies, where all were issued in front."""
        gpu_ops.async_commit(self.b)
        return list(values)

    def iteration(self, args: list[Arg]) -> list[Value]:
        b, count = self.b, len(self.body.args) - 1
        i, own, (ahead_i, slot, fill, *ahead) = args[0], args[1 : 1 + count], args[1 + count :]
        ahead, tiles = ahead[: len(ahead) - len(self.thread_copies)], ahead[len(ahead) - len(self.thread_copies) :]
        gpu_ops.async_wait(b, pending=self.stages - 2, fenced=bool(self.schedule.dots))
        emitter = IterationEmitter(self.emission, dict(zip(self.body.args, (i, *own))), slot)
        more = self.emission.has_iteration(ahead_i)
        start = lambda: self.issue_copies(fill, ahead_i, ahead, more) if not self.in_front else self.issue_none(ahead)
        if self.schedule.in_flight:
            emitter.meeting = start
            ends = emitter.body()
            following = emitter.met()
        elif self.late:
            emitter.beside_dot = start
            ends = emitter.body()
            following = emitter.started_beside_dot()
        else:
            following, ends = start(), emitter.body()
        self.store_thread_copies(fill, tiles)
        ahead_i = ops.add(b, ahead_i, self.step)
        tiles = self.load_thread_copies(ahead_i, following)
        return [*ends, ahead_i, self.next(slot), self.next(fill), *following, *tiles]

    def next(self, slot: Value) -> Value:
        b = self.b
        more = ops.add(b, slot, self.number(1))
        return ops.select(b, ops.eq(b, more, self.number(self.stages)), self.number(0), more)
