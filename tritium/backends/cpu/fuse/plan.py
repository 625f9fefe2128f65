"""Loop fusion: groups the statements of a block into loop nests, and records the last use of each value.

Elementwise ops have no loops of their own: the loop nests of stores, reductions, dots and control flow compute them.
`buffering.py` decides which tiles the nests share through scratch memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Block, Op, Result, Value, op_of, walk
from ....ir.rewrite import inputs
from ....named_tuples import NamedTuple
from ....passes.reduce_early import WIDE, runs_across
from .buffering import MATERIALIZED, Buffering
from .clip import clip_mask, uniform_beyond
from .dependences import disjoint
from .uniform_quotients import axis_info_of

if TYPE_CHECKING:
    from .fuse_loops import _Fusion


class LoopNest:
    """Statements that share one loop nest, or a value to `force` (materialize) in scratch memory, or both.

    space: its iteration space (`iteration_space`), None if not shared   index: its position in program order
    before: values to materialize with their own loops first             first_keeps: buffered by those loops
    keeps: values that its loops also write to scratch                   dead: values not live after it
    after: scalar ops that depend on it                                  clip: mask at whose end its loops stop
    beyond: whether clipped loops run one chunk more, for themselves or for later nests that read their buffers
    mark: dependence bits above this one belong to later ops
    in_place: only dots read `force`, before the next write, so they may read it in global memory
    """

    __slots__ = ("after", "before", "beyond", "clip", "dead", "first_keeps", "force", "in_place", "index", "keeps",
                 "mark", "ops", "space")  # fmt: skip

    def __init__(self, index: int, force: Any = None, space: Any = None, mark: int = 0):
        self.index, self.force, self.space, self.mark, self.in_place = index, force, space, mark, False
        self.clip: Value | None = None
        self.beyond = False
        self.ops, self.before, self.first_keeps, self.keeps, self.dead, self.after = [], [], [], [], [], []


class Plan(NamedTuple):
    """The loop nests and scalar ops of a block in program order, and its parameters that nothing reads."""

    program: list
    unread: list


def plan(lo: _Fusion, block: Block) -> Plan:
    """Plan a block; values already in scratch memory (`lo.buffers`) stay there."""
    groups = _Groups(lo, block)
    buffering = Buffering(lo, block, groups)
    buffering.find()
    _clip(groups.nests, buffering)
    _mark_in_place(groups, buffering)
    last_use = buffering.last_use(groups.made)
    owned = {*groups.made, *buffering.kept, *block.args}
    for k, s in last_use.items():
        if k in owned and type(k.type) is T.Tile:
            groups.nests[s].dead.append(k)
    return Plan(groups.program, [x for x in block.args if type(x.type) is T.Tile and x not in last_use])


def iteration_space(lo: _Fusion, op: Op) -> tuple | None:
    """The iteration space of an op's loops: ops with equal ones may share a nest. None: never shared."""
    shape = T.shape(op.operands[0].type) if op.operands else ()
    if not shape:
        return None
    if op.kind is ops.store:
        return ("rows", shape)
    if op.kind is ops.reduce:
        axis = op.attrs["axis"]
        along = axis == len(shape) - 1 and (shape[-1] >= 16 or len(shape) == 1)
        if along and max(shape[:-1], default=1) >= WIDE and len(op.operands) == 1:
            along = not runs_across(lambda x: axis_info_of(lo, x), op.operands[0], axis)
        return ("rows", shape) if along else ("columns", shape, axis)
    return None


