"""Elementwise ops with an instruction, or a routine, of their own on NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ....ir import types as T
from ....ops.expand_erf import ERF_IS_ONE, ERF_LARGE, ERF_SMALL
from . import remainder

if TYPE_CHECKING:
    from ...llvm.numbering import NumberingWriter
    from ...llvm.writer import Val
    from .target import NvLowering

    PairCast = Callable[[NvLowering, Val, Val], list[Val]]  # converts two neighbours


def _approximate(name: str) -> Callable[..., Val]:
    """A row as one of the instructions that round a little less well."""

    return lambda g, *xs: _nvvm(g, name, "float", *xs)


def _nvvm(g: NvLowering, name: str, result: str, *xs: Val) -> Val:
    return g.w.intrinsic(f"nvvm.{name}", result, *xs, overload=(), attributes="nounwind memory(none)")


def _exp(g: NvLowering, x: Val) -> Val:
    scaled = g.w.binary("fmul", x, g.w.const("float", 1.4426950408889634))
    return _approximate("ex2.approx.ftz.f")(g, scaled)


reciprocal = _approximate("rcp.approx.ftz.f")


def _erf(g: NvLowering, x: Val) -> Val:
    """As `ops.expand_erf` has it; what is left of one near it is small, so the instruction's exponential will do."""
    w, const = g.w, lambda value: g.w.const("float", value)
    a = w.intrinsic("fabs", "float", x)
    small = w.intrinsic("fma", "float", _poly(w, w.binary("fmul", x, x), ERF_SMALL[T.f32]), x, x)
    end = const(ERF_IS_ONE[T.f32])
    a = w.select(w.compare("fcmp ogt", a, end), end, a)
    rest = _exp(g, w.binary("fsub", const(-0.0), _poly(w, a, ERF_LARGE[T.f32])))
    large = w.binary("fsub", const(1.0), rest)
    return w.intrinsic("copysign", "float", w.select(w.compare("fcmp olt", a, const(1.0)), small, large), x)


# log(1 + f) = f + f^2 P(f) on 2^-1/2 <= 1 + f <= 2^1/2, to 2^-25 of it. P grows without bound, as does the logarithm
_LOG = (-0.49999991059303284, 0.33333948254585266, -0.25001779198646545, 0.1996212899684906, -0.165701761841774,
        0.1491737812757492, -0.14309103786945343, 0.08737550675868988)  # fmt: skip
_WHOLE = 1.5 * 2.0**23  # adding it rounds to an integer, found in the low bits of the sum


def _log(g: NvLowering, x: Val) -> Val:
    """k ln 2 + log(m) where x = m 2^k: the instruction's logarithm is good enough to say which k is nearest, and where
    it is infinite or nan so is k. It flushes subnormal numbers, so these are scaled. Within 1.2 units in the last
    place."""
    w, const = g.w, lambda value: g.w.const("float", value)
    fma = lambda *xs: w.intrinsic("fma", "float", *xs)
    small = w.compare("fcmp olt", x, const(2.0**-126))
    x = w.select(small, w.binary("fmul", x, const(2.0**23)), x)
    near = w.binary("fadd", _approximate("lg2.approx.ftz.f")(g, x), const(_WHOLE))
    k = w.binary("fsub", near, w.select(small, const(_WHOLE + 23), const(_WHOLE)))
    exponent = w.binary("shl", w.cast("bitcast", near, "i32"), w.const("i32", 23))
    m = w.cast("bitcast", w.binary("sub", w.cast("bitcast", x, "i32"), exponent), "float")
    f = w.binary("fsub", m, const(1.0))
    return fma(k, const(0.6931471805599453), fma(w.binary("fmul", f, f), _poly(w, f, _LOG), f))


# tanh(x) = x + x^3 P(x^2) on |x| <= 1.15, to 2^-28.2: further than elsewhere, so that little is left of one beyond
_TANH_END = 1.15
_TANH = (-0.3333331048488617, 0.133327454328537, -0.05391645058989525, 0.021645620465278625, -0.008313375525176525,
         0.0027651088312268257, -0.0006601845961995423, 7.908554107416421e-05)  # fmt: skip


