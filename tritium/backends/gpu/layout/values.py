"""Layouts of values in a module: an op's `layout` attribute, and the pieces of a `convert`."""

from __future__ import annotations

from typing import Any

from ....ir import types as T
from ....ir.core import Op, Result
from .linear import Layout

LARGE = 64  # registers of a tile that a thread should not try to hold all at once
# Bytes of registers for what a thread loads of a large tile before it waits for the first. Sums of products leave none.
AT_ONCE, REGISTER_BYTES = 128, 4


def layout_of(x: Any) -> Any:
    """The layout of a tile value; None for scalars."""
    if type(x) is Result:
        found = x.op.attrs.get("layout")
        return Layout(*found[x.index]) if found and found[x.index] else None
    found = x.attrs.get("layout")
    if found and type(found[0]) is not tuple:  # several results share the attribute
        raise ValueError(f"{x!r} has several layouts")
    return Layout(*found) if found and type(x.type) is T.Tile else None


def at_once(width: int, t: T.Scalar | T.Ptr) -> int:
    """How many loads of so many elements a thread issues before it waits for the first."""
    return AT_ONCE // max(REGISTER_BYTES, width * t.bytes)


def loaded_late(load: Op, dots: bool) -> int:
    """The elements that a thread loads of a large tile at once, when one of them is needed; 0 if it loads the tile
    where the op stands, as one that is no more than that. Beside dots it loads vector by vector."""
    layout, width = layout_of(load), load.attrs.get("vector") or 1
    together = width * (1 if dots else at_once(width, T.element(load.type)))
    return together if layout is not None and layout.registers >= LARGE and layout.registers > together else 0


def splitting(source: Layout, target: Layout, needed: int, room: int) -> list[int]:
    """Elements' bits by which a tile is cut into pieces that fit: each is a bit of a register's number where the tile
    goes to, and of a register's, a lane's or a warp's where it comes from. Those of a row come last: they make wide
    accesses."""
    bits, places = [], {*source.reg, *source.lane, *source.warp}
    for x in sorted(target.reg, key=lambda x: (x < source.shape[-1], x not in source.reg, -x)):
        if needed >> len(bits) <= room:
            break
        if x and x & (x - 1) == 0 and x in places:
            bits.append(x)
    return bits
