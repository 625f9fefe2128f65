"""Checks what must hold of every module: names in scope, types as the ops infer them, regions closed, stage kept."""

from __future__ import annotations

from ..errors import InternalError
from .core import Result
from .opdef import types_of


def verify(module, made_by=None, allow=None):
    """Raise InternalError naming the first broken op. `allow`, if given, is the set of kinds this stage may contain."""
    _block(module.body, set(), module, made_by, allow, closed=False)
    return module


def _block(block, scope, module, made_by, allow, closed):
    scope = scope | {id(a) for a in block.args}
    for position, op in enumerate(block.ops):
        problem = _problem(op, scope, allow)
        if not problem and op.kind.terminator and position != len(block.ops) - 1:
            problem = "ops follow the end of the block"
        if problem:
            pass_name = getattr(made_by, "__module__", "").rpartition(".")[2]
            after = f" (after pass {pass_name})" if pass_name else ""
            raise InternalError(f"{op.kind.name}: {problem}{after}", module)
        for region in op.regions:
            _block(region, scope, module, made_by, allow, closed=True)
        scope.add(id(op))
    if closed and not (block.ops and block.ops[-1].kind.terminator):
        raise InternalError("a region has no closing yield", module)


def _problem(op, scope, allow):
    if allow is not None and op.kind not in allow:
        return "not allowed at this stage"
    for x in op.operands:
        if id(x.op if type(x) is Result else x) not in scope:
            return f"operand {x!r} is not defined before it"
        if type(x) is not Result and x.type is None:
            return f"operand {x!r} has no value"
    missing = [k for k in op.kind.attrs if k not in op.attrs]
    if missing:
        return f"attribute {missing[0]!r} is missing"
    try:
        expected = types_of(op.kind, [x.type for x in op.operands], op.attrs, op.regions)
    except TypeError as broken:
        return str(broken)
    if expected != op.types:
        return f"has types {op.types}, its rule says {expected}"
    return op.kind.check(op) if op.kind.check else None
