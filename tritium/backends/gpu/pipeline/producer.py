"""Loops around dots that two groups of warps can share: one that copies their tiles, and one that multiplies.

The copying warp has scalars alone, so where the boxes of tiles lie must follow from the kernel's arguments and the
program's index; and it runs ahead, so nothing it loads may have been written by the program before.
"""

from __future__ import annotations

from typing import NamedTuple

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Block, Op, Result, walk
from ....ir.rewrite import effects, sweep
from .. import ops as gpu_ops
from ..analysis.affine import Access, access, narrow
from ..analysis.demanded_rows import unobserved
from ..analysis.polynomial import ITERATION, Scalars
from .schedule import Plan


def has_dots(op):
    """True for a dot, and for what holds one."""
    return op.kind is ops.dot or any(inner.kind is ops.dot for region in op.regions for inner in walk(region))


def bytes_of(tile):
    """Bytes of a tile in a buffer."""
    return tile.numel * tile.element.bytes


class Opened:
    """A kernel whose program index and grid are arguments: `places`, the index on each axis, then the sizes; and
    behind them the block's `rank` where programs have several `blocks`."""

    def __init__(self, module):
        self.original, self.blocks = module, module.attrs.get("num_ctas", 1)
        self.places = tuple(Arg(T.i32, f"{name}.{x}") for name in ("program", "programs") for x in "xyz")
        self.rank = Arg(T.i32, "rank")
        if self.blocks > 1:
            self.places += (self.rank,)
        swept = sweep(module, self._rule)
        self.module = swept.replace(body=Block([*module.args, *self.places], swept.body.ops))

    def _rule(self, b, op):
        if op.kind is gpu_ops.block_rank:
            return self.rank
        first = {ops.program_id: 0, ops.num_programs: 3}.get(op.kind)
        return None if first is None else self.places[first + op.attrs["axis"]]

    @property
    def grid(self):
        """Number of each argument that is a place -> the row of `ir.bounds` that stands for it."""
        rows = [(kind, "i32", axis) for kind in ("program_id", "num_programs") for axis in range(3)]
        rows += [("between", "i32", 0, self.blocks - 1)] * (self.blocks > 1)
        return dict(enumerate(rows, len(self.original.args)))

    def uniform(self, x):
        """True for arguments that the host knows before the launch."""
        return type(x) is Arg and any(x is arg for arg in self.original.args)


class Load(NamedTuple):
    """A load the engine does: where its box lies, whether it surely reaches that, the number of its map, and how many
    blocks bring it together."""

    op: Op
    access: Access
    sure: bool
    number: int
    blocks: int = 1


class Group(NamedTuple):
    """Loads that arrive together, and are given back together: the dots that read them first and last, their keys."""

    first: Op
    last: Op
    keys: list


class Job(NamedTuple):
    """A loop to take apart; each of its loads is in one of the `groups`."""

    loop: Op
    plan: Plan
    loads: dict
    groups: list
    stages: int


class Written(NamedTuple):
    """A store in a loop around the jobs: what it writes must lie apart from what they load."""

    op: Op
    access: Access


class Found(NamedTuple):
    """The jobs of a kernel, the loop around them or None, and what that writes; and loads before the jobs that the
    engine does as well, `ahead` of the program that needs them."""

    jobs: list
    outer: Op | None = None
    writes: tuple = ()
    ahead: tuple = ()


def find_jobs(opened, can, engine):
    """What is found in a kernel; None unless all loops around dots can be taken apart.

    Nothing may be written before the last of them, but by a loop that goes round them, to memory of its own.
    """
    body = opened.module.body
    if any(op.kind in _OUT_OF_PLACE for op in walk(body)):
        return None
    outer, *others = filter(has_dots, body.ops)
    if others or any(op.kind is ops.dot for region in outer.regions for op in region.ops):
        jobs = _jobs(opened, body, can, engine)
        if not jobs:
            return None
        return Found(_together(opened, jobs, None, can, engine), ahead=_ahead(opened, body, jobs, can, engine))
    if outer.kind is not ops.for_ or not all(map(_pure, outer.operands[:3])) or _written(body, outer):
        return None
    inside = outer.regions[0]
    jobs = _jobs(opened, inside, can, engine, barred=inside.args[1:])
    if not jobs:
        return None
    ahead = tuple(x for x in _ahead(opened, inside, jobs, can, engine, inside.args[1:]) if _bounded(x.access))
    writes = _writes(opened, inside, jobs, ahead)
    if writes is None and ahead:
        ahead, writes = (), _writes(opened, inside, jobs)
    if writes is None or len(writes) > engine.maps:
        return None
    return Found(_together(opened, jobs, outer, can, engine), outer, writes, ahead)


