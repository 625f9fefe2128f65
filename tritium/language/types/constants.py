"""`tl.constexpr`: a compile-time value on the host's side. Inside the compiler a constant is the bare Python object."""

from __future__ import annotations

import builtins
import operator
from typing import Any

from .dtypes import constexpr_type


class constexpr:
    """A value known at compile time; as an annotation, a parameter that must be.

    >>> BLOCK = constexpr(128)
    >>> BLOCK // 2, BLOCK.bit_length()
    (constexpr[64], 8)
    """

    __slots__ = ("value",)
    __triton_builtin__ = True

    def __init__(self, value):
        while isinstance(value, constexpr):
            value = value.value
        object.__setattr__(self, "value", value)

    @property
    def type(self):
        """A `constexpr_type` that holds the value."""
        return constexpr_type(self.value)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.value, name)

    def __setattr__(self, name, value):
        raise AttributeError("a constexpr cannot be changed")

    def __reduce__(self):
        return constexpr, (self.value,)

    def __repr__(self):
        return f"constexpr[{self.value}]"

    def __hash__(self):
        return hash((constexpr, self.value))

    def __bool__(self):
        return bool(self.value)

    def __index__(self):
        return operator.index(self.value)

    def __int__(self):
        return int(self.value)

    def __float__(self):
        return float(self.value)

    def __len__(self):
        return len(self.value)

    def __iter__(self):
        return map(constexpr, self.value)

    def __contains__(self, item):
        return unwrap(item) in self.value

    def __getitem__(self, index):
        return wrap(self.value[unwrap(index)])

    def __call__(self, *args, **kwargs):
        return wrap(self.value(*args, **kwargs))


class Returned:
    """Base of the numbers that operators take for tensors; `plain` is the Python number. See `returned`."""

    __slots__ = ()
    plain: Any

    def __reduce__(self):
        return type(self.plain), (self.plain,)


def _operator(fn, reflected):
    def method(self, other):
        x, y = self.value, unwrap(other)
        return wrap(fn(y, x) if reflected else fn(x, y))
    return method


def _unary(fn):
    return lambda self: wrap(fn(self.value))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor",
              "matmul"):  # fmt: skip
    _dunder = _name.rstrip("_")
    setattr(constexpr, f"__{_dunder}__", _operator(getattr(operator, _name), False))
    setattr(constexpr, f"__r{_dunder}__", _operator(getattr(operator, _name), True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(constexpr, f"__{_name}__", _operator(getattr(operator, _name), False))
for _name in ("neg", "pos", "invert"):
    setattr(constexpr, f"__{_name}__", _unary(getattr(operator, _name)))


def unwrap(value) -> Any:
    """The bare object of a constexpr, also inside tuples and lists.

    >>> unwrap(constexpr(3)), unwrap([constexpr(1), 2])
    (3, [1, 2])
    """
    if isinstance(value, constexpr):
        return value.value
    kind = type(value)
    if kind is builtins.tuple or kind is list:
        return kind(map(unwrap, value))
    return value


# Objects that stand for compile-time values when they are handed to code written for wrapped constants.
_PLAIN = (bool, int, float, str, bytes, type(None))


def wrap(value):
    """A constexpr around a plain constant or None; other values stay as they are."""
    return constexpr(value) if isinstance(value, _PLAIN) else value


def plain(value):
    """The value where Python needs the number itself, not what a function returned; in tuples and lists too.

    >>> plain(3), plain((True, [2]))
    (3, (True, [2]))
    """
    if isinstance(value, Returned):
        return value.plain
    if isinstance(value, builtins.tuple | list) and _holds_returned(value):
        make = getattr(type(value), "_make", type(value))
        return make([plain(part) for part in value])
    return value


def _holds_returned(value):
    return any(isinstance(part, Returned) or (isinstance(part, builtins.tuple | list) and _holds_returned(part))
               for part in value)
