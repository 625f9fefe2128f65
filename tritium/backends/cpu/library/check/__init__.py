"""The sanitizer's checks of kernels, in LLVM (see lower/checks.py, which calls them, and checked.py).

    tt.check.span(context, site, program, from, to) -> i1                   whether these bytes need a closer look
    tt.check.rows(context, site, program, address, step, rows, stride, n, mask, mask step, lane)   a tile of them
    tt.check.row(context, site, program, address, stride, n, mask, lane)    n elements `stride` bytes apart
    tt.check.lanes(context, site, program, addresses, n, mask, lane)        n elements, each at its own address
    tt.check.wide(context, site, program, indices, n, mask, lane)           n indices that must fit in 32 bits
    tt.check.release(context, program, address)                             what comes before is known to who acquires
    tt.check.acquire(context, program, address)
    tt.check.barrier(context, program)                                      the lanes of a program have met
    tt.check.wait(context, program)                                         a loop that waits begins
    tt.check.patience(context, site, program) -> i1                         whether a loop may wait on
    tt.check.stored(context, site, program, addresses, values, n, mask, lane)  memory holds something else
    tt.check.multiple(context, site, program, x)                            x is no multiple of what it must be

`mask` has a byte for each lane: those that fail are set to 0. `lane` is the number of the first in the tile. `tables`
describes the context and what it leads to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import lanes, races, regions, reports, rows, scattered, segments, tables
from .tables import CONTEXT, KINDS, PATTERN, RECORD, REGION, SLOTS, flag

if TYPE_CHECKING:
    from ....llvm.target import CpuTarget

__all__ = ["CONTEXT", "KINDS", "MODULES", "PATTERN", "RECORD", "REGION", "SLOTS", "SYMBOLS", "check", "flag"]

SYMBOLS = tuple(f"tt.check.{name}" for name in ("span", "rows", "row", "lanes", "wide", "release", "acquire", "barrier",
                                                "wait", "patience", "stored", "multiple"))  # fmt: skip
_PARTS = (reports, regions, segments, races, lanes, scattered, rows)
MODULES = (tables, *_PARTS)


def check(target: CpuTarget | None) -> str:
    """The text.

    >>> check(None).count("define void @tt.check")
    10
    """
    types = "\n".join(struct.definition for struct in tables.STRUCTS)
    return types + "\n" + tables.named("".join(part.TEXT for part in _PARTS))
