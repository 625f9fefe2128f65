"""Guards that check the preconditions of a kernel (`ir.preconditions`) at each launch.

Whether values are `nonnegative` follows from the grid and the scalar arguments, and so do the dependence distances of
the pointers of `disjoint` accesses. The native launcher caches the last few combinations and compares; it calls Python
only for a launch that matches none of them.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...ir import types as T
from ...ir.bounds import Pair, arguments_of, bounds, dependence_distances, residues
from ..llvm.structs import Struct, resolve

if TYPE_CHECKING:
    from ...ir.preconditions import Preconditions

MOST_REMEMBERED = 1024  # launches
_AT_HAND = 8  # launches in the native launcher's cache
_WORD = (-(1 << 63), (1 << 63) - 1)

# What the native launcher reads, all in words: a head; the indices of the slots; the pairs, each with the slots of its
# equalities after it; the launches in the cache, each a grid, the values of the slots, and the limits of each pair.
_HEAD = Struct(
    "preconditions",
    slots="i64",
    pairs="i64",
    launches="i64",  # in the cache
    begin="i64",  # the word where they begin
)
_PAIR = Struct(
    "pair",
    x="i64",  # the slots of its pointers
    y="i64",
    equalities="i64",  # slot pairs that must be equal for identical accesses; -1 if they never are
)
_LIMITS = Struct(
    "limits",
    least="i64",  # the dependence distances
    most="i64",
    may="i64",  # 1 if the accesses may be identical
    period="i64",  # of the residues (`ir.bounds`), or 0
    first="i64",  # the least residue, no more than the least distance
    more="i64",  # the count of further residues
)
_GRID_WORDS, _HEAD_WORDS, _LIMIT_WORDS = 3, len(_HEAD.fields), len(_LIMITS.fields)


class Guard:
    """Checks the preconditions of a kernel, with a cache of launches that satisfy them.

    The native launcher reads `words`.

    >>> from tritium.ir.preconditions import Preconditions
    >>> rows = ("argument", "i32", 1), ("constant", "i32", 64), ("mul", "i32", 0, 1)
    >>> guard = Guard(Preconditions(nonnegative=(rows,)))
    >>> slots = (ctypes.c_int64 * 2)(7, 3)
    >>> guard.hold((1, 1, 1), ctypes.addressof(slots)), list(guard.words[:9])
    (True, [1, 0, 1, 5, 1, 1, 1, 1, 3])
    >>> slots[1] = -3
    >>> guard.hold((1, 1, 1), ctypes.addressof(slots))
    False
    """

    def __init__(self, preconditions: Preconditions):
        self.nonnegative, (self.distances, pairs) = preconditions.nonnegative, preconditions.disjoint or ((), ())
        self.pairs = [Pair(*pair) for pair in pairs]
        rows = (*self.nonnegative, *self.distances)
        self.types = {k: T.SCALARS[t] for one in rows for k, t in arguments_of(one).items()}
        table = [word for pair in self.pairs for word in _words(pair)]
        begin = _HEAD_WORDS + len(self.types) + len(table)
        self._size = _GRID_WORDS + len(self.types) + _LIMIT_WORDS * len(self.pairs)
        words = [*[0] * _HEAD_WORDS, *self.types, *table, *[0] * (_AT_HAND * self._size)]
        self.words = (ctypes.c_int64 * len(words))(*words)
        self._head = _HEAD.ctype.from_buffer(self.words)
        self._head.slots, self._head.pairs, self._head.begin = len(self.types), len(self.pairs), begin
        self._known, self._next = {}, 0

    @property
    def address(self):
        """The address of the words."""
        return ctypes.addressof(self.words)

    def hold(self, grid: Sequence[int], address: int) -> bool:
        """True if a launch with the slots at an address satisfies them."""
        slot = lambda k: ctypes.c_int64.from_address(address + 8 * k).value
        values = [slot(k) for k in self.types]
        key = (*grid, *values)
        distances = self._known.get(key)
        if distances is None:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            distances = self._known[key] = self._judge(grid, values)
        if distances is False:
            return False
        self._keep(key, distances)
        return all(_fits(pair, slot, *limits) for pair, limits in zip(self.pairs, distances))

    def _judge(self, grid: Sequence[int], values: Sequence[int]) -> Any:
        """The dependence distances of each pair; False if a value is negative that must not be."""
        known = {k: _value(t, x) for (k, t), x in zip(self.types.items(), values)}
        if any(bounds(rows, known, grid)[0] < 0 for rows in self.nonnegative):
            return False
        reached = [bounds(rows, known, grid) for rows in self.distances]
        found = [dependence_distances(pair, reached.__getitem__) for pair in self.pairs]
        return [(*_clipped(least, most), all(reached[k][0] >= 0 for k in pair.injective),
                 *_below(least, residues(pair, reached.__getitem__))) for pair, (least, most) in zip(self.pairs, found)]

    def _keep(self, key: tuple[int, ...], distances: Sequence[tuple[int, ...]]) -> None:
        """Enter a launch into the native launcher's cache, in place of the oldest."""
        entry = [*key, *itertools.chain(*distances)]
        used = [self._head.begin + k * self._size for k in range(self._head.launches)]
        if any(self.words[at:at + len(entry)] == entry for at in used):
            return
        at = self._head.begin + self._next * self._size
        self.words[at:at + len(entry)] = entry
        self._head.launches = max(self._head.launches, self._next + 1)
        self._next = (self._next + 1) % _AT_HAND


