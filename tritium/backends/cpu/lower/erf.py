"""The error function where a permutation picks any of 32 numbers for each lane (AVX-512).

From 3/16 on, |x| has a center c nearby where erf(c) is nearly an f32: erf(x) is that plus a polynomial in x - c.
Up to there it is x plus a polynomial times x. The polynomials for all targets (ops/expand_erf.py) need twice the
instructions and are off by 1 unit in the last place at most, this is by 0.9.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from .... import ops
from ....ir import types as T
from ...llvm.writer import Val, lanes
from .exp import fma, joined, parts, poly

if TYPE_CHECKING:
    from ....ir.core import Op
    from .function import Lowering

NATIVE = frozenset((("erf", T.f32),))
_NEAR, _END = 0.1875, 3.93
_STEPS = 8  # centers for each 1
_CENTERS = (0.2499997169, 0.3750005364, 0.4999999404, 0.6250037551, 0.7499966025, 0.8749971986, 0.9999991059,
            1.125006318, 1.250001311, 1.375003457, 1.500004649, 1.62500751, 1.749994636, 1.874999166, 2.000015497,
            2.124991417, 2.250010967, 2.374978065, 2.499986887, 2.624980927, 2.750015736, 2.874973536, 2.999836206,
            3.125036478, 3.250385761, 3.37714386, 3.505252123, 3.623705149, 3.74392128, 3.832506895)
_SMALL = (0.12837916612625122, 1.2134333018912002e-06, -0.3761826455593109, 0.0007912166765891016, 0.10910317301750183)


@functools.cache
def _rows() -> list[tuple[float, ...]]:
    """For each place of a center: the center c, erf(c), and the coefficients of the polynomial: Taylor's, the sixth put
    into others by Chebyshev's polynomial of degree 5.

    >>> [round(y, 2) for y in _rows()[8]]
    [1.0, 0.84, 0.42, -0.42, 0.14, 0.07, -0.07]
    """
    rows: list[tuple[float, ...]] = [(0.0, 0.0, *_SMALL)] * 2
    for c in _CENTERS:
        derivatives = [1.0, -2 * c]  # of exp(-x^2), divided by it
        for n in range(1, 5):
            derivatives.append(-2 * c * derivatives[n] - 2 * n * derivatives[n - 1])
        slope, far = 2 / math.sqrt(math.pi) * math.exp(-c * c), 0.5 / _STEPS
        *p, last = (slope * d / math.factorial(n + 1) for n, d in enumerate(derivatives))
        rows.append((c, math.erf(c), p[0], p[1] - last * far ** 4 * 5 / 16, p[2], p[3] + last * far ** 2 * 5 / 4, p[4]))
    return rows


def _erf(lo: Lowering, op: Op, x: Val) -> Val:
    return joined(lo.w, [_chunk(lo, part) for part in parts(lo.w, x, 16)], lanes(x.type))


def _chunk(lo: Lowering, x: Val) -> Val:
    w, t, i = lo.w, x.type, "<16 x i32>"
    a, end = w.intrinsic("fabs", t, x), w.const(t, _END)
    a = w.select(w.compare("fcmp ogt", a, end), end, a)
    places = w.cast("bitcast", fma(w, a, w.const(t, float(_STEPS)), w.const(t, 1.5 * 2.0 ** 23)), i)
    w.declare("llvm.x86.avx512.vpermi2var.ps.512", t, [t, i, t])

    def picked(column: int) -> Val:
        low, high = (w.lanes_of("float", [row[column] for row in half]) for half in (_rows()[:16], _rows()[16:]))
        call = f"call {t} @llvm.x86.avx512.vpermi2var.ps.512({low.typed}, {places.typed}, {high.typed})"
        return w.emit(t, call, places)
    center, base, *coefficients = map(picked, range(len(_rows()[0])))
    base = w.select(w.compare("fcmp olt", a, w.const(t, _NEAR)), a, base)
    distance = w.binary("fsub", a, center)
    return w.intrinsic("copysign", t, fma(w, distance, poly(w, distance, coefficients), base), x)


APPLY = {ops.erf: _erf}
