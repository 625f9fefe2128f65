"""One warp copies, the others compute: loops around dots whose tiles the copy engine can bring.

    one warp                                 the others
    for each program:                        for each program:
      for i:                                   for i:
        wait until slot s is empty               wait until slot s is full
        have its boxes copied                    acc = dot_shared ring_a[s], ring_b[s], acc
                                                 slot s - 1 is empty
                                               store

The copying warp needs nothing but scalars, so it runs ahead of the others, into the next program too: a kernel that
only loads, multiplies and stores is started once for each place on the GPU and takes its programs in turn.

Which boxes there are follows from `affine`; the host describes their tensors to the engine at every launch (`maps` of
the module). Boxes that the engine cannot read as the language says, such as those that start before an unmasked tensor,
are brought element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ... import ops
from ...ir import types as T
from ...ir.builder import Builder
from ...ir.core import Arg, Block, Op, Result, walk
from ...ir.rewrite import effects, substitute, sweep
from . import ops as gpu_ops
from .affine import ENDLESS, Access, access
from .lower_convert import scratch_of
from .pipeline_loops import MIN_TRANSFER, Copy, Plan
from .polynomial import ROUND, Poly, Scalars, write
from .unobserved import unobserved

LARGEST = (1 << 31) - 1
ALIGNMENT = 1024  # of buffers, at most


class Engine(NamedTuple):
    """What the target says of its copy engine.

    fits(tile, axis, access): it can bring this tile.   room: bytes of shared memory for rings of buffers.
    warps(number): how many warps come behind so many to have one of them copy, and the registers of a thread: at
    first, of theirs, of the others'.
    describe(tile, axis, access): element type, box and swizzle of its map, as the host is told.
    """

    fits: Callable
    room: int
    warps: Callable
    describe: Callable


def specialize_warps(module, abilities, engine):
    """The module with a copying warp, if all its loops around dots let one do their loads.

    `abilities(module)` says what the target can do with a module's dots and loads; `engine` is its copy engine, or
    None.
    """
    if engine is None or module.attrs["num_warps"] not in (4, 8) or not any(map(_multiplies, module.body.ops)):
        return module
    opened = _Opened(module)
    can = abilities(opened.module)._replace(vector=lambda load: MIN_TRANSFER)  # the engine minds no mask
    jobs = _jobs(opened, can, engine)
    return _Build(opened, can, engine, jobs).build() if jobs else module


def _multiplies(op):
    """True for a loop around dots."""
    return op.kind is ops.for_ and any(inner.kind is ops.dot for inner in walk(op.regions[0]))


class _Opened:
    """A kernel whose program index and grid are arguments: `places`, the index on each axis, then the sizes."""

    def __init__(self, module):
        self.original = module
        self.places = tuple(Arg(T.i32, f"{name}.{x}") for name in ("program", "programs") for x in "xyz")
        swept = sweep(module, self._rule)
        self.module = swept.replace(body=Block([*module.args, *self.places], swept.body.ops))

    def _rule(self, b, op):
        first = {ops.program_id: 0, ops.num_programs: 3}.get(op.kind)
        return None if first is None else self.places[first + op.attrs["axis"]]

    def uniform(self, x):
        """True for arguments that the host knows before the launch."""
        return type(x) is Arg and any(x is arg for arg in self.original.args)


class Load(NamedTuple):
    """A load the engine does: where its box lies, the bounds that are known to hold, and the number of its map."""

    op: Op
    access: Access
    number: int


class Job(NamedTuple):
    """A loop to take apart. `groups` are the dots with the keys of the loads each reads: they arrive together, and are
    given back together."""

    loop: Op
    plan: Plan
    loads: dict
    groups: list
    stages: int


def _jobs(opened, can, engine):
    """The loops to take apart, none unless all around dots can be; nothing may be written before the last of them."""
    jobs, maps, written = [], [], False
    for op in opened.module.body.ops:
        if op.kind in _OUT_OF_PLACE or any(inner.kind in _OUT_OF_PLACE for r in op.regions for inner in walk(r)):
            return []
        if op.kind is ops.dot or any(inner.kind is ops.dot for region in op.regions for inner in walk(region)):
            job = None if written or op.kind is not ops.for_ else _job(opened, op, can, engine, maps)
            if job is None:
                return []
            jobs.append(job)
        written = written or (effects(op) == "write" and op.kind is not ops.assume)
    alike = len({len(job.groups) for job in jobs}) == 1  # they share their barriers
    return jobs if alike and _slots(jobs, engine) > 1 else []


def _slots(jobs, engine):
    """How many rounds' boxes there is room for."""
    size = sum(_bytes(load.op.type) for job in jobs for load in job.loads.values())
    return min(*(job.stages for job in jobs), engine.room // size)


# What needs too much shared memory beside a ring of buffers, or may depend on who the threads are. Dots are looked at
# one by one.
_OUT_OF_PLACE = frozenset((ops.scan, ops.sort, ops.gather, ops.extract, ops.histogram, ops.inline_asm))


def _job(opened, loop, can, engine, maps):
    module, plan = opened.module, Plan(loop, can)
    stages = loop.attrs["num_stages"] if loop.attrs["num_stages"] is not None else module.attrs.get("num_stages", 3)
    if stages < 2 or not plan.works():
        return None
    plan.settle_late_dot()
    groups = _groups(plan)
    if not all(map(_pure, loop.operands[:3])) or not _staged(plan) or groups is None:
        return None
    scalars, loads = Scalars(loop), {}
    inside = {id(x) for x in (*plan.body.ops, *plan.body.args)}
    for key, load in plan.loads.items():
        found = access(load.operands[0], load.operands[1] if len(load.operands) > 1 else None, scalars, opened.uniform)
        if found is None or load.attrs["volatile"] or not engine.fits(load.type, can.axis(load), found):
            return None
        if not all(_pure(x) and id(_op(x)) not in inside for x in _values(found)):
            return None
        if not all(unobserved(module, loop, plan, load, axis, found) for axis in found.wraps):
            return None
        loads[key] = Load(load, found, len(maps))
        maps.append(found)
    return Job(loop, plan, loads, groups, stages)


def _groups(plan):
    """[(dot, keys of the staged loads it reads)]; None if a load is read by several."""
    found = []
    for dot in plan.dots:
        read = [plan.source(x)[0] for x in dot.operands[:2]]
        found.append((dot, [id(load) for load in dict.fromkeys(read) if load is not None and id(load) in plan.loads]))
    keys = [key for _, group in found for key in group]
    return [x for x in found if x[1]] if len(set(keys)) == len(keys) else None


def _staged(plan):
    """True if every load that a dot reads is copied ahead, and lies as the dot wants it or is read back on the left."""
    for dot in plan.dots:
        for side, x in zip("ab", dot.operands):
            load, turned = plan.source(x)
            fits = side == "a" or load is None or plan.lies_right(dot, load, side, turned)
            if load is not None and not (id(load) in plan.loads and fits):
                return False
    return all(op.kind is not ops.dot or op in plan.dots for op in plan.body.ops)


def _op(x):
    return x.op if type(x) is Result else x


def _values(found):
    """Everything an access is computed from but the round."""
    polys = [found.offset, found.form.offset]
    polys += [p for side in found.sides for p in (side.size, side.stride, side.start) if p is not None]
    polys += [p for _, low, high in found.limits for p in (low, high) if p is not None]
    polys += [p for axis in found.form.axes if axis.wrap for p in axis.wrap[:2]]
    return {x for poly in polys for x in poly.values if x is not ROUND}


def _pure(x):
    """True if a scalar follows from arguments and the program's index alone, without memory or control flow."""
    todo, seen = [x], set()
    while todo:
        op = todo.pop()
        if type(op) is Arg or id(op) in seen:
            continue
        if type(op) is Result or op.kind.effects or op.regions or type(op.type) is T.Tile:
            return False
        seen.add(id(op))
        todo += op.operands
    return True


def _talks(op):
    """True if an op may wait for other programs, tell them something, or tell the host who it is."""
    if op.kind is ops.load:
        return op.attrs["volatile"]
    return op.kind is ops.while_ or (op.kind.effects_of(op) == "write" and op.kind not in (ops.store, ops.assume))


class _Build:
    """The new kernel: its buffers and barriers, then one region for each role."""

    def __init__(self, opened, can, engine, jobs):
        self.opened, self.can, self.engine, self.jobs = opened, can, engine, jobs
        module = opened.module
        self.b = Builder()
        self.loads = [load for job in jobs for load in job.loads.values()]
        self.slots = _slots(jobs, engine)
        self.persistent = not any(map(_talks, walk(module.body)))
        self.grid: tuple[Arg, ...] = tuple(Arg(T.i32, f"grid.{x}") for x in "xyz") if self.persistent else ()
        self.maps = tuple(Arg(T.Ptr(T.u8), f"map.{k}", {"tensor_map": True}) for k in range(len(self.loads)))

    def build(self):
        b, module = self.b, self.opened.original
        b.arguments = [*module.args, *self.grid, *self.maps]
        for job in self.jobs:
            job.plan.rings = {
                key: gpu_ops.ring(b, tile=x.op.type, slots=self.slots, axis=self.can.axis(x.op))
                for key, x in job.loads.items()
            }
        count = self.slots * len(self.jobs[0].groups)
        self.full = gpu_ops.phases(b, count=count, arrivals=1)
        self.empty = gpu_ops.phases(b, count=count, arrivals=module.attrs["num_warps"])
        regions = tuple(self.role(body) for body in (self.copies, self.work))
        warps, registers = self.engine.warps(module.attrs["num_warps"])
        b.emit(gpu_ops.warp_roles, (), {"registers": registers}, regions)
        told = tuple(self.recipe(load) for load in self.loads)
        attrs = {"copy_warps": warps, "registers": registers[0], "maps": told, "persistent": self.persistent}
        return module.replace(body=b.finish(), attrs={**module.attrs, **attrs})

    def recipe(self, load):
        """What the host must know to describe a tensor; numbers as sums of (factor, arguments)."""
        numbers = {x: k for k, x in enumerate(self.opened.original.args)}
        spell = lambda poly: tuple((c, tuple(numbers[x] for x in m)) for m, c in poly.terms.items())
        found, tile = load.access, load.op.type
        element, boxes, swizzle = self.engine.describe(tile, self.can.axis(load.op), found)
        sides = tuple((spell(Poly.of(ENDLESS) if s.size is None else s.size), spell(s.stride)) for s in found.sides)
        return (element, tile.element.bytes, numbers[found.base], spell(found.offset), sides, boxes, swizzle)

    # --- programs -----------------------------------------------------------------------------------------------------
    def role(self, body):
        """A region that does its part of every program: body(places, slot, parity) -> (slot, parity)."""
        b = self.b
        with b.region() as region:
            zero = self.i32(0)
            if not self.persistent:
                places = [kind(b, axis=k) for kind in (ops.program_id, ops.num_programs) for k in range(3)]
                body(places, zero, zero)
            else:
                x, y, z = self.grid
                plane = ops.mul(b, x, y)
                bounds = ops.program_id(b, axis=0), ops.mul(b, plane, z), ops.num_programs(b, axis=0)
                with b.region([T.i32] * 3, ["program", "slot", "parity"]) as loop:
                    program, *state = loop.args
                    index = ops.rem(b, program, x), ops.rem(b, ops.div(b, program, x), y), ops.div(b, program, plane)
                    ops.yield_(b, *body([*index, *self.grid], *state))
                b.place(_loop((*bounds, zero, zero), loop.block))
            ops.yield_(b)
        return region.block

    def i32(self, value):
        return _i32(self.b, value)

    def at(self, barriers, group, slot, b=None):
        """Address of the barrier of a group's slot."""
        b = b or self.b
        first = ops.add(b, barriers, _i32(b, 8 * self.slots * group)) if group else barriers
        return ops.add(b, first, ops.mul(b, slot, _i32(b, 8)))

    def after(self, slot, parity, b=None):
        """The next slot, and the parity its phase has there."""
        b = b or self.b
        more = ops.add(b, slot, _i32(b, 1))
        over = ops.eq(b, more, _i32(b, self.slots))
        other = ops.xor(b, parity, _i32(b, 1))
        return ops.select(b, over, _i32(b, 0), more), ops.select(b, over, other, parity)

    # --- the copying warp ---------------------------------------------------------------------------------------------
    def copies(self, places, slot, parity):
        scalar = _Slice(self.b, dict(zip(self.opened.places, places)))
        for job in self.jobs:
            lo, hi, step = (scalar(x) for x in job.loop.operands[:3])
            slot, parity = self.copy_loop(job, (lo, hi, step), slot, parity, scalar)
        return slot, parity

    def copy_loop(self, job, bounds, slot, parity, scalar):
        b, index = self.b, bounds[0].type
        none = ops.constant(b, value=0, type=T.i64)
        with b.region([index, T.i64, T.i32, T.i32], ["i", "round", "slot", "parity"]) as region:
            _, rounds, mine, phase = region.args
            for group, (_, keys) in enumerate(job.groups):
                gpu_ops.await_phase(b, self.at(self.empty, group, mine), ops.xor(b, phase, self.i32(1)))
                filled = self.at(self.full, group, mine)
                for key in keys:
                    self.copy(job.plan, key, job.loads[key], mine, filled, rounds, scalar)
                gpu_ops.arrive(b, filled)
            more = ops.add(b, rounds, ops.constant(b, value=1, type=T.i64))
            ops.yield_(b, more, *self.after(mine, phase))
        loop = b.place(_loop((*bounds, none, slot, parity), region.block))
        return Result(loop, 1), Result(loop, 2)

    def copy(self, plan, key, load, slot, barrier, rounds, scalar):
        """By the engine if it can, else element by element."""
        b, tile, axis = self.b, load.op.type, self.can.axis(load.op)
        buffer = _slot_address(b, plan.rings[key], tile, slot)
        spell = lambda poly: write(b, poly, rounds, scalar)
        starts = [spell(side.start) for side in load.access.sides]
        with b.region() as engine:
            where = [ops.cast(b, x, to=T.i32) for x in starts]
            gpu_ops.box_load(b, buffer, barrier, self.maps[load.number], *where, tile=tile, axis=axis)
            ops.yield_(b)
        with b.region() as by_hand:
            numbers, wraps = self.numbers(load, spell)
            origin = ops.addptr(b, load.access.base, spell(load.access.form.offset))
            gpu_ops.element_load(b, buffer, origin, *numbers, tile=tile, axis=axis, wraps=wraps)
            ops.yield_(b)
        b.emit(ops.if_, (self.reads(load, starts),), {}, (engine.block, by_hand.block))

    def reads(self, load, starts):
        """i1: the engine reads what the language says. It takes 32-bit coordinates; what it finds before or after the
        tensor it takes for zeros."""
        b = self.b
        out = None
        for side, start in zip(load.access.sides, starts):
            least = -LARGEST - 1 if side.closed else 0
            most = LARGEST - side.box if side.size is None else LARGEST
            for compare, limit in ((ops.ge, least), (ops.le, most)):
                fine = compare(b, start, ops.constant(b, value=limit, type=T.i64))
                out = fine if out is None else ops.and_(b, out, fine)
        return out

    def numbers(self, load, spell):
        """(step, low and high of each axis, then start and modulus of those that wrap; which do)."""
        form, limits = load.access.form, load.access.limits
        out, wraps = [], tuple(bool(axis.wrap) for axis in form.axes)
        for k, axis in enumerate(form.axes):
            lows = [spell(low) for n, low, _ in limits if n == k and low is not None]
            highs = [spell(high) for n, _, high in limits if n == k and high is not None]
            size = Poly.of(load.op.type.shape[k])
            out += [spell(axis.step), *(lows[:1] or [spell(Poly())]), *(highs[:1] or [spell(size)])]
        for start, modulus, kind in (axis.wrap for axis in form.axes if axis.wrap):
            wide = spell(start), spell(modulus)
            out += wide if kind.bits == 64 else [ops.cast(self.b, x, to=kind) for x in wide]
        return out, wraps

    # --- the computing warps ------------------------------------------------------------------------------------------
    def work(self, places, slot, parity):
        """The whole kernel, its loops on full buffers."""
        opened, state = self.opened, (Arg(T.i32, "slot"), Arg(T.i32, "parity"))
        worker = _Work(self, state)
        body = sweep(opened.module, worker.rule).body
        ends = Op(ops.yield_, worker.state, {}, ())
        values = [*opened.original.args, *places, slot, parity]
        return substitute(self.b, Block([*body.args, *state], [*body.ops, ends]), values)


def _loop(operands, block):
    return Op(ops.for_, operands, dict(ops.for_.defaults), tuple(x.type for x in operands[3:]), (block,))


def _i32(b, value):
    return ops.constant(b, value=value, type=T.i32)


class _Slice:
    """Scalars of the kernel made again, with some arguments replaced."""

    def __init__(self, b, known):
        self.b, self.known = b, known

    def __call__(self, x):
        if x not in self.known:
            if type(x) is Arg:
                return x
            self.known[x] = self.b.place(x.replace(operands=tuple(self(y) for y in x.operands)))
        return self.known[x]


class _Work:
    """Rewrites the kernel for the computing warps; `state` are the slot and the parity of the round to come."""

    def __init__(self, build, state):
        self.build, self.state = build, state
        self.jobs = {id(job.loop.regions[0]): job for job in build.jobs}

    def rule(self, b, op):
        job = self.jobs.get(id(op.regions[0])) if op.kind is ops.for_ else None
        return self.loop(b, op, job) if job else None

    def loop(self, b, op, job):
        plan, (lo, hi, step, *inits) = job.plan, op.operands
        plan.b, plan.hi, plan.index = b, hi, T.i32
        plan.shared = plan.share_outer_operands()
        carried = [*inits, *self.state, self.state[0]]
        names = [*(a.name for a in plan.body.args), "slot", "parity", "before"]
        with b.region([lo.type, *(x.type for x in carried)], names) as region:
            i, *own, slot, parity, before = region.args
            known = {id(a): v for a, v in zip(plan.body.args, (i, *own))}
            ends = _Round(self.build, job, known, slot, parity, before, ops.ne(b, i, lo)).body()
            ops.yield_(b, *ends, *self.build.after(slot, parity, b), slot)
        outs = list(b.emit(ops.for_, (lo, hi, step, *carried), op.attrs, (region.block,)))
        *outs, slot, parity, last = outs
        self.state = (slot, parity)
        if plan.late is not None:
            outs[plan.late] = gpu_ops.dot_wait(b, outs[plan.late], pending=0)
            late = [k for k, (dot, _) in enumerate(job.groups) if dot is plan.body.yields[plan.late]]
            for group in late:
                _release(b, self.build, group, last, plan.goes_on(lo))
        for address, _ in list(plan.shared.values())[:1]:
            gpu_ops.release(b, address)
        return tuple(outs)


class _Round(Copy):
    """One round: every dot waits for its boxes, and the buffers of dots that are over are given back.

    A dot that runs on into the next round is over when that has waited for another dot, or when its own has begun.
    """

    def __init__(self, build, job, known, slot, parity, before, again):
        super().__init__(job.plan, known, slot)
        self.build, self.parity, self.before, self.again = build, parity, before, again
        self.groups = {id(dot): k for k, (dot, _) in enumerate(job.groups)}
        late = job.plan.late
        self.late = None if late is None else job.plan.body.yields[late]
        self.unfinished = self.groups.get(id(self.late))  # of the round before

    def runs_on(self, dot):
        """All but the late one are waited for: their buffers are given back."""
        return dot is self.late

    def dot(self, op):
        for x in op.operands:
            if self.plan.source(x)[0] is None:
                self.value(x)  # what it is computed from comes before the wait
        group = self.groups.get(id(op))
        if group is not None:
            gpu_ops.await_phase(self.b, self.build.at(self.build.full, group, self.slot, self.b), self.parity)
        made = super().dot(op)
        if self.unfinished is not None and (op is not self.late or op.operands[2] in self.plan.body.args):
            _release(self.b, self.build, self.unfinished, self.before, self.again)
            self.unfinished = None
        if group is not None and op is not self.late:
            gpu_ops.arrive(self.b, self.build.at(self.build.empty, group, self.slot, self.b))
        return made


def _release(b, build, group, slot, condition):
    """A group's slot is empty, if there was a round that used it."""
    with b.region() as then:
        gpu_ops.arrive(b, build.at(build.empty, group, slot, b))
        ops.yield_(b)
    with b.region() as other:
        ops.yield_(b)
    b.emit(ops.if_, (condition,), {}, (then.block, other.block))


def _slot_address(b, ring, tile, slot):
    return ops.add(b, ring, ops.mul(b, slot, _i32(b, _bytes(tile))))


def leaves_room(module, shared_bytes):
    """True if a module with layouts has enough shared memory for its conversions beside its buffers."""
    made = list(walk(module.body))
    sizes = [op.attrs["slots"] * _bytes(op.attrs["tile"]) for op in made if op.kind is gpu_ops.ring]
    sizes += [_bytes(x.type) for op in made if op.kind is gpu_ops.share for x in op.operands]
    sizes += [8 * op.attrs["count"] for op in made if op.kind is gpu_ops.phases]
    room = shared_bytes - sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)
    return all(scratch_of(op, room) <= room for op in made if op.kind is gpu_ops.convert)


def _bytes(tile):
    return tile.numel * tile.element.bytes