def _together(opened, jobs, outer, can, engine):
    """The jobs, with boxes that all blocks of a program want brought by them together. They must go round the loops in
    step, for they share the slots' barriers."""
    same = lambda values: all(_pure(x, (opened.rank,)) for x in values)
    loops = [job.loop for job in jobs] + [outer] * (outer is not None)
    if opened.blocks == 1 or not all(same(loop.operands[:3]) for loop in loops):
        return jobs
    shared = lambda x: same(_values(x.access)) and engine.divides(x.op.type, can.axis(x.op), opened.blocks)
    mark = lambda x: x._replace(blocks=opened.blocks) if shared(x) else x
    return [job._replace(loads={key: mark(load) for key, load in job.loads.items()}) for job in jobs]


def _written(block, until):
    """True if a block writes memory before one of its ops."""
    before = block.ops[: next(k for k, op in enumerate(block.ops) if op is until)]
    return any(effects(op) == "write" and op.kind is not ops.assume for op in before)


def _jobs(opened, block, can, engine, barred=()):
    """The loops of a block to take apart; what they load may not depend on the `barred` values."""
    jobs, maps = [], []
    for op in filter(has_dots, block.ops):
        job = _job(opened, block, op, can, engine, maps, barred) if op.kind is ops.for_ else None
        if job is None:
            return []
        jobs.append(job)
    alike = len({len(job.groups) for job in jobs}) == 1  # they share their barriers
    fit = len(maps) <= engine.maps and slots_of(jobs, can, engine) > 1
    return jobs if alike and fit and not _written(block, jobs[-1].loop) else []


def _writes(opened, block, jobs, ahead=()):
    """What the loop around the jobs writes; None if it does more than store boxes with bounds, or to a tensor that is
    loaded as well."""
    found = [load.access for load in (*(load for job in jobs for load in job.loads.values()), *ahead)]
    if not all(map(_bounded, found)):
        return None
    loaded, writes = {id(x.base) for x in found}, []
    for op in walk(block):
        if op.kind.effects_of(op) != "write" or op.kind is ops.assume:
            continue
        mask = op.operands[2] if op.kind is ops.store and len(op.operands) > 2 else None
        target = access(op.operands[0], mask, Scalars(), opened.uniform) if op.kind is ops.store else None
        if target is None or not _bounded(target) or id(target.base) in loaded:
            return None
        writes.append(Written(op, target))
    return tuple(writes)


def _bounded(found):
    """True if the host knows where the tensor of an access ends."""
    return all(side.size is not None for side in found.sides)


def buffers_of(jobs, can):
    """{a buffer's tile and place: keys of the loads that go through it}. Jobs come one after the other and share the
    barriers of their slots, so they share the buffers as well."""
    out = {}
    for job in jobs:
        for group, (*_, keys) in enumerate(job.groups):
            for place, key in enumerate(keys):
                load = job.loads[key].op
                out.setdefault((load.type, can.axis(load), group, place), []).append(key)
    return out


