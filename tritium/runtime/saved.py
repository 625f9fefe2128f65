"""A specialisation as JSON: what a cache hook is told in one process and `preload` compiles in another."""

from __future__ import annotations

import enum
import importlib
import json
import struct
from collections.abc import Callable
from typing import Any

from tritium.language.source.fingerprints import COMMON
from tritium.language.source.function import Source
from tritium.language.types import dtypes
from tritium.named_tuples import NamedTuple


class Specialization(NamedTuple):
    """Everything needed to compile a kernel again."""

    name: str
    signature: dict[str, Any]
    constants: dict[tuple[int, ...], Any]
    attrs: dict[tuple[int, ...], list]
    options: dict[str, Any]
    key: str
    target: dict[str, Any] | None = None  # backend, arch and warp_size; 3.6 does not say


def dump(data: Specialization) -> str:
    """The JSON text of a specialisation.

    >>> load(dump(Specialization("k", {"x": "*fp32"}, {(1,): dtypes.float16}, {}, {}, "key"))).constants
    {(1,): triton.language.float16}
    """
    return json.dumps({
        "name": data.name,
        "signature": {param: _encode(type_) for param, type_ in data.signature.items()},
        "constant_keys": list(data.constants), "constant_vals": list(map(_encode_constant, data.constants.values())),
        "attrs_keys": list(data.attrs), "attrs_vals": list(data.attrs.values()),
        "options": {option: _encode(value) for option, value in data.options.items()},
        "key": data.key, "target": data.target,
    }, default=str)  # fmt: skip


def load(text: str) -> Specialization:
    """The specialisation a JSON text describes."""
    data = json.loads(text)
    constants = zip(map(tuple, data["constant_keys"]), map(_decode, data["constant_vals"]))
    return Specialization(
        data["name"], {param: _decode(type_) for param, type_ in data["signature"].items()}, dict(constants),
        dict(zip(map(tuple, data["attrs_keys"]), data["attrs_vals"])),
        {option: _decode(value) for option, value in data["options"].items()}, data["key"],
        data.get("target"))  # fmt: skip


def _encode(value: Any) -> Any:
    if isinstance(value, tuple):
        return _parts(value, _encode)
    if isinstance(value, dtypes.dtype):
        return {"dtype": value.signature}
    if isinstance(value, Source):
        return {"jit_function": f"{value.module}:{value.__qualname__}"}
    return value


def _encode_constant(value: Any) -> Any:
    """A constant; what JSON does not keep as it is, is only named."""
    if value.__class__ in COMMON:
        return {"float": struct.pack(">d", value).hex()} if value != value else value
    if isinstance(value, enum.Enum):
        return {"member": [_home(type(value)), value.name]}
    if type(value) is tuple or hasattr(value, "_make"):
        return _parts(value, _encode_constant)
    if isinstance(value, dtypes.dtype | Source):
        return _encode(value)
    if type(value).__module__ == "torch" and str(value).startswith("torch."):
        return {"function": str(value).replace(".", ":", 1)}
    return {"lost": type(value).__name__}


def _parts(value: tuple, encode: Callable[[Any], Any]) -> Any:
    parts = [encode(part) for part in value]
    return {"fields": [_home(type(value)), *parts]} if hasattr(value, "_make") else {"tuple": parts}


def _home(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _refuse(name: str) -> Any:
    raise TypeError(f"a constant of type {name} cannot be carried from one process to another\n"
                    "hint: launch the kernel, or pass plain data: numbers, text, tuples, dtypes, functions")


def _decode(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kind, content = next(iter(value.items()))
    return _DECODE[kind](content)


def _find(name: str) -> Any:
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


_DECODE = {
    "tuple": lambda parts: tuple(map(_decode, parts)),
    "dtype": dtypes.parse_signature,
    "function": _find,
    "jit_function": _find,
    "member": lambda parts: _find(parts[0])[parts[1]],
    "fields": lambda parts: _find(parts[0])._make(map(_decode, parts[1:])),
    "float": lambda text: struct.unpack(">d", bytes.fromhex(text))[0],
    "lost": _refuse,
}
