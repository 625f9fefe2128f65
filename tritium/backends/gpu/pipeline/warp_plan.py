"""The plan of warp specialization: who loads what, into how many slots, and how blocks run programs.

A plan is made at once, never changed, and follows from the module and the target alone. Here a kernel is accepted or
refused; `specialize_warps` emits a plan.

    lifted = LiftedKernel(module)           the kernel, with its program's coordinates as arguments
    find_producer_work(lifted, can, tma)    what the producer warp loads, or why it cannot (`Refused`)
    plans_of(module, target)                the plans, the best first
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .... import ops
from ....ir import types as T
from ....ir.bounds import Pair
from ....ir.core import Block, Module, Op, walk
from ....named_tuples import NamedTuple
from ....passes.regions import trip_count
from ..ops import MIN_TRANSFER, bytes_of
from ..target import Target
from ..tma import Roles, Tma
from .capabilities import Capabilities, capabilities
from .lifted_kernel import LiftedKernel, Refused, computed_from
from .loop_info import LoopInfo, stages_of
from .producer_loop import ProducerLoop
from .producer_work import ProducerWork, find_producer_work, has_dots, slot_bytes, slots_of
from .schedule import prefetched_loads, schedule_dots, setting_of
from .search import CLEARLY, Choice, Estimate, search


class Lengths(NamedTuple):
    """The axis whose program index decides how long loops are, and whether the last programs are the longest."""

    axis: int
    last_longest: bool


class WarpPlan(NamedTuple):
    """How a kernel is specialized.

    slots: stages of the multibuffers. persistent: a block runs several programs, one after the other. reads_one_axis:
    the kernel reads its program index on the first axis only. lengths: None if no axis alone decides them. The last two
    matter to persistent blocks only.
    """

    lifted: LiftedKernel
    can: Capabilities
    tma: Tma
    roles: Roles
    work: ProducerWork
    slots: int
    persistent: bool
    reads_one_axis: bool = False
    lengths: Lengths | None = None

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The accesses of the loops that the launcher must check not to alias."""
        return tuple(pair for loop in self.work.loops for pair in loop.schedule.pairs)

    @property
    def ping_pong(self) -> bool:
        """True if two warpgroups alternate."""
        return self.work.loops[0].schedule.alternates

    @property
    def blocks(self) -> int:
        """The blocks of a cluster whose consumers release a slot: all of them if a box is multicast."""
        return max(load.blocks for load in self.work.loads)

    @property
    def ends_with_last_loop(self) -> bool:
        """True if nothing arrives in buffers, nor at mbarriers, behind the last loop: no other program's tiles, and no
        arrivals from other blocks of a cluster."""
        return not self.persistent and self.work.outer is None and self.lifted.blocks == 1


class Plans(NamedTuple):
    """The plans for a kernel, the best first, and why there is none."""

    plans: tuple[WarpPlan, ...] = ()
    refused: Refused | None = None


def plans_of(module: Module, target: Target) -> Plans:
    """The plans for a kernel; none if its threads should copy for themselves."""
    return module.found_by(_planner(target))


def refusal(module: Module, target: Target) -> Refused | None:
    """Why a kernel gets no producer warp. None if it may get one, has no loop around dots, or its target has no TMA."""
    return plans_of(module, target).refused


@functools.cache
def _planner(target: Target) -> Callable[[Module], Plans]:
    """The analysis `_plans` for a target."""
    return functools.partial(_plans, target=target)


class _Draft(NamedTuple):
    """The work of the producer warp, if registers are shared out in one of the possible ways."""

    roles: Roles
    can: Capabilities
    work: ProducerWork

    @property
    def cycles(self) -> float:
        """Cycles of an iteration of each loop, by the model."""
        return sum(loop.schedule.cycles for loop in self.work.loops)

    @property
    def short(self) -> bool:
        """True if registers are short: some schedule spills."""
        return any(loop.schedule.choice.short for loop in self.work.loops if loop.schedule.choice)


def _plans(module: Module, target: Target) -> Plans:
    tma, loops = target.tma, [op for op in module.body.ops if _multiplies(op)]
    if tma is None or not module.attrs.get("launch_checks") or not loops:
        return Plans()
    ways = _ways(target, tma, module)
    if not ways:
        return Plans((), Refused(loops[0], f"it has {module.attrs['num_warps']} warps", "ask for num_warps=4 or 8"))
    if module.attrs.get("maxnreg"):  # the roles share out all registers
        return Plans((), Refused(loops[0], "`maxnreg` shares out the registers", "leave `maxnreg` out"))
    lifted = LiftedKernel(module)
    drafts, refused = _drafts(lifted, target, tma, ways)
    if not drafts:
        return Plans((), refused)
    plans = tuple(_completed(draft, lifted, target, tma) for draft in drafts)
    # Only a producer warp loads what the blocks of a cluster share once for all.
    if lifted.blocks == 1 and _prefers_copies(module, target, plans[0]):
        return Plans((), Refused(loops[0], "copies by all threads are faster, by the model of the multiprocessor"))
    return Plans(plans)


