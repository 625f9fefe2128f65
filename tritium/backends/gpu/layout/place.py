"""Rewrite a module so that every tile has the layout that was chosen for it, with conversions where layouts meet.

Rematerializable tiles (ranges, splats, address arithmetic) are recomputed in the layout of each user. So are tiles that
simple ops broadcast from fewer bytes, such as the addresses of rows that a loaded index names.

A `convert` is placed where the fewest bytes change threads: going back from the user through simple ops, a tile is
rematerialized as long as that is cheaper than a conversion. Other ops (loads, reductions, dots, loop-carried values)
are never duplicated. A tile defined outside of a loop is converted before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from .... import ops
from ....ir import types as T
from ....ir.builder import Builder
from ....ir.core import Arg, Block, Module, Op, Value, op_of, walk
from ....passes.simplify import number
from .. import ops as gpu_ops
from .choose import Choice
from .cost import conversion_cost, recompute_cost, replicates_work
from .linear import Layout
from .rules import recomputes_in


@dataclass(eq=False)
class Scope:
    """An open region: the values made in it, each in a layout, and whether it is the body of a loop."""

    loop: bool
    made: dict[tuple[Value, Layout | None], Value] = field(default_factory=dict)


@dataclass(eq=False)
class Placement:
    """A module that is being rewritten; the last of the `scopes` is the innermost."""

    choice: Choice
    b: Builder = field(default_factory=Builder)
    scopes: list[Scope] = field(default_factory=lambda: [Scope(False)])
    loads: dict[Op, Layout] = field(default_factory=dict)  # those that had better have the layout of a user
    wait: Op | None = None  # of a ping-pong schedule: claimed once everything before a loop is done
    may_be_dead: bool = False  # some tiles were rematerialized, so the originals may have no reader

    def remember(self, old: Value, layout: Layout | None, made: Value) -> None:
        """Note the value that stands for an old one in a layout."""
        self.scopes[-1].made[old, layout] = made

    def find(self, x: Value, layout: Layout | None) -> Value | None:
        """The value that stands for an old one in a layout; None if there is none yet."""
        key = x, layout
        for scope in reversed(self.scopes):
            found = scope.made.get(key)
            if found is not None:
                return found
        return None

    def costs_nothing(self, old: Value, layout: Layout | None) -> bool:
        """True if a value is there in a layout, or will be converted to it before the innermost loop, as a thread holds
        little of it."""
        if layout is None or self.find(old, layout) is not None:
            return True
        inner = max((k for k, scope in enumerate(self.scopes) if scope.loop), default=0)
        little = layout.registers * old.type.element.bytes <= self.choice.cost.held_bytes // 4
        return little and any((old, self.choice.anchor(old)) in scope.made for scope in self.scopes[:inner])


def place_layouts(module: Module, choice: Choice) -> tuple[Module, dict[Op, Layout]]:
    """The module with layouts as chosen, and the loads that had better have the layout of a user."""
    p = Placement(choice)
    p.b.arguments = list(module.args)
    _block(p, module.body.ops)
    return module.replace(body=_swept(p, p.b.finish())), p.loads


# --- values in a layout -----------------------------------------------------------------------------------------------
def _in_layout(p: Placement, x: Value, layout: Layout | None) -> Value:
    """The value `x` in `layout`, rematerialized or converted if necessary."""
    if type(x.type) is not T.Tile:
        found = p.find(x, None)
        return x if found is None else found  # else an argument of the kernel
    found = p.find(x, layout)
    if found is None:
        assert layout is not None
        if p.choice.remat.cost(x) is None:
            return _relayout(p, x, layout)
        assert type(x) is Op
        if replicates_work(p.choice, x, layout):
            found = _converted(p, _in_layout(p, x, p.choice.anchor(x)), layout)
        else:
            found = _rematerialize(p, x, layout)
        p.remember(x, layout, found)
    return found


def _rematerialize(p: Placement, x: Op, layout: Layout) -> Op:
    of = p.choice.operand_layout
    operands = tuple(_in_layout(p, y, of(x, k, layout)) for k, y in enumerate(x.operands))
    return p.b.place(x.replace(operands=operands, attrs={**x.attrs, "layout": layout, **_notes(p, x, layout)}))


def _converted(p: Placement, x: Value, layout: Layout) -> Op:
    return p.b.place(Op(gpu_ops.convert, (x,), {"layout": layout}, (x.type,), loc=p.b.loc))


def _relayout(p: Placement, x: Value, layout: Layout) -> Value:
    """An anchored tile in another layout: rematerialized from tiles that are cheaper to convert, or converted."""
    with _outside_loops(p, x, layout):
        converting = conversion_cost(p.choice, x, layout)
        if recomputes_in(x, layout) and recompute_cost(p.choice, p.costs_nothing, x, layout, converting) < converting:
            p.may_be_dead = True
            found = _rematerialize(p, x, layout)
        else:
            there = p.find(x, p.choice.anchor(x))
            assert there is not None  # it was placed where it is defined
            if type(x) is Op and converting and p.choice.accesses.loads_as_well(x, layout):
                p.loads.setdefault(x, layout)
            found = _converted(p, there, layout)
        p.remember(x, layout, found)
    return found


@contextmanager
def _outside_loops(p: Placement, x: Value, layout: Layout) -> Iterator[None]:
    """Emit at the definition of `x`, before loops that only read it, if registers can hold it in `layout`."""
    anchor, depth = p.choice.anchor(x), len(p.scopes)
    if layout.registers <= max(anchor.registers, p.choice.cost.held_bytes // x.type.element.bytes):
        while p.scopes[depth - 1].loop and (x, anchor) not in p.scopes[depth - 1].made:
            depth -= 1
    inner = p.scopes[depth:]
    del p.scopes[depth:]
    with p.b.outside(depth):
        yield
    p.scopes += inner


def _notes(p: Placement, x: Op, layout: Layout) -> dict:
    """Attributes that make a quotient or comparison of integers cheaper: register bits it does not depend on, and
    whether a dividend of a constant is known to be nonnegative."""
    steps = x.kind.row is not None and x.kind.row.steps and x.kind is not ops.and_  # which is cheap anyway
    if not steps or not T.element(x.operands[0].type).is_int:
        return {}
    info = p.choice.accesses.info
    alike, (dividend, divisor) = layout.within(info(x).constancy), x.operands
    divided = x.kind in (ops.div, ops.rem) and T.element(x.type).signed and (number(divisor) or 0) > 0
    unsigned = divided and info.is_nonnegative(dividend)
    return {**({"alike": alike} if alike else {}), **({"unsigned": True} if unsigned else {})}


# --- ops --------------------------------------------------------------------------------------------------------------
def _block(p: Placement, block: Sequence[Op]) -> None:
    for op in block:
        p.b.loc = op.loc
        tile = [type(t) is T.Tile for t in op.types]
        movable = not op.kind.effects or op.kind is gpu_ops.buffer_load  # constant in an iteration
        if any(tile) and movable and len(op.types) == 1 and p.choice.remat.cost(op) is not None:
            continue  # rematerialized at its uses
        _emit(p, op)


def _emit(p: Placement, op: Op) -> None:
    special = _EMIT.get(op.kind) or (_access if op.kind.access else None)
    if special:
        special(p, op)
    elif not any(type(x.type) is T.Tile for x in (*op.operands, *op.results)):
        _place(p, op, _scalars(p, op.operands))
    else:
        layout = p.choice.anchor(op.results[0]) if op.types and type(op.types[0]) is T.Tile else None
        of = p.choice.operand_layout
        _place(p, op, [_in_layout(p, x, of(op, k, layout)) for k, x in enumerate(op.operands)])


def _scalars(p: Placement, values: Sequence[Value]) -> list[Value]:
    return [_in_layout(p, x, None) for x in values]


def _place(p: Placement, op: Op, operands: Sequence[Value], regions: tuple[Block, ...] | None = None) -> None:
    """Emit a copy of `op` with its anchor layout."""
    layouts = tuple(_layout_of(p, v) for v in op.results)
    attrs = dict(op.attrs)
    if len(layouts) == 1 and layouts[0]:
        attrs |= {"layout": layouts[0], **_notes(p, op, layouts[0])}
    elif any(layouts):
        attrs["layout"] = layouts
    if regions is None:  # of scalars: reduce, scan, map, rare
        regions = tuple(_region(p, r, [None] * len(r.args)) for r in op.regions)
    new = p.b.place(op.replace(operands=tuple(operands), attrs=attrs, regions=regions))
    for old, made, layout in zip(op.results, new.results, layouts):
        p.remember(old, layout, made)


def _layout_of(p: Placement, x: Value, wanted: Layout | None = None) -> Layout | None:
    """The wanted layout of a tile, else its anchor; None for a scalar."""
    return (wanted or p.choice.anchor(x)) if type(x.type) is T.Tile else None


def _store(p: Placement, op: Op) -> None:
    """Store from the coalesced layout, unless that of the value is as good; a value that is converted for it, from one
    without gaps."""
    if type(op.pointer.type) is not T.Tile:
        _place(p, op, _scalars(p, op.operands))
        return
    choice, (pointer, value, *mask) = p.choice, op.operands
    layout = choice.accesses.coalesced(op)
    if not choice.is_rematerializable(value):
        own = choice.anchor(value)
        if choice.accesses.serves(op, own, layout):
            layout = own
        elif p.find(value, layout) is None and all(map(choice.is_rematerializable, (pointer, *mask))):
            layout = choice.accesses.without_gaps(op)
    _memory(p, op, layout)


def _access(p: Placement, op: Op) -> None:
    if type(op.pointer.type) is not T.Tile:
        _place(p, op, _scalars(p, op.operands))
    else:
        _memory(p, op, p.choice.accessed(op))


def _memory(p: Placement, op: Op, layout: Layout) -> None:
    accesses = p.choice.accesses
    width = min(accesses.reach(op), layout.contiguous(accesses.order(op)[1][0]))
    operands = tuple(_in_layout(p, x, layout) for x in op.operands)
    new = p.b.place(op.replace(operands=operands, attrs={**op.attrs, "layout": layout, "vector": width}))
    for old, made in zip(op.results, new.results):
        p.remember(old, layout, made)


def _ping_pong_wait(p: Placement, op: Op) -> None:
    """Defer the wait until the conversions before the loop are done, which would delay the other warpgroup."""
    p.wait = op


def _combining(p: Placement, op: Op) -> None:
    """reduce, scan and map: their regions hold scalars only."""
    layout = p.choice.anchor(p.choice.leader(op.operands) if op.kind is ops.reduce else op.results[0])
    _place(p, op, [_in_layout(p, x, layout) for x in op.operands])


# --- regions ----------------------------------------------------------------------------------------------------------
def _loop(p: Placement, op: Op) -> None:
    heads, skip = op.kind.loop
    body = op.regions[-1]
    layouts = [_layout_of(p, arg) for arg in body.args[skip:]]
    inits = [_in_layout(p, x, layout) for x, layout in zip(op.operands[heads:], layouts)]
    wait, p.wait = p.wait, None
    regions = tuple(_region(p, r, layouts, skip, loop=True) for r in op.regions)
    if wait is not None:
        _place(p, wait, ())
    _place(p, op, [*_scalars(p, op.operands[:heads]), *inits], regions)


def _branch(p: Placement, op: Op) -> None:
    layouts = [_layout_of(p, v) for v in op.results]
    regions = tuple(_region(p, r, layouts, len(r.args)) for r in op.regions)
    _place(p, op, _scalars(p, op.operands[:1]), regions)


def _region(p: Placement, block: Block, layouts: Sequence[Layout | None], skip: int = 0, loop: bool = False) -> Block:
    """Rebuild a region; its parameters have the given layouts, and so have the yields of a loop body."""
    args = []
    p.scopes.append(Scope(loop))
    with p.b.region() as region:
        for k, arg in enumerate(block.args):
            layout = layouts[k - skip] if k >= skip else None
            new = Arg(arg.type, arg.name, {**arg.attrs, **({"layout": layout} if layout else {})})
            p.remember(arg, layout, new)
            args.append(new)
        _block(p, block.ops[:-1])
        last = block.ops[-1]
        wanted = layouts if len(last.operands) == len(layouts) else [None] * len(last.operands)
        ends = tuple(_in_layout(p, y, _layout_of(p, y, layout)) for y, layout in zip(last.operands, wanted))
        p.b.place(last.replace(operands=ends))
    p.scopes.pop()
    return _swept(p, Block(args, region.block.ops))


def _swept(p: Placement, block: Block) -> Block:
    """The block without dead tiles."""
    if not p.may_be_dead:
        return block
    kept, read = [], set()
    for op in reversed(block.ops):
        if op in read or op.regions or "layout" not in op.attrs or op.kind.effects_of(op):
            kept.append(op)
            for inner in (op, *(y for region in op.regions for y in walk(region))):
                read.update(map(op_of, inner.operands))
    return Block(block.args, kept[::-1])


_EMIT: dict[object, Callable[[Placement, Op], None]] = {
    ops.store: _store,
    gpu_ops.ping_pong_wait: _ping_pong_wait,
    ops.for_: _loop,
    ops.while_: _loop,
    ops.if_: _branch,
    ops.reduce: _combining,
    ops.scan: _combining,
    ops.map_: _combining,
}
