"""Types as users name them: `tl.float32`, `tl.pointer_type(tl.int8)`, and the strings that stand for them.

    >>> float32, pointer_type(float16), block_type(int32, [128])
    (triton.language.float32, pointer<fp16>, <[128], int32>)
    >>> parse_signature("*fp32") is pointer_type(float32)
    True

Every type of a run-time value has `.ir`, its type in the tile IR; `from_ir` goes back. Types are interned, so `is` and
`==` agree.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tritium.errors import fail
from tritium.ir import types as T

from .scalar_types import (
    SCALARS,
    bfloat16,
    dtype,
    float8e4b8,
    float8e4b15,
    float8e4nv,
    float8e5,
    float8e5b16,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)
from .signature import canonical

__all__ = [
    "TRITON_MAX_TENSOR_NUMEL", "bfloat16", "block_type", "const", "constexpr_type", "dtype", "float8e4b8",
    "float8e4b15", "float8e4nv", "float8e5", "float8e5b16", "float16", "float32", "float64", "int1", "int8",
    "int16", "int32", "int64", "pi32_t", "pointer_type", "str_to_ty", "tensor_descriptor_type", "tuple_type",
    "uint8", "uint16", "uint32", "uint64", "void",
]  # fmt: skip

TRITON_MAX_TENSOR_NUMEL = 1 << 20

_SPACES = {"global": 1, "shared": 3, "constant": 4}


class _space(int):
    """The number of an address space, which is also equal to its name.

    >>> _space(1) == 1, _space(1) == "global"
    (True, True)
    """

    def __eq__(self, other):
        return int(self) == _SPACES.get(other, other) if isinstance(other, str) else int.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    __hash__ = int.__hash__


class pointer_type(dtype):
    """Address of elements of `element_ty`; `const` forbids stores through it.

    >>> pointer_type(float32).element_ty, str(pointer_type(int8, const=True))
    (triton.language.float32, 'const_pointer<int8>')
    """

    element_ty: dtype
    address_space: int
    const: bool

    def __new__(cls, element_ty: dtype, address_space: int | str = 1, const: bool = False) -> pointer_type:
        element_ty = getattr(element_ty, "value", element_ty)
        if not isinstance(element_ty, dtype):
            raise fail(TypeError, f"element_ty has type `{type(element_ty).__name__}`; expected `dtype`.",
                       hint="write tl.pointer_type(tl.float32)", argument="element_ty")
        key = (element_ty, _space(_SPACES.get(str(address_space), address_space)), bool(const))
        found = dtype._interned.get(key)
        if found is None:
            made = object.__new__(cls)
            made.element_ty, made.address_space, made.const = key
            made.name = f"{'const_' if const else ''}pointer<{element_ty}>"
            made.primitive_bitwidth, made.itemsize = 64, 8
            found = dtype._interned.setdefault(key, made)
        return found

    @property
    def ir(self):
        """The IR's pointer type (pointers to tiles exist in the language only)."""
        if self.element_ty.is_block():
            raise fail(TypeError, f"{self} is a block pointer: it has no single run-time value")
        return T.Ptr(self.element_ty.ir, self.const)

    def is_ptr(self) -> bool:
        """True."""
        return True

    def is_const(self) -> bool:
        """True when nothing may be stored through it."""
        return self.const

    @property
    def signature(self) -> str:
        """`*fp32`, or `*kfp32` for a pointer to constants."""
        return f"*{'k' if self.const else ''}{self.element_ty.signature}"

    def with_element_ty(self, element_ty: dtype) -> dtype:
        """A pointer to another type."""
        return pointer_type(element_ty, self.address_space, self.const)

    def mangle(self) -> str:
        """A short name for use inside symbols."""
        return f"P{self.element_ty.mangle()}"

    def __repr__(self):
        return self.name

    def __reduce__(self):
        return pointer_type, (self.element_ty, self.address_space, self.const)


