"""Loops and branches of the program.

Loops carry scalars in SSA values and tiles in scratch memory, updated in place if the old elements are dead. A tile of
pointers or indices that every iteration advances by a uniform amount is carried as a scalar induction variable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from .... import ops
from ....analysis.affine import Form
from ....analysis.induction import steps
from ....ir import types as T
from ....ir.core import Arg, Block, Op, Result, Value, op_of
from ....ir.rewrite import captured, inputs
from ....named_tuples import NamedTuple
from ...llvm.rows import llvm_type
from ...llvm.writer import Level, Val, value
from ..fuse import ops as cpu_ops
from ..fuse import polls
from ..fuse.affine import form_of
from ..fuse.buffering import induction_tiles
from ..fuse.dependences import positionwise
from . import deferred_dots, loop_nests
from .dot import look_ahead, sums
from .function import InductionTile, Lowering
from .scratch import Buffer
from .table import statement


class Destination(NamedTuple):
    """The preferred buffer of a value: that of the loop-carried tile `arg`, whose next value it is."""

    buffer: Buffer
    arg: Arg
    body: Block

    def allows(self, lo: Lowering, x: Value) -> bool:
        """Whether `x` may overwrite the old elements now."""
        if lo.scope.block is not self.body or not self.buffer.fits(x.type):
            return False
        if any(b is self.buffer and k != self.arg for k, b in lo.buffers.items()):
            return False
        last = lo.scope.last_use(self.arg)
        if last < lo.now:
            return True
        return last == lo.now and self.in_place(lo, x)

    def in_place(self, lo: Lowering, x: Value) -> bool:
        """Whether each element of `x` reads only the old element that it replaces, and nothing else of the current
        statement reads old elements, which may be replaced by then."""
        made = op_of(x)
        if type(made) is not Arg and made.kind.loop:
            return cpu_ops.reads(self.body).get(self.arg, 0) == 1 and any(y is self.arg for y in made.operands)
        others = inputs(self.body.ops[lo.now])
        return reads(lo, x).get(self.buffer, True) and not any(self.buffer in reads(lo, y, x) for y in others)


def reads(lo: Lowering, x: Value, but: Value | None = None) -> dict[Buffer, bool]:
    """The buffers read to compute a value -> whether each element reads only its own index.

    What is read to compute the value `but` is left out.
    """
    found, seen, stack = {}, {(but, True), (but, False)}, [(x, True)]
    while stack:
        x, aligned = stack.pop()
        if type(x.type) is not T.Tile or (x, aligned) in seen:
            continue
        seen.add((x, aligned))
        buffer = lo.buffers.get(x)
        op = op_of(x)
        if buffer is not None:
            found[buffer] = found.get(buffer, True) and aligned
        elif x in lo.inductions:
            stack.append((lo.inductions[x].start, aligned))
        elif type(op) is not Arg and lo.is_lazy(op):
            aligned = aligned and positionwise(op)
            stack += [(y, aligned) for y in op.operands]
    return found


class Carried:
    """The loop-carried values of a loop.

    `idle()` emits the condition (i1) for zero iterations: only then accumulators of dots need their initial zeros, as
    the first iteration stores its product instead of adding it.
    """

    def __init__(self, lo: Lowering, op: Op, inits: Sequence[Value], idle: Callable[[], Val] | None = None):
        self.lo, self.op, self.inits = lo, op, inits
        self.sums = sums(op, inits) if idle is not None else frozenset()
        self.inductions = induction_tiles(op)
        tiles = {k for k, x in enumerate(inits) if type(x.type) is T.Tile}
        self.buffers = {k: self.buffer(k) for k in sorted(tiles - self.inductions)}
        self.singles = [k for k in range(len(inits)) if k not in self.buffers]
        self.fill(self.buffers.keys() - self.sums)
        if self.sums and idle is not None:
            with lo.when(idle(), likely=False), lo.inside():
                self.fill(self.sums)

    def buffer(self, k: int) -> Buffer:
        """The initial value's buffer if that value is dead, else the result's destination, or a new buffer."""
        lo, x = self.lo, self.inits[k]
        held = lo.dying(x)
        if held is not None and not self.captured(x):
            held.users += 1
            return held
        return lo.allocate(self.op.results[k])

    def captured(self, x: Value) -> bool:
        """Whether the loop reads a buffered tile other than as its initial value."""
        lo, held = self.lo, self.lo.buffers[x]
        used = [*captured(self.op), *[self.inits[k] for k in self.inductions]]
        return sum(y == x for y in self.inits) > 1 or any(held in reads(lo, y) for y in used)

    def fill(self, which: Collection[int]) -> None:
        """Write the initial values `which` to their buffers."""
        lo = self.lo
        pairs = [(self.inits[k], b) for k, b in self.buffers.items()
                 if k in which and lo.buffers.get(self.inits[k]) is not b]
        write_back(lo, pairs)

    def starts(self) -> list[Val]:
        """The initial values of the carried scalars."""
        return [self.lo.const(0) if k in self.inductions else self.lo.scalar(self.inits[k]) for k in self.singles]

    def enter(self, args: Sequence[Arg], singles: Sequence[Val]) -> None:
        """Bind the parameters of a region to their values in this iteration."""
        lo = self.lo
        for k, x in zip(self.singles, singles, strict=True):
            if k in self.inductions:
                lo.inductions[args[k]] = InductionTile(self.inits[k], x)
            else:
                lo.values[args[k]] = x
        for k, buffer in self.buffers.items():
            lo.adopt(args[k], buffer)

    def begin(self, args: Sequence[Arg], index: Val, start: Val) -> None:
        """Emit the test for the first iteration, in which dots store their product instead of adding it."""
        if self.sums:
            first = self.lo.w.compare("icmp eq", index, start)
            self.lo.starts.update((args[k], first) for k in self.sums)

    def set_destinations(self, body: Block, args: Sequence[Arg]) -> None:
        """Have the values that the body yields computed in the buffers of the carried tiles."""
        lo = self.lo
        for k, buffer in self.buffers.items():
            x = body.yields[k]
            while x is not None and x is not args[k]:
                lo.destinations[x] = Destination(buffer, args[k], body)
                made = op_of(x)
                if type(made) is Arg:
                    break
                if made.kind is ops.dot:
                    x = made.operands[2]
                elif made.kind is ops.for_:
                    x = made.operands[3 + (x.index if type(x) is Result else 0)]
                else:
                    break

    def leave(self, yields: Sequence[Value], args: Sequence[Arg]) -> list[Val]:
        """Write back the tiles; returns the scalars of the next iteration."""
        lo = self.lo
        pairs = [(yields[k], b) for k, b in self.buffers.items() if lo.buffers.get(yields[k]) is not b]
        write_back(lo, pairs)
        return [self.moved(yields[k], args[k]) if k in self.inductions else lo.scalar(yields[k]) for k in self.singles]

    def moved(self, y: Value, arg: Arg) -> Val:
        """The offset of an induction tile at its next value `y`; `arg` is its value in this iteration."""
        lo, by = self.lo, self.lo.inductions[arg].offset
        for step in steps(arg, y) or ():
            amount = form_of(lo, step.value).base
            by = lo.sub(by, amount) if step.sign < 0 else lo.add(by, amount)
        return lo.const(by)

    def drop(self, args: Sequence[Arg]) -> None:
        """Release the buffers of a region's parameters."""
        for k in self.buffers:
            self.lo.drop(args[k])

    def finish(self, singles: Sequence[Val]) -> None:
        """Bind the loop's results."""
        lo, results = self.lo, self.op.results
        for k, x in zip(self.singles, singles, strict=True):
            if k in self.inductions:
                lo.inductions[results[k]] = InductionTile(self.inits[k], x)
            else:
                lo.values[results[k]] = x
        for k, buffer in self.buffers.items():
            lo.buffers[results[k]] = buffer


