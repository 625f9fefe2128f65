"""Signature strings: how the type of an argument is written, `*fp32`, `i32`, `tensordesc<fp16[64, 32]>`.

    >>> canonical("float32"), canonical("const *half"), canonical("uint8_t*")
    ('fp32', '*kfp16', '*u8')
"""

from __future__ import annotations

import functools
import re

# name -> what it is called in IR
SCALARS = {
    "u1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "u8", "u16": "u16", "u32": "u32",
    "u64": "u64", "fp8e5": "f8e5", "fp8e5b16": "f8e5b16", "fp8e4nv": "f8e4nv", "fp8e4b8": "f8e4b8",
    "fp8e4b15": "f8e4b15", "fp16": "f16", "bf16": "bf16", "fp32": "f32", "fp64": "f64",
}  # fmt: skip

_ALIASES = {
    "bool": "u1", "int1": "u1", "uint1": "u1", "i1": "u1", "B": "u1",
    "half": "fp16", "float16": "fp16", "bfloat16": "bf16", "float": "fp32", "float32": "fp32", "double": "fp64",
    "float64": "fp64", "int": "i32", "f16": "fp16", "f32": "fp32", "f64": "fp64",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "float8_e4m3fnuz": "fp8e4b8", "float8_e5m2fnuz": "fp8e5b16",
    **{f"float8{kind}": f"fp8{kind}" for kind in ("e5", "e5b16", "e4nv", "e4b8", "e4b15")},
}  # fmt: skip


@functools.cache
def canonical(text: str) -> str | None:
    """The one spelling of a type written in any accepted way; None where `text` is no type.

    >>> canonical("torch.bfloat16"), canonical("tl.int64"), canonical("complex64")
    ('bf16', 'i64', None)
    """
    text = text.strip()
    const = text.startswith("const") and text[5:6].isspace()
    text = text[5:].lstrip() if const else text
    # Most types are one word: patterns are compiled for the others.
    if "(" in text and (inner := re.fullmatch(r"(?:\w+\.)*pointer_type\(([\w.]+)\)", text)) is not None:
        text = f"*{inner[1]}"  # an annotation that Python kept as text
    if "*" in text and (star := re.fullmatch(r"\*\s*(k)?(.*)|(.*?)\s*\*", text, re.DOTALL)) is not None:
        pointee = canonical(star[2] if star[3] is None else star[3])
        return pointee and f"*{'k' if const or star[1] else ''}{pointee}"
    name = text.rpartition(".")[2].removesuffix("_t")
    name = _ALIASES.get(name, name)
    return name if name in SCALARS else None


def of_ir(type_) -> str:
    """The signature string of an IR type.

    >>> from tritium.ir.types import Ptr, bf16, f32, i1
    >>> of_ir(Ptr(f32)), of_ir(bf16), of_ir(i1)
    ('*fp32', 'bf16', 'u1')
    """
    pointee = getattr(type_, "pointee", None)
    if pointee is not None:
        return f"*{'k' if type_.const else ''}{of_ir(pointee)}"
    return _OF_IR[type_.name]


_OF_IR = {ir: name for name, ir in SCALARS.items()}


def parse_descriptor(text: str) -> tuple[str, tuple[int, ...]] | None:
    """Element type and block shape of a `tensordesc<...>`, None for other types.

    >>> parse_descriptor("tensordesc<fp16[64, 32]>")
    ('fp16', (64, 32))
    """
    match = re.fullmatch(r"tensordesc<(\w+)\[([\d, ]+)\]>", text)
    return (match[1], tuple(map(int, match[2].split(",")))) if match else None


def flatten(type_) -> list[str]:
    """The types of the slots one argument takes at run time: none for a constant, several for tuples and descriptors.

    A descriptor is its base pointer, its shape as i32 and its strides as i64.

    >>> flatten(("i32", "constexpr", "*fp32"))
    ['i32', '*fp32']
    >>> flatten("tensordesc<fp16[64, 32]>")
    ['*fp16', 'i32', 'i32', 'i64', 'i64']
    """
    if isinstance(type_, tuple):
        return [slot for part in type_ for slot in flatten(part)]
    if type_ == "constexpr":
        return []
    if type_.startswith("tensordesc") and (descriptor := parse_descriptor(type_)):
        element, block = descriptor
        return [f"*{element}", *["i32"] * len(block), *["i64"] * len(block)]
    return [type_]
