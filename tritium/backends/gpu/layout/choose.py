"""Which layout each tile is computed in: its anchor.

Memory ops and dots are anchors: their layout follows from the order of memory or from the tensor cores. Every other
tile takes the layout of its costliest operand, by the rules in `rules`. If all its operands are free to have any
layout, it takes the one in which a dot reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Block, Module, Op, Result, Value, closure, op_of, walk
from .. import ops as gpu_ops
from ..cost_model import CostModel
from ..target import Mma, Target
from .access import Accesses
from .axis import Axis
from .linear import Layout, multiplied, reducing, replicated, stacked, transposing
from .rematerialization import Rematerialization
from .rules import OPERAND, RESULT, scaled_layouts, simple


@dataclass(frozen=True, eq=False)
class Choice:
    """The layouts that were chosen: `anchors` has that of every tile of a module. `loads` are those of loads that take
    the layout of a user."""

    accesses: Accesses
    mma: Mma
    cost: CostModel
    loads: dict[Op, Layout] = field(default_factory=dict)
    remat: Rematerialization = field(default_factory=Rematerialization)
    anchors: dict[Value, Layout] = field(default_factory=dict)
    readers: Mapping[Value, list[tuple[Op, int]]] = field(default_factory=dict)  # in kernels with dots
    stored: Mapping[Op, Layout] = field(default_factory=dict)  # see `_stored_scans`

    @property
    def warps(self) -> int:
        """Warps of the program."""
        return self.accesses.warps

    @property
    def lanes(self) -> int:
        """Lanes of a warp."""
        return self.accesses.lanes

    def anchor(self, x: Value) -> Layout:
        """The layout a tile is computed in."""
        found = self.anchors.get(x)
        if found is None:
            found = self.anchors[x] = _anchor(self, op_of(x), x.index if type(x) is Result else 0)
        return found

    def accessed(self, op: Op) -> Layout:
        """The layout in which a memory op touches memory."""
        return self.loads.get(op) or self.accesses.coalesced(op)

    def leader(self, tiles: Sequence[Value]) -> Value:
        """The tile whose layout the others take: the first with an anchor, else the first that is not free."""
        costs = [self.remat.cost(x) for x in tiles]
        ranks = [math.inf if cost is None else cost != 0 for cost in costs]
        return tiles[ranks.index(max(ranks))]

    def default(self, shape: tuple[int, ...]) -> Layout:
        """The layout of a tile without an anchor: that of the memory ops on tiles of its shape."""
        return self.accesses.default(shape)

    def is_rematerializable(self, x: Value) -> bool:
        """True if recomputing a tile costs less than converting it."""
        return self.remat.cost(x) == 0

    def operand_layout(self, op: Op, k: int, layout: Layout | None) -> Layout | None:
        """The layout of operand k that yields the result in `layout`."""
        if type(op.operands[k].type) is not T.Tile:
            return None
        rule = OPERAND.get(op.kind)
        return rule(self, op, k, layout) if rule else layout


def choose_layouts(module: Module, target: Target, accesses: Accesses, loads: dict[Op, Layout] | None = None) -> Choice:
    """The anchor of every tile of a module."""
    dots = any(kind.mma for kind in module.kinds)
    choice = Choice(accesses, target.mma, target.cost, loads or {}, readers=_readers(module.body) if dots else {},
                    stored=_stored_scans(module, accesses))
    _choose(choice, module.body)
    return choice


def _choose(choice: Choice, block: Block) -> None:
    for op in block.ops:
        if op.kind.loop:
            _choose_carried(choice, op)
        for region in op.regions:
            _choose(choice, region)
        for value in op.results:
            if type(value.type) is T.Tile:
                choice.anchor(value)


def _choose_carried(choice: Choice, op: Op) -> None:
    """A carried tile has the layout of the yielded value. If that can have any, it has the one in which an access in
    the loop takes addresses, or else that of its init.

    A yielded value that is computed from carried tiles and smaller ones, broadcast, has no say: those that others
    decide are decided first. The rest is as its reductions in the loop are fast, or as the inits are."""
    heads, skip = op.kind.loop
    parameters = [r.args[skip:] for r in op.regions]
    body, inits = op.regions[-1], op.operands[heads:]
    tiles = [k for k, x in enumerate(body.yields) if type(x.type) is T.Tile]
    for args in parameters:
        for k in tiles:
            choice.anchors[args[k]] = choice.anchor(inits[k])
    choice.remat.leave_open(args[k] for args in parameters for k in tiles)
    _choose(choice, body)
    free = {k: _is_free(choice, body.yields[k], body.args) for k in tiles}
    followers = [k for k in tiles if choice.remat.cost(body.yields[k]) and choice.remat.cost(inits[k]) is None]
    settled = {k: choice.anchor(body.yields[k]) for k in tiles
               if k not in followers and not choice.is_rematerializable(body.yields[k])}  # fmt: skip
    if followers and settled:
        _decide(choice, parameters, body, settled)
        _choose(choice, body)
        anchored = [k for k in followers if choice.remat.cost(body.yields[k]) is None]
        settled |= {k: choice.anchor(body.yields[k]) for k in anchored}
    for k in followers:
        if k not in settled and (found := _reduced(choice, body, parameters[-1][k])):
            settled[k] = found
    readers = _readers(body) if any(free.values()) else {}
    for args in parameters:
        for k in tiles:
            if free[k] and _is_free(choice, inits[k], ()):
                found = _wanted(choice, readers, args[k], set())
                if found is not None and found.registers * args[k].type.element.bytes <= choice.cost.held_bytes:
                    settled[k] = found
    _decide(choice, parameters, body, settled)
    choice.remat.decide(arg for args in parameters for arg in args)


def _decide(choice: Choice, parameters: Sequence[Sequence[Arg]], body: Block, settled: Mapping[int, Layout]) -> None:
    """Give the carried tiles with these numbers their layouts; what the body computes is to be chosen again."""
    for args in parameters:
        for k, layout in settled.items():
            choice.anchors[args[k]] = layout
    choice.remat.decide(args[k] for args in parameters for k in settled)
    _forget(choice.anchors, body)


def _is_free(choice: Choice, x: Value, carried: Sequence[Value]) -> bool:
    """True if a tile can have any layout: it is rematerializable, carried by the loop, or one of these by a branch."""
    branch, k = op_of(x), x.index if type(x) is Result else 0
    if type(branch) is not Op or branch.kind is not ops.if_:
        return x in carried or choice.is_rematerializable(x)
    return all(_is_free(choice, region.yields[k], carried) for region in branch.regions)


def _reduced(choice: Choice, body: Block, x: Arg) -> Layout | None:
    """The layout in which warps reduce a carried tile by themselves, if the loop does so along one axis, reduces no
    other tile of this shape, whose layout is given, and it takes no more instructions than the barriers that it
    saves."""
    reductions = [op for op in walk(body) if op.kind is ops.reduce and op.operands[0].type.shape == x.type.shape]
    axes = {op.attrs["axis"] for op in reductions}
    if len(axes) != 1 or not all(_is_computed_from(op.operands[0], x) for op in reductions) or not choice.cost.barriers:
        return None
    found = reducing(x.type.shape, axes.pop(), choice.warps, choice.lanes)
    return found if found.registers <= choice.default(x.type.shape).registers + choice.cost.barriers else None


def _is_computed_from(y: Value, x: Arg) -> bool:
    """True for a tile that elementwise ops compute from another."""
    return x in closure([y], lambda z: z.operands if type(z) is Op and z.kind.elementwise else ())


def _readers(body: Block) -> dict[Value, list[tuple[Op, int]]]:
    """(op, position of the operand) of all that read a value; the position among the results for the op of a branch
    that yields it."""
    found: dict[Value, list[tuple[Op, int]]] = {}
    for op in walk(body):
        for k, x in enumerate(op.operands):
            found.setdefault(x, []).append((op, k))
        for region in op.regions if op.kind is ops.if_ else ():
            for k, x in enumerate(region.yields):
                found.setdefault(x, []).append((op, k))
    return found


def _stored_scans(module: Module, accesses: Accesses) -> dict[Op, Layout]:
    """{scan: the layout of the stores that it only goes to}, if there is one in which warps scan by themselves."""
    scans = [op for op in walk(module.body) if op.kind is ops.scan]
    readers, found = _readers(module.body) if scans else {}, {}
    for op in scans:
        uses = [use for x in op.results for use in readers.get(x, ())]
        if uses and all(reader.kind is ops.store and k == 1 for reader, k in uses):
            layout, *others = {accesses.coalesced(store) for store, _ in uses}
            if not others and not Axis(layout, op.attrs["axis"]).of("warp"):
                found[op] = layout
    return found


def _wanted(choice: Choice, readers: Mapping[Value, list[tuple[Op, int]]], x: Value, seen: set[Value]) -> Layout | None:
    """The layout of a tile from which an access computes its addresses without conversions; None if no access does."""
    seen.add(x)
    for op, k in readers.get(x, ()):
        if op.kind.access and op.pointer is x:
            return choice.accesses.coalesced(op)
        through = op.results[k] if op.kind is ops.if_ and op.results else op if simple(op) else None
        found = _wanted(choice, readers, through, seen) if through is not None and through not in seen else None
        if found is not None:
            return found if op.kind is ops.if_ else choice.operand_layout(op, k, found)
    return None


def _forget(anchors: dict[Value, Layout], block: Block) -> None:
    """Drop the layouts of a block that were computed before those of the loop's parameters were known."""
    for op in block.ops:
        for x in op.results:
            anchors.pop(x, None)
        for region in op.regions:
            _forget(anchors, region)


