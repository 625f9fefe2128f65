"""What a warpgroup does in one iteration under a schedule, as steps of `simulate`, and the registers it needs.

The steps follow the order in which `iteration` emits ops: a dot is issued when its operands are there, and waited for
where its result is used.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .... import ops
from ....ir import types as T
from ....ir.core import Op, Value, op_of
from ....ir.rewrite import effects, inputs
from ....named_tuples import NamedTuple
from ..analysis.whole_masks import guards
from ..ops import bytes_of
from .simulate import Step

if TYPE_CHECKING:
    from ...occupancy import Machine
    from ..multiprocessor import Multiprocessor
    from ..tma import Roles
    from .loop_info import LoopInfo
    from .schedule import Operand


class Candidate(NamedTuple):
    """One way to run the dots of a loop.

    mode: the threads that multiply have "copies" of their own, a "producer" warp copies for them, or it does and two
    warpgroups alternate ("ping_pong"). in_flight: dots that stay in flight across the back edge. first: dots that are
    issued together at the start of an iteration.
    """

    mode: str
    in_flight: tuple[Op, ...] = ()
    first: tuple[Op, ...] = ()


class Threads(NamedTuple):
    """The threads that multiply: the model of the multiprocessor and what it has for its blocks, as `Target` names
    them; the warps of a block, the most registers of a thread, and the shared memory. blocks: how many find registers,
    None if that follows from the registers they use."""

    multiprocessor: Multiprocessor
    machine: Machine
    warps: int
    registers: int
    shared_bytes: int
    blocks: int | None = None

    @property
    def count(self) -> int:
        """How many there are."""
        return self.machine.warp_size * self.warps

    def consumers(self, roles: Roles) -> Threads:
        """The threads beside a producer warp."""
        blocks = self.machine.programs_of(self.warps + roles.extra, roles.first)
        return self._replace(registers=roles.consumers, blocks=blocks)


class Work(NamedTuple):
    """What the threads of a block do: instructions on so many elements, functions of the special units, bytes of shared
    memory, which overlap; and bytes of asynchronous copies and cycles of a stall, which block the threads."""

    issue: float = 0.0
    special: float = 0.0
    shared: float = 0.0
    copied: float = 0.0
    stall: float = 0.0


NO_WORK = Work()


@dataclass(frozen=True, eq=False)
class Setting:
    """What the candidates of a loop have in common: its prefetched loads, where dots find their operands, and who
    multiplies."""

    info: LoopInfo
    loads: Mapping[Op, int]
    operands: Mapping[tuple[Op, str], Operand]
    threads: Threads

    @functools.cached_property
    def groups(self) -> int:
        """Warpgroups of a block."""
        return max(1, self.threads.warps // (self.threads.multiprocessor.warpgroup or self.threads.warps))

    def order(self, first: tuple[Op, ...]) -> tuple[Op, ...]:
        """The dots in the order of issue."""
        return (*first, *(dot for dot in self.info.dots if dot not in first))

    @functools.cached_property
    def staged(self) -> int:
        """Bytes that are prefetched for an iteration."""
        return sum(bytes_of(load.type) for load in self.loads)

    @functools.cached_property
    def loaded(self) -> int:
        """Bytes that an iteration loads."""
        tiles = [op.type for op in self.info.body.ops if op.kind is ops.load and type(op.type) is T.Tile]
        return sum(map(bytes_of, tiles))

    @functools.cached_property
    def outer(self) -> int:
        """Bytes of loop-invariant operands in buffers."""
        found = {dot.operands["ab".index(side)] for (dot, side), x in self.operands.items() if x.where == "outside"}
        return sum(bytes_of(x.type) for x in found)

    @functools.cached_property
    def results(self) -> int:
        """Elements of loop-carried tiles."""
        return sum(x.type.numel for x in self.info.body.args[1:] if type(x.type) is T.Tile)

    @functools.cached_property
    def shares_loads(self) -> bool:
        """True if several dots read one load: they are issued in a fixed order."""
        found = [self.info.source(x)[0] for dot in self.info.dots for x in dot.operands[:2]]
        found = [load for load in found if load is not None]
        return len({*found}) < len(found)

    @functools.cached_property
    def chained(self) -> frozenset[Op]:
        """Dots whose result only the next dot reads, as its accumulator."""
        return frozenset(filter(self.info.chains_into_next, self.info.dots))

    @functools.cached_property
    def fused(self) -> frozenset[Op]:
        """Products that become part of multiply-adds, or leave a reduction (`hoist_scales`): they take no instruction,
        and their operand is held instead."""
        users: dict[Any, set] = {}
        for op in self.info.body.ops:
            for x in op.operands:
                users.setdefault(x, set()).add(op.kind)
        takes = lambda kind: kind in (ops.add, ops.sub) or kind.combines
        return frozenset(op for op in self.info.body.ops if op.kind is ops.mul and all(map(takes, users.get(op, ()))))

    @functools.cached_property
    def guarded(self) -> frozenset[Op]:
        """Selects that most iterations pass by (`guard_masks`), and the comparisons that only they read."""
        found = set(guards(self.info.body))
        for op in reversed(self.info.body.ops):
            if op.kind.elementwise and (readers := self.info.users(op)) and all(x in found for x in readers):
                found.add(op)
        return frozenset(found)

    @functools.cached_property
    def work(self) -> dict[Op, Work]:
        """The instructions of each op that is no asynchronous dot, but for the latency of loads."""
        return {op: self._work(op) for op in self.info.body.ops}

    def _work(self, op: Op) -> Work:
        m, kind = self.threads.multiprocessor, op.kind
        if op in self.loads:
            return Work(shared=bytes_of(op.type))
        if kind is ops.load:
            return Work(issue=_elements(op.type) / 4)
        if kind is ops.dot:
            a, b = op.operands[0].type, op.operands[1].type
            slots = 2 * m.lanes / m.tensor_rate(a.element.bits)  # as many cycles as half the tensor rate takes
            return Work(issue=slots * op.type.numel * a.shape[-1], shared=bytes_of(a) + bytes_of(b))
        if kind is ops.reduce:
            return Work(issue=1.5 * op.operands[0].type.numel, stall=m.reduction)
        if kind is ops.cast:  # two elements by one instruction; special units round to 8 bits
            pairs = _elements(op.type) / 2
            return Work(issue=pairs, special=pairs if pairs and op.type.element in _ROUNDED_SLOWLY else 0.0)
        if not kind.elementwise or kind.cost == "free" or op in self.fused or op in self.guarded:
            return NO_WORK
        count = _elements(op.type)
        return Work(issue=count, special=count if kind.cost == "slow" else 0.0)


def trace(setting: Setting, candidate: Candidate) -> tuple[tuple[Step, ...], int]:
    """(the steps of a warpgroup, the most 32-bit words that tiles take in registers of the block at the same time)."""
    made = _Tracer(setting, candidate)
    made.body()
    return tuple(made.steps), made.most_live()


class _Tracer:
    """Walks through an iteration as `IterationEmitter` does."""

    def __init__(self, setting: Setting, candidate: Candidate):
        self.setting, self.how, self.info = setting, candidate, setting.info
        self.machine = setting.threads.multiprocessor
        self.order = setting.order(candidate.first)
        self.steps: list[Step] = []
        self.since, self.loaded = [*NO_WORK], False  # the `Work` since the last step, and whether it loads
        self.known: set[Any] = set()
        self.started: list[Op] = []
        self.over = 0  # how many of them are finished
        self.copies_left = candidate.mode == "copies"
        self.clock = 0  # ops so far
        self.waited = 0  # when the dots of the previous iteration are finished
        self.held: dict[Any, list[int]] = {}  # tile in registers -> [when it is made, when it is read last, words]
        self.same: dict[Any, Any] = {}  # op that takes no registers -> the tile it is computed from
        for arg in filter(_is_tile, self.info.body.args[1:]):
            self.held[arg] = [0, 0, bytes_of(arg.type) // 4]

    # --- order ------------------------------------------------------------------------------------------------------
    def body(self) -> None:
        """The whole iteration."""
        how, body = self.how, self.info.body
        threads = self.setting.threads.count
        self.run(Work(issue=self.machine.loop_instructions * threads))
        if self.copies_left:
            self.meet()
            if not how.in_flight:
                self.copy()
        for dot in how.first:
            self.prepare(dot)
            self.begin(dot)
        for dot in self.order if how.mode != "copies" and self.setting.shares_loads else ():
            self.begun(dot) if dot in how.in_flight else self.value(dot)
        for op in body.ops[:-1]:
            if effects(op) and op.kind is not ops.load:
                self.begin_beside(op)
                self.value(op)
        for out in body.yields:
            self.begun(out) if out in how.in_flight else self.value(out)
        self.clock += 1
        for x in (*body.yields, *(dot.operands[0] for dot in how.in_flight)):
            self.read(x)
        if self.copies_left:
            self.copy()
        self.step(None)

    def begin_beside(self, op: Op) -> None:
        """The dots that run while a store waits for another dot are issued."""
        awaited, others = self.info.beside_store(op, self.how.in_flight)
        for dot in awaited:
            if dot not in self.started:
                self.prepare(dot)
                self.begin(dot)
        for dot in others:
            self.begun(dot)

    def value(self, x: Value) -> None:
        """A value is computed, unless it is there."""
        op = op_of(x)
        self.read(op)
        if op in self.known or op not in self.info.inside:
            return
        self.known.add(op)
        if op in self.info.dots:
            self.finished(op)
        elif op in self.setting.loads:
            self.run(self.setting.work[op])
        else:
            for y in inputs(op):
                self.begun(y) if op.regions and y in self.how.in_flight else self.value(y)
            self.clock += 1
            for y in inputs(op):
                self.read(op_of(y))
            self.run(self.setting.work[op])
            self.loaded = self.loaded or op.kind is ops.load
        source = next((tile for y in op.operands if (tile := self.tile(op_of(y))) is not None), None)
        if source is not None and op in self.setting.fused:
            self.same[op] = source
        elif op not in self.held and _is_tile(op) and (source is not None or op.kind is ops.load or op.kind.mma):
            self.held[op] = [self.clock, self.clock, bytes_of(op.type) // 4]

    def tile(self, x: Any) -> Any:
        """The tile in registers that a value is, or is computed from where it is used; None if it is none."""
        x = self.same.get(x, x)
        return x if x in self.held else None

    def read(self, x: Any) -> None:
        """A tile is read now."""
        x = self.tile(x)
        if x is not None:
            self.held[x][1] = self.clock

    def finished(self, dot: Op) -> None:
        """A dot is issued, if it is not yet, and waited for."""
        if dot not in self.started:
            self.prepare(dot)
            for op in self.info.body.ops[: self.info.body.ops.index(dot)]:
                if op.kind is ops.reduce and all(op_of(y) in self.known for y in op.operands):
                    self.value(op)
            self.begin(dot)
        at = self.started.index(dot)
        self.wait(len(self.started) - 1 - at)
        self.over = max(self.over, 1 + at)
        self.read(dot.operands[0])
        if self.copies_left:
            self.copy()

    def begun(self, dot: Any) -> None:
        """A dot is issued, if it is not yet; those of the previous iteration are waited for."""
        if dot in self.started:
            return
        self.prepare(dot)
        if dot in self.how.in_flight and self.info.unrounded(dot) is not None:  # it overwrites what the last one reads
            self.wait(0)
        self.begin(dot)
        if self.how.mode != "ping_pong":
            self.wait(len(self.started) - self.over)

    def prepare(self, dot: Op) -> None:
        """The operands of a dot are computed."""
        left, right, total = dot.operands
        if self.setting.operands[dot, "a"].where == "registers":
            self.value(left)
        for x, which in zip((left, right), "ab"):
            if self.setting.operands[dot, which].where == "written" and (x, "written") not in self.known:
                self.known.add((x, "written"))
                self.value(x)
                self.run(Work(shared=bytes_of(x.type)))
                self.meet()
        self.begun(total) if total in self.setting.chained else self.value(total)

    def begin(self, dot: Op) -> None:
        """A dot whose operands are there is issued."""
        turns = self.how.mode == "ping_pong"
        if turns and dot in self.how.in_flight:
            self.step(Step("turn"))
        self.step(self.mma(dot))
        self.started.append(dot)
        if turns and dot is self.order[-2]:
            self.step(Step("pass"))
        self.clock += 1
        self.read(op_of(dot.operands[2]))
        self.held[dot] = [self.clock, self.clock, bytes_of(dot.type) // 4]

    # --- steps ------------------------------------------------------------------------------------------------------
    def step(self, made: Step | None) -> None:
        """A step, after this warpgroup's part of the instructions before it."""
        m, part = self.machine, self.setting.groups
        issue, special, shared, copied, stall = self.since
        if any(self.since) or self.loaded:
            busy = shared / m.shared / part, issue / m.lanes / part, special / m.special / part
            cycles = max(busy[0], busy[1] / m.issue_share, busy[2] / m.special_share)
            cycles += copied / m.copied / part + stall + self.loaded * m.load
            of_shared, of_issue, of_special = (round(x / cycles, 3) for x in busy)
            self.steps.append(Step("run", round(cycles, 1), (0.0, of_shared, of_issue, of_special)))
            self.since, self.loaded = [*NO_WORK], False
        self.steps += () if made is None else (made,)

    def wait(self, pending: int) -> None:
        self.clock += 1
        self.waited = self.waited or self.clock
        self.step(Step("wait", pending=pending))

    def meet(self) -> None:
        self.step(Step("meet", float(self.machine.barrier)))

    def copy(self) -> None:
        """The copies of a later iteration, once; behind a barrier if dots stay in flight."""
        self.copies_left = False
        if self.how.in_flight:
            self.meet()
        size = self.setting.staged
        self.run(Work(issue=self.machine.copy_instructions * size / 16, copied=size))

    def run(self, work: Work) -> None:
        """The threads do something; it overlaps with the work up to the next step."""
        if work is not NO_WORK:
            self.since = [x + y for x, y in zip(self.since, work)]

    def mma(self, dot: Op) -> Step:
        """The part of a dot that a warpgroup multiplies. The tensor cores read operands from shared memory, the rhs
        once for each block of rows."""
        m, groups, (rows, columns) = self.machine, self.setting.groups, dot.type.shape
        left = dot.operands[0].type
        tensor = rows * columns * left.shape[-1] / m.tensor_rate(left.element.bits) / groups
        along_rows = min(groups, max(1, rows // m.mma_rows))
        mine, wide = max(1, rows // along_rows // m.mma_rows), columns * along_rows // groups
        wide += m.mma_rows if self.setting.operands[dot, "a"].where != "registers" else 0
        shared = mine * wide * left.shape[-1] * left.element.bytes / m.shared
        cycles = max(tensor, shared)
        return Step("issue", round(cycles, 1), (round(tensor / cycles, 3), round(shared / cycles, 3), 0.0, 0.0))

    # --- registers --------------------------------------------------------------------------------------------------
    def most_live(self) -> int:
        """The most words that tiles take at the same time. The lhs of a dot in flight is held into the next
        iteration."""
        lhs = [self.tile(dot.operands[0]) for dot in self.how.in_flight]
        spans = [*self.held.values(), *([0, self.waited, self.held[x][2]] for x in lhs if x is not None)]
        change = [0] * (self.clock + 2)
        for first, last, words in spans:
            change[first] += words
            change[max(last, first + 1)] -= words
        return max(itertools.accumulate(change))


_ROUNDED_SLOWLY = tuple(x for x in T.SCALARS.values() if x.is_float and x.bits == 8)


def _is_tile(x: Value) -> bool:
    return type(x.type) is T.Tile and len(x.type.shape) > 1


def _elements(t: T.Type) -> int:
    return t.numel if type(t) is T.Tile and len(t.shape) > 1 else 0
