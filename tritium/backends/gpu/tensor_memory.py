"""Allocate tensor memory: the columns that the sums of each dot take, on targets that keep them there.

    tensor_memory_alloc {columns=128}
    %1 = dot_shared %a, %b, %acc {..., column=0, held=True} : tile<128x128xf32>
    tensor_memory_free {columns=128}

`column` is where the sums of a dot begin. Those of a loop that only gathers products stay there while it runs (`held`),
and behind it until they are waited for. All others are read back at once, and share what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.core import Block, Module, Op, Result, Value, walk
from ...ir.rewrite import annotate
from . import ops as gpu_ops
from .analysis.held_sums import held_sums
from .target import Target


def allocate_tensor_memory(module: Module, target: Target) -> Module:
    """Give every dot that needs them its columns of tensor memory, and have the kernel allocate them all at once."""
    if not target.tensor_columns:
        return module
    warps = module.attrs["num_warps"]
    wide = {op: count for op in walk(module.body) if (count := target.mma.columns(op, warps)) is not None}
    if not wide or any(op.kind is gpu_ops.tensor_memory_alloc for op in module.body.ops):
        return module
    columns = _Columns(wide, hold=True)
    columns.block(module.body)
    if columns.most > target.tensor_columns:  # one dot at a time always fits
        columns = _Columns(wide, hold=False)
        columns.block(module.body)
    total = {"columns": 1 << (columns.most - 1).bit_length()}
    body, loc = annotate(module.body, columns.found), next(iter(wide)).loc
    first = Op(gpu_ops.tensor_memory_alloc, (), total, (), loc=loc)
    last = Op(gpu_ops.tensor_memory_free, (), total, (), loc=loc)
    return module.replace(Block(body.args, (first, *body.ops, last)))


class _Columns:
    """The columns in use while a block runs, as (start, end)."""

    def __init__(self, wide: Mapping[Op, int], hold: bool):
        self.wide, self.hold = wide, hold
        self.alive: list[tuple[int, int]] = []
        self.held: set[Op] = set()
        self.unfinished: dict[Any, tuple[int, int]] = {}  # results of loops whose last dot is in flight
        self.found: dict[Op, dict] = {}
        self.most = 0

    def block(self, block: Block) -> None:
        for op in block.ops:
            if op in self.wide and op not in self.held:
                self.give(op, self.free(self.wide[op]), held=False)
            if op.kind is gpu_ops.dot_wait:
                self.end(self.unfinished.pop(_key(op.operands[0]), None))
            sums = self.sums(op)
            for region in op.regions:
                self.block(region)
            for k, dot, place in sums:
                if dot.attrs.get("pending", 0) == 0:
                    self.end(place)
                else:
                    self.unfinished[op, k] = place

    def sums(self, op: Op) -> list[tuple[int, Op, tuple[int, int]]]:
        """(position, dot, columns) of the sums that stay in place while a loop runs."""
        if not self.hold or not op.kind.loop or len(op.regions) > 1:
            return []
        out = []
        for k, dot in held_sums(op.regions[0]):
            if dot in self.wide:
                before = self.unfinished.pop(_key(op.operands[3 + k]), None)  # go on where they are
                place = before or self.free(self.wide[dot])
                self.alive += [] if before else [place]
                self.held.add(dot)
                self.give(dot, place, held=True)
                out.append((k, dot, place))
        return out

    def give(self, op: Op, place: tuple[int, int], held: bool) -> None:
        self.found[op] = {**op.attrs, "column": place[0], "held": held}
        self.most = max(self.most, place[1])

    def free(self, count: int) -> tuple[int, int]:
        """The first columns that nobody uses."""
        start = 0
        for low, high in sorted(self.alive):
            if start + count <= low:
                break
            start = max(start, high)
        return start, start + count

    def end(self, place: tuple[int, int] | None) -> None:
        if place is not None:
            self.alive.remove(place)


def _key(x: Value) -> tuple[Any, int]:
    return (x.op, x.index) if type(x) is Result else (x, 0)
