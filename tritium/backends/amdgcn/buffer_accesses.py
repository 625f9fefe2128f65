"""Loads, stores and atomics through buffer resources: bounds that the hardware checks do the work of masks.

    x = load p {vector=4}, mask          ->          x = load p {vector=4, buffer=0}, mask

A buffer access takes a base that is one for the whole program, and an offset of 32 bits for each thread. Lanes that a
mask leaves out get an offset that is out of bounds: they read zeros and write nothing, without a branch. It is legal
where every offset that is not masked off lies between 0 and 2 GiB from an argument of the kernel. That follows from the
arguments and the grid, so the launcher can check it before each launch, where it does not follow from the code alone.
"""

from __future__ import annotations

from typing import Any

from ... import knobs, ops
from ...analysis.ranges import Derivations, assume
from ...ir import types as T
from ...ir.core import Arg, Module, Op, behind_views, walk
from ...ir.rewrite import annotate
from ...passes.assumed import Assumed
from .isa.atomics import has_buffer_instruction
from .isa.buffers import RECORDS

WIDEST = 16  # bytes of an access


def use_buffers(module: Module, family: str = "") -> Module:
    """Say which accesses may go through a buffer, and what it begins at: the number of an argument (`buffer`).

    Atomics may if they have a mask, and the `family` of GPUs an instruction for them.

    >>> from tritium.ir.text import parse_module
    >>> text = '''kernel @f(%p: ptr<f32>, %n: i32) {launch_checks=True} {
    ...   %0 = arange {start=0, end=64} : tile<64xi32>
    ...   %1 = splat %p {shape=(64,)} : tile<64xptr<f32>>
    ...   %2 = addptr %1, %0 : tile<64xptr<f32>>
    ...   %3 = load %2 : tile<64xf32>
    ...   store %2, %3
    ... }'''
    >>> str(use_buffers(parse_module(text))).count("buffer=0")
    2
    """
    if not knobs.amd.use_buffer_ops:
        return module
    known, assumed = module.found_by(Derivations), Assumed(module)
    found = {op: {**op.attrs, "buffer": known.arguments[base]} for op in walk(module.body)
             if _may(op, family) and (base := _base(op, known, assumed)) is not None}  # fmt: skip
    return assumed.stated_by(module.replace(annotate(module.body, found))) if found else module


def _may(op: Op, family: str) -> bool:
    """True for an access of tiles that has a buffer instruction."""
    if not op.kind.access or type(op.pointer.type) is not T.Tile:
        return False
    if op.kind.atomic:
        return op.mask is not None and has_buffer_instruction(family, op)
    return not op.attrs.get("volatile") and op.attrs.get("cache") != ".cv"


def _base(op: Op, known: Derivations, assumed: Assumed) -> Arg | None:
    """The argument that a tile of addresses counts from, if its offsets are within a buffer."""
    base = _origin(op.pointer)
    if base not in known.arguments:
        return None
    offsets = known.rows(op.pointer, op.mask)
    at = len(offsets)
    room = *offsets, ("constant", "i64", RECORDS - WIDEST), ("sub", "i64", at, at - 1)
    return base if assume([offsets, room], assumed.nonnegative) else None


def _origin(x: Any) -> Any:
    """What a tile of pointers is computed from by adding integers."""
    while True:
        x = behind_views(x)
        if type(x) is not Op or x.kind is not ops.addptr:
            return x
        x = x.operands[0]
