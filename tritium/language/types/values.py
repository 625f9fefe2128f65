"""The values of a kernel: tensors (scalars and tiles alike), tuples, and how to take composite values apart.

A `tensor` holds a `handle` with a `.type` of the IR: a value of the IR while compiling, an array when the kernel runs
eagerly. Compile-time constants are bare Python objects; `to_tensor` makes a tensor of one.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar

from tritium.errors import fail
from tritium.ir import types as T

from ..builtins.calling import Builtin, as_builtin, builder_of, builtin, current, is_builtin, require, using
from ..builtins.deferred import ops
from . import dtypes
from .constants import Returned, constexpr, unwrap, wrap
from .dtypes import constexpr_type, from_ir, tuple_type

__all__ = [
    "Builtin", "as_builtin", "builtin", "constexpr", "constexpr_type", "current", "flatten", "is_builtin",
    "is_constant", "literal_type", "require", "slice", "tensor", "to_tensor", "tuple", "type_of", "unwrap", "using",
    "wrap",
]  # fmt: skip


# What functions of the language give back: two or four tensors, or the same form of tiles that they were given.
Pair: TypeAlias = "builtins.tuple[tensor, tensor]"
Four: TypeAlias = "builtins.tuple[tensor, tensor, tensor, tensor]"
Tiles = TypeVar("Tiles", bound="tensor | builtins.tuple[tensor, ...]")


class tensor:
    """A run-time value: a number, a pointer, or a tile of them. It never changes.

    Operators and methods work on it inside kernels:

        x = tl.load(x_ptr + offsets, mask)
        y = (x * 2).to(tl.float16).sum(axis=0)
    """

    # `_made_of`: the number of a constant that an assignment made a tensor; it may still be the size of a tile.
    __slots__ = ("_made_of", "handle")

    def __init__(self, handle, type=None):
        self.handle = handle

    @property
    def type(self) -> dtypes.dtype:
        """Its type: a dtype or pointer type, or a `block_type` of one."""
        return from_ir(self.handle.type)

    @property
    def dtype(self) -> dtypes.dtype:
        """The type of one element."""
        return from_ir(T.element(self.handle.type))

    @property
    def shape(self) -> builtins.tuple[int, ...]:
        """The sizes of its axes; empty for a scalar."""
        return tuple(T.shape(self.handle.type))

    @property
    def numel(self) -> int:
        """How many elements it has."""
        return T.numel(self.handle.type)

    @property
    def T(self) -> tensor:
        """The transpose of a matrix."""
        if len(self.shape) != 2:
            raise fail(ValueError, f"only a matrix has .T, this has shape {self.shape}",
                       hint="use tl.permute with the order of the axes")
        from ..builtins.shaping import permute
        return permute.fn(require(".T"), self, 1, 0)

    # What a run-time value cannot do while a kernel is compiled, it can when its elements are known.

    def _known(self, what):
        data = getattr(self.handle, "data", None)
        if data is None:
            raise fail(TypeError, f"the value of {self} is known only at run time: it has no {what}",
                       hint="use a tl.constexpr where Python needs the number itself")
        return data

    def __bool__(self) -> bool:
        data = self._known("truth value for Python")
        if data.size != 1:
            raise fail(ValueError, "Boolean value of Tensor with more than one value is ambiguous",
                       hint="reduce it first, with tl.max or tl.min")
        return bool(data.reshape(()))

    def __index__(self) -> int:
        return operator.index(self._known("Python index").item())

    def __int__(self) -> int:
        return int(self._known("Python int").item())

    def __float__(self) -> float:
        return float(self._known("Python float").item())

    def __array__(self, dtype=None, copy=None):
        return self._known("array").astype(dtype) if dtype is not None else self._known("array")

    def __str__(self):
        if getattr(self.handle, "data", None) is not None:
            return str(self.handle)
        return f"{self.dtype}[{', '.join(f'constexpr[{n}]' for n in self.shape)}]"

    __repr__ = __str__
    __hash__ = object.__hash__

    # Operators of plain Python code; the compiler calls the functions of `operators` itself. Users' own builtins call
    # them by name, with `_semantic`.

    def __getitem__(self, index, _semantic=None) -> tensor:
        from ..builtins.operators import getitem
        return getitem(builder_of(_semantic, "indexing"), self, index)

    def __neg__(self, _semantic=None) -> tensor:
        from ..builtins.operators import unary
        return unary(builder_of(_semantic, "-"), "-", self)

    def __invert__(self, _semantic=None) -> tensor:
        from ..builtins.operators import unary
        return unary(builder_of(_semantic, "~"), "~", self)


def _binary_method(symbol, reflected):
    def method(self, other, _semantic=None) -> tensor:
        from ..builtins.operators import binary
        x, y = (unwrap(other), self) if reflected else (self, unwrap(other))
        return binary(builder_of(_semantic, symbol), symbol, x, y)
    method.__doc__ = f"The operator {symbol}."
    return method


def _compare_method(symbol):
    def method(self, other, _semantic=None):
        from ..builtins.operators import compare
        return compare(builder_of(_semantic, symbol), symbol, self, unwrap(other))
    method.__doc__ = f"The comparison {symbol}."
    return method


for _symbol, _name in {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "&": "and",
                       "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift"}.items():  # fmt: skip
    setattr(tensor, f"__{_name}__", _binary_method(_symbol, reflected=False))
    setattr(tensor, f"__r{_name}__", _binary_method(_symbol, reflected=True))
for _symbol, _name in {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}.items():
    setattr(tensor, f"__{_name}__", _compare_method(_symbol))


class tuple(builtins.tuple):
    """Several values as one: what tuple and list displays in a kernel make. Indices are compile-time constants.

    >>> t = tuple([1, 2, 3])
    >>> t[-1], t[0:2], t + (4,), len(t)
    (3, (1, 2), (1, 2, 3, 4), 3)
    """

    _field_names = ()

    def __new__(cls, args: Iterable = (), type: tuple_type | None = None):
        made = builtins.tuple.__new__(cls, args)
        fields = type.fields if isinstance(type, tuple_type) else None
        if fields:
            made._field_names = builtins.tuple(fields)
        return made

    @property
    def values(self) -> list:
        """The elements as a list."""
        return list(self)

    @property
    def type(self) -> tuple_type:
        """The types of the elements, with field names if it has any."""
        return tuple_type([type_of(value) for value in self], self._field_names or None)

    def __getattr__(self, name):
        if name in self._field_names:
            return self[self._field_names.index(name)]
        raise AttributeError(f"this tuple has no field {name!r}")

    def __getitem__(self, index):
        index = unwrap(index)
        if isinstance(index, tensor) and getattr(index.handle, "data", None) is None:
            raise fail(AssertionError, "a tuple can only be indexed by a compile-time constant",
                       hint="use tl.static_range so that the index is known")
        try:
            found = builtins.tuple.__getitem__(self, index)
        except IndexError:
            raise fail(IndexError, f"index {index} is out of range for a tuple of {len(self)}") from None
        return tuple(found) if isinstance(index, builtins.slice) else found

    def __add__(self, other) -> tuple:
        return tuple(builtins.tuple.__add__(self, builtins.tuple(other)))

    def __mul__(self, times) -> tuple:
        return tuple(builtins.tuple.__mul__(self, unwrap(times)))

    __rmul__ = __mul__

    def __eq__(self, other) -> bool:
        """Lists are tuples in kernels: `x.shape == [4, 8]`."""
        return builtins.tuple.__eq__(self, builtins.tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other) -> bool:
        return not self == other

    __hash__ = builtins.tuple.__hash__

    def __setitem__(self, index, value):
        raise fail(TypeError, "a tuple cannot be changed", hint="build a new one, or use one name for each element")

    def __reduce__(self):
        return tuple, (builtins.tuple(self), self.type if self._field_names else None)


class slice:
    """`start:stop:step` inside an index.

    >>> slice(None, None, None)
    slice(None, None, None)
    """

    def __init__(self, start=None, stop=None, step=None):
        self.start, self.stop, self.step = start, stop, step

    def __repr__(self):
        return f"slice({self.start}, {self.stop}, {self.step})"


# ---------------------------------------------------------------------------------------------------------------------
# Constants

_I32, _U32 = range(-(1 << 31), 1 << 31), range(1 << 31, 1 << 32)
_I64, _U64 = range(-(1 << 63), 1 << 63), range(1 << 63, 1 << 64)
_SMALLEST_F32, _LARGEST_F32 = 2.0**-126, (2 - 2.0**-23) * 2.0**127


def literal_type(value):
    """The IR type a Python number gets when it must become a tensor.

    >>> literal_type(True), literal_type(7), literal_type(2**31), literal_type(1e-40)
    (i1, i32, u32, f64)
    """
    if isinstance(value, bool):
        return T.i1
    if isinstance(value, int):
        for values, kind in ((_I32, T.i32), (_U32, T.u32), (_I64, T.i64), (_U64, T.u64)):
            if value in values:
                return kind
        raise fail(ValueError, f"Nonrepresentable integer {value}.", hint="no integer type has more than 64 bits")
    size = abs(value)
    plain = size == 0 or size != size or size == float("inf") or _SMALLEST_F32 <= size <= _LARGEST_F32
    return T.f32 if plain else T.f64


def number(value) -> Any:
    """A Python number of any library as int, float or bool; None if it is no number.

    >>> number(3), number("3") is None
    (3, True)
    """
    value = unwrap(value)
    if isinstance(value, Returned):
        return value.plain
    if isinstance(value, (bool, float)):
        return bool(value) if isinstance(value, bool) else float(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, tensor) or not hasattr(value, "dtype") or getattr(value, "shape", None) != ():
        return None
    return value.item()  # a NumPy scalar


def is_tensors_own(value, name):
    """Whether `name` is an attribute of tensors that `value`, a number, does not have: it becomes a tensor for it.

    >>> is_tensors_own(3, "dtype"), is_tensors_own(3, "bit_length"), is_tensors_own("3", "dtype")
    (True, False, False)
    """
    return name != "type" and hasattr(tensor, name) and number(value) is not None and not hasattr(value, name)


def is_constant(value):
    """Whether a language value is a compile-time constant: it holds no run-time part."""
    return not flatten(value)[0]


def constant(b, value, kind):
    """A tensor of scalar IR type `kind` with a known value."""
    if type(kind) is T.Scalar and kind.is_float:
        value = float(value)
    elif kind is T.i1:
        value = bool(value)
    return tensor(ops.constant(b, value=value, type=kind))


HINT_OF_NONE = ("where an argument may be None, ask first: `if x is not None:`; a function without `return` gives None "
                "too")


def to_tensor(b, value):
    """The value as a tensor: a tensor is one already, a Python number becomes a scalar.

    >>> to_tensor(None, "text")
    Traceback (most recent call last):
    TypeError: cannot convert text of type <class 'str'> to tensor
    """
    value = unwrap(value)
    if isinstance(value, tensor):
        return value
    plain = number(value)
    if plain is None:
        hint = "annotate the name with tl.constexpr to keep a compile-time value"
        if isinstance(value, tuple):
            hint = "take one of its elements, t[0], or all in a loop over tl.static_range(len(t))"
        raise fail(TypeError, f"cannot convert {value} of type {type(value)} to tensor",
                   hint=HINT_OF_NONE if value is None else getattr(value, "tensor_hint", hint))
    made = constant(b, plain, literal_type(plain))
    made._made_of = plain
    return made


def size_of_tile(value) -> Any:
    """A value where the size of a tile is asked for: `n = BLOCK` stands for its number there.

    >>> size_of_tile(3)
    3
    """
    value = unwrap(value)
    return getattr(value, "_made_of", value) if isinstance(value, tensor) else value


def type_of(value):
    """The language's type of any value; of a constant, its `constexpr_type`."""
    if isinstance(value, builtins.tuple):
        return tuple_type([type_of(v) for v in value], getattr(value, "_fields", None))
    return value.type if hasattr(value, "type") and not is_constant(value) else constexpr_type(unwrap(value))


