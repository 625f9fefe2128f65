"""One warp copies, the others compute: loops around dots whose tiles the copy engine can bring.

    one warp                                 the others
    for each program:                        for each program:
      for i:                                   for i:
        wait until slot s is empty               wait until slot s is full
        have its boxes copied                    acc = dot_shared ring_a[s], ring_b[s], acc
                                                 slot s - 1 is empty
                                               store

The copying warp needs nothing but scalars, so it runs ahead of the others, into the next program too: a kernel that
only loads, multiplies and stores is started once for each place on the GPU and takes its programs in turn. Where users
write such a loop over tiles themselves, both roles go round it; that what it stores lies apart from what the copying
warp has loaded ahead is the launcher's to see (`disjoint` of the module).

A program of several blocks has such warps in each of them. Boxes that all blocks want they bring together, each a part
to all: a slot is empty when the warps of all blocks are through with it, and full as ever.

Which boxes there are follows from `affine`; the host describes their tensors to the engine at every launch (`maps` of
the module). Boxes that the engine cannot read as the language says, such as those that start before an unmasked tensor,
are brought element by element.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.builder import Builder
from ....ir.core import Arg, Block, Op, Result, walk
from ....ir.rewrite import substitute, sweep
from .. import ops as gpu_ops
from ..analysis.polynomial import write
from ..analysis.preconditions import Assumptions
from ..ops import MIN_TRANSFER
from ..tma import by_element, reached, recipe, span
from .consumer import STATE, i32, loop_of_rounds, slot_address
from .ping_pong import take_turns
from .producer import AHEAD, Opened, buffers_of, find_jobs, has_dots, slots_of


def specialize_warps(module, capabilities, engine, turns=True, preconditions=None):
    """The module with a copying warp, if all its loops around dots let one do their loads.

    `capabilities(module)` says what the target can do with a module's dots and loads; `engine` is its copy engine, or
    None. With `turns`, two groups of warps may take turns where that helps. Values that it takes for not negative are
    added to `preconditions`, as rows of `ir.bounds`.
    """
    if engine is None or module.attrs["num_warps"] not in (4, 8) or not any(map(_multiplies, module.body.ops)):
        return module
    opened = Opened(module)
    able, (_, registers) = capabilities(opened.module), _warps(engine, module)
    can = able._replace(
        vector=lambda load: MIN_TRANSFER,  # the engine minds no mask
        holds=lambda tiles: able.holds(tiles, registers[-1]),
    )
    found = find_jobs(opened, can, engine)
    return _Build(opened, can, engine, turns, preconditions, found).build() if found else module


def _multiplies(op):
    """True for a loop around dots."""
    return op.kind is ops.for_ and has_dots(op)


def _warps(engine, module):
    """How many warps copy, and the registers of all."""
    columns = max(op.type.shape[-1] for op in walk(module.body) if op.kind is ops.dot)
    return engine.warps(module.attrs["num_warps"], columns)


def _talks(op):
    """True if an op may wait for other programs, tell them something, or tell the host who it is."""
    if op.kind is ops.load:
        return op.attrs["volatile"]
    return op.kind is ops.while_ or (op.kind.effects_of(op) == "write" and op.kind not in (ops.store, ops.assume))


class _Build:
    """The new kernel: its buffers and barriers, then one region for each role."""

    def __init__(self, opened, can, engine, turns, preconditions, found):
        self.opened, self.can, self.engine = opened, can, engine
        self.assumptions = Assumptions(opened.module, preconditions, opened.grid)
        self.jobs, self.outer, self.writes, self.ahead = found
        module = opened.module
        self.b = Builder()
        self.loads = [*(load for job in self.jobs for load in job.loads.values()), *self.ahead]
        self.state = (*STATE, *(_TILES if self.ahead else ()))
        self.slots = slots_of(self.jobs, can, engine)
        self.blocks = max(load.blocks for load in self.loads)
        self.turning = turns and take_turns(self.jobs, module.attrs["num_warps"])
        self.persistent = not any(map(_talks, walk(module.body)))
        self.one_axis = self.persistent and self.asks_for_one_axis() and self.assumptions.has_one_axis()
        self.nonempty = [job for job in self.jobs if self.assumptions.is_nonempty(job.loop)]
        self.grid: tuple[Arg, ...] = tuple(Arg(T.i32, f"grid.{x}") for x in "xyz") if self.persistent else ()
        self.maps = tuple(Arg(T.Ptr(T.u8), f"map.{k}", {"tensor_map": True}) for k in range(len(self.loads)))

    def asks_for_one_axis(self):
        """True if the kernel wants its index on the first axis alone."""
        other = {id(x) for x in self.opened.places[1:3]}
        return not any(id(x) in other for op in walk(self.opened.module.body) for x in op.operands)

    def build(self):
        b, module = self.b, self.opened.original
        b.arguments = [*module.args, *self.grid, *self.maps]
        made = {}
        for (tile, axis, *_), keys in buffers_of(self.jobs, self.can).items():
            made |= dict.fromkeys(keys, gpu_ops.multibuffer(b, tile=tile, slots=self.slots, axis=axis))
        for job in self.jobs:
            job.plan.rings = {key: made[key] for key in job.loads}
        self.rank = [gpu_ops.block_rank(b)] if self.opened.blocks > 1 else []
        count = self.slots * len(self.jobs[0].groups)
        self.full = gpu_ops.mbarrier_init(b, count=count, arrivals=1)
        self.empty = gpu_ops.mbarrier_init(b, count=count, arrivals=self.blocks * module.attrs["num_warps"])
        if self.ahead:
            kinds = [(x.op.type, self.can.axis(x.op)) for x in self.ahead]
            self.tiles = [gpu_ops.multibuffer(b, tile=tile, slots=AHEAD, axis=axis) for tile, axis in kinds]
            self.tiles_full = gpu_ops.mbarrier_init(b, count=AHEAD, arrivals=1)
            self.tiles_empty = gpu_ops.mbarrier_init(b, count=AHEAD, arrivals=module.attrs["num_warps"])
        regions = self.role(self.copies), self.role(self.work, self.turning)
        warps, registers = _warps(self.engine, module)
        b.emit(gpu_ops.warp_specialize, (), {"registers": registers, "blocks": self.blocks}, regions)
        told = tuple(
            recipe(self.engine, module.args, x.op.type, self.can.axis(x.op), x.access, x.blocks) for x in self.loads
        )
        disjoint = tuple(span(module.args, x.op.operands[1].type, x.access) for x in self.writes)
        attrs = {"copy_warps": warps, "registers": registers[0], "maps": told, "persistent": self.persistent}
        attrs |= {"disjoint": (len(told), disjoint)} if disjoint else {}
        return module.replace(body=b.finish(), attrs={**module.attrs, **attrs})

    # --- programs -----------------------------------------------------------------------------------------------------
    def role(self, body, turning=False):
        """A region that does its part of every program: body(places, *state) -> state."""
        b = self.b
        with b.region() as region:
            zeros = [self.i32(0)] * len(self.state)
            if turning:
                gpu_ops.ping_pong_open(b)
            if not self.persistent:
                places = [kind(b, axis=k) for kind in (ops.program_id, ops.num_programs) for k in range(3)]
                body([*places, *self.rank], *zeros)
            else:
                self.programs(body, zeros)
            if turning:
                gpu_ops.ping_pong_close(b)
            ops.yield_(b)
        return region.block

    def programs(self, body, state):
        """The body for every program of this block: of each `blocks` programs one, the next one each time, but of the
        last ones. If programs of different length come in turn, as with a causal mask, all blocks get some of each."""
        b, (x, y, z) = self.b, self.grid
        plane = ops.mul(b, x, y)
        count, block, blocks = ops.mul(b, plane, z), ops.program_id(b, axis=0), ops.num_programs(b, axis=0)
        with b.region([T.i32] * (2 + len(state)), ["own", "turn", *self.state]) as loop:
            own, turn, *state_now = loop.args
            first = ops.sub(b, own, block)
            whole = ops.le(b, first, ops.sub(b, count, blocks))
            program = ops.select(b, whole, ops.add(b, first, turn), own)
            further = ops.add(b, turn, self.i32(1))
            following = ops.select(b, ops.eq(b, further, blocks), self.i32(0), further)
            ops.yield_(b, following, *body([*self.places(program, plane), *self.grid, *self.rank], *state_now))
        b.place(_loop((block, count, blocks, block, *state), loop.block, nonempty=True))

    def places(self, program, plane):
        """The index on each axis of the program of a number. None is negative: quotients are cheaper so.

        On a grid of one axis the number is the index; the minimum shows that to whoever asks for bounds.
        """
        b, (x, y, _) = self.b, self.grid
        number, x, y, plane = (ops.cast(b, value, to=T.u32) for value in (program, x, y, plane))
        if self.one_axis:
            zero, one = (ops.constant(b, value=value, type=T.u32) for value in (0, 1))
            index = ops.min_(b, number, ops.sub(b, x, one)), zero, zero
        else:
            index = ops.rem(b, number, x), ops.rem(b, ops.div(b, number, x), y), ops.div(b, number, plane)
        return [ops.cast(b, value, to=T.i32) for value in index]

    def i32(self, value):
        return i32(self.b, value)

    def at(self, barriers, group, slot, b=None):
        """Address of the barrier of a group's slot."""
        b = b or self.b
        first = ops.add(b, barriers, i32(b, 8 * self.slots * group)) if group else barriers
        return ops.add(b, first, ops.mul(b, slot, i32(b, 8)))

    def after(self, slot, parity, b=None, slots=None):
        """The next slot, and the parity its phase has there."""
        b = b or self.b
        more = ops.add(b, slot, i32(b, 1))
        over = ops.eq(b, more, i32(b, slots or self.slots))
        other = ops.xor(b, parity, i32(b, 1))
        return ops.select(b, over, i32(b, 0), more), ops.select(b, over, other, parity)

    # --- the copying warp ---------------------------------------------------------------------------------------------
    def copies(self, places, *state):
        scalar = _Slice(self.b, dict(zip(self.opened.places, places)))
        if self.outer is None:
            return self.copy_loops(scalar, *state)
        b, bounds = self.b, [scalar(x) for x in self.outer.operands[:3]]
        with b.region([bounds[0].type, *[T.i32] * len(state)], ["i", *self.state]) as region:
            index, *own = region.args
            scalar.known[self.outer.regions[0].args[0]] = index
            ops.yield_(b, *self.copy_loops(scalar, *own))
        loop = b.place(_loop((*bounds, *state), region.block))
        return tuple(Result(loop, k) for k in range(len(state)))

    def copy_loops(self, scalar, slot, parity, *tile):
        tile = self.copy_tiles(scalar, *tile) if tile else ()
        for job in self.jobs:
            lo, hi, step = (scalar(x) for x in job.loop.operands[:3])
            slot, parity = self.copy_loop(job, (lo, hi, step), slot, parity, scalar)
        return slot, parity, *tile

    def copy_tiles(self, scalar, slot, parity):
        """What the dots of all rounds read."""
        b = self.b
        gpu_ops.mbarrier_wait(b, self.at(self.tiles_empty, 0, slot), ops.xor(b, parity, self.i32(1)))
        filled = self.at(self.tiles_full, 0, slot)
        for load, ring in zip(self.ahead, self.tiles):
            self.copy(load, slot_address(b, ring, load.op.type, slot), filled, None, scalar)
        gpu_ops.mbarrier_arrive(b, filled)
        return self.after(slot, parity, slots=AHEAD)

    def copy_loop(self, job, bounds, slot, parity, scalar):
        b, index = self.b, bounds[0].type
        none = ops.constant(b, value=0, type=T.i64)
        with b.region([index, T.i64, T.i32, T.i32], ["i", "round", "slot", "parity"]) as region:
            (_, rounds, mine, phase), scalar = region.args, scalar.inside()
            for group, (*_, keys) in enumerate(job.groups):
                gpu_ops.mbarrier_wait(b, self.at(self.empty, group, mine), ops.xor(b, phase, self.i32(1)))
                filled = self.at(self.full, group, mine)
                for key in sorted(keys, key=lambda key: -job.loads[key].blocks):  # first what other blocks wait for too
                    load = job.loads[key]
                    buffer = slot_address(b, job.plan.rings[key], load.op.type, mine)
                    self.copy(load, buffer, filled, rounds, scalar, job.loop)
                gpu_ops.mbarrier_arrive(b, filled)
            more = ops.add(b, rounds, ops.constant(b, value=1, type=T.i64))
            ops.yield_(b, more, *self.after(mine, phase))
        loop = b.place(_loop((*bounds, none, slot, parity), region.block, job in self.nonempty))
        return Result(loop, 1), Result(loop, 2)

    def copy(self, load, buffer, barrier, rounds, scalar, loop=None):
        """By the engine if it can, else element by element; `loop` is the one that `rounds` counts."""
        b, tile, axis = self.b, load.op.type, self.can.axis(load.op)
        b.loc = load.op.loc
        starts = [write(b, side.start, rounds, scalar) for side in load.access.sides]
        fits = None
        if not self.assumptions.in_range(load.access, loop=loop):
            fits = reached(b, load.access, starts, sure=load.sure)
        if fits is None:
            self.copy_box(load, buffer, barrier, starts)
            return
        with b.region() as engine:
            self.copy_box(load, buffer, barrier, starts)
            ops.yield_(b)
        with b.region() as by_hand:
            scalar = scalar.inside()
            origin, numbers, wraps = by_element(b, load.access, tile.shape, lambda x: write(b, x, rounds, scalar))
            gpu_ops.element_load(b, buffer, origin, *numbers, tile=tile, axis=axis, wraps=wraps)
            ops.yield_(b)
        b.emit(ops.if_, (fits,), {}, (engine.block, by_hand.block))

    def copy_box(self, load, buffer, barrier, starts):
        b, tile, axis = self.b, load.op.type, self.can.axis(load.op)
        where = [ops.cast(b, x, to=T.i32) for x in starts]
        gpu_ops.tma_load(b, buffer, barrier, self.maps[load.number], *where, tile=tile, axis=axis, blocks=load.blocks)

    # --- the computing warps ------------------------------------------------------------------------------------------
    def work(self, places, *begin):
        """The whole kernel, its loops on full buffers."""
        opened, state = self.opened, _parameters(self.state)
        worker = _Work(self, state)
        body = sweep(opened.module, worker.rule).body
        ends = Op(ops.yield_, worker.state, {}, ())
        values = [*opened.original.args, *places, *begin]
        return substitute(self.b, Block([*body.args, *state], [*body.ops, ends]), values)


