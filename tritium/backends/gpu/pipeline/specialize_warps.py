"""Warp specialization: a producer warp loads tiles by TMA, consumer warps multiply them.

    producer warp                            consumer warps
    for each program:                        for each program:
      for i:                                   for i:
        wait until slot s is empty               wait until slot s is full
        issue the TMA loads of its boxes         acc = dot_shared buffer_a[s], buffer_b[s], acc
                                                 arrive: slot s - 1 is empty
                                               store

The producer warp computes scalars only, so it runs ahead of the consumers, even into the next program: a kernel that
only loads, multiplies and stores becomes persistent. It is launched once per resident block and loops over its
programs. Where the user wrote such a loop over tiles, both roles run it; the launcher checks that its stores do not
alias the tiles loaded ahead (`stores` of its preconditions).

A cluster has a producer warp in each block. Boxes that all blocks need are multicast, a part by each block to all: a
slot is empty when the consumers of all blocks have released it.

`affine` finds the boxes; the host encodes their tensor maps at every launch (`tensor_maps` of the module). A box that
TMA cannot read as the language says, such as one that starts before an unmasked tensor, is loaded element by element.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .... import ops
from ....analysis.polynomial import write
from ....ir import types as T
from ....ir.builder import Builder
from ....ir.core import Arg, Block, Op, Result, walk
from ....ir.preconditions import with_preconditions
from ....ir.rewrite import substitute, sweep
from ....named_tuples import NamedTuple
from ....passes.assumed import Assumed
from ....passes.regions import trip_count
from .. import ops as gpu_ops
from ..analysis.division import small_dividends
from ..analysis.preconditions import Assumptions
from ..ops import MIN_TRANSFER, bytes_of
from ..tma import by_element, reached, span, tensor_map
from .capabilities import capabilities
from .consumer import STATE, consumer_loop, i32
from .iteration import Emission, slot_address
from .loop_info import LoopInfo, stages_of
from .producer import AHEAD, Opened, Refused, buffers_of, computed_from, find_producer_loops, has_dots, slots_of
from .reordering import Reordering
from .schedule import prefetched_loads, schedule_dots
from .search import CLEARLY

if TYPE_CHECKING:
    from ....ir.bounds import Pair
    from ....ir.core import Module, Value
    from ....ir.rewrite import Rewriter
    from ..target import Target
    from ..tma import Tma
    from .capabilities import Capabilities
    from .producer import Found, Load, ProducerLoop, RowLoad


def specialize_warps(module: Module, target: Target, number: int = 0) -> Module:
    """Give the kernel a producer warp that loads by TMA, if all its loops around dots can be specialized and gain.

    The launcher encodes the tensor maps, so there must be one that does. `number` is that of the plan to emit: the
    first is the best.
    """
    plans, _ = module.found_by(_planner(target))
    if number >= len(plans):
        return module
    assumed = Assumed(module)
    reordering = Reordering.of(module, assumed)
    if reordering is not None and not reordering.take(plans[number].pairs):
        return module
    made = _Build(plans[number], target, assumed.nonnegative).build()
    if small_dividends(module, assumed.nonnegative):
        made = made.replace(attrs={**made.attrs, "small_quotients": True})
    return assumed.stated_by(made)


class Plan(NamedTuple):
    """How a kernel can be specialized. roles: one of the ways that `Tma.warps` gives."""

    opened: Opened
    can: Capabilities
    tma: Tma
    roles: tuple[int, tuple[int, int, int]]
    found: Found

    @property
    def cycles(self) -> float:
        """Cycles of an iteration of each loop, by the model."""
        return sum(loop.schedule.cycles for loop in self.found.loops)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The accesses of the loops that the launcher must check not to alias."""
        return tuple(pair for loop in self.found.loops for pair in loop.schedule.pairs)

    @property
    def short(self) -> bool:
        """True if registers are short: some schedule spills."""
        return any(loop.schedule.choice.short for loop in self.found.loops)


