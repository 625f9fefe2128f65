"""The fault record of a kernel: the data that the fault handler reads (see faults.py)."""

from __future__ import annotations

import linecache
import struct
from collections.abc import Iterable

from .... import ops
from ....analysis.accesses import accesses, writes
from ....errors import arrow, innermost, outermost
from ....ir import types as T
from ....ir.core import Module, Op, walk

_MOST_PLACES = 6


def record(module: Module) -> bytes:
    """The fault record of a kernel, encoded.

    >>> from tritium.ir.text import parse_module
    >>> record(parse_module("kernel @k(%n: i32, %p: ptr<i32>) {\\n  store %p, %n\\n}"))
    b'k\\x00\\x00\\x01\\x00p\\x00\\x00\\x00\\xff\\xff'
    """
    found, parts = module.found_by(accesses), [_text(module.name), _text(_definition(module))]
    for k, arg in enumerate(module.args):
        if T.is_ptr(arg.type):
            touching = found.get(k, ())
            loads = [op for op in touching if op.kind is not ops.store]
            stores = [op for op in touching if writes(op)]
            parts += [struct.pack("<h", k), _text(arg.name), _text(_places(loads)), _text(_places(stores))]
    return b"".join((*parts, struct.pack("<h", -1)))


def _text(text: str) -> bytes:
    return text.replace("\0", "").encode(errors="replace") + b"\0"


def _definition(module: Module) -> str:
    """The line of the kernel's `def`, as reports show a place; "" if no op knows where it comes from."""
    loc = next((outermost(op.loc) for op in walk(module.body) if op.loc is not None), None)
    if loc is None:
        return ""
    lines, head, at = linecache.getlines(loc.file), f"def {loc.function}(", loc.line
    above = (n for n in range(min(loc.line, len(lines)), 0, -1) if lines[n - 1].lstrip().startswith(head))
    return arrow(loc.file, next(above, at), loc.function) + "\n"


def _places(touching: Iterable[Op]) -> str:
    """The lines of some accesses, each once."""
    locs = [innermost(op.loc) for op in touching if op.loc is not None]
    places = list(dict.fromkeys(arrow(loc.file, loc.line, loc.function) for loc in locs))
    if len(places) > _MOST_PLACES:
        places[_MOST_PLACES:] = [f"  and {len(places) - _MOST_PLACES} more"]
    return "".join(f"{place}\n" for place in places)
