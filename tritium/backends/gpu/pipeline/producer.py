"""Loops around dots that can be warp-specialized: a producer warp loads tiles, consumer warps multiply them.

The producer warp computes scalars only, so the coordinates of boxes must follow from the kernel's arguments and the
program's index. It runs ahead, so the program must not have written the memory it loads.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from .... import ops
from ....analysis.polynomial import ITERATION, Poly, Scalars, in_order
from ....ir import types as T
from ....ir.core import Arg, Block, Op, Result, walk
from ....ir.rewrite import effects, sweep
from ....named_tuples import NamedTuple
from ....passes.assumed import Assumed
from .. import ops as gpu_ops
from ..analysis.affine import Access, Form, NoBox, access, bounds, box_of, form, narrow
from ..analysis.demanded_rows import unobserved
from ..ops import bytes_of, op_of
from ..tma import ALIGNMENT, HostValues
from .loop_info import LoopInfo, stages_of
from .ping_pong import alternating
from .reordering import Reordering
from .schedule import Prefetched, Schedule, prefetched_loads, schedule_dots, staged_loads

if TYPE_CHECKING:
    from collections.abc import Callable

    from ....ir.builder import Builder
    from ....ir.core import Module, Value
    from ..analysis.preconditions import Row
    from ..cost_model import CostModel
    from ..tma import Tma
    from .capabilities import Capabilities


def has_dots(op: Op) -> bool:
    """True for a dot, and for ops with a dot in a region."""
    return op.kind is ops.dot or any(inner.kind is ops.dot for region in op.regions for inner in walk(region))


class Refused(Exception):
    """Why a kernel gets no producer warp: the op that is refused, what is wrong with it, what helps, and the op that is
    the cause, if it is another."""

    def __init__(self, op: Op, why: str, remedy: str = "", cause: Value | None = None):
        super().__init__(why)
        self.op, self.why, self.remedy, self.cause = op, why, remedy, cause


class Opened:
    """A kernel whose program index and grid are arguments (`places`): the index on each axis, then the grid sizes, then
    the block's `rank` if programs have several `blocks`."""

    def __init__(self, module: Module, cost: CostModel):
        self.original, self.blocks, self.cost = module, module.attrs.get("num_ctas", 1), cost
        self.places = tuple(Arg(T.i32, f"{name}.{x}") for name in ("program", "programs") for x in "xyz")
        self.rank = Arg(T.i32, "rank")
        if self.blocks > 1:
            self.places += (self.rank,)
        swept = sweep(module, self._rule)
        self.module = swept.replace(body=Block([*module.args, *self.places], swept.body.ops))
        self.known = HostValues(module.args, self.places[3:6])

    @functools.cached_property
    def reordering(self) -> Reordering | None:
        """Legality of hoisting loads above stores, in terms of the original module."""
        of_memory = lambda module: [op for op in walk(module.body) if op.regions or op.kind.global_memory]
        before = dict(zip(of_memory(self.module), of_memory(self.original), strict=True))
        return Reordering.of(self.original, Assumed(self.original), before)

    def _rule(self, b: Builder, op: Op) -> Arg | None:
        if op.kind is gpu_ops.block_rank:
            return self.rank
        first = {ops.program_id: 0, ops.num_programs: 3}.get(op.kind)
        return None if first is None else self.places[first + op.attrs["axis"]]

    @property
    def grid(self) -> dict[int, Row]:
        """{number of an argument in `places`: the row of `ir.bounds` for it}."""
        rows = [(kind, "i32", axis) for kind in ("program_id", "num_programs") for axis in range(3)]
        rows += [("between", "i32", 0, self.blocks - 1)] * (self.blocks > 1)
        return dict(enumerate(rows, len(self.original.args)))

    def access(self, pointers: Value, mask: Value | None, scalars: Scalars | None = None) -> Access | None:
        """The box of a tile of pointers, if the host can describe its tensor."""
        return access(pointers, mask, scalars or Scalars(), self.known.__contains__)

    def box(self, load: Op, scalars: Scalars) -> Access:
        """The box of a load; Refused is raised if the host cannot describe its tensor."""
        try:
            return box_of(load.operands[0], load.mask, scalars, self.known.__contains__)
        except NoBox as no:
            found = no.with_traceback(None)
        raise self._refused(load, found)

    def _refused(self, load: Op, no: NoBox) -> Refused:
        if not no.values:
            return Refused(load, no.what,
                           "use a tensor descriptor, or an argument + row * stride + column with bounds as the mask")
        unknown = in_order(x for x in no.values if x is not ITERATION and x not in self.known)
        behind = [y for x in unknown for y in computed_from(x)]
        loaded = next((x for x in behind if type(x) is Op and x.kind is ops.load), None)
        if loaded is not None:
            how = "is loaded in the kernel"
        elif any(x in self.places for x in behind):
            how = "differs between programs"
        elif unknown and type(unknown[0]) is Op and all(type(x) is Op or x in self.known for x in behind):
            how = f"is computed by `{unknown[0].kind.name}`"
        else:
            how = "is computed in a loop or a branch"
        return Refused(load, f"the host cannot describe its tensor before the launch, because {no.what} {how}",
                       "pass it as an argument, the same for all programs", loaded)


