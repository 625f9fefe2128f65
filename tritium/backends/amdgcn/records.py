"""The records that kernels leave in the message buffer, as the host reads them (`isa.messages` has their form)."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

from tritium.named_tuples import NamedTuple

VARIABLE = "tritium_messages"  # the global variable that holds the buffer's address
COMMENT = "; message "  # begins a line of the LLVM text that describes a message
CLAIMED, CAPACITY, ASSERTED, HEADER = 0, 1, 2, 4  # words of the buffer's head, and how many it has


class Messages(NamedTuple):
    """What a buffer says: printed text, failed assertions as they are raised, and words that found no room."""

    printed: str
    failed: tuple[str, ...]
    lost: int


def sites_of(text: str) -> list[dict[str, Any]]:
    """The messages that LLVM text describes, by number.

    >>> sites_of('; message {"kind": "assert", "text": "no"}\\ndefine void @f()')
    [{'kind': 'assert', 'text': 'no'}]
    """
    return [json.loads(line[len(COMMENT) :]) for line in text.splitlines() if line.startswith(COMMENT)]


def empty(words: int) -> list[int]:
    """A buffer with room for `words` words of records.

    >>> empty(2)
    [0, 2, 0, 0, 0, 0]
    """
    return [0, words, 0, 0] + [0] * words


def read(buffer: Sequence[int], sites: Sequence[dict[str, Any]]) -> Messages:
    """What a buffer of words says, given the messages of the kernels that wrote it.

    >>> site = {"kind": "print", "text": " x: ", "columns": [1], "hex": False, "exponents": False, "type": "i32"}
    >>> read([6, 6, 0, 0, 1, 2, 0, 0, 3, 4294967295], [site]).printed
    'pid (2, 0, 0) idx (3) x: -1\\n'
    """
    claimed, capacity = int(buffer[CLAIMED]), int(buffer[CAPACITY])
    at, end = HEADER, HEADER + min(claimed, capacity)
    printed, failed = [], []
    while at < end and buffer[at]:
        site = sites[int(buffer[at]) - 1]
        pid, rest = tuple(map(int, buffer[at + 1 : at + 4])), at + 4
        if site["kind"] == "assert":
            failed.append(f"{site['file']}:{site['line']}: {site['function']}: program {pid}: {site['text']}")
        else:
            columns = site["columns"]
            idx = ", ".join(f"{int(x):{width}}" for x, width in zip(buffer[rest:], columns))
            rest += len(columns)
            size = _size(site["type"])
            where = f"pid ({', '.join(map(str, pid))})" + (f" idx ({idx})" if site["type"] else "")
            printed.append(f"{where}{site['text']}{_shown(buffer[rest : rest + size], site)}\n")
            rest += size
        at = rest
    return Messages("".join(printed), tuple(failed), claimed - min(claimed, capacity))


def _size(t: str | None) -> int:
    """Words of a value."""
    return 0 if t is None else 2 if t in ("ptr", "i64", "u64", "f64") else 1


def _shown(words: Sequence[int], site: dict[str, Any]) -> str:
    """A value as printf would show it."""
    t = site["type"]
    if t is None:
        return ""
    bits = int(words[0]) | (int(words[1]) << 32 if len(words) > 1 else 0)
    if t == "ptr":
        return f"0x{bits:x}"
    width = int(t[1:])
    if t[0] == "f" and (site["exponents"] or not site["hex"]):
        x = struct.unpack("<d" if width == 64 else "<f", bits.to_bytes(width // 8, "little"))[0]
        return x.hex() if site["exponents"] else f"{x:f}"
    if site["hex"]:
        return f"0x{bits & (1 << width) - 1:0{max(1, width // 4)}x}"
    if t[0] == "i":
        full = 32 * len(words)
        bits -= (bits >> full - 1) << full
        return str(bits if width > 1 else bits & 1)
    return str(bits)
