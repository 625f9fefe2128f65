"""Atomic updates while no other thread runs programs (alone.py): plain loads, arithmetic and stores of chunks.

Only if they need not be atomic for other processes (`scope="sys"`). Whatever their order with other accesses (`sem`):
nobody is there to see another one, and who runs programs later has synchronized with this thread (`tt.shared`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir import types as T
from ....ir.core import Op
from ...llvm.numbering import NumberingWriter
from ...llvm.rows import llvm_type
from ...llvm.writer import Val
from ..fuse.index import chunks, width_of
from . import loop_nests, scratch_chunks
from .function import Lowering
from .memory import Addresses, addresses_of, store_order
from .predication import Mask, mask_of
from .scratch import Buffer


def allowed(op: Op) -> bool:
    """Whether a tile may be updated without atomic instructions."""
    t = T.element(op.type)
    return bool(T.shape(op.type)) and op.attrs["scope"] != "sys" and type(t) is T.Scalar and t is not T.i1 \
        and op.attrs["how"] not in ("load", "store")


def if_alone(lo: Lowering, plain: Callable[[], None], shared: Callable[[], None]) -> None:
    """Emit both versions: `plain()` if no other thread runs programs, else `shared()`."""
    w = lo.w

    def alone():
        plain()
        w.call("void", "tt.shared")
    lo.either(w.call("i1", "tt.alone", lo.base), alone, shared)


def update(lo: Lowering, op: Op, buffer: Buffer | None, combined: Callable[[Val, Val], Val], one_by_one: bool) -> None:
    """Replace each element of a tile by `combined(old, given)`; the old values are written to `buffer` if given."""
    shape, t = T.shape(op.type), T.element(op.type)
    with chunks(shape, loop_nests.width_for(lo, shape, t), store_order(lo, [op])).each(lo) as idx:
        place, m = addresses_of(lo, op.pointer, idx, wrap=False), mask_of(lo, op.mask, idx)
        x = lo.widen(lo.ev(op.operands[1], idx), width_of(idx))
        old = _chunk(lo, t, place, m, x, combined, buffer is not None, one_by_one)
        if buffer is not None:
            scratch_chunks.write(lo, buffer, idx, old)


def _chunk(lo: Lowering, t: T.Scalar, place: Addresses, mask: Mask | None, x: Val, combined: Callable[[Val, Val], Val],
           wanted: bool, one_by_one: bool) -> Any:
    """Update a chunk; returns its old values if `wanted`."""
    w, n = lo.w, place.width
    nothing = w.const(x.type, 0)

    def full():
        old = _replace(w, t, place.pointer, x, combined)
        return [old] if wanted else []

    def each():
        old = _lanes(lo, t, place, mask, x, combined, wanted)
        return [old] if wanted else []
    if n > 1 and (one_by_one or place.kind != "contiguous"):
        made = each()
    elif mask is None:
        made = full()
    else:
        none = lambda: [nothing] if wanted else []
        made = lo.either(mask.all_lanes(lo), full, none if n == 1 or not mask.in_lanes else each)
    return made[0] if wanted else None


def _replace(w: NumberingWriter, t: T.Scalar, pointer: Val, x: Val, combined: Callable[[Val, Val], Val]) -> Val:
    """Update the chunk or element at a pointer."""
    old = w.effect(f"load {x.type}, ptr {pointer}, align {t.bytes}", x.type)
    w.store(combined(old, x), pointer, t.bytes)
    return old


def _lanes(lo: Lowering, t: T.Scalar, place: Addresses, mask: Mask | None, x: Val, combined: Callable[[Val, Val], Val],
           wanted: bool) -> Any:
    """Update the active lanes one by one: several may be the same element."""
    w, n, kind, chunk, pointers = lo.w, place.width, llvm_type(t), lo.slot("chunk"), lo.slot("pointers")
    bits = None if mask is None else mask.bits(lo)
    w.store(place.listed(), pointers, 8)
    w.store(x, chunk, t.bytes)
    with lo.loop(0, n) as loop:
        mine = w.gep(kind, chunk, loop.index)

        def lane():
            pointer = w.effect(f"load ptr, ptr {w.gep('ptr', pointers, loop.index)}, align 8", "ptr")
            given = w.effect(f"load {kind}, ptr {mine}, align {t.bytes}", kind)
            return [_replace(w, t, pointer, given, combined)]
        if bits is None:
            old, = lane()
        else:
            bit = w.cast("trunc", w.binary("lshr", bits, loop.index), "i1")
            old, = lo.either(bit, lane, lambda: [w.const(kind, 0)])
        if wanted:
            w.store(old, mine, t.bytes)
    return w.effect(f"load {x.type}, ptr {chunk}, align {t.bytes}", x.type) if wanted else None