class Load(NamedTuple):
    """A load done by TMA: its box, whether its coordinates surely are in range, the number of its tensor map, and the
    number of blocks that multicast it."""

    op: Op
    access: Access
    sure: bool
    number: int
    blocks: int = 1


class RowLoad(NamedTuple):
    """A 1-D load that the producer warp does: its addresses, and the bounds in its mask."""

    op: Op
    form: Form
    limits: tuple

    @property
    def in_one_piece(self) -> bool:
        """True if the row surely lies in one piece of memory, at a multiple of 16 bytes: no driver looks at it."""
        (axis,), size = self.form.axes, self.op.type.element.bytes
        promised = lambda x: x.attrs.get("divisible", 1) if type(x) is Arg else 1
        offset = self.form.offset * Poly.of(size)
        whole = min(promised(self.form.base), offset.divisor(promised), size * self.op.type.numel)
        return axis.step == Poly.of(1) and whole >= ALIGNMENT

    def operands(self, b: Builder, spell: Callable[[Poly], Value]) -> tuple[Value, Value, Value, Value]:
        """Its address, the step from element to element, and the bounds of those that are loaded. `spell` emits a
        polynomial as an i64."""
        lows, highs = ([x[k] for x in self.limits if x[k] is not None] for k in (1, 2))
        low, high = lows[0] if lows else Poly(), highs[0] if highs else Poly.of(self.op.type.numel)
        assert self.form.base is not None
        start = ops.addptr(b, self.form.base, spell(self.form.offset))
        return start, spell(self.form.axes[0].step), spell(low), spell(high)


class Group(NamedTuple):
    """Loads that share an mbarrier: the dots that read them first and last, and the loads."""

    first: Op
    last: Op
    keys: list


class ProducerLoop(NamedTuple):
    """A loop to specialize; each of its loads and rows is in one of the `groups`."""

    op: Op
    schedule: Schedule
    loads: dict
    rows: dict
    groups: list
    stages: int

    def scheduled(self, schedule: Schedule) -> ProducerLoop:
        """The loop with another schedule of the same loads."""
        return self._replace(schedule=schedule, groups=_groups(schedule))


class Written(NamedTuple):
    """A store in the loop around the producer loops: it must be disjoint from the memory they load."""

    op: Op
    access: Access


class Found(NamedTuple):
    """The producer loops of a kernel, the loop around them or None, and the stores of that loop. `ahead` are
    loop-invariant loads before them that TMA does as well, prefetched for the next program."""

    loops: list
    outer: Op | None = None
    writes: tuple = ()
    ahead: tuple = ()


