"""Structs that Python and LLVM text share, each declared once: the names and the LLVM types of its fields.

    >>> POINT = Struct("point", x="i64", name="ptr", sizes="[3 x i32]")
    >>> POINT.definition
    '%point = type { i64, ptr, [3 x i32] }'
    >>> POINT.ctype(x=7, sizes=(1, 2, 3)).sizes[2], POINT.offset("name"), POINT.size
    (3, 8, 32)

Text in the notation of `notation` names fields, and `resolve` writes LLVM for it:

    field point.name of %p                        the address of a field of the struct at %p
    field point.sizes[2] of %p                    of an element of a field
    field point.name before %p                    of a field of the struct that ends at %p
    %x, %n = load x, name of point %p, align 1    several loads of fields
    sizeof(point), shift(point.name)              its bytes; the bits before a field
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

from ...locks import once_property

_SCALARS: dict[str, Any] = {
    "i8": ctypes.c_uint8, "i16": ctypes.c_uint16, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
    "double": ctypes.c_double, "ptr": ctypes.c_void_p,
}  # fmt: skip


class Struct:
    """A struct with these fields, aligned as in C: its LLVM type is `%name`, its ctypes class `ctype`.

    >>> Struct("pair", a="i32", b="i64").offset("b")
    8
    """

    def __init__(self, name: str, /, **fields: str):
        self.name, self.fields = name, fields

    @once_property
    def ctype(self) -> type[ctypes.Structure]:
        """The class of ctypes, for those who read such a struct from Python."""
        members = [(field, _ctype(kind)) for field, kind in self.fields.items()]
        return type(self.name, (ctypes.Structure,), {"_fields_": members})

    @property
    def definition(self) -> str:
        """The line of LLVM text that defines the type."""
        return f"%{self.name} = type {{ {', '.join(self.fields.values())} }}"

    @property
    def size(self) -> int:
        """Its bytes."""
        return ctypes.sizeof(self.ctype)

    def index(self, field: str) -> int:
        """The number of a field.

        >>> Struct("pair", a="i32", b="i64").index("c")
        Traceback (most recent call last):
        ValueError: struct `pair` has no field `c`; it has a, b
        """
        if field not in self.fields:
            raise ValueError(f"struct `{self.name}` has no field `{field}`; it has {', '.join(self.fields)}")
        return list(self.fields).index(field)

    def offset(self, field: str) -> int:
        """The bytes before a field."""
        self.index(field)
        return getattr(self.ctype, field).offset


def _ctype(kind: str) -> Any:
    array = re.fullmatch(r"\[(\d+) x (\w+)\]", kind) if kind[0] == "[" else None
    return _SCALARS[array[2]] * int(array[1]) if array else _SCALARS[kind]


# Text, which is compiled when it is used: most processes write no code. A pattern that begins with its own letters is
# found 30 times sooner than one that begins with a word's edge.
_FIELD = r"field (\w+)\.(\w+)(?:\[([^\]]+)\])? (of|before) ([%@][\w.]+)"
_LOADS = r"(?m)^  (%[\w.]+(?:, %[\w.]+)+) = load (\w+(?:, \w+)+) of (\w+) (%[\w.]+)(, align \d+)?$"
_NUMBER = r"(sizeof|shift)\((\w+)(?:\.(\w+))?\)"


def resolve(text: str, *structs: Struct) -> str:
    """LLVM text for a text in the notation that names fields of these structs.

    >>> pair = Struct("pair", a="i32", b="i64")
    >>> resolve("%b.p = field pair.b of %x", pair)
    '%b.p = getelementptr %pair, ptr %x, i64 0, i32 1'
    >>> print(resolve("  %b = load i64, field pair.b of %x, align 1", pair))
      %b.p = getelementptr %pair, ptr %x, i64 0, i32 1
      %b = load i64, ptr %b.p, align 1
    >>> resolve("  %a, %b = load a, b of pair %x", pair).splitlines()[1::2]
    ['  %a = load i32, ptr %a.p', '  %b = load i64, ptr %b.p']
    >>> resolve("%b.p = field pair.b before %x, i64 sizeof(pair), i64 shift(pair.b)", pair)
    '%b.p = getelementptr %pair, ptr %x, i64 -1, i32 1, i64 16, i64 64'
    >>> resolve("%a.p = field triple.a of %x", pair)
    Traceback (most recent call last):
    ValueError: no struct `triple` among pair
    """
    from .notation import expand  # not needed by those who read structs from Python

    named = {struct.name: struct for struct in structs}

    def find(name: str) -> Struct:
        if name not in named:
            raise ValueError(f"no struct `{name}` among {', '.join(named)}")
        return named[name]

    def loads(m: re.Match[str]) -> str:
        name, fields = m[3], find(m[3]).fields
        return "\n".join(f"  {x} = load {fields[field]}, field {name}.{field} of {m[4]}{m[5] or ''}"
                         for x, field in zip(m[1].split(", "), m[2].split(", "), strict=True))

    def address(m: re.Match[str]) -> str:
        element = "" if m[3] is None else f", i64 {m[3]}"
        return (f"getelementptr %{m[1]}, ptr {m[5]}, i64 {0 if m[4] == 'of' else -1}, "
                f"i32 {find(m[1]).index(m[2])}{element}")

    def number(m: re.Match[str]) -> str:
        return str(find(m[2]).size if m[1] == "sizeof" else 8 * find(m[2]).offset(m[3]))

    return re.sub(_NUMBER, number, re.sub(_FIELD, address, expand(re.sub(_LOADS, loads, text))))
