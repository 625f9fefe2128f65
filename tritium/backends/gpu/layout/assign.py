"""Give every tile a layout, so that memory is touched in wide, coalesced accesses and tiles move as little as possible.

Memory ops and dots are anchors: their layout follows from how memory is laid out or from what the tensor cores want.
Everything else takes the layout of its costliest operand. A cheap tile (ranges, splats, address arithmetic) belongs
nowhere: it is made again in whatever layout its user has. So is one that simple ops spread from fewer bytes, such as
the addresses of rows that a loaded index names.

Where an anchor wants a costly tile in another layout, a `convert` says so. It stands where the fewest bytes cross:
going back from the user through simple ops, a tile is made again as long as that is cheaper than to move it, an
operation on an element counting as a byte. What is not simple (loads, reductions, dots, what a loop carries) is never
made twice. A tile from outside of a loop is moved before the loop.
"""

from __future__ import annotations

import math
from contextlib import contextmanager

from .... import ops
from ....ir import types as T
from ....ir.builder import Builder
from ....ir.core import Arg, Block, Op, Result, walk
from ....passes.axis_info import analyze
from ....passes.simplify import number
from .. import ops as gpu_ops
from .linear import blocked, conversion, log2, multiplied, product, replicated, stacked, turning
from .rules import OPERAND, RESULT, simple

ANCHOR_BYTES = 16  # the widest access of one thread
HELD_BYTES = 128  # that a thread may hold through a loop to save a conversion in each round
_SPREADS = (ops.expand_dims, ops.broadcast)  # moving what they are given is never worse than moving what they make


def no_tensor_cores(a, b, out, precision, warps):
    """What targets without them say of every dot."""
    return None


def one_by_one(how, element):
    """What targets say of every atomic whose instructions update one element."""
    return 1


def assign_layouts(
    module, dot_layout=no_tensor_cores, started=None, preconditions=None, fragments=no_tensor_cores,
    widest_atomic=one_by_one,
):
    """The module with a `layout` on every op that makes a tile, and conversions where layouts meet.

    `dot_layout(a, b, out, precision, warps)` returns the accumulator layout of a dot of these types, None for a dot
    without tensor cores. `started(op, warps)` returns the layouts of a `dot_shared` and of its lhs in registers.
    Assumptions behind vectorized accesses are added to `preconditions`; see `axis_info.analyze`. `fragments(a, b, out,
    precision, warps)` returns the layouts of both operands of a dot that reads them from registers, None for others.
    `widest_atomic(how, element)` returns the number of neighbouring elements that one atomic instruction updates.
    """
    return _Assign(module, dot_layout, started, preconditions, fragments, widest_atomic).module()


