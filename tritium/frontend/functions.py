"""Functions marked `noinline`: lowered once for each set of argument types and constants, and called.

Only what a caller can hand over is outside of such a function: one that sees more, through a lambda or an aggregate
that it changes, is inlined.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import ops
from ..ir import types as T
from ..ir.core import Module, Result, walk
from ..ir.rewrite import effects
from ..ir.rewrite import same as unchanged
from ..language.source.fingerprints import fingerprint
from ..language.types import values
from ..language.types.aggregate import Aggregate
from ..named_tuples import NamedTuple
from . import control
from .scope import Closure, Frame, same


class Kept(NamedTuple):
    """A function lowered for the arguments `entry`; `rebuild` makes its result of the values that a call gives."""

    function: object
    entry: dict
    module: Module
    memory: str
    rebuild: Callable


class Whole(NamedTuple):
    """What `call` gives: the value of the call."""

    value: object


def call(b, function, names, lower):
    """The `Whole` of a call with arguments `names`; None where the function has to be inlined.

    `lower(frame)` lowers the body of the function in a frame and gives its result.
    """
    if b.inlining or any(map(_sees_caller, names.values())):
        return None
    kept = next((k for k in b.kept if k.function is function and _alike(k.entry, names)), None)
    if kept is None:
        kept = _lowered(b, function, names, lower)
        if kept is None:
            return None
        b.kept.append(kept)
    handles = [h for value in names.values() for h in values.flatten(value)[0]]
    returns = tuple(y.type for y in kept.module.body.yields)
    made = ops.call(b, *handles, callee=kept.module.name, returns=returns, memory=kept.memory)
    return Whole(kept.rebuild(list(made) if type(made) is tuple else [] if made is None else [made]))


def _sees_caller(value):
    """A lambda reads the names of the function around it whenever it is called."""
    parts = values.parts_of(value)
    return type(value) is Closure if parts is None else any(map(_sees_caller, parts[0]))


def _alike(entry, names):
    """Whether arguments have the types and constants of others; -0.0 is another constant than 0.0."""
    return entry.keys() == names.keys() and all(
        same(entry[name], value) and _constants(entry[name]) == _constants(value) for name, value in names.items())


def _constants(value):
    parts = values.parts_of(value)
    if parts is not None:
        return [_constants(part) for part in parts[0]]
    return None if type(value) is values.tensor else fingerprint(value)


def _lowered(b, function, names, lower):
    """Lower a function on its own; None if it takes more from its caller than arguments, or changes them."""
    taken = {name: values.flatten(value) for name, value in names.items()}
    types = [h.type for handles, _ in taken.values() for h in handles]
    labels = [name if len(handles) == 1 else f"{name}_{k}" for name, (handles, _) in taken.items()
              for k in range(len(handles))]
    seen, b._seen = b._seen, [{}]
    try:
        with b.region(types, labels) as region:
            args = iter(region.args)
            inner = {name: rebuild([next(args) for _ in handles]) for name, (handles, rebuild) in taken.items()}
            before = [(part, Aggregate.parts(part)) for part in _aggregates(inner.values())]
            result = lower(Frame(function, inner, parent=b.frame))
            changed = not all(unchanged(parts, Aggregate.parts(part)) for part, parts in before)
            handles, rebuild = values.flatten(result)
    finally:
        b._seen = seen
    body = control.close(b, region.block, handles)
    if changed or not _is_closed(body):
        return None
    memory = max((effects(op) for op in body.ops), key=("", "read", "write").index)
    return Kept(function, names, Module(_name(b, function, types), body), memory, rebuild)


def _aggregates(parts):
    for part in parts:
        if isinstance(part, Aggregate):
            yield part
        yield from _aggregates((values.parts_of(part) or ((), None))[0])


def _is_closed(body):
    """Whether a body uses nothing from outside."""
    known = {*body.args}
    for op in walk(body):
        known |= {op, *(arg for region in op.regions for arg in region.args)}
    return all((x.op if type(x) is Result else x) in known for op in walk(body) for x in op.operands)


def _name(b, function, types):
    """`scaled__f32_ptr_i32`, with a number if there is one already."""
    short = "_".join("ptr" if type(t) is T.Ptr else t.name for t in types)
    name, taken = f"{function.name}__{short}", {kept.module.name for kept in b.kept}
    return name if name not in taken else next(f"{name}.{k}" for k in range(1, len(taken) + 1)
                                               if f"{name}.{k}" not in taken)
