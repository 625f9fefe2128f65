"""Predication: masks of chunks as bounds on the lanes.

A comparison of affine indices changes once along the lanes, so a mask is a range of lanes: one scalar comparison,
`i + 16 <= n`, tells that all lanes are active. Uniform terms become one condition; only the remaining ones become a
vector of bits.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from .... import ops
from ....analysis.affine import Form, Loose, strides_behind
from ....ir import types as T
from ....ir.core import Op, Value
from ....passes.simplify import number
from ...llvm.writer import Val, lanes
from ..fuse.affine import form_of, loose_index
from ..fuse.index import Index, iota, source_index, width_of
from ..fuse.uniform_quotients import counting

if TYPE_CHECKING:
    from .function import Lowering


class Mask:
    """The active lanes of a chunk: those in [low, high) (i64 indices; the first lane's is `base`), if `condition` holds
    and where `each` (a vector) is set. None means no restriction."""

    def __init__(self, n: int):
        self.n = n
        self.base: Any = 0
        self.condition: Any = None  # values of the kernel, or None
        self.low: Any = None
        self.high: Any = None
        self.each: Any = None

    @property
    def bounded(self) -> bool:
        """Whether `base` is used."""
        return self.low is not None or self.high is not None

    @property
    def in_lanes(self) -> bool:
        """Whether lanes differ."""
        return self.bounded or self.each is not None

    def all_lanes(self, lo: Lowering) -> Any:
        """An i1: all lanes are active (None: always)."""
        w, tests = lo.w, []
        high = self.high
        if high is not None and self.condition is not None:  # one test instead of two in the inner loop
            high = w.select(self.condition, lo.const(high), lo.const(0))
        elif self.condition is not None:
            tests.append(self.condition)
        if high is not None:
            tests.append(w.compare("icmp sle", lo.const(lo.add(self.base, self.n)), lo.const(high)))
        if self.low is not None:
            tests.append(w.compare("icmp sge", lo.const(self.base), lo.const(self.low)))
        if self.each is not None:
            tests.append(w.intrinsic("vector.reduce.and", "i1", self.each, overload=(self.each.type,)))
        return w.all_of(*tests)

    def bits(self, lo: Lowering, partial: bool = False) -> Val:
        """An i64 with a bit for each active lane; `partial` asserts that not all are active."""
        w, n = lo.w, self.n
        base = lo.pinned(self.base)
        one, bits = lo.const(1), lo.const((1 << n) - 1)
        only = partial and self.low is None and self.each is None and self.condition is None

        def below(limit: int | Val) -> Val:
            left = w.intrinsic("smax", "i64", w.binary("sub", lo.const(limit), base), lo.const(0))
            left = left if only else w.intrinsic("smin", "i64", left, lo.const(n))  # else the bound is in the chunk
            return w.binary("sub", w.binary("shl", one, left), one)
        if self.high is not None:
            bits = below(self.high)
        if self.low is not None:
            bits = w.binary("and", bits, w.binary("xor", below(self.low), lo.const(-1)))
        if self.each is not None:
            packed = w.effect(f"bitcast {self.each.typed} to i{n}", f"i{n}")  # not hoisted: it is costly
            bits = w.binary("and", bits, w.cast("zext", packed, "i64"))
        if self.condition is not None:
            bits = w.select(self.condition, bits, lo.const(0))
        return bits

    def end(self, lo: Lowering) -> Val | None:
        """The index (i64) below which all lanes are active, and from which none is; None for other masks."""
        if self.high is None or self.low is not None or self.each is not None:
            return None
        high = lo.const(self.high)
        return high if self.condition is None else lo.w.select(self.condition, high, lo.const(0))

    def count(self, lo: Lowering) -> Val | None:
        """The number of active lanes (i64; negative: none) if they are the first ones; None for other masks."""
        end = self.end(lo)
        return None if end is None else lo.w.effect(f"sub i64 {end}, {lo.const(self.base)}", "i64")

    def clipped(self, lo: Lowering, start: Val, stop: Val) -> tuple[Val, Val]:
        """The part of an interval of indices that is active; empty if none is. Lanes must not differ by `each`."""
        w, low, high = lo.w, start, stop
        if self.low is not None:
            low = w.intrinsic("smin", "i64", w.intrinsic("smax", "i64", lo.const(self.low), start), stop)
        if self.high is not None:
            high = w.intrinsic("smax", "i64", w.intrinsic("smin", "i64", lo.const(self.high), stop), low)
        return low, high if self.condition is None else w.select(self.condition, high, low)

    def lanes(self, lo: Lowering) -> Val:
        """A vector of i1."""
        w, n = lo.w, self.n
        total = self.each
        places = w.lanes_of("i32", range(n))
        for limit, test in ((self.high, "icmp slt"), (self.low, "icmp sge")):
            if limit is not None:
                left = w.intrinsic("smax", "i64", lo.const(lo.sub(limit, self.base)), lo.const(0))
                left = w.cast("trunc", w.intrinsic("smin", "i64", left, lo.const(n)), "i32")
                if limit is self.high and self.condition is not None:
                    left = w.select(self.condition, left, w.const("i32", 0))
                total = w.all_of(total, w.compare(test, places, lo.widen(left, n)))
        return w.all_of(total, None if self.condition is None or self.high is not None else lo.widen(self.condition, n))

    def pinned(self, lo: Lowering):
        """The same mask, pinned: code that uses it stays in the innermost level."""
        mask = copy.copy(self)
        mask.base = lo.pinned(self.base)
        return mask

    def level(self):
        """The deepest level of its parts."""
        parts = (self.base, self.condition, self.low, self.high, self.each)
        return max([x.level for x in parts if type(x) is Val], default=0)


def mask_of(lo: Lowering, m: Value | None, idx: Index, ends: bool = False) -> Mask | None:
    """The mask at an index; None if all lanes are active. With `ends` chunks end with their run."""
    mask = Mask(width_of(idx))
    if ends and lo.run_end is not None and mask.n > 1:
        mask.base, mask.high = next(base for base, lane in idx if lane is not None), lo.run_end
    if m is not None:
        _restrict(lo, mask, m, idx)
    return mask if mask.in_lanes or mask.condition is not None else None


_COMPARE = {ops.lt: (0, 1, 0), ops.le: (0, 1, 1), ops.gt: (1, 0, 0), ops.ge: (1, 0, 1)}  # x < y + c


def _is_view(m: Value) -> TypeGuard[Op]:
    """Whether a mask is a view of a tile."""
    return type(m) is Op and m.kind.view and m.kind is not ops.splat


def _restrict(lo: Lowering, mask: Mask, m: Value, idx: Index) -> None:
    while m not in lo.assumed and type(m.type) is T.Tile and _is_view(m) and m not in lo.buffers:
        idx = source_index(lo, m, idx)
        m = m.operands[0]
    if m in lo.assumed:
        return
    if type(m) is Op and type(m.type) is T.Tile and m not in lo.buffers:
        if m.kind is ops.and_ and lo.by_lane:
            _restrict_by_lane(lo, mask, m, idx)
            return
        if m.kind is ops.and_:
            for x in m.operands:
                _restrict(lo, mask, x, idx)
            return
        if m.kind in _COMPARE and not lo.by_lane and _bound(lo, mask, m, idx):
            return
    if lo.run_start is not None and m in lo.buffers and _is_steady(lo, m, idx):
        idx = tuple([(base if lane is None else lo.run_start, None) for base, lane in idx])
    _add(lo, mask, lo.ev(m, idx))


def _restrict_by_lane(lo: Lowering, mask: Mask, m: Op, idx: Index) -> None:
    """Add a conjunction. A window, 0 <= x < n, is one comparison without signs: nothing is in it if n is negative.
    Windows of lanes come last: the first one is empty where a condition is false."""
    def terms(x: Value) -> list[Value]:
        if type(x) is Op and x.kind is ops.and_ and x not in lo.buffers and x not in lo.assumed:
            return [z for y in x.operands for z in terms(y)]
        return [x]

    found = terms(m)
    begins = {x: x.operands[0] for x in found if _compares(x, ops.ge, lo) and number(x.operands[1]) == 0}
    ends = {x: x.operands[0] for x in found if _compares(x, ops.lt, lo) and x.operands[0] in begins.values()}
    used = {*ends, *[x for x, at in begins.items() if at in ends.values()]}
    for x in found:
        if x not in used:
            _restrict(lo, mask, x, idx)
    windows = [[lo.ev(y, idx) for y in x.operands] for x in ends]
    for at, n in sorted(windows, key=lambda window: lanes(window[0].type)):
        n = lo.w.intrinsic("smax", n.type, n, lo.w.const(n.type, 0))
        if mask.condition is not None and lanes(at.type) > lanes(n.type):
            n, mask.condition = lo.w.select(mask.condition, n, lo.w.const(n.type, 0)), None
        _add(lo, mask, lo.w.compare("icmp ult", *lo.spread((at, n))))


def _compares(x: Value, kind: Any, lo: Lowering) -> TypeGuard[Op]:
    """Whether a term of a mask is a comparison of signed integers."""
    if type(x) is not Op or x.kind is not kind or x in lo.buffers or x in lo.assumed:
        return False
    t = T.element(x.operands[0].type)
    return type(t) is T.Scalar and t.signed


def _add(lo: Lowering, mask: Mask, x: Val) -> None:
    """Add a condition, of all lanes or of each. Those outside the loop in which lanes end are tested there."""
    if x == "true":
        return
    if lanes(x.type) > 1:
        mask.each = lo.w.all_of(mask.each, x)
    elif lo.by_lane and mask.high is not None and x.level <= getattr(mask.base, "level", 0):
        mask.high = lo.w.select(x, lo.const(mask.high), lo.const(0))
    else:
        mask.condition = lo.w.all_of(mask.condition, x)


def _is_steady(lo: Lowering, x: Value, idx: Index) -> bool:
    """Whether an element is the same in all lanes because its quotients are, within a run."""
    if width_of(idx) == 1:
        return True
    if type(x) is not Op or x in lo.runs:
        return x in lo.runs and lo.runs[x][0] == "constancy"
    if x.kind.view:
        return _is_steady(lo, x.operands[0], source_index(lo, x, idx))
    return x.kind.elementwise and all(_is_steady(lo, y, idx) for y in x.operands)


def _bound(lo: Lowering, mask: Mask, m: Op, idx: Index) -> bool:
    """Add a comparison that changes once along the lanes as a bound; False if it is not one."""
    t = T.element(m.operands[0].type)
    if type(t) is T.Ptr or not t.signed:
        return False
    left, right, extra = _COMPARE[m.kind]
    x, y = form_of(lo, m.operands[left]), form_of(lo, m.operands[right])
    along, at = 0, None
    for (base, lane), a, b in zip(idx, x.strides, y.strides, strict=True):
        if lane is None or a == b:
            continue
        if type(a) is not int or type(b) is not int or at is not None or lane is not iota(len(lane.offsets)):
            return False
        along, at = a - b, base
    counted = _counted(lo, x, y, idx) if lo.runs else {}
    for (sign, loose), _ in counted.items():
        along += sign * loose.scale
        at = next(base for base, lane in idx if lane is not None)
    if along not in (1, -1) or mask.bounded and mask.base != at:
        return False
    limit = lo.sub(lo.add(y.base, extra), x.base)  # along * i < limit
    for (base, lane), a, b in zip(idx, x.strides, y.strides, strict=True):
        if lane is None:
            limit = lo.add(limit, lo.mul(base, lo.sub(b, a)))
    for sign, form in ((-1, x), (1, y)):
        for loose in form.loose:
            if (-sign, loose) in counted:
                start = lo.index_of(counted[-sign, loose], T.element(loose.value.type))
                limit = lo.add(limit, lo.mul(lo.sub(start, at), lo.mul(loose.scale, sign)))
                continue
            value = lo.index_of(lo.ev(loose.value, loose_index(lo, loose, idx)), T.element(loose.value.type))
            if type(value) is Val and lanes(value.type) > 1:
                return False
            limit = lo.add(limit, lo.mul(value, lo.mul(loose.scale, sign)))
    mask.base = at
    if along == 1:
        _tighten(lo, mask, "high", limit, "smin")
    else:
        _tighten(lo, mask, "low", lo.sub(1, limit), "smax")
    return True


def _counted(lo: Lowering, x: Form, y: Form, idx: Index) -> dict[tuple[int, Loose], Val]:
    """The loose terms of x (1) and y (-1) that count along the lanes of a run, and their first elements."""
    found = {}
    for sign, form in ((1, x), (-1, y)):
        for loose in form.loose:
            first = counting(lo, loose.value, loose_index(lo, loose, idx)) if type(loose.scale) is int else None
            if first is not None:
                found[sign, loose] = lo.ev(loose.value, first)
    return found


def _tighten(lo: Lowering, mask: Mask, bound: str, limit: int | Val, pick: str) -> None:
    old = getattr(mask, bound)
    if old is not None:
        limit = lo.w.intrinsic(pick, "i64", lo.const(old), lo.const(limit))
    setattr(mask, bound, limit)


# --- tiles ---------------------------------------------------------------------------------------------------
def tile_inside(lo: Lowering, masks: Iterable[Value]) -> Val | None:
    """An i1: these masks are true everywhere. None if that does not follow from the corners where they fail first."""
    tests = []
    for m, _ in [term for mask in masks for term in _terms(mask)]:
        found = _difference(lo, m)
        if found is None:
            return None
        strides, x, y = found
        reach = sum(s * (n - 1) for s, n in zip(strides, T.shape(m.type), strict=True) if s > 0)
        tests.append(lo.w.compare("icmp slt", lo.const(lo.add(x, reach)), lo.const(y)))
    return lo.w.all_of(*tests)


def _terms(m: Value, path: tuple[Op, ...] = ()) -> list[tuple[Value, tuple[Op, ...]]]:
    """(term, the views between it and the mask) for all terms of which a mask is the conjunction."""
    while _is_view(m):
        path, m = (*path, m), m.operands[0]
    if type(m) is Op and m.kind is ops.and_:
        return [term for x in m.operands for term in _terms(x, path)]
    return [(m, path)]


def _difference(lo: Lowering, m: Value) -> tuple[list[int], Any, Any] | None:
    """(strides, x, y) of a comparison that holds where x + sum(strides * index) < y; None for other masks."""
    if type(m) is not Op or m.kind not in _COMPARE:
        return None
    t = T.element(m.operands[0].type)
    if type(t) is T.Ptr or not t.signed:
        return None
    left, right, extra = _COMPARE[m.kind]
    x, y = form_of(lo, m.operands[left]), form_of(lo, m.operands[right])
    strides = [lo.sub(a, b) for a, b in zip(x.strides, y.strides, strict=True)]
    if x.loose or y.loose or any(type(s) is not int for s in strides):
        return None
    return strides, lo.add(x.base, -extra), y.base


def limits(lo: Lowering, m: Value | None, shape: Sequence[int]) -> list | None:
    """The upper bound of the index along each axis where mask `m` is true (the size if unrestricted); None if the mask
    is not a box."""
    found: list[Any] = [None] * len(shape)
    for term, path in () if m is None else _terms(m):
        bound = _limit(lo, term, path)
        if bound is None:
            return None
        axis, limit = bound
        found[axis] = limit if found[axis] is None else _least(lo, found[axis], limit)
    return [size if limit is None else limit for size, limit in zip(shape, found, strict=True)]


def split_along(lo: Lowering, m: Value, axis: int) -> tuple[int | Val | None, list[Value]]:
    """(an upper bound of the index along an axis where mask `m` is true, whatever the other indices are, or None; the
    other terms of the mask): `m` is true where all of these are, up to the end."""
    (end, *_), others = split_off(lo, m, (axis,))
    return end, others


def terms_along(lo: Lowering, m: Value, axis: int) -> set[Value]:
    """The terms of mask `m` that are true up to an index along an axis, whatever the other indices are."""
    return {term for term, _ in _terms(m)} - {*split_along(lo, m, axis)[1]}


def split_off(lo: Lowering, m: Value, axes: Sequence[int]) -> tuple[list[int | Val | None], list[Value]]:
    """The same for several axes at once."""
    ends: list[list[int | Val]] = [[] for _ in axes]
    others: list[Value] = []
    for term, path in reversed(_terms(m)):
        bound = _limit(lo, term, path)
        if bound is not None and bound[0] in axes:
            ends[axes.index(bound[0])].append(bound[1])
        else:
            others.append(term)
    return [functools.reduce(functools.partial(_least, lo), found) if found else None for found in ends], others


def _least(lo: Lowering, x: int | Val, y: int | Val) -> Val:
    return lo.w.intrinsic("smin", "i64", lo.const(x), lo.const(y))


def _limit(lo: Lowering, m: Value, path: tuple[Op, ...]) -> tuple[int, int | Val] | None:
    """(axis, upper bound of the index along it) where a term of a mask is true; None for other terms."""
    difference = _difference(lo, m)
    if difference is None:
        return None
    inner, x, y = difference
    strides = strides_behind(path, inner)
    moved = [] if strides is None else [(axis, s) for axis, s in enumerate(strides) if s]
    if len(moved) != 1 or moved[0][1] != 1:
        return None
    return moved[0][0], lo.sub(y, x)