# ---------------------------------------------------------------------------------------------------------------------
# Composite values

def _take_apart_tuple(value):
    if hasattr(value, "_fields"):
        return value, type(value)._make
    if type(value) is tuple:
        kind = tuple_type([None] * len(value), value._field_names) if value._field_names else None
        return value, lambda parts: tuple(parts, kind)
    return value, type(value)


def parts_of(value):
    """The direct parts of a composite value and the function that makes it again of new ones; None for others.

    A class of composite values says so with two methods: `parts()` and `remade(parts)`.
    """
    if isinstance(value, builtins.tuple):
        return _take_apart_tuple(value)
    kind: Any = type(value)
    if hasattr(kind, "remade"):  # asked of the class: fields of an aggregate may have these names
        return kind.parts(value), lambda parts: kind.remade(value, parts)
    return None


def flatten(value):
    """The handles inside a value, and the function that makes such a value of other handles.

    >>> handles, rebuild = flatten((tensor("a"), 3, (tensor("b"),)))
    >>> handles
    ['a', 'b']
    >>> [part.handle for part in flatten(rebuild(["c", "d"]))[1](["e", "f"])[::2][:1]]
    ['e']
    """
    if isinstance(value, tensor):
        return [value.handle], lambda handles: tensor(handles[0])
    composite = parts_of(value)
    if composite is None:
        return [], lambda handles: value
    parts, remake = composite
    taken = [flatten(part) for part in parts]
    counts = [len(handles) for handles, _ in taken]

    def rebuild(handles):
        made, at = [], 0
        for (_, make), count in zip(taken, counts):
            made.append(make(handles[at:at + count]))
            at += count
        return remake(made)

    return [handle for handles, _ in taken for handle in handles], rebuild


