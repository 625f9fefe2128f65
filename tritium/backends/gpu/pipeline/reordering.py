"""Legality of reordering: whether a load may be hoisted above the stores of earlier iterations."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ....analysis.alias import MOST_PAIRS, AliasAnalysis
from ....ir.bounds import Pair
from ....ir.core import Module, Op
from ....passes.assumed import Assumed


class Reordering:
    """Legality of hoisting loads of a module above stores; `pairs` are those assumed not to alias. `before` maps ops of
    a rewritten module to those of this one."""

    def __init__(self, module: Module, pairs: list[Pair], before: Mapping[Op, Op]):
        self.module, self.pairs, self.before, self._known = module, pairs, before, {}

    @staticmethod
    def of(module: Module, assumed: Assumed, before: Mapping[Op, Op] | None = None) -> Reordering | None:
        """As a pass may assume (`passes.assumed`); None if no launcher checks that accesses do not alias."""
        return None if assumed.pairs is None else Reordering(module, assumed.pairs, before or {})

    @functools.cached_property
    def alias(self) -> AliasAnalysis:
        """The alias analysis of the module."""
        return self.module.found_by(AliasAnalysis)

    def pair(self, load: Op, store: Op, loop: Op | None) -> Pair | None:
        """The pair of a load and a store in a loop that must not alias; None if no launcher can check it."""
        load, store = (self.before.get(op, op) for op in (load, store))
        loop = None if loop is None else self.before.get(loop, loop)
        if (load, store) not in self._known:
            x, y = (self.alias.origin(op.pointer) for op in (load, store))
            pair = None if x == y else self.alias.pair(load, store, False, loop)
            self._known[load, store] = pair
        return self._known[load, store]

    def hoisted(self, load: Op, store: Op, loop: Op) -> Pair | None:
        """As `pair`, for a load that is hoisted above a store of a loop.

        If their extents are unknown, as with offsets that are loaded, the launcher checks only that the two pointers
        differ: the kernel must not load what it stored by another pointer (docs/language-differences.md).
        """
        found = self.pair(load, store, loop)
        return found or self.alias.pair_by_pointers(*(self.before.get(op, op) for op in (load, store)))

    def take(self, pairs: tuple[Pair, ...]) -> bool:
        """Assume that these pairs do not alias; False if there are too many to check."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.pairs]
        if len(self.pairs) + len(new) > MOST_PAIRS:
            return False
        self.pairs += new
        return True
