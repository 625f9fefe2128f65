"""What the annotation of a kernel's parameter says: constant or not, read-only pointer, a type of its own."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from tritium.errors import CompilationError
from tritium.named_tuples import NamedTuple

from .dtypes import dtype
from .signature import canonical

_PYTHON_TYPES = {int: "i32", float: "fp32", bool: "u1"}


class Declaration(NamedTuple):
    """An annotation: its text, and what that means."""

    text: str  # empty where there is none
    is_constexpr: bool  # arguments are compile-time constants
    is_const: bool  # a pointer to what the kernel only reads
    type: str  # the type it forces, empty where it does not


_NOTHING = Declaration("", False, False, "")


def declaration(annotation: Any) -> Declaration:
    """What an annotation says; one that says nothing about types forces none.

    >>> declaration("tl.constexpr").is_constexpr, declaration("*fp16").type, declaration(float).type
    (True, '*fp16', 'fp32')
    >>> declaration(list).type
    ''
    """
    if annotation is inspect.Parameter.empty:
        return _NOTHING
    return _known(annotation) if isinstance(annotation, str | type) else _declaration(annotation)


def _declaration(annotation: Any) -> Declaration:
    text = _text(annotation)
    forced = _PYTHON_TYPES[annotation] if isinstance(annotation, type) and annotation in _PYTHON_TYPES else \
        canonical(text) or ""
    return Declaration(text, "constexpr" in text, text.rpartition(".")[2] == "const", forced)


_known = functools.cache(_declaration)


def check_listed(source: Any) -> None:
    """Refuse a kernel that lists a constant among the parameters that are not to be specialised.

    >>> from tritium.kernels.vector_add import add_kernel
    >>> check_listed(add_kernel)
    """
    listed = {*getattr(source, "do_not_specialize", ()), *getattr(source, "do_not_specialize_on_alignment", ())}
    if not listed:
        return
    for k, (name, parameter) in enumerate(source.signature.parameters.items()):
        if listed & {k, name} and declaration(parameter.annotation).is_constexpr:
            node = source.parse().body[0].args.args[k]
            raise CompilationError(
                source.src, node, f"{name} is marked as constexpr and listed in do_not_specialize",
                span=source.span(node), hint="a constant is always specialised: take it off the list")


def _text(annotation: Any) -> str:
    if isinstance(annotation, dtype):
        return annotation.signature
    # With `from __future__ import annotations`, an annotation that is a string comes in its quotes.
    return annotation.strip("'\"") if isinstance(annotation, str) else getattr(annotation, "__name__", repr(annotation))