# --- anchors, by the kind of op ---------------------------------------------------------------------------------------
def _anchor(choice: Choice, op: Op, k: int) -> Layout:
    """The layout of result k of an op."""
    return choice.accessed(op) if op.kind.access else _ANCHOR.get(op.kind, _follow)(choice, op, k)


def _follow(choice: Choice, op: Op, k: int) -> Layout:
    """The layout that follows from the costliest operand."""
    tiles = [x for x in op.operands if type(x.type) is T.Tile]
    if not tiles:
        return choice.default(op.types[k].shape)
    leader, rule = choice.leader(tiles), RESULT.get(op.kind)
    if op.kind.elementwise and choice.is_rematerializable(leader):
        found = _read_by_dot(choice, op) or _beside_product(choice, op)
        if found:
            return found
    source = choice.anchor(leader)
    if op.kind.elementwise and (found := _stored_beside(choice, op, leader, tiles)):
        return found
    if rule:
        return rule(choice, op, source)
    return source if source.shape == op.types[k].shape else choice.default(op.types[k].shape)


def _stored_beside(choice: Choice, op: Op, leader: Value, tiles: Sequence[Value]) -> Layout | None:
    """The layout of a tile beside the leader, if the result only goes to stores from it: converted here, the leader
    takes one conversion, and else the other tile would take one, and what is stored."""
    own = choice.anchor(leader)
    for x in tiles if choice.readers and choice.remat.cost(leader) is None else ():
        if choice.remat.cost(x) is None and T.element(leader.type).bytes <= 2 * T.element(x.type).bytes:
            layout = choice.anchor(x)
            if layout != own and _goes_to_stores(choice, op, own, layout):
                return layout
    return None


