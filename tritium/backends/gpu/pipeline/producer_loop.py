"""A loop around dots that a producer warp can load for: its boxes, its rows, and the groups that share an mbarrier."""

from __future__ import annotations

from .... import ops
from ....analysis.polynomial import ITERATION, Poly, Scalars
from ....ir import types as T
from ....ir.core import Arg, Block, Op, op_of
from ....named_tuples import NamedTuple
from ..analysis.affine import Access, Form, bounds, form, narrow
from ..analysis.demanded_rows import unobserved
from ..tma import ALIGNMENT, Tma
from .capabilities import Capabilities
from .lifted_kernel import LiftedKernel, Refused, is_pure, values_of
from .loop_info import LoopInfo, stages_of
from .schedule import Prefetched, Schedule, prefetched_loads, schedule_dots, staged_loads


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


class Group(NamedTuple):
    """Loads that share an mbarrier: the dots that read them first and last, and the loads."""

    first: Op
    last: Op
    loads: list[Op]


class ProducerLoop(NamedTuple):
    """A loop to specialize; each of its loads and rows is in one of the `groups`."""

    op: Op
    schedule: Schedule
    loads: dict[Op, Load]
    rows: dict[Op, RowLoad]
    groups: list[Group]
    stages: int

    def scheduled(self, schedule: Schedule) -> ProducerLoop:
        """The loop with another schedule of the same loads."""
        return self._replace(schedule=schedule, groups=_groups(schedule))


def producer_loop(lifted: LiftedKernel, block: Block, op: Op, can: Capabilities, tma: Tma, number: int,
                  barred: tuple[Arg, ...]) -> ProducerLoop:
    """The loop `op` of a block, with tensor maps from `number` on; its loads must not depend on the `barred` values.
    Refused is raised if no producer warp can load for it."""
    stages, info = stages_of(op, lifted.module), LoopInfo.of(op, can, lifted.reordering)
    if stages < 2:
        raise Refused(op, f"the loop has {stages} stage", "ask for num_stages=2 or more")
    staged = staged_loads(info)
    if staged is None:
        raise _unstaged(info)
    scalars = Scalars(op)
    alone = lifted.blocks == 1 and block is lifted.module.body  # a loop around it might store what it loads ahead
    rows = _rows(lifted, info, staged, scalars) if alone else {}
    schedule = schedule_dots(info, staged._replace(loads=(*staged.loads, *rows)), "producer", stages)
    if not all(is_pure(x, barred) for x in op.operands[:3]):
        raise loaded_bounds(op)
    dot = _not_staged(schedule)
    if dot is not None and not all(map(info.hoists_over_stores, filter(None, _loads_of(info, dot)))):
        raise _written_in(op)
    if dot is not None:
        raise Refused(dot, "a dot multiplies what is computed from loads, or wants them in another layout", _MULTIPLY)
    loads, inside = {}, {*schedule.body.ops, *schedule.body.args}
    for load in staged.loads:
        found = lifted.box(load, scalars)
        if load.attrs["volatile"]:
            raise Refused(load, "the load is volatile")
        misfit = tma.misfit(load.type, can.axis(load), found)
        if misfit:
            raise Refused(load, misfit, "pass pointers and strides that are multiples of 16, and larger tiles")
        if not all(is_pure(x, barred) and op_of(x) not in inside for x in values_of(found)):
            raise Refused(load, "its place depends on what the loop computes or loads",
                          "compute it from the loop's index, arguments and the program's index")
        if not all(unobserved(block, op, schedule, load, axis, found) for axis in found.ends):
            raise Refused(load, "it reads other rows instead of those behind the end, and these reach a store",
                          "mask the store, or mask the load in place of wrapping its rows")
        loads[load] = Load(load, found, narrow(found, load.mask), number + len(loads))
    return ProducerLoop(op, schedule, loads, rows, _groups(schedule), stages)


def _rows(lifted: LiftedKernel, info: LoopInfo, staged: Prefetched, scalars: Scalars) -> dict[Op, RowLoad]:
    """The 1-D loads that the producer warp can do: their places are scalars, and whichever dot is the last to read some
    staged tile needs them, so that they are read before its slot is released."""
    readers = [[dot for dot in info.dots if load in _loads_of(info, dot)] for load in staged.loads]
    inside, out = {*info.body.ops, *info.body.args}, {}
    for load in info.body.ops:
        if load.kind is not ops.load or len(T.shape(load.type)) != 1 or load.attrs["volatile"]:
            continue
        f, limits = form(load.operands[0], scalars), () if load.mask is None else bounds(load.mask, scalars)
        if f is None or limits is None or f.base is None or f.axes[0].wrap or f.axes[0].end:
            continue
        if len(limits) > 1 or any(axis is None for axis, *_ in limits):
            continue
        polys = f.offset, f.axes[0].step, *(p for _, *ends in limits for p in ends if p is not None)
        values = {x for poly in polys for x in poly.values if x is not ITERATION}
        placed = f.base in lifted.known and all(is_pure(x) and op_of(x) not in inside for x in values)
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


def loaded_bounds(loop: Op) -> Refused:
    return Refused(loop, "a bound of the loop is loaded, or computed in a branch or another loop",
                   "pass it as an argument")


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
    for load, dots in readers.items():
        found.setdefault((dots[0], dots[-1]), Group(dots[0], dots[-1], [])).loads.append(load)
    for row in (x for x in schedule.loads if len(x.type.shape) == 1):
        next(group for group in found.values() if schedule.info.computed_from(group.last, row)).loads.append(row)
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
