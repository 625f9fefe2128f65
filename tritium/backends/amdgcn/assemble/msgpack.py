"""MessagePack, as far as notes of code objects use it: a reader."""

from __future__ import annotations

import struct
from typing import Any

_PLAIN = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i",
            0xD3: ">q"}  # fmt: skip
_SIZED = {0xD9: ("text", 1), 0xDA: ("text", 2), 0xDB: ("text", 4), 0xC4: ("bytes", 1), 0xC5: ("bytes", 2),
          0xC6: ("bytes", 4), 0xDC: ("list", 2), 0xDD: ("list", 4), 0xDE: ("map", 2), 0xDF: ("map", 4)}  # fmt: skip


def unpack(data: bytes) -> Any:
    """The value that `data` begins with.

    >>> unpack(bytes([0x82, 0xA1, 0x61, 0x07, 0xA1, 0x62, 0x92, 0xC3, 0xCD, 0x01, 0x00]))
    {'a': 7, 'b': [True, 256]}
    """
    return _value(data, 0)[0]


def _value(data: bytes, at: int) -> tuple[Any, int]:
    """(value, where the next begins)."""
    tag = data[at]
    at += 1
    if tag in _PLAIN:
        return _PLAIN[tag], at
    if tag in _NUMBERS:
        form = struct.Struct(_NUMBERS[tag])
        return form.unpack_from(data, at)[0], at + form.size
    if tag < 0x80 or tag >= 0xE0:
        return tag if tag < 0x80 else tag - 256, at
    if tag in _SIZED:
        kind, width = _SIZED[tag]
        count, at = int.from_bytes(data[at : at + width], "big"), at + width
    elif tag < 0xC0:
        kind, count = ("text", tag & 31) if tag >= 0xA0 else ("list", tag & 15) if tag >= 0x90 else ("map", tag & 15)
    else:
        raise ValueError(f"byte {tag:#x} begins no value that tritium reads")
    return _several(data, at, kind, count)


def _several(data: bytes, at: int, kind: str, count: int) -> tuple[Any, int]:
    if kind in ("text", "bytes"):
        found = data[at : at + count]
        return found.decode() if kind == "text" else found, at + count
    items = []
    for _ in range(count if kind == "list" else 2 * count):
        item, at = _value(data, at)
        items.append(item)
    return items if kind == "list" else dict(zip(items[::2], items[1::2])), at
