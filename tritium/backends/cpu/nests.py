"""Loops over tiles: filling scratch memory, and several stores and reductions in one nest; strips to and from scratch."""

from __future__ import annotations

from ... import ops
from ...ir import types as T
from ...ir.core import Arg, Result
from ..llvm.rows import memory_type
from ..llvm.writer import Val, lanes, vector
from . import lower_masks, lower_memory, lower_reduce
from .affine import form_of
from .index import ZERO, iota, lanes_of, strips, width_of

__all__ = ["fill", "group", "place", "pointer", "position", "read", "read_flat", "rows", "width_for", "write"]


def width_for(lo, shape, *types):
    """How many lanes strips of these element types have: as many as 16 of 4 bytes take registers.

    Short tiles are done sooner than code for wide strips is compiled.
    """
    wide, total = max([t.bytes for t in types], default=4), 1
    for n in shape:
        total *= n
    return lo.width if wide <= 4 and total > _SHORT * lo.width else lo.width // 2


_SHORT = 4


# --- scratch ----------------------------------------------------------------------------------------------------
def place(lo, buffer, idx):
    """Row-major position of the first lane, and what each lane adds to it."""
    base, offsets = 0, None
    for (b, lane), stride in zip(idx, buffer.strides, strict=True):
        base = lo.add(base, lo.mul(b, stride))
        if lane is not None:
            steps = [o * stride for o in lane.offsets]
            offsets = steps if offsets is None else [x + y for x, y in zip(offsets, steps, strict=True)]
    return base, lanes_of(offsets) if offsets else None


def position(lo, buffer, idx):
    """Row-major position of an index that is the same in all lanes (or of the first lane)."""
    return place(lo, buffer, idx)[0]


def pointer(lo, buffer, base):
    """The address of element `base` of a buffer."""
    start = lo.address(buffer)
    return lo.offset(memory_type(buffer.element), start, base) if base != 0 else start


def read(lo, buffer, idx) -> Val:
    """A strip of a tile in scratch memory."""
    return read_flat(lo, buffer, *place(lo, buffer, idx))


def read_flat(lo, buffer, base, pattern) -> Val:
    """A strip of a tile in scratch memory whose lanes lie at `base` plus a pattern, in elements."""
    w, t = lo.w, memory_type(buffer.element)
    start = pointer(lo, buffer, base)
    level, align = max(start.level, lo.region), buffer.element.bytes
    if pattern is None:
        x = w.load(t, start, align, at=level)
    elif pattern is iota(len(pattern.offsets)):
        x = w.load(vector(len(pattern.offsets), t), start, align, at=level)
    else:
        x = _read_pattern(lo, start, pattern, t, align, level)
    if buffer.element is T.i1:
        return w.compare("icmp ne", x, w.const(x.type, 0))
    return x


def _read_pattern(lo, start, pattern, t, align, level):
    """Lanes close to each other come from one load and a shuffle, others one by one."""
    w, offsets = lo.w, pattern.offsets
    n, span = len(offsets), 1
    while span <= max(offsets):
        span *= 2
    if min(offsets) >= 0 and span <= 2 * n:
        return w.shuffle(w.load(vector(span, t), start, align, at=level), None, offsets)
    pointers = w.emit(vector(n, "ptr"), f"getelementptr {t}, ptr {start}, {w.lanes_of('i64', offsets).typed}", start)
    return lower_memory.gather(lo, pointers, t, align, level)


def write(lo, buffer, idx, x) -> None:
    """Put a strip of a tile into scratch memory."""
    w, t = lo.w, memory_type(buffer.element)
    base, pattern = place(lo, buffer, idx)
    start = pointer(lo, buffer, base)
    if buffer.element is T.i1:
        x = w.cast("zext", x, vector(lanes(x.type), "i8"))
    n = width_of(idx)
    x = lo.widen(x, n) if pattern is not None else w.extract(x, 0) if x.type[0] == "<" else x
    level, align = max(start.level, x.level, lo.region), buffer.element.bytes
    with lo.at(level):
        if pattern is None or pattern is iota(n):
            w.store(x, start, align)
        else:
            at = w.lanes_of("i64", pattern.offsets)
            pointers = w.emit(vector(n, "ptr"), f"getelementptr {t}, ptr {start}, {at.typed}", start)
            lower_memory.scatter(lo, x, pointers, align)


