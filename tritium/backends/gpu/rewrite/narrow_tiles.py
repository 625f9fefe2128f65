"""Narrow tiles to the part that masks leave of them.

    j = program_id * 4 + arange(0, 4)               j = program_id * 4 + arange(0, 1)
    x = load p + i[:, None] + j, j < 1       ->     x = load p + i[:, None] + j, j < 1
    store q + j, sum(x, 0), j < 1                   store q + j, sum(x, 0), j < 1

A kernel for any number of columns takes several at a time. Called with one, which is a constant then, it would compute
the others for nothing. An axis is narrowed if all stores that have it are masked so, and nothing combines its elements.
Axes of different tiles that must be narrowed together are one class, as the dimensions of clusters are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

from .... import ops
from ....analysis.affine import Form, is_uniform
from ....analysis.polynomial import Scalars
from ....analysis.ranges import Derivations
from ....analysis.views import axes_behind
from ....ir import types as T
from ....ir.bounds import bounds
from ....ir.builder import Builder
from ....ir.core import Block, Module, Op, Result, Value, walk
from ....ir.rewrite import copy_region
from ....passes import CLEANUP
from ..analysis.operand_axes import Along, Node, operand_axes, tile_of

Shape = tuple[int, ...]


def narrow_tiles(module: Module) -> Module:
    """Narrow the axes of tiles that are longer than what all stores write of them.

    >>> from tritium.ir.text import parse_module
    >>> print(narrow_tiles(parse_module('''kernel @f(%p: ptr<f32>) {
    ...   %0 = arange {start=0, end=4} : tile<4xi32>
    ...   %1 = constant {value=1, type=i32} : i32
    ...   %2 = splat %1 {shape=(4,)} : tile<4xi32>
    ...   %3 = lt %0, %2 : tile<4xi1>
    ...   %4 = splat %p {shape=(4,)} : tile<4xptr<f32>>
    ...   %5 = addptr %4, %0 : tile<4xptr<f32>>
    ...   %6 = load %5, %3 : tile<4xf32>
    ...   store %5, %6, %3
    ... }''')), end="")
    kernel @f(%p: ptr<f32>) {
      %1 = splat %p {shape=(1,)} : tile<1xptr<f32>>
      %2 = load %1 : tile<1xf32>
      store %1, %2
    }
    """
    axes = _Axes(module) if ops.lt in module.kinds and not any(kind.mma for kind in module.kinds) else None
    if axes is None or not axes.factors:
        return module
    made = module.replace(body=_Narrowed(module, axes).made)
    for step in CLEANUP:
        made = step(made)
    return made


class _Axes:
    """The axes of tiles; `factors` has by which number those of a class are narrowed, by the class's root."""

    def __init__(self, module: Module):
        self.known, self.forms = module.found_by(Derivations), Scalars()
        self.parents: dict[Node, Node] = {}
        self.whole: set[Node] = set()  # needed from end to end
        self.factors: dict[Node, int] = {}
        stores = [op for op in walk(module.body) if op.kind.writes]
        cut = {(op, k): self._left(op, k) for op in stores for k in range(len(_shape(op)))}
        if all(factor == 1 for factor in cut.values()):
            return
        self.whole.update(node for node, factor in cut.items() if factor == 1)
        for arg in module.args:
            self._need(arg)
        self._visit(module.body)
        whole = {self._root(node) for node in self.whole}
        for node, factor in cut.items():
            root = self._root(node)
            if root not in whole:
                self.factors[root] = min(factor, self.factors.get(root, factor))
        for x, axis in [*self.parents]:
            root = self._root((x, axis))
            if root in self.factors:
                self.factors[root] = math.gcd(self.factors[root], _shape(x)[axis])

    def shape(self, x: Value) -> Shape:
        """The shape to which a tile is narrowed; for an op without results, that of its first operand."""
        return tuple(n // self.factors.get(self._root((x, k)), 1) for k, n in enumerate(_shape(x)))

    def _root(self, node: Node) -> Node:
        while self.parents.get(node, node) != node:
            node = self.parents[node]
        return node

    def _tie(self, x: Value, axis: int, y: Value, other: int) -> None:
        """Two axes of two values are narrowed together."""
        if not _is_leaf(x) and not _is_leaf(y):
            self.parents.setdefault((x, axis), (x, axis))
            self.parents.setdefault((y, other), (y, other))
            self.parents[self._root((y, other))] = self._root((x, axis))

    def _need(self, x: Value, but: Sequence[int] = ()) -> None:
        """A tile is needed from end to end along all axes but some."""
        self.whole.update((x, k) for k in range(len(_shape(x))) if k not in but)

    def _visit(self, block: Block) -> None:
        for op in block.ops:
            if op.kind.loop or op.kind is ops.if_:
                first, skip = op.kind.loop or (1, 0)
                inits = op.operands[first:] or (None,) * len(op.types)
                for k, (x, init) in enumerate(zip(op.results, inits, strict=True)):
                    same = [*filter(None, (init,)), *(r.args[skip + k] for r in op.regions if r.args)]
                    same += [r.yields[k] for r in (op.regions[-1:] if op.kind.loop else op.regions)]
                    for y in same:
                        for axis in range(len(_shape(x))):
                            self._tie(x, axis, y, axis)
                for region in op.regions:
                    self._visit(region)
            elif not op.kind.terminator and not _is_leaf(op):
                self._op(op)

    def _op(self, op: Op) -> None:
        first, *others = op.results or (op,)
        shape, read = _shape(first), [set() for _ in op.operands]
        for axis, n in enumerate(shape):
            wanted = along(op, axis, n)
            if wanted is None:
                self.whole.update((x, axis) for x in (first, *others))
                continue
            for x in others:
                self._tie(first, axis, x, axis)
            for x, at, axes in zip(op.operands, wanted, read):
                if at is not None and type(x.type) is T.Tile:
                    self._tie(first, axis, x, at)
                    axes.add(at)
        for x, axes in zip(op.operands, read):
            if not _is_leaf(x):
                self._need(x, tuple(axes))

    def _left(self, op: Op, axis: int) -> int:
        """By which power of two an axis of a write is longer than the part for which its mask may be on."""
        shape = _shape(op)
        left, open_ = shape[axis], [(op.mask, tuple(k == axis for k in range(len(shape))))]
        while open_:
            x, axes = open_.pop()
            if type(x) is not Op or True not in axes:
                continue
            if x.kind is ops.and_ or x.kind.view and x.kind is not ops.reshape:
                open_ += [(y, axes_behind(x, axes, False) if x.kind.view else axes) for y in x.operands]
            elif x.kind is ops.lt and T.element(x.operands[0].type) in (T.i32, T.i64):
                index, limit = map(self.forms.of, x.operands)
                step, end = index.strides[axes.index(True)].number, limit.base.number
                if step and step > 0 and end is not None and is_uniform(limit) and self._is_positive(index):
                    left = min(left, max(1, -(-end // step)))
        return shape[axis] >> (left - 1).bit_length()

    def _is_positive(self, form: Form) -> bool:
        """True if nothing that a form adds to its strides is negative."""
        values = [x for product in form.base.terms for x in product]
        return not form.loose and all(c > 0 for c in form.base.terms.values()) and all(
            bounds(self.known.rows(x))[0] >= 0 for x in values)  # fmt: skip


def along(op: Op, axis: int, n: int) -> Along | None:
    """As `operand_axes`; None as well for what is done with elements beside computing others."""
    if op.kind is ops.hint or op.kind.effects_of(op) and not op.kind.access or op.attrs.get("volatile"):
        return None
    return operand_axes(op, axis, n)


class _Narrowed:
    """A copy of a module on narrowed tiles: `made` is its body."""

    def __init__(self, module: Module, axes: _Axes):
        self.axes, self.b = axes, Builder()
        self.b.arguments = list(module.args)
        self.names: dict[Value, tuple[Value, ...]] = {arg: (arg,) for arg in module.args}
        self._ops(module.body)
        self.made = self.b.finish()

    def _ops(self, block: Block) -> None:
        for op in block.ops:
            if not op.kind.terminator and not _is_leaf(op):
                self.b.loc = op.loc
                made = self._op(op)
                self.names[op] = made if type(made) is tuple else (made,)

    def _op(self, op: Op) -> Any:
        if op.kind.loop or op.kind is ops.if_:
            first = op.kind.loop[0] if op.kind.loop else 1
            shapes = [_shape(x) for x in op.operands[:first]] + [self.axes.shape(x) for x in op.results]
            operands = [self._value(x, shape) for x, shape in zip(op.operands, shapes)]
            return self.b.emit(op.kind, operands, op.attrs, [self._region(r, op) for r in op.regions])
        x = op.results[0] if op.types else op
        old, new, shapes = _shape(x), self.axes.shape(x), [[*_shape(y)] for y in op.operands]
        for axis, (n, m) in enumerate(zip(old, new)):
            for shape, at in zip(shapes, along(op, axis, n) or () if n != m else ()):
                if at is not None and shape:
                    shape[at] = shape[at] * m // n
        operands = [self._value(y, tuple(shape)) for y, shape in zip(op.operands, shapes)]
        attrs = {**op.attrs, **_shaped(op, new)}
        return self.b.emit(op.kind, operands, attrs, [copy_region(self.b, r, self.names) for r in op.regions])

    def _region(self, block: Block, owner: Op) -> Block:
        types = [T.with_shape(a.type, self.axes.shape(a)) if _shape(a) else a.type for a in block.args]
        with self.b.region(types, [a.name for a in block.args]) as region:
            self.names.update((old, (new,)) for old, new in zip(block.args, region.args))
            self._ops(block)
            last = block.ops[-1]
            wanted = [self.axes.shape(x) for x in owner.results] if len(last.operands) == len(owner.types) else ()
            operands = [self._value(x, shape) for x, shape in zip(last.operands, wanted or [()] * len(last.operands))]
            self.b.emit(last.kind, operands, last.attrs)
        return region.block

    def _value(self, x: Value, shape: Shape) -> Value:
        """What stands for a value, which is read in this shape."""
        if not _is_leaf(x):
            return self.names[x.op][x.index] if type(x) is Result else self.names[x][0]
        changed = {"end": x.attrs["start"] + shape[0]} if x.kind is ops.arange else _shaped(x, shape)
        return self.b.emit(x.kind, [self._value(y, ()) for y in x.operands], {**x.attrs, **changed})


def _is_leaf(x: Value) -> TypeGuard[Op]:
    """True for a tile that is computed from scalars alone: each op that reads it has one of its own."""
    return type(x) is Op and x.kind.rematerializable and _shape(x) != () and not any(map(_shape, x.operands))


def _shaped(op: Op, shape: Shape) -> dict[str, Shape]:
    """The attributes of an op that say its shape."""
    return {"shape": shape} if "shape" in op.attrs else {}


def _shape(x: Value) -> Shape:
    """The shape of a tile, () of a scalar; that of its first operand for an op without results."""
    tile = tile_of(x)
    return tile.shape if tile is not None else ()
