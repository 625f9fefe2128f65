"""Exponentials where multiplying by a power of two is one instruction (AVX-512).

The same reduction and polynomials as `ops/expand_exp.py` writes for all targets; what takes eight integer operations
there is one here, and covers denormal and infinite results by itself. Results too small even for that are common, for
masked-off lanes hold minus infinity, and the unit takes a hundred times as long over them: they are set to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .... import ops
from ....ir import types as T
from ....ops.expand_exp import EXP, EXP2, FORMATS
from ...llvm.writer import Val, Writer, element, lanes, vector

if TYPE_CHECKING:
    from ....ir.core import Op
    from .function import Lowering

NATIVE = frozenset((name, t) for name in ("exp", "exp2") for t in (T.f32, T.f64))
_BITS = {"float": ("ps", 32), "double": ("pd", 64)}
_LIMITS = {T.f32: (-151.0, 128.0), T.f64: (-1076.0, 1024.0)}  # of exp2


def _exp(lo: Lowering, op: Op, x: Val) -> Val:
    w, t = lo.w, T.element(op.type)
    f = FORMATS[t]
    x, vanishes = _inside(w, x, f.low, f.high)
    magic = w.const(x.type, f.magic)
    n = w.binary("fsub", fma(w, x, w.const(x.type, f.log2e), magic), magic)
    r = x
    for part in f.ln2:
        r = fma(w, n, w.const(x.type, -part), r)
    return _scaled(w, _polynomial(w, r, EXP[t]), n, vanishes)


def _exp2(lo: Lowering, op: Op, x: Val) -> Val:
    w, t = lo.w, T.element(op.type)
    (x, vanishes), magic = _inside(w, x, *_LIMITS[t]), w.const(x.type, FORMATS[t].magic)
    n = w.binary("fsub", w.binary("fadd", x, magic), magic)
    return _scaled(w, _polynomial(w, w.binary("fsub", x, n), EXP2[t]), n, vanishes)


APPLY = {ops.exp: _exp, ops.exp2: _exp2}


def _inside(w: Writer, x: Val, low: float, high: float) -> tuple[Val, Val]:
    """(x, but 0 below `low` and `high` above it; where it was below). NaN passes."""
    below = w.compare("fcmp olt", x, w.const(x.type, low))
    x, top = w.select(below, w.const(x.type, 0.0), x), w.const(x.type, high)
    return w.select(w.compare("fcmp ogt", x, top), top, x), below


def fma(w: Writer, x: Val, y: Val, z: Val) -> Val:
    """x y + z, rounded once."""
    return w.intrinsic("fma", x.type, x, y, z)


def poly(w: Writer, x: Val, coefficients: Sequence[Val]) -> Val:
    """The polynomial with these coefficients, the constant one first."""
    *rest, total = coefficients
    for c in reversed(rest):
        total = fma(w, total, x, c)
    return total


def _polynomial(w: Writer, x: Val, coefficients: Sequence[float]) -> Val:
    return poly(w, x, [w.const(x.type, c) for c in coefficients])


def _scaled(w: Writer, x: Val, n: Val, vanishes: Val) -> Val:
    """x times 2^n for integral n, 0 where it `vanishes`."""
    name, bits = _BITS[element(x.type)]
    whole = min(max(bits * lanes(x.type), 128), 512)
    size = whole // bits
    t, mask = vector(size, element(x.type)), f"i{max(size, 8)}"
    full, way = f"llvm.x86.avx512.mask.scalef.{name}.{whole}", ["i32"] if whole == 512 else []
    w.declare(full, t, [t, t, t, mask, *way])
    made, stays = [], w.binary("xor", vanishes, w.const(vanishes.type, True))
    for a, b, c in zip(*[parts(w, v, size) for v in (x, n, stays)], strict=True):
        if size < 8:
            c = w.shuffle(c, w.const(c.type, False), [min(k, size) for k in range(8)])
        few = w.cast("bitcast", c, mask)
        args = ", ".join([a.typed, b.typed, f"{t} zeroinitializer", few.typed, *[f"{i} 4" for i in way]])
        made.append(w.emit(t, f"call {t} @{full}({args})", a, b, few))
    return joined(w, made, lanes(x.type))


def parts(w: Writer, x: Val, size: int) -> list[Val]:
    """The lanes of a vector or scalar in vectors of `size`; what is not there is anything."""
    n = lanes(x.type)
    if n == 1:
        return [w.splat(x, size)]
    return [x if n == size else w.shuffle(x, None, [min(k, n - 1) for k in range(start, start + size)])
            for start in range(0, n, size)]


def joined(w: Writer, parts: list[Val], n: int) -> Val:
    """The first `n` lanes of some vectors; one is a scalar."""
    size = lanes(parts[0].type)
    if n == 1:
        return w.extract(parts[0], 0)
    while len(parts) > 1:
        size *= 2
        parts = [w.shuffle(a, b, range(size)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0] if n == size else w.shuffle(parts[0], None, range(n))