# --- filling ----------------------------------------------------------------------------------------------------
def fill(lo, pairs) -> None:
    """Compute tiles of one shape and put each into its buffer, in one nest of loops."""
    shape = T.shape(pairs[0][0].type)
    axis = contiguous_axis(lo, pairs[0][0]) if len(pairs) == 1 and len(shape) > 1 else None
    if axis is not None and axis != len(shape) - 1 and shape[axis] % 4 == 0 and shape[-1] % 4 == 0:
        _fill_across(lo, *pairs[0], axis)
        return
    walk = strips(shape, width_for(lo, shape, *[T.element(x.type) for x, _ in pairs]))
    with lo.loops([shape[a] for a in walk.outer]) as at, lo.counted(walk.total, walk.width) as base:
        idx = walk.index(lo, at, base)
        made = [lo.ev(x, idx) for x, _ in pairs]
        for (_, buffer), strip in zip(pairs, made, strict=True):
            write(lo, buffer, idx, strip)


def _fill_across(lo, x, buffer, axis) -> None:
    """Memory runs along `axis`, scratch along the last: squares of 4 x 4 are read one way and written the other."""
    last = len(buffer.shape) - 1

    def put(idx, line):
        write(lo, buffer, idx, line)
    _across(lo, x, buffer.shape, axis, last, _masks(lo, x), lambda at, line: lambda: put(at, line))


def _store_across(lo, op, shape, axis, to) -> None:
    """Read along `axis`, store along `to`."""
    p, x, *mask = op.operands
    masks = _masks(lo, x) | {lo.key(m): m for m in mask}
    _across(lo, x, shape, axis, to, masks, lambda at, line: lower_memory.prepare_store(lo, op, at, line))


def _across(lo, x, shape, axis, to, masks, put) -> None:
    """Squares of a tile that lies inside all masks as a whole go without them; other tiles go element by element.

    `put(idx, strip)` prepares a store and returns what does it.
    """
    inside = lower_masks.tile_inside(lo, masks)
    if inside is None:
        _squares(lo, x, shape, axis, to, put)
        return

    def hot():
        with lo.inside(), lo.assuming(masks):
            _squares(lo, x, shape, axis, to, put)

    def cold():
        with lo.inside(), lo.loops(shape) as at:
            idx = tuple([(i, None) for i in at])
            put(idx, lo.ev(x, idx))()
    lo.either(inside, hot, cold, likely=True)


def _masks(lo, x):
    """The masks of all loads a tile is computed from, by key."""
    found, seen, stack = {}, set(), [x]
    while stack:
        x = stack.pop()
        if type(x) in (Arg, Result) or type(x.type) is not T.Tile or id(x) in seen or lo.key(x) in lo.homes \
                or not lo.is_lazy(x):
            continue
        seen.add(id(x))
        if x.kind is ops.load and len(x.operands) > 1:
            found[lo.key(x.operands[1])] = x.operands[1]
        stack += x.operands[2:] if x.kind is ops.load else x.operands
    return found


def _squares(lo, x, shape, axis, to, put) -> None:
    others = [a for a in range(len(shape)) if a not in (axis, to)]
    with lo.loops([shape[a] for a in others]) as at, lo.counted(shape[to], 4) as column, \
            lo.counted(shape[axis], 4) as row:
        idx = [ZERO] * len(shape)
        for a, i in zip(others, at, strict=True):
            idx[a] = (i, None)

        def index(r, c):
            out = list(idx)
            out[axis], out[to] = r, c
            return tuple(out)
        lines = [lo.ev(x, index((row, iota(4)), (lo.add(column, k), None))) for k in range(4)]
        ready = [put(index((lo.add(row, k), None), (column, iota(4))), line)
                 for k, line in enumerate(_transposed(lo, lines))]
        for store in ready:
            store()


def _transposed(lo, xs):
    """Four vectors of four lanes, rows for columns."""
    w = lo.w
    xs = [lo.widen(x, 4) for x in xs]
    low = [w.shuffle(xs[0], xs[1], (0, 4, 1, 5)), w.shuffle(xs[2], xs[3], (0, 4, 1, 5))]
    high = [w.shuffle(xs[0], xs[1], (2, 6, 3, 7)), w.shuffle(xs[2], xs[3], (2, 6, 3, 7))]
    return [w.shuffle(a, b, picks) for a, b in (low, high) for picks in ((0, 1, 4, 5), (2, 3, 6, 7))]


def contiguous_axis(lo, x, seen=None):
    """The axis of a tile along which the memory it comes from is contiguous; None when nothing speaks for one."""
    seen = set() if seen is None else seen
    if lo.key(x) in lo.homes:
        return len(T.shape(x.type)) - 1
    if type(x) in (Arg, Result) or type(x.type) is not T.Tile or id(x) in seen or not lo.is_lazy(x):
        return None
    seen.add(id(x))
    if x.kind is ops.load:
        return lower_memory.contiguous(form_of(lo, x.operands[0]), x.type.shape)
    if x.kind is ops.trans:
        axis = contiguous_axis(lo, x.operands[0], seen)
        return None if axis is None else x.attrs["order"].index(axis)
    if x.kind is ops.broadcast:
        axis = contiguous_axis(lo, x.operands[0], seen)
        return axis if axis is not None and T.shape(x.operands[0].type)[axis] > 1 else None
    if x.kind.elementwise:
        for y in x.operands:
            axis = contiguous_axis(lo, y, seen)
            if axis is not None:
                return axis
    return None


