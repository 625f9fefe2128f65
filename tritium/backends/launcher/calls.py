"""From a launch to the record of all launches like it, and from values to the 8-byte slots kernels read.

    >>> pack("i32", -1).hex(), pack("fp32", 1.0).hex(), pack("bf16", 1.0).hex()
    ('ffffffffffffffff', '0000803f00000000', '803f000000000000')
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...language.source.fingerprints import is_fixed
from ...language.types.signature import flatten
from ...tensors import is_torch_dtype
from ..driver import Call
from . import record

TensorGuard = Callable[[Any, bool | None, bool], record.Guard | None]


def form_of(call: Call, tensor: TensorGuard, stores: Sequence[int] = ()) -> dict[str, Any] | None:
    """What `record.record` wants to know of launches like this one, by keyword; None where the launcher cannot tell.

    `tensor(x, multiple, stored)` gives the guard of a pointer argument; `stores` has the numbers of the parameters that
    the kernel stores to.
    """
    if call.captured is None:
        return None
    names = tuple(param.name for param, _, _ in call.arguments)
    order = (*names[: call.positional], *call.keywords)
    given = frozenset(order)
    guards: dict[str, tuple[Any, int]] = {name: (record.constant(value), 0) for name, value in call.options.items()}
    fixed: list[tuple[int, bytes]] = []
    slot = 0
    for param, (type_, key), x in call.arguments:
        taken = len(flatten(type_))
        if param.name in given and key == 1 and type_ != "constexpr":  # an annotated 1: its own kernel, at run time
            guards[param.name] = record.constant(x), slot
            fixed.append((slot, pack(type_, x)))
        elif param.name in given:
            guards[param.name] = _guard(param, type_, key, x, tensor, param.num in stores), slot
        elif taken == 1 and isinstance(x, bool | int | float):
            fixed.append((slot, pack(type_, x)))
        elif taken or not is_fixed(x):
            return None
        slot += taken
    rows = [guards[name] for name in order]
    if any(guard is None for guard, _ in rows):
        return None
    defaults = {param.name: x for param, _, x in call.arguments if param.name not in given}
    return {"guards": [guard for guard, _ in rows], "slots": [place for _, place in rows], "fixed": fixed,
            "captured": call.captured, "keywords": call.keywords, "defaults": defaults,
            "names": tuple([name if name in names else None for name in order])}  # fmt: skip


_RANGES = {"i32": "INT32", "i64": "INT64", "u64": "UINT64"}


def _guard(param: Any, type_: Any, key: Any, x: Any, tensor: TensorGuard, stored: bool) -> record.Guard | None:
    """What an argument must look like to be specialised as `x` was; None where the launcher cannot tell."""
    if type_ == "constexpr":
        return record.constant(x)
    multiple = None if key is None or param.do_not_specialize_on_alignment else key == "D"
    if type(x) is int and not param.annotation_type and type_ in _RANGES:
        return record.integer(_RANGES[type_], multiple, not_one=not param.do_not_specialize)
    return _guard_of_type(type_, multiple, x, tensor, stored, not_one=not param.do_not_specialize)


def lookup_guard(tensor: TensorGuard) -> TensorGuard:
    """The same for calls that only compile, where a `torch.dtype` may stand for a tensor.

    >>> lookup_guard(lambda x, multiple, stored: None)(3, None, False) is None
    True
    """
    return lambda x, multiple, stored: (record.Guard("SAME", 0, x) if is_torch_dtype(x) else
                                        tensor(x, multiple, False))


def form_of_compiled(types: Sequence[Any], multiples: Sequence[int], compared: Collection[int], args: tuple,
                     tensor: TensorGuard, aligned: bool, stores: Collection[int] = (),
                     ones: Collection[int] = ()) -> dict[str, Any] | None:
    """The same of launches of a compiled kernel, whose parameters have these types and are multiples of these numbers.

    All are given by position. `compared` has the numbers of the constants that must be as they are here, `ones` those
    of run-time values that are known to be 1; `aligned` says whether addresses must be such multiples.

    >>> form_of_compiled(["i32", "constexpr"], [16, 1], [1], (32, 64), lambda *_: None, False)["guards"][0].flags
    1
    """
    guards: list[record.Guard] = []
    places: list[int] = []
    fixed: list[tuple[int, bytes]] = []
    slot = 0
    for k, (type_, x) in enumerate(zip(types, args, strict=True)):
        pointer = type_.__class__ is str and type_[0] == "*"
        multiple = multiples[k] != 1 and (aligned or not pointer)
        if multiple and multiples[k] != 16:
            return None
        if pointer and x is None:
            fixed.append((slot, bytes(8)))
            guard = record.constant(None)
        elif k in ones:
            fixed.append((slot, pack(type_, x)))
            guard = record.constant(x)
        elif type_ == "constexpr":
            guard = record.SKIP if k not in compared else record.constant(x) if x.__class__ in PLAIN else None
        else:
            guard = _guard_of_type(type_, multiple or None, x, tensor, k in stores)
        if guard is None:
            return None
        guards.append(guard)
        places.append(slot)
        slot += len(flatten(type_))
    return {"guards": guards, "slots": places, "fixed": fixed}


PLAIN = frozenset((int, float, bool, str, type(None)))  # of constants that are compared


def _guard_of_type(type_: Any, multiple: bool | None, x: Any, tensor: TensorGuard, stored: bool,
                   not_one: bool = False) -> record.Guard | None:
    """What an argument of a type must look like; None where the launcher cannot tell."""
    kind = type(x)
    if kind is bool and type_ == "u1":
        return record.BOOL
    if kind is float and type_ in ("fp32", "fp64"):
        return record.FLOAT32 if type_ == "fp32" else record.FLOAT64
    if kind is int and type_ in ("i32", "i64"):
        return record.integer("INT32" if type_ == "i32" else "ANY64", multiple, not_one)
    if kind not in (bool, int, float) and isinstance(type_, str) and type_.startswith("*"):
        return tensor(x, multiple, stored)
    return None


# -- slots -------------------------------------------------------------------------------------------------------------


def pack(type_: str, value: Any) -> bytes:
    """The slot of a value: integers and pointers extended to 64 bits, floats as their bits in the low bytes.

    >>> pack("*fp32", 4096)[:2].hex(), pack("u1", True)[0]
    ('0010', 1)
    """
    if type_ in _FLOATS:
        return _FLOATS[type_](float(value))
    if type_ == "u1":
        value = bool(value)
    return struct.pack("<Q", int(value) & (1 << 64) - 1)


def _float(code: str, value: float) -> bytes:
    try:
        return struct.pack(f"<{code}", value).ljust(8, b"\0")
    except OverflowError:  # too large for the type: as in C, infinity
        return _float(code, value * float("inf"))


def _bfloat(value: float) -> bytes:
    bits = int.from_bytes(_float("f", value)[:4], "little")
    if value == value:
        bits += 0x7FFF + (bits >> 16 & 1)  # round to nearest, ties to even
    return struct.pack("<Q", bits >> 16)


_FLOATS = {
    "fp16": functools.partial(_float, "e"), "fp32": functools.partial(_float, "f"),
    "fp64": functools.partial(_float, "d"), "bf16": _bfloat,
}  # fmt: skip
