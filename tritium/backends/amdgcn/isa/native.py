"""Elementwise ops with an instruction of their own on AMD GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ....ir import types as T
from ....ops.expand_casts import largest
from ...llvm.writer import Val, value
from .products import FNUZ, OCP

if TYPE_CHECKING:
    from .target import AmdLowering

    PairCast = Callable[[AmdLowering, Val, Val], list[Val]]  # converts two neighbours

LN2 = 0.693147182464599609375, -1.904654299957768e-09  # ln 2 in two parts


def _instruction(name: str) -> Callable[[AmdLowering, Val], Val]:
    """A row as one of the instructions that round a little less well; they take and give no subnormal numbers."""

    return lambda g, x: g.w.intrinsic(f"amdgcn.{name}", "float", x, attributes="nounwind memory(none)")


_exp2, _log2 = _instruction("exp2"), _instruction("log")
reciprocal = _instruction("rcp")


def _exp(g: AmdLowering, x: Val) -> Val:
    return _exp2(g, g.w.binary("fmul", x, g.w.const("float", 1.4426950408889634)))


def _of_root(name: str, back: float) -> Callable[[AmdLowering, Val], Val]:
    """A root's instruction, for subnormal numbers too: 2^32 times as large, they are normal."""
    root = _instruction(name)

    def emit(g: AmdLowering, x: Val) -> Val:
        w, const = g.w, lambda value: g.w.const("float", value)
        tiny = w.compare("fcmp olt", x, const(2.0**-126))
        found = root(g, w.binary("fmul", x, w.select(tiny, const(2.0**32), const(1.0))))
        return w.binary("fmul", found, w.select(tiny, const(back), const(1.0)))

    return emit


def _scaled_log2(g: AmdLowering, x: Val) -> tuple[Val, Val]:
    """(the logarithm of x, or of 2^32 x where x is subnormal; 0 or 32)."""
    w, const = g.w, lambda value: g.w.const("float", value)
    tiny = w.compare("fcmp olt", x, const(2.0**-126))
    found = _log2(g, w.binary("fmul", x, w.select(tiny, const(2.0**32), const(1.0))))
    return found, w.select(tiny, const(32.0), const(0.0))


def _log2_of_all(g: AmdLowering, x: Val) -> Val:
    found, more = _scaled_log2(g, x)
    return g.w.binary("fsub", found, more)


def _log(g: AmdLowering, x: Val) -> Val:
    """The binary logarithm times ln 2, whose rest is added: infinite ones have none."""
    w, const = g.w, lambda value: g.w.const("float", value)
    y = _log2_of_all(g, x)
    high = w.binary("fmul", y, const(LN2[0]))
    rest = w.intrinsic("fma", "float", y, const(LN2[0]), w.unary("fneg", high))
    rest = w.intrinsic("fma", "float", y, const(LN2[1]), rest)
    finite = w.compare("fcmp olt", w.intrinsic("fabs", "float", y), const(float("inf")))
    return w.select(finite, w.binary("fadd", high, rest), y)


# One unit in the last place; exponentials below the normal range are 0. Division is LLVM's, rounded to the nearest.
NATIVE = {
    ("exp", T.f32): _exp,
    ("exp2", T.f32): _exp2,
    ("log", T.f32): _log,
    ("log2", T.f32): _log2_of_all,
    ("sqrt", T.f32): _of_root("sqrt", 2.0**-16),
    ("rsqrt", T.f32): _of_root("rsq", 2.0**16),
}


# --- to integers ------------------------------------------------------------------------------------------------------
def float_to_int(g: AmdLowering, x: Val, to: T.Scalar) -> Val:
    """Saturating; NaN to 0. Instructions do so by themselves, and LLVM knows it."""
    out = f"i{to.bits}"
    return g.w.intrinsic("fptosi.sat" if to.signed else "fptoui.sat", out, x, overload=(out, x.type))


# --- 8-bit floats, two at a time --------------------------------------------------------------------------------------
# The families with conversions.
FLOAT8 = {"cdna3": FNUZ, "cdna4": OCP, "rdna4": OCP}


def _widen(name: str) -> PairCast:
    def emit(g: AmdLowering, low: Val, high: Val) -> list[Val]:
        w, full = g.w, f"llvm.amdgcn.cvt.pk.f32.{name}"
        w.declare(full, "<2 x float>", ["i32", "i1 immarg"], "nounwind memory(none)")
        wide = [w.cast("zext", x, "i32") for x in (low, high)]
        word = w.binary("or", wide[0], w.binary("shl", wide[1], g.int(8)))
        pair = w.emit("<2 x float>", f"call <2 x float> @{full}({word.typed}, i1 false)", word)
        return [w.extract(pair, k) for k in range(2)]

    return emit


def _narrow(name: str, t: T.Scalar) -> PairCast:
    most = largest(t)

    def clamped(g: AmdLowering, x: Val) -> Val:
        """Within the range, as the language has it; a NaN stays one."""
        w, low, high = g.w, g.w.const("float", -most), g.w.const("float", most)
        w.declare("llvm.amdgcn.fmed3.f32", "float", ["float"] * 3, "nounwind memory(none)")
        kept = w.emit("float", f"call float @llvm.amdgcn.fmed3.f32({x.typed}, {low.typed}, {high.typed})", x)
        return w.select(w.compare("fcmp uno", x, x), x, kept)

    def emit(g: AmdLowering, low: Val, high: Val) -> list[Val]:
        w, full = g.w, f"llvm.amdgcn.cvt.pk.{name}.f32"
        w.declare(full, "i32", ["float", "float", "i32", "i1 immarg"], "nounwind memory(none)")
        xs = [clamped(g, x) for x in (low, high)]
        both = w.emit("i32", f"call i32 @{full}({xs[0].typed}, {xs[1].typed}, i32 0, i1 false)", *xs)
        return [w.cast("trunc", x, "i8") for x in (both, w.binary("lshr", both, g.int(8)))]

    return emit


def casts_of(family: str) -> dict[tuple[T.Scalar, T.Scalar], PairCast]:
    """Conversions of 8-bit floats that a family has instructions for: (from, to) -> its function.

    What has infinities is rounded in integers: a result of min or max keeps them, where a conversion saturates.
    """
    found = FLOAT8.get(family, {})
    return {(t, T.f32): _widen(name) for t, name in found.items()} | {
        (T.f32, t): _narrow(name, t) for t, name in found.items() if t.special != "ieee"
    }


def pair_cast(family: str, source: T.Scalar, to: T.Scalar) -> PairCast | None:
    """The function (g, low, high) -> both converted, or None: an instruction that converts two neighbours."""
    if (source, to) == (T.f32, T.bf16) and family == "cdna4":
        return _round_pair
    return casts_of(family).get((source, to))


def _round_pair(g: AmdLowering, low: Val, high: Val) -> list[Val]:
    """LLVM has one instruction for both."""
    w = g.w
    pair = w.insert(w.insert(value("<2 x float>", "poison"), low, 0), high, 1)
    made = w.cast("fptrunc", pair, "<2 x bfloat>")
    return [w.extract(made, k) for k in range(2)]