def write_back(lo: Lowering, pairs: Iterable[tuple[Value, Buffer]]) -> None:
    """A parallel copy of values into buffers that some of them are computed from."""
    pairs, aside = list(pairs), {}
    while pairs:
        ready = _ready(lo, pairs)
        if ready is None:  # a cycle: materialize one in a temporary
            x = next(x for x, _ in pairs if x not in aside)
            buffer = lo.arena.take(T.shape(x.type), T.element(x.type))
            loop_nests.fill(lo, [(x, buffer)])
            aside[x] = lo.buffers.get(x)
            lo.buffers[x] = buffer
            continue
        loop_nests.fill(lo, ready)
        pairs = [p for p in pairs if p not in ready]
    for k, before in aside.items():
        lo.drop(k)
        if before is not None:
            lo.buffers[k] = before


def _ready(lo: Lowering, pairs: Sequence[tuple[Value, Buffer]]) -> list[tuple[Value, Buffer]] | None:
    """Pairs of one shape that one loop nest can write now: as many as possible, or any one; None for a cycle."""
    wanted = [reads(lo, x) for x, _ in pairs]
    shapes = dict.fromkeys(b.shape for _, b in pairs)
    choices = [[k for k, (_, b) in enumerate(pairs) if b.shape == shape] for shape in shapes]
    for chosen in (*choices, *[[k] for k in range(len(pairs))]):
        targets = {pairs[k][1] for k in chosen}
        if all((wanted[k].get(b, True) if k in chosen else b not in wanted[k])
               for k in range(len(pairs)) for b in targets):
            return [pairs[k] for k in chosen]
    return None


