"""Assume of tensors with descriptors what decides how wide they are touched: rows end where an access of 16 bytes does.

    kernel @f(%d_shape_1: i32 {likely_divisible=8})      ->      kernel @f(%d_shape_1: i32 {divisible=8})

Integers are specialized for multiples of 16, the sizes of a descriptor are not. The lanes of an access that TMA does
not make are masked one by one where a size is unknown, so each is an access of its own. The launcher checks the sizes;
a kernel without such accesses has no use for the precondition.
"""

from __future__ import annotations

from ....analysis.ranges import Derivations, Rows, assume
from ....ir.core import Arg, Module
from ....passes.assumed import Assumed
from ....passes.promise_arguments import promised


def assume_sizes(module: Module) -> Module:
    """Take arguments for multiples of what they are likely to be.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%n: i32 {likely_divisible=8}) {launch_checks=True} { }")
    >>> print(str(assume_sizes(m)).partition(" {launch")[0])
    kernel @f(%n: i32 {likely_divisible=8, divisible=8})
    """
    assumed = Assumed(module)
    if assumed.nonnegative is None:
        return module
    known = module.found_by(Derivations)
    divisors = [_divisor(arg, known, assumed.nonnegative) for arg in module.args]
    made = promised(module, divisors)
    return module if made is module else assumed.stated_by(made)


def _divisor(arg: Arg, known: Derivations, preconditions: list) -> int:
    """What the launcher makes sure that an argument is a multiple of."""
    told, likely = arg.attrs.get("divisible", 1), arg.attrs.get("likely_divisible", 1)
    if told % likely == 0:
        return told
    rows = Rows(known)
    x, n = rows.place(arg), rows.add(("constant", "i64", likely))
    rows.add(("sub", "i64", rows.add(("mul", "i64", rows.add(("div", "i64", x, n)), n)), x))  # x / n * n - x >= 0
    return likely if assume([tuple(rows.out)], preconditions) else told