_TILES = ("tile", "tile_parity")


def _parameters(names):
    return tuple(Arg(T.i32, name) for name in names)


def _loop(operands, block, nonempty=False):
    attrs = {**ops.for_.defaults, "nonempty": nonempty}
    return Op(ops.for_, operands, attrs, tuple(x.type for x in operands[3:]), (block,))


class _Slice:
    """Scalars of the kernel made again, with some arguments replaced."""

    def __init__(self, b, known):
        self.b, self.known = b, known

    def inside(self):
        """The same for a region: what is made there is not known behind it."""
        return _Slice(self.b, dict(self.known))

    def __call__(self, x):
        if x not in self.known:
            if type(x) is Arg:
                return x
            self.known[x] = self.b.place(x.replace(operands=tuple(self(y) for y in x.operands)))
        return self.known[x]


class _Work:
    """Rewrites the kernel for the computing warps; `state` are the slot and the parity of the round to come, and those
    of the tiles brought ahead."""

    def __init__(self, build, state):
        self.build, self.state, self.before = build, state, state
        self.jobs = {id(job.loop.regions[0]): job for job in build.jobs}
        if build.outer is not None:  # its regions come before it: they begin with parameters it has yet to get
            self.state = self.carried = _parameters(build.state)

    def rule(self, b, op):
        if b.original is self.build.outer:
            return self.around(b, op)
        job = self.jobs.get(id(op.regions[0])) if op.kind is ops.for_ else None
        return self.loop(b, op, job) if job else None

    def around(self, b, op):
        """The loop around the jobs hands the state on."""
        (body,) = op.regions
        ends = Op(ops.yield_, (*body.yields, *self.state), {}, ())
        region = Block([*body.args, *self.carried], [*body.ops[:-1], ends])
        attrs, operands = op.attrs, (*op.operands, *self.before)
        loop = b.place(Op(ops.for_, operands, attrs, tuple(x.type for x in operands[3:]), (region,), op.loc))
        outs = tuple(Result(loop, k) for k in range(len(operands) - 3))
        self.state = outs[len(body.yields) :]
        return outs[: len(body.yields)]

    def loop(self, b, op, job):
        plan = job.plan
        plan.carry_out(b, op.operands[1])
        slot, parity, *tile = self.state
        if tile and job is self.build.jobs[0]:
            self.await_tiles(b, *tile)
        plan.shared = plan.share_outer_operands()
        *outs, slot, parity = loop_of_rounds(self.build, b, op, job, slot, parity)
        self.state = (slot, parity, *tile)
        for address, _ in list(plan.shared.values())[:1]:
            gpu_ops.release(b, address)
        if tile and job is self.build.jobs[-1]:
            self.give_back_tiles(b, *tile)
        return tuple(outs)

    def await_tiles(self, b, slot, parity):
        """The jobs' dots read tiles where they were brought to."""
        build = self.build
        gpu_ops.mbarrier_wait(b, build.at(build.tiles_full, 0, slot, b), parity)
        for load, ring in zip(build.ahead, build.tiles):
            where = slot_address(b, ring, load.op.type, slot), build.can.axis(load.op)
            for job in build.jobs:
                job.plan.brought |= {(id(load.op), side): where for side in "ab"}

    def give_back_tiles(self, b, slot, parity):
        build = self.build
        gpu_ops.mbarrier_arrive(b, build.at(build.tiles_empty, 0, slot, b))
        self.state = (*self.state[:2], *build.after(slot, parity, b, AHEAD))