def slots_of(jobs, can, engine):
    """How many rounds' boxes there is room for."""
    size = sum(bytes_of(tile) for tile, *_ in buffers_of(jobs, can))
    return min(*(job.stages + _is_held_over(job) for job in jobs), engine.room // size)


def _is_held_over(job):
    """True if boxes that a round begins with are held into the next one: their slot is not there to be filled again."""
    return any(group.first is not group.last and job.plan.is_late(group.last) for group in job.groups)


AHEAD = 2  # programs whose tiles find room: one at work, one to come
_ALONE = 8  # working warps of a block that shares its multiprocessor with no other


def _ahead(opened, block, jobs, can, engine, barred=()):
    """The loads of a block that only the jobs' dots read, as they lie, if there is room for those of two programs."""
    read, found, plans = {}, [], [job.plan for job in jobs]
    for plan in plans:
        for dot in plan.dots:
            for side, x in zip("ab", dot.operands):
                if type(x) is Op and x.kind is ops.load and any(x is op for op in block.ops):
                    read.setdefault(id(x), (x, []))[1].append((plan, dot, side))
    readers = lambda x: [op for op in walk(opened.module.body) if any(y is x for y in op.operands)]
    for x, places in read.values():
        if {id(op) for op in readers(x)} == {id(dot) for _, dot, _ in places} and all(
            plan.can_copy(x) and dot.operands[2] is not x and plan.lies_right(dot, x, side, False)
            for plan, dot, side in places
        ):
            mask = x.operands[1] if len(x.operands) > 1 else None
            box = access(x.operands[0], mask, Scalars(), opened.uniform)
            if box and not box.wraps and not x.attrs["volatile"] and engine.fits(x.type, can.axis(x), box):
                if all(_pure(y, barred) for y in _values(box)):
                    found.append(Load(x, box, narrow(box, mask), sum(len(job.loads) for job in jobs) + len(found)))
    used = slots_of(jobs, can, engine) * sum(bytes_of(tile) for tile, *_ in buffers_of(jobs, can))
    wanted = AHEAD * sum(bytes_of(load.op.type) for load in found)
    fits = used + wanted <= engine.room and found and found[-1].number < engine.maps
    return tuple(found) if fits and opened.module.attrs["num_warps"] == _ALONE else ()


# What needs too much shared memory beside a ring of buffers, may depend on who the threads are, or has all threads of a
# cluster meet. Dots are looked at one by one.
_OUT_OF_PLACE = frozenset((ops.scan, ops.sort, ops.gather, ops.extract, ops.histogram, ops.inline_asm,
                           gpu_ops.cluster_all_gather, gpu_ops.cluster_barrier))  # fmt: skip


def _job(opened, block, loop, can, engine, maps, barred):
    module, plan = opened.module, Plan(loop, can)
    stages = loop.attrs["num_stages"] if loop.attrs["num_stages"] is not None else module.attrs.get("num_stages", 3)
    if stages < 2 or not plan.works():
        return None
    plan.settle_dots()
    if not all(_pure(x, barred) for x in loop.operands[:3]) or not _staged(plan):
        return None
    scalars, loads = Scalars(loop), {}
    inside = {id(x) for x in (*plan.body.ops, *plan.body.args)}
    for key, load in plan.loads.items():
        mask = load.operands[1] if len(load.operands) > 1 else None
        found = access(load.operands[0], mask, scalars, opened.uniform)
        if found is None or load.attrs["volatile"] or not engine.fits(load.type, can.axis(load), found):
            return None
        if not all(_pure(x, barred) and id(_op(x)) not in inside for x in _values(found)):
            return None
        if not all(unobserved(block, loop, plan, load, axis, found) for axis in found.wraps):
            return None
        loads[key] = Load(load, found, narrow(found, mask), len(maps))
        maps.append(found)
    groups = _groups(plan)
    return None if _stays(plan, groups) else Job(loop, plan, loads, groups, stages)


def _groups(plan):
    """The staged loads by the dots that read them first and last."""
    readers = {}
    for dot in plan.dots:
        for load in (plan.source(x)[0] for x in dot.operands[:2]):
            if load is not None and id(load) in plan.loads:
                readers.setdefault(id(load), []).append(dot)
    found = {}
    for key, dots in readers.items():
        found.setdefault((id(dots[0]), id(dots[-1])), Group(dots[0], dots[-1], [])).keys.append(key)
    return list(found.values())


def _stays(plan, groups):
    """True for a loop that is better off with copies of the threads' own: dots share what they read, and threads load
    something besides in every round. On an H200, in different runs, gradients of keys and values took 1.03 and 1.10
    times as long with a copying warp, those of queries, without such loads, 0.75 and 0.88. It seems that several small
    blocks hide the wait for those loads, where one with a copying warp does not."""
    alone = all(group.first is group.last for group in groups)
    return not alone and any(op.kind is ops.load and id(op) not in plan.loads for op in plan.body.ops)


def _staged(plan):
    """True if every load that a dot reads is copied ahead, and lies as the dot wants it or is read back on the left.

    What a side is computed from, weights of few bits for example, the threads would load in the round that needs it;
    copies of their own run ahead.
    """
    for dot in plan.dots:
        for side, x in zip("ab", dot.operands):
            load, turned = plan.source(x)
            fits = side == "a" or load is None or plan.lies_right(dot, load, side, turned)
            if load is not None and not (id(load) in plan.loads and fits):
                return False
            if load is None and any(plan.can_copy(x) for x in plan.behind(x)):
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
    return {x for poly in polys for x in poly.values if x is not ITERATION}


def _pure(x, barred=()):
    """True if a scalar follows from arguments and the program's index alone, without memory or control flow; none of
    them `barred`."""
    todo, seen = [x], set()
    while todo:
        op = todo.pop()
        if any(op is other for other in barred):
            return False
        if type(op) is Arg or id(op) in seen:
            continue
        if type(op) is Result or op.kind.effects or op.regions or type(op.type) is T.Tile:
            return False
        seen.add(id(op))
        todo += op.operands
    return True


__all__ = ["AHEAD", "Found", "Job", "Load", "Opened", "Written", "buffers_of", "bytes_of", "find_jobs", "has_dots",
           "slots_of"]  # fmt: skip