class _Groups:
    """Assigns the ops of a block to loop nests in one pass.

    The dependences of a value are an int with a bit for each placed op and each load: an op may join a nest only if it
    depends on nothing that the nest or a later op computes.
    """

    def __init__(self, lo: _Fusion, block: Block):
        self.lo, self.nests, self.program = lo, [], []
        self.made = {}  # value -> index of the nest that computes it
        self.writes = []  # (index of a nest, position in the block) of each write to memory
        self.positions, self.forced = {}, set()
        self.depends, self.bit = {}, 1
        self.group = 0  # bits of the ops in the last nest while it is open for more
        for position, op in enumerate(block.ops):
            self.positions[op] = position
            depends = self.depends_on(op)
            if lo.is_lazy(op):
                self.wait(op, depends)
            elif is_scalar(op):
                self.place_scalar(op, depends)
            else:
                self.place(op, depends, position)

    def depends_on(self, op: Op) -> int:
        """The dependence bits of an op's operands, including those used in its regions."""
        out = 0
        for x in inputs(op):
            out |= self.depends.get(op_of(x), 0)
        return out

    def new_bit(self) -> int:
        self.bit <<= 1
        return self.bit

    def wait(self, op: Op, depends: int) -> None:
        """Record a lazy op. A load that follows a store closes the open nest: later stores must not join it."""
        if op.kind is ops.load:
            if depends & self.group or self.nests and any(o.kind is ops.store for o in self.nests[-1].ops):
                self.group = 0
            depends |= self.new_bit()
        self.depends[op] = depends

    def place_scalar(self, op: Op, depends: int) -> None:
        """Place a scalar op in program order, or after the open nest if it depends on it."""
        if op.kind.effects:  # a read stays after the stores before it
            self.group = 0
            depends |= self.new_bit()
        self.depends[op] = depends
        if depends & self.group:
            self.nests[-1].after.append(op)
        else:
            self.program.append(op)

    def place(self, op: Op, depends: int, position: int) -> None:
        """Add an op that needs loops to an existing nest, or to a new one."""
        for k in MATERIALIZED.get(op.kind, ()):
            self.force(op.operands[k])
        space, bit = iteration_space(self.lo, op), self.new_bit()
        nest = self.filling(op, space, depends) or self.open_group(op, space, depends, bit) or self.new_nest(space, bit)
        nest.ops.append(op)
        self.depends[op] = bit
        for x in op.results:
            self.made[x] = nest.index
        if op.kind.effects == "write" or any(o.kind.effects == "write" for r in op.regions for o in walk(r)):
            self.writes.append((nest.index, position))

    def new_nest(self, space: tuple | None, bit: int) -> LoopNest:
        nest = LoopNest(len(self.nests), space=space, mark=bit >> 1)
        self.nests.append(nest)
        self.program.append(nest)
        self.group = bit if space else 0
        return nest

    def open_group(self, op: Op, space: tuple | None, depends: int, bit: int) -> LoopNest | None:
        """The open nest if it has the same iteration space; it moves down to the op."""
        if not space or not self.group or depends & self.group:
            return None
        nest = self.nests[-1]
        if nest.space != space or not disjoint(self.lo, op, nest.ops):
            return None
        self.program.remove(nest)
        self.program.append(nest)
        self.group |= bit
        return nest

    def filling(self, op: Op, space: tuple | None, depends: int) -> LoopNest | None:
        """The nest that materializes an operand of a reduction: the reduction reads its elements from registers."""
        if op.kind is not ops.reduce or space is None or space[0] != "rows":
            return None
        for nest in self.nests:
            fills = nest.force is not None and nest.space == space and nest.force in op.operands
            if fills and depends < nest.mark << 1:
                return nest
        return None

    def force(self, x: Value) -> None:
        """Add a nest that materializes an operand, unless it is or will be in scratch."""
        op = op_of(x)
        if type(op) is Arg or x in self.lo.buffers or x in self.forced or not self.lo.is_lazy(op):
            return
        self.forced.add(x)
        nest = LoopNest(len(self.nests), x, ("rows", T.shape(x.type)), self.bit)
        self.nests.append(nest)
        self.program.append(nest)
        self.group = 0


def is_scalar(op: Op) -> bool:
    """Whether an op has no tiles, no regions and no writes: it is evaluated in program order."""
    if op.regions or op.kind.effects == "write" or op.kind.terminator:
        return False
    return all(type(t) is not T.Tile for t in (*op.types, *[x.type for x in op.operands]))


def _mark_in_place(groups: _Groups, buffering: Buffering) -> None:
    """Mark the loads that only dots use, with no write in between."""
    for nest in groups.nests:
        x = nest.force
        if x is None or nest.ops or type(x) is Result or x.kind is not ops.load or len(T.shape(x.type)) < 2:
            continue
        later, alone = buffering.nests_using(x)
        dots = all(o.kind is ops.dot for s in later for o in groups.nests[s].ops)
        nest.in_place = dots and not alone and not any(nest.index <= s < later[-1] for s, _ in groups.writes)


def _clip(nests: Sequence[LoopNest], buffering: Buffering) -> None:
    """Clip nests at the end of their mask, unless a buffered value is used beyond it."""
    for nest in reversed(nests):
        if not nest.ops or nest.space is None or nest.space[0] != "rows" or nest.force is not None:
            continue
        masks = [clip_mask(op) for op in nest.ops]
        if masks[0] is not None and all(m is masks[0] for m in masks) and \
                all(_stops_at(x, masks[0], nest, nests, buffering) for x in nest.keeps):
            nest.clip = masks[0]
            read = [s for x in nest.keeps for s in buffering.nests_using(x)[0]]
            nest.beyond = any(op.kind is ops.reduce for op in nest.ops) or any(nests[s].beyond for s in read)


def _stops_at(x: Value, mask: Value, nest: LoopNest, nests: Sequence[LoopNest], buffering: Buffering) -> bool:
    """Whether all later nests that use a value are clipped at the end of `mask`, too."""
    later, alone = buffering.nests_using(x)
    return not alone and all(nests[s].clip is mask for s in later if s != nest.index) and uniform_beyond(x, mask)
