"""Scheduling fences: loads that do not depend on each other are issued before anything is computed from them.

    x = load p                          x = load p
    a = exp x                           y = load q
    y = load q                  ->      schedule_fence
    b = exp y                           a = exp x
    c = a + b                           b = exp y
                                        c = a + b

An assembler that saves registers moves each load back to its first use, between the arithmetic of others: a thread
then waits for memory several times, not once. A fence behind the last load of a group forbids that. It waits for
nothing, so the group should have several instructions (`CostModel.fenced_loads`), find room in the registers
(`fenced_share`), and be followed by some arithmetic (`fenced_work`).

A group is what one block loads without anything between that writes, branches, or meets other threads. A load whose
address or mask comes from a loaded value begins another group. Kernels with dots have pipelines in loops. Elsewhere a
fence helps them where arithmetic on what is loaded stands between the loads (`CostModel.fenced_between`), or much more
behind them (`fenced_work_with_dots`): measured, with less a fence costs more than it gains.
"""

from __future__ import annotations

from collections.abc import Iterable

from .... import ops
from ....ir import types as T
from ....ir.core import Block, Module, Op, Value, closure, op_of, walk
from ....ir.rewrite import Rewriter, effects
from .. import ops as gpu_ops
from ..layout.values import layout_of, loaded_late
from ..target import Target
from .unroll_loops import operations


def fence_loads(module: Module, target: Target) -> Module:
    """Put a scheduling fence behind loads that do not depend on each other, before what is computed from them."""
    loads = [op for op in walk(module.body) if op.kind is ops.load]
    if not target.cost.fenced_loads or not loads or module.attrs.get("producer_warps"):
        return module
    dots = any(kind.mma for kind in module.kinds)
    if any(loaded_late(load, dots) for load in loads):  # register by register: a fence would load all of it
        return module
    return _Fences(module, target).module(module)


def _registers(x: Value) -> int:
    """Registers of a thread, one for each element."""
    layout = layout_of(x)
    return layout.registers if layout else 1


class _Fences(Rewriter):
    """Rewrites blocks whose ops all threads of a warp execute together."""

    def __init__(self, module: Module, target: Target):
        super().__init__(lambda b, op: None)
        warps = module.attrs["num_warps"]
        self.cost, self.threads = target.cost, target.warp_size * warps
        self.room = target.machine.registers_of(warps, module.attrs.get("maxnreg")) // target.cost.fenced_share
        self.dots, self.in_loop = any(kind.mma for kind in module.kinds), False
        self.together = True  # whether all threads of a warp execute this block at once

    def region_of(self, block: Block, owner: Op) -> Block:
        around = self.together, self.in_loop
        self.together, self.in_loop = self.together and owner.kind.control_flow, self.in_loop or owner.kind.loop
        made = super().region_of(block, owner)
        self.together, self.in_loop = around
        return made

    def rewrite(self, block: Block) -> None:
        super().rewrite(Block(block.args, self.ordered(block.ops)) if self.together else block)

    def ordered(self, block: tuple[Op, ...]) -> tuple[Op, ...]:
        """The ops of a block with fences."""
        done: list[Op] = []
        run: list[Op] = []  # the first load of a group, and what follows it
        for k, op in enumerate(block):
            loads = op.kind is ops.load and not op.attrs["volatile"]
            if not loads and not _can_wait(op):
                done += self.fenced(run, block[k:])
                run = []
            elif loads and _depends(op, run):
                first, run = self.split(run, block[k:])
                done += first
            (run if run or loads else done).append(op)
        return (*done, *self.fenced(run, ()))

    def fenced(self, run: list[Op], following: tuple[Op, ...]) -> list[Op]:
        first, rest = self.split(run, following)
        return first + rest

    def split(self, run: list[Op], following: tuple[Op, ...]) -> tuple[list[Op], list[Op]]:
        """A group with what it needs, and a fence if it pays; then what was computed meanwhile."""
        loads = [op for op in run if op.kind is ops.load]
        needed = _needed(loads, run)
        first, rest = [op for op in run if op in needed], [op for op in run if op not in needed]
        between = [op for op in run[:run.index(loads[-1])] if op not in needed] if loads else []
        if self.pays(loads, between, (*rest, *following)):
            return [*first, Op(gpu_ops.schedule_fence, (), {}, (), loc=loads[-1].loc)], rest
        end = run.index(loads[-1]) + 1 if loads else 0
        return run[:end], run[end:]

    def pays(self, loads: list[Op], between: Iterable[Op], behind: Iterable[Op]) -> bool:
        instructions = sum(-(-_registers(op) // (op.attrs.get("vector") or 1)) for op in loads)
        if instructions < self.cost.fenced_loads or sum(map(_words, loads)) > self.room or self.dots and self.in_loop:
            return False
        elements = sum(map(_registers, loads))
        if self.dots and self.work(between) >= self.cost.fenced_between * elements:
            return True
        least = self.cost.fenced_work_with_dots if self.dots else self.cost.fenced_work
        return self.work(inner for op in behind for inner in _inside(op)) >= least * elements

    def work(self, block: Iterable[Op]) -> int:
        return operations(block, self.threads, self.cost)


def _inside(op: Op) -> Iterable[Op]:
    """An op and those of its regions."""
    return (op, *(inner for region in op.regions for inner in walk(region)))


def _words(load: Op) -> int:
    """32-bit registers of a thread that a load fills."""
    return max(1, _registers(load) * T.element(load.type).bytes // 4)


def _can_wait(op: Op) -> bool:
    """True for what may move behind a load: it neither touches memory nor branches, and no thread waits for others."""
    meets = op.kind.cross_lane or op.kind.terminator or "shared" in op.attrs
    return not (meets or op.regions or effects(op) or op.kind is ops.call)


def _depends(load: Op, run: list[Op]) -> bool:
    """True if a load needs what one of these loads has loaded."""
    return any(op.kind is ops.load for op in _needed([load], run) if op is not load)


def _needed(loads: list[Op], run: list[Op]) -> set[Op]:
    """The loads, and what they are computed from in a run of ops."""
    inside = set(run)
    return {*closure(loads, lambda op: inside.intersection(map(op_of, op.operands)))}
