"""What is certain at every launch that the launcher lets through: boxes are within reach, loops have rounds.

Where a box starts follows from arguments, the grid and rounds of loops, so the bounds of its coordinates can be asked
of a launch (`ir.bounds`). A kernel that takes them for granted needs no code for boxes the engine cannot move, nor for
loops without a round or grids of several axes.
"""

from __future__ import annotations

from .... import ops
from ....ir.core import Op
from ....passes.ranges import Derivations, Rows, granted
from ....passes.regions import counts_down
from .affine import limits
from .polynomial import ITERATION, in_order

__all__ = ["Certain"]

_OF_A_PROGRAM = {"program_id", "index", "carried", "between", "any"}  # rows of what programs may differ in


class Certain:
    """What is certain of a module; what that takes for granted is added to `taken`.

    `grid` tells which arguments of the module are none of the user's: their number -> the row that stands for it. With
    no list to add to, only what holds of every launch is certain.
    """

    def __init__(self, module, taken, grid):
        self.known, self.taken, self.grid = Derivations(module), taken, grid

    def reaches(self, access, from_zero=False, loop=None):
        """True if the engine moves what the language says wherever the box lies; `loop` is the one that rounds count.

        So it does if the coordinates of its start keep within limits, as they do with ordinary arguments.
        """
        return granted((rows for side in access.sides for rows in self._terms(side, from_zero, loop)), self.taken)

    def goes_round(self, loop):
        """True if a loop has a round: one from a constant to a number that is the same for all programs.

        Others may be empty for some programs of an ordinary launch, which were then left to another, slower kernel.
        """
        lo, hi, _ = loop.operands[:3]
        if type(lo) is not Op or lo.kind is not ops.constant or counts_down(loop):
            return False
        rows = Rows(self.known)
        end = rows.place(hi)
        found, after = tuple(map(self._own, rows.out)), len(rows.out)
        if _OF_A_PROGRAM & {name for name, *_ in found}:
            return False
        rounds = *found, ("constant", "i64", lo.attrs["value"] + 1), ("sub", "i64", end, after)
        return granted([rounds], self.taken)

    def has_one_axis(self):
        """True if the grid has one axis: the others have one program each."""
        y, z = (("num_programs", "i32", axis) for axis in (1, 2))
        return granted([(y, z, ("mul", "i64", 0, 1), ("constant", "i64", 1), ("sub", "i64", 3, 2))], self.taken)

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
            for x in in_order(product):
                at = rows.add(("mul", "i64", at, self._round(rows, loop) if x is ITERATION else rows.place(x)))
            total = rows.add(("add", "i64", total, at))
        return total

    def _round(self, rows, loop):
        zero, one = (rows.add(("constant", "i64", k)) for k in (0, 1))
        return rows.add(("carried", "i64", zero, one, *map(rows.place, loop.operands[:3])))

    def _own(self, row):
        return self.grid.get(row[2], row) if row[0] == "argument" else row