def _words(pair: Pair) -> tuple[int, ...]:
    same = () if pair.same is None else pair.same
    return pair.x, pair.y, -1 if pair.same is None else len(same), *itertools.chain(*same)


def _clipped(least: int, most: int) -> tuple[int, int]:
    return max(least, _WORD[0]), min(most, _WORD[1])


def _below(least: int, found: tuple[int, int, int]) -> tuple[int, int, int]:
    """The residues, their least reduced by whole periods to at most `least`; none if that underflows a word."""
    period, first, more = found
    if not period or least - period < _WORD[0]:
        return 0, 0, 0
    return period, least - (least - first) % period, more


def _fits(pair: Pair, slot: Callable[[int], int], least: int, most: int, may: int, period: int, first: int,
          more: int) -> bool:
    """True if the accesses of a pair are disjoint, interleaved, or identical."""
    distance = _value(T.i64, slot(pair.y) - slot(pair.x))
    if not least <= distance <= most or period and (distance - first) % period > more:
        return True
    return distance == 0 and bool(may) and pair.same is not None and all(slot(a) == slot(b) for a, b in pair.same)


def _value(t: T.Scalar, slot: int) -> int:
    """The integer of type `t` in the low bits of a slot."""
    low = slot & ((1 << t.bits) - 1)
    return low - (1 << t.bits) if t.signed and low >> (t.bits - 1) else low


