"""The remainder of any angle, however large, by a quarter turn (after Payne and Hanek).

x is an integer m of 53 bits times 2^e. Of the bits of 2/pi only those matter that m 2^e neither lifts to whole turns
nor leaves below the precision: three 64-bit words from a place that e decides, picked by selects, not from memory.
"""

from __future__ import annotations

from itertools import pairwise

from ..ir import types as T
from .double_word import fast_two_sum, two_product
from .expression import fma, row, where

# 64 zero bits, then the bits of 2/pi after the point
TWO_OVER_PI = (
    0,
    0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0,
    0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4,
    0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)


def reduce_huge(x):
    """(quadrant, r, tail): x = n pi/2 + r + tail for finite |x| >= 2^-9; the low bits of `quadrant` are those of n."""
    wide = x.cast(T.f64)
    bits = abs(wide).bits
    place = (bits >> 52) - 1013     # of the first word's first bit: e + 62, where |x| = m 2^e
    m = ((bits & ((1 << 52) - 1)) | (1 << 52)).cast(T.u64)
    words = pick_words(place, last=2 if x.element is T.f32 else 16)
    shift = (place & 63).cast(T.u64)
    back = shift.const(63) - shift
    a, b, c = ((high << shift) | ((low >> 1) >> back) for high, low in pairwise(words))
    # (m * abc) 2^-62 mod 4 quarter turns, in two words
    middle = m * b
    low = middle + row("mulhi", m, c)
    high = m * a + row("mulhi", m, b) + where(low < middle, low.const(1), 0)
    n = (high + (1 << 61)) >> 62
    high = (high - (n << 62)).cast(T.i64)
    first = high.cast(T.f64)
    rest = (high - first.cast(T.i64)).cast(T.f64) * 2.0**-62
    fh, fl = fast_two_sum(first * 2.0**-62, fma(low.cast(T.f64), 2.0**-126, rest))
    r, tail = two_product(fh, wide.const(HALF_PI[0]))
    tail = fma(fh, HALF_PI[1], fma(fl, HALF_PI[0], tail))
    negative = wide < 0.0
    quadrant = where(negative, -n.cast(T.i64), n.cast(T.i64))
    r, tail = where(negative, -r, r), where(negative, -tail, tail)
    if x.element is T.f32:
        return quadrant.cast(T.i32), (r + tail).cast(T.f32), None
    return quadrant, r, tail


def pick_words(place, last):
    """The four words from bit `place` of TWO_OVER_PI on, where place / 64 is at most `last`."""
    at = place >> 6
    picked = [place.const(w, T.u64) for w in TWO_OVER_PI[:4]]
    for j in range(1, last + 1):
        here = at >= j
        picked = [where(here, w, old) for w, old in zip(TWO_OVER_PI[j:j + 4], picked)]
    return picked
