"""Atomic updates of one element, with an order: the first thread does them, for a program of many.

    barrier           what the other threads read and wrote happens before
    red.release
    barrier           what they read and write next happens behind

The first barrier is idle if no thread has touched global memory since all met (`shared_memory/barriers.py` knows), the
second if the old value has no use and nothing but such updates touches the same tensor: a program that learns nothing
from an update may run ahead of it.
"""

from __future__ import annotations

from collections.abc import Container

from ....analysis.accesses import origins_of
from ....ir import types as T
from ....ir.core import Module, Op, walk
from ....ir.rewrite import uses


def is_ordered_update(op: Op) -> bool:
    """True for an atomic of one element that orders other accesses."""
    return op.kind.atomic and type(op.pointer.type) is not T.Tile and op.attrs["sem"] != "relaxed"


def unobserved_updates(module: Module) -> Container[Op]:
    """The ordered updates of one element whose order nothing else in the program can tell: the old value has no use,
    and only such updates go through the pointers to the kernel that it may go through."""
    if module.functions or any(op.kind.global_memory and not op.kind.access for op in walk(module.body)):
        return ()
    found, used = origins_of(module), uses(module.body)
    others = [origins for op, origins in found if not is_ordered_update(op)]
    if not all(others):
        return ()
    taken = frozenset().union(*others)
    return {op for op, origins in found if is_ordered_update(op) and op not in used and origins and not origins & taken}
