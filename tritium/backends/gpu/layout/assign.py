"""Assign a layout to every tile, so that memory accesses are wide and coalesced and few bytes change threads.

Memory ops and dots are anchors: their layout follows from the order of memory or from the tensor cores. Every other
tile takes the layout of its costliest operand. Rematerializable tiles (ranges, splats, address arithmetic) have no
layout of their own: they are recomputed in the layout of each user. So are tiles that simple ops broadcast from fewer
bytes, such as the addresses of rows that a loaded index names.

Where a user needs a tile in another layout, a `convert` is placed where the fewest bytes change threads: going back
from the user through simple ops, a tile is rematerialized as long as that is cheaper than a conversion, an operation on
an element counting as a byte. Other ops (loads, reductions, dots, loop-carried values) are never duplicated. A tile
defined outside of a loop is converted before the loop.
"""

from __future__ import annotations

import math
from contextlib import contextmanager

from .... import ops
from ....analysis.axis_info import analyze
from ....ir import types as T
from ....ir.builder import Builder
from ....ir.core import Arg, Block, Op, Result, walk
from ....passes.assumed import Assumed
from ....passes.simplify import number
from .. import ops as gpu_ops
from .linear import blocked, conversion, log2, multiplied, product, replicated, stacked, transposing
from .rules import OPERAND, RESULT, simple

ANCHOR_BYTES = 16  # the widest access of one thread
HELD_BYTES = 128  # that a thread may hold through a loop to save a conversion in each iteration


def assign_layouts(module, target):
    """Give every tile a `layout`, with conversions where layouts meet.

    Vectorized accesses may have preconditions; those of kernels with a producer warp have none, for TMA does most of
    their work.
    """
    assumed = Assumed(module)
    nonnegative = None if module.attrs.get("producer_warps") else assumed.nonnegative
    made = assumed.stated_by(_Assign(module, target, nonnegative).module())
    if not module.functions:
        return made
    functions = [_Assign(f.replace(attrs=module.attrs), target, None).module() for f in module.functions]
    return made.replace(functions=[function.replace(attrs={}) for function in functions])


