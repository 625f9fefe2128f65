"""The pipeline schedule of a loop: what is prefetched, where dots find their operands, which dots stay in flight.

A schedule is the result of an analysis: it is made at once, never changed, and can be printed. `software_pipeline`,
`specialize_warps` and `prefetch_loads` emit it; `swap_operands` and `eliminate_redundant_loads` ask for the loads only.

    info = LoopInfo.of(loop, capabilities)      what there is
    loads = prefetched_loads(info)              what is loaded early, or None
    schedule = schedule_dots(info, loads)       the schedule
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from .... import ops
from ....ir import types as T
from ....ir.core import Block, Op, Result, Value
from ....ir.rewrite import effects
from .loop_info import LoopInfo


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
    """The schedule of a loop. `print` shows it, an op as its kind and its place in the body:

        prefetch load 5 (axis 1), load 11 (axis 1); ahead: the index
        dot 12: a in the slot of load 5 (axis 1), b in the slot of load 11 (axis 1); stays in flight
    """

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

    def stays_in_flight(self, dot: Op) -> bool:
        """True if a dot stays in flight across the back edge."""
        return any(dot is self.body.yields[k] for k in self.in_flight)

    def can_begin(self, dot: Op) -> bool:
        """True if a dot depends on no other dot of its iteration, and its rhs needs no copy to a buffer."""
        return _can_begin(self.info, self.operands, dot)

    def outer_operands(self) -> dict[tuple[Value, str], int]:
        """The loop-invariant operands that go into shared memory: (value, "a" or "b") -> contiguous axis."""
        found = self.operands.items()
        return {(_value(dot, which), which): x.axis for (dot, which), x in found if x.where == "outside"}

    def __str__(self) -> str:
        dots = dict.fromkeys(dot for dot, _ in self.operands)
        return "\n".join((_loads_text(self), *(_dot_text(self, dot) for dot in dots)))


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
        op = x.op if type(x) is Result else x
        if op in carried and carried[op] not in params:
            params.add(carried[op])
            todo.append(info.body.yields[carried[op]])
        elif op in info.inside and op not in seen:
            if op in prefetched or effects(op) and not (op.kind is ops.load and info.hoists_over_stores(op)):
                return None
            if info.captures(op):
                return None
            seen.add(op)
            todo += op.operands
    return tuple(sorted(params)), tuple(op for op in info.body.ops if op.kind is ops.load and op in seen)


# --- dots -------------------------------------------------------------------------------------------------------------
def schedule_dots(info: LoopInfo, prefetched: Prefetched, copies: bool = False) -> Schedule:
    """The schedule of a loop with these loads. With `copies`, the threads that multiply also copy: they hold addresses
    and have fewer registers for results."""
    loads = {load: info.can.axis(load) for load in prefetched.loads}
    found = {(dot, which): _operand(info, loads, dot, which) for dot in info.dots for which in "ab"}
    in_flight = tuple(k for k, out in enumerate(info.body.yields) if _may_stay_in_flight(info, found, k, out))
    if copies:
        in_flight = tuple(k for k in in_flight if info.can.holds(_at_once(info, found, info.body.yields[k])))
    staying = [info.body.yields[k] for k in in_flight]
    first = _issued_first(info, found, [dot for dot in info.dots if dot not in staying])
    dots = (*first, *(dot for dot in info.dots if dot not in first))
    by_threads = tuple(dot for dot in info.by_threads if all(x in loads for x in _sources(info, dot)))
    operands = {(dot, which): found[dot, which] for dot in dots for which in "ab"}
    operands |= {(dot, which): _register_operand(info, dot, which) for dot in info.in_registers for which in "ab"}
    operands |= {(dot, which): _buffer_operand(info, dot, which) for dot in by_threads for which in "ab"}
    unrounded = {dot: info.unrounded(dot) for dot in staying}
    return Schedule(
        info,
        prefetched,
        info.pairs((*prefetched.loads, *prefetched.index_loads)),
        loads,
        dots,
        by_threads,
        operands,
        first,
        in_flight,
        {dot: x for dot, x in unrounded.items() if x is not None},
        frozenset(filter(info.chains_into_next, info.dots)),
    )


def _operand(info: LoopInfo, loads: Mapping[Op, int], dot: Op, which: str) -> Operand:
    """Where an asynchronous MMA finds an operand."""
    x = _value(dot, which)
    load, transposed = info.source(x)
    if load is not None and load in loads:
        axis = 1 - loads[load] if transposed else loads[load]
        if info.can.takes(dot, which, axis):
            return Operand("slot", load, axis)
        return Operand("registers", load, axis) if which == "a" else Operand("written", load, info.best_axis(dot))
    if info.outside(x):
        return Operand("outside", None, 1 if which == "a" else 0)
    return Operand("registers", load, 1) if which == "a" else Operand("written", load, info.best_axis(dot))


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


def _may_stay_in_flight(info: LoopInfo, operands: Mapping, k: int, dot: Value) -> bool:
    """True if loop-carried value `k` is the result of a dot that may stay in flight across the back edge."""
    if type(dot) is not Op or dot not in info.dots:
        return False
    arg = info.body.args[1 + k]
    if sum(y is dot or y is arg for y in info.body.yields) != 1 or info.users(dot):
        return False
    if not _operands_stay(info, operands, dot):
        return False
    return info.sum_of(dot) == k or dot.operands[2] is not arg and info.follow_other_dots(info.users(arg), dot)


def _operands_stay(info: LoopInfo, operands: Mapping, dot: Op) -> bool:
    """True if no operand of a dot is overwritten before the dot is waited for: each is in a buffer, or the lhs is in
    registers that depend on another dot or are rounded after this one finished."""
    left = dot.operands[0]
    stays = operands[dot, "a"].in_place or type(left) is Op and info.follows_other_dot(left, dot)
    return (stays or info.unrounded(dot) is not None) and operands[dot, "b"].in_place


def _at_once(info: LoopInfo, operands: Mapping, dot: Op) -> list[T.Tile]:
    """Tiles live at once while a dot stays in flight: its lhs if in registers, the loop-carried tiles, and the largest
    result computed meanwhile."""
    others = [x.type for x in info.dots if x is not dot and x not in info.body.yields]
    carried = [x.type for x in info.body.args[1:] if type(x.type) is T.Tile and len(x.type.shape) > 1]
    left = [] if operands[dot, "a"].in_place else [dot.operands[0].type]
    return [*left, *carried, *sorted(others, key=lambda t: t.numel)[-1:]]


def _issued_first(info: LoopInfo, operands: Mapping, dots: list[Op]) -> tuple[Op, ...]:
    """The dots that are issued together at the start of an iteration, of those that do not stay in flight."""
    first = [dot for dot in dots if _can_begin(info, operands, dot)]
    carried = [x.type for x in info.body.args[1:] if type(x.type) is T.Tile]
    return tuple(first) if len(first) > 1 and info.can.holds([*(dot.type for dot in first), *carried]) else ()


def _can_begin(info: LoopInfo, operands: Mapping, dot: Op) -> bool:
    return operands[dot, "b"].in_place and not any(map(info.needs_dots, dot.operands))


# --- text -------------------------------------------------------------------------------------------------------------
def _loads_text(schedule: Schedule) -> str:
    loads, params, _, indices = schedule.prefetched
    args = schedule.body.args
    parts = ["prefetch " + (", ".join(f"{_name(schedule, x)} (axis {schedule.axes[x]})" for x in loads) or "nothing")]
    parts += ["ahead: " + ", ".join(["the index", *(args[1 + k].name or f"value {k}" for k in params)])]
    parts += ["in registers: " + ", ".join(_name(schedule, x) for x in indices)] if indices else []
    parts += [f"pairs not to alias: {len({*schedule.pairs})}"] if schedule.pairs else []
    return "; ".join(parts)


def _dot_text(schedule: Schedule, dot: Op) -> str:
    parts = [", ".join(f"{which} {_operand_text(schedule, schedule.operands[dot, which])}" for which in "ab")]
    parts += ["first"] * (dot in schedule.issued_first) + ["chained"] * (dot in schedule.chained)
    parts += ["stays in flight"] * schedule.stays_in_flight(dot) + ["lhs unrounded"] * (dot in schedule.unrounded)
    who = "" if dot in schedule.dots else " by threads" if dot in schedule.by_threads else " in registers"
    return f"{_name(schedule, dot)}{who}: {'; '.join(parts)}"


def _operand_text(schedule: Schedule, operand: Operand) -> str:
    where, load, axis = operand
    if where == "registers":
        return "in registers"
    if where == "slot" and load is not None:
        return f"in the slot of {_name(schedule, load)} (axis {axis})"
    return f"in a buffer filled {'before the loop' if where == 'outside' else 'in each iteration'} (axis {axis})"


def _name(schedule: Schedule, op: Op) -> str:
    return f"{op.kind.name} {schedule.body.ops.index(op)}"


__all__ = ["Operand", "Prefetched", "Schedule", "prefetched_loads", "register_loads", "schedule_dots", "staged_loads"]
