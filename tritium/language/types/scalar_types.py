"""The types of numbers: `tl.float32`, `tl.int8`, and their properties. Types are interned, so `is` and `==` agree.

    >>> float32, dtype("bf16") is bfloat16
    (triton.language.float32, True)
"""

from __future__ import annotations

import enum
from typing import ClassVar

from tritium.errors import fail
from tritium.ir import types as T

__all__ = [
    "SCALARS", "bfloat16", "dtype", "float8e4b8", "float8e4b15", "float8e4nv", "float8e5", "float8e5b16", "float16",
    "float32", "float64", "int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "void",
]  # fmt: skip

# name in the language -> (type in the IR, string in a signature)
SCALARS = {
    "int1": (T.i1, "u1"),
    "int8": (T.i8, "i8"), "int16": (T.i16, "i16"), "int32": (T.i32, "i32"), "int64": (T.i64, "i64"),
    "uint8": (T.u8, "u8"), "uint16": (T.u16, "u16"), "uint32": (T.u32, "u32"), "uint64": (T.u64, "u64"),
    "fp8e5": (T.f8e5, "fp8e5"), "fp8e5b16": (T.f8e5b16, "fp8e5b16"), "fp8e4nv": (T.f8e4nv, "fp8e4nv"),
    "fp8e4b8": (T.f8e4b8, "fp8e4b8"), "fp8e4b15": (T.f8e4b15, "fp8e4b15"),
    "fp16": (T.f16, "fp16"), "bf16": (T.bf16, "bf16"), "fp32": (T.f32, "fp32"), "fp64": (T.f64, "fp64"),
    "void": (None, "void"),
}  # fmt: skip


