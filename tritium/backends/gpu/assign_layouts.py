"""Give every tile a layout, so that memory is touched in wide, coalesced accesses and tiles move as little as possible.

Memory ops and dots are anchors: their layout follows from how memory is laid out or from what the tensor cores want.
Everything else takes the layout of its costliest operand. A cheap tile (ranges, splats, address arithmetic) belongs
nowhere: it is made again in whatever layout its user has. Where an anchor wants a costly tile in another layout, a
`convert` says so.
"""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from ...ir.builder import Builder
from ...ir.core import Arg, Block, Op, Result
from ...passes.axis_info import analyze
from . import ops as gpu_ops
from .layout import blocked, log2, product, replicated, stacked, turning
from .layout_rules import OPERAND, RESULT

ANCHOR_BYTES = 16  # the widest access of one thread
_FREE = (
    ops.splat,
    ops.arange,
    ops.expand_dims,
    ops.broadcast,
    ops.cast,
    ops.bitcast,
    ops.addptr,
    ops.select,
    ops.hint,
    ops.reshape,
    ops.trans,
    gpu_ops.buffer_load,  # shared memory is read in any layout at about the same cost
)


def no_tensor_cores(a, b, out, precision, warps):
    """What targets without them say of every dot."""
    return None


def one_by_one(how, element):
    """What targets say of every atomic whose instructions update one element."""
    return 1


def assign_layouts(
    module, dot_layout=no_tensor_cores, started=None, taken=None, fragments=no_tensor_cores, widest_atomic=one_by_one
):
    """The module with a `layout` on every op that makes a tile, and conversions where layouts meet.

    `dot_layout(a, b, out, precision, warps)` names the accumulator layout of a dot of these types; None leaves it to
    plain threads. `started(op, warps)` are the layouts of a `dot_shared` and of its left operand in registers.
    `taken` is for what the vectors take for granted; see `axis_info.analyze`. `fragments(a, b, out, precision, warps)`
    gives the layouts of both operands of a dot that takes them from registers, None for others.
    `widest_atomic(how, element)` is the most neighbours that one atomic instruction updates.
    """
    return _Assign(module, dot_layout, started, taken, fragments, widest_atomic).module()


