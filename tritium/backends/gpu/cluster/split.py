"""Split a program over the blocks of a cluster.

    x = load(p + arange(0, 1024))            x = load(p + (arange(0, 512) + rank * 512))
    s = sum(x)                        ->     s = sum(cluster_all_gather(sum(x)))
    store(q, s)                              if rank == 0: store(q, s)

Split tiles (`axes`) have the size of one block's part; all else is replicated, as scalars are, and the first block does
its writes to memory. Later passes see an ordinary kernel.

All blocks must see the same memory. A cluster barrier separates a load of one block from a store of another through the
same argument of the kernel; also where the program waits for other programs, or signals them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .... import ops
from ....ir import types as T
from ....ir.builder import Builder, several
from ....ir.core import Arg, Block, Module, Op, Result, Value, walk
from ....ir.rewrite import copy_region, uses
from ....named_tuples import NamedTuple
from ....passes.inline_calls import inline_calls
from ....passes.licm import licm
from ....passes.simplify import full
from .. import ops as gpu_ops
from ..cost_model import CostModel
from ..target import Target
from .axes import Axes


def split_clusters(module: Module, target: Target) -> Module:
    """Split the work of a program over the `num_ctas` blocks of a cluster (a power of two)."""
    blocks = module.attrs.get("num_ctas", 1)
    if blocks == 1:
        return module
    return licm(_Split(inline_calls(module), blocks, target.cost).module())


class _Split:
    def __init__(self, module: Module, blocks: int, cost: CostModel):
        self.input, self.blocks, self.axes = module, blocks, Axes(module, blocks, cost)
        self.used = uses(module.body)
        self.b = Builder()
        self.b.arguments = list(module.args)
        # per open region: (value, axis) -> its part
        self.made: list[dict[tuple[Value, int | None], Any]] = [{(x, None): x for x in module.args}]
        self.seen = _Accesses()
        self.roots = dict(zip(module.args, module.args))  # pointer -> the argument it comes from

    def module(self) -> Module:
        b = self.b
        mask = ops.constant(b, value=self.blocks - 1, type=T.i32)
        self.rank = ops.and_(b, gpu_ops.block_rank(b), mask)  # so its bounds are plain to see
        self.block(self.input.body)
        return self.input.replace(body=b.finish(), attrs={**self.input.attrs, "num_ctas": self.blocks})

    # --- values -------------------------------------------------------------------------------------------------------
    def find(self, x: Value, axis: int | None = None) -> Any:
        return next((scope[x, axis] for scope in reversed(self.made) if (x, axis) in scope), None)

    def remember(self, x: Value, axis: int | None, value: Value) -> Value:
        self.made[-1][x, axis] = value
        return value

    def want(self, x: Value, axis: int | None = None) -> Value:
        """A block's part of a value along an axis; the whole value if the axis is None."""
        axis = axis if type(x.type) is T.Tile else None
        found = self.find(x, axis)
        if found is not None:
            return found
        if type(x) is Op and type(x.type) is T.Tile and self.axes.remade(x):
            if axis is None or self.axes.operand_axes(x, axis) is not None:
                return self.remember(x, axis, self.make(x, axis))
            return self.remember(x, axis, self.cut(self.want(x), axis))
        split = self.axes.of(x)
        if axis is None:
            assert split is not None, "what is not split is made whole"
            return self.remember(x, None, self.join_parts(self.find(x, split), split))
        return self.remember(x, axis, self.cut(self.want(x), axis))

    def wanted(self, op: Op, axis: int | None) -> list[Value]:
        """The operands of an op whose results are split along an axis."""
        places: Any = (None,) * len(op.operands) if axis is None else self.axes.operand_axes(op, axis)
        return [self.want(x, at) for x, at in zip(op.operands, places, strict=True)]

    def make(self, op: Op, axis: int | None) -> Any:
        """Emit an op on the parts of its operands; gives its value or values."""
        b, attrs = self.b, op.attrs
        operands = self.wanted(op, axis)
        if axis is not None and op.kind is ops.arange:
            return self.own_range(op)
        if axis is not None and "shape" in attrs:
            attrs = {**attrs, "shape": self.part(attrs["shape"], axis)}
        return b.emit(op.kind, operands, attrs, self.scalar_regions(op), op.loc)

    def scalar_regions(self, op: Op) -> Sequence[Block]:
        """Regions of scalars, which may use scalars from outside."""
        if not op.regions:
            return ()
        known = {}
        for x, axis in (key for scope in self.made for key in scope):
            if axis is None:
                made, index = (x.op, x.index) if type(x) is Result else (x, 0)
                known.setdefault(made, {})[index] = self.find(x)
        return [copy_region(self.b, region, known) for region in op.regions]

    def part(self, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
        return tuple(n // self.blocks if k == axis else n for k, n in enumerate(shape))

    def own_range(self, op: Op) -> Value:
        start, end = op.attrs["start"], op.attrs["end"]
        mine = ops.arange(self.b, start=start, end=start + (end - start) // self.blocks)
        return ops.add(self.b, mine, ops.splat(self.b, self.first_of(mine), shape=mine.type.shape))

    def first_of(self, mine: Value) -> Value:
        """The first index of a block's part on an axis."""
        size = ops.constant(self.b, value=mine.type.shape[0], type=T.i32)
        return ops.mul(self.b, self.rank, size)

    # --- between blocks -----------------------------------------------------------------------------------------------
    def gather(self, values: Sequence[Value], blocks: tuple[int, ...] | None = None) -> tuple[Value, ...]:
        """All-gather: the values of blocks, in order along a new first axis."""
        self.seen.clear()
        made = self.b.emit(gpu_ops.cluster_all_gather, values, {"blocks": blocks or tuple(range(self.blocks))})
        return several(made)

    def join_parts(self, x: Value, axis: int) -> Value:
        """The whole of a split tile."""
        (parts,) = self.gather([x])
        order = (*range(1, axis + 1), 0, *range(axis + 1, len(parts.type.shape)))
        shape = tuple(n * self.blocks if k == axis else n for k, n in enumerate(x.type.shape))
        return ops.reshape(self.b, ops.trans(self.b, parts, order=order), shape=shape)

    def cut(self, x: Value, axis: int) -> Value:
        """A block's part of a replicated tile."""
        b, shape = self.b, self.part(x.type.shape, axis)
        index = ops.arange(b, start=0, end=shape[axis])
        index = ops.add(b, index, ops.splat(b, self.first_of(index), shape=index.type.shape))
        index = ops.reshape(b, index, shape=tuple(n if k == axis else 1 for k, n in enumerate(shape)))
        return ops.gather(b, x, ops.broadcast(b, index, shape=shape), axis=axis)

    def from_first(self, values: tuple[Value, ...]) -> list[Value]:
        """Broadcast the values of the first block."""
        return [ops.reshape(self.b, x, shape=x.type.shape[1:]) for x in self.gather(values, (0,))]

    def by_first(self, op: Op) -> None:
        """Predicate an op on the first block; its results are broadcast to all."""
        b, types = self.b, op.types if op in self.used else ()
        for x in op.operands:
            if not self.axes.remade(x):
                self.want(x)  # may take all blocks
        first = ops.eq(b, self.rank, ops.constant(b, value=0, type=T.i32))
        with b.region() as then:
            self.made.append({})
            made = self.make(op, None)
            self.made.pop()
            ops.yield_(b, *(several(made) if types else ()))
        with b.region() as other:
            ops.yield_(b, *(full(b, 0, t) for t in types))
        made = b.emit(ops.if_, (first,), {}, (then.block, other.block))
        if types:
            self.keep(op, None, tuple(self.from_first(several(made))))

    def meet(self) -> None:
        self.seen.clear()
        gpu_ops.cluster_barrier(self.b)

    # --- ops ----------------------------------------------------------------------------------------------------------
    def block(self, block: Block) -> None:
        for op in block.ops:
            if op.kind.terminator or (len(op.types) == 1 and type(op.type) is T.Tile and self.axes.remade(op)):
                continue  # made where it is wanted
            self.b.loc = op.loc
            if op.kind.access:
                (_Split.atomic if op.kind.atomic else _Split.store if op.kind.writes else _Split.load)(self, op)
            else:
                _EMIT.get(op.kind, _Split.plain)(self, op)

    def keep(self, op: Op, axis: int | None, made: Value | tuple[Value, ...]) -> None:
        for x, value in zip(op.results, several(made)):
            self.remember(x, axis, value)

    def plain(self, op: Op) -> None:
        axis = self.axes.of(op.results[0] if op.types else op)
        if axis is not None and self.axes.operand_axes(op, axis) is None:
            axis = None  # made whole; a part is cut off when it is wanted
        self.keep(op, axis, self.make(op, axis))

    def reduce(self, op: Op) -> None:
        """Along a split axis each block reduces its part, then all reduce the gathered partial results."""
        axis, along = self.axes.of(op.results[0]), op.attrs["axis"]
        if axis is not None or along not in [self.axes.of(x) for x in op.operands if not self.axes.remade(x)]:
            self.plain(op)
            return
        partial = self.b.emit(op.kind, [self.want(x, along) for x in op.operands], op.attrs, self.scalar_regions(op))
        parts = self.gather(several(partial))
        self.keep(op, None, self.b.emit(op.kind, parts, {**op.attrs, "axis": 0}, self.scalar_regions(op)))

    def load(self, op: Op) -> None:
        axis = self.axes.of(op)
        self.before_read(op)
        if axis is None and op.kind.effects_of(op) == "write":
            self.by_first(op)
        else:
            self.keep(op, axis, self.make(op, axis))

    def store(self, op: Op) -> None:
        axis = self.axes.of(op)
        self.before_write(op)
        if axis is None:
            self.by_first(op)
        else:
            self.make(op, axis)

    def atomic(self, op: Op) -> None:
        """A scalar atomic may synchronize with other programs: a cluster barrier precedes it."""
        axis = self.axes.of(op)
        ordered = op.attrs["sem"] != "relaxed" and type(op.type) is not T.Tile
        if ordered:
            self.meet()
        self.before_write(op)
        if axis is not None:
            self.keep(op, axis, self.make(op, axis))
        else:
            self.by_first(op)
            if ordered and op not in self.used:
                self.meet()

    # --- control ------------------------------------------------------------------------------------------------------
    def loop(self, op: Op) -> None:
        first, parameters = op.kind.loop
        axes = [self.axes.of(x) for x in op.results]
        operands = [self.want(x) for x in op.operands[:first]]
        inits = [self.want(x, axis) for x, axis in zip(op.operands[first:], axes)]
        self.note_roots(op)
        before = self.seen.copy()
        self.seen.add_all(self, op)  # of the previous iteration
        regions = [self.region(region, [None] * parameters + axes, axes) for region in op.regions]
        self.seen.join(before)
        made = self.b.emit(op.kind, (*operands, *inits), op.attrs, regions, op.loc)
        for x, axis, value in zip(op.results, axes, several(made)):
            self.remember(x, axis, value)

    def branch(self, op: Op) -> None:
        axes, before = [self.axes.of(x) for x in op.results], self.seen.copy()
        cond, regions, after = self.want(op.operands[0]), [], []
        for region in op.regions:
            self.seen = before.copy()
            regions.append(self.region(region, [], axes))
            after.append(self.seen)
        self.seen = after[0]
        self.seen.join(after[1])
        made = self.b.emit(ops.if_, (cond,), op.attrs, regions, op.loc)
        for x, axis, value in zip(op.results, axes, several(made)):
            self.remember(x, axis, value)

    def region(self, block: Block, axes: list[int | None], ends: list[int | None]) -> Block:
        """A region on parts; the terminator of a condition is a scalar."""
        types = [a.type if at is None else T.with_shape(a.type, self.part(a.type.shape, at))
                 for a, at in zip(block.args, axes)]  # fmt: skip
        self.made.append({})
        with self.b.region(types, [a.name for a in block.args]) as region:
            for arg, axis, new in zip(block.args, axes, region.args):
                self.remember(arg, axis, new)
            self.block(Block(block.args, block.ops))
            last = block.ops[-1]
            ends = ends if len(last.operands) == len(ends) else [None] * len(last.operands)
            self.b.emit(last.kind, [self.want(x, axis) for x, axis in zip(last.operands, ends)], last.attrs)
        self.made.pop()
        return region.block

    # --- memory that blocks may see at different times ----------------------------------------------------------------
    def root(self, x: Value) -> Arg | None:
        """The argument a pointer is derived from; None if unknown."""
        while x not in self.roots:
            if type(x) is not Op or not (x.kind.view or x.kind is ops.addptr or x.kind is ops.bitcast):
                return None
            x = x.operands[0]
        return self.roots[x]

    def note_roots(self, loop: Op) -> None:
        """Record the arguments of loop-carried pointers."""
        first, parameters = loop.kind.loop
        for k, (init, out) in enumerate(zip(loop.operands[first:], loop.regions[-1].yields)):
            args = [region.args[parameters + k] for region in loop.regions]
            self.roots |= dict.fromkeys(args, self.root(init))
            if self.root(out) is not self.root(init):
                self.roots |= dict.fromkeys(args)

    def access(self, op: Op) -> _Access:
        """The memory that an op accesses."""
        pointer, axis = op.pointer, self.axes.of(op)
        return _Access(self.root(pointer), axis is None, (pointer, axis))

    def before_read(self, op: Op) -> None:
        mine = self.access(op)
        if any(map(mine.meets, self.seen.writes)):
            self.meet()
        self.seen.reads.add(mine)

    def before_write(self, op: Op) -> None:
        mine = self.access(op)
        both = [x for x in self.seen.writes if not (x.whole and mine.whole)]  # the first block does these in order
        if any(map(mine.meets, (*self.seen.reads, *both))):
            self.meet()
        self.seen.writes.add(mine)


class _Access(NamedTuple):
    """The argument that an access is derived from, None if unknown; whether it is replicated, or done by the first
    block for all; and its pointers with the axis along which they are split."""

    root: Any
    whole: bool
    pointer: tuple

    def meets(self, other: _Access) -> bool:
        """True if both may access the same element in different blocks."""
        apart = self.root is not other.root and self.root is not None and other.root is not None
        return not apart and (self.whole or other.whole or self.pointer != other.pointer)


class _Accesses:
    """Reads and writes since the last cluster barrier."""

    def __init__(self, reads: Iterable[_Access] = (), writes: Iterable[_Access] = ()):
        self.reads, self.writes = set(reads), set(writes)

    def clear(self) -> None:
        self.reads.clear()
        self.writes.clear()

    def copy(self) -> _Accesses:
        return _Accesses(self.reads, self.writes)

    def join(self, other: _Accesses) -> None:
        self.reads |= other.reads
        self.writes |= other.writes

    def add_all(self, split: _Split, op: Op) -> None:
        for inner in (x for region in op.regions for x in walk(region)):
            if inner.kind.access:
                (self.writes if inner.kind.writes else self.reads).add(split.access(inner))


_EMIT = {
    ops.reduce: _Split.reduce,
    ops.print_: _Split.by_first,
    ops.clock: _Split.by_first,
    ops.barrier: lambda split, op: split.meet(),
    ops.for_: _Split.loop,
    ops.while_: _Split.loop,
    ops.if_: _Split.branch,
}