def find_producer_loops(opened: Opened, can: Capabilities, tma: Tma) -> list[Found]:
    """The producer loops of a kernel, if warpgroups can alternate and gain first with such schedules; Refused is raised
    unless all loops around dots can be specialized.

    The kernel writes nothing before the last of them, except in a loop around them, to memory that they do not load.
    """
    body = opened.module.body
    # These need too much shared memory beside the multibuffers, may depend on thread indices, or synchronize the
    # cluster. Dots are checked one by one.
    for op in walk(body):
        if op.kind.cross_lane:
            raise Refused(op, f"`{op.kind.name}` lets all threads exchange elements", "do that in another kernel")
    outer, *others = filter(has_dots, body.ops)
    if others or any(op.kind is ops.dot for region in outer.regions for op in region.ops):
        found = _producer_loops(opened, body, can, tma)
        return [Found(_multicast(opened, loops, None, can, tma), ahead=_ahead(opened, body, loops, can, tma))
                for loops in found]  # fmt: skip
    if outer.kind is not ops.for_:
        raise Refused(outer, "dots are in a branch or a `while` loop", "let a `for` loop over a range have them")
    if not all(map(_pure, outer.operands[:3])):
        raise _loaded_bounds(outer)
    if _written(body, outer):
        raise Refused(outer, "memory is written before the loop", "store behind it, or in another kernel")
    found = [_inside(opened, outer, loops, can, tma)
             for loops in _producer_loops(opened, outer.regions[0], can, tma, outer.regions[0].args[1:])]  # fmt: skip
    if not any(found):
        raise Refused(outer, "what the loop around it writes may be what it loads ahead",
                      "store through descriptors, or with bounds on both axes as the mask, to tensors it does not load")
    return [x for x in found if x is not None]


def _loaded_bounds(loop: Op) -> Refused:
    return Refused(loop, "a bound of the loop is loaded, or computed in a branch or another loop",
                   "pass it as an argument")


def _inside(opened: Opened, outer: Op, loops: list[ProducerLoop], can: Capabilities, tma: Tma) -> Found | None:
    """Producer loops in a loop; None if its stores may write what they load."""
    inside = outer.regions[0]
    ahead = tuple(x for x in _ahead(opened, inside, loops, can, tma, inside.args[1:]) if _bounded(x.access))
    writes = _writes(opened, inside, loops, ahead)
    if writes is None and ahead:
        ahead, writes = (), _writes(opened, inside, loops)
    if writes is None or len(writes) > tma.maps:
        return None
    return Found(_multicast(opened, loops, outer, can, tma), outer, writes, ahead)


def _multicast(opened: Opened, loops: list[ProducerLoop], outer: Op | None, can: Capabilities,
               tma: Tma) -> list[ProducerLoop]:
    """The loops, with boxes that all blocks of a cluster load marked for multicast. The blocks share the mbarriers of
    the slots, so all must run the same iterations."""
    same = lambda values: all(_pure(x, (opened.rank,)) for x in values)
    nest = [*(loop.op for loop in loops), *([] if outer is None else [outer])]
    if opened.blocks == 1 or not all(same(loop.operands[:3]) for loop in nest):
        return loops
    shared = lambda x: same(_values(x.access)) and tma.divides(x.op.type, can.axis(x.op), opened.blocks)
    mark = lambda x: x._replace(blocks=opened.blocks) if shared(x) else x
    return [loop._replace(loads={key: mark(load) for key, load in loop.loads.items()}) for loop in loops]


def _written(block: Block, until: Value) -> bool:
    """True if a block writes memory before one of its ops."""
    before = block.ops[: next(k for k, op in enumerate(block.ops) if op is until)]
    return any(effects(op) == "write" and op.kind is not ops.assume for op in before)


def _producer_loops(opened: Opened, block: Block, can: Capabilities, tma: Tma,
                    barred: tuple[Arg, ...] = ()) -> list[list[ProducerLoop]]:
    """The loops of a block to specialize, with each of their schedules; their loads must not depend on the `barred`
    values."""
    loops, maps = [], []
    for op in filter(has_dots, block.ops):
        if op.kind is not ops.for_:
            raise Refused(op, "a dot is not in a `for` loop", "let every dot be in a `for` loop over a range")
        loops.append(_producer_loop(opened, block, op, can, tma, maps, barred))
    last = loops[-1].op
    if len(maps) > tma.maps:
        raise Refused(last, f"the loops load more than {tma.maps} tensors")
    if _written(block, last):
        raise Refused(last, "memory is written before the loop", "store behind it, or in another kernel")
    alike = lambda loops: len({len(loop.groups) for loop in loops}) == 1  # they share their barriers
    every = [x for x in (alternating(loops), loops) if x is not None]
    found = [x for x in every if alike(x) and slots_of(x, can, tma) > 1]
    if not found and not any(map(alike, every)):
        raise Refused(last, "the loops have different numbers of dots, which wait for their tiles apart")
    if not found:
        raise Refused(last, "the tiles of two iterations do not fit into shared memory", "use smaller tiles")
    return found