class _Assign:
    def __init__(self, module, target, nonnegative):
        self.input, self.mma, self.widest_atomic = module, target.mma, target.widest_atomic
        self.warps, self.lanes = module.attrs["num_warps"], target.warp_size
        self.info = analyze(module, nonnegative)
        self.cost_memo = {}
        self.undecided = set()  # loop parameters whose layout depends on the loop's body
        self.anchors = {}
        self.widths = {}
        self.b = Builder()
        self.b.arguments = list(module.args)
        self.made = [{}]  # per open region: (value, layout) -> value in that layout
        self.loops = [False]  # per open region: whether it is a loop's
        self.wait = None  # of a ping-pong schedule: claimed once everything before a loop is done
        self.may_be_dead = False  # some tiles were rematerialized, so the originals may have no reader
        self._group_widths(module.body)
        self._choose_anchors(module.body)

    def module(self):
        self.block(self.input.body)
        return self.input.replace(body=self.swept(self.b.finish()))

    # --- anchors --------------------------------------------------------------------------------------------------
    def _group_widths(self, block):
        """Memory ops on one shape in one order share the widest vector any can use: then they share a layout."""
        for op in block.ops:
            if op.kind.access and type(op.pointer.type) is T.Tile:
                key = self._order(op)
                self.widths[key] = max(self.widths.get(key, 1), self._vector(op))
            for region in op.regions:
                self._group_widths(region)

    def _order(self, op):
        """(shape, axes from most to least contiguous) of a memory op."""
        shape = op.pointer.type.shape
        contiguity = self.info(op.pointer).contiguity
        order = sorted(range(len(shape)), key=lambda a: (-min(contiguity[a], shape[a]), -a))
        return shape, tuple(order)

    def _vector(self, op):
        """Elements per access in a layout of its own: as many as possible without idle threads."""
        element = T.element(op.pointer.type).pointee
        # Idle threads cost less here: short async copies do not exist, and short atomics are slow.
        short = op.kind.atomic or op.kind is gpu_ops.async_load
        least = gpu_ops.MIN_TRANSFER // _size(element) if short else 1
        most = max(1, least, product(op.pointer.type.shape) // (self.lanes * self.warps))
        return 1 << log2(min(self._reach(op), most))

    def _reach(self, op):
        """The most elements per access: contiguous, aligned, with one predicate."""
        pointer, mask = op.pointer, op.mask
        element = T.element(pointer.type).pointee
        size = _size(element)
        shape, order = self._order(op)
        axis, info = order[0], self.info(pointer)
        width = min(ANCHOR_BYTES // size, info.contiguity[axis], shape[axis], max(1, info.divisibility[axis] // size))
        if mask is not None:
            width = min(width, self.info(mask).constancy[axis])
        if op.kind.atomic:
            width = min(width, self.widest_atomic(op.attrs.get("how", "cas"), element))
        return 1 << log2(max(1, width))

    def coalesced(self, op):
        """The coalesced layout of a memory op."""
        shape, order = self._order(op)
        return blocked(shape, self.widths[shape, order], self.warps, self.lanes, order)

    # --- anchors ----------------------------------------------------------------------------------------------------
    def _choose_anchors(self, block):
        for op in block.ops:
            if op.kind.loop:
                self._choose_carried(op)
            for region in op.regions:
                self._choose_anchors(region)
            for value in op.results:
                if type(value.type) is T.Tile:
                    self.anchor(value)

    def _choose_carried(self, op):
        """A carried tile has the layout of the yielded value, or that of its init if the loop only passes it on."""
        heads, skip = op.kind.loop
        parameters = [r.args[skip:] for r in op.regions]
        body, inits = op.regions[-1], op.operands[heads:]
        for args in parameters:
            for arg, init in zip(args, inits):
                if type(arg.type) is T.Tile:
                    self.anchors[arg] = self.anchor(init)
                    self.undecided.add(arg)
        self._choose_anchors(body)
        settled = [self.anchor(out) if type(out.type) is T.Tile and not self.is_rematerializable(out) else None
                   for out in body.yields]  # fmt: skip
        for args in parameters:
            for arg, layout in zip(args, settled):
                self.anchors[arg] = layout or self.anchors.get(arg)
                self.undecided.discard(arg)
        self.cost_memo.clear()
        self._forget(body)

    def _forget(self, block):
        """Drop the layouts of a block that were computed before those of the loop's parameters were known."""
        for op in block.ops:
            for x in op.results:
                self.anchors.pop(x, None)
            for region in op.regions:
                self._forget(region)

    def anchor(self, x):
        """The layout a tile is computed in."""
        if x not in self.anchors:
            self.anchors[x] = self._anchor(*((x.op, x.index) if type(x) is Result else (x, 0)))
        return self.anchors[x]

    def _anchor(self, op, k):
        return self.coalesced(op) if op.kind.access else _ANCHOR.get(op.kind, _Assign.follow)(self, op, k)

    def follow(self, op, k):
        """The layout that follows from the costliest operand."""
        tiles = [x for x in op.operands if type(x.type) is T.Tile]
        if not tiles:
            return self.default(op.types[k].shape)
        source, rule = self.anchor(self.leader(tiles)), RESULT.get(op.kind)
        if rule:
            return rule(self, op, source)
        return source if source.shape == op.types[k].shape else self.default(op.types[k].shape)

    def leader(self, tiles):
        """The tile whose layout the others take: the first with an anchor, else the first that is not free."""
        costs = [self.rematerialization_cost(x) for x in tiles]
        ranks = [math.inf if cost is None else cost != 0 for cost in costs]
        return tiles[ranks.index(max(ranks))]

    def default(self, shape):
        """The layout of a tile without an anchor: that of the memory ops on tiles of its shape."""
        width = max([v for (s, _), v in self.widths.items() if s == shape] or [1])
        return blocked(shape, width, self.warps, self.lanes)

    def dot_anchor(self, op, k):
        a, b = (x.type for x in op.operands[:2])
        layout = self.mma.accumulator(a, b, op.type, op.attrs["precision"], self.warps)
        return layout or multiplied(op.type.shape, self.warps, self.lanes, (a.element.bytes, b.element.bytes))

    def dot_buffers_anchor(self, op, k):
        sizes = [op.attrs[side].element.bytes for side in ("lhs", "rhs")]
        return multiplied(op.type.shape, self.warps, self.lanes, sizes, (op.attrs["a_axis"], op.attrs["b_axis"]))

    def dot_shared_anchor(self, op, k):
        return self.mma.started(op, self.warps)[0]

    def buffer_anchor(self, op, k):
        if len(op.type.shape) == 1:
            return self.default(op.type.shape)
        return transposing(op.type.shape, op.type.element.bytes, op.attrs["axis"], self.warps, self.lanes)

    def loop_anchor(self, op, k):
        return self.anchors[op.regions[-1].args[op.kind.loop.parameters + k]]

    def branch_anchor(self, op, k):
        return self.anchor(self.leader([r.yields[k] for r in op.regions]))

    def join_anchor(self, op, k):
        """A pair of scalars is in every thread, as they are."""
        if type(op.operands[0].type) is not T.Tile:
            return replicated(op.type.shape, self.warps, self.lanes)
        return self.follow(op, k)

    def gather_anchor(self, op, k):
        """The layout of the value in each block; blocks count in registers."""
        x = op.operands[k]
        source = self.anchor(x) if type(x.type) is T.Tile else replicated((), self.warps, self.lanes)
        return stacked(source, op.types[k].shape)

    # --- rematerialization ----------------------------------------------------------------------------------------
    def is_rematerializable(self, x):
        """True if recomputing a tile costs less than converting it: ranges, splats, integer and simple arithmetic."""
        return self.rematerialization_cost(x) == 0

    def rematerialization_cost(self, x):
        """Bytes of the anchored tiles that a tile is broadcast from, 0 if it is free; None if it is anchored itself."""
        if type(x.type) is not T.Tile:
            return 0
        if type(x) is not Op:
            return 0 if x in self.undecided else None
        if x not in self.cost_memo:
            self.cost_memo[x] = self._rematerialization_cost(x) if simple(x) else None
        return self.cost_memo[x]

    def _rematerialization_cost(self, x):
        broadcasts, total = x.kind.broadcasts, 0  # converting the operand is never worse than the result
        for y in x.operands:
            below = self.rematerialization_cost(y)
            if below is None:
                if not broadcasts:
                    return None
                below = _bytes(y)
            total += below
        return total if broadcasts or total <= _bytes(x) else None

    def transfer_cost(self, x, layout, most):
        """Bytes that change threads for `x` to be in `layout`, at most `most`."""
        cost = self.rematerialization_cost(x)
        if cost == 0 or self.find(x, layout) is not None:
            return 0
        if cost is not None:
            return min(cost, most)
        most = min(most, self.conversion_cost(x, layout))
        return self.recompute_cost(x, layout, most) if simple(x) else most

    def conversion_cost(self, x, layout):
        """Bytes that change threads if a tile is converted from its anchor."""
        return _bytes(x) if conversion(self.anchor(x), layout) in ("lanes", "shared") else 0

    def recompute_cost(self, x, layout, most):
        """Bytes that change threads if a tile is recomputed, plus one per operation on an element, at most `most`."""
        total = 0 if x.kind in OPERAND else x.type.numel  # data movement in registers is free
        for k, y in enumerate(x.operands):
            if total >= most:
                return most
            total += self.transfer_cost(y, self.operand_layout(x, k, layout), most - total)
        return min(total, most)

    def replicates_work(self, x, layout):
        """True if recomputing a large broadcast tile in `layout` would repeat its work in several warps."""
        if self.rematerialization_cost(x) == 0 or x.kind in OPERAND:
            return False
        return 4 <= self.anchor(x).registers <= layout.registers // 2

    # --- rebuilding -----------------------------------------------------------------------------------------------
    def block(self, block):
        for op in block.ops:
            self.b.loc = op.loc
            tile = [type(t) is T.Tile for t in op.types]
            movable = not op.kind.effects or op.kind is gpu_ops.buffer_load  # constant in an iteration
            if any(tile) and movable and len(op.types) == 1 and self.rematerialization_cost(op) is not None:
                continue  # rematerialized at its uses
            self.emit(op)

    def emit(self, op):
        special = _EMIT.get(op.kind) or (_Assign.access if op.kind.access else None)
        if special:
            special(self, op)
        elif not any(type(x.type) is T.Tile for x in (*op.operands, *op.results)):
            self.place(op, [self.scalar(x) for x in op.operands])
        else:
            layout = self.anchor(op.results[0]) if op.types and type(op.types[0]) is T.Tile else None
            self.place(op, [self.in_layout(x, self.operand_layout(op, k, layout)) for k, x in enumerate(op.operands)])

    def operand_layout(self, op, k, layout):
        """The layout of operand k that yields the result in `layout`."""
        if type(op.operands[k].type) is not T.Tile:
            return None
        rule = OPERAND.get(op.kind)
        return rule(self, op, k, layout) if rule else layout

    def place(self, op, operands, regions=None):
        """Emit a copy of `op` with its anchor layout."""
        layouts = tuple(self.anchor(v) if type(v.type) is T.Tile else None for v in op.results)
        attrs = dict(op.attrs)
        if len(layouts) == 1 and layouts[0]:
            attrs |= {"layout": layouts[0], **self.notes(op, layouts[0])}
        elif any(layouts):
            attrs["layout"] = layouts
        if regions is None:  # of scalars: reduce, scan, map, rare
            regions = tuple(self.region(r, [None] * len(r.args)) for r in op.regions)
        new = self.b.place(op.replace(operands=tuple(operands), attrs=attrs, regions=regions))
        for old, made, layout in zip(op.results, new.results, layouts):
            self.remember(old, layout, made)

    def remember(self, old, layout, made):
        self.made[-1][old, layout] = made

    def find(self, x, layout):
        for scope in reversed(self.made):
            found = scope.get((x, layout))
            if found is not None:
                return found
        return None

    def scalar(self, x):
        return self.in_layout(x, None)

    def in_layout(self, x, layout):
        """The value `x` in `layout`, rematerialized or converted if necessary."""
        if type(x.type) is not T.Tile:
            layout = None
        found = self.find(x, layout)
        if found is None:
            if type(x.type) is not T.Tile:
                found = x  # an argument of the kernel
            elif self.rematerialization_cost(x) is None:
                return self.relayout(x, layout)
            elif self.replicates_work(x, layout):
                found = self.converted(self.in_layout(x, self.anchor(x)), layout)
            else:
                found = self.rematerialize(x, layout)
            self.remember(x, layout, found)
        return found

    def rematerialize(self, x, layout):
        operands = tuple(self.in_layout(y, self.operand_layout(x, k, layout)) for k, y in enumerate(x.operands))
        return self.b.place(x.replace(operands=operands, attrs={**x.attrs, "layout": layout, **self.notes(x, layout)}))

    def notes(self, x, layout):
        """Attributes that make a quotient or comparison of integers cheaper: register bits it does not depend on, and
        whether a dividend of a constant is known to be nonnegative."""
        steps = x.kind.row is not None and x.kind.row.steps and x.kind is not ops.and_  # which is cheap anyway
        if not steps or not T.element(x.operands[0].type).is_int:
            return {}
        alike, (dividend, divisor) = layout.within(self.info(x).constancy), x.operands
        divided = x.kind in (ops.div, ops.rem) and T.element(x.type).signed and (number(divisor) or 0) > 0
        unsigned = divided and self.info.is_nonnegative(dividend)
        return {**({"alike": alike} if alike else {}), **({"unsigned": True} if unsigned else {})}

    def converted(self, x, layout):
        return self.b.place(Op(gpu_ops.convert, (x,), {"layout": layout}, (x.type,), loc=self.b.loc))

    def relayout(self, x, layout):
        """An anchored tile in another layout: rematerialized from tiles that are cheaper to convert, or converted."""
        with self.outside_loops(x, layout):
            converting = self.conversion_cost(x, layout)
            if simple(x) and self.recompute_cost(x, layout, converting) < converting:
                self.may_be_dead = True
                found = self.rematerialize(x, layout)
            else:
                found = self.converted(self.find(x, self.anchor(x)), layout)
            self.remember(x, layout, found)
        return found

    @contextmanager
    def outside_loops(self, x, layout):
        """Emit at the definition of `x`, before loops that only read it, if registers can hold it in `layout`."""
        anchor, depth = self.anchor(x), len(self.made)
        if layout.registers <= max(anchor.registers, HELD_BYTES // x.type.element.bytes):
            while self.loops[depth - 1] and (x, anchor) not in self.made[depth - 1]:
                depth -= 1
        inner = self.made[depth:], self.loops[depth:]
        del self.made[depth:], self.loops[depth:]
        with self.b.outside(depth):
            yield
        self.made += inner[0]
        self.loops += inner[1]

    def swept(self, block):
        """The block without dead tiles."""
        if not self.may_be_dead:
            return block
        kept, read = [], set()
        for op in reversed(block.ops):
            if op in read or op.regions or "layout" not in op.attrs or op.kind.effects_of(op):
                kept.append(op)
                for inner in (op, *(y for region in op.regions for y in walk(region))):
                    read.update(x.op if type(x) is Result else x for x in inner.operands)
        return Block(block.args, kept[::-1])

    # --- ops with rules of their own ------------------------------------------------------------------------------
    def store(self, op):
        """Store from the coalesced layout, unless that of the value is as good."""
        if type(op.pointer.type) is not T.Tile:
            self.place(op, [self.scalar(x) for x in op.operands])
            return
        layout, value = self.coalesced(op), op.operands[1]
        if not self.is_rematerializable(value) and self._serves(op, self.anchor(value), layout):
            layout = self.anchor(value)
        self.memory(op, layout)

    def _serves(self, op, own, ideal):
        """True if storing from a tile's own layout is as good as converting it to the ideal one first."""
        inner = own.contiguous(self._order(op)[1][0])
        if inner < self._vector(op):
            return False
        if own.free("lane") or own.free("warp"):  # so few elements that converting them costs more than idle threads
            return own.registers <= 2 * ideal.registers * min(inner, self._reach(op))
        return _coalesced(own, ideal)

    def access(self, op):
        if type(op.pointer.type) is not T.Tile:
            self.place(op, [self.scalar(x) for x in op.operands])
        else:
            self.memory(op, self.coalesced(op))

    def memory(self, op, layout):
        width = min(self._reach(op), layout.contiguous(self._order(op)[1][0]))
        operands = tuple(self.in_layout(x, layout) for x in op.operands)
        new = self.b.place(op.replace(operands=operands, attrs={**op.attrs, "layout": layout, "vector": width}))
        for old, made in zip(op.results, new.results):
            self.remember(old, layout, made)

    def loop(self, op):
        heads, skip = op.kind.loop
        inits, layouts = [], []
        body = op.regions[-1]
        for arg, x in zip(body.args[skip:], op.operands[heads:]):
            layouts.append(self.anchors[arg] if type(arg.type) is T.Tile else None)
            inits.append(self.in_layout(x, layouts[-1]))
        wait, self.wait = self.wait, None
        regions = tuple(self.region(r, layouts, skip, loop=True) for r in op.regions)
        if wait is not None:
            self.place(wait, ())
        self.place(op, [*(self.scalar(x) for x in op.operands[:heads]), *inits], regions)

    def ping_pong_wait(self, op):
        """Defer the wait until the conversions before the loop are done, which would delay the other warpgroup."""
        self.wait = op

    def region(self, block, layouts, skip=0, loop=False):
        """Rebuild a region; its parameters have the given layouts, and so have the yields of a loop body."""
        args = []
        self.made.append({})
        self.loops.append(loop)
        with self.b.region() as region:
            for k, arg in enumerate(block.args):
                layout = layouts[k - skip] if k >= skip else None
                new = Arg(arg.type, arg.name, {**arg.attrs, **({"layout": layout} if layout else {})})
                self.remember(arg, layout, new)
                args.append(new)
            self.block(Block(block.args, block.ops[:-1]))
            last = block.ops[-1]
            wanted = layouts if len(last.operands) == len(layouts) else [None] * len(last.operands)
            ends = tuple(self.in_layout(y, self.anchor_or(y, lay)) for y, lay in zip(last.operands, wanted))
            self.b.place(last.replace(operands=ends))
        self.made.pop()
        self.loops.pop()
        return self.swept(Block(args, region.block.ops))

    def anchor_or(self, y, layout):
        return None if type(y.type) is not T.Tile else layout or self.anchor(y)

    def branch(self, op):
        layouts = [self.anchor(v) if type(v.type) is T.Tile else None for v in op.results]
        regions = tuple(self.region(r, layouts, len(r.args)) for r in op.regions)
        self.place(op, [self.scalar(op.operands[0])], regions)

    def combining(self, op):
        """reduce, scan and map: their regions hold scalars only."""
        layout = self.anchor(op.results[0] if op.kind is ops.map_ else self.leader(op.operands))
        self.place(op, [self.in_layout(x, layout) for x in op.operands])


def _size(element):
    return 8 if type(element) is T.Ptr else element.bytes


def _bytes(x):
    return x.type.numel * x.type.element.bytes


def _coalesced(own, ideal):
    """True if the warp touches memory in runs about as long as the ideal layout would."""
    lowest = sorted(x for x in own.lane if x)[:3]
    return lowest == sorted(x for x in ideal.lane if x)[:3]


_ANCHOR = {  # anchors, and ops whose results come out of regions
    ops.dot: _Assign.dot_anchor,
    gpu_ops.dot_shared: _Assign.dot_shared_anchor,
    gpu_ops.dot_buffers: _Assign.dot_buffers_anchor,
    gpu_ops.buffer_load: _Assign.buffer_anchor,
    gpu_ops.cluster_all_gather: _Assign.gather_anchor,
    ops.for_: _Assign.loop_anchor,
    ops.while_: _Assign.loop_anchor,
    ops.if_: _Assign.branch_anchor,
    ops.join: _Assign.join_anchor,
}

_EMIT = {
    ops.store: _Assign.store,
    gpu_ops.ping_pong_wait: _Assign.ping_pong_wait,
    ops.for_: _Assign.loop,
    ops.while_: _Assign.loop,
    ops.if_: _Assign.branch,
    ops.reduce: _Assign.combining,
    ops.scan: _Assign.combining,
    ops.map_: _Assign.combining,
}