class block_type(dtype):
    """A tile of `shape`: every axis a power of two, at most 2**20 elements.

    >>> block_type(float32, [16, 32]).numel
    512
    """

    element_ty: dtype
    shape: tuple[int, ...]
    numel: int
    nbytes: int

    def __new__(cls, element_ty: dtype, shape: Iterable[int]) -> block_type:
        shape = check_shape(shape)
        if not shape:
            raise fail(TypeError, "0d block_type is forbidden", hint="a value without axes has its element's type",
                       argument="shape")
        key = (element_ty, shape)
        found = dtype._interned.get(key)
        if found is None:
            made = object.__new__(cls)
            made.element_ty, made.shape = key
            made.numel = T.Tile(shape, element_ty.ir).numel
            made.nbytes = made.numel * (element_ty.primitive_bitwidth // 8)
            made.primitive_bitwidth, made.itemsize = element_ty.primitive_bitwidth, element_ty.itemsize
            made.name = f"<{list(shape)}, {element_ty}>"
            found = dtype._interned.setdefault(key, made)
        return found

    @property
    def ir(self):
        """The IR's tile type."""
        return T.Tile(self.shape, self.element_ty.ir)

    def is_block(self) -> bool:
        """True."""
        return True

    @property
    def scalar(self) -> dtype:
        """The type of one element."""
        return self.element_ty

    def get_block_shapes(self) -> tuple[int, ...]:
        """The shape."""
        return self.shape

    def with_element_ty(self, element_ty: dtype) -> dtype:
        """The same shape of another element."""
        return block_type(element_ty, self.shape)

    def mangle(self) -> str:
        """A short name for use inside symbols."""
        return f"{self.element_ty.mangle()}S{'_'.join(map(str, self.shape))}S"

    def __repr__(self):
        return self.name

    def __reduce__(self):
        return block_type, (self.element_ty, self.shape)


def check_shape(shape):
    """`shape` as a tuple of ints, or an error that says which axis is wrong.

    >>> check_shape([4, 100])
    Traceback (most recent call last):
    ValueError: Shape element 1 must be a power of 2
    """
    shape = tuple(shape)
    numel = 1
    dims = []
    for axis, size in enumerate(shape):
        size = getattr(size, "value", size)
        size = getattr(size, "_made_of", size)  # `n = BLOCK` is a tensor that knows its number
        if not hasattr(size, "__index__") or hasattr(size, "handle"):
            raise fail(TypeError, f"Shape element {axis} must have type `constexpr[int]`, got `{_describe(size)}`",
                       hint="block sizes are known at compile time: annotate the parameter with tl.constexpr",
                       argument="shape")
        size = int(size)
        if size <= 0 or size & (size - 1):
            above = 1 << max(size - 1, 0).bit_length()
            raise fail(ValueError, f"Shape element {axis} must be a power of 2", label=f"element {axis} is {size}",
                       hint=f"use triton.next_power_of_2({size}) = {above} and mask the tail" if size > 0 else
                       "write the size itself: none is found from the others",
                       argument="shape")
        dims.append(size)
        numel *= size
    if numel > TRITON_MAX_TENSOR_NUMEL:
        raise fail(ValueError, f"numel ({numel}) exceeds triton maximum tensor numel ({TRITON_MAX_TENSOR_NUMEL})",
                   hint="use a smaller block and let more programs, or a loop, cover the data", argument="shape")
    return tuple(dims)


def _describe(value):
    return f"constexpr[{type(value).__name__}]" if not hasattr(value, "handle") else str(value.type)


class tuple_type:
    """Types of a tuple's elements, with field names when it came from a named tuple.

    >>> tuple_type([int32, float32], ["n", "x"])
    tuple_type(n: int32, x: fp32)
    """

    types: list
    fields: list[str] | None

    def __init__(self, types: Iterable, fields: Sequence[str] | None = None):
        self.types = list(types)
        self.fields = list(fields) if fields is not None else None

    def is_tuple(self) -> bool:
        """True."""
        return True

    @property
    def name(self) -> str:
        return f"[{','.join(map(str, self.types))}]"

    def __iter__(self) -> Iterator:
        return iter(self.types)

    def __len__(self) -> int:
        return len(self.types)

    def __getitem__(self, index):
        return self.types[index]

    def __eq__(self, other):
        if isinstance(other, constexpr_type):
            return other == self
        return isinstance(other, tuple_type) and self.types == other.types and self.fields == other.fields

    def __hash__(self):
        return hash(tuple(self.types))

    def __str__(self):
        return self.name

    def __repr__(self):
        names = [f"{name}: " for name in self.fields] if self.fields else [""] * len(self.types)
        return f"tuple_type({', '.join(f'{n}{t}' for n, t in zip(names, self.types))})"


class constexpr_type:
    """The type of a compile-time value: the value itself.

    >>> constexpr_type(3) == constexpr_type(3), constexpr_type(3)
    (True, constexpr_type[3])
    """

    value: Any

    def __init__(self, value):
        self.value = value

    def is_tuple(self) -> bool:
        """False."""
        return False

    def __eq__(self, other):
        if isinstance(other, tuple_type):  # of constants: one that was made in a kernel
            parts = self.value if isinstance(self.value, tuple) else None
            return parts is not None and not other.fields and other.types == [*map(constexpr_type, parts)]
        if not isinstance(other, constexpr_type):
            return False
        if isinstance(self.value, tuple) and isinstance(other.value, tuple):
            return [*map(constexpr_type, self.value)] == [*map(constexpr_type, other.value)]
        return type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self):
        return hash(self.value)

    def mangle(self) -> str:
        """A short name for use inside symbols."""
        return f"c{self.value}"

    def __repr__(self):
        return f"constexpr_type[{self.value}]"


