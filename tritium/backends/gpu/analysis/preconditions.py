"""Preconditions of a launch that make code unnecessary: boxes are in range of TMA, loops have an iteration.

The start of a box follows from arguments, the grid and iterations of loops, so the launcher can check the bounds of its
coordinates (`ir.bounds`). A kernel with these preconditions has no code for boxes that TMA cannot move, nor for empty
loops or grids of several axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from .... import ops
from ....analysis.polynomial import ITERATION, Poly, in_order
from ....analysis.ranges import Derivations, Rows, assume
from ....ir.core import Module, Op
from ....passes.regions import counts_down
from .affine import Access, Dim, limits

Row: TypeAlias = "tuple[Any, ...]"  # (name, type, operands...), as in `ir.bounds`

_PROGRAM_DEPENDENT = {"program_id", "index", "carried", "between", "any"}  # rows that differ between programs


class Assumptions:
    """Facts about a module that hold at every launch; their preconditions are added to `preconditions`.

    `grid` maps the indices of implicit arguments to the rows of their values. With None for `preconditions`, only
    conditions that hold at every launch are assumed.
    """

    def __init__(self, module: Module, preconditions: list[tuple[Row, ...]] | None, grid: dict[int, Row]):
        self.known, self.preconditions, self.grid = module.found_by(Derivations), preconditions, grid

    def in_range(self, access: Access, from_zero: bool = False, loop: Op | None = None) -> bool:
        """True if TMA moves the box as the language defines in every iteration of `loop`.

        The coordinates of its start must be in range, as they are with ordinary arguments.
        """
        return assume((rows for dim in access.dims for rows in self._terms(dim, from_zero, loop)), self.preconditions)

    def has_iterations(self, loop: Op) -> bool:
        """True if a loop from a constant to a bound that is uniform over programs has an iteration.

        Other loops may be empty for some programs of an ordinary launch, which would then need the slower fallback.
        """
        lo, hi, _ = loop.operands[:3]
        if type(lo) is not Op or lo.kind is not ops.constant or counts_down(loop):
            return False
        rows = Rows(self.known)
        end = rows.place(hi)
        found, after = tuple(map(self._own, rows.out)), len(rows.out)
        if _PROGRAM_DEPENDENT & {name for name, *_ in found}:
            return False
        count = *found, ("constant", "i64", lo.attrs["value"] + 1), ("sub", "i64", end, after)
        return assume([count], self.preconditions)

    def has_one_axis(self) -> bool:
        """True if the grid has one axis: the sizes of the others are 1."""
        y, z = (("num_programs", "i32", axis) for axis in (1, 2))
        return assume([(y, z, ("mul", "i64", 0, 1), ("constant", "i64", 1), ("sub", "i64", 3, 2))], self.preconditions)

    def _terms(self, dim: Dim, from_zero: bool, loop: Op | None) -> Iterator[tuple[Row, ...]]:
        """Rows that must not be negative."""
        least, most = limits(dim, from_zero)
        if dim.start.number is not None and least <= dim.start.number <= most:
            return
        rows = Rows(self.known)
        start = self._place(rows, dim.start, loop)
        found, bound = tuple(map(self._own, rows.out)), len(rows.out)
        yield (*found, ("constant", "i64", least), ("sub", "i64", start, bound))
        yield (*found, ("constant", "i64", most), ("sub", "i64", bound, start))

    def _place(self, rows: Rows, poly: Poly, loop: Op | None) -> int:
        """The index of a polynomial's row."""
        total = rows.add(("constant", "i64", 0))
        for product, factor in poly.terms.items():
            at = rows.add(("constant", "i64", factor))
            for x in in_order(product):
                at = rows.add(("mul", "i64", at, self._iteration(rows, loop) if x is ITERATION else rows.place(x)))
            total = rows.add(("add", "i64", total, at))
        return total

    def _iteration(self, rows: Rows, loop: Op | None) -> int:
        assert loop is not None, "only forms of a loop have ITERATION"
        zero, one = (rows.add(("constant", "i64", k)) for k in (0, 1))
        return rows.add(("carried", "i64", zero, one, *map(rows.place, loop.operands[:3])))

    def _own(self, row: Row) -> Row:
        return self.grid.get(row[2], row) if row[0] == "argument" else row