class dtype:
    """The type of a number. `tl.dtype("fp32") is tl.float32`.

    >>> dtype("fp16").primitive_bitwidth, dtype("int8").is_int_signed(), str(dtype("bf16"))
    (16, True, 'bf16')
    """

    name: str
    ir: T.Type | None
    primitive_bitwidth: int
    itemsize: int
    int_bitwidth: int
    int_signedness: SIGNEDNESS
    fp_mantissa_width: int
    exponent_bias: int

    SINT_TYPES: ClassVar[list[str]] = ["int8", "int16", "int32", "int64"]
    UINT_TYPES: ClassVar[list[str]] = ["int1", "uint8", "uint16", "uint32", "uint64"]
    STANDARD_FP_TYPES: ClassVar[list[str]] = ["fp16", "bf16", "fp32", "fp64"]
    FP_TYPES: ClassVar[list[str]] = ["fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", *STANDARD_FP_TYPES]
    OTHER_TYPES: ClassVar[list[str]] = ["void"]

    class SIGNEDNESS(enum.Enum):
        SIGNED = 0
        UNSIGNED = 1

    class KIND(enum.Enum):
        BOOLEAN = 0
        INTEGRAL = 1
        FLOATING = 2

    _interned: ClassVar[dict] = {}

    def __new__(cls, name: str) -> dtype:
        name = getattr(name, "value", name)  # a constexpr string
        found = dtype._interned.get(name)
        if found is None:
            if name not in SCALARS:
                raise fail(ValueError, f"{name!r} is not a dtype", hint=f"use one of {', '.join(SCALARS)}")
            made = object.__new__(cls)
            made._fill(name)
            found = dtype._interned.setdefault(name, made)  # the first of several threads decides
        return found

    def _fill(self, name):
        self.name = name
        self.ir = ir = SCALARS[name][0]
        self.primitive_bitwidth = ir.bits if ir else 0
        self.itemsize = self.primitive_bitwidth // 8
        if ir is not None and ir.is_float:
            self.fp_mantissa_width, self.exponent_bias = ir.mantissa, ir.bias
        elif ir is not None:
            self.int_bitwidth = ir.bits
            self.int_signedness = dtype.SIGNEDNESS.SIGNED if ir.signed else dtype.SIGNEDNESS.UNSIGNED

    # What `is_fp16()` and the like answer: one method for each name, made below the class.

    def is_fp8(self) -> bool:
        """True for the five 8-bit float types."""
        return "fp8" in self.name

    def is_floating(self) -> bool:
        """True for every float type."""
        return self.name in dtype.FP_TYPES

    def is_standard_floating(self) -> bool:
        """True for fp16, bf16, fp32 and fp64."""
        return self.name in dtype.STANDARD_FP_TYPES

    def is_int_signed(self) -> bool:
        """True for int8 to int64."""
        return self.name in dtype.SINT_TYPES

    def is_int_unsigned(self) -> bool:
        """True for int1 and uint8 to uint64."""
        return self.name in dtype.UINT_TYPES

    def is_int(self) -> bool:
        """True for integers and bool."""
        return self.is_int_signed() or self.is_int_unsigned()

    def is_bool(self) -> bool:
        """True for int1."""
        return self.name == "int1"

    def is_void(self) -> bool:
        """True for the type of what has no value."""
        return self.name == "void"

    def is_block(self) -> bool:
        """True for types of tiles."""
        return False

    def is_ptr(self) -> bool:
        """True for pointers (not for tiles of pointers)."""
        return False

    def is_const(self) -> bool:
        """True for pointers that may not be stored through."""
        return False

    def is_tuple(self) -> bool:
        """True for types of tuples."""
        return False

    @staticmethod
    def is_dtype(name: str) -> bool:
        """Whether a string names a dtype.

        >>> dtype.is_dtype("fp32"), dtype.is_dtype("float")
        (True, False)
        """
        return name in SCALARS

    def kind(self) -> KIND:
        """BOOLEAN, INTEGRAL or FLOATING: the order of promotion."""
        if self.is_bool():
            return dtype.KIND.BOOLEAN
        if self.is_int():
            return dtype.KIND.INTEGRAL
        if self.is_floating():
            return dtype.KIND.FLOATING
        raise fail(TypeError, f"{self} is not a type of numbers")

    def get_int_max_value(self) -> int:
        """The largest value of an integer type."""
        return (1 << (self.int_bitwidth - self.is_int_signed())) - 1

    def get_int_min_value(self) -> int:
        """The smallest value of an integer type."""
        return -(1 << (self.int_bitwidth - 1)) if self.is_int_signed() else 0

    @property
    def scalar(self) -> dtype:
        """The type of one element: itself."""
        return self

    def with_element_ty(self, element_ty: dtype) -> dtype:
        """The type with its element exchanged."""
        return element_ty

    def codegen_name(self) -> str:
        """The name as an attribute of `tl`: float32 for fp32."""
        return {"f": "float" + self.name[2:], "b": "bfloat" + self.name[2:]}.get(self.name[0], self.name)

    def mangle(self) -> str:
        """A short name for use inside symbols."""
        if self.is_int():
            return f"{'i' if self.is_int_signed() else 'u'}{self.int_bitwidth}"
        return "V" if self.is_void() else str(self)

    @property
    def cache_key_part(self) -> str:
        """What stands for the type in cache keys."""
        return str(self)

    @property
    def signature(self) -> str:
        """The string that names the type in a kernel's signature: `i32`, `*fp16`."""
        return SCALARS[self.name][1]

    def __eq__(self, other):
        return self is getattr(other, "value", other)

    def __hash__(self):
        return hash(self.name)

    def __str__(self):
        return self.name

    def __repr__(self):
        return f"triton.language.{self.codegen_name()}"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return dtype, (self.name,)


def _is_named(name):
    def is_named(self) -> bool:
        return self.name == name
    is_named.__name__ = f"is_{name}"
    is_named.__doc__ = f"True for {name}."
    return is_named


for _name in SCALARS:
    if _name not in ("void",):
        setattr(dtype, f"is_{_name}", _is_named(_name))

void = dtype("void")
int1, int8, int16, int32, int64 = (dtype(f"int{n}") for n in (1, 8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (dtype(f"uint{n}") for n in (8, 16, 32, 64))
float8e5, float8e5b16, float8e4nv = dtype("fp8e5"), dtype("fp8e5b16"), dtype("fp8e4nv")
float8e4b8, float8e4b15 = dtype("fp8e4b8"), dtype("fp8e4b15")
float16, bfloat16, float32, float64 = dtype("fp16"), dtype("bf16"), dtype("fp32"), dtype("fp64")
