"""Which tiles are computed again at each use, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ....ir import types as T
from ....ir.core import Arg, Op, Value
from ..ops import bytes_of
from .rules import simple


@dataclass(frozen=True, eq=False)
class Rematerialization:
    """Costs that are known, and the loop parameters whose layout depends on the loop's body (`undecided`)."""

    undecided: set[Value] = field(default_factory=set)
    known: dict[Op, int | None] = field(default_factory=dict)

    def cost(self, x: Value) -> int | None:
        """Bytes of the anchored tiles that a tile is broadcast from, 0 if it is free (ranges, splats, integer and
        simple arithmetic); None if it is anchored itself."""
        if type(x.type) is not T.Tile:
            return 0
        if type(x) is not Op:
            return 0 if x in self.undecided else None
        if x not in self.known:
            self.known[x] = self._cost(x) if simple(x) else None
        return self.known[x]

    def _cost(self, x: Op) -> int | None:
        broadcasts, total = x.kind.broadcasts, 0  # converting the operand is never worse than the result
        for y in x.operands:
            below = self.cost(y)
            if below is None:
                if not broadcasts:
                    return None
                below = bytes_of(y.type)
            total += below
        return total if broadcasts or total <= bytes_of(x.type) else None

    def leave_open(self, args: Iterable[Arg]) -> None:
        """The layouts of these loop parameters are to be chosen: forget costs that took them for given."""
        self.undecided.update(args)
        self.known.clear()

    def decide(self, args: Iterable[Arg]) -> None:
        """The layouts of these loop parameters are chosen: forget costs that were computed before."""
        self.undecided.difference_update(args)
        self.known.clear()
