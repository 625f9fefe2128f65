"""Checks what must hold of every module.

Operands are defined before their use and have one value; every op and parameter stands in one place; types are as the
ops infer them; regions are closed; the stage is kept. Calls suit the functions they name, and none leads to itself.
"""

from __future__ import annotations

import functools

from ..errors import InternalError
from .core import Op, Result, called
from .opdef import types_of
from .rewrite import effects


def verify(module, made_by=None, allow=None):
    """Raise InternalError naming the first broken op; the error's `loc` is the op's. `allow`, if given, is the set of
    kinds this stage may contain."""
    verifier = _Verifier(module, f" (after pass {name_of(made_by)})" if made_by else "", allow)
    verifier.block(module.body, set(), closed=False)
    for function in module.functions:
        verifier.block(function.body, set(), closed=True)
    verifier.recursion()
    return module


def name_of(step):
    """The name of a pass: its `pass_name`, that of the function, or of the file whose function made it.

    >>> from tritium.passes import dce
    >>> name_of(dce)
    'dce'
    """
    while isinstance(step, functools.partial):
        step = step.func
    name = getattr(step, "__qualname__", "<")
    own = None if "<" in name else name
    return getattr(step, "pass_name", own) or getattr(step, "__module__", "").rpartition(".")[2] or str(step)


class _Verifier:
    def __init__(self, module, after, allow):
        self.module, self.after, self.allow = module, after, allow
        self.placed = set()     # every op and parameter met so far
        self.functions = {function.name: function for function in module.functions}
        if len({module.name, *self.functions}) <= len(module.functions):
            raise self.error("two functions have one name")

    def error(self, message, loc=None):
        error = InternalError(message + self.after, self.module)
        error.loc = loc
        return error

    def block(self, block, scope, closed, loc=None):
        scope = scope | {*block.args}
        for arg in block.args:
            if arg in self.placed:
                raise self.error(f"parameter {arg!r} belongs to two blocks")
            self.placed.add(arg)
        for position, op in enumerate(block.ops):
            problem = "stands in two places" if op in self.placed else _problem(op, scope, self.allow)
            if not problem and "callee" in op.attrs:
                problem = self.call(op)
            if not problem and op.kind.terminator and position != len(block.ops) - 1:
                problem = "ops follow the end of the block"
            if problem:
                raise self.error(f"{op.kind.name}: {problem}", op.loc)
            for region in op.regions:
                self.block(region, scope, closed=True, loc=op.loc)
            scope.add(op)
            self.placed.add(op)
        if closed and not (block.ops and block.ops[-1].kind.terminator):
            raise self.error("a region has no closing yield", loc)

    def call(self, op):
        """What is wrong with a call; None if it suits its function."""
        name, strength = op.attrs["callee"], ("", "read", "write")
        if name not in self.functions:
            return f"there is no function @{name}"
        body = self.functions[name].body
        wanted, given = [a.type for a in body.args], [x.type for x in op.operands]
        if len(wanted) != len(given):
            return f"@{name} takes {len(wanted)} argument(s), not {len(given)}"
        if wanted != given:
            return f"@{name} takes ({', '.join(map(str, wanted))}), not ({', '.join(map(str, given))})"
        if (made := tuple(y.type for y in body.yields)) != op.types:
            return f"@{name} gives ({', '.join(map(str, made))}), not ({', '.join(map(str, op.types))})"
        most = max((effects(inner) for inner in body.ops), key=strength.index, default="")
        if strength.index(op.attrs["memory"]) < strength.index(most):
            return f"it says of memory {op.attrs['memory']!r}, @{name} does {most!r}"
        return None

    def recursion(self):
        """Refuse functions that call themselves: programs have no memory for calls without end."""
        after = {name: called(function.body) for name, function in self.functions.items()}
        while after:
            leaves = [name for name, names in after.items() if not any(n in after for n in names)]
            if not leaves:
                raise self.error(f"recursion: @{next(iter(after))} is called by itself, or by what it calls")
            for name in leaves:
                del after[name]


def _problem(op, scope, allow):
    if allow is not None and op.kind not in allow:
        return "not allowed at this stage"
    for x in op.operands:
        if (x.op if type(x) is Result else x) not in scope:
            return f"operand {x!r} is not defined before it"
        if type(x) is Op and len(x.types) != 1:
            return f"operand {x!r} has no value" if not x.types else f"operand {x!r} has several values: name one"
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
