"""Conversions between layouts by exchanges of registers between two halves of a warp, without shared memory.

Layouts that differ in which bits of a tile are bits of registers and which of lanes are converted into each other by
transpositions: for a bit of registers and a bit of lanes, the lanes with that bit set give what their even registers
have for what the other lanes' odd registers have. One instruction does it for two words.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir import types as T
from ...llvm.writer import Val
from ..layout.linear import Layout, conversion, log2
from ..target import Target
from .function import Lowering, llvm_type
from .words import pack_words, unpack_word


def exchanges(target: Target, source: Layout, to: Layout, size: int) -> tuple[list[int], Layout, Layout] | None:
    """The exchange that turns one layout into another, None if the target has none: (bits of lanes to exchange with the
    last bits of registers in turn, source with its registers in order, the layout that results).

    >>> from types import SimpleNamespace
    >>> gpu = SimpleNamespace(exchange=print, exchange_bits=(2,))
    >>> order, _, made = exchanges(gpu, Layout((16,), (1, 4), (0, 8, 2), ()), Layout((16,), (1, 2), (0, 8, 4), ()), 2)
    >>> order, made
    ([2], Layout((16,), reg=(1, 2), lane=(0, 8, 4), warp=()))
    """
    if target.exchange is None or size > 4 or conversion(source, to) != "lanes":
        return None
    wrong = [k for k, (x, y) in enumerate(zip(source.lane, to.lane)) if x != y]
    if not wrong or not {*wrong} <= {*target.exchange_bits}:
        return None
    return _steps(source, to, wrong, log2(4 // size))


def _steps(source: Layout, to: Layout, wrong: list[int], inside: int) -> tuple[list[int], Layout, Layout] | None:
    """As `exchanges`: one register bit, which is no part of a word, takes part in all."""
    for start in source.reg:
        lane, order, held = list(source.lane), [], start
        while todo := [k for k in wrong if lane[k] != to.lane[k]]:
            k = next((k for k in todo if to.lane[k] == held), None)
            if k is None:
                break
            lane[k], held = held, lane[k]
            order.append(k)
        if todo:
            continue
        kept = [x for x in source.reg if x != start]
        made = Layout(source.shape, (*kept, held), tuple(lane), source.warp)
        if len(kept) >= inside and conversion(made, to) in ("same", "registers"):
            return order, source._replace(reg=(*kept, start)), made
    return None


def exchange(g: Lowering, t: T.Scalar | T.Ptr, x: Sequence[Val], source: Layout, to: Layout,
             found: tuple[list[int], Layout, Layout]) -> list[Val]:
    """A tile in another layout, as `exchanges` found it."""
    order, first, made = found
    words = pack_words(g, [x[r] for r in source.registers_in(first)])
    half = len(words) // 2
    low, high = words[:half], words[half:]
    assert g.target.exchange is not None
    for bit in order:
        pairs = [g.target.exchange(g, a, b, bit) for a, b in zip(low, high)]
        low, high = [a for a, _ in pairs], [b for _, b in pairs]
    out = [y for word in (*low, *high) for y in unpack_word(g, word, llvm_type(t))]
    return [out[r] for r in made.registers_in(to)]