class tensor_descriptor_type:
    """The type of a tensor descriptor: the tile it moves, and the types of its shape and strides.

    >>> tensor_descriptor_type(block_type(float16, [64, 32])).signature
    'tensordesc<fp16[64, 32]>'
    """

    block_type: block_type
    shape_type: tuple_type
    strides_type: tuple_type

    def __init__(self, block_type: block_type, shape_type: tuple_type | None = None,
                 strides_type: tuple_type | None = None):
        rank = len(block_type.shape)
        self.block_type = block_type
        self.shape_type = shape_type or tuple_type([int32] * rank)
        self.strides_type = strides_type or tuple_type([int64] * rank)

    @property
    def signature(self) -> str:
        """How a kernel's signature names it."""
        return f"tensordesc<{self.block_type.element_ty.signature}{list(self.block_type.shape)}>"

    def is_tuple(self) -> bool:
        """False."""
        return False

    def __eq__(self, other):
        return isinstance(other, tensor_descriptor_type) and self.block_type == other.block_type \
            and self.shape_type == other.shape_type and self.strides_type == other.strides_type

    def __hash__(self):
        return hash(self.block_type)

    def __repr__(self):
        return f"tensor_descriptor<{self.block_type}>"


class const:
    """Annotation of a pointer parameter that the kernel only reads: `src: tl.const`."""


def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """The integer type of a width; one bit is a bool.

    >>> get_int_dtype(16, signed=False), get_int_dtype(64, True)
    (triton.language.uint16, triton.language.int64)
    """
    bitwidth, signed = getattr(bitwidth, "value", bitwidth), getattr(signed, "value", signed)
    return int1 if bitwidth == 1 else dtype(f"{'' if signed else 'u'}int{bitwidth}")


pi32_t = pointer_type(int32)
_FROM_IR = {ir: dtype(name) for name, (ir, _) in SCALARS.items() if ir is not None}


@functools.cache
def from_ir(ir):
    """The language's name for a type of the IR.

    >>> from_ir(T.Tile((128,), T.Ptr(T.f32)))
    <[128], pointer<fp32>>
    """
    if type(ir) is T.Tile:
        return block_type(from_ir(ir.element), ir.shape)
    if type(ir) is T.Ptr:
        return pointer_type(from_ir(ir.pointee), const=ir.const)
    return _FROM_IR[ir]


# ---------------------------------------------------------------------------------------------------------------------
# Signature strings

_SIGNATURE = {signature: dtype(name) for name, (_, signature) in SCALARS.items()}


def parse_signature(text) -> Any:
    """The type a signature string (or tuple of strings) stands for.

    >>> parse_signature("*kfp16"), parse_signature(("i32", "*fp32"))
    (const_pointer<fp16>, tuple_type(int32, pointer<fp32>))
    """
    if isinstance(text, tuple):
        return tuple_type([parse_signature(part) for part in text], getattr(text, "_fields", None))
    if text == "constexpr":
        return constexpr_type(None)
    if found := re.fullmatch(r"tensordesc<(.*?)\[([\d, ]+)\]>", text):
        element, dims = found.groups()
        return tensor_descriptor_type(block_type(parse_signature(element), [int(n) for n in dims.split(",")]))
    name = canonical(text)
    if name is not None and name.startswith("*"):
        const = name.startswith("*k")
        return pointer_type(parse_signature(name[1 + const:]), const=const)
    if name not in _SIGNATURE:
        raise fail(ValueError, f"{text!r} is not a type of a signature",
                   hint=f"use one of {', '.join(_SIGNATURE)}, `*` before it for a pointer, or `constexpr`")
    return _SIGNATURE[name]


def str_to_ty(name: str, c: Any = None) -> Any:
    """The type a signature string stands for; `c` is the value of a "constexpr".

    >>> str_to_ty("*i8", None), str_to_ty("constexpr", 3)
    (pointer<int8>, constexpr_type[3])
    """
    return constexpr_type(c) if name == "constexpr" else parse_signature(name)
