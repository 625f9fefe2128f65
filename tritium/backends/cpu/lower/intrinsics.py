"""LLVM's loads and stores of vectors with a mask, at neighbouring addresses or at one for each lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...llvm.writer import Val, lanes, mangle, value, vector

if TYPE_CHECKING:
    from .function import Lowering

__all__ = ["gather", "masked", "masked_gather", "scatter"]


def masked(lo: Lowering, name: str, where: str, kind: str, mask: Val, x: Val) -> Val:
    """llvm.masked.load or gather with `x` for inactive lanes; store or scatter of `x`."""
    w, reads = lo.w, name in ("load", "gather")
    full = f"llvm.masked.{name}.{mangle(x.type)}.{kind}"
    where_type = where.split(" align")[0]
    if reads:
        w.declare(full, x.type, [where_type, mask.type, x.type])
        return w.effect(f"call {x.type} @{full}({where}, {mask.typed}, {x.typed})", x.type)
    w.declare(full, "void", [x.type, where_type, mask.type])
    return w.effect(f"call void @{full}({x.typed}, {where}, {mask.typed})")


def gather(lo: Lowering, pointers: Val, t: str, align: int) -> Val:
    """One `t` from each pointer of a vector."""
    n = lanes(pointers.type)
    return masked(lo, "gather", f"<{n} x ptr> align {align} {pointers}", f"v{n}p0",
                  lo.w.const(vector(n, "i1"), True), value(vector(n, t), "poison"))


def masked_gather(lo: Lowering, pointers: Val, mask: Val, other: Val) -> Val:
    """One element from each pointer of a vector where the mask is on, `other` elsewhere."""
    n = lanes(pointers.type)
    if n == 1:
        return lo.either(mask, lambda: [lo.w.load(other.type, pointers, 1)], lambda: [other])[0]
    return masked(lo, "gather", f"<{n} x ptr> align 1 {pointers}", f"v{n}p0", mask, other)


def scatter(lo: Lowering, x: Val, pointers: Val, align: int) -> None:
    """Each lane of `x` to its pointer."""
    n = lanes(pointers.type)
    where = f"<{n} x ptr> align {align} {pointers}"
    masked(lo, "scatter", where, f"v{n}p0", lo.w.const(vector(n, "i1"), True), x)