def _writes(opened: Opened, block: Block, loops: list[ProducerLoop], ahead: tuple = ()) -> tuple[Written, ...] | None:
    """The stores of the loop around the producer loops; None if it writes anything but bounded boxes, or a tensor that
    is also loaded."""
    found = [load.access for load in (*(load for loop in loops for load in loop.loads.values()), *ahead)]
    if not all(map(_bounded, found)):
        return None
    loaded, writes = {x.base for x in found}, []
    for op in walk(block):
        if op.kind.effects_of(op) != "write" or op.kind is ops.assume:
            continue
        target = opened.access(op.pointer, op.mask) if op.kind is ops.store else None
        if target is None or not _bounded(target) or target.base in loaded:
            return None
        writes.append(Written(op, target))
    return tuple(writes)


def _bounded(found: Access) -> bool:
    """True if the host knows the size of the tensor of an access."""
    return all(dim.size is not None for dim in found.dims)


def buffers_of(loops: list[ProducerLoop], can: Capabilities) -> dict[tuple[T.Tile, int, int, int], list[Op]]:
    """{(tile, axis, group, position): the loads that use the buffer}. Loops run one after the other and share
    the mbarriers of their slots, so they share buffers as well."""
    out = {}
    for loop in loops:
        for group, (*_, keys) in enumerate(loop.groups):
            for place, key in enumerate(keys):
                out.setdefault((key.type, can.axis(key), group, place), []).append(key)
    return out


