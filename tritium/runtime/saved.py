"""A specialisation as JSON: what a cache hook is told in one process and `preload` compiles in another."""

from __future__ import annotations

import importlib
import json
from typing import Any, NamedTuple

from tritium.language import dtypes
from tritium.language.source import Source


class Specialization(NamedTuple):
    """Everything needed to compile a kernel again."""

    name: str
    signature: dict[str, Any]
    constants: dict[tuple[int, ...], Any]
    attrs: dict[tuple[int, ...], list]
    options: dict[str, Any]
    key: str


def dump(data: Specialization) -> str:
    """The JSON text of a specialisation.

    >>> load(dump(Specialization("k", {"x": "*fp32"}, {(1,): dtypes.float16}, {}, {}, "key"))).constants
    {(1,): triton.language.float16}
    """
    return json.dumps({
        "name": data.name,
        "signature": {param: _encode(type_) for param, type_ in data.signature.items()},
        "constant_keys": list(data.constants), "constant_vals": [_encode(value) for value in data.constants.values()],
        "attrs_keys": list(data.attrs), "attrs_vals": list(data.attrs.values()),
        "options": {option: _encode(value) for option, value in data.options.items()},
        "key": data.key,
    }, default=str)  # fmt: skip


def load(text: str) -> Specialization:
    """The specialisation a JSON text describes."""
    data = json.loads(text)
    constants = zip(map(tuple, data["constant_keys"]), map(_decode, data["constant_vals"]))
    return Specialization(
        data["name"], {param: _decode(type_) for param, type_ in data["signature"].items()}, dict(constants),
        dict(zip(map(tuple, data["attrs_keys"]), data["attrs_vals"])),
        {option: _decode(value) for option, value in data["options"].items()}, data["key"])  # fmt: skip


def _encode(value: Any) -> Any:
    if isinstance(value, tuple):
        return {"tuple": [_encode(part) for part in value]}
    if isinstance(value, dtypes.dtype):
        return {"dtype": value.signature}
    if isinstance(value, Source):
        return {"function": f"{value.module}:{value.__qualname__}"}
    return value


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
}