def _goes_to_stores(choice: Choice, x: Op, own: Layout, layout: Layout) -> bool:
    """True for a tile that elementwise ops bring to stores from `layout`, which `own` does not serve; reductions may
    read it too, but nothing else."""
    stored = False
    for op, k in _read_elementwise(choice, x):
        if op.kind is ops.store and k == 1:
            wanted = choice.accesses.coalesced(op)
            if wanted != layout or choice.accesses.serves(op, own, wanted):
                return False
            stored = True
        elif not op.kind.combines and not _is_alike(op, x):
            return False
    return stored


def _is_alike(op: Op, x: Op) -> bool:
    """True for an elementwise op of a tile's shape."""
    return op.kind.elementwise and op.type.shape == x.type.shape


def _read_elementwise(choice: Choice, x: Op) -> Iterator[tuple[Op, int]]:
    """(op, position of the operand) of all that read a tile, or what elementwise ops compute from it."""
    alike = lambda y: [op for op, _ in choice.readers.get(y, ()) if _is_alike(op, x)]
    return (read for y in closure([x], alike) for read in choice.readers.get(y, ()))


def _beside_product(choice: Choice, x: Op) -> Layout | None:
    """The layout of the product that elementwise ops combine a tile with, on the terms of `_read_by_dot`."""
    readers = (op for op, _ in _read_elementwise(choice, x) if _is_alike(op, x))
    computed = closure((y for op in readers for y in op.operands),
                       lambda y: y.operands if type(y) is Op and _is_alike(y, x) else ())
    products = (y for y in computed if type(y) is Op and y.kind.mma and y.type.shape == x.type.shape)
    found = next(map(choice.anchor, products), None)
    most = choice.default(x.type.shape).registers + choice.cost.barriers
    return found if found is not None and found.registers <= most else None


def _read_by_dot(choice: Choice, op: Op) -> Layout | None:
    """The layout in which a dot reads a tile, or a sum reads what scales it, if all readers ask for the same. Threads
    may compute a few elements again for that, as many as the barriers of a conversion take instructions."""
    found = _asked(choice, op, {})
    most = choice.default(op.type.shape).registers + choice.cost.barriers
    return found if found is not None and found.registers <= most else None


def _asked(choice: Choice, x: Op, known: dict[Op, Layout | None]) -> Layout | None:
    """The one layout that all readers of a tile ask for; None if they differ, or can read it in any."""
    if x not in known:
        layouts = {_asked_by(choice, x, *reader, known) for reader in choice.readers.get(x, ())}
        known[x] = layouts.pop() if len(layouts) == 1 else None
    return known[x]