def slots_of(loops: list[ProducerLoop], can: Capabilities, tma: Tma) -> int:
    """The number of pipeline stages that fit into shared memory."""
    size = sum(bytes_of(tile) for tile, *_ in buffers_of(loops, can))
    return min(*(loop.stages + _is_held_over(loop) for loop in loops), tma.room // size)


def _is_held_over(loop: ProducerLoop) -> bool:
    """True if a slot is held into the next iteration: it cannot be refilled meanwhile."""
    return any(group.first is not group.last and loop.schedule.stays_in_flight(group.last) for group in loop.groups)


AHEAD = 2  # programs with buffers: the current and the next


def _ahead(opened: Opened, block: Block, loops: list[ProducerLoop], can: Capabilities, tma: Tma,
           barred: tuple[Arg, ...] = ()) -> tuple[Load, ...]:
    """The loop-invariant loads that only dots of the loops read, in the layout of memory, if buffers for two programs
    fit. Where several blocks share a multiprocessor, one multiplies while these tiles of another arrive."""
    read, found, schedules = {}, [], [loop.schedule for loop in loops]
    for schedule in schedules:
        for dot in schedule.dots:
            for operand, x in zip("ab", dot.operands):
                if type(x) is Op and x.kind is ops.load and any(x is op for op in block.ops):
                    read.setdefault(x, []).append((schedule, dot, operand))
    readers = lambda x: [op for op in walk(opened.module.body) if any(y is x for y in op.operands)]
    for x, places in read.items():
        if {*readers(x)} == {dot for _, dot, _ in places} and all(
            schedule.info.can_copy(x) and dot.operands[2] is not x and schedule.info.layout_fits(dot, x, operand, False)
            for schedule, dot, operand in places
        ):
            box = opened.access(x.pointer, x.mask)
            if box and not box.ends and not x.attrs["volatile"] and not tma.misfit(x.type, can.axis(x), box):
                if all(_pure(y, barred) for y in _values(box)):
                    found.append(Load(x, box, narrow(box, x.mask), sum(len(loop.loads) for loop in loops) + len(found)))
    used = slots_of(loops, can, tma) * sum(bytes_of(tile) for tile, *_ in buffers_of(loops, can))
    wanted = AHEAD * sum(bytes_of(load.op.type) for load in found)
    fits = used + wanted <= tma.room and found and found[-1].number < tma.maps
    return tuple(found) if fits and can.threads.blocks == 1 else ()


def _producer_loop(opened: Opened, block: Block, op: Op, can: Capabilities, tma: Tma, maps: list,
                   barred: tuple[Arg, ...]) -> ProducerLoop:
    stages, info = stages_of(op, opened.module), LoopInfo.of(op, can, opened.reordering)
    if stages < 2:
        raise Refused(op, f"the loop has {stages} stage", "ask for num_stages=2 or more")
    staged = staged_loads(info)
    if staged is None:
        raise _unstaged(info)
    scalars = Scalars(op)
    alone = opened.blocks == 1 and block is opened.module.body  # a loop around it might store what it loads ahead
    rows = _rows(opened, info, staged, scalars) if alone else {}
    schedule = schedule_dots(info, staged._replace(loads=(*staged.loads, *rows)), "producer", stages)
    if not all(_pure(x, barred) for x in op.operands[:3]):
        raise _loaded_bounds(op)
    dot = _not_staged(schedule)
    if dot is not None and not all(map(info.hoists_over_stores, filter(None, _loads_of(info, dot)))):
        raise _written_in(op)
    if dot is not None:
        raise Refused(dot, "a dot multiplies what is computed from loads, or wants them in another layout", _MULTIPLY)
    loads, inside = {}, {*schedule.body.ops, *schedule.body.args}
    for load in staged.loads:
        found = opened.box(load, scalars)
        if load.attrs["volatile"]:
            raise Refused(load, "the load is volatile")
        misfit = tma.misfit(load.type, can.axis(load), found)
        if misfit:
            raise Refused(load, misfit, "pass pointers and strides that are multiples of 16, and larger tiles")
        if not all(_pure(x, barred) and op_of(x) not in inside for x in _values(found)):
            raise Refused(load, "its place depends on what the loop computes or loads",
                          "compute it from the loop's index, arguments and the program's index")
        if not all(unobserved(block, op, schedule, load, axis, found) for axis in found.ends):
            raise Refused(load, "it reads other rows instead of those behind the end, and these reach a store",
                          "mask the store, or mask the load in place of wrapping its rows")
        loads[load] = Load(load, found, narrow(found, load.mask), len(maps))
        maps.append(found)
    return ProducerLoop(op, schedule, loads, rows, _groups(schedule), stages)


def _rows(opened: Opened, info: LoopInfo, staged: Prefetched, scalars: Scalars) -> dict[Op, RowLoad]:
    """The 1-D loads that the producer warp can do: their places are scalars, and whichever dot is the last to read some
    staged tile needs them, so that they are read before its slot is released."""
    readers = [[dot for dot in info.dots if load in _loads_of(info, dot)] for load in staged.loads]
    inside, out = {*info.body.ops, *info.body.args}, {}
    for load in info.body.ops:
        if load.kind is not ops.load or len(T.shape(load.type)) != 1 or load.attrs["volatile"]:
            continue
        f, limits = form(load.operands[0], scalars), () if load.mask is None else bounds(load.mask, scalars)
        if f is None or limits is None or f.base is None or f.axes[0].wrap or f.axes[0].end or len(limits) > 1:
            continue
        polys = f.offset, f.axes[0].step, *(p for _, *ends in limits for p in ends if p is not None)
        values = {x for poly in polys for x in poly.values if x is not ITERATION}
        placed = f.base in opened.known and all(_pure(x) and op_of(x) not in inside for x in values)
        if placed and info.hoists_over_stores(load) and any(_last_needs(info, dots, load) for dots in readers):
            out[load] = RowLoad(load, f, tuple(limits))
    return out


def _last_needs(info: LoopInfo, dots: list[Op], load: Op) -> bool:
    """True if the last of these dots needs a load, in whatever order they are issued."""
    needs = [dot for dot in dots if info.computed_from(dot, load)]
    return any(all(x in needs or info.computed_from(dot, x) for x in dots) for dot in needs)


def _unstaged(info: LoopInfo) -> Refused:
    """Why no load of a loop is staged for its dots."""
    if not info.dots:
        return Refused(info.loop, "its dots take their operands from registers, or run without tensor cores",
                       "use larger tiles, and f16, bf16 or 8-bit inputs")
    if not info.quiet():
        return _written_in(info.loop)
    found = prefetched_loads(info)
    if found is not None and found.indices:
        return Refused(info.loop, "places that it loads from are loaded in the same iteration",
                       "compute them from the loop's index, arguments and the program's index")
    return Refused(info.loop, "what it multiplies is computed from loads", _MULTIPLY)


def _written_in(loop: Op) -> Refused:
    return Refused(loop, "the loop may write what it loads, or synchronizes, in every iteration",
                   "store behind the loop")


_MULTIPLY = "multiply what is loaded, and scale the product"


def _groups(schedule: Schedule) -> list[Group]:
    """The staged loads, grouped by the dots that read them first and last. A row is in a group whose last dot needs
    it."""
    readers = {}
    for dot in schedule.dots:
        for load in _loads_of(schedule.info, dot):
            if load is not None and load in schedule.loads:
                readers.setdefault(load, []).append(dot)
    found = {}
    for key, dots in readers.items():
        found.setdefault((dots[0], dots[-1]), Group(dots[0], dots[-1], [])).keys.append(key)
    for row in (x for x in schedule.loads if len(x.type.shape) == 1):
        next(group for group in found.values() if schedule.info.computed_from(group.last, row)).keys.append(row)
    return list(found.values())


def _loads_of(info: LoopInfo, dot: Op) -> tuple[Op | None, ...]:
    """The loads that are the operands of a dot, perhaps transposed; None for those that are not."""
    return tuple(info.source(x)[0] for x in dot.operands[:2])


def _not_staged(schedule: Schedule) -> Op | None:
    """A dot that reads a load which is not prefetched, in a layout the dot accepts or as an lhs that is read back.

    An operand computed from loads (weights of few bits for example) would be loaded by the threads in the iteration
    that needs it; cp.async prefetches it.
    """
    for dot in schedule.dots:
        for operand, x in zip("ab", dot.operands):
            load, transposed = schedule.info.source(x)
            fits = operand == "a" or load is None or schedule.info.layout_fits(dot, load, operand, transposed)
            if load is not None and not (load in schedule.loads and fits):
                return dot
            if load is None and any(map(schedule.info.can_copy, schedule.info.loads_behind(x))):
                return dot
    return next((op for op in schedule.body.ops if op.kind is ops.dot and op not in schedule.dots), None)


def _values(found: Access) -> set[Value]:
    """All values an access depends on except the iteration."""
    polys = [found.offset, found.form.offset]
    polys += [p for dim in found.dims for p in (dim.size, dim.stride, dim.start) if p is not None]
    polys += [p for _, low, high in found.limits for p in (low, high) if p is not None]
    polys += [p for axis in found.form.axes if axis.wrap for p in axis.wrap[:2]]
    polys += [axis.end for axis in found.form.axes if axis.end is not None]
    return {x for poly in polys for x in poly.values if x is not ITERATION}


def computed_from(x: Value) -> dict[Value, None]:
    """A scalar, and the values it is computed from, in order."""
    found, open_ = {}, [x]
    while open_:
        x = open_.pop()
        if x not in found:
            found[x] = None
            open_ += x.operands if type(x) is Op else ()
    return found


def _pure(x: Value, barred: tuple[Arg, ...] = ()) -> bool:
    """True if a scalar depends on arguments and the program's index only, without memory or control flow, and on none
    of the `barred` values."""
    todo: list[Any] = [x]
    seen = set()
    while todo:
        op = todo.pop()
        if any(op is other for other in barred):
            return False
        if type(op) is Arg or op in seen:
            continue
        if type(op) is Result or op.kind.effects or op.regions or type(op.type) is T.Tile:
            return False
        seen.add(op)
        todo += op.operands
    return True


__all__ = ["AHEAD", "Found", "Load", "Opened", "ProducerLoop", "Refused", "RowLoad", "Written", "buffers_of",
           "computed_from", "find_producer_loops", "has_dots", "slots_of"]  # fmt: skip