class _Assign:
    def __init__(self, module, dot_layout, started, taken, fragments, widest_atomic):
        self.input, self.warps = module, module.attrs["num_warps"]
        self.dot_layout, self.started, self.fragments = dot_layout, started, fragments
        self.widest_atomic = widest_atomic
        self.info = analyze(module, taken)
        self.cheap_memo = {}
        self.undecided = set()  # loop parameters whose layout the loop's body is still to settle
        self.homes = {}
        self.widths = {}
        self.b = Builder()
        self.b.arguments = list(module.args)
        self.made = [{}]  # per open region: (id of value, layout) -> value in that layout
        self._group_widths(module.body)
        self._choose_homes(module.body)

    def module(self):
        self.block(self.input.body)
        return self.input.replace(body=self.b.finish())

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
        """Elements one access may cover: contiguous, aligned, equally masked, and not so many that threads idle."""
        pointer = _pointer(op)
        element = T.element(pointer.type).pointee
        size = 8 if type(element) is T.Ptr else element.bytes
        shape, order = self._order(op)
        axis, info = order[0], self.info(pointer)
        width = min(ANCHOR_BYTES // size, info.contiguity[axis], shape[axis], max(1, info.divisibility[axis] // size))
        mask = _mask_of(op)
        if mask is not None:
            width = min(width, self.info(mask).constancy[axis])
        if op.kind in _ATOMIC:
            width = min(width, self.widest_atomic(op.attrs.get("how", "cas"), element))
        # Rather let threads idle: short ones cannot be copied, and are slow to update.
        least = gpu_ops.MIN_TRANSFER // size if op.kind in (gpu_ops.async_load, *_ATOMIC) else 1
        width = min(width, max(1, least, product(shape) // (32 * self.warps)))
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
        self.cheap_memo.clear()
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
        costly = [x for x in tiles if not self.cheap(x)]
        leader = next((x for x in costly if not _follows_user(x)), (costly or tiles)[0])
        source, rule = self.home(leader), RESULT.get(op.kind)
        if rule:
            return rule(self, op, source)
        return source if source.shape == op.types[k].shape else self.usual(op.types[k].shape)

    def usual(self, shape):
        """Where a tile of this shape is best placed when nothing else says so: as memory ops on such tiles have it."""
        return blocked(shape, max([v for (s, _), v in self.widths.items() if s == shape] or [1]), self.warps)

    def dot_home(self, op, k):
        a, b = (x.type for x in op.operands[:2])
        layout = self.dot_layout(a, b, op.type, op.attrs["precision"], self.warps)
        return layout or blocked(op.type.shape, 4, self.warps)

    def dot_shared_home(self, op, k):
        return self.started(op, self.warps)[0]

    def buffer_home(self, op, k):
        return turning(op.type.shape, op.type.element.bytes, op.attrs["axis"], self.warps)

    def loop_home(self, op, k):
        body = op.regions[-1]
        return self.homes[id((body.args[1:] if op.kind is ops.for_ else body.args)[k])]

    def branch_home(self, op, k):
        chosen = [r.yields[k] for r in op.regions]
        return self.home(next((y for y in chosen if not self.cheap(y)), chosen[0]))

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
        if type(x.type) is not T.Tile:
            return True
        if type(x) is not Op:
            return id(x) in self.undecided
        if id(x) not in self.cheap_memo:
            row = x.kind.row
            simple = x.kind in _FREE or (row is not None and (row.cost == "cheap" or T.element(x.type).is_int))
            self.cheap_memo[id(x)] = simple and all(self.cheap(y) for y in x.operands)
        return self.cheap_memo[id(x)]

    # --- rebuilding -----------------------------------------------------------------------------------------------
    def block(self, block):
        for op in block.ops:
            self.b.loc = op.loc
            tile = [type(t) is T.Tile for t in op.types]
            movable = not op.kind.effects or op.kind is gpu_ops.buffer_load  # its buffer is as it is to the round's end
            if any(tile) and movable and len(op.types) == 1 and (_follows_user(op) or self.cheap(op)):
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
            attrs["layout"] = layouts[0]
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
            elif _follows_user(x) or self.cheap(x):
                attrs = {**x.attrs, "layout": layout}
                found = self.b.place(
                    x.replace(
                        operands=tuple(
                            self.want(y, self.operand_layout(x, k, layout)) for k, y in enumerate(x.operands)
                        ),
                        attrs=attrs,
                    )
                )
            else:
                at_home = self.find(x, self.home(x))
                found = self.b.place(Op(gpu_ops.convert, (at_home,), {"layout": layout}, (x.type,), loc=self.b.loc))
            self.remember(x, layout, found)
        return found

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
        if own.contiguous(self._order(op)[1][0]) < self._vector(op):
            return False
        if own.free("lane") or own.free("warp"):  # so few elements that moving them costs more than idle threads
            return own.registers <= 2 * ideal.registers
        return _coalesced(own, ideal)

    def load(self, op):
        if type(op.operands[0].type) is not T.Tile:
            self.place(op, [self.scalar(x) for x in op.operands])
        else:
            self.memory(op, self.home(op))

    def async_load(self, op):
        self.memory(op, self.anchor(op))

    def memory(self, op, layout):
        width = min(self._vector(op), layout.contiguous(self._order(op)[1][0]))
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
        regions = tuple(self.region(r, layouts, heads and 1) for r in op.regions)
        self.place(op, [*(self.scalar(x) for x in op.operands[:heads]), *inits], regions)

    def region(self, block, layouts, skip=0):
        """Rebuild a region; its parameters carry their layouts, and a body's yields come back to them."""
        args = []
        self.made.append({})
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
        return Block(args, region.block.ops)

    def homes_or(self, y, layout):
        return None if type(y.type) is not T.Tile else layout or self.home(y)

    def branch(self, op):
        layouts = [self.home(v) if type(v.type) is T.Tile else None for v in op.results]
        regions = tuple(self.region(r, layouts, len(r.args)) for r in op.regions)
        self.place(op, [self.scalar(op.operands[0])], regions)

    def combining(self, op):
        """reduce, scan and map: their regions hold scalars only."""
        if op.kind is ops.map_:
            first = self.home(op.results[0])
        else:
            first = self.home(next((x for x in op.operands if not self.cheap(x)), op.operands[0]))
        self.place(op, [self.want(x, first) for x in op.operands])


def _follows_user(x):
    """True for a tile that is only spread from a smaller one: moving the smaller one is always better."""
    return type(x) is Op and x.kind in (ops.expand_dims, ops.broadcast)


def _key(x):
    return (id(x.op), x.index) if type(x) is Result else (id(x), 0)


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
    gpu_ops.buffer_load: _Assign.buffer_home,
    gpu_ops.gather_blocks: _Assign.gather_home,
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
    ops.for_: _Assign.loop,
    ops.while_: _Assign.loop,
    ops.if_: _Assign.branch,
    ops.reduce: _Assign.combining,
    ops.scan: _Assign.combining,
    ops.map_: _Assign.combining,
}
