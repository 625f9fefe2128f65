"""Runs of a tile's pointers (analysis/runs.py), as code: whether a chunk is one, and where one ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .... import ops
from ....analysis.runs import Growth, Test
from ....ir import types as T
from ....ir.core import Op, Value
from ....named_tuples import NamedTuple
from ..fuse.affine import form_of
from ..fuse.index import Index, source_index

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .function import Lowering

LEAST = 8  # runs that are known to be shorter are not looked for


class Runs(NamedTuple):
    """What holds along an axis of a tile within a run.

    `facts`: quotient or remainder -> "constancy" or "contiguity", and the axis of it. `tests`: a quotient or remainder
    for each division that may step, and the views between it and the tile.
    """

    axis: int
    facts: dict[Value, tuple[str, int]]
    tests: list[Test]

    def unbroken(self, lo: Lowering, idx: Index, n: int) -> Val:
        """An i1: the chunk of `n` along the axis that begins at a scalar index is a run."""
        w, total = lo.w, None
        last = tuple([(lo.add(i, n - 1), None) if a == self.axis else (i, None) for a, (i, _) in enumerate(idx)])
        for x, path in self.tests:
            first, end = (lo.ev(x, _behind(lo, path, at)) for at in (idx, last))
            if x.kind is ops.rem:
                first = w.binary("add", first, w.const(first.type, n - 1))
            total = w.all_of(total, w.compare("icmp eq", first, end))
        assert total is not None, "an axis without tests is not searched for runs"
        return total

    def length(self, lo: Lowering, idx: Index) -> Val:
        """An i64, at least 1: how many elements from a scalar index on are a run."""
        w, total = lo.w, None
        for x, path in self.tests:
            at, t = _behind(lo, path, idx), T.element(x.type)
            top, by = (lo.const(lo.index_of(lo.ev(y, at), t)) for y in x.operands)
            rest = lo.const(lo.index_of(lo.ev(x, at), t))
            rest = rest if x.kind is ops.rem else w.binary("sub", top, w.binary("mul", rest, by))
            size = w.intrinsic("abs", "i64", by, w.const("i1", False)) if t.signed else by
            left = w.binary("sub", size, rest)
            if t.signed:  # quotients are rounded towards zero
                below = w.compare("icmp slt", top, lo.const(0))
                left = w.select(below, w.binary("sub", lo.const(0), rest), left)
            total = left if total is None else w.intrinsic("smin", "i64", total, left)
        assert total is not None, "an axis without tests is not searched for runs"
        return w.intrinsic("smax", "i64", total, lo.const(1))

    @contextmanager
    def assumed(self, lo: Lowering, start: Val | None = None) -> Iterator[None]:
        """Inside, chunks along the axis are runs, or parts of the one that begins at `start`."""
        outer, lo.runs, lo.run_start = (lo.runs, lo.run_start), self.facts, start
        yield
        lo.runs, lo.run_start = outer


def find(lo: Lowering, pointers: Value, axis: int) -> Runs | None:
    """The runs of a tile of pointers along an axis, in which they are contiguous; None if there are none."""
    form = form_of(lo, pointers)
    if form.pointer is None or not form.loose:
        return None
    with lo.keeping_loaded():
        if lo.fills(pointers):
            return None
    growth = Growth(lambda x: form_of(lo, x), lambda x: x if type(x) is int else None, lambda x: x in lo.buffers)
    if growth.along(form, axis) != 1 or not growth.tests or (growth.shortest() or LEAST) < LEAST:
        return None
    return Runs(axis, growth.facts, list(growth.tests.values()))


def source(lo: Lowering, x: Value) -> Op | None:
    """The load that a tile is computed from, element by element, or None."""
    while isinstance(x, Op) and lo.is_lazy(x) and x not in lo.buffers:
        if x.kind is ops.load:
            return x
        if not x.kind.elementwise or not x.operands:
            return None
        x = x.operands[0]
    return None


def _behind(lo: Lowering, path: tuple, idx: Index) -> Index:
    for op in path:
        idx = source_index(lo, op, idx)
    return idx
