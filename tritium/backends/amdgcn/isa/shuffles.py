"""What lanes of a warp hand to each other.

Lanes whose numbers differ in the lowest four bits are in a row, and a move reads across it by itself (DPP): LLVM joins
the move with the operation that uses it. Farther lanes are reached by a permutation of rows where the architecture has
one, by a swizzle or by an address of a lane; the last two go through the unit of shared memory, but not through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...gpu.layout.linear import log2
from ...gpu.lower.words import through_words
from .threads import CONVERGENT

if TYPE_CHECKING:
    from ...llvm.writer import Val
    from .target import AmdLowering

ROW = 16
_HALF_MIRROR, _MIRROR, _ROTATE, _XMASK = 0x141, 0x140, 0x120, 0x160  # controls of DPP


def shuffle(g: AmdLowering, x: Val, how: str, lane: int | Val) -> Val:
    """The value of the lane of that number, or ("xor") whose number differs by these bits."""
    w = g.w
    if isinstance(lane, str):
        source = w.binary("xor", g.place("lane"), lane) if how == "xor" else lane
        at = w.binary("shl", source, g.int(2))
        return through_words(g, x, lambda word: _permute(g, word, at))
    if how == "from":
        return through_words(g, x, lambda word: _call(g, "readlane.i32", word, g.int(lane)))
    return through_words(g, x, lambda word: _exchange(g, word, lane))


def _exchange(g: AmdLowering, word: Val, mask: int) -> Val:
    """The word of the lane whose number differs by `mask`."""
    rest = mask % ROW
    if mask == rest:
        return _in_row(g, word, mask)
    if g.target.generation >= 10:
        return _other_row(g, word, rest)
    if g.target.family == "cdna4" and mask in (ROW, 2 * ROW):
        return _swapped(g, word, mask)
    if mask < 2 * ROW:
        return _call(g, "ds.swizzle", word, g.int(mask << 10 | 31))
    at = g.once(("other lane", mask), lambda: g.w.binary(
        "shl", g.w.binary("xor", g.place("lane"), g.int(mask)), g.int(2)))
    return _permute(g, word, at)


def _in_row(g: AmdLowering, word: Val, mask: int) -> Val:
    if g.target.generation >= 10:
        return _dpp(g, word, _quads(mask) if mask < 4 else _XMASK | mask)
    for control in controls(mask):
        word = _dpp(g, word, control)
    return word


def controls(mask: int) -> list[int]:
    """The moves that, one after the other, read from the lane of a row whose number differs by `mask`: on GCN and CDNA.

    >>> [hex(control) for control in controls(4)]
    ['0x141', '0x1b']
    """
    if mask == ROW - 1:
        return [_MIRROR]
    out = [_ROTATE | 8] if mask & 8 else []
    if mask & 4:
        out.append(_HALF_MIRROR)  # the other one of eight: all three bits differ
        mask ^= 3
    return out + ([_quads(mask & 3)] if mask & 3 else [])


def _quads(mask: int) -> int:
    """The control that reads from the lane of four whose number differs by `mask`."""
    return sum((k ^ mask) << 2 * k for k in range(4))


def _dpp(g: AmdLowering, word: Val, control: int) -> Val:
    name = "llvm.amdgcn.update.dpp.i32"
    g.w.declare(name, "i32", ["i32", "i32", "i32 immarg", "i32 immarg", "i32 immarg", "i1 immarg"], CONVERGENT)
    return g.w.effect(f"call i32 @{name}(i32 poison, {word.typed}, i32 {control}, i32 15, i32 15, i1 true)", "i32")


def _other_row(g: AmdLowering, word: Val, mask: int) -> Val:
    """Of the other row of two, the lane whose number differs by `mask` in its row: four bits for each lane say it."""
    low, high = (sum((k ^ mask) << 4 * (k % 8) for k in part) for part in (range(8), range(8, 16)))
    low, high = (x - (x >> 31 << 32) for x in (low, high))
    name = "llvm.amdgcn.permlanex16.i32"
    g.w.declare(name, "i32", ["i32", "i32", "i32", "i32", "i1 immarg", "i1 immarg"], CONVERGENT)
    text = f"call i32 @{name}(i32 poison, {word.typed}, i32 {low}, i32 {high}, i1 true, i1 false)"
    return g.w.effect(text, "i32")


def _swapped(g: AmdLowering, word: Val, size: int) -> Val:
    """Groups of lanes trade places: one result has those of even groups twice, the other those of odd ones."""
    even, odd = exchange(g, word, word, log2(size))
    bit = g.w.binary("and", g.place("lane"), g.int(size))
    return g.w.select(g.w.compare("icmp ne", bit, g.int(0)), even, odd)


def exchange(g: AmdLowering, x: Val, y: Val, bit: int) -> tuple[Val, ...]:
    """(x, y), after lanes with this bit of their number set gave their x for the y of lanes without it: CDNA 4."""
    w, name = g.w, f"llvm.amdgcn.permlane{1 << bit}.swap"
    w.declare(name, "{ i32, i32 }", ["i32", "i32", "i1 immarg", "i1 immarg"], CONVERGENT)
    both = w.effect(f"call {{ i32, i32 }} @{name}({x.typed}, {y.typed}, i1 false, i1 false)", "{ i32, i32 }")
    return tuple(w.effect(f"extractvalue {both.typed}, {k}", "i32") for k in range(2))


def _permute(g: AmdLowering, word: Val, at: Val) -> Val:
    """The word of the lane at this byte address of the lanes' words."""
    return _call(g, "ds.bpermute", at, word)


def _call(g: AmdLowering, name: str, *arguments: Val) -> Val:
    return g.w.call("i32", f"llvm.amdgcn.{name}", *arguments, attributes=CONVERGENT)
