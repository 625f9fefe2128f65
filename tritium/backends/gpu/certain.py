"""Boxes that the copy engine surely reaches: at every launch that the launcher lets through.

Where a box starts follows from arguments, the grid and rounds of loops, so the bounds of its coordinates can be asked
of a launch (`ir.bounds`). A kernel that takes them for granted needs no code for boxes the engine cannot move.
"""

from __future__ import annotations

from ...passes.ranges import Derivations, Rows, likely
from .engine import limits
from .polynomial import ROUND

__all__ = ["Certain"]


class Certain:
    """What is certain of the boxes of a module; what that takes for granted is added to `taken`.

    `grid` tells which arguments of the module are none of the user's: their number -> the row that stands for it. With
    no list to add to, nothing is certain.
    """

    def __init__(self, module, taken, grid):
        self.known, self.taken, self.grid = Derivations(module), taken, grid

    def reaches(self, access, from_zero=False, loop=None):
        """True if the engine moves what the language says wherever the box lies; `loop` is the one that rounds count.

        So it does if the coordinates of its start keep within limits, as they do with ordinary arguments.
        """
        if self.taken is None:
            return False
        terms = [rows for side in access.sides for rows in self._terms(side, from_zero, loop)]
        if not all(map(likely, terms)):
            return False
        self.taken += [rows for rows in dict.fromkeys(terms) if rows not in self.taken]
        return True

    def _terms(self, side, from_zero, loop):
        """Rows of what must not be negative."""
        least, most = limits(side, from_zero)
        if side.start.number is not None and least <= side.start.number <= most:
            return
        rows = Rows(self.known)
        start = self._place(rows, side.start, loop)
        found, bound = tuple(map(self._own, rows.out)), len(rows.out)
        yield (*found, ("constant", "i64", least), ("sub", "i64", start, bound))
        yield (*found, ("constant", "i64", most), ("sub", "i64", bound, start))

    def _place(self, rows, poly, loop):
        """The number of a polynomial's row."""
        total = rows.add(("constant", "i64", 0))
        for product, factor in poly.terms.items():
            at = rows.add(("constant", "i64", factor))
            for x in product:
                at = rows.add(("mul", "i64", at, self._round(rows, loop) if x is ROUND else rows.place(x)))
            total = rows.add(("add", "i64", total, at))
        return total

    def _round(self, rows, loop):
        zero, one = (rows.add(("constant", "i64", k)) for k in (0, 1))
        return rows.add(("carried", "i64", zero, one, *map(rows.place, loop.operands[:3])))

    def _own(self, row):
        return self.grid.get(row[2], row) if row[0] == "argument" else row
