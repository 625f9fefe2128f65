"""The table of products: which types a family of AMD GPUs multiplies, and by which instructions."""

from __future__ import annotations

from collections.abc import Mapping

from ....ir import types as T
from ....named_tuples import NamedTuple
from .fragments import Instruction

FNUZ = {T.f8e4b8: "fp8", T.f8e5b16: "bf8"}  # 8-bit floats without negative zero, and their names
OCP = {T.f8e4nv: "fp8", T.f8e5: "bf8"}


class Product(NamedTuple):
    """A row: products of elements `a` and `b`, summed in `out`, at these precisions (all if None)."""

    families: tuple[str, ...]
    a: T.Scalar
    b: T.Scalar
    out: T.Scalar
    precisions: tuple[str, ...] | None
    name: str
    instructions: tuple[Instruction, ...]

    def multiplies(self, family: str, a: T.Tile, b: T.Tile, out: T.Tile, precision: str) -> bool:
        """True if it has an instruction for tiles of these types."""
        kinds = (a.element, b.element, out.element) == (self.a, self.b, self.out)
        return kinds and family in self.families and (self.precisions is None or precision in self.precisions)


def of_8_bit_floats(kinds: Mapping[T.Scalar, str]) -> list[tuple[T.Scalar, T.Scalar, tuple[str, str]]]:
    """(a, b, names of the operands) of every pair; the instruction's first operand is b, see `fragments`.

    >>> [(a, b, *names) for a, b, names in of_8_bit_floats(OCP)][1]
    (f8e4nv, f8e5, 'bf8', 'fp8')
    """
    return [(a, b, (kinds[b], kinds[a])) for a in kinds for b in kinds]