def _tanh(g: NvLowering, x: Val) -> Val:
    """A polynomial near 0, 1 - 2 / (e^2x + 1) beyond, where the instructions' exponential and reciprocal will do."""
    w, const = g.w, lambda value: g.w.const("float", value)
    fma = lambda *xs: w.intrinsic("fma", "float", *xs)
    a, z = w.intrinsic("fabs", "float", x), w.binary("fmul", x, x)
    small = fma(_poly(w, z, _TANH), w.binary("fmul", z, x), x)
    power = _approximate("ex2.approx.ftz.f")(g, w.binary("fmul", a, const(2 * 1.4426950408889634)))
    large = fma(reciprocal(g, w.binary("fadd", power, const(1.0))), const(-2.0), const(1.0))
    return w.intrinsic("copysign", "float", w.select(w.compare("fcmp olt", a, const(_TANH_END)), small, large), x)


def _poly(w: NumberingWriter, x: Val, coefficients: Sequence[float]) -> Val:
    """c[0] + c[1] x + c[2] x^2 ..., by Horner's rule."""
    *rest, total = (w.const("float", c) for c in coefficients)
    for c in reversed(rest):
        total = w.intrinsic("fma", "float", total, x, c)
    return total


def _round(g: NvLowering, x: Val) -> Val:
    """Half of one away from zero, then towards zero twice: the sum is not rounded past an integer. LLVM's own rounds
    the sum to nearest, and selects among three results."""
    w = g.w
    half = w.intrinsic("copysign", "float", w.const("float", 0.5), x)
    return w.intrinsic("trunc", "float", _nvvm(g, "add.rz.f", "float", x, half))


# The fast forms Triton users get for f32: two units in the last place, denormals flushed. Everything else is computed
# as on the other targets.
NATIVE = {
    ("div", T.f32): _approximate("div.full"),
    ("exp", T.f32): _exp,
    ("log", T.f32): _log,
    ("exp2", T.f32): _approximate("ex2.approx.ftz.f"),
    ("erf", T.f32): _erf,
    ("tanh", T.f32): _tanh,
    ("sqrt", T.f32): _approximate("sqrt.approx.ftz.f"),
    ("rsqrt", T.f32): _approximate("rsqrt.approx.ftz.f"),
    ("round", T.f32): _round,
    ("rem", T.f32): remainder.emit,  # LLVM's own rounds the quotient
    ("rem", T.f64): remainder.emit,
}


# --- quotients --------------------------------------------------------------------------------------------------------
def wide_quotient(g: NvLowering, spell: str, x: Val, y: Val) -> Val:
    """Of 64-bit integers, or what it leaves: by 32 bits where both fit, which is nearly always, and takes a fifth of
    the instructions."""
    w = g.w
    high = w.binary("lshr", w.binary("or", x, y), w.const("i64", 32))
    short, long = (w.compare(f"icmp {how}", high, w.const("i64", 0)) for how in ("eq", "ne"))
    a, b = (w.cast("trunc", v, "i32") for v in (x, y))
    text = f"@$5 {spell[1:]}.u32 q, $3, $4; cvt.u64.u32 $0, q; @$6 {spell[1:]}.{spell[0]}64 $0, $1, $2;"
    inputs = [x, y, a, b, short, long]
    listed = ", ".join(v.typed for v in inputs)
    return w.emit("i64", f'call i64 asm "{{ .reg .b32 q; {text} }}", "=l,l,l,r,r,b,b"({listed})', *inputs)


# --- to integers ------------------------------------------------------------------------------------------------------
def float_to_int(g: NvLowering, x: Val, to: T.Scalar) -> Val:
    """One instruction, which keeps within the range by itself. It makes 0 of a nan where both have 32 bits."""
    w, out = g.w, f"i{to.bits}"
    if to.bits < 32:
        return w.intrinsic("fptosi.sat" if to.signed else "fptoui.sat", out, x, overload=(out, x.type))
    if x.type not in ("float", "double"):
        x = w.cast("fpext", x, "float")
    y = _nvvm(g, f"{x.type[0]}2{'' if to.signed else 'u'}{'i' if to.bits == 32 else 'll'}.rz", out, x)
    if (x.type, to.bits) == ("float", 32):
        return y
    return w.select(w.compare("fcmp uno", x, x), w.const(out, 0), y)


