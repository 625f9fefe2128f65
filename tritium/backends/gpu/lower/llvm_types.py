"""LLVM's names of element types."""

from __future__ import annotations

from ....ir import types as T

_NAMES = {"i1": "i1", "f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}


def llvm_type(t: T.Type) -> str:
    """LLVM's name of an element type: 8-bit floats are their codes, pointers global.

    >>> llvm_type(T.u16), llvm_type(T.Ptr(T.f32)), llvm_type(T.f8e5)
    ('i16', 'ptr addrspace(1)', 'i8')
    """
    element = T.element(t)
    if type(element) is T.Ptr:
        return "ptr addrspace(1)"
    return _NAMES.get(element.name) or f"i{element.bits}"
