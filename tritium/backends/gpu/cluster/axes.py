"""Which axes of a kernel's tiles are split over the blocks of a cluster.

Axes of different tiles that must be split together are one *dimension*: the rows of a sum and of both its terms, the
rows of a product and of its lhs. The gain of a dimension is the work on all tiles that have it, less the traffic
between blocks where an op needs the whole axis or reduces along it. The best dimensions are chosen, so that no tile is
split twice; tiles without one are replicated in every block.

Tiles computed from scalars alone belong to no dimension: they are rematerialized for any part.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Block, Module, Op, Result, Value
from ..cost_model import CostModel

Along: TypeAlias = "tuple[int | None, ...]"  # an axis of each operand
Node: TypeAlias = "tuple[Value, int]"  # an axis of a value


# --- one rule for each kind of op: what its operands must be like for the result to be cut along an axis --------------
def operand_axes(op: Op, axis: int, blocks: int, least_of_dot: int = 1) -> Along | None:
    """The axis along which each operand of an op must be split (None: replicated) for its results, or its effect on
    memory, to be split along `axis`; None if that is impossible, or leaves a dot fewer rows or columns.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: tile<8x4xf32>) {\\n %0 = trans %x {order=(1, 0)} : tile<4x8xf32>\\n}")
    >>> operand_axes(m.body.ops[0], 0, 2)
    (1,)
    """
    if op.kind.positionwise:
        return (axis,) * len(op.operands)
    if op.kind is ops.dot:
        return _dot(op, axis, blocks, least_of_dot)
    rule = _RULES.get(op.kind)
    return rule(op, axis, blocks) if rule else None


def _packed(op: Op, axis: int, blocks: int) -> Along | None:
    """Neighbours that are computed together stay in one block."""
    shape = T.shape(op.operands[0].type) if op.operands else ()
    inner = T.numel(T.with_shape(T.i1, shape[axis:])) if shape else 0
    return (axis,) * len(op.operands) if shape and inner // blocks % op.attrs["pack"] == 0 else None


def _reshape(op: Op, axis: int, blocks: int) -> Along | None:
    """The axis that begins at the same element."""
    old, new = T.shape(op.operands[0].type), T.shape(op.type)
    if op.attrs["reorder"]:
        return None
    behind = T.numel(T.with_shape(T.i1, new[axis:]))
    for k, size in enumerate(old):
        if size % blocks == 0 and T.numel(T.with_shape(T.i1, old[k:])) == behind:
            return (k,)
    return None


def _not_last(op: Op, axis: int, blocks: int) -> Along | None:
    return (axis,) * len(op.operands) if axis < len(op.type.shape) - 1 else None


def _not_along(op: Op, axis: int, blocks: int) -> Along | None:
    return (axis,) * len(op.operands) if axis != op.attrs["axis"] else None


def _dot(op: Op, axis: int, blocks: int, least: int) -> Along | None:
    shape = op.type.shape
    if axis < len(shape) - 2:
        return (axis, axis, axis)
    if shape[axis] // blocks < least:
        return None
    return (axis, None, axis) if axis == len(shape) - 2 else (None, axis, axis)


_RULES = {
    ops.arange: lambda op, axis, blocks: (),
    ops.splat: lambda op, axis, blocks: (None,),
    ops.expand_dims: lambda op, axis, blocks: (
        (axis - (axis > op.attrs["axis"]),) if axis != op.attrs["axis"] else None),
    ops.broadcast: lambda op, axis, blocks: (axis if T.shape(op.operands[0].type)[axis] != 1 else None,),
    ops.reshape: _reshape,
    ops.trans: lambda op, axis, blocks: (op.attrs["order"][axis],),
    ops.join: _not_last,
    ops.split: lambda op, axis, blocks: (axis,),
    ops.cat: _not_along,
    ops.gather: lambda op, axis, blocks: (None if axis == op.attrs["axis"] else axis, axis),
    ops.sort: _not_last,
    ops.topk: _not_last,
    ops.reduce: lambda op, axis, blocks: (axis + (axis >= op.attrs["axis"]),) * len(op.operands),
    ops.scan: _not_along,
    ops.map_: _packed,
    ops.inline_asm: _packed,
}


class Axes:
    """The chosen axes: `of(x)` is the axis along which a tile is split over the blocks, None if it is replicated."""

    def __init__(self, module: Module, blocks: int, cost: CostModel):
        self.blocks, self.cost = blocks, cost
        self.parents, self.gain, self.order = {}, {}, {}
        self._remade = {}
        self._visit(module.body, 1)
        self.chosen = self._choose()

    def operand_axes(self, op: Op, axis: int) -> Along | None:
        """As the function, for the blocks of this cluster."""
        return operand_axes(op, axis, self.blocks, self.cost.least_of_dot)

    def of(self, x: Value) -> int | None:
        """The axis of a value, or of the effect of an op without results."""
        tile = _tile(x)
        if tile is None:
            return None
        return next((k for k in range(len(tile.shape)) if self._root((x, k)) in self.chosen), None)

    def remade(self, x: Value) -> bool:
        """True if a tile is rematerialized at its uses."""
        if type(x.type) is not T.Tile:
            return True
        if type(x) is not Op:
            return False
        if x not in self._remade:
            simple = x.kind.rematerializable and len(x.types) == 1
            self._remade[x] = simple and all(map(self.remade, x.operands))
        return self._remade[x]

    # --- dimensions ---------------------------------------------------------------------------------------------------
    def _root(self, node: Node) -> Node:
        while self.parents.get(node, node) != node:
            node = self.parents[node]
        return node

    def _tie(self, x: Node, y: Node) -> None:
        """Two axes of two values are one dimension."""
        a, b = self._root(x), self._root(y)
        if a != b:
            self.parents[b] = a
            self.gain[a] = self.gain.get(a, 0) + self.gain.pop(b, 0)

    def _node(self, x: Value, axis: int) -> Node:
        node = (x, axis)
        if node not in self.parents:
            self.parents[node] = node
            self.order[node] = len(self.order)
        return node

    def _nodes(self, x: Value) -> list[tuple[int, Node]]:
        """[(axis, node)] of a tile that is not rematerialized, for the axes that can be split."""
        tile = _tile(x)
        if tile is None or (type(x) is Op and x.types and self.remade(x)):
            return []
        return [(k, self._node(x, k)) for k, size in enumerate(tile.shape) if size % self.blocks == 0]

    def _count(self, node: Node, gain: int) -> None:
        root = self._root(node)
        self.gain[root] = self.gain.get(root, 0) + gain

    # --- what each op says of them ------------------------------------------------------------------------------------
    def _visit(self, block: Block, trips: int) -> None:
        for op in block.ops:
            if op.kind.loop:
                self._loop(op)
                for region in op.regions:
                    self._visit(region, trips * self.cost.assumed_trips)
            elif op.kind is ops.if_:
                for k, x in enumerate(op.results):
                    self._tie_values(x, *(region.yields[k] for region in op.regions))
                for region in op.regions:
                    self._visit(region, trips)
            elif not op.kind.terminator:
                self._op(op, trips)

    def _loop(self, op: Op) -> None:
        first, parameters = op.kind.loop
        for k, init in enumerate(op.operands[first:]):
            inside = [region.args[parameters + k] for region in op.regions]
            self._tie_values(op.results[k], init, *inside, op.regions[-1].yields[k])

    def _tie_values(self, first: Value, *others: Value) -> None:
        for axis, node in self._nodes(first):
            for x in others:
                if not self.remade(x):
                    self._tie(node, self._node(x, axis))

    def _op(self, op: Op, trips: int) -> None:
        values = op.results if op.types else (op,)
        kept = {}
        for axis, node in self._nodes(values[0]):
            for other in values[1:]:
                self._tie(node, self._node(other, axis))
            wanted = self.operand_axes(op, axis)
            if wanted is None:
                self._count(node, -self.cost.far_element * trips * _elements(op))  # made whole, then cut
                continue
            self._count(node, trips * _work(op, axis, self.blocks, self.cost.good_rows))
            for k, (x, at) in enumerate(zip(op.operands, wanted)):
                if at is not None and type(x.type) is T.Tile and not self.remade(x):
                    self._tie(node, self._node(x, at))
                    kept.setdefault(k, set()).add(at)
        for k, x in enumerate(op.operands):
            for axis, node in self._nodes(x) if type(x.type) is T.Tile else ():
                if axis not in kept.get(k, ()):  # looked at as a whole
                    self._count(node, -self.cost.far_element * trips * _elements(op if op.kind is ops.reduce else x))

    # --- the choice ---------------------------------------------------------------------------------------------------
    def _choose(self) -> set[Node]:
        """Dimensions with a positive gain, the best first; ties in program order, then in the order of axes."""
        tiles = {}  # value -> dimensions of its axes
        for node in self.parents:
            tiles.setdefault(node[0], []).append(self._root(node))
        twice = {root for roots in tiles.values() for root in roots if roots.count(root) > 1}
        wanted = sorted((r for r, gain in self.gain.items() if gain > 0 and r not in twice),
                        key=lambda r: (-self.gain[r], self.order[r]))  # fmt: skip
        chosen = set()
        for root in wanted:
            if not any(root in roots and chosen.intersection(roots) for roots in tiles.values()):
                chosen.add(root)
        return chosen


def _tile(x: Any) -> T.Tile | None:
    """The type of a tile; for an op without results, of its first operand."""
    t = x.type if type(x) in (Arg, Result) or x.types else x.operands[0].type if x.operands else None
    return t if type(t) is T.Tile else None


def _elements(x: Value) -> int:
    if type(x) is Op and not x.types:
        x = x.operands[0]
    return max(T.numel(x.type if type(x) is not Op else x.types[0]), 1)


def _work(op: Op, axis: int, blocks: int, good_rows: int) -> int:
    """The cost of an op that is split over the blocks. MMAs need rows."""
    if op.kind is not ops.dot:
        return _elements(op)
    depth = op.operands[0].type.shape[-1]
    few = axis == len(op.type.shape) - 2 and op.type.shape[axis] // blocks < good_rows
    return _elements(op) * depth // (2 if few else 1)