def _to_bytes(name: str) -> PairCast:
    def emit(g: NvLowering, low: Val, high: Val) -> list[Val]:
        """To 32 bits, then to 8. From sm_90 on ptxas makes one instruction of the three."""
        x, y = (float_to_int(g, v, T.i32) for v in (low, high))
        text = f'call i32 asm "cvt.pack.sat.{name}.s32.b32 $0, $1, $2, 0;", "=r,r,r"({y.typed}, {x.typed})'
        both = g.w.cast("trunc", g.w.emit("i32", text, x, y), "i16")
        pair = g.w.cast("bitcast", both, "<2 x i8>")
        return [g.w.extract(pair, k) for k in range(2)]

    return emit


_BYTE_PAIRS = {(T.f32, T.i8): _to_bytes("s8"), (T.f32, T.u8): _to_bytes("u8")}


# --- 8-bit floats, two at a time ------------------------------------------------------------------------------------
PAIR_CASTS_SINCE = 89
_FP8 = {T.f8e4nv: "e4m3x2", T.f8e5: "e5m2x2"}


def _narrow(name: str) -> PairCast:
    def emit(g: NvLowering, low: Val, high: Val) -> list[Val]:
        """Rounded to nearest, finite; the first operand of the instruction lands in the upper byte."""
        text = f'call i16 asm "cvt.rn.satfinite.{name}.f32 $0, $1, $2;", "=h,f,f"({high.typed}, {low.typed})'
        both = g.w.emit("i16", text, low, high)
        pair = g.w.cast("bitcast", both, "<2 x i8>")
        return [g.w.extract(pair, k) for k in range(2)]

    return emit


def _widen(name: str) -> PairCast:
    def emit(g: NvLowering, low: Val, high: Val) -> list[Val]:
        w = g.w
        wide = [w.cast("zext", x, "i16") for x in (low, high)]
        both = w.binary("or", wide[0], w.binary("shl", wide[1], w.const("i16", 8)))
        word = w.emit("i32", f'call i32 asm "cvt.rn.f16x2.{name} $0, $1;", "=r,h"(i16 {both})', both)
        pair = w.cast("bitcast", word, "<2 x half>")
        return [w.cast("fpext", w.extract(pair, k), "float") for k in range(2)]

    return emit


PAIR_CASTS = {(T.f32, t): _narrow(name) for t, name in _FP8.items()} | {
    (t, T.f32): _widen(name) for t, name in _FP8.items()
}


# --- 16-bit floats, two at a time -------------------------------------------------------------------------------------
_PAIR_ROWS_SINCE = {(row, t): since for t, since in ((T.f16, 53), (T.bf16, 90)) for row in ("add", "sub", "mul")}
_PAIR_ROWS_SINCE |= {("fma", T.f16): 53, ("fma", T.bf16): 80}


def pair_rows(sm: int) -> frozenset[tuple[str, T.Scalar]]:
    """(row, type) of the arithmetic that one instruction does for two neighbours.

    Sums, differences and products are those of float32, rounded once more: that has more than twice the digits.

    >>> len(pair_rows(80)), ("mul", T.bf16) in pair_rows(90)
    (5, True)
    """
    return frozenset(key for key, since in _PAIR_ROWS_SINCE.items() if sm >= since)


# --- 16-bit floats: LLVM would find the pairs itself, after five lines for each ---------------------------------------
HALF_PAIRS_SINCE = 80


def _halves(name: str, type_: str) -> PairCast:
    def emit(g: NvLowering, low: Val, high: Val) -> list[Val]:
        pair = _nvvm(g, f"ff2{name}x2.rn", type_, high, low)
        return [g.w.extract(pair, k) for k in range(2)]

    return emit


_HALF_PAIRS = {(T.f32, T.f16): _halves("f16", "<2 x half>"), (T.f32, T.bf16): _halves("bf16", "<2 x bfloat>")}


def pair_cast(sm: int, source: T.Scalar, to: T.Scalar) -> PairCast | None:
    """The function (g, low, high) -> both converted, or None: an instruction that converts two neighbours."""
    if (source, to) in _HALF_PAIRS:
        return _HALF_PAIRS[source, to] if sm >= HALF_PAIRS_SINCE else None
    if (source, to) in _BYTE_PAIRS:
        return _BYTE_PAIRS[source, to]
    return PAIR_CASTS.get((source, to)) if sm >= PAIR_CASTS_SINCE else None
