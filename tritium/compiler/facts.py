"""What a compilation was made for, as plain text: kept beside a compiled kernel, and compared by `tritium why`.

    >>> from tritium.kernels.vector_add import add_kernel
    >>> from tritium.backends.compiler import Options
    >>> from tritium.compiler.sources import ASTSource
    >>> types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "z_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    >>> src = ASTSource(add_kernel, types, {"BLOCK": 64}, {(0,): [["tt.divisibility", 16]]})
    >>> found = facts_of(src, "cpu:host:1", Options(num_warps=8), {})
    >>> found["arguments"]["x_ptr"], found["arguments"]["n"], found["constants"], found["options"]
    (['*fp32', 'tt.divisibility=16'], ['i32', ''], {'BLOCK': '64'}, {'num_warps': '8'})
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritium import cache
from tritium.backends.compiler import Options
from tritium.language.source.function import Source

__all__ = ["KEY", "default_option", "facts_of"]

KEY = "compiled_for"  # under which the facts stand in a kernel's file
_LONGEST = 200
_DEFAULTS = vars(Options())


def facts_of(src: Any, target: Any, options: Options, env: Mapping[str, str]) -> dict[str, Any]:
    """Source, compiler, target, arguments, constants, options and environment of a compilation.

    Options are those that are not what they usually are.
    """
    names = list(src.signature)
    return {
        "source": getattr(src.fn, "cache_key", ""), "compiler": cache.fingerprint(), "target": str(target),
        "arguments": {name: [_type(type_), _promises(src.attrs, i)]
                      for i, (name, type_) in enumerate(src.signature.items()) if type_ != "constexpr"},
        "constants": {_path(path, names): _text(value) for path, value in src.constants.items()},
        "options": {name: _text(value) for name, value in vars(options).items() if value != _DEFAULTS.get(name)},
        "environment": dict(env),
    }  # fmt: skip


def default_option(name: str) -> str:
    """The text of an option that was not set.

    >>> default_option("num_warps"), default_option("no_such_option")
    ('4', 'not set')
    """
    return _text(_DEFAULTS[name]) if name in _DEFAULTS else "not set"


def _type(type_: Any) -> str:
    return type_ if isinstance(type_, str) else f"({', '.join(map(_type, type_))})"


def _promises(attrs: Mapping[tuple, list], i: int) -> str:
    found = [f"{'.'.join(map(str, path[1:]))}{':' if path[1:] else ''}{name}={value}"
             for path, pairs in sorted(attrs.items()) if path[0] == i for name, value in pairs]
    return ",".join(found)


def _path(path: tuple, names: list[str]) -> str:
    head = names[path[0]] if path[0] < len(names) else str(path[0])
    return head + "".join(f"[{k}]" for k in path[1:])


def _text(value: Any) -> str:
    text = f"{value.__module__}.{value.__qualname__}" if isinstance(value, Source) else repr(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST - 3] + "..."