def _dots(module: Module) -> list[Op]:
    return [op for op in walk(module.body) if op.kind is ops.dot]


def _multiplies(op: Op) -> bool:
    """True for a loop around dots."""
    return op.kind is ops.for_ and has_dots(op)


def _drafts(lifted: LiftedKernel, target: Target, tma: Tma,
            ways: tuple[Roles, ...]) -> tuple[tuple[_Draft, ...], Refused | None]:
    """The drafts of the way that the model finds fastest. Without any: why a producer warp is refused."""
    drafts, refused = (), None
    able = capabilities(target, lifted.module, [])
    for roles in ways:
        # TMA has no masks.
        can = able._replace(vector=lambda load: MIN_TRANSFER, threads=able.threads.consumers(roles))
        try:
            made = tuple(_Draft(roles, can, work) for work in find_producer_work(lifted, can, tma))
        except Refused as no:
            made, refused = (), no.with_traceback(None)
        if made and (not drafts or made[0].cycles < drafts[0].cycles):
            drafts = made
        if not made or not made[0].short:  # more registers would change nothing
            break
    return drafts, refused


def _completed(draft: _Draft, lifted: LiftedKernel, target: Target, tma: Tma) -> WarpPlan:
    """The plan of a draft: how many slots there are, and whether blocks are persistent."""
    roles, can, work = draft
    single = any(map(_synchronizes, walk(lifted.module.body))) or _gains_by_single_programs(draft, lifted, target)
    slots = _slots(draft, lifted, target, tma, single)
    if single:
        return WarpPlan(lifted, can, tma, roles, work, slots, persistent=False)
    return WarpPlan(lifted, can, tma, roles, work, slots, True, _reads_one_axis(lifted), _lengths(lifted, work.loops))


def _prefers_copies(module: Module, target: Target, plan: WarpPlan) -> bool:
    """True if the model gives clearly fewer cycles to the loops if their threads copy for themselves, in the stages
    that were asked for, than with the slots of a plan."""
    cycles, loops = 0.0, plan.work.loops
    choices = [_with_slots(loop, choice, plan.slots) for loop in loops if (choice := loop.schedule.choice)]
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


def _with_slots(loop: ProducerLoop, choice: Choice, slots: int) -> Estimate:
    """What an iteration of a loop takes under its schedule, with so many slots."""
    schedule = loop.schedule
    if slots <= loop.stages:
        return choice.estimate
    again = search(setting_of(schedule.info, schedule.prefetched), [choice.candidate], slots)
    return (again or choice).estimate


