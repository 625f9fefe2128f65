"""Which loads must be complete before the step that wants them writes.

A step works chunk by chunk: it loads a chunk, computes, stores, and goes on to the next. Block operations act on
whole blocks, so nothing that a chunk stores may be loaded by a later one. That holds where a store writes exactly the
elements its own chunk has loaded (`x[i] = f(x[i])`), and where it writes to another array. Everything else through the
same parameter, or through pointers of unknown origin, is loaded as a whole before the first store.

Pointers derived from different parameters of the kernel are assumed to access disjoint or identical elements (an
element-wise kernel called in place), if the launcher can check that: each such pair of accesses is a precondition
(`analysis.alias`), and a launch that breaks one runs the fallback variant of the kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .... import ops
from ....analysis.alias import MOST_PAIRS, AliasAnalysis
from ....ir import types as T

if TYPE_CHECKING:
    from ....ir.core import Module, Op
    from .fuse_loops import _Fusion
    from .plan import LoopNest


class Assumptions:
    """Preconditions of a kernel: `pairs` of accesses that are disjoint or identical, and rows of values that are
    `nonnegative`. With None for a list, nothing of its kind is assumed."""

    def __init__(self, module: Module, pairs: list | None = None, nonnegative: list | None = None):
        self.module, self.pairs, self.nonnegative, self._known = module, pairs, nonnegative, {}

    @functools.cached_property
    def alias(self) -> AliasAnalysis:
        """The alias analysis of the module."""
        return self.module.found_by(AliasAnalysis)

    def injective(self, a: Op, b: Op) -> bool:
        """Whether accesses through the same pointers, one of which writes, may be assumed to be injective."""
        if type(b.pointer.type) is not T.Tile:
            return True
        found = self.alias.injectivity(a, b)
        if found and self.nonnegative is not None:
            self.nonnegative += [rows for rows in found if rows not in self.nonnegative]
        return found is not None and (not found or self.nonnegative is not None)

    def disjoint(self, a: Op, b: Op, identical: bool) -> bool:
        """Whether accesses through two parameters may be assumed to be disjoint, or, with `identical`, identical."""
        if self.pairs is None:
            return False
        key = a, b, identical
        if key not in self._known:
            x, y = (self.alias.origin(access.pointer) for access in (a, b))
            pair = self.alias.pair(a, b, identical) if x != y and len(self.pairs) < MOST_PAIRS else None
            self._known[key] = pair is not None
            if pair is not None and pair not in self.pairs:
                self.pairs.append(pair)
        return self._known[key]


def reorders(lo: _Fusion, load: Op, nest: LoopNest, moved: bool) -> bool:
    """Whether a loop nest that uses `load` by chunks may overwrite some of its elements before it reads them.

    `moved`: it reads elements at other positions than those that it writes.
    """
    return any(not _keeps_off(lo, load, op, moved) for op in nest.ops if op.kind.writes)


def disjoint(lo: _Fusion, op: Op, others: Iterable[Op]) -> bool:
    """Whether a store may share loops with others: their accesses are identical or disjoint."""
    if op.kind is not ops.store:
        return True
    return all(_keeps_off(lo, other, op, False) for other in others if other.kind is ops.store)


def _keeps_off(lo: _Fusion, a: Op, b: Op, moved: bool) -> bool:
    """Whether no element of one access is hit by another position of the other, which writes."""
    p, q = a.pointer, b.pointer
    if p is q:
        return not moved and lo.assumptions.injective(a, b)
    return lo.assumptions.disjoint(a, b, not moved)


def positionwise(op: Op) -> bool:
    """Whether each element of a lazy op's result is made from the elements of its operands at the same position."""
    return op.kind.positionwise or op.kind is ops.map_