def _asked_by(choice: Choice, x: Op, reader: Op, k: int, known: dict[Op, Layout | None]) -> Layout | None:
    """The layout in which a reader needs its operand k, `x`."""
    if reader.kind is ops.dot:
        fragments = choice.mma.operands_of(reader, choice.warps)
        return (*fragments[:2], None)[k] if fragments else None
    if reader.kind is gpu_ops.dot_shared:
        return choice.operand_layout(reader, k, None) if k == 0 else None
    if not (reader.kind.elementwise or reader.kind.view):
        return None
    others = [y for y in reader.operands if y is not x and not choice.is_rematerializable(y)]
    if others and not all(type(y) is Arg and y in choice.anchors for y in others):
        return None
    layout = choice.anchors[others[0]] if others else _asked(choice, reader, known)
    return choice.operand_layout(reader, k, layout) if layout is not None else None


def _dot(choice: Choice, op: Op, k: int) -> Layout:
    sizes = [T.element(x.type).bytes for x in op.operands[:2]]
    return choice.mma.result_of(op, choice.warps) or multiplied(op.type.shape, choice.warps, choice.lanes, sizes)


def _dot_buffers(choice: Choice, op: Op, k: int) -> Layout:
    sizes = [op.attrs[which].element.bytes for which in ("lhs", "rhs")]
    return multiplied(op.type.shape, choice.warps, choice.lanes, sizes, (op.attrs["a_axis"], op.attrs["b_axis"]))


def _dot_shared(choice: Choice, op: Op, k: int) -> Layout:
    assert choice.mma.started is not None
    return choice.mma.started(op, choice.warps)[0]


def _buffer_load(choice: Choice, op: Op, k: int) -> Layout:
    if len(op.type.shape) == 1:
        return choice.default(op.type.shape)
    plain = transposing(op.type.shape, op.type.element.bytes, op.attrs["axis"], choice.warps, choice.lanes)
    axes = _reduced_along(choice, op)
    found = reducing(op.type.shape, axes.pop(), choice.warps, choice.lanes) if len(axes) == 1 else plain
    return found if found.registers == plain.registers else plain


def _reduced_along(choice: Choice, x: Op) -> set[int]:
    """The axes along which reductions combine what elementwise ops compute from a tile."""
    return {op.attrs["axis"] for op, _ in _read_elementwise(choice, x) if op.kind is ops.reduce}


def _loop(choice: Choice, op: Op, k: int) -> Layout:
    return choice.anchors[op.regions[-1].args[op.kind.loop.parameters + k]]


def _branch(choice: Choice, op: Op, k: int) -> Layout:
    """The layout of what the regions yield; if that can have any, the one of the product that it scales."""
    yields = [region.yields[k] for region in op.regions]
    if len(op.results) == 1 and all(choice.remat.cost(x) is not None for x in yields):
        found = _beside_product(choice, op)
        if found:
            return found
    return choice.anchor(choice.leader(yields))


def _join(choice: Choice, op: Op, k: int) -> Layout:
    """A pair of scalars is in every thread, as they are."""
    if type(op.operands[0].type) is not T.Tile:
        return replicated(op.type.shape, choice.warps, choice.lanes)
    return _follow(choice, op, k)


def _scan(choice: Choice, op: Op, k: int) -> Layout:
    """The layout that the operands have, unless warps exchange totals in it: its stores may have a better one, and what
    is scanned is converted then in place of the result."""
    own = _follow(choice, op, k)
    return choice.stored.get(op, own) if Axis(own, op.attrs["axis"]).of("warp") else own


def _gather(choice: Choice, op: Op, k: int) -> Layout:
    """The layout of the value in each block; blocks count in registers."""
    x = op.operands[k]
    source = choice.anchor(x) if type(x.type) is T.Tile else replicated((), choice.warps, choice.lanes)
    return stacked(source, op.types[k].shape)


_ANCHOR: dict[object, Callable[[Choice, Op, int], Layout]] = {  # anchors, and ops whose results come out of regions
    ops.dot: _dot,
    gpu_ops.dot_shared: _dot_shared,
    gpu_ops.dot_scaled: lambda choice, op, k: scaled_layouts(choice, op)[0],
    gpu_ops.dot_buffers: _dot_buffers,
    gpu_ops.buffer_load: _buffer_load,
    gpu_ops.cluster_all_gather: _gather,
    ops.for_: _loop,
    ops.while_: _loop,
    ops.if_: _branch,
    ops.join: _join,
    ops.scan: _scan,
}
