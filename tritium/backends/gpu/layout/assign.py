"""Assign a layout to every tile, so that memory accesses are wide and coalesced and few bytes change threads.

`choose` finds the layout in which each tile is computed, its anchor; `place` rewrites the module, with conversions
where layouts meet, as `cost` says what they cost. It also tells which loads had better take the layout of a user; then
both are done again.
"""

from __future__ import annotations

from ....ir.core import Module
from ....passes.assumed import Assumed
from ..target import Target
from .access import Accesses
from .choose import choose_layouts
from .place import place_layouts


def assign_layouts(module: Module, target: Target) -> Module:
    """Give every tile a `layout`, with conversions where layouts meet.

    Vectorized accesses may have preconditions; those of kernels with a producer warp have none, for TMA does most of
    their work.
    """
    assumed = Assumed(module)
    nonnegative = None if module.attrs.get("producer_warps") else assumed.nonnegative
    made = assumed.stated_by(_assigned(module, target, nonnegative))
    if not module.functions:
        return made
    functions = [_assigned(f.replace(attrs=module.attrs), target, None) for f in module.functions]
    return made.replace(functions=[function.replace(attrs={}) for function in functions])


def _assigned(module: Module, target: Target, nonnegative: list | None) -> Module:
    accesses = Accesses.of(module, target, nonnegative)
    made, loads = place_layouts(module, choose_layouts(module, target, accesses))
    return place_layouts(module, choose_layouts(module, target, accesses, loads))[0] if loads else made
