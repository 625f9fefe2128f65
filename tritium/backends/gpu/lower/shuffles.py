"""Conversions between layouts by shuffles: a warp's lanes read each other's registers, without shared memory.

Some bits of a tile are register bits before and lane bits behind (`leaving`), as many the other way round (`coming`).
Words that differ in leaving bits are for different lanes, so each lane sends them in an order of its own, as many
rounds as there are such words, and puts what arrives into its order. Which of two words comes first is a select by a
bit of the lane's number.

Tensor cores have a product of 8-bit floats that becomes an operand in such a layout: scores of attention.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir import types as T
from ...llvm.writer import Val
from ..layout.linear import Layout, conversion, log2
from .function import Lowering, llvm_type
from .shared_memory import passes, plan
from .words import pack_words, unpack_word


def shuffled(source: Layout, to: Layout, size: int, barriers: int) -> tuple[Layout, Layout] | None:
    """(source, result) of a conversion by shuffles with their registers in order: bits of a word, bits that stay, bits
    that leave or come. None where shared memory is cheaper, with `barriers` instructions for its two, or a tile lies
    several times in a warp.

    >>> source = Layout((32,), (1, 8, 16), (2, 4), ())
    >>> shuffled(source, Layout((32,), (1, 2, 16), (4, 8), ()), 1, 64)
    (Layout((32,), reg=(1, 16, 8), lane=(2, 4), warp=()), Layout((32,), reg=(1, 16, 2), lane=(4, 8), warp=()))
    """
    if size > 4 or conversion(source, to) != "lanes" or not (_plain(source) and _plain(to)):
        return None
    stays = sorted((x for x in source.reg if x in to.reg), key=to.reg.index)
    leaving, coming = ([x for x in a.reg if x not in b.reg] for a, b in ((source, to), (to, source)))
    inside = log2(4 // size)
    if len(stays) < inside or _cost(source, len(leaving), inside) > _shared_cost(source, to, size) + barriers:
        return None
    return source._replace(reg=(*stays, *leaving)), to._replace(reg=(*stays, *coming))


def _plain(layout: Layout) -> bool:
    """Whether every place of a warp holds another element, and each of its bits is a bit of the tile."""
    images = (*layout.reg, *layout.lane)
    return all(x and not x & (x - 1) for x in images) and len({*images}) == len(images)


def _cost(source: Layout, leaving: int, inside: int) -> int:
    """Instructions of a warp: a word is packed, sent, unpacked and packed again, and selected before and behind."""
    return (source.registers >> inside) * (4 + 2 * leaving)


def _shared_cost(source: Layout, to: Layout, size: int) -> int:
    """The same for accesses of shared memory; a conflict of banks keeps others waiting, too."""
    images = plan(source, to, size)
    return sum(passes(x, images, size)[0] for x in (source, to))


def shuffle(g: Lowering, t: T.Scalar | T.Ptr, x: Sequence[Val], source: Layout, to: Layout,
            found: tuple[Layout, Layout]) -> list[Val]:
    """A tile in another layout, as `shuffled` found it."""
    first, made = found
    words = pack_words(g, [x[r] for r in source.registers_in(first)])
    came_for = {a: b for a, b in zip(first.reg, made.reg) if a != b}  # leaving -> coming
    senders = [first.lane.index(b) for b in came_for.values()]
    lane = g.spread([1 << first.lane.index(came_for.get(e, e)) for e in made.lane], "lane")  # who sends in round 0
    count = len(words) >> len(senders)
    rounds = _ordered(g, [words[k : k + count] for k in range(0, len(words), count)], senders)
    for k, sent in enumerate(rounds):
        bits = sum(1 << bit for j, bit in enumerate(senders) if k >> j & 1)
        sender = g.w.binary("xor", lane, g.int(bits)) if bits else lane
        rounds[k] = [g.target.shuffle(g, word, "from", sender) for word in sent]
    rounds = _ordered(g, rounds, [made.lane.index(a) for a in came_for])
    out = [y for part in rounds for word in part for y in unpack_word(g, word, llvm_type(t))]
    return [out[r] for r in made.registers_in(to)]


def _ordered(g: Lowering, parts: list[list[Val]], bits: Sequence[int]) -> list[list[Val]]:
    """Part k ^ n in place k, where n is the number that these bits of the lane's number are."""
    w, parts = g.w, [*parts]
    for j, bit in enumerate(bits):
        swaps = w.compare("icmp ne", g.spread([0] * bit + [1], "lane"), g.int(0))
        for k in range(len(parts)):
            if not k >> j & 1:
                a, b = parts[k], parts[k | 1 << j]
                parts[k] = [w.select(swaps, y, x) for x, y in zip(a, b)]
                parts[k | 1 << j] = [w.select(swaps, x, y) for x, y in zip(a, b)]
    return parts
