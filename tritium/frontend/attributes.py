"""`x.name`: of modules, tensors, constants and composite values, with a suggestion where there is no such name."""

from __future__ import annotations

from types import ModuleType

from ..errors import fail
from ..language.builtins import indexing
from ..language.source import spelling_hints
from ..language.types import values
from ..language.types.returned_constants import plain


def read(b, owner, wanted):
    """The attribute `wanted` of a value; a constant is its own `.value`."""
    if isinstance(owner, ModuleType):
        return _of_module(owner, wanted)
    if wanted == "type" and type(owner) is tuple:  # given to a constexpr parameter, not made in the kernel
        return values.constexpr_type(owner)
    if wanted == "value" and isinstance(owner, tuple) and values.is_constant(owner):
        return owner  # as that of any constant
    if type(owner) is not values.tensor and values.parts_of(owner) is None:
        if wanted == "value":
            return plain(owner)
        if values.is_tensors_own(owner, wanted):
            owner = values.to_tensor(b, owner)
        if wanted == "type" and not hasattr(owner, "type"):
            return values.constexpr_type(owner)
    try:
        with values.using(b):  # properties such as x.T emit ops
            return values.unwrap(getattr(owner, wanted))
    except AttributeError as missing:
        if hasattr(missing, "hint"):
            raise
        name = wanted if isinstance(owner, tuple) else repr(wanted)
        raise fail(AttributeError, f"'{type(owner).__name__}' object has no attribute {name}",
                   hint=hint(owner, wanted) or _because_constant(owner)) from None


def has(b, owner, wanted):
    """Whether a value has an attribute, known at compile time."""
    return (wanted in ("value", "type") and values.is_constant(owner)) or hasattr(owner, wanted) or \
        values.is_tensors_own(owner, wanted)


def _of_module(module, wanted):
    try:
        return values.unwrap(getattr(module, wanted))
    except AttributeError:
        raise fail(AttributeError, f"module '{module.__name__}' has no attribute '{wanted}'",
                   hint=hint(module, wanted)) from None


_OF_ARRAYS = ("dim", "ndim", "ndimension", "size", "stride", "strides")
_GROWS = ("append", "extend", "insert", "pop", "remove", "add")


def hint(owner, wanted):
    """What to write where a value has no such attribute: another spelling, or the most similar name."""
    if isinstance(owner, tuple | list) and wanted in _GROWS:
        return "a tuple never changes: bind a longer one, `t = t + [x]`, or write a list comprehension"
    if type(owner) is values.tensor and owner.dtype.is_ptr() and wanted in _OF_ARRAYS:
        return indexing.NO_SHAPE
    ours = type(owner) is values.tensor or getattr(owner, "__name__", "").startswith("tritium.language")
    return (ours and spelling_hints.instead_of(wanted)) or _closest(wanted, owner)


def _closest(wanted, owner):
    from difflib import get_close_matches  # for errors alone

    known = [name for name in dir(owner) if not name.startswith("_")]
    if isinstance(owner, ModuleType):
        known = [name for name in known if not isinstance(getattr(owner, name, None), ModuleType)]
    close = get_close_matches(wanted, known, 1, 0.6)
    return f"did you mean `{close[0]}`?" if close else None


def _because_constant(owner):
    if isinstance(owner, (int, float)):
        return (f"this is the compile-time constant {owner!r}: use tl.cast, which takes constants too, or make it a "
                f"tensor with a plain assignment: `x = {owner!r}`")
    return None
