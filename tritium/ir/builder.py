"""Builds blocks op by op, numbering values on the way: a pure op that exists already in scope is not made twice."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from .core import Arg, Block, Op
from .opdef import types_of
from .types import Type


class Builder:
    """Appends ops to the innermost open block.

    >>> from tritium import ops
    >>> from tritium.ir import types as T
    >>> b = Builder()
    >>> x = b.argument(T.i32, "x")
    >>> two = ops.constant(b, value=2, type=T.i32)
    >>> ops.add(b, x, two) is ops.add(b, x, two)
    True
    """

    def __init__(self, loc=None):
        self.loc = loc
        self.arguments = []
        self._blocks = [[]]
        self._seen = [{}]

    def argument(self, type, name="", **attrs):
        """A new parameter of the kernel."""
        arg = Arg(type, name, attrs)
        self.arguments.append(arg)
        return arg

    def emit(self, kind, operands, attrs=None, regions=(), loc=None) -> Any:
        """Append an op; returns its value, a tuple of its values, or None when it has none."""
        attrs = attrs or {}
        operands = tuple(operands)
        types = types_of(kind, [x.type for x in operands], attrs, regions)
        return value_of(self.place(Op(kind, operands, attrs, types, tuple(regions), loc or self.loc)))

    def place(self, op):
        """Append a ready-made op and return it, or return its equal that is in scope already."""
        kind = op.kind
        if not kind.effects and not op.regions and op.types and (kind.effect is None or not kind.effect(op)):
            key = op_key(op)
            for scope in reversed(self._seen):
                found = scope.get(key)
                if found is not None:
                    return found
            self._seen[-1][key] = op
        self._blocks[-1].append(op)
        return op

    @contextmanager
    def region(self, arg_types=(), names=()):
        """Open a region: `with b.region([T.f32]) as r: ... ; r.block` is the finished Block."""
        names = tuple(names) or ("",) * len(arg_types)
        region = Region([Arg(t, n) for t, n in zip(arg_types, names, strict=True)])
        self._blocks.append([])
        self._seen.append({})
        try:
            yield region
        finally:
            self._seen.pop()
            region.block = Block(region.args, self._blocks.pop())

    @contextmanager
    def outside(self, depth):
        """Append to the block at `depth` of those open, the outermost being 1: before the op that holds the next."""
        inner = self._blocks[depth:], self._seen[depth:]
        del self._blocks[depth:], self._seen[depth:]
        try:
            yield
        finally:
            self._blocks += inner[0]
            self._seen += inner[1]

    def finish(self):
        """The outermost block, with the kernel's arguments."""
        if len(self._blocks) != 1:
            raise RuntimeError("a region is still open")
        return Block(self.arguments, self._blocks[0])


class Region:
    """An open region: `args` to use inside; `block` once closed."""

    block: Block

    def __init__(self, args):
        self.args = args


def value_of(op):
    """What a builder hands back for an op: None, the op, or a tuple of its results."""
    if len(op.types) == 1:
        return op
    return op.results if op.types else None


def several(made) -> tuple[Any, ...]:
    """What a builder handed back for an op, as a tuple.

    >>> several(None), several((1, 2)), several("op")
    ((), (1, 2), ('op',))
    """
    return made if type(made) is tuple else () if made is None else (made,)


def op_key(op):
    """Equal for ops that compute the same value.

    Constants compare by bits and type (0.0 is not -0.0, 1 is not True); operands that commute, in any order.
    """
    kind, operands, attrs = op.kind, op.operands, op.attrs
    if kind.row is not None and kind.row.commutes:
        operands = frozenset(operands)
    if not attrs:
        return kind, operands
    return (kind, operands, *attrs, *map(attr_key, attrs.values()))


def attr_key(value):
    """A hashable stand-in that is equal only for the same value of the same type."""
    kind = type(value)
    if kind is int or kind is str or isinstance(value, Type):
        return value
    if kind is float:
        return (kind, value.hex())
    if kind is tuple or kind is list:
        return tuple([attr_key(v) for v in value])
    return (kind, value)
