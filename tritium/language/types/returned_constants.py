"""Constants that a function of level 3.6 returns: numbers where Python needs one, tensors in operators.

    tl.arange(0, half(32))        # half(32) is the constant 16
    x_f16 * scale()               # 3.6: float32, as scale() is a float32 tensor; 3.7: float16, as it is a number

From 3.7 on a returned constant is a plain number. Both are written down in `dialect.Dialect.constants_return`.
"""

from __future__ import annotations

import builtins

from ..builtins.calling import current
from ..source.dialect import of_builder
from .constants import Returned, plain
from .values import number, parts_of, tensor, to_tensor

__all__ = ["Returned", "plain", "returned", "returned_eagerly", "settled"]


class _Int(Returned, int):
    @property
    def plain(self):
        return int.__int__(self)


class _Float(Returned, float):
    @property
    def plain(self):
        return float.__float__(self)


class _Bool(Returned, int):
    @property
    def plain(self):
        return int.__int__(self) != 0

    def __repr__(self):
        return repr(self.plain)


_KINDS = {bool: _Bool, int: _Int, float: _Float}


def returned(b, value, kinds=_KINDS):
    """What a function called in builder `b` hands back for a constant; in tuples too, others stay.

    >>> from types import SimpleNamespace
    >>> from tritium.language.source.dialect import LEVELS
    >>> [type(returned(SimpleNamespace(dialect=LEVELS[name]), 3)) is int for name in LEVELS]
    [False, True, True]
    """
    if isinstance(value, builtins.tuple):
        parts, remake = parts_of(value)  # pyright: ignore[reportGeneralTypeIssues]  (a tuple has parts)
        return remake([returned(b, part, kinds) for part in parts])
    if isinstance(value, (tensor, Returned)):
        return value
    found = number(value)
    if found is None:
        return value
    return found if of_builder(b).constants_return else kinds[type(found)](found)


def settled(b, value):
    """The operand of an operator: a returned constant is a tensor there."""
    return to_tensor(b, value) if isinstance(value, Returned) else value


# ---------------------------------------------------------------------------------------------------------------------
# Kernels that run eagerly: Python itself applies the operators.


def _binary_method(name, reflected):
    return _method(f"__{'r' if reflected else ''}{name}__")


def _method(name):
    def method(self, *others):
        b = current()  # outside of a kernel it is a number
        return getattr(self.plain if b is None else to_tensor(b, self), name)(*others)
    return method


def _of_tensor(self, name):
    """An attribute that numbers do not have is a tensor's."""
    if current() is None or not hasattr(tensor, name):
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
    return getattr(to_tensor(current(), self), name)


def _live(kind):
    """A kind of number whose operators give tensors."""
    body = {"__slots__": (), "__hash__": lambda self: hash(self.plain), "__getattr__": _of_tensor}
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"):
        body |= {f"__{name}__": _binary_method(name, False), f"__r{name}__": _binary_method(name, True)}
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "invert"):
        body[f"__{name}__"] = _method(f"__{name}__")
    return type(kind.__name__, (kind,), body)


_LIVE = {python: _live(kind) for python, kind in _KINDS.items()}


def returned_eagerly(b, value):
    """`returned` for a kernel that runs eagerly."""
    return returned(b, value, _LIVE)
