"""Copy engines: what passes ask about the target's, and what the host is told about the tensors it moves boxes of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ... import ops
from ...ir import types as T
from .analysis.affine import ENDLESS, limits
from .analysis.polynomial import Poly


class Engine(NamedTuple):
    """What the target says of its copy engine.

    fits(tile, axis, access): it can move this tile.   room: bytes of shared memory for rings of buffers.
    warps(number, columns): how many warps come behind so many to have one of them copy, and the registers of a thread:
    at first, of theirs, of the others'. `columns` are those of the widest dot.
    describe(tile, axis, access, blocks): element type, box and swizzle of its map, as the host is told; `blocks` bring
    it together.
    combines(how, element): it can update memory by this atomic operation.   maps: how many a kernel may have.
    divides(tile, axis, blocks): so many blocks of a cluster can bring a part of this tile each.
    """

    fits: Callable
    room: int
    warps: Callable
    describe: Callable
    combines: Callable
    maps: int
    divides: Callable


def recipe(engine, arguments, tile, axis, access, blocks=1):
    """What the host must know to describe the tensor of an access that so many blocks bring together; numbers as sums
    of (factor, arguments)."""
    element, boxes, swizzle = engine.describe(tile, axis, access, blocks)
    return (element, *span(arguments, tile, access), boxes, swizzle)


def span(arguments, tile, access):
    """Where the tensor of an access lies: bytes of an element, base argument, offset, and sides, as in a recipe."""
    numbers = {x: k for k, x in enumerate(arguments)}
    spell = lambda poly: tuple((c, tuple(sorted(numbers[x] for x in m))) for m, c in poly.terms.items())
    sides = tuple((spell(Poly.of(ENDLESS) if s.size is None else s.size), spell(s.stride)) for s in access.sides)
    return (tile.element.bytes, numbers[access.base], spell(access.offset), sides)


def reached(b, access, starts, sure=False, from_zero=False):
    """i1: the engine moves what the language says; None if it always does. `starts` are the box's, as i64.

    It takes 32-bit coordinates, which need not be looked at if it is `sure` of them; with `from_zero`, none that are
    negative. What lies outside of the tensor it reads as zeros, and does not write.
    """
    out = None
    for side, start in zip(access.sides, starts):
        least, most = limits(side, from_zero)
        number = side.start.number
        if number is not None and least <= number <= most:
            continue
        looked_at = [] if sure and least else [(ops.ge, least)]
        looked_at += [] if sure else [(ops.le, most)]
        for compare, limit in looked_at:
            fine = compare(b, start, ops.constant(b, value=limit, type=T.i64))
            out = fine if out is None else ops.and_(b, out, fine)
    return out


def by_element(b, access, shape, spell):
    """What it takes to move a tile of this shape element by element: (where its first element lies; step, low and high
    of each axis, then start and modulus of those that wrap; which do). `spell` writes a polynomial as an i64."""
    form, bounds = access.form, access.limits
    out, wraps = [], tuple(bool(axis.wrap) for axis in form.axes)
    for k, axis in enumerate(form.axes):
        lows = [spell(low) for n, low, _ in bounds if n == k and low is not None]
        highs = [spell(high) for n, _, high in bounds if n == k and high is not None]
        out += [spell(axis.step), *(lows[:1] or [spell(Poly())]), *(highs[:1] or [spell(Poly.of(shape[k]))])]
    for start, modulus, kind in (axis.wrap for axis in form.axes if axis.wrap):
        wide = spell(start), spell(modulus)
        out += wide if kind.bits == 64 else [ops.cast(b, x, to=kind) for x in wide]
    return ops.addptr(b, access.base, spell(form.offset)), out, wraps


__all__ = ["Engine", "by_element", "reached", "recipe", "span"]
