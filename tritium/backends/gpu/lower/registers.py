"""A tile's registers while it is lowered: written when first asked for, and what is known of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....named_tuples import NamedTuple
from ...llvm.numbering import NumberingWriter


class Affine(NamedTuple):
    """Integers as sums: register r has base[r] + numbers[r] * scale[r], which wraps as they do."""

    base: Sequence[Any]
    numbers: Sequence[int]
    scale: Sequence[Any] | None = None  # None stands for 1
    exact: bool = False  # the sum does not wrap, and is not negative


class Registers(Sequence):
    """A tile's registers, each written when first asked for: of eight neighbouring addresses one may be enough."""

    __slots__ = ("_made", "_make", "_place", "addends", "affine", "depth", "distinct", "loads")

    def __init__(self, count: int, make: Callable[[int], Any], distinct: int | None = None):
        self._made, self._make = [None] * count, make
        self._place: Any = None  # the writer, what its lines are to end in, and the levels they stay behind
        self.depth, self.loads = 1, frozenset()  # how long a chain waits; which loads are waiting in it
        self.distinct = count if distinct is None else min(count, distinct)  # the most values that may differ
        self.addends: tuple = ()  # of addresses: what they are sums of; see `shape.addptr`
        self.affine: Affine | None = None  # of integers

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, r: int | slice) -> Any:
        if type(r) is slice:
            return [self[k] for k in range(*r.indices(len(self._made)))]
        found = self._made[r]
        if found is None:
            found = self._made[r] = self._make(r) if self._place is None else self._make_there(r)
        return found

    def _make_there(self, r: int) -> Any:
        w, *place = self._place
        kept, (w.here, w.floor, w.kept) = (w.here, w.floor, w.kept), place
        found = self._make(r)
        w.here, w.floor, w.kept = kept
        return found

    def come_from(self, w: NumberingWriter) -> None:
        """Have all registers, and the sums they are, written as lines from where the writer is now."""
        self._place = w, w.here, w.floor, w.kept
        for part in self.affine or ():
            if type(part) is Registers and part._place is None:  # or a loop would keep what stands before it
                part.come_from(w)

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self._made)))


def in_pairs(count: int, both: Callable[[int], Sequence[Any]], distinct: int | None = None) -> Registers:
    """Registers that are written two at a time: `both` gives those from an even number on.

    >>> list(in_pairs(4, lambda low: [low, -low]))
    [0, 0, 2, -2]
    """
    made: dict[int, Sequence[Any]] = {}

    def half(r: int) -> Any:
        low = r & ~1
        if low not in made:
            made[low] = both(low)
        return made[low][r & 1]

    return Registers(count, half, distinct)


def distinct_values(registers: Sequence[Any]) -> int:
    """The most values that may differ among a tile's registers.

    >>> distinct_values(["%x", "%x"]), distinct_values(Registers(4, str))
    (1, 4)
    """
    return registers.distinct if type(registers) is Registers else len(set(registers))


def affine_of(registers: Sequence[Any]) -> Affine | None:
    """The sums that a tile's integers are, where it is known.

    >>> affine_of(["%x", "%y"])
    """
    return registers.affine if type(registers) is Registers else None
