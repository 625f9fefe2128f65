"""The pipeline schedule of a loop: what is prefetched, where dots find their operands, which dots stay in flight.

A schedule is made at once, never changed, and can be printed. Here is what is legal; `search` chooses among it.
`software_pipeline`, `specialize_warps` and `prefetch_loads` emit a schedule; `swap_operands` and
`eliminate_redundant_loads` ask for the loads only.

    info = LoopInfo.of(loop, capabilities)      what there is
    loads = prefetched_loads(info)              what is loaded early, or None
    schedule = schedule_dots(info, loads, ...)  the schedule
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .... import ops
from ....ir import types as T
from ....ir.core import Block, Op, Value, op_of
from ....ir.rewrite import effects, inputs
from ....named_tuples import NamedTuple
from .loop_info import LoopInfo, untransposed
from .search import Candidate, Choice, Setting, search


class Prefetched(NamedTuple):
    """What a schedule loads early.

    loads: into multibuffers. params: the positions of the loop-carried values that addresses depend on. index_loads:
    the loads that addresses depend on. indices: those of them that are carried in registers, as they depend on no other
    of them.
    """

    loads: tuple[Op, ...]
    params: tuple[int, ...]
    index_loads: tuple[Op, ...]
    indices: tuple[Op, ...]


class Operand(NamedTuple):
    """Where a dot finds an operand.

    where: a "slot" of a multibuffer; a buffer that is filled "outside" of the loop; "registers"; or a buffer "written"
    in each iteration. load: the one that defines the operand, perhaps transposed. axis: the contiguous axis.
    """

    where: str
    load: Op | None
    axis: int

    @property
    def in_place(self) -> bool:
        """True if no iteration rewrites the buffer before the dot is finished."""
        return self.where in ("slot", "outside")


@dataclass(frozen=True, eq=False)
class Schedule:
    """The schedule of a loop."""

    info: LoopInfo
    prefetched: Prefetched
    pairs: tuple  # of accesses that the launcher must check not to alias
    axes: Mapping[Op, int]  # the contiguous axis of each prefetched load
    dots: tuple[Op, ...]  # asynchronous MMAs in the order of issue
    by_threads: tuple[Op, ...]  # dots that threads compute from buffers
    operands: Mapping[tuple[Op, str], Operand]  # of all dots on buffers: (dot, "a" or "b") -> where it is
    issued_first: tuple[Op, ...]  # dots that are issued together at the start of an iteration
    in_flight: tuple[int, ...]  # positions of the loop-carried results of dots that stay in flight over the back edge
    unrounded: Mapping[Op, tuple]  # dot in flight -> its lhs before the rounding, and the order of its axes or None
    chained: frozenset[Op]  # dots whose result only the next dot reads, as its accumulator
    choice: Choice | None  # why it was chosen; None without asynchronous MMAs

    @property
    def loop(self) -> Op:
        """The loop."""
        return self.info.loop

    @property
    def body(self) -> Block:
        """The body of the loop."""
        return self.info.body

    @property
    def loads(self) -> tuple[Op, ...]:
        """The loads that are prefetched into multibuffers."""
        return self.prefetched.loads

    @property
    def staying(self) -> list[Value]:
        """The dots that stay in flight across the back edge."""
        return [self.body.yields[k] for k in self.in_flight]

    def stays_in_flight(self, dot: Op) -> bool:
        """True if a dot stays in flight across the back edge."""
        return any(dot is x for x in self.staying)

    @property
    def alternates(self) -> bool:
        """True if two warpgroups alternate."""
        return self.choice is not None and self.choice.candidate.mode == "ping_pong"

    @property
    def cycles(self) -> float:
        """Cycles of an iteration, by the model."""
        return self.choice.estimate.cycles if self.choice else 0.0

    def early_operands(self) -> list[tuple[Value, int]]:
        """The operands that iterations write into buffers and that depend on no dot, with their contiguous axes."""
        found = [(_value(dot, which), x) for (dot, which), x in self.operands.items()]
        return [(value, x.axis) for value, x in found if x.where == "written" and not self.info.needs_dots(value)]

    def outer_operands(self) -> dict[tuple[Value, str], int]:
        """The loop-invariant operands that go into shared memory: (value, "a" or "b") -> contiguous axis."""
        found = self.operands.items()
        return {(_value(dot, which), which): x.axis for (dot, which), x in found if x.where == "outside"}


def _value(dot: Op, which: str) -> Value:
    return dot.operands["ab".index(which)]


# --- loads ------------------------------------------------------------------------------------------------------------
def staged_loads(info: LoopInfo) -> Prefetched | None:
    """The loads that only asynchronous MMAs read, if pipelining is legal and gains: there is one, and no address
    depends on another load."""
    loads = _direct_loads(info)
    found = _with_slice(info, loads) if loads else None
    return None if found is None or found.indices else found


def prefetched_loads(info: LoopInfo) -> Prefetched | None:
    """As `staged_loads`, but loads are also prefetched if a dot reads them from registers, if its operand is computed
    from them, or if their addresses depend on other loads. So are 1-D tiles (scales, row sums)."""
    more: dict[Op, None] = {}
    for dot in (*info.dots, *info.in_registers, *info.by_threads):
        for x in dot.operands[:2]:
            more |= dict.fromkeys(filter(info.can_copy, info.loads_behind(x)))
    if more and info.quiet():
        found = _with_slice(info, dict.fromkeys((*_direct_loads(info), *more)))
        if found is not None:
            return _with_rows(info, found)
    staged = staged_loads(info)
    return None if staged is None else _with_rows(info, staged)


def register_loads(info: LoopInfo, cost: Callable[[Op], int], room: int) -> Prefetched | None:
    """Loads to prefetch into registers (`indices`), each with the loads it depends on, in program order until `room` is
    spent; None if there are none."""
    chosen: set[Op] = set()
    for load in (op for op in info.body.ops if op.kind is ops.load and info.hoists_over_stores(op)):
        found = _slice_of(info, [load], ())
        more = chosen.union((load, *found[1])) if found is not None else chosen
        chosen = more if sum(map(cost, more)) <= room else chosen
    indices = tuple(op for op in info.body.ops if op in chosen)
    params, _ = _slice_of(info, indices, ()) or ((), ())
    return Prefetched((), params, indices, indices) if chosen else None


def _direct_loads(info: LoopInfo) -> dict[Op, None]:
    """The loads that only asynchronous MMAs read, in order."""
    loads: dict[Op, None] = {}
    if not info.dots or not info.quiet():
        return loads
    for dot in info.dots:
        for operand, x in zip("ab", dot.operands):
            load, transposed = info.source(x)
            if load is None or not info.can_copy(load):
                continue
            if not transposed or operand == "a" or info.layout_fits(dot, load, operand, transposed):
                loads[load] = None
    return dict.fromkeys(filter(info.feeds_only_dots, loads))


def _with_rows(info: LoopInfo, found: Prefetched) -> Prefetched | None:
    """With 1-D tiles as well: read back from a buffer they take any layout."""
    rows = [op for op in info.body.ops if op.kind is ops.load and len(T.shape(op.type)) == 1]
    rows = [op for op in rows if op not in found.index_loads and info.can_prefetch(op)]
    rows = [op for op in rows if not info.needs_loads(op)]
    return _with_slice(info, dict.fromkeys((*found.loads, *rows)))


def _with_slice(info: LoopInfo, loads: Mapping[Op, None]) -> Prefetched | None:
    """The loads with the slice of the body that computes their addresses; None if it contains one of them, or an op
    with which effects."""
    found = _slice_of(info, loads, loads)
    if found is None:
        return None
    params, loaded = found
    indices = tuple(op for op in loaded if not any(info.computed_from(op, x) for x in loaded))
    return Prefetched(tuple(loads), params, loaded, indices)


def _slice_of(info: LoopInfo, loads: Iterable[Op],
              prefetched: Container[Op]) -> tuple[tuple[int, ...], tuple[Op, ...]] | None:
    """(positions of loop-carried values, other loads) that the operands of `loads` depend on; None if the slice
    contains a prefetched load or an op with which effects."""
    params, seen = set(), set()
    todo = [x for load in loads for x in load.operands]
    carried = {arg: k for k, arg in enumerate(info.body.args[1:])}
    while todo:
        x = todo.pop()
        op = op_of(x)
        if op in carried and carried[op] not in params:
            params.add(carried[op])
            todo.append(info.body.yields[carried[op]])
        elif op in info.inside and op not in seen:
            if op in prefetched or effects(op) and not (op.kind is ops.load and info.hoists_over_stores(op)):
                return None
            if not info.can_clone(op):
                return None
            seen.add(op)
            todo += inputs(op)
    return tuple(sorted(params)), tuple(op for op in info.body.ops if op.kind is ops.load and op in seen)


# --- dots -------------------------------------------------------------------------------------------------------------
def schedule_dots(info: LoopInfo, prefetched: Prefetched, mode: str = "copies", stages: int = 2) -> Schedule:
    """The schedule of a loop with these loads, in multibuffers of so many stages; `mode` as in `Candidate`."""
    setting = setting_of(info, prefetched)
    choice = search(setting, _candidates(setting, mode), stages) if info.dots else None
    return _schedule(setting, prefetched, choice)


def schedule_in_place(info: LoopInfo) -> Schedule:
    """The schedule of a loop that loads nothing early: its asynchronous MMAs, one after the other."""
    nothing = Prefetched((), (), (), ())
    return _schedule(setting_of(info, nothing), nothing, None)


def setting_of(info: LoopInfo, prefetched: Prefetched) -> Setting:
    """What the schedules of a loop with these loads have in common."""
    loads = {load: info.can.axis(load) for load in prefetched.loads}
    operands = {(dot, which): _operand(info, loads, dot, which) for dot in info.dots for which in "ab"}
    return Setting(info, loads, operands, info.can.threads)


def schedule_ping_pong(schedule: Schedule, stages: int) -> Schedule | None:
    """The schedule of the same loop in which two warpgroups alternate; None if that is illegal."""
    setting = setting_of(schedule.info, schedule.prefetched)
    found = [x for x in _candidates(setting, "ping_pong") if _can_alternate(setting, x)]
    choice = search(setting, found, stages)
    return _schedule(setting, schedule.prefetched, choice) if choice else None


def _schedule(setting: Setting, prefetched: Prefetched, choice: Choice | None) -> Schedule:
    info, loads, found = setting.info, setting.loads, setting.operands
    staying, first = (choice.candidate.in_flight, choice.candidate.first) if choice else ((), ())
    dots = setting.order(first)
    by_threads = tuple(dot for dot in info.by_threads if all(x in loads for x in _sources(info, dot)))
    operands = {(dot, which): found[dot, which] for dot in dots for which in "ab"}
    operands |= {(dot, which): _register_operand(info, dot, which) for dot in info.in_registers for which in "ab"}
    operands |= {(dot, which): _buffer_operand(info, dot, which) for dot in by_threads for which in "ab"}
    unrounded = {dot: info.unrounded(dot) for dot in staying}
    return Schedule(
        info,
        prefetched,
        info.pairs(dict.fromkeys((*prefetched.loads, *prefetched.index_loads, *info.behind_stores()))),
        loads,
        dots,
        by_threads,
        operands,
        first,
        tuple(k for k, out in enumerate(info.body.yields) if out in staying),
        {dot: x for dot, x in unrounded.items() if x is not None},
        setting.chained,
        choice,
    )


# --- legal schedules --------------------------------------------------------------------------------------------------
def _candidates(setting: Setting, mode: str) -> Iterator[Candidate]:
    """The legal candidates for a loop, those with more dots in flight first."""
    info, operands = setting.info, setting.operands
    outs = enumerate(info.body.yields)
    for staying in _subsets([out for k, out in outs if _may_stay_in_flight(info, operands, k, out)]):
        first = tuple(dot for dot in info.dots if dot not in staying and _can_begin(setting, dot))
        if len(first) > 1:
            yield Candidate(mode, staying, first)
        yield Candidate(mode, staying)


def _subsets(dots: Sequence[Op]) -> list[tuple[Op, ...]]:
    """The subsets of some dots, the largest first; of many only all and none."""
    sizes = range(len(dots), -1, -1) if len(dots) <= 3 else (len(dots), 0)
    return [found for size in sizes for found in itertools.combinations(dots, size)]


def _may_stay_in_flight(info: LoopInfo, operands: Mapping, k: int, dot: Value) -> bool:
    """True if loop-carried value `k` is the result of a dot that may stay in flight across the back edge."""
    if type(dot) is not Op or dot not in info.dots:
        return False
    arg = info.body.args[1 + k]
    if sum(y is dot or y is arg for y in info.body.yields) != 1 or not _operands_stay(info, operands, dot):
        return False
    if info.sum_of(dot) == k:
        return True
    return not info.users(dot) and dot.operands[2] is not arg and info.follow_other_dots(info.users(arg), dot)


def _operands_stay(info: LoopInfo, operands: Mapping, dot: Op) -> bool:
    """True if no operand of a dot is overwritten before the dot is waited for: each is in a buffer, or the lhs is in
    registers that depend on another dot or are rounded after this one finished."""
    left = dot.operands[0]
    stays = operands[dot, "a"].in_place or type(left) is Op and info.follows_other_dot(left, dot)
    return (stays or info.unrounded(dot) is not None) and operands[dot, "b"].in_place


def _can_alternate(setting: Setting, candidate: Candidate) -> bool:
    """True if two warpgroups may alternate: an iteration starts with dots whose results are used before the last dot,
    which stays in flight, and each warpgroup multiplies rows of its own."""
    *openers, last = setting.order(candidate.first)
    if setting.groups != 2 or candidate.in_flight != (last,) or not setting.info.follows_other_dot(last, last):
        return False
    if len(openers) != max(1, len(candidate.first)) or not all(_can_begin(setting, dot) for dot in openers):
        return False
    rows = setting.groups * setting.threads.multiprocessor.mma_rows
    return all(dot.type.shape[0] >= rows for dot in setting.info.dots)


def _can_begin(setting: Setting, dot: Op) -> bool:
    """True if a dot depends on no other dot of its iteration, and its rhs needs no copy to a buffer."""
    return setting.operands[dot, "b"].in_place and not any(map(setting.info.needs_dots, dot.operands))


def _operand(info: LoopInfo, loads: Mapping[Op, int], dot: Op, which: str) -> Operand:
    """Where an asynchronous MMA finds an operand."""
    x = _value(dot, which)
    load, transposed = info.source(x)
    if load is not None and load in loads:
        axis = 1 - loads[load] if transposed else loads[load]
        if info.can.takes(dot, which, axis):
            return Operand("slot", load, axis)
        return Operand("registers", load, axis) if which == "a" else Operand("written", load, info.best_axis(dot))
    if info.outside(x) and loads:
        return Operand("outside", None, _outside_axis(info, dot, which))
    if info.outside(untransposed(x)[0]) and not loads:
        return Operand("outside", None, _memory_axis(info, dot, which))
    if which == "b":
        return Operand("written", load, info.best_axis(dot))
    axis = info.best_lhs_axis(dot)
    if not loads and (axis is not None or not info.can.lhs_once(dot)):
        return Operand("written", load, 1 if axis is None else axis)
    return Operand("written", None, 0) if _is_better_written(info, dot) else Operand("registers", load, 1)


def _outside_axis(info: LoopInfo, dot: Op, which: str) -> int:
    """The contiguous axis of a loop-invariant operand in its buffer. An rhs that is also the lhs of a dot lies as that
    does, if its dot can read it so: one buffer is enough."""
    if which == "a":
        return 1
    is_lhs = any(other.operands[0] is dot.operands[1] for other in info.dots)
    return 1 if is_lhs and info.can.takes(dot, "b", 1) else 0


def _memory_axis(info: LoopInfo, dot: Op, which: str) -> int:
    """The contiguous axis of a loop-invariant operand in memory, if its dot can read it so, else that along K."""
    x, transposed = untransposed(_value(dot, which))
    axis = info.can.axis(x) if type(x) is Op and x.kind is ops.load else 1
    axis = 1 - axis if transposed else axis
    return axis if info.can.takes(dot, which, axis) else int(which == "a")


def _is_better_written(info: LoopInfo, dot: Op) -> bool:
    """True for an lhs that is the transpose of a computed tile, if the dot can read it along the other axis: on its way
    to registers it would go through shared memory as well."""
    x = dot.operands[0]
    transposed = type(x) is Op and x.kind is ops.trans and x.attrs["order"] == (1, 0) and info.needs_dots(x)
    return transposed and info.can.takes(dot, "a", 0)


def _register_operand(info: LoopInfo, dot: Op, which: str) -> Operand:
    """For an MMA on registers; an operand in a buffer is read back."""
    where = "outside" if info.outside(_value(dot, which)) else "registers"
    return Operand(where, None, 1 if which == "a" else 0)


def _buffer_operand(info: LoopInfo, dot: Op, which: str) -> Operand:
    """For threads, which read buffers along any axis."""
    load, transposed = info.source(_value(dot, which))
    if load is None:
        return Operand("outside", None, 1 if which == "a" else 0)
    axis = info.can.axis(load)
    return Operand("slot", load, 1 - axis if transposed else axis)


def _sources(info: LoopInfo, dot: Op) -> list[Op]:
    return [load for load, _ in map(info.source, dot.operands[:2]) if load is not None]
