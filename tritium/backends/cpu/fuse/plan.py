"""Which loops a block becomes, which tiles they share through scratch memory, and how long those live.

Tile ops are computed inside the loops of the *steps* that want them: stores, reductions, dots, loops of the program.
This file groups the ops that need loops into steps; buffering.py decides what the steps keep for each other.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Result, walk
from ....passes.reduce_early import WIDE, runs_across
from .buffering import WHOLE, Wants
from .clip import clip_of, settles
from .dependences import apart
from .uniform_quotients import facts_of

__all__ = ["Plan", "Step", "nest_of", "plan"]


class Step:
    """One or several ops done in one nest of loops, and perhaps a value to `force` into scratch memory there.

    before: values to put into scratch with loops of their own first   first_keeps: kept on the way there
    keeps: values its loops write to scratch on the way                dead: values nobody wants after it
    after: ops on scalars that had to wait for it                      mark: bits above it stand for ops that come later
    clip: the mask beyond which its loops need not go                  index: its number
    view: only dots want `force`, before memory changes: they may read it where it lies
    """

    __slots__ = ("after", "before", "clip", "dead", "first_keeps", "force", "index", "keeps", "mark", "nest", "ops",
                 "view")  # fmt: skip

    def __init__(self, index, force=None, nest=None, mark=0):
        self.index, self.force, self.nest, self.mark, self.clip, self.view = index, force, nest, mark, None, False
        self.ops, self.before, self.first_keeps, self.keeps, self.dead, self.after = [], [], [], [], [], []


class Plan:
    """The steps of a block and the ops on scalars between them, in order.

    `last` is the last step that wants a value, `mine` the values made here and the block's parameters.
    """

    def __init__(self, block, program, last, mine):
        self.block, self.program, self.last, self.mine = block, program, last, mine


def plan(lo, block) -> Plan:
    """Plan a block; values that lie in scratch memory already (`lo.homes`) stay there."""
    groups = _Groups(lo, block)
    wants = Wants(lo, block, groups)
    wants.find()
    _clip(groups.steps, wants)
    _view(groups, wants)
    last = wants.last(groups.made)
    mine = {*groups.made, *wants.kept}
    for k, s in last.items():
        if k in mine:
            groups.steps[s].dead.append(k)
    mine.update([id(arg) for arg in block.args])
    return Plan(block, groups.program, last, mine)


def nest_of(lo, op):
    """What kind of loops an op needs: ops with equal ones may share them. None for loops it shares with nobody."""
    shape = T.shape(op.operands[0].type) if op.operands else ()
    if not shape:
        return None
    if op.kind is ops.store:
        return ("rows", shape)
    if op.kind is ops.reduce:
        axis = op.attrs["axis"]
        along = axis == len(shape) - 1 and (shape[-1] >= 16 or len(shape) == 1)
        if along and max(shape[:-1], default=1) >= WIDE and len(op.operands) == 1:
            along = not runs_across(lambda x: facts_of(lo, x), op.operands[0], axis)
        return ("rows", shape) if along else ("columns", shape, axis)
    return None


class _Groups:
    """Goes through a block once and puts its ops into steps.

    What a value is computed from is an int with a bit for each op that was placed before it and each load: an op may
    join the loops of a step only if it needs nothing that the step makes or that comes after it.
    """

    def __init__(self, lo, block):
        self.lo, self.steps, self.program = lo, [], []
        self.made = {}  # key of a value that a step makes -> its number
        self.writes = []  # (step, position in the block) of what changes memory
        self.positions, self.forced = {}, set()
        self.depends, self.bit = {}, 1
        self.group = 0  # bits of the ops in the last step, as long as others may join it
        for position, op in enumerate(block.ops):
            self.positions[id(op)] = position
            depends = self.depends_on(op)
            if lo.is_lazy(op):
                self.wait(op, depends)
            elif not op.kind.terminator and _is_scalar(op):
                self.place_scalar(op, depends)
            else:
                self.place(op, depends, position)

    def depends_on(self, op):
        """The bits of everything an op uses, inside its regions too."""
        out, known = 0, self.depends
        for x in op.operands:
            out |= known.get(id(x.op) if type(x) is Result else id(x), 0)
        for region in op.regions:
            for inner in walk(region):
                for x in inner.operands:
                    out |= known.get(id(x.op) if type(x) is Result else id(x), 0)
        return out

    def new_bit(self):
        self.bit <<= 1
        return self.bit

    def wait(self, op, depends):
        """A lazy op. Loads stay between the stores around them: after one, and before one that would join its loop."""
        if op.kind is ops.load:
            if depends & self.group or self.steps and any(o.kind is ops.store for o in self.steps[-1].ops):
                self.group = 0
            depends |= self.new_bit()
        self.depends[id(op)] = depends

    def place_scalar(self, op, depends):
        """An op on scalars is done where it stands, or after the step it needs."""
        if op.kind.effects:  # what reads memory stays behind the stores before it
            self.group = 0
            depends |= self.new_bit()
        self.depends[id(op)] = depends
        if depends & self.group:
            self.steps[-1].after.append(op)
        else:
            self.program.append(op)

    def place(self, op, depends, position):
        """An op that needs loops: in those of a step that has them, or in new ones."""
        for k in WHOLE.get(op.kind, ()):
            self.force(op.operands[k])
        nest, bit = nest_of(self.lo, op), self.new_bit()
        step = self.filling(op, nest, depends) or self.open_group(op, nest, depends, bit) or self.new_step(nest, bit)
        step.ops.append(op)
        self.depends[id(op)] = bit
        for x in op.results:
            self.made[self.lo.key(x)] = step.index
        if op.kind.effects == "write" or any(o.kind.effects == "write" for r in op.regions for o in walk(r)):
            self.writes.append((step.index, position))

    def new_step(self, nest, bit):
        step = Step(len(self.steps), nest=nest, mark=bit >> 1)
        self.steps.append(step)
        self.program.append(step)
        self.group = bit if nest else 0
        return step

    def open_group(self, op, nest, depends, bit):
        """The last step, if its loops are the right ones; it moves to where the op stands."""
        if not nest or not self.group or depends & self.group:
            return None
        step = self.steps[-1]
        if step.nest != nest or not apart(self.lo, op, step.ops):
            return None
        self.program.remove(step)
        self.program.append(step)
        self.group |= bit
        return step

    def filling(self, op, nest, depends):
        """A step that fills scratch with the tile a reduction runs over: there its elements are at hand."""
        if op.kind is not ops.reduce or nest[0] != "rows":
            return None
        keys = [self.lo.key(x) for x in op.operands]
        for step in self.steps:
            fills = step.force is not None and step.nest == nest and self.lo.key(step.force) in keys
            if fills and depends < step.mark << 1:
                return step
        return None

    def force(self, x):
        """A step that puts an operand into scratch, unless it gets there anyway."""
        k, op = self.lo.key(x), x.op if type(x) is Result else x
        if type(op) is Arg or k in self.lo.homes or k in self.forced or not self.lo.is_lazy(op):
            return
        self.forced.add(k)
        step = Step(len(self.steps), x, ("rows", T.shape(x.type)), self.bit)
        self.steps.append(step)
        self.program.append(step)
        self.group = 0


def _is_scalar(op):
    """Ops without tiles that change nothing are done where they stand."""
    if op.regions or op.kind.effects == "write":
        return False
    return all(type(t) is not T.Tile for t in (*op.types, *[x.type for x in op.operands]))


def _view(groups, wants):
    """Find the loads that only dots want, with nothing written between."""
    for step in groups.steps:
        x = step.force
        if x is None or step.ops or type(x) is Result or x.kind is not ops.load or len(T.shape(x.type)) < 2:
            continue
        later, alone = wants.steps_of(x)
        dots = all(o.kind is ops.dot for s in later for o in groups.steps[s].ops)
        step.view = dots and not alone and not any(step.index <= s < later[-1] for s, _ in groups.writes)


def _clip(steps, wants):
    """Let loops stop where their mask ends, unless what they keep is wanted beyond."""
    for step in reversed(steps):
        if not step.ops or step.nest is None or step.nest[0] != "rows" or step.force is not None:
            continue
        masks = [clip_of(op) for op in step.ops]
        if masks[0] is not None and all(m is masks[0] for m in masks) and \
                all(_ends(x, masks[0], step, steps, wants) for x in step.keeps):
            step.clip = masks[0]


def _ends(x, mask, step, steps, wants):
    """Whether all later steps that want a value stop at the end of `mask`, too."""
    later, alone = wants.steps_of(x)
    return not alone and all(steps[s].clip is mask for s in later if s != step.index) and settles(x, mask)
