"""What a kernel takes for granted of its launches, and whether it holds of one."""

from __future__ import annotations

import ctypes

from ...ir import types as T
from ...passes.ranges import arguments_of, bounds

MOST_REMEMBERED = 1024  # launches


class Terms:
    """Values that must not be negative, as rows of `passes.ranges`.

    The native launcher reads `words`: the number of slots that matter, the grid it was last found to hold for, then
    each slot's number and last value. Only where a launch differs does it ask.

    >>> terms = Terms([(("argument", "i32", 1), ("constant", "i32", 64), ("mul", "i32", 0, 1))])
    >>> slots = (ctypes.c_int64 * 2)(7, 3)
    >>> terms.hold((1, 1, 1), ctypes.addressof(slots)), list(terms.words)
    (True, [1, 1, 1, 1, 1, 3])
    >>> slots[1] = -3
    >>> terms.hold((1, 1, 1), ctypes.addressof(slots))
    False
    """

    def __init__(self, nonnegative):
        self.nonnegative = nonnegative
        self.types = {k: T.SCALARS[t] for rows in nonnegative for k, t in arguments_of(rows).items()}
        self.words = (ctypes.c_int64 * (4 + 2 * len(self.types)))(len(self.types), -1, -1, -1)
        self._known = {}

    @property
    def address(self):
        """Where the words are."""
        return ctypes.addressof(self.words)

    def hold(self, grid, address):
        """Whether they hold of a launch with the slots at an address."""
        slots = [ctypes.c_int64.from_address(address + 8 * k).value for k in self.types]
        key = (*grid, *slots)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            values = {k: _value(t, slot) for (k, t), slot in zip(self.types.items(), slots)}
            found = self._known[key] = all(bounds(rows, values, grid)[0] >= 0 for rows in self.nonnegative)
        if found:
            pairs = [word for pair in zip(self.types, slots) for word in pair]
            self.words[1:] = [*grid, *pairs]
        return found


def _value(t, slot):
    """The integer of type `t` in the low bits of a slot."""
    low = slot & ((1 << t.bits) - 1)
    return low - (1 << t.bits) if t.signed and low >> (t.bits - 1) else low