# --- several ops in one nest ------------------------------------------------------------------------------------
def group(lo, roots, nest, force=None, clip=None) -> None:
    """Stores and reductions over tiles of one shape, and a tile to put into scratch, in one nest of loops.

    `clip` is a mask beyond which they meet nothing new.
    """
    if nest[0] == "columns":
        lower_reduce.columns(lo, roots, nest[2])
        return
    shape = nest[1]
    stores = [op for op in roots if op.kind is ops.store]
    turn = _turned(lo, stores[0], shape) if len(roots) == 1 and stores and force is None else None
    if turn:
        _store_across(lo, stores[0], shape, *turn)
        return
    room = None if force is None or lo.key(force) in lo.homes else lo.room(force)
    fills = [] if room is None else [(force, room)]
    reductions = [lower_reduce.Reduction(lo, op) for op in roots if op.kind is ops.reduce]
    vectorised = all(r.lane_by_lane for r in reductions)
    width = width_for(lo, shape, *[T.element(x.type) for op in roots for x in op.operands[-2:] if not T.is_ptr(x.type)])
    walk = strips(shape, width if vectorised else 1, lower_memory.store_order(lo, stores) if not reductions else None)
    with lo.loops([shape[a] for a in walk.outer]) as at:
        stop = _stop(lo, clip, walk, at, bool(reductions)) if clip is not None and vectorised else None
        rows(lo, stores, reductions, walk, at, fills, stop)
    for r in reductions:
        r.close()
    if room is not None:
        lo.homes[lo.key(force)] = room


def _stop(lo, clip, walk, at, one_more):
    """Where the strips of a row end: with the mask, or one strip later. None if the mask has no end to be known."""
    if walk.inner != (len(walk.shape) - 1,) or walk.total <= 2 * lo.width:
        return None
    mask = lower_masks.mask_of(lo, clip, walk.index(lo, at, 0))
    if mask is None or mask.high is None or mask.low is not None or mask.each is not None or mask.base != 0:
        return None
    w, high = lo.w, lo.const(mask.high)
    if mask.condition is not None:
        high = w.select(mask.condition, high, lo.const(0))
    strips_ = w.binary("add", w.intrinsic("smax", "i64", high, lo.const(0)), lo.const((1 + one_more) * lo.width - 1))
    return w.intrinsic("smin", "i64", w.binary("and", strips_, lo.const(-lo.width)), lo.const(walk.total))


def _turned(lo, op, shape):
    """(axis along which a store's value comes from memory, axis along which it goes there) where they differ."""
    if len(shape) < 2:
        return None
    to = lower_memory.contiguous(form_of(lo, op.operands[0]), shape)
    axis = contiguous_axis(lo, op.operands[1]) if to is not None else None
    if axis is None or axis == to or shape[axis] % 4 or shape[to] % 4:
        return None
    return axis, to


def rows(lo, stores, reductions, walk, at, fills=(), stop=None) -> None:
    """One row of a nest: its strips up to `stop`, then what the reductions make of them."""
    inits = [x for r in reductions for x in r.inits(walk, stop)]
    if walk.total == walk.width:
        _strip(lo, stores, reductions, fills, walk.index(lo, at, 0), ())
    else:
        end = walk.total if stop is None else stop
        with lo.loop(0, end, walk.width, carry=inits, nonempty=bool(reductions)) as loop:
            idx = walk.index(lo, at, loop.index)
            loop.next = _strip(lo, stores, reductions, fills, idx, loop.carried, loop.index)
        rest = list(loop.results)
        for r in reductions:
            rest = r.take(rest, walk, stop)
    for r in reductions:
        r.finish(at, walk)


def _strip(lo, stores, reductions, fills, idx, carried, base=0):
    """Everything is computed before anything is stored: a store may change what another reads."""
    carried, out = list(carried), []
    filled = [lo.ev(x, idx) for x, _ in fills]
    elements = [[lo.ev(x, idx) for x in r.op.operands] for r in reductions]
    ready = [lower_memory.prepare_store(lo, op, idx) for op in stores]
    for r, xs in zip(reductions, elements, strict=True):
        n = r.carries
        out += r.accumulate(xs, carried[:n], base, width_of(idx))
        carried = carried[n:]
    for (_, room), strip in zip(fills, filled, strict=True):
        write(lo, room, idx, strip)
    for store in ready:
        store()
    return out