class _Assign:
    def __init__(self, module, dot_layout, started, preconditions, fragments, widest_atomic):
        self.input, self.warps = module, module.attrs["num_warps"]
        self.dot_layout, self.started, self.fragments = dot_layout, started, fragments
        self.widest_atomic = widest_atomic
        self.info = analyze(module, preconditions)
        self.rests_memo = {}
        self.undecided = set()  # loop parameters whose layout the loop's body is still to settle
        self.homes = {}
        self.widths = {}
        self.b = Builder()
        self.b.arguments = list(module.args)
        self.made = [{}]  # per open region: (id of value, layout) -> value in that layout
        self.loops = [False]  # per open region: whether it is a loop's
        self.turn = None  # of a ping-pong schedule: claimed once everything before a loop is done
        self.left = False  # some tiles were made again elsewhere, so those at home may have no reader
        self._group_widths(module.body)
        self._choose_homes(module.body)

    def module(self):
        self.block(self.input.body)
        return self.input.replace(body=self.swept(self.b.finish()))

    # --- anchors --------------------------------------------------------------------------------------------------
    def _group_widths(self, block):
        """Memory ops on one shape in one order share the widest vector any can use: then they share a layout."""
        for op in block.ops:
            if op.kind in _MEMORY and type(_pointer(op).type) is T.Tile:
                key = self._order(op)
                self.widths[key] = max(self.widths.get(key, 1), self._vector(op))
            for region in op.regions:
                self._group_widths(region)

    def _order(self, op):
        """(shape, axes from most to least contiguous) of a memory op."""
        shape = _pointer(op).type.shape
        contiguity = self.info(_pointer(op)).contiguity
        order = sorted(range(len(shape)), key=lambda a: (-min(contiguity[a], shape[a]), -a))
        return shape, tuple(order)

    def _vector(self, op):
        """Elements one access covers in a layout of its own: as many as it may, and not so many that threads idle."""
        element = T.element(_pointer(op).type).pointee
        # Rather let threads idle: short ones cannot be copied, and are slow to update.
        least = gpu_ops.MIN_TRANSFER // _size(element) if op.kind in (gpu_ops.async_load, *_ATOMIC) else 1
        most = max(1, least, product(_pointer(op).type.shape) // (32 * self.warps))
        return 1 << log2(min(self._reach(op), most))

    def _reach(self, op):
        """Elements one access may cover: contiguous, aligned, equally masked."""
        pointer = _pointer(op)
        element = T.element(pointer.type).pointee
        size = _size(element)
        shape, order = self._order(op)
        axis, info = order[0], self.info(pointer)
        width = min(ANCHOR_BYTES // size, info.contiguity[axis], shape[axis], max(1, info.divisibility[axis] // size))
        mask = _mask_of(op)
        if mask is not None:
            width = min(width, self.info(mask).constancy[axis])
        if op.kind in _ATOMIC:
            width = min(width, self.widest_atomic(op.attrs.get("how", "cas"), element))
        return 1 << log2(max(1, width))

    def anchor(self, op):
        """The coalesced layout of a memory op."""
        shape, order = self._order(op)
        return blocked(shape, self.widths[shape, order], self.warps, order)

    # --- homes ----------------------------------------------------------------------------------------------------
    def _choose_homes(self, block):
        for op in block.ops:
            if op.kind in (ops.for_, ops.while_):
                self._choose_carried(op)
            for region in op.regions:
                self._choose_homes(region)
            for value in op.results:
                if type(value.type) is T.Tile:
                    self.home(value)

    def _choose_carried(self, op):
        """A carried tile lives where the loop makes it; one the loop only passes on, where it was before."""
        heads = 3 if op.kind is ops.for_ else 0
        parameters = [r.args[heads and 1 :] for r in op.regions]
        body, inits = op.regions[-1], op.operands[heads:]
        for args in parameters:
            for arg, init in zip(args, inits):
                if type(arg.type) is T.Tile:
                    self.homes[id(arg)] = self.home(init)
                    self.undecided.add(id(arg))
        self._choose_homes(body)
        settled = [self.home(out) if type(out.type) is T.Tile and not self.cheap(out) else None for out in body.yields]
        for args in parameters:
            for arg, layout in zip(args, settled):
                self.homes[id(arg)] = layout or self.homes.get(id(arg))
                self.undecided.discard(id(arg))
        self.rests_memo.clear()
        self._forget(body)

    def _forget(self, block):
        """Homes found before the loop's own were settled are found again."""
        for op in block.ops:
            for k in range(len(op.types)):
                self.homes.pop((id(op), k), None)
            for region in op.regions:
                self._forget(region)

    def home(self, x):
        """The layout a tile is made in."""
        if type(x) is Arg:
            return self.homes[id(x)]
        op, k = (x.op, x.index) if type(x) is Result else (x, 0)
        key = (id(op), k)
        if key not in self.homes:
            self.homes[key] = self._home(op, k)
        return self.homes[key]

    def _home(self, op, k):
        return _HOME.get(op.kind, _Assign.follow)(self, op, k)

    def follow(self, op, k):
        """The layout that comes with the costliest operand."""
        tiles = [x for x in op.operands if type(x.type) is T.Tile]
        if not tiles:
            return self.usual(op.types[k].shape)
        source, rule = self.home(self.leader(tiles)), RESULT.get(op.kind)
        if rule:
            return rule(self, op, source)
        return source if source.shape == op.types[k].shape else self.usual(op.types[k].shape)

    def leader(self, tiles):
        """The tile that others follow: the first with a home of its own, else the first that rests on some."""
        return max(tiles, key=lambda x: math.inf if self.rests(x) is None else not self.cheap(x))

    def usual(self, shape):
        """Where a tile of this shape is best placed when nothing else says so: as memory ops on such tiles have it."""
        return blocked(shape, max([v for (s, _), v in self.widths.items() if s == shape] or [1]), self.warps)

    def dot_home(self, op, k):
        a, b = (x.type for x in op.operands[:2])
        layout = self.dot_layout(a, b, op.type, op.attrs["precision"], self.warps)
        return layout or multiplied(op.type.shape, self.warps, (a.element.bytes, b.element.bytes))

    def dot_buffers_home(self, op, k):
        sizes = [op.attrs[side].element.bytes for side in ("lhs", "rhs")]
        return multiplied(op.type.shape, self.warps, sizes, (op.attrs["a_axis"], op.attrs["b_axis"]))

    def dot_shared_home(self, op, k):
        return self.started(op, self.warps)[0]

    def buffer_home(self, op, k):
        if len(op.type.shape) == 1:
            return self.usual(op.type.shape)
        return turning(op.type.shape, op.type.element.bytes, op.attrs["axis"], self.warps)

    def loop_home(self, op, k):
        body = op.regions[-1]
        return self.homes[id((body.args[1:] if op.kind is ops.for_ else body.args)[k])]

    def branch_home(self, op, k):
        return self.home(self.leader([r.yields[k] for r in op.regions]))

    def join_home(self, op, k):
        """Two scalars are in every thread, so is the pair."""
        if type(op.operands[0].type) is not T.Tile:
            return replicated(op.type.shape, self.warps)
        return self.follow(op, k)

    def gather_home(self, op, k):
        """Where the value is in each block; the blocks count in registers."""
        x = op.operands[k]
        source = self.home(x) if type(x.type) is T.Tile else replicated((), self.warps)
        return stacked(source, op.types[k].shape)

    # --- cheapness ------------------------------------------------------------------------------------------------
    def cheap(self, x):
        """True if making a tile again costs less than moving it: ranges, splats, integer and simple arithmetic."""
        return self.rests(x) == 0

    def rests(self, x):
        """Bytes of the costly tiles that a tile without a home is spread from, 0 if it is cheap; None if it has one."""
        if type(x.type) is not T.Tile:
            return 0
        if type(x) is not Op:
            return 0 if id(x) in self.undecided else None
        if id(x) not in self.rests_memo:
            self.rests_memo[id(x)] = self._rests(x) if simple(x) else None
        return self.rests_memo[id(x)]

    def _rests(self, x):
        spreads, total = x.kind in _SPREADS, 0
        for y in x.operands:
            below = self.rests(y)
            if below is None:
                if not spreads:
                    return None
                below = _bytes(y)
            total += below
        return total if spreads or total <= _bytes(x) else None

    def crossing(self, x, layout, most):
        """Bytes that cross for `x` to come in `layout`, or `most` if they are no fewer."""
        rests = self.rests(x)
        if rests == 0 or self.find(x, layout) is not None:
            return 0
        if rests is not None:
            return min(rests, most)
        most = min(most, self.moving(x, layout))
        return self.remaking(x, layout, most) if simple(x) else most

    def moving(self, x, layout):
        """Bytes that cross where a tile is converted from its home."""
        return _bytes(x) if conversion(self.home(x), layout) in ("lanes", "shared") else 0

    def remaking(self, x, layout, most):
        """Bytes that cross where a tile is made again, one for each operation on an element, or `most`."""
        total = 0 if x.kind in OPERAND else x.type.numel  # what only moves elements does nothing to registers
        for k, y in enumerate(x.operands):
            if total >= most:
                return most
            total += self.crossing(y, self.operand_layout(x, k, layout), most - total)
        return min(total, most)

    def copied(self, x, layout):
        """True if a spread tile takes work that warps would do over and over in `layout`, and is large."""
        return self.rests(x) != 0 and x.kind not in OPERAND and 4 <= self.home(x).registers <= layout.registers // 2

    # --- rebuilding -----------------------------------------------------------------------------------------------
    def block(self, block):
        for op in block.ops:
            self.b.loc = op.loc
            tile = [type(t) is T.Tile for t in op.types]
            movable = not op.kind.effects or op.kind is gpu_ops.buffer_load  # its buffer is as it is to the round's end
            if any(tile) and movable and len(op.types) == 1 and self.rests(op) is not None:
                continue  # made where it is wanted
            self.emit(op)

    def emit(self, op):
        special = _EMIT.get(op.kind)
        if special:
            special(self, op)
        elif not any(type(x.type) is T.Tile for x in (*op.operands, *op.results)):
            self.place(op, [self.scalar(x) for x in op.operands])
        else:
            layout = self.home(op.results[0]) if op.types and type(op.types[0]) is T.Tile else None
            self.place(op, [self.want(x, self.operand_layout(op, k, layout)) for k, x in enumerate(op.operands)])

    def operand_layout(self, op, k, layout):
        """The layout in which operand k must come for the result to be made in `layout`."""
        if type(op.operands[k].type) is not T.Tile:
            return None
        rule = OPERAND.get(op.kind)
        return rule(self, op, k, layout) if rule else layout

    def place(self, op, operands, regions=None):
        """Emit a copy of `op` with its layout, remembering its results at home."""
        layouts = tuple(self.home(v) if type(v.type) is T.Tile else None for v in op.results)
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
        self.made[-1][_key(old), layout] = made

    def find(self, x, layout):
        for scope in reversed(self.made):
            found = scope.get((_key(x), layout))
            if found is not None:
                return found
        return None

    def scalar(self, x):
        return self.want(x, None)

    def want(self, x, layout):
        """The value `x` in `layout`, made again or converted if need be."""
        if type(x.type) is not T.Tile:
            layout = None
        found = self.find(x, layout)
        if found is None:
            if type(x.type) is not T.Tile:
                found = x  # an argument of the kernel
            elif self.rests(x) is None:
                return self.moved(x, layout)
            elif self.copied(x, layout):
                found = self.converted(self.want(x, self.home(x)), layout)
            else:
                found = self.again(x, layout)
            self.remember(x, layout, found)
        return found

    def again(self, x, layout):
        operands = tuple(self.want(y, self.operand_layout(x, k, layout)) for k, y in enumerate(x.operands))
        return self.b.place(x.replace(operands=operands, attrs={**x.attrs, "layout": layout, **self.notes(x, layout)}))

    def notes(self, x, layout):
        """What makes a quotient or a comparison of integers cheaper: the register bits that do not change it, for it is
        the same within a run; and whether a number that is divided by a constant has a sign."""
        if x.kind not in _EVENS_OUT or not T.element(x.operands[0].type).is_int:
            return {}
        alike, (dividend, divisor) = layout.within(self.info(x).constancy), x.operands
        divided = x.kind in (ops.div, ops.rem) and T.element(x.type).signed and (number(divisor) or 0) > 0
        unsigned = divided and self.info.is_nonnegative(dividend)
        return {**({"alike": alike} if alike else {}), **({"unsigned": True} if unsigned else {})}

    def converted(self, x, layout):
        return self.b.place(Op(gpu_ops.convert, (x,), {"layout": layout}, (x.type,), loc=self.b.loc))

    def moved(self, x, layout):
        """A costly tile away from home: made again of what is cheaper to move, or converted."""
        with self.outside_loops(x, layout):
            moving = self.moving(x, layout)
            if simple(x) and self.remaking(x, layout, moving) < moving:
                self.left = True
                found = self.again(x, layout)
            else:
                found = self.converted(self.find(x, self.home(x)), layout)
            self.remember(x, layout, found)
        return found

    @contextmanager
    def outside_loops(self, x, layout):
        """Emit where `x` was made: before the loops that only read it, if threads can hold it in `layout` till then."""
        home, depth = self.home(x), len(self.made)
        if layout.registers <= max(home.registers, HELD_BYTES // x.type.element.bytes):
            while self.loops[depth - 1] and (_key(x), home) not in self.made[depth - 1]:
                depth -= 1
        inner = self.made[depth:], self.loops[depth:]
        del self.made[depth:], self.loops[depth:]
        with self.b.outside(depth):
            yield
        self.made += inner[0]
        self.loops += inner[1]

    def swept(self, block):
        """The block without tiles that nobody reads after all."""
        if not self.left:
            return block
        kept, read = [], set()
        for op in reversed(block.ops):
            if id(op) in read or op.regions or "layout" not in op.attrs or op.kind.effects_of(op):
                kept.append(op)
                for inner in (op, *(y for region in op.regions for y in walk(region))):
                    read.update(_key(x)[0] for x in inner.operands)
        return Block(block.args, kept[::-1])

    # --- ops with rules of their own ------------------------------------------------------------------------------
    def store(self, op):
        """Values come to the coalesced layout, unless their own serves as well."""
        pointer = op.operands[0]
        if type(pointer.type) is not T.Tile:
            self.place(op, [self.scalar(x) for x in op.operands])
            return
        layout, value = self.anchor(op), op.operands[1]
        if not self.cheap(value) and self._serves(op, self.home(value), layout):
            layout = self.home(value)
        self.memory(op, layout)

    def _serves(self, op, own, ideal):
        """True if storing from a tile's own layout is as good as bringing it to the ideal one first."""
        inner = own.contiguous(self._order(op)[1][0])
        if inner < self._vector(op):
            return False
        if own.free("lane") or own.free("warp"):  # so few elements that moving them costs more than idle threads
            return own.registers <= 2 * ideal.registers * min(inner, self._reach(op))
        return _coalesced(own, ideal)

    def load(self, op):
        if type(op.operands[0].type) is not T.Tile:
            self.place(op, [self.scalar(x) for x in op.operands])
        else:
            self.memory(op, self.home(op))

    def async_load(self, op):
        self.memory(op, self.anchor(op))

    def memory(self, op, layout):
        width = min(self._reach(op), layout.contiguous(self._order(op)[1][0]))
        operands = tuple(self.want(x, layout) for x in op.operands)
        new = self.b.place(op.replace(operands=operands, attrs={**op.attrs, "layout": layout, "vector": width}))
        for old, made in zip(op.results, new.results):
            self.remember(old, layout, made)

    def loop(self, op):
        heads = 3 if op.kind is ops.for_ else 0
        inits, layouts = [], []
        body = op.regions[-1]
        for arg, x in zip(body.args[heads and 1 :], op.operands[heads:]):
            layouts.append(self.homes[id(arg)] if type(arg.type) is T.Tile else None)
            inits.append(self.want(x, layouts[-1]))
        turn, self.turn = self.turn, None
        regions = tuple(self.region(r, layouts, heads and 1, loop=True) for r in op.regions)
        if turn is not None:
            self.place(turn, ())
        self.place(op, [*(self.scalar(x) for x in op.operands[:heads]), *inits], regions)

    def ping_pong_wait(self, op):
        """Conversions that leave the loop would keep the others waiting."""
        self.turn = op

    def region(self, block, layouts, skip=0, loop=False):
        """Rebuild a region; its parameters carry their layouts, and a body's yields come back to them."""
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
            ends = tuple(self.want(y, self.homes_or(y, lay)) for y, lay in zip(last.operands, wanted))
            self.b.place(last.replace(operands=ends))
        self.made.pop()
        self.loops.pop()
        return self.swept(Block(args, region.block.ops))

    def homes_or(self, y, layout):
        return None if type(y.type) is not T.Tile else layout or self.home(y)

    def branch(self, op):
        layouts = [self.home(v) if type(v.type) is T.Tile else None for v in op.results]
        regions = tuple(self.region(r, layouts, len(r.args)) for r in op.regions)
        self.place(op, [self.scalar(op.operands[0])], regions)

    def combining(self, op):
        """reduce, scan and map: their regions hold scalars only."""
        layout = self.home(op.results[0] if op.kind is ops.map_ else self.leader(op.operands))
        self.place(op, [self.want(x, layout) for x in op.operands])


def _size(element):
    return 8 if type(element) is T.Ptr else element.bytes


def _bytes(x):
    return x.type.numel * x.type.element.bytes


def _key(x):
    return (id(x.op), x.index) if type(x) is Result else (id(x), 0)


_EVENS_OUT = (ops.div, ops.rem, ops.shr, ops.lt, ops.le, ops.gt, ops.ge)  # of neighbours that differ, or of signs
_ATOMIC = (ops.atomic, ops.atomic_cas)
_MEMORY = (ops.load, ops.store, *_ATOMIC, gpu_ops.async_load)


def _pointer(op):
    return op.operands[1 if op.kind is gpu_ops.async_load else 0]


def _mask_of(op):
    if op.kind is ops.load:
        return op.operands[1] if len(op.operands) > 1 else None
    if op.kind in (ops.store, ops.atomic, gpu_ops.async_load):
        return op.operands[2] if len(op.operands) > 2 else None
    return None


def _coalesced(own, ideal):
    """True if the warp touches memory in runs about as long as the ideal layout would."""
    lowest = sorted(x for x in own.lane if x)[:3]
    return lowest == sorted(x for x in ideal.lane if x)[:3]


_HOME = {  # anchors, and ops whose results come out of regions
    ops.load: lambda self, op, k: self.anchor(op),
    ops.atomic: lambda self, op, k: self.anchor(op),
    ops.atomic_cas: lambda self, op, k: self.anchor(op),
    ops.dot: _Assign.dot_home,
    gpu_ops.dot_shared: _Assign.dot_shared_home,
    gpu_ops.dot_buffers: _Assign.dot_buffers_home,
    gpu_ops.buffer_load: _Assign.buffer_home,
    gpu_ops.cluster_all_gather: _Assign.gather_home,
    ops.for_: _Assign.loop_home,
    ops.while_: _Assign.loop_home,
    ops.if_: _Assign.branch_home,
    ops.join: _Assign.join_home,
}

_EMIT = {
    ops.store: _Assign.store,
    gpu_ops.async_load: _Assign.async_load,
    ops.load: _Assign.load,
    ops.atomic: _Assign.load,
    ops.atomic_cas: _Assign.load,
    gpu_ops.ping_pong_wait: _Assign.ping_pong_wait,
    ops.for_: _Assign.loop,
    ops.while_: _Assign.loop,
    ops.if_: _Assign.branch,
    ops.reduce: _Assign.combining,
    ops.scan: _Assign.combining,
    ops.map_: _Assign.combining,
}
