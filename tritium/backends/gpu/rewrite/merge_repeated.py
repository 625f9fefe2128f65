"""Merge what a kernel loads or reduces twice, if nothing is written in between.

    x = load p {eviction="evict_last"}              x = load p
    m = reduce x {max}                              m = reduce x {max}
    y = load p {eviction="evict_first"}     ->      s = reduce exp(x - m) {add}
    s = reduce exp(y - m) {add}

Kernels that go over a row several times are written so, for rows of any length. Once their loops are unrolled, a row is
loaded where it was just computed with. It stays in registers, if a thread has enough of them. Where a mask is off, the
two may have different values: the second is chosen by the mask.
"""

from __future__ import annotations

from collections.abc import Callable

from .... import ops
from ....ir import types as T
from ....ir.builder import attr_key, op_key
from ....ir.core import Block, Module, Op, Result, Value, walk
from ....ir.rewrite import Rewriter, effects, sweep
from ....passes.dce import dce
from ....passes.functions import each_function
from ....passes.simplify import full
from ..cost_model import CostModel
from ..ops import bytes_of


def merge_repeated(lanes: int, cost: CostModel) -> Callable[[Module], Module]:
    """The pass for warps of `lanes` lanes; `cost` has the bytes that a thread may keep.

    >>> from tritium.backends.nvptx.isa.target import NvTarget
    >>> from tritium.ir.text import parse_module
    >>> print(merge_repeated(32, NvTarget.of(90).cost)(parse_module('''kernel @f(%p: ptr<f32>, %q: ptr<f32>) {
    ...   %0 = load %p {eviction="evict_last"} : f32
    ...   %1 = load %p {eviction="evict_first"} : f32
    ...   %2 = add %0, %1 : f32
    ...   store %q, %2
    ... }''')), end="")
    kernel @f(%p: ptr<f32>, %q: ptr<f32>) {
      %2 = load %p {eviction="evict_last"} : f32
      %3 = add %2, %2 : f32
      store %q, %3
    }
    """

    @each_function
    def merge_repeated(module: Module) -> Module:
        """Merge repeated loads and reductions."""
        pointers = [op.operands[0] for op in walk(module.body) if op.kind is ops.load]
        if len(set(pointers)) == len(pointers):
            return module
        earlier = Earlier(cost.kept_bytes * lanes * module.attrs.get("num_warps", 4))
        return dce(sweep(module, earlier.find))

    return merge_repeated


class Earlier:
    """The loads since the last write and the reductions, by what they compute; `room` is the bytes left to keep."""

    def __init__(self, room: int):
        self.room = room
        self.loads: dict[tuple, Op] = {}
        self.reductions: dict[tuple, Op] = {}
        self.kept: set[Op] = set()

    def find(self, b: Rewriter, op: Op) -> tuple[Value, ...] | None:
        """The results of an earlier op of this block that computes the same; None if there is none."""
        if op.kind is ops.reduce:
            return self._same(b, op, self.reductions, (op_key(op), _region_key(op.regions[0])))
        if op.kind is ops.load and not op.attrs["volatile"] and not op.attrs["cache"]:
            found = self._same(b, op, self.loads, op.operands[:2])
            return found and (_elsewhere(b, op, found[0]),)
        if effects(op) == "write":
            self.loads.clear()
        return None

    def _same(self, b: Rewriter, op: Op, known: dict[tuple, Op], key: tuple) -> tuple[Value, ...] | None:
        found = known.get(key)
        if found is not None and b.is_here(found) and self._keeps(found):
            return found.results
        known[key] = op
        return None

    def _keeps(self, op: Op) -> bool:
        """Whether there is room for the results of an op until they are needed again."""
        if op in self.kept:
            return True
        size = sum(map(bytes_of, op.types))
        if size > self.room:
            return False
        self.kept.add(op)
        self.room -= size
        return True


def _elsewhere(b: Rewriter, op: Op, found: Value) -> Value:
    """What an earlier load gives, with the value that a load has where its mask is off."""
    mine, theirs = op.operands[2:], found.operands[2:] if type(found) is Op else ()
    if theirs and not mine:  # a load without one gives zeros there
        t = T.element(op.type)
        mine = (full(b, 0.0 if type(t) is T.Scalar and t.is_float else 0, op.type),)
    return ops.select(b, op.operands[1], found, *mine) if mine != theirs else found


def _region_key(region: Block) -> tuple:
    """Equal for regions that compute the same."""
    places: dict[Value, object] = {arg: (k,) for k, arg in enumerate(region.args)}

    def place(x: Value) -> object:
        if type(x) is Result:
            return places.get(x.op, x.op), x.index
        return places.get(x, x)

    rows = []
    for k, op in enumerate(region.ops):
        inside = tuple(map(_region_key, op.regions))
        rows.append((op.kind, tuple(map(place, op.operands)), *op.attrs, *map(attr_key, op.attrs.values()), inside))
        places[op] = k
    return tuple(rows)
