"""Runs: chunks in which quotients are uniform and remainders contiguous, found out when the kernel runs.

A convolution finds the line and the column of a position by division. Positions side by side lie side by side in
memory, but for the ends of lines. A processor without gathers loads four of them at once if a test finds that the
quotients of the first and the last are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .... import ops
from ....analysis.affine import is_uniform
from ....ir import types as T
from ....ir.core import Op
from ....named_tuples import NamedTuple
from ..fuse.affine import form_of, loose_index
from ..fuse.index import ZERO, iota, source_index

if TYPE_CHECKING:
    from ....analysis.affine import Form
    from ....ir.core import Value
    from ...llvm.writer import Val
    from ..fuse.index import Index
    from .function import Lowering

__all__ = ["WIDTH", "Runs", "find", "source"]

WIDTH = 4  # lanes of a chunk, at least


class Runs(NamedTuple):
    """What holds along an axis of a tile within a run.

    `facts`: quotient or remainder -> "constancy" or "contiguity", and the axis of it. `tests`: a quotient or remainder
    for each division that may step, and the views between it and the tile.
    """

    axis: int
    facts: dict[Value, tuple[str, int]]
    tests: list[tuple[Op, tuple]]

    def unbroken(self, lo: Lowering, idx: Index, n: int) -> Val:
        """An i1: the chunk of `n` along the axis that begins at a scalar index is a run."""
        w, total = lo.w, None
        last = tuple([(lo.add(i, n - 1), None) if a == self.axis else (i, None) for a, (i, _) in enumerate(idx)])
        for x, path in self.tests:
            first, end = (lo.ev(x, _behind(lo, path, at)) for at in (idx, last))
            if x.kind is ops.rem:
                first = w.binary("add", first, w.const(first.type, n - 1))
            same = w.compare("icmp eq", first, end)
            total = same if total is None else w.binary("and", total, same)
        assert total is not None, "an axis without tests is not searched for runs"
        return total

    @contextmanager
    def assumed(self, lo: Lowering) -> Iterator[None]:
        """Inside, chunks along the axis are runs."""
        outer, lo.runs = lo.runs, self.facts
        yield
        lo.runs = outer


def find(lo: Lowering, pointers: Value, axis: int) -> Runs | None:
    """The runs of a tile of pointers along an axis, in which they are contiguous; None if there are none."""
    shape = T.shape(pointers.type)
    if lo.target.simd != "neon" or shape[axis] % WIDTH:
        return None
    search = _Search(lo)
    form = form_of(lo, pointers)
    along = tuple([(0, iota(WIDTH)) if a == axis else ZERO for a in range(len(shape))])
    if form.pointer is None or not form.loose or search.slope(form, along, ()) != 1 or not search.tests:
        return None
    return Runs(axis, search.facts, list(search.tests.values()))


def source(lo: Lowering, x: Value) -> Op | None:
    """The load that a tile is computed from, element by element, or None."""
    while isinstance(x, Op) and lo.is_lazy(x) and x not in lo.buffers:
        if x.kind is ops.load:
            return x
        if not x.kind.elementwise or not x.operands:
            return None
        x = x.operands[0]
    return None


class _Search:
    """How terms of an address grow along an axis: by 0 or 1, where divisions do not step."""

    def __init__(self, lo: Lowering):
        self.lo = lo
        self.facts: dict[Any, tuple[str, int]] = {}
        self.tests: dict[tuple[Any, Any], tuple[Op, tuple]] = {}  # by numerator and divisor

    def slope(self, form: Form, idx: Index, path: tuple) -> int | None:
        """What a form grows by along the lanes of `idx`; None if that is not known. `path` leads to its tile."""
        total = 0
        for (_, lane), stride in zip(idx, form.strides, strict=True):
            if lane is not None:
                if type(stride) is not int:
                    return None
                total += stride
        for loose in form.loose:
            by = self.quotient(loose.value, loose_index(self.lo, loose, idx), path + loose.path)
            if by is None or by and type(loose.scale) is not int:
                return None
            total += by * loose.scale if by else 0
        return total

    def quotient(self, x: Value, idx: Index, path: tuple) -> int | None:
        """What a loose term grows by: a quotient by 0, a remainder by 1, for numerators side by side."""
        axes = [a for a, (_, lane) in enumerate(idx) if lane is not None]
        if not axes:
            return 0
        if len(axes) > 1 or type(x) is not Op or x.kind not in (ops.div, ops.rem) or not T.element(x.type).is_int:
            return None
        top, by = x.operands
        if not is_uniform(form_of(self.lo, by)):
            return None
        grows = self.slope(form_of(self.lo, top), idx, path)
        if grows not in (0, 1):
            return None
        counts = grows == 1 and x.kind is ops.rem
        self.facts[x] = "contiguity" if counts else "constancy", axes[0]
        if grows and (x in self.lo.buffers or (top, by) not in self.tests):  # the cheapest to look at
            self.tests[top, by] = x, path
        return int(counts)


def _behind(lo: Lowering, path: tuple, idx: Index) -> Index:
    for op in path:
        idx = source_index(lo, op, idx)
    return idx
