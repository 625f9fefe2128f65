"""Types of the tile IR: interned, so equality is `is`.

    >>> Tile((128,), f32)
    tile<128xf32>
    >>> Tile((128,), f32) is Tile((128,), f32)
    True
    >>> Ptr(f16)
    ptr<f16>
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, final


class Type:
    """Base of all types. Instances are interned: compare them with `is`."""

    __slots__ = ("text",)

    def __repr__(self):
        return self.text

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return parse_type, (self.text,)


@final
class Scalar(Type):
    """A number type. `kind` is "bool", "int", "uint" or "float"; signedness is part of the type."""

    __slots__ = ("bias", "bits", "exponent", "is_float", "is_int", "kind", "mantissa", "name", "signed", "special")

    def __init__(self, name, bits, kind, exponent=0, mantissa=0, bias=0, special=""):
        self.name = self.text = name
        self.bits = bits
        self.kind = kind
        self.is_float = kind == "float"
        self.is_int = not self.is_float
        self.signed = kind == "int"
        self.exponent, self.mantissa, self.bias = exponent, mantissa, bias
        self.special = special  # "ieee": inf and nan; "fn": nan only; "fnuz": one nan, no -0; "none": all finite

    @property
    def bytes(self):
        """Size in memory; a bool is one byte."""
        return max(1, self.bits // 8)


i1 = Scalar("i1", 1, "bool")
i8, i16, i32, i64 = (Scalar(f"i{n}", n, "int") for n in (8, 16, 32, 64))
u8, u16, u32, u64 = (Scalar(f"u{n}", n, "uint") for n in (8, 16, 32, 64))
f8e5 = Scalar("f8e5", 8, "float", 5, 2, 15, "ieee")
f8e5b16 = Scalar("f8e5b16", 8, "float", 5, 2, 16, "fnuz")
f8e4nv = Scalar("f8e4nv", 8, "float", 4, 3, 7, "fn")
f8e4b8 = Scalar("f8e4b8", 8, "float", 4, 3, 8, "fnuz")
f8e4b15 = Scalar("f8e4b15", 8, "float", 4, 3, 15, "none")
f16 = Scalar("f16", 16, "float", 5, 10, 15, "ieee")
bf16 = Scalar("bf16", 16, "float", 8, 7, 127, "ieee")
f32 = Scalar("f32", 32, "float", 8, 23, 127, "ieee")
f64 = Scalar("f64", 64, "float", 11, 52, 1023, "ieee")

SCALARS = {t.name: t for t in (i1, i8, i16, i32, i64, u8, u16, u32, u64,
                               f8e5, f8e5b16, f8e4nv, f8e4b8, f8e4b15, f16, bf16, f32, f64)}
INTS = tuple(t for t in SCALARS.values() if t.is_int)
FLOATS = tuple(t for t in SCALARS.values() if t.is_float)


@final
class Ptr(Type):
    """Address of a `pointee` in global memory; `const` forbids stores through it."""

    __slots__ = ("const", "pointee")
    _interned: ClassVar[dict] = {}
    bits = 64
    bytes = 8

    def __new__(cls, pointee, const=False):
        key = (pointee, const)
        found = cls._interned.get(key)
        if found is None:
            made = object.__new__(cls)
            made.pointee, made.const = pointee, const
            made.text = f"ptr<const {pointee}>" if const else f"ptr<{pointee}>"
            found = cls._interned.setdefault(key, made)  # the first of several threads decides
        return found


@final
class Tile(Type):
    """A block of `shape` (rank at least one) of scalars or pointers."""

    __slots__ = ("element", "numel", "shape")
    _interned: ClassVar[dict] = {}

    def __new__(cls, shape, element):
        key = (shape, element)
        found = cls._interned.get(key)
        if found is None:
            shape = tuple(int(n) for n in shape)
            made = object.__new__(cls)
            made.shape, made.element = shape, element
            made.numel = math.prod(shape)
            made.text = f"tile<{'x'.join(map(str, shape))}x{element}>"
            found = cls._interned.setdefault((shape, element), made)
        return found


def element(t) -> Any:
    """Element type of a tile; a scalar or pointer is its own element."""
    return t.element if type(t) is Tile else t


def shape(t) -> tuple[int, ...]:
    """Shape of a tile; `()` for scalars and pointers."""
    return t.shape if type(t) is Tile else ()


def numel(t):
    """Number of elements; 1 for scalars and pointers."""
    return t.numel if type(t) is Tile else 1


def with_shape(t, new_shape):
    """Same element in another shape; `()` gives the bare element."""
    new_shape = tuple(new_shape)
    return Tile(new_shape, element(t)) if new_shape else element(t)


def with_element(t, new_element):
    """Same shape of another element."""
    return Tile(t.shape, new_element) if type(t) is Tile else new_element


def is_ptr(t):
    """True for pointers and tiles of pointers."""
    return type(element(t)) is Ptr


def parse_type(text):
    """The type a text stands for.

    >>> parse_type("tile<4x8xptr<const f16>>")
    tile<4x8xptr<const f16>>
    """
    text = text.strip()
    if text in SCALARS:
        return SCALARS[text]
    if text.startswith("ptr<") and text.endswith(">"):
        inner = text[4:-1]
        const = inner.startswith("const ")
        return Ptr(parse_type(inner[6:] if const else inner), const)
    if text.startswith("tile<") and text.endswith(">"):
        dims, rest = [], text[5:-1]
        while rest[:1].isdigit():
            dim, _, rest = rest.partition("x")
            dims.append(int(dim))
        if dims:
            return Tile(tuple(dims), parse_type(rest))
    raise ValueError(f"not a type: {text!r}")