# --- loops ------------------------------------------------------------------------------------------------------
_PAST = {"slt": "sge", "ult": "uge", "sgt": "sle"}  # the comparison of the bounds of a loop with zero iterations


@statement(ops.for_, visits="some")
def _for(lo: Lowering, op: Op) -> None:
    (start, stop, by, *inits), (body,) = op.operands, op.regions
    index, *args = body.args
    t = index.type
    bounds = [lo.const(lo.index_of(lo.scalar(x), t)) for x in (start, stop, by)]
    down = by.kind is ops.constant and by.attrs["value"] < 0 if isinstance(by, Op) else False
    until = "sgt" if down else "slt" if t.signed or t.bits < 64 else "ult"
    carried = Carried(lo, op, inits, lambda: lo.w.compare(f"icmp {_PAST[until]}", *bounds[:2]))
    dots, pending = look_ahead(lo, body), deferred_dots.begin(lo, op, inits)
    with lo.loop(*bounds, carry=carried.starts(), until=until) as loop:
        with lo.inside():
            lo.values[index] = lo.w.cast("trunc", loop.index, llvm_type(t))
            if polls.is_long(op):
                polls.ask(lo, loop.index, body)
                lo.w.fits(loop.index, lo.values[index], t.signed)  # LLVM inferred this from the loop's bound
            lo.remember(("form", index), Form(None, loop.index, ()), loop.index.level)
            carried.enter(args, loop.carried)
            carried.begin(args, loop.index, bounds[0])
            carried.set_destinations(body, args)

            def finish() -> None:
                loop.next = carried.leave(body.yields, args)
                if dots:  # the iteration is long
                    lo.w.hide(loop.index)
                    loop.next = [lo.w.hidden(x) if k in carried.inductions else x
                                 for k, x in zip(carried.singles, loop.next, strict=True)]
            lo.block(body, finish)
            carried.drop(args)
    deferred_dots.end(lo, pending)
    carried.finish(loop.results)


@statement(ops.while_, visits="some")
def _while(lo: Lowering, op: Op) -> None:
    condition, body = op.regions
    carried = Carried(lo, op, op.operands)
    w = lo.w
    polled = w.const("i32", polls.iterations(condition, body))
    starts = [*carried.starts(), polled]
    name, depth = w.label("while"), len(w.levels)
    singles = [value(x.type, f"%{name}.{k}", depth) for k, x in enumerate(starts)]
    w.levels.append(Level(f"{name}.head"))
    lo.open()
    with lo.inside():
        carried.enter(condition.args, singles[:-1])
        go_on = []
        lo.block(condition, lambda: go_on.append(lo.scalar(condition.yields[0])))
        carried.drop(condition.args)
        w.branch(go_on[0], f"{name}.body", f"{name}.done")
        w.block(f"{name}.body")
        carried.enter(body.args, singles[:-1])
        carried.set_destinations(body, body.args)
        ends = []
        lo.block(body, lambda: ends.extend(carried.leave(body.yields, body.args)))
        carried.drop(body.args)
        latch = w.levels[-1].label
        left = polls.count(lo, singles[-1], f"{name}.poll", f"{name}.head")
    lo.close()
    inner = w.levels.pop()
    outer = w.levels[-1]
    before = outer.label
    w.jump(f"{name}.head")
    outer.lines.append(f"{name}.head:")
    for x, y, end, polled_end in zip(singles, starts, [*ends, left], [*ends, polled], strict=True):
        outer.lines.append(f"  {x} = phi {x.type} [{y}, %{before}], [{end}, %{latch}], [{polled_end}, %{name}.poll]")
    outer.lines += inner.lines
    w.block(f"{name}.done")
    carried.finish([value(x.type, x, depth - 1) for x in singles[:-1]])


# --- branches ---------------------------------------------------------------------------------------------------
@statement(ops.if_, visits="some")
def _if(lo: Lowering, op: Op) -> None:
    tiles = {k: lo.allocate(x) for k, x in enumerate(op.results) if type(x.type) is T.Tile}
    singles = [k for k in range(len(op.types)) if k not in tiles]

    def branch(region: Block) -> Callable[[], list[Val]]:
        def make():
            made: list[Val] = []

            def finish() -> None:
                write_back(lo, [(region.yields[k], b) for k, b in tiles.items()])
                made.extend(lo.scalar(region.yields[k]) for k in singles)
            with lo.inside():
                lo.block(region, finish)
            return made
        return make
    then, other = map(branch, op.regions)
    picked = lo.either(lo.scalar(op.operands[0]), then, other)
    for k, x in zip(singles, picked, strict=True):
        lo.values[op.results[k]] = x
    for k, buffer in tiles.items():
        lo.buffers[op.results[k]] = buffer
