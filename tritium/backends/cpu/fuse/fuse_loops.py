"""The pass that writes down the plan of a kernel: its loop nests, and the tiles that pass through scratch memory.

    %3 = load %2 {...} : tile<1024xf32>        an expression: the loops that read it compute it
    %4 = exp %3 : tile<1024xf32>
    buffer %4                                  the next loops also write it to scratch memory
    %5 = loop_nest : f32 {
      %6 = reduce %4 {axis=0} : f32 { ... }
      yield %6
    }
    loop_nest %mask { store %p, %7, %mask  yield }
    free %4

`plan.py` and `buffering.py` decide; this file emits. Ops that are evaluated by chunks stand before the first op that
reads them, so the module means what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from .... import ops
from ....analysis.axis_info import AxisAnalysis
from ....ir.core import Arg, Block, Module, Op, Result, Value, op_of
from ....ir.opdef import OpKind
from ....ir.rewrite import inputs
from ....passes.assumed import Assumed
from . import ops as cpu_ops
from .buffering import induction_tiles
from .dependences import Assumptions
from .plan import LoopNest, is_scalar, plan


def fuse_loops(module: Module, is_lazy: Callable[[Op], bool], visits: Callable[[Op], str]) -> Module:
    """Put stores and reductions into loop nests, and say which tiles are kept in scratch memory, and until when.

    `is_lazy(op)`: whether the loops that read a tile compute it. `visits(op)`: what the loops of a statement visit of
    its operands: "chunks", "elements" or "some".
    """
    assumed = Assumed(module)

    def fused(function: Module, *assumptions: list | None) -> Block:
        return _Fusion(function, Assumptions(function, *assumptions), is_lazy, visits).block(function.body)

    functions = [function.replace(body=fused(function)) for function in module.functions]
    body = fused(module, assumed.pairs, assumed.nonnegative)
    return assumed.stated_by(module.replace(body=body, functions=functions))


class _Fusion:
    """The state of the pass. The plan of a block asks for the first three.

    buffers: lazy tiles in scratch memory    inner: whether the block is inside of another
    assumptions: preconditions, and the alias analysis
    done: ops that are emitted      names: op -> the values that replace its results, where they differ
    out: the ops of the block that is written
    """

    def __init__(self, module: Module, assumptions: Assumptions, is_lazy: Callable[[Op], bool],
                 visits: Callable[[Op], str]):
        self.module, self.assumptions, self.visits = module, assumptions, visits
        self.nonnegative = assumptions.nonnegative
        self.buffers: set[Value] = set()
        self.inner = False
        self.axis_info: AxisAnalysis | None = None
        self.done: set[Op] = set()
        self.names: dict[Value, tuple[Value, ...]] = {}
        self.out: list[Op] = []
        self._is_lazy = is_lazy
        self._lazy: dict[Op, bool] = {}

    def is_lazy(self, op: Op) -> bool:
        """Whether an op is evaluated by chunks, inside the loop nests that use it."""
        found = self._lazy.get(op)
        if found is None:
            found = self._lazy[op] = self._is_lazy(op)
        return found

    # --- blocks ---------------------------------------------------------------------------------------------------
    def block(self, block: Block, inductions: Collection[Value] = ()) -> Block:
        """A block with its loop nests; `inductions` are parameters that need no scratch memory."""
        found, outer = plan(self, block), (self.out, self.inner, self.buffers)
        self.out, self.inner, self.buffers = [], True, set(self.buffers)
        self.mark(cpu_ops.free, [x for x in found.unread if x not in inductions])
        for item in found.program:
            if type(item) is Op:
                self.op(item)
            else:
                self.nest(item, inductions)
        made = Block(block.args, self.out)
        self.out, self.inner, self.buffers = outer
        return made

    def nest(self, nest: LoopNest, inductions: Collection[Value]) -> None:
        """Emit a loop nest: what comes before it, its ops, what is dead behind it."""
        self.loops(nest.first_keeps, nest.before)
        self.buffers.update(nest.before, nest.first_keeps)
        if nest.space is None:
            self.require(inputs(nest.ops[0]))
            self.mark(cpu_ops.buffer, nest.keeps)
            self.op(nest.ops[0])
        elif nest.ops:
            self.shared(nest)
        else:
            self.loops(nest.keeps, [nest.force], nest.in_place)
        self.buffers.update(nest.keeps, () if nest.force is None else (nest.force,))
        if not (nest.ops and nest.ops[-1].kind.terminator):
            self.mark(cpu_ops.free, [x for x in nest.dead if x not in inductions])
            self.buffers.difference_update(nest.dead)
        for op in nest.after:
            self.op(op)

    def shared(self, nest: LoopNest) -> None:
        """Emit statements that share a loop nest; the nest yields their results."""
        clip = [] if nest.clip is None else [nest.clip]
        for op in nest.ops:
            self.require(inputs(op))
        self.require([*nest.keeps, *clip, *([] if nest.force is None else [nest.force])])
        self.mark(cpu_ops.buffer, nest.keeps)
        outer, self.out = self.out, []
        self.mark(cpu_ops.materialize, [] if nest.force is None else [nest.force], in_place=False)
        for op in nest.ops:
            self.op(op)
        yields = tuple([self.value(x) for op in nest.ops for x in op.results])
        body = Block((), [*self.out, Op(ops.yield_, yields, {}, ())])
        self.out = outer
        axis = nest.space[2] if nest.space[0] == "columns" else None
        made = Op(cpu_ops.loop_nest, tuple(map(self.value, clip)), {"axis": axis, "beyond": nest.beyond},
                  tuple([x.type for x in yields]), (body,), nest.ops[0].loc)
        self.out.append(made)
        results = list(made.results)
        for op in nest.ops:
            if op.types:
                self.names[op], results = tuple(results[:len(op.types)]), results[len(op.types):]

    # --- ops ------------------------------------------------------------------------------------------------------
    def op(self, op: Op) -> None:
        """Emit an op, after those that it reads; nothing if it is there."""
        if op not in self.done:
            self.require(inputs(op))
            self.emit(op)

    def emit(self, op: Op) -> None:
        """Emit an op whose operands are there."""
        self.done.add(op)
        made = op
        if op.regions:
            regions = tuple([self.region(op, region) for region in op.regions])
            if any(a is not b for a, b in zip(regions, op.regions)):
                made = op.replace(regions=regions)
        operands = self.operands(op)
        if operands is not op.operands:
            made = made.replace(operands=operands)
        self.out.append(made)
        if made is not op:
            self.names[op] = made.results

    def operands(self, op: Op) -> tuple[Value, ...]:
        """The operands of an op in the new module; the same tuple if none differs."""
        for x in op.operands:
            if op_of(x) in self.names:
                return tuple(map(self.value, op.operands))
        return op.operands

    def region(self, op: Op, region: Block) -> Block:
        """A region of an op: loops and branches have blocks with loop nests, others compute with scalars."""
        if op.kind.loop:
            carried = region.args[len(region.args) - len(op.results):]
            return self.block(region, {carried[k] for k in induction_tiles(op)})
        return self.block(region) if op.kind is ops.if_ else self.renamed(region)

    def renamed(self, region: Block) -> Block:
        """A region of scalars with the values that it captures replaced."""
        made = []
        for op in region.ops:
            regions, operands = tuple(map(self.renamed, op.regions)), self.operands(op)
            same = operands is op.operands and all(a is b for a, b in zip(regions, op.regions))
            made.append(op if same else op.replace(operands=operands, regions=regions))
            if not same:
                self.names[op] = made[-1].results
        return region if all(a is b for a, b in zip(made, region.ops)) else Block(region.args, made)

    def loops(self, keeps: Sequence[Value], tiles: Sequence[Value], in_place: bool = False) -> None:
        """Emit loops that write tiles to scratch memory, and others (`keeps`) that they compute."""
        if tiles:
            self.require([*keeps, *tiles])
            self.mark(cpu_ops.buffer, keeps)
            self.mark(cpu_ops.materialize, tiles, in_place=in_place)

    def mark(self, kind: OpKind, tiles: Sequence[Value], **attrs: Any) -> None:
        """Emit an op without results on tiles, if there are any."""
        if tiles:
            self.out.append(Op(kind, tuple(map(self.value, tiles)), attrs, ()))

    def require(self, values: Iterable[Value]) -> None:
        """Emit lazy ops and scalars that are not there yet, operands first."""
        stack = self.missing(values)
        while stack:
            before = [] if stack[-1] in self.done else self.missing(inputs(stack[-1]))
            if before:
                stack += before
            elif (op := stack.pop()) not in self.done:
                self.emit(op)

    def missing(self, values: Iterable[Value]) -> list[Op]:
        """The ops of `values` that are still to be emitted, the first one last."""
        found = []
        for x in values:
            op = op_of(x)
            if op not in self.done and type(op) is not Arg and (self.is_lazy(op) or is_scalar(op)):
                found.append(op)
        found.reverse()
        return found

    def value(self, x: Value) -> Value:
        """What stands for a value in the new module."""
        found = self.names.get(op_of(x))
        return x if found is None else found[x.index if type(x) is Result else 0]
