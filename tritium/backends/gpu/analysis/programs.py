"""What a kernel's programs have to do with each other: who waits for whom, and what a scalar depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .... import ops
from ....ir.core import Op

if TYPE_CHECKING:
    from ....ir.core import Value

__all__ = ["computed_from", "synchronizes"]


def synchronizes(op: Op) -> bool:
    """True if an op may wait for other programs, signal them, or show the host which program runs it."""
    if op.kind is ops.load:
        return op.attrs["volatile"]
    return op.kind is ops.while_ or (op.kind.effects_of(op) == "write" and op.kind not in (ops.store, ops.assume))


def computed_from(x: Value) -> set[Value]:
    """A scalar, and the values it is computed from.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%n: i32) {\\n %0 = program_id {axis=0} : i32\\n %1 = add %0, %n : i32\\n}")
    >>> len(computed_from(m.body.ops[1]))
    3
    """
    found, open_ = set(), [x]
    while open_:
        x = open_.pop()
        if x not in found:
            found.add(x)
            open_ += x.operands if type(x) is Op else ()
    return found
