"""Runs of a tile's pointers (analysis/runs.py), as code: whether a chunk is one, and where one ends.

A loop nest with divisions along its rows goes through a row by runs: their chunks divide once for all of them. Where
loads and stores have masks, the last chunk of a run is masked at its end, and only short runs are computed by lane, as
without runs. Elsewhere every chunk that crosses an end is.

    runs            ...........+++++++++++++++++++++++++++++++++++++.......
    with masks      |       |  |       |       |       |       |    |
    without         |       |       |       |       |       |       |
                     a run   by lane   three, of one run     by lane
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .... import ops
from ....analysis.polynomial import Poly, Scalars
from ....analysis.runs import Growth, Test
from ....ir import types as T
from ....ir.core import Op, Value, closure
from ....named_tuples import NamedTuple
from ..fuse import uniform_quotients
from ..fuse.affine import form_of
from ..fuse.index import Chunks, Index, source_index
from .scratch import View

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .function import Lowering

LEAST = 8  # runs that are known to be shorter are not looked for


class Runs(NamedTuple):
    """What holds along an axis of a tile within a run.

    `facts`: quotient or remainder -> what it does (uniform_quotients.py), and the axis of it. `tests`: a quotient or
    remainder for each division that may step, and the views between it and the tile. `even`: quotients and remainders
    whose numerators have to be multiples of their divisors, known numbers, where a run begins.
    """

    axis: int
    facts: Mapping[Value, tuple[uniform_quotients.Fact, int]]
    tests: list[Test]
    even: Sequence[Test] = ()

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

    def begins(self, lo: Lowering, idx: Index, n: int) -> Val:
        """An i1: `n` elements from a scalar index on, at least, are a run."""
        return lo.w.binary("and", lo.w.compare("icmp sge", self.length(lo, idx), lo.const(n)), self.is_even(lo, idx))

    def is_even(self, lo: Lowering, idx: Index) -> Val:
        """An i1: the numerators that have to be multiples at a scalar index are."""
        w, total = lo.w, lo.w.const("i1", True)
        for x, path in self.even:
            t, at = T.element(x.type), _behind(lo, path, idx)
            top = lo.const(lo.index_of(lo.ev(x.operands[0], at), t))
            by = form_of(lo, x.operands[1]).base
            total = w.all_of(total, w.compare("icmp sge", top, lo.const(0)),
                             w.compare("icmp eq", lo.const(lo.modulo(top, by)), lo.const(0)))
        return total

    @contextmanager
    def assumed(self, lo: Lowering, start: Val | None = None, end: Val | None = None) -> Iterator[None]:
        """Inside, chunks along the axis are runs, or parts of the one that begins at `start`, up to an `end`."""
        outer = lo.runs, lo.run_start, lo.run_end
        lo.runs, lo.run_start, lo.run_end = self.facts, start, end
        yield
        lo.runs, lo.run_start, lo.run_end = outer


def find(lo: Lowering, pointers: Value, axis: int) -> Runs | None:
    """The runs of a tile of pointers along an axis, in which they are contiguous; None if there are none."""
    form = form_of(lo, pointers)
    if form.pointer is None or not form.loose:
        return None
    with lo.keeping_loaded():
        if lo.fills(pointers):
            return None
    growth = _growth(lo, LEAST)
    if growth.along(form, axis) != 1 or not growth.tests:
        return None
    return Runs(axis, growth.facts, list(growth.tests.values()))


def of_nest(lo: Lowering, roots: Iterable[Value], axis: int, n: int) -> Runs | None:
    """The runs of chunks of `n` lanes along an axis in all quotients that tiles are computed from; None if there are
    none, or if all elements of the quotients are needed."""
    growth = _growth(lo, n)
    for x, along, path in uniform_quotients.quotients(lo, roots, axis):
        growth.quotient(x, along, path)
    found = {x: (along, path) for x, (along, path) in growth.short.items()
             if uniform_quotients.divides(x, n)}
    facts = growth.facts | {x: (uniform_quotients.steps(x), along) for x, (along, _) in found.items()}
    if not growth.tests or any(x in lo.pending or lo.fills(x) for x in facts):
        return None
    return Runs(axis, facts, _shortest(list(growth.tests.values())), [Test(x, path) for x, (_, path) in found.items()])


def have_ends(lo: Lowering, tiles: Iterable[Value], walk: Chunks) -> bool:
    """Whether chunks that are stored may end within their lanes: all that they load has a mask."""
    if lo.target.simd != "avx512" or lo.pending or walk.inner[0] != len(walk.shape) - 1:
        return False
    goes_on = lambda x: lo.computes(x) and x.kind is not ops.reshape \
        and (x.kind.elementwise or x.kind.view or x.kind is ops.load or not x.operands)
    found = closure(tiles, lambda x: x.operands if goes_on(x) else ())
    return all(type(lo.buffers[x]) is not View if x in lo.buffers else type(x.type) is not T.Tile or goes_on(x)
               for x in found)  # fmt: skip


def in_runs(lo: Lowering, found: Runs, walk: Chunks, row: Sequence[int | Val], end: int | Val, carry: Sequence[Val],
            chunk: Callable[[Val, Sequence[Val]], Sequence[Val]], ends: bool) -> list[Val]:
    """A loop over the chunks of a row: `chunk(base, carried)` emits one and returns what it carries to the next. With
    `ends` chunks may end within their lanes."""
    n = walk.width
    sure = all(uniform_quotients.known(lo, x, along, n) == fact for x, (fact, along) in found.facts.items())
    ends = ends and not sure

    def at(base: Val) -> Index:
        return tuple([(i, None) for i, _ in walk.index(lo, row, base)])

    def each(base: Val, carried: Sequence[Val]) -> list[Val]:
        if not ends:
            lo.divisors[base] = n
        return [lo.w.binary("add", base, lo.const(n)), *chunk(base, carried)]
    with lo.loop(0, end, carry=carry) as loop:
        start = loop.index
        lo.w.hide(start)

        def run() -> list[Val]:
            length = lo.w.intrinsic("smin", "i64", found.length(lo, at(start)), lo.sub(lo.const(end), start))
            stop = lo.add(start, length if ends else lo.w.binary("and", length, lo.const(-n)))
            with lo.inside(), found.assumed(lo, start, stop if ends else None), \
                    lo.loop(start, stop, n, (start, *loop.carried), nonempty=True) as inner:
                inner.next = each(inner.index, inner.carried[1:])
            return [stop] if ends else list(inner.results)

        def by_lane() -> list[Val]:
            with lo.inside(), found._replace(facts={}).assumed(lo, end=lo.const(end) if ends else None):
                return each(lo.pinned(start), loop.carried)
        least = n // _MANY if ends else n
        following, *loop.next = run() if sure else lo.either(found.begins(lo, at(start), least), run, by_lane)
        loop.step = lo.sub(following, start)
    return list(loop.results)


_MANY = 4  # as many runs in a chunk are not computed one by one


def _growth(lo: Lowering, least: int) -> Growth:
    return Growth(lambda x: form_of(lo, x), lambda x: x if type(x) is int else None, lambda x: x in lo.buffers, least)


def _shortest(tests: Sequence[Test]) -> list[Test]:
    """Those that others do not follow from: where i // a does not step, i // (a * b) and i % (a * b) // a do not."""
    forms = Scalars()
    tops = [test.value.operands[0] for test in tests]
    sizes = [forms.of(test.value.operands[1]).base for test in tests]

    def follows(k: int) -> bool:
        top, by = tops[k], sizes[k]
        while type(top) is Op and top.kind is ops.rem and _divides(by, forms.of(top.operands[1]).base):
            top = top.operands[0]
        others = [(n, a) for n, a in enumerate(sizes) if n != k and tops[n] is top and _divides(a, by)]
        return any(n < k or tops[k] is not top or not _divides(by, a) for n, a in others)
    return [test for k, test in enumerate(tests) if not follows(k)]


def _divides(a: Poly, b: Poly) -> bool:
    """Whether b is a times something."""
    return len(a.terms) == 1 and bool(b) and not b.divided(a)[1]


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
