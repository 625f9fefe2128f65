"""The emitter of a schedule: where its buffers are, and clones of the ops of an iteration.

An iteration is cloned on buffers that hold its loads, or for a later iteration that is prefetched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .... import ops
from ....ir import types as T
from ....ir.builder import Builder, several
from ....ir.core import Block, Op, Result, Value, op_of, walk
from ....ir.rewrite import captured, copy_region, effects
from ....passes.regions import counts_down
from .. import ops as gpu_ops
from ..ops import bytes_of
from .loop_info import untransposed, zeros_elsewhere
from .schedule import Schedule


def slot_address(b: Builder, buffers: Value, tile: T.Tile, slot: Value) -> Value:
    """The address of a slot (i32) of a multibuffer."""
    return ops.add(b, buffers, ops.mul(b, slot, ops.constant(b, value=bytes_of(tile), type=T.i32)))


def buffer_of(x: Value, axis: int) -> tuple[Value, int]:
    """(tile, contiguous axis) of the buffer in which a tile has this contiguous axis: that of a tile and that of its
    transpose are the same."""
    base, transposed = untransposed(x)
    return (base, 1 - axis) if transposed else (x, axis)


@dataclass
class Emission:
    """A schedule that is being emitted: the builder, the new bound of the loop, and the addresses of its buffers."""

    schedule: Schedule
    b: Builder
    hi: Value
    multibuffers: dict[Op, Value] = field(default_factory=dict)  # prefetched load -> address
    outer: dict[tuple[Value, str], tuple[Value, int]] = field(default_factory=dict)  # loop-invariant operands:
    # (value, "a" or "b") -> (address, contiguous axis)

    def has_iteration(self, i: Value) -> Value:
        """i1: the loop has an iteration with index `i`."""
        return (ops.gt if counts_down(self.schedule.loop) else ops.lt)(self.b, i, self.hi)

    def share(self, operands: dict[tuple[Value, str], int]) -> dict[tuple[Value, str], tuple[Value, int]]:
        """Write loop-invariant operands, with their contiguous axes, into shared memory; returns them as in `outer`."""
        tiles = dict.fromkeys(buffer_of(x, axis) for (x, _), axis in operands.items())
        made = {(x, axis): gpu_ops.share(self.b, x, axis=axis) for x, axis in tiles}
        return {(x, which): (made[buffer_of(x, axis)], axis) for (x, which), axis in operands.items()}

    def slot_address(self, load: Op, slot: Value) -> Value:
        """The address of a slot of the multibuffer of a load."""
        slot = slot if slot.type is T.i32 else ops.cast(self.b, slot, to=T.i32)
        return slot_address(self.b, self.multibuffers[load], load.type, slot)

    def run_ahead(self, i: Value, values: Sequence[Value], more: Value) -> IterationEmitter:
        """An emitter for a later iteration, given its index, its loop-carried scalars, and its indices if it has
        them."""
        body, (_, params, _, indices) = self.schedule.body, self.schedule.prefetched
        args = [body.args[0], *(body.args[1 + k] for k in params), *indices]
        return IterationEmitter(self, dict(zip(args, (i, *values))), more=more)

    def load_indices(self, i: Value, values: Sequence[Value]) -> list[Value]:
        """The index loads of a later iteration, predicated on its existence."""
        indices = self.schedule.prefetched.indices
        emitter = self.run_ahead(i, values, self.has_iteration(i)) if indices else None
        return [emitter.value(load) for load in indices] if emitter else []


class IterationEmitter:
    """Clones ops of the body on demand with some values replaced; dots on staged operands become `dot_shared`.

    `more`, an i1, says whether the iteration exists; if not, its addresses are undefined and its loads are masked off.
    """

    slot: Any  # None where nothing is in buffers

    def __init__(self, emission: Emission, known: dict[Any, Any], slot: Value | None = None,
                 more: Value | None = None):
        self.emission, self.schedule, self.b = emission, emission.schedule, emission.b
        self.known, self.slot, self.more = known, slot, more
        self.put = {}  # buffers that several dots read
        self.started, self.over = {}, 0  # issued dots in order, and how many of them are finished
        self.meeting: Callable[[], list] | None = None  # runs behind the barrier
        self.beside_dot: Callable[[], list] | None = None  # runs behind the first dot that reads registers
        self.outcome = []

    def body(self) -> list[Value]:
        """Emit the body without its staged loads and their index loads; returns the yielded values."""
        for dot in self.schedule.issued_first:
            self.begin(dot, None)
        for dot in self.in_order():
            self.begun(dot) if self.schedule.stays_in_flight(dot) else self.value(dot)
        early = (*self.schedule.loads, *self.schedule.prefetched.indices)
        for op in self.schedule.body.ops[:-1]:
            if effects(op) and op not in early:
                self.begin_beside(op)
                self.value(op)
        in_flight, yields = self.schedule.in_flight, self.schedule.body.yields
        return [self.begun(y) if k in in_flight else self.value(y) for k, y in enumerate(yields)]

    def begin_beside(self, op: Op) -> None:
        """Issue the dots that run while a store waits for another dot, and stores its result."""
        awaited, others = self.schedule.info.beside_store(op, self.schedule.staying)
        for dot in awaited:
            if dot not in self.started:
                self.prepare(dot)
                self.begin(dot, None)
        for dot in others:
            self.begun(dot)

    def in_order(self) -> tuple[Op, ...]:
        """Dots that must be issued in this order, independent of their users."""
        return ()

    def value(self, x: Value) -> Value:
        op = op_of(x)
        if op not in self.known:
            if op not in self.schedule.info.inside:
                return x
            outer, self.b.loc = self.b.loc, op.loc
            self.known[op] = self.made(op)
            self.b.loc = outer
        made = self.known[op]
        return Result(made, x.index) if type(x) is Result else made

    def made(self, op: Op) -> Value:
        schedule = self.schedule
        if op in schedule.dots:
            return self.finished(op)
        if op in schedule.axes:
            found = self.read_back(self.emission.slot_address(op, self.slot), op.type, schedule.axes[op])
            if zeros_elsewhere(op):
                return found
            _, mask, other = op.operands
            return ops.select(self.b, self.value(mask), found, self.value(other))
        if op in schedule.info.in_registers:
            operands = [self.in_registers(op, x, operand) for x, operand in zip(op.operands, "ab")]
            made = self.b.place(op.replace(operands=(*operands, self.value(op.operands[2]))))
            self.started_beside_dot()
            return made
        if op in schedule.by_threads:
            return self.by_threads(op)
        if op.kind is ops.load and self.more is not None:
            return self.loaded(op)
        regions = self.regions(op) if schedule.info.captures(op) else op.regions
        return self.b.place(op.replace(operands=tuple(self.value(y) for y in op.operands), regions=regions))

    def regions(self, op: Op) -> tuple[Block, ...]:
        """Copies of the regions of an op, on the values of this iteration. They wait for dots that stay in flight."""
        used = dict.fromkeys(op_of(x) for x in captured(op))
        late = {x: self.begun(x) for x in used if self.schedule.stays_in_flight(x)}
        names = {x: tuple(map(self.value, x.results if type(x) is Op else (x,))) for x in used if x not in late}
        if late and all(dot in self.started for dot in self.schedule.staying):
            self.met()

        def copied(region: Block) -> Block:
            read = {op_of(x) for inner in walk(region) for x in inner.operands}
            wait = lambda: {x: (gpu_ops.dot_wait(self.b, dot, pending=0),) for x, dot in late.items() if x in read}
            return copy_region(self.b, region, names, wait)

        return tuple(map(copied, op.regions))

    def loaded(self, load: Op) -> Value:
        """The tile of a load in an iteration that may not exist."""
        mask, (pointer, *rest) = self.mask(load), (self.value(y) for y in load.operands)
        return self.b.place(load.replace(operands=(pointer, mask, *rest[1:])))

    def by_threads(self, dot: Op) -> Value:
        """A dot computed by threads without MMA, with both operands in buffers."""
        (a, a_axis), (rhs, b_axis) = (self.in_buffer(dot, x, operand) for operand, x in zip("ab", dot.operands))
        lhs, right, acc = dot.operands[0].type, dot.operands[1].type, self.value(dot.operands[2])
        return gpu_ops.dot_buffers(self.b, a, rhs, acc, lhs=lhs, rhs=right, a_axis=a_axis, b_axis=b_axis)

    def in_buffer(self, dot: Op, x: Value, operand: str) -> tuple[Value, int]:
        """(address, contiguous axis) of an operand that is in a buffer."""
        where, load, axis = self.schedule.operands[dot, operand]
        if where == "outside":
            return self.emission.outer[x, operand]
        assert load is not None
        return self.emission.slot_address(load, self.slot), axis

    def mask(self, load: Op) -> Any:
        """The mask of a load in an iteration that may not exist."""
        b, shape = self.b, T.shape(load.type)
        there = ops.splat(b, self.more, shape=shape) if shape else self.more
        return ops.and_(b, there, self.value(load.operands[1])) if len(load.operands) > 1 else there

    def in_registers(self, dot: Op, x: Value, operand: str) -> Value:
        """An operand of a dot that reads registers; an operand shared before the loop is read back."""
        if self.schedule.operands[dot, operand].where == "registers":
            return self.value(x)
        address, axis = self.emission.outer[x, operand]
        return self.read_back(address, x.type, axis)

    def read_back(self, address: Value, tile: T.Tile, axis: int) -> Value:
        return gpu_ops.buffer_load(self.b, address, tile=tile, axis=axis)

    # --- dots: issued, then waited for ---
    def begin(self, dot: Op, pending: int | None) -> Value:
        """Issue a dot, and wait until at most `pending` dots, this one included, are unfinished; None waits for
        none."""
        outer, self.b.loc = self.b.loc, dot.loc
        self.started[dot] = made = self.dot(dot, pending)
        self.b.loc = outer
        return made

    def begun(self, dot: Any) -> Value:
        """The result of an issued dot, perhaps unfinished; those of the previous iteration are finished."""
        if dot in self.started:
            return self.started[dot]
        self.prepare(dot)
        return self.begin(dot, 1 + len(self.started) - self.over)

    def prepare(self, dot: Op) -> None:
        """Emit the definitions of the operands of a dot, which may wait for other dots."""
        left, right = (self.schedule.operands[dot, operand] for operand in "ab")
        if left.load is None and not left.in_place:
            self.left(dot)
        if right.load is None:
            self.value(dot.operands[1])
        self.total(dot.operands[2])

    def total(self, x: Value) -> Value:
        """The accumulator of a dot: a value, or the unfinished result of the dot it chains with."""
        return self.begun(x) if x in self.schedule.chained else self.value(x)

    def finished(self, dot: Op) -> Value:
        """The finished result of a dot. All dots issued before it are finished as well."""
        if dot not in self.started:
            self.prepare(dot)
            self.reduce_first(dot)
            made = self.begin(dot, 0)
        else:
            after = len(self.started) - 1 - list(self.started).index(dot)
            made = gpu_ops.dot_wait(self.b, self.started[dot], pending=after)
        self.over = max(self.over, 1 + list(self.started).index(dot))
        self.met()
        return made

    def reduce_first(self, dot: Op) -> None:
        """Emit the reductions that are ready before a dot that is waited for at once, those behind it as well, so that
        their inputs are not live while it runs."""
        for op in self.schedule.body.ops:
            if op.kind is ops.reduce and all(op_of(x) in self.known for x in op.operands):
                self.value(op)

    def met(self) -> list[Value]:
        """Once: emit a barrier, now that the dots of the previous iteration are finished, and run `meeting`."""
        if self.meeting is not None:
            ops.barrier(self.b)
            self.outcome, self.meeting = self.meeting(), None
        return self.outcome

    def started_beside_dot(self) -> list[Value]:
        """Once: run `beside_dot`."""
        if self.beside_dot is not None:
            self.outcome, self.beside_dot = self.beside_dot(), None
        return self.outcome

    def dot(self, op: Op, pending: int | None) -> Value:
        (a, a_axis), (rhs, b_axis) = (self.operand(op, x, operand) for operand, x in zip("ab", op.operands))
        return gpu_ops.dot_shared(
            self.b,
            a,
            rhs,
            self.total(op.operands[2]),
            *self.gate(op),
            lhs=op.operands[0].type,
            rhs=op.operands[1].type,
            a_axis=a_axis,
            b_axis=b_axis,
            precision=op.attrs["precision"],
            pending=pending,
        )

    def gate(self, dot: Op) -> tuple[Value, ...]:
        """(barrier, parity) of the phase a dot waits for when its operands are ready."""
        return ()

    def operand(self, dot: Op, x: Value, operand: str) -> tuple[Value, int]:
        """(address or tile, contiguous axis) of operand "a" or "b" of a dot."""
        where, _, axis = self.schedule.operands[dot, operand]
        if where in ("slot", "outside"):
            return self.in_buffer(dot, x, operand)
        if where == "registers":
            return self.left(dot), axis
        buffer = buffer_of(x, axis)
        if buffer not in self.put:
            self.share_written(*buffer)
        return self.put[buffer], axis

    def left(self, dot: Op) -> Value:
        """The lhs in registers. For a dot that stays in flight it is rounded after the previous dot finished."""
        found = self.schedule.unrounded.get(dot)
        if found is None:
            return self.value(dot.operands[0])
        x, order = found
        return self.value(x) if order is None else ops.trans(self.b, self.value(x), order=order)

    def share_written(self, x: Value, axis: int) -> None:
        """Write an operand into a buffer with rows along `axis`, together with every other of that layout that depends
        on no dot: each `share` costs a barrier. If nothing is prefetched, those of the other layout follow at once:
        they would wait for their dots in registers."""
        early = [buffer_of(*key) for key in self.schedule.early_operands() if self.may_come(key[0])]
        wanted = [key for key in dict.fromkeys([(x, axis), *early]) if key not in self.put]
        for along in (axis,) if self.schedule.loads else (axis, 1 - axis):
            keys = [key for key in wanted if key[1] == along]
            made = gpu_ops.share(self.b, *(self.value(y) for y, _ in keys), axis=along) if keys else ()
            self.put |= zip(keys, several(made))

    def may_come(self, x: Value) -> bool:
        """True if an operand may be computed now: what is prefetched is there, and no load moves up."""
        return bool(self.schedule.loads) or all(load in self.known for load in self.schedule.info.loads_behind(x))
