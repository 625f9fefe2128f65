"""Remainders of vectors of floats, which LLVM computes lane by lane with a function of the C library.

With q = trunc(x / y), x - q y is exact in one fused multiply-add while q is an integer that the type can hold: a
quotient that was rounded up to an integer leaves a negative rest, one y too small. Larger quotients are rare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .... import ops
from ....ir import types as T
from ...llvm.rows import elementwise
from ...llvm.writer import Val, element, lanes, vector

if TYPE_CHECKING:
    from ....ir.core import Op
    from .function import Lowering

_EXACT = {"float": 2.0 ** 24, "double": 2.0 ** 53}


def on_vectors(lo: Lowering, op: Op, x: Val) -> bool:
    """Whether `remainder` computes an op on operands such as `x`."""
    return op.kind is ops.rem and T.element(op.type) in (T.f16, T.f32, T.f64) and lanes(x.type) > 1 \
        and lo.target.has_fma


def remainder(lo: Lowering, op: Op, x: Val, y: Val) -> Val:
    """x - y trunc(x / y), with the sign of x; NaN for an infinite x and for y = 0."""
    w, narrow = lo.w, x.type
    if element(narrow) == "half":
        x, y = (w.cast("fpext", z, vector(lanes(narrow), "float")) for z in (x, y))
    kind = x.type
    size, by = (w.intrinsic("fabs", kind, z) for z in (x, y))
    quotient = w.intrinsic("trunc", kind, w.binary("fdiv", size, by))
    rest = w.intrinsic("fma", kind, w.unary("fneg", quotient), by, size)
    rest = w.select(w.compare("fcmp olt", rest, w.const(kind, 0.0)), w.binary("fadd", rest, by), rest)
    usual = w.select(w.compare("fcmp olt", size, by), x, w.intrinsic("copysign", kind, rest, x))
    infinite = w.compare("fcmp oeq", size, w.const(kind, float("inf")))
    plain = w.compare("fcmp ule", quotient, w.const(kind, _EXACT[element(kind)]))
    plain = w.binary("or", w.binary("or", plain, infinite), w.compare("fcmp oeq", by, w.const(kind, 0.0)))
    large = w.binary("xor", plain, w.const(plain.type, True))

    def by_lane() -> list[Val]:
        with lo.loop(0, lanes(kind), carry=[usual]) as loop:
            a, b = (w.extract(w.effect(f"freeze {z.typed}", kind), loop.index) for z in (x, y))
            exact = elementwise(w, ops.rem, {"float": T.f32, "double": T.f64}[element(kind)], [a, b], lo.contract)
            chosen = w.select(w.extract(large, loop.index), exact, w.extract(loop.carried[0], loop.index))
            loop.next = [w.insert(loop.carried[0], chosen, loop.index)]
        return list(loop.results)
    some = lo.any_lane(large)
    with lo.at(max(z.level for z in (some, usual, x, y))):
        found, = lo.either(some, by_lane, lambda: [usual], likely=False)
    return w.cast("fptrunc", found, narrow) if narrow != kind else found
