"""Loads and stores with small constant strides, reversed ones too: vectors and shuffles, not gathers and scatters.

Rows that are read backwards, every other element of a row, and parts of short rows come so. A gather takes a cycle a
lane at best; here lanes are picked from vectors that hold all elements between the lowest lane and the highest, and no
others: memory may end there. Lanes are at most 1 KiB apart, so every page that is touched has one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ...llvm.writer import Val, lanes, vector
from . import intrinsics

if TYPE_CHECKING:
    from ..fuse.index import Lanes
    from .function import Lowering

__all__ = ["are_near", "load", "store", "stores"]

Part: TypeAlias = "tuple[Val, dict[int, int]]"  # a vector, and which lanes of the result are in it: lane -> place
_VECTORS = 4  # at most so many are loaded for one


def are_near(pattern: Lanes) -> bool:
    """Whether lanes with these offsets are picked from few vectors.

    >>> from ..fuse.index import lanes_of
    >>> [are_near(lanes_of(offsets)) for offsets in ((0, 2, 4, 6), (0, -1, -2, -3), (0, 1, 8, 9), (0, 64, 128, 192))]
    [True, True, True, False]
    """
    return max(pattern.offsets) - min(pattern.offsets) < _VECTORS * len(pattern.offsets)


def load(lo: Lowering, pointer: Val, pattern: Lanes, t: str, align: int, beyond: bool = False,
         mask: Val | None = None) -> Val:
    """The elements at `pattern` from `pointer` on; those outside of a mask are anything. `beyond`: whole vectors may be
    read, after the last one as well."""
    n, parts, lowest = len(pattern.offsets), [], min(pattern.offsets)
    places = [offset - lowest for offset in pattern.offsets]
    for k in range(max(places) // n + 1):
        start = k * n if beyond else max(0, min(k * n, max(places) + 1 - n))  # the last one ends with the highest lane
        width = n if beyond else min(n, max(places) + 1)
        at, type = lo.offset(t, pointer, lowest + start), vector(width, t)
        if mask is None:
            x = lo.w.effect(f"load {type}, ptr {at}, align {align}", type)
        else:
            wanted = _wanted(lo, mask, places, range(start, start + width))
            x = intrinsics.masked(lo, "load", f"ptr align {align} {at}", "p0", wanted, lo.w.const(type, 0))
        parts.append((x, {lane: place - start for lane, place in enumerate(places) if place // n == k}))
    parts[:1] = parts[:1] if len(parts) > 1 else [_joined(lo, n, parts[0])]
    while len(parts) > 1:
        parts = [_joined(lo, n, *parts[k:k + 2]) for k in range(0, len(parts), 2)]
    return parts[0][0]


def _wanted(lo: Lowering, mask: Val, places: list[int], elements: range) -> Val:
    """Which elements of a vector are at the place of a lane inside the mask."""
    n, found = len(places), lo.w.lanes_of("i1", [False] * len(elements))
    lanes = [[lane for lane in range(n) if places[lane] == place] for place in elements]
    for k in range(max(map(len, lanes))):
        picks = [own[k] if k < len(own) else n for own in lanes]
        found = lo.w.binary("or", found, lo.w.shuffle(mask, lo.w.const(mask.type, False), picks))
    return found


def _joined(lo: Lowering, n: int, part: Part, other: Part | None = None) -> Part:
    """The lanes of both parts, each at its place."""
    found = part[1] | {lane: n + place for lane, place in (other[1] if other else {}).items()}
    picks: list[Any] = [found.get(lane, "poison") for lane in range(n)]
    return lo.w.shuffle(part[0], other and other[0], picks), {lane: lane for lane in found}


def stores(lo: Lowering, pattern: Lanes) -> bool:
    """Whether `store` is faster than a store for each lane: with elements between them, it needs masks."""
    span = max(pattern.offsets) - min(pattern.offsets) + 1
    return span == len(set(pattern.offsets)) == len(pattern.offsets) or lo.target.simd == "avx512"


def store(lo: Lowering, x: Val, pointer: Val, pattern: Lanes, align: int) -> None:
    """The lanes of `x` to `pattern` from `pointer` on; what is between them is not written."""
    n, lowest, t = lanes(x.type), min(pattern.offsets), x.type.partition(" x ")[2][:-1]
    lane_at = {offset - lowest: lane for lane, offset in enumerate(pattern.offsets)}  # of several, the last one wins
    for start in range(0, max(lane_at) + 1, n):
        picks: list[Any] = [lane_at.get(start + place, "poison") for place in range(n)]
        y, at = lo.w.shuffle(x, None, picks), lo.offset(t, pointer, lowest + start)
        if "poison" not in picks:
            lo.w.store(y, at, align)
        elif set(picks) != {"poison"}:
            mask = lo.w.lanes_of("i1", [pick != "poison" for pick in picks])
            intrinsics.masked(lo, "store", f"ptr align {align} {at}", "p0", mask, y)