_TEXT = """
; Check a kernel's preconditions. 0: they hold, 1: the launch is not cached, 2: accesses overlap that must not.
define internal i32 @hold(ptr %preconditions, ptr %slots, ptr %grid) nounwind {
start:
  %n, %m, %count, %begin = load slots, pairs, launches, begin of preconditions %preconditions
  %numbers = getelementptr %preconditions, ptr %preconditions, i64 1
  %pairs = getelementptr i64, ptr %numbers, i64 %n
  %all = mul i64 %m, {limits}
  %size = add i64 %n, %all, {grid}
  %gx = load i64, ptr %grid
  %gy = load i64, item i64 1 of %grid
  %gz = load i64, item i64 2 of %grid

; -- the launches that are known: the one with this grid and these values ----------------------------------------------
next:
  %k = phi i64 [0, %start], [%k1, %differs]
  %at = phi i64 [%begin, %start], [%at1, %differs]
  ret i32 1 unless icmp slt i64 %k, %count
compare:
  %e = getelementptr i64, ptr %preconditions, i64 %at
  %ex = load i64, ptr %e
  %ey = load i64, item i64 1 of %e
  %ez = load i64, item i64 2 of %e
  %values = getelementptr i64, ptr %e, i64 3
  %like.x = icmp eq i64 %gx, %ex
  %like.y = icmp eq i64 %gy, %ey
  %like.z = icmp eq i64 %gz, %ez
  jump %differs unless and i1 %like.x, %like.y, %like.z
value:
  %j = phi i64 [0, %compare], [%j1, %one_value]
  jump %found unless icmp slt i64 %j, %n
one_value:
  %j1 = add i64 %j, 1
  %number = load i64, item i64 %j of %numbers
  %now = load i64, item i64 %number of %slots
  %then = load i64, item i64 %j of %values
  jump %value if icmp eq i64 %now, %then
differs:
  %k1 = add i64 %k, 1
  %at1 = add i64 %at, %size
  br label %next

; -- the pairs: the distance of two pointers is no dependence distance, or the accesses are identical ------------------
found:
  %limits = getelementptr i64, ptr %values, i64 %n
pair:
  %i = phi i64 [0, %found], [%i1, %passed]
  %p = phi ptr [%pairs, %found], [%p1, %passed]
  ret i32 0 unless icmp slt i64 %i, %all
  %i1 = add i64 %i, {limits}
  %x.i = load i64, field pair.x of %p
  %x = load i64, item i64 %x.i of %slots
  %y.i = load i64, field pair.y of %p
  %y = load i64, item i64 %y.i of %slots
  %c = load i64, field pair.equalities of %p
  %equals = getelementptr %pair, ptr %p, i64 1
  %distance = sub i64 %y, %x
  %own = getelementptr i64, ptr %limits, i64 %i
  %least, %most = load least, most of limits %own
  %after = icmp sge i64 %distance, %least
  %before = icmp sle i64 %distance, %most
  jump %passed unless and i1 %after, %before
  %period = load i64, field limits.period of %own
  jump %step unless icmp ne i64 %period, 0
  %first, %more = load first, more of limits %own
  %since = sub i64 %distance, %first
  %residue = urem i64 %since, %period
  jump %passed if icmp ugt i64 %residue, %more
step:
  %together = icmp eq i64 %distance, 0
  %may.w = load i64, field limits.may of %own
  %may = icmp ne i64 %may.w, 0
  %ever = icmp sge i64 %c, 0
  jump %unfit unless and i1 %may, %ever, %together
equality:
  %t = phi i64 [0, %step], [%t1, %one_equality]
  jump %passed unless icmp slt i64 %t, %c
one_equality:
  %t1 = add i64 %t, 1
  %a.at = shl i64 %t, 1
  %a.w = getelementptr i64, ptr %equals, i64 %a.at
  %a.i = load i64, ptr %a.w
  %b.i = load i64, item i64 1 of %a.w
  %a = load i64, item i64 %a.i of %slots
  %b = load i64, item i64 %b.i of %slots
  jump %equality if icmp eq i64 %a, %b else %unfit
passed:
  %some = icmp sgt i64 %c, 0
  %skip.c = select i1 %some, i64 %c, i64 0
  %skip = shl i64 %skip.c, 1
  %p1 = getelementptr i64, ptr %equals, i64 %skip
  br label %pair

unfit:
  ret i32 2
}
"""


def text() -> str:
    """The LLVM text that checks preconditions.

    >>> text().count("define internal i32 @hold(")
    1
    """
    structs = (_HEAD, _PAIR, _LIMITS)
    body = _TEXT.replace("{limits}", str(_LIMIT_WORDS)).replace("{grid}", str(_GRID_WORDS))
    return resolve("\n".join((*(struct.definition for struct in structs), body)), *structs)