class Plans(NamedTuple):
    """The ways to specialize a kernel, the best first, and why there is none."""

    plans: tuple[Plan, ...] = ()
    refused: Refused | None = None


def refusal(module: Module, target: Target) -> Refused | None:
    """Why a kernel gets no producer warp. None if it may get one, has no loop around dots, or its target has no TMA."""
    return module.found_by(_planner(target)).refused


@functools.cache
def _planner(target: Target) -> Callable[[Module], Plans]:
    """The analysis `_plans` for a target."""
    return functools.partial(_plans, target=target)


def _plans(module: Module, target: Target) -> Plans:
    """The ways to specialize a kernel; none if its threads should copy for themselves."""
    tma, loops = target.tma, [op for op in module.body.ops if _multiplies(op)]
    if tma is None or not module.attrs.get("launch_checks") or not loops:
        return Plans()
    ways = _ways(target, tma, module)
    if not ways:
        return Plans((), Refused(loops[0], f"it has {module.attrs['num_warps']} warps", "ask for num_warps=4 or 8"))
    if module.attrs.get("maxnreg"):  # the roles share out all registers
        return Plans((), Refused(loops[0], "`maxnreg` shares out the registers", "leave `maxnreg` out"))
    opened, plans, refused = Opened(module, target.cost), (), None
    able = capabilities(target, opened.module, [])
    for roles in ways:
        # TMA has no masks.
        can = able._replace(vector=lambda load: MIN_TRANSFER, threads=able.threads.consumers(roles))
        try:
            made = tuple(Plan(opened, can, tma, roles, x) for x in find_producer_loops(opened, can, tma))
        except Refused as no:
            made, refused = (), no.with_traceback(None)
        if made and (not plans or made[0].cycles < plans[0].cycles):
            plans = made
        if not made or not made[0].short:  # more registers would change nothing
            break
    if not plans:
        return Plans((), refused)
    # Only a producer warp loads what the blocks of a cluster share once for all.
    if opened.blocks == 1 and _prefers_copies(module, target, plans[0].found.loops):
        return Plans((), Refused(loops[0], "copies by all threads are faster, by the model of the multiprocessor"))
    return Plans(plans)


def _multiplies(op: Op) -> bool:
    """True for a loop around dots."""
    return op.kind is ops.for_ and has_dots(op)