# --- occupancy --------------------------------------------------------------------------------------------------------
class _Resident(NamedTuple):
    """The blocks that shared memory allows on a multiprocessor: persistent ones, whose results leave while the next
    tiles arrive, in two pieces if need be; and those that run a single program, so that results may lie where tiles
    have. These start anew with each program: 0 unless loops are known to be long."""

    persistent: int
    single: int

    @staticmethod
    def of(target: Target, module: Module) -> _Resident:
        """Those of a kernel with one dot."""
        dot = _dots(module)[0]
        loops = [op for op in walk(module.body) if _multiplies(op)]
        stages = max(stages_of(op, module) for op in loops)
        tiles, stored = stages * sum(bytes_of(x.type) for x in dot.operands[:2]), _stored_bytes(module)
        fit = lambda taken: target.machine.shared // (taken + _BESIDE_BUFFERS + target.machine.reserved)
        long = len(loops) == 1 and (trip_count(loops[0]) or 0) >= target.cost.single_trips
        return _Resident(fit(tiles + stored // 2), fit(max(tiles, stored)) if long else 0)


_BESIDE_BUFFERS = 1024  # bytes of a block: mbarriers, alignment


def _stored_bytes(module: Module) -> int:
    """What the largest result takes on its way to memory."""
    stored = [op.operands[1].type for op in walk(module.body) if op.kind is ops.store]
    return max((bytes_of(x) for x in stored if type(x) is T.Tile), default=0)


def _ways(target: Target, tma: Tma, module: Module) -> tuple[Roles, ...]:
    """The ways to give a kernel a producer warp.

    A kernel of one small dot does better with a single extra warp, and threads that keep the registers they begin with,
    if a multiprocessor then holds more blocks: they hide each other's latency, and more programs run at once."""
    dots, warps = _dots(module), module.attrs["num_warps"]
    ways = tma.warps(warps, max(dot.type.shape[-1] for dot in dots))
    if len(dots) > 1 or not ways or module.attrs.get("num_ctas", 1) > 1:
        return ways
    beside = target.cost.beside_loaded_sums if _loads_beside_sums(module.body) else target.cost.beside_sums
    each = dots[0].type.numel // (target.warp_size * warps) + beside
    resident = _Resident.of(target, module)
    more = min(max(resident), target.machine.programs_of(warps + 1, each))
    usual = target.machine.programs_of(warps + ways[0].extra, ways[0].first)
    if more <= min(resident.persistent, usual):
        return ways
    return (Roles(1, 0, 0, target.machine.registers_of(more * (warps + 1))),)


def _loads_beside_sums(block: Block) -> bool:
    """True if a kernel loads tiles outside of the loop around its dot: a bias, or what results are added to."""
    if any(op.kind is ops.dot for op in block.ops):
        return False
    loads = (op.kind is ops.load and type(op.type) is T.Tile for op in block.ops)
    return any(loads) or any(_loads_beside_sums(region) for op in block.ops for region in op.regions)


def _by_registers(roles: Roles, lifted: LiftedKernel, target: Target) -> int:
    """The blocks that registers allow on a multiprocessor."""
    return target.machine.programs_of(lifted.module.attrs["num_warps"] + roles.extra, roles.first)


def _slots(draft: _Draft, lifted: LiftedKernel, target: Target, tma: Tma, single: bool) -> int:
    """The stages of the loops. Small tiles get more than were asked for: a few would wait for L2 each time. So does a
    persistent product, as many as find room beside those of the other blocks: a slot is not filled again before the
    dot that reads it has ended. Blocks that run a `single` program each are there for their number."""
    (roles, can, work), module, machine = draft, lifted.module, target.machine
    asked = slots_of(work.loops, can, tma)
    if work.ahead or lifted.blocks > 1:
        return asked
    size, blocks = slot_bytes(work.loops, can), _by_registers(roles, lifted, target)

    def room(blocks: int, pieces: int = 1) -> int:
        """Slots of each block, where results go to memory in so many pieces."""
        return min(machine.shared_of(blocks) - _stored_bytes(module) // pieces - _BESIDE_BUFFERS, tma.room) // size

    least = max(asked, min(target.cost.loaded_ahead // size, room(blocks)))
    dots = _dots(module)
    if single or len(dots) > 1:
        return least
    least, pieces = max(least, min(target.cost.least_slots, room(1))), 2
    if roles.extra == 1:  # registers are a limit, not what it takes; results are cut for as many blocks as that allows
        warps = module.attrs["num_warps"]
        taken = dots[0].type.numel // (target.warp_size * warps) + target.cost.fewest_beside_sums
        blocks, pieces = machine.programs_of(warps + 1, taken), 1
    while blocks > 1 and room(blocks, pieces) < least:
        blocks -= 1
    whole = room(blocks)
    return max(least, whole if whole >= least else room(blocks, pieces))


# --- programs ---------------------------------------------------------------------------------------------------------
def _synchronizes(op: Op) -> bool:
    """True if an op may wait for other programs, signal them, or show the host which program runs it."""
    if op.kind is ops.load:
        return op.attrs["volatile"]
    return op.kind is ops.while_ or (op.kind.effects_of(op) == "write" and op.kind not in (ops.store, ops.assume))


def _gains_by_single_programs(draft: _Draft, lifted: LiftedKernel, target: Target) -> bool:
    """True if more blocks find room where each runs a single program, so is not persistent."""
    roles, _, work = draft
    if roles.extra > 1 or work.outer is not None:
        return False
    resident = _Resident.of(target, lifted.module)
    return resident.persistent < min(resident.single, _by_registers(roles, lifted, target))


def _reads_one_axis(lifted: LiftedKernel) -> bool:
    """True if the kernel reads its program index on the first axis only."""
    other = {*lifted.coordinates[1:3]}
    return not any(x in other for op in walk(lifted.module.body) for x in op.operands)


def _lengths(lifted: LiftedKernel, loops: list[ProducerLoop]) -> Lengths | None:
    """The axis that decides how long a loop is; None if it is none or several."""
    axes = lifted.coordinates[:3]
    deciding = lambda k: {x for loop in loops for x in computed_from(loop.op.operands[k]) if x in axes}
    starts, ends = deciding(0), deciding(1)
    if len(starts | ends) != 1:
        return None
    (axis,) = starts | ends
    return Lengths(axes.index(axis), axis in ends)
