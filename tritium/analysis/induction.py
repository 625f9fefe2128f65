"""Induction: how a loop advances what it carries from one iteration to the next."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..ir.core import Op
from ..named_tuples import NamedTuple
from .arithmetic import is_index

__all__ = ["Step", "steps"]


class Step(NamedTuple):
    """An op that adds `sign` times a value."""

    op: Op
    value: Any
    sign: int = 1


def steps(arg, out) -> tuple[Step, ...] | None:
    """The additions that lead from `arg`, an integer or pointer that a loop carries, to `out`, its next value: the last
    one first. None if the loop does anything else with it.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: i32, %y: i32) {\\n %0 = sub %x, %y : i32\\n %1 = add %y, %0 : i32\\n}")
    >>> [(step.value.name, step.sign) for step in steps(m.args[0], m.body.ops[1])]
    [('y', 1), ('y', -1)]
    """
    return _steps(arg, out, set()) if is_index(arg.type) else None


def increment(arg, out) -> Any:
    """What one addition adds to `arg` to give `out`, its next value; None if the loop does anything else with it.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: i32, %y: i32) {\\n %0 = add %y, %x : i32\\n %1 = add %0, %y : i32\\n}")
    >>> increment(m.args[0], m.body.ops[0]).name, increment(m.args[0], m.body.ops[1])
    ('y', None)
    """
    found = steps(arg, out)
    return found[0].value if found is not None and len(found) == 1 and found[0].sign == 1 else None


def _steps(arg, out, tried):
    if out is arg:
        return ()
    if type(out) is not Op or out in tried:
        return None
    tried.add(out)
    for at, sign in _ADDENDS.get(out.kind, ()):
        before = _steps(arg, out.operands[at], tried)
        if before is not None:
            return Step(out, out.operands[1 - at], sign), *before
    return None


# The operands to which an op adds the other one, and the sign.
_ADDENDS = {ops.add: ((0, 1), (1, 1)), ops.sub: ((0, -1),), ops.addptr: ((0, 1),)}