def _ways(target: Target, tma: Tma, module: Module) -> tuple[tuple[int, tuple[int, int, int]], ...]:
    """The ways to give a kernel a producer warp, as `Tma.warps` gives them.

    A kernel of one small dot does better with a single extra warp, and threads that keep the registers they begin with,
    if a multiprocessor then holds more blocks: they hide each other's latency, and more programs run at once."""
    dots = [op for op in walk(module.body) if op.kind is ops.dot]
    number = module.attrs["num_warps"]
    ways = tma.warps(number, max(dot.type.shape[-1] for dot in dots))
    if len(dots) > 1 or not ways or module.attrs.get("num_ctas", 1) > 1:
        return ways
    extra, (launched, *_) = ways[0]
    threads = target.warp_size * (number + 1)
    each = dots[0].type.numel // (target.warp_size * number) + target.cost.registers_beside_sums
    persistent, single = _blocks(target, module, dots[0])
    more = min(max(persistent, single), target.register_file // (threads * each))
    if more <= min(persistent, target.register_file // (target.warp_size * (number + extra) * launched)):
        return ways
    return ((1, (0, 0, target.registers_of(more * threads // target.warp_size))),)


def _blocks(target: Target, module: Module, dot: Op) -> tuple[int, int]:
    """The occupancy that shared memory allows, in blocks on a multiprocessor: of persistent ones, whose results leave
    while the next tiles arrive, in two pieces if need be; and of those that run a single program, so that results may
    lie where tiles have. These start anew with each program: 0 unless loops are known to be long."""
    loops = [op for op in walk(module.body) if _multiplies(op)]
    stages = max(stages_of(op, module) for op in loops)
    tiles, stored = stages * sum(bytes_of(x.type) for x in dot.operands[:2]), _stored_bytes(module)
    room = target.shared_bytes + target.reserved_bytes
    fit = lambda taken: room // (taken + _BESIDE_BUFFERS + target.reserved_bytes)
    long = len(loops) == 1 and (trip_count(loops[0]) or 0) >= target.cost.single_trips
    return fit(tiles + stored // 2), fit(max(tiles, stored)) if long else 0


def _stored_bytes(module: Module) -> int:
    """What the largest result takes on its way to memory."""
    stored = [op.operands[1].type for op in walk(module.body) if op.kind is ops.store]
    return max((bytes_of(x) for x in stored if type(x) is T.Tile), default=0)


_BESIDE_BUFFERS = 1024  # bytes of a block: mbarriers, alignment


def _prefers_copies(module: Module, target: Target, loops: list[ProducerLoop]) -> bool:
    """True if the model gives clearly fewer cycles to the loops if their threads copy for themselves."""
    cycles, choices = 0.0, [loop.schedule.choice.estimate for loop in loops if loop.schedule.choice]
    enough = sum(x.cycles for x in choices) / (1 + CLEARLY)
    if enough <= sum(x.busy for x in choices):  # no schedule has fewer
        return False
    can = capabilities(target, module, [])
    has_dot = lambda op: any(x.kind is ops.dot for x in op.regions[0].ops)
    found = [op for op in walk(module.body) if op.kind is ops.for_ and has_dot(op)]
    if len(found) != len(loops):  # other dots are in branches
        return False
    for op, loop in zip(found, loops):
        info = LoopInfo.of(op, can)
        loads = prefetched_loads(info)
        if loads is None:
            return False
        cycles += schedule_dots(info, loads, "copies", loop.stages).cycles
    return cycles < enough


def _synchronizes(op: Op) -> bool:
    """True if an op may wait for other programs, signal them, or show the host which program runs it."""
    if op.kind is ops.load:
        return op.attrs["volatile"]
    return op.kind is ops.while_ or (op.kind.effects_of(op) == "write" and op.kind not in (ops.store, ops.assume))


class _Build:
    """Emits the specialized kernel: buffers and mbarriers, then one region per role."""

    def __init__(self, plan: Plan, target: Target, preconditions: list | None):
        self.opened, self.can, self.tma, self.roles, found = plan
        opened = self.opened
        self.assumptions = Assumptions(opened.module, preconditions, opened.grid)
        self.loops, self.outer, self.writes, self.ahead = found
        module = opened.module
        self.b, self.buffers = Builder(), {}  # load -> address of its multibuffer
        self.loads = [*(load for loop in self.loops for load in loop.loads.values()), *self.ahead]
        self.state = (*STATE, *(_TILES if self.ahead else ()))
        self.slots = self.find_slots(target)
        self.blocks = max(load.blocks for load in self.loads)
        self.ping_pong = self.loops[0].schedule.alternates
        self.persistent = not any(map(_synchronizes, walk(module.body))) and not self.gains_occupancy(target)
        self.one_axis = self.persistent and self.asks_for_one_axis() and self.assumptions.has_one_axis()
        self.lengths = self.find_lengths() if self.persistent else None
        self.nonempty = [loop for loop in self.loops if self.assumptions.has_iterations(loop.op)]
        self.grid: tuple[Arg, ...] = tuple(Arg(T.i32, f"grid.{x}") for x in "xyz") if self.persistent else ()
        self.maps = tuple(Arg(T.Ptr(T.u8), f"map.{k}", {"tensor_map": True}) for k in range(len(self.loads)))

    def is_over(self) -> bool:
        """True if nothing arrives in buffers, nor at mbarriers, behind the last loop: no other program's tiles, and no
        arrivals from other blocks of a cluster."""
        return not self.persistent and self.outer is None and self.opened.blocks == 1

    def gains_occupancy(self, target: Target) -> bool:
        """True if more blocks find room where each runs a single program, so is not persistent."""
        (warps, (*_, registers)), module = self.roles, self.opened.module
        if warps > 1 or self.outer is not None:
            return False
        threads = target.warp_size * (module.attrs["num_warps"] + warps)
        persistent, single = _blocks(target, module, next(op for op in walk(module.body) if op.kind is ops.dot))
        return persistent < min(single, target.programs_of(threads, registers))

    def find_slots(self, target: Target) -> int:
        """The stages of the loops. Small tiles get more than were asked for: a few would wait for L2 each time."""
        asked = slots_of(self.loops, self.can, self.tma)
        if self.ahead or self.opened.blocks > 1:
            return asked
        module, (extra, (launched, _, most)) = self.opened.module, self.roles
        threads = target.warp_size * (module.attrs["num_warps"] + extra)
        free = target.shared_of(target.programs_of(threads, launched or most)) - _stored_bytes(module) - _BESIDE_BUFFERS
        each = sum(bytes_of(tile) for tile, *_ in buffers_of(self.loops, self.can))
        return max(asked, min(target.cost.loaded_ahead, free, self.tma.room) // each)

    def asks_for_one_axis(self) -> bool:
        """True if the kernel reads its program index on the first axis only."""
        other = {*self.opened.places[1:3]}
        return not any(x in other for op in walk(self.opened.module.body) for x in op.operands)

    def find_lengths(self) -> tuple[int, bool] | None:
        """(axis whose program index decides how long a loop is, whether the last programs are the longest); None if it
        is none or several."""
        axes = self.opened.places[:3]
        deciding = lambda k: {x for loop in self.loops for x in computed_from(loop.op.operands[k]) if x in axes}
        starts, ends = deciding(0), deciding(1)
        if len(starts | ends) != 1:
            return None
        (axis,) = starts | ends
        return axes.index(axis), axis in ends

    def build(self) -> Module:
        b, module = self.b, self.opened.original
        b.arguments = [*module.args, *self.grid, *self.maps]
        for (tile, axis, *_), keys in buffers_of(self.loops, self.can).items():
            self.buffers |= dict.fromkeys(keys, gpu_ops.multibuffer(b, tile=tile, slots=self.slots, axis=axis))
        self.rank = [gpu_ops.block_rank(b)] if self.opened.blocks > 1 else []
        count = self.slots * len(self.loops[0].groups)
        self.full = gpu_ops.mbarrier_init(b, count=count, arrivals=1)
        self.empty = gpu_ops.mbarrier_init(b, count=count, arrivals=self.blocks * module.attrs["num_warps"])
        if self.ahead:
            kinds = [(x.op.type, self.can.axis(x.op)) for x in self.ahead]
            self.tiles = [gpu_ops.multibuffer(b, tile=tile, slots=AHEAD, axis=axis) for tile, axis in kinds]
            self.tiles_full = gpu_ops.mbarrier_init(b, count=AHEAD, arrivals=1)
            self.tiles_empty = gpu_ops.mbarrier_init(b, count=AHEAD, arrivals=module.attrs["num_warps"])
        regions = self.role(self.produce), self.role(self.consume, self.ping_pong)
        warps, registers = self.roles
        b.emit(gpu_ops.warp_specialize, (), {"registers": registers, "blocks": self.blocks}, regions)
        known = self.opened.known
        tensor_maps = tuple(
            tensor_map(self.tma, known, x.op.type, self.can.axis(x.op), x.access, x.blocks) for x in self.loads
        )
        spans = tuple(span(known, x.op.operands[1].type, x.access) for x in self.writes)
        attrs = {"producer_warps": warps, **({"registers": registers[0]} if registers[0] else {})}
        attrs |= {"tensor_maps": tensor_maps, "persistent": self.persistent}
        made = module.replace(body=b.finish(), attrs={**module.attrs, **attrs})
        return with_preconditions(made, stores=(len(tensor_maps), spans)) if spans else made

    # --- programs -----------------------------------------------------------------------------------------------------
    def role(self, body: Callable, ping_pong: bool = False) -> Block:
        """A region that runs its part of every program: body(places, *state) -> state."""
        b = self.b
        with b.region() as region:
            zeros = [self.i32(0)] * len(self.state)
            if ping_pong:
                gpu_ops.ping_pong_open(b)
            if not self.persistent:
                places = [kind(b, axis=k) for kind in (ops.program_id, ops.num_programs) for k in range(3)]
                body([*places, *self.rank], *zeros)
            else:
                self.programs(body, zeros)
            if ping_pong:
                gpu_ops.ping_pong_close(b)
            ops.yield_(b)
        return region.block

    def programs(self, body: Callable, state: Sequence[Value]) -> None:
        """The persistent loop: a block runs one of each `blocks` consecutive programs, from the other end each time. So
        blocks that begin with a long program go on with a short one."""
        b, (x, y, z) = self.b, self.grid
        count = ops.mul(b, ops.mul(b, x, y), z)
        block, blocks, one = ops.program_id(b, axis=0), ops.num_programs(b, axis=0), self.i32(1)
        opposite = ops.sub(b, ops.sub(b, blocks, one), block)
        whole, rest = ops.div(b, count, blocks), ops.rem(b, count, blocks)
        last = ops.select(b, ops.eq(b, ops.and_(b, whole, one), one), opposite, block)  # its place in the rest
        end = ops.add(b, ops.sub(b, count, rest), ops.cast(b, ops.lt(b, last, rest), to=T.i32))
        with b.region([T.i32] * (2 + len(state)), ["first", "place", *self.state]) as loop:
            first, place, *state_now = loop.args
            following = ops.sub(b, ops.sub(b, blocks, one), place)
            index = self.places(ops.add(b, first, place))
            ops.yield_(b, following, *body([*index, *self.grid, *self.rank], *state_now))
        b.place(_loop((self.i32(0), end, blocks, block, *state), loop.block, nonempty=True))

    def places(self, program: Value) -> list[Value]:
        """The index on each axis of the program that is run as number `program`, the longest ones first.

        It is computed unsigned, which makes quotients cheaper. The remainders and the minimum also give range analysis
        its bounds.
        """
        b = self.b
        number, *sizes = (ops.cast(b, value, to=T.u32) for value in (program, *self.grid))
        u32 = lambda value: ops.constant(b, value=value, type=T.u32)
        axis, last_first = self.lengths or (0, False)
        if self.one_axis:
            last = ops.sub(b, sizes[0], u32(1))
            number = ops.min_(b, number, last)
            index = [ops.sub(b, last, number) if last_first else number, u32(0), u32(0)]
        elif self.lengths is None:
            index = self.split(number, sizes)
        else:
            others = [k for k in range(3) if k != axis]
            length, other = self.dealt(number, sizes[axis], ops.mul(b, *(sizes[k] for k in others)))
            if last_first:
                length = ops.sub(b, ops.sub(b, sizes[axis], u32(1)), length)
            index = self.split(other, [sizes[k] for k in others])
            index.insert(axis, ops.rem(b, length, sizes[axis]))
        return [ops.cast(b, value, to=T.i32) for value in index]

    def split(self, number: Value, sizes: Sequence[Value]) -> list[Value]:
        """The index on each axis of a number that counts through them, the first axis fastest."""
        b, out = self.b, []
        for size in sizes:
            out.append(ops.rem(b, number, size))
            number = ops.div(b, number, size)
        return out

    def dealt(self, number: Value, lengths: Value, others: Value) -> tuple[Value, Value]:
        """(index on the axis that lengths depend on, number on the other axes) of the program that is run as `number`:
        those of one length side by side if they are few, else those that share tiles."""
        b = self.b
        few = ops.le(b, others, ops.constant(b, value=self.opened.cost.dealt_together, type=T.u32))
        fast = ops.select(b, few, others, lengths)
        slow, rest = ops.div(b, number, fast), ops.rem(b, number, fast)
        return ops.select(b, few, slow, rest), ops.select(b, few, rest, slow)

    def i32(self, value: int) -> Value:
        return i32(self.b, value)

    def at(self, barriers: Value, group: int, slot: Value, b: Builder | None = None) -> Value:
        """The address of the mbarrier of a group's slot."""
        b = b or self.b
        first = ops.add(b, barriers, i32(b, 8 * self.slots * group)) if group else barriers
        return ops.add(b, first, ops.mul(b, slot, i32(b, 8)))

    def after(self, slot: Value, parity: Value, b: Builder | None = None,
              slots: int | None = None) -> tuple[Value, Value]:
        """The next slot, and the parity of its phase."""
        b = b or self.b
        more = ops.add(b, slot, i32(b, 1))
        over = ops.eq(b, more, i32(b, slots or self.slots))
        other = ops.xor(b, parity, i32(b, 1))
        return ops.select(b, over, i32(b, 0), more), ops.select(b, over, other, parity)

    # --- the producer warp --------------------------------------------------------------------------------------------
    def produce(self, places: list[Value], *state: Arg) -> tuple[Value, ...]:
        scalar = _Slice(self.b, dict(zip(self.opened.places, places)))
        if self.outer is None:
            return self.produce_loops(scalar, *state)
        b, bounds = self.b, [scalar(x) for x in self.outer.operands[:3]]
        with b.region([bounds[0].type, *[T.i32] * len(state)], ["i", *self.state]) as region:
            index, *own = region.args
            scalar.known[self.outer.regions[0].args[0]] = index
            ops.yield_(b, *self.produce_loops(scalar, *own))
        loop = b.place(_loop((*bounds, *state), region.block))
        return tuple(Result(loop, k) for k in range(len(state)))

    def produce_loops(self, scalar: _Slice, slot: Value, parity: Value, *tile: Value) -> tuple[Value, ...]:
        tile = self.produce_tiles(scalar, *tile) if tile else ()
        for loop in self.loops:
            lo, hi, step = (scalar(x) for x in loop.op.operands[:3])
            slot, parity = self.produce_loop(loop, (lo, hi, step), slot, parity, scalar)
        return slot, parity, *tile

    def produce_tiles(self, scalar: _Slice, slot: Value, parity: Value) -> tuple[Value, ...]:
        """Load the loop-invariant tiles."""
        b = self.b
        gpu_ops.mbarrier_wait(b, self.at(self.tiles_empty, 0, slot), ops.xor(b, parity, self.i32(1)))
        filled = self.at(self.tiles_full, 0, slot)
        for load, buffer in zip(self.ahead, self.tiles):
            self.load(load, slot_address(b, buffer, load.op.type, slot), filled, None, scalar)
        gpu_ops.mbarrier_arrive(b, filled)
        return self.after(slot, parity, slots=AHEAD)

    def produce_loop(self, loop: ProducerLoop, bounds: tuple[Value, Value, Value], slot: Value, parity: Value,
                     scalar: _Slice) -> tuple[Result, ...]:
        b, index = self.b, bounds[0].type
        none = ops.constant(b, value=0, type=T.i64)
        with b.region([index, T.i64, T.i32, T.i32], ["i", "iteration", "slot", "parity"]) as region:
            (_, iteration, mine, phase), scalar = region.args, scalar.inside()
            for group, (*_, keys) in enumerate(loop.groups):
                gpu_ops.mbarrier_wait(b, self.at(self.empty, group, mine), ops.xor(b, phase, self.i32(1)))
                filled = self.at(self.full, group, mine)
                boxes = [key for key in keys if key in loop.loads]
                for key in sorted(boxes, key=lambda key: -loop.loads[key].blocks):  # multicast first
                    load = loop.loads[key]
                    buffer = slot_address(b, self.buffers[key], load.op.type, mine)
                    self.load(load, buffer, filled, iteration, scalar, loop.op)
                for key in keys:
                    if key in loop.rows:
                        self.load_row(loop.rows[key], mine, filled, iteration, scalar)
                gpu_ops.mbarrier_arrive(b, filled)
            more = ops.add(b, iteration, ops.constant(b, value=1, type=T.i64))
            ops.yield_(b, more, *self.after(mine, phase))
        made = b.place(_loop((*bounds, none, slot, parity), region.block, loop in self.nonempty))
        return Result(made, 1), Result(made, 2)

    def load(self, load: Load, buffer: Value, barrier: Value, iteration: Value | None, scalar: _Slice,
             loop: Op | None = None) -> None:
        """Load a box by TMA if it is in range, else element by element; `iteration` is that of `loop`."""
        b, tile, axis = self.b, load.op.type, self.can.axis(load.op)
        b.loc = load.op.loc
        starts = [write(b, dim.start, iteration, scalar) for dim in load.access.dims]
        fits = None
        if not self.assumptions.in_range(load.access, loop=loop):
            fits = reached(b, load.access, starts, sure=load.sure)
        if fits is None:
            self.load_box(load, buffer, barrier, starts)
            return
        with b.region() as by_tma:
            self.load_box(load, buffer, barrier, starts)
            ops.yield_(b)
        with b.region() as by_hand:
            scalar = scalar.inside()
            origin, numbers, wraps = by_element(b, load.access, tile.shape, lambda x: write(b, x, iteration, scalar))
            gpu_ops.element_load(b, buffer, origin, *numbers, tile=tile, axis=axis, wraps=wraps)
            ops.yield_(b)
        b.emit(ops.if_, (fits,), {}, (by_tma.block, by_hand.block))

    def load_row(self, row: RowLoad, slot: Value, barrier: Value, iteration: Value, scalar: _Slice) -> None:
        """Copy a row into its buffer, if it lies in one piece and is whole; otherwise the lanes load its elements."""
        b = self.b
        b.loc = row.op.loc
        tile, number = row.op.type, lambda value: ops.constant(b, value=value, type=T.i64)
        buffer = slot_address(b, self.buffers[row.op], tile, slot)
        start, step, low, high = row.operands(b, lambda x: write(b, x, iteration, scalar))
        copy = lambda: gpu_ops.row_load(b, buffer, barrier, start, tile=tile)
        bounds = number(0), number(0), number(1), step, low, high
        by_hand = lambda: gpu_ops.element_load(b, buffer, start, *bounds, tile=T.Tile((1, *tile.shape), tile.element),
                                               axis=1, wraps=(False, False))  # fmt: skip
        if not row.in_one_piece or not row.limits:
            copy() if row.in_one_piece else by_hand()
            return
        whole = ops.and_(b, ops.le(b, low, number(0)), ops.ge(b, high, number(tile.numel)))
        branches = []
        for emit in (copy, by_hand):
            with b.region() as branch:
                emit()
                ops.yield_(b)
            branches.append(branch.block)
        b.emit(ops.if_, (whole,), {}, tuple(branches))

    def load_box(self, load: Load, buffer: Value, barrier: Value, starts: Sequence[Value]) -> None:
        b, tile, axis = self.b, load.op.type, self.can.axis(load.op)
        where = [ops.cast(b, x, to=T.i32) for x in starts]
        gpu_ops.tma_load(b, buffer, barrier, self.maps[load.number], *where, tile=tile, axis=axis, blocks=load.blocks)

    # --- the consumer warps ------------------------------------------------------------------------------------------
    def consume(self, places: list[Value], *begin: Arg) -> tuple[Value, ...]:
        """The whole kernel, with its loops on filled buffers."""
        opened, state = self.opened, _parameters(self.state)
        consumer = _Consumer(self, state)
        body = sweep(opened.module, consumer.rule).body
        ends = Op(ops.yield_, consumer.state, {}, ())
        values = [*opened.original.args, *places, *begin]
        return substitute(self.b, Block([*body.args, *state], [*body.ops, ends]), values)


_TILES = ("tile", "tile_parity")


def _parameters(names: Sequence[str]) -> tuple[Arg, ...]:
    return tuple(Arg(T.i32, name) for name in names)


def _loop(operands: tuple[Value, ...], block: Block, nonempty: bool = False) -> Op:
    attrs = {**ops.for_.defaults, "nonempty": nonempty}
    return Op(ops.for_, operands, attrs, tuple(x.type for x in operands[3:]), (block,))


class _Slice:
    """Clones scalars of the kernel with some arguments replaced."""

    def __init__(self, b: Builder, known: dict[Value, Value]):
        self.b, self.known = b, known

    def inside(self) -> _Slice:
        """The same for a region: clones made there are not visible behind it."""
        return _Slice(self.b, dict(self.known))

    def __call__(self, x: Value) -> Value:
        if x not in self.known:
            if type(x) is Arg:
                return x
            assert type(x) is Op
            self.known[x] = self.b.place(x.replace(operands=tuple(self(y) for y in x.operands)))
        return self.known[x]


class _Consumer:
    """Rewrites the kernel for the consumer warps; `state` are the slot and the parity of the next iteration, and those
    of the tiles loaded ahead."""

    def __init__(self, build: _Build, state: tuple[Arg, ...]):
        self.build, self.state, self.before = build, state, state
        self.tiles = {}  # those loaded ahead, as `Emission.outer` has them
        self.loops = {loop.op.regions[0]: loop for loop in build.loops}
        if build.outer is not None:  # its regions come before it: they begin with parameters it has yet to get
            self.state = self.carried = _parameters(build.state)

    def rule(self, b: Rewriter, op: Op) -> tuple[Value, ...] | None:
        if b.original is self.build.outer:
            return self.around(b, op)
        loop = self.loops.get(op.regions[0]) if op.kind is ops.for_ else None
        return self.loop(b, op, loop) if loop else None

    def around(self, b: Builder, op: Op) -> tuple[Result, ...]:
        """The loop around the producer loops carries the state."""
        (body,) = op.regions
        ends = Op(ops.yield_, (*body.yields, *self.state), {}, ())
        region = Block([*body.args, *self.carried], [*body.ops[:-1], ends])
        attrs, operands = op.attrs, (*op.operands, *self.before)
        loop = b.place(Op(ops.for_, operands, attrs, tuple(x.type for x in operands[3:]), (region,), op.loc))
        outs = tuple(Result(loop, k) for k in range(len(operands) - 3))
        self.state = outs[len(body.yields) :]
        return outs[: len(body.yields)]

    def loop(self, b: Builder, op: Op, loop: ProducerLoop) -> tuple[Value, ...]:
        slot, parity, *tile = self.state
        if tile and loop is self.build.loops[0]:
            self.wait_for_tiles(b, *tile)
        emission = Emission(loop.schedule, b, op.operands[1], self.build.buffers, {**self.tiles})
        outer = loop.schedule.outer_operands()
        shared = emission.share({key: axis for key, axis in outer.items() if key not in self.tiles})
        emission.outer |= shared
        *outs, slot, parity = consumer_loop(self.build, emission, op, loop, slot, parity)
        self.state = (slot, parity, *tile)
        for address, _ in list(shared.values())[:1]:
            gpu_ops.release(b, address)
        if tile and loop is self.build.loops[-1]:
            self.release_tiles(b, *tile)
        if loop is self.build.loops[-1] and self.build.is_over():
            gpu_ops.release(b, next(iter(self.build.buffers.values())))
        return tuple(outs)

    def wait_for_tiles(self, b: Builder, slot: Value, parity: Value) -> None:
        """Wait for the tiles loaded ahead; dots read them in their buffers."""
        build = self.build
        gpu_ops.mbarrier_wait(b, build.at(build.tiles_full, 0, slot, b), parity)
        for load, buffer in zip(build.ahead, build.tiles):
            where = slot_address(b, buffer, load.op.type, slot), build.can.axis(load.op)
            self.tiles |= {(load.op, operand): where for operand in "ab"}

    def release_tiles(self, b: Builder, slot: Value, parity: Value) -> None:
        build = self.build
        gpu_ops.mbarrier_arrive(b, build.at(build.tiles_empty, 0, slot, b))
        self.state = (*self.state[:2], *build.after(slot, parity, b, AHEAD))
