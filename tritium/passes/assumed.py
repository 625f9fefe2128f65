"""The preconditions that a pass adds to a module's (`ir.preconditions`)."""

from __future__ import annotations

from ..ir.bounds import Pair
from ..ir.preconditions import preconditions_of, with_preconditions

__all__ = ["Assumed", "packed", "unpacked"]


class Assumed:
    """The preconditions of a module as lists that a pass adds to; None instead of a list where no launcher checks them.

    `pairs` are accesses that do not alias. Blocks of a cluster run beside each other, so their accesses are no pairs.

    >>> from tritium.ir.text import parse_module
    >>> module = parse_module("kernel @f(%n: i32) {launch_checks=True} { }")
    >>> assumed = Assumed(module)
    >>> assumed.nonnegative.append((("argument", "i32", 0),))
    >>> print(assumed.stated_by(module), end="")
    kernel @f(%n: i32) {launch_checks=True, preconditions={nonnegative=((("argument", "i32", 0),),)}} {
    }
    """

    def __init__(self, module):
        checked, known = module.attrs.get("launch_checks", False), preconditions_of(module)
        self.nonnegative = list(known.nonnegative) if checked else None
        self.pairs = unpacked(known.disjoint) if checked and module.attrs.get("num_ctas", 1) == 1 else None

    def stated_by(self, module):
        """The module with these preconditions; the same module if it states them already."""
        if self.nonnegative:
            module = with_preconditions(module, nonnegative=self.nonnegative)
        return with_preconditions(module, disjoint=packed(self.pairs)) if self.pairs else module


def packed(pairs):
    """Pairs as metadata of a kernel: (unique lists of rows; pairs whose views are indices into these).

    >>> packed([Pair(0, 1, (4, 4), (), (("some rows", "some rows"),))])
    (('some rows',), (Pair(x=0, y=1, sizes=(4, 4), same=(), views=((0, 0),), injective=(), period=()),))
    """
    table = {}
    out = _replaced(pairs, lambda rows: table.setdefault(rows, len(table)))
    return tuple(table), out


def unpacked(found):
    """The list of pairs that `packed` made this of.

    >>> pairs = [Pair(0, 1, (4, 4), (), (("some rows", "others"),))]
    >>> unpacked(packed(pairs)) == pairs, unpacked(())
    (True, [])
    """
    rows, pairs = found or ((), ())
    return list(_replaced([Pair(*pair) for pair in pairs], rows.__getitem__))


def _replaced(pairs, of):
    """The pairs with each list of rows, or its index, replaced by what a function returns for it."""
    return tuple(pair._replace(views=tuple(tuple(map(of, view)) for view in pair.views),
                               injective=tuple(map(of, pair.injective)),
                               period=(*pair.period[:1], *map(of, pair.period[1:]))) for pair in pairs)  # fmt: skip
