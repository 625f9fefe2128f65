"""Lines: tiles whose last axis is contiguous in memory but for the ends of lines (runs.py), a line at a time.

    positions of a tile     |......line 3|line 4......|line 5 ...|        pieces, each within one line
    of them inside a mask   |......line 3|.ine 4......|.ine 5 ...|        the rest is blank

A line's end is the same for all rows of a tile, so the loop over pieces is the outer one.

With AVX-512, chunks of 16 lanes begin where a piece begins, and the last one ends with it by a mask. A loop over rows
has four of them, or one where a piece is short: what rows share is computed before it, and a mask of the tile takes a
comparison for each chunk. What rows add to addresses, as the taps of a filter do, is summed up for all rows first.

Elsewhere chunks of 16 lanes cover a piece, the last of them as far back as it must begin; a piece that is shorter is
covered by chunks of four, or one by one. No chunk crosses an end or a mask's, so none is gathered, and none has a mask.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from .... import ops
from ....analysis.affine import Loose
from ....analysis.runs import axis_behind
from ....ir import types as T
from ....ir.core import Arg, Op, Value, closure
from ..fuse import uniform_quotients
from ..fuse.affine import form_of
from ..fuse.index import Index, iota
from . import memory, predication, runs, scratch_chunks

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .function import Lowering
    from .runs import Runs
    from .scratch import Buffer

_BYTES = 64  # of a chunk
_CHUNKS = 4  # that share a loop over rows


class Lines:
    """The pieces of a tile, and what is done with the chunks of each."""

    def __init__(self, lo: Lowering, pointers: Value, found: Runs, mask: Value | None, element_bytes: int):
        self.lo, self.pointers, self.found, self.mask = lo, pointers, found, mask
        *self.outer, self.size = T.shape(pointers.type)
        wide = _BYTES // max(element_bytes, 4)
        self.widths = [n for n in (wide, wide // 4, 1) if n <= self.size]
        self.by_lane = lo.target.simd == "avx512" and self.widths[0] > 1
        self.shared = all(T.numel(x.type) == self.size for x, _ in found.tests)  # ends of lines, by all rows

    def fill(self, x: Value, buffer: Buffer, end: int | Val | None = None) -> None:
        """Compute a tile that is loaded in lines and write it to its buffer. Of a matrix, only the rows below `end` are
        needed, an end of the mask, if that is given."""
        lo = self.lo
        put = lambda idx: scratch_chunks.write(lo, buffer, idx, lo.ev(x, idx))
        if end is None or self.mask is None:
            self._each(put, blank=True)
            return
        some = lo.w.compare("icmp sgt", lo.const(end), lo.const(0))
        with lo.when(some), lo.inside(), lo.assuming(predication.terms_along(lo, self.mask, 0)):
            self._each(put, blank=True, end=lo.w.intrinsic("smin", "i64", lo.const(end), lo.const(self.outer[0])))

    def store(self, op: Op) -> None:
        """Store a tile in lines."""
        self._each(lambda idx: memory.prepare_store(self.lo, op, idx)(), blank=False)

    def _each(self, put: Callable[[Index], None], blank: bool, end: Val | None = None) -> None:
        """`put` all chunks inside the mask, and if `blank` the others as if it were false; of rows below an end."""
        with self.lo.keeping_loaded():
            if self.by_lane:
                self._each_chunk(put, end)
            else:
                self._each_piece(put, blank, end)

    def _each_chunk(self, put: Callable[[Index], None], end: Val | None) -> None:
        """`put` the chunks of all pieces, with masks of lanes."""
        lo, n = self.lo, self.widths[0]
        with self._summed_rows(), self._pieces() as (some, start, stop):
            def chunks(base: Val, count: int) -> None:
                with lo.inside(), lo.by_lanes(), self._rows(some, end) as rows:
                    for k in range(count):
                        put((*[(i, None) for i in rows], (lo.add(base, k * n), iota(n))))

            def long() -> None:
                with lo.loop(start, stop, _CHUNKS * n, nonempty=True) as loop:
                    lo.w.hide(loop.index)
                    chunks(loop.index, _CHUNKS)
            lo.either(lo.w.compare("icmp sgt", lo.sub(stop, start), lo.const(n)), long, lambda: chunks(start, 1))

    def _each_piece(self, put: Callable[[Index], None], blank: bool, end: Val | None) -> None:
        """`put` the chunks of all pieces inside the mask, and before them, if `blank`, those of pieces that are not
        wholly inside, as if the mask were false."""
        lo = self.lo
        with self._pieces() as (some, start, stop), self._rows(some, end) as rows:
            def index(base: int | Val, n: int) -> Index:
                return (*[(i, None) for i in rows], (base, iota(n)))

            def put_at(base: Val, n: int) -> None:
                put(index(base, n))
            memory.addresses_of(lo, self.pointers, index(start, self.widths[0]))  # what a row shares is computed here
            low, high, masks = start, stop, () if self.mask is None else (self.mask,)
            mask = predication.mask_of(lo, self.mask, index(start, self.widths[0]))
            if mask is not None and mask.each is not None:
                masks = ()
            elif mask is not None:
                low, high = mask.clipped(lo, start, stop)
                if blank:
                    outside = lo.w.compare("icmp slt", lo.sub(high, low), lo.sub(stop, start))
                    with lo.when(outside), lo.denying(masks):
                        _cover(lo, self.widths, start, stop, put_at)
            with lo.assuming(masks):
                _cover(lo, self.widths, low, high, put_at)

    @contextmanager
    def _pieces(self) -> Iterator[tuple[list | None, Val, Val]]:
        """A loop over pieces: gives where one begins and ends, and the indices of the row if rows have their own."""
        lo, found = self.lo, self.found
        with nullcontext() if self.shared else lo.loops(self.outer) as some, lo.loop(0, self.size) as pieces:
            start = pieces.index
            lo.w.hide(start)
            first = [0] * len(self.outer) if some is None else some
            length = found.length(lo, (*[(i, None) for i in first], (start, None)))
            stop = lo.w.intrinsic("smin", "i64", lo.add(start, length), lo.const(self.size))
            pieces.step = lo.sub(stop, start)
            with found.assumed(lo, start, stop if self.by_lane else None):
                yield some, start, stop

    @contextmanager
    def _rows(self, some: list | None, end: Val | None) -> Iterator[list]:
        """Loops over rows, below an end, where they share the pieces: gives the indices of a row."""
        if some is not None:
            yield some
        elif end is None:
            with self.lo.loops(self.outer) as rows:
                yield rows
        else:
            with self.lo.loop(0, end) as row:
                yield [row.index]

    @contextmanager
    def _summed_rows(self) -> Iterator[None]:
        """Inside, the terms of addresses that only depend on the row of a matrix are one term, in scratch memory."""
        lo, form = self.lo, form_of(self.lo, self.pointers)
        mine = [x for x in form.loose if len(self.outer) == 1 and list(T.shape(x.value.type)) == self.outer
                and (axis_behind(x.path, 0, 2), axis_behind(x.path, 1, 2)) == (0, -1)]
        if len(mine) < 2:
            yield
            return
        sums: Any = Arg(T.Tile((self.outer[0],), T.i64))
        buffer, n = lo.arena.take(sums.type.shape, T.i64), min(lo.width, self.outer[0])
        with lo.counted(self.outer[0], n) as row:
            idx = ((row, iota(n)),)
            terms = [memory.times(lo, lo.index_of(lo.widen(lo.ev(x.value, idx), n), T.element(x.value.type)), x.scale)
                     for x in mine]
            scratch_chunks.write(lo, buffer, idx, functools.reduce(lambda x, y: lo.w.binary("add", x, y), terms))
        key, lo.buffers[sums] = ("form", self.pointers), buffer
        lo.memo[key] = form._replace(loose=(*[x for x in form.loose if x not in mine], Loose(1, sums, mine[0].path)))
        yield
        lo.memo[key] = form
        lo.drop(sums)


def _cover(lo: Lowering, widths: Sequence[int], low: Val, high: Val, put: Callable[[Val, int], None]) -> None:
    """`put(base, n)` chunks that cover an interval, the widest that fit into it; some elements are put twice."""
    w, (n, *narrower) = lo.w, widths
    if n == 1:
        with lo.loop(low, high) as loop, lo.inside():
            w.hide(loop.index)
            put(loop.index, 1)
        return

    def chunks() -> None:
        last = lo.sub(high, n)
        with lo.loop(low, high, n, nonempty=True) as loop, lo.inside():
            w.hide(loop.index)
            put(w.intrinsic("smin", "i64", loop.index, last), n)
    enough = w.compare("icmp sge", lo.sub(high, low), lo.const(n))
    lo.either(enough, chunks, lambda: _cover(lo, narrower, low, high, put))


def of_load(lo: Lowering, x: Value) -> Lines | None:
    """The lines of a tile that is computed, element by element, from a load in runs along the last axis, or None."""
    load, shape = runs.source(lo, x), T.shape(x.type)
    if load is None or load.attrs["volatile"] or not shape:
        return None
    found = runs.find(lo, load.operands[0], len(shape) - 1)
    if found is None or not _is_bound(lo, load.mask) or load.mask is None and _is_known(lo, found) \
            or _buffers_behind(lo, x):
        return None
    lo.rows_ahead[load] = 0
    return Lines(lo, load.operands[0], found, load.mask, max(T.element(load.type).bytes, T.element(x.type).bytes))


def of_store(lo: Lowering, op: Op) -> Lines | None:
    """The lines of a store in runs along the last axis, of a tile in scratch memory, or None."""
    pointers, x, *_ = op.operands
    shape = T.shape(pointers.type)
    if not shape or not _is_held(lo, x):
        return None
    found = runs.find(lo, pointers, len(shape) - 1)
    if found is None or not _is_bound(lo, op.mask) or op.mask is None and _is_known(lo, found):
        return None
    return Lines(lo, pointers, found, op.mask, T.element(x.type).bytes)


def _is_bound(lo: Lowering, mask: Value | None) -> bool:
    """Whether a mask may be computed once for a piece: no tile behind it is kept for later loops."""
    with lo.keeping_loaded():
        return mask is None or mask not in lo.pending and not lo.fills(mask)


def _is_known(lo: Lowering, found: Runs) -> bool:
    """Whether no chunk crosses an end, as lines are multiples of chunks: then chunks need no lines."""
    return all(uniform_quotients.known(lo, x, axis, lo.width) == fact for x, (fact, axis) in found.facts.items())


def _is_held(lo: Lowering, x: Value) -> bool:
    """Whether a tile is computed, element by element, from tiles in scratch memory: storing it twice is harmless."""
    while x not in lo.buffers:
        if type(x) is not Op or not x.kind.elementwise or len(x.operands) != 1:
            return False
        x, = x.operands
    return True


def _buffers_behind(lo: Lowering, x: Value) -> bool:
    """Whether a tile is computed from others in scratch memory, which it may overwrite."""
    tile = lambda y: type(y) is Op and type(y.type) is T.Tile
    behind = lambda y: () if not tile(y) else y.operands[2:] if y.kind is ops.load else y.operands
    return any(y in lo.buffers for y in closure([x], behind))
