"""Which axes of a kernel's tiles are split over the blocks of a cluster.

Axes of different tiles that must be split together are one *dimension*: the rows of a sum and of both its terms, the
rows of a product and of its lhs. The gain of a dimension is the work on all tiles that have it, less the traffic
between blocks where an op needs the whole axis or reduces along it. The best dimensions are chosen, so that no tile is
split twice; tiles without one are replicated in every block.

Tiles computed from scalars alone belong to no dimension: they are rematerialized for any part.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Block, Module, Op, Value
from ..analysis.operand_axes import Along, Node, operand_axes, tile_of
from ..cost_model import CostModel


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
        tile = tile_of(x)
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
        tile = tile_of(x)
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
