"""PTX as other ops: what each instruction computes, in the interpreter and on the CPU, against NumPy."""

import ml_dtypes
import numpy as np
import pytest

from tests.exec.backends import backends_present
from tests.ops.samples import operands
from tritium import ops, passes
from tritium.interp.machine import interpret
from tritium.ir import types as T
from tritium.ir.builder import Builder
from tritium.ir.core import Module
from tritium.ir.verify import verify
from tritium.ops import ptx
from tritium.ops.meaning import np_dtype

LETTERS = {T.f32: "f", T.f64: "d", T.i64: "l", T.u64: "l", T.f16: "h", T.bf16: "h", T.u16: "h", T.i16: "h", T.u8: "r",
           T.i8: "r"}  # fmt: skip
LANES = 512
i32, u32, i64, u64, f32, f64, f16, bf16, u16, i16, u8 = (T.i32, T.u32, T.i64, T.u64, T.f32, T.f64, T.f16, T.bf16, T.u16,
                                                         T.i16, T.u8)  # fmt: skip
F16, BF16, E4M3, E5M2, E2M1, E8M0 = (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
                                     ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu)  # fmt: skip


def halves(fn, t):
    """A function of the two halves of words."""
    def run(*xs):
        made = fn(*[np.ascontiguousarray(x).view(t).reshape(-1, 2) for x in xs])
        return np.ascontiguousarray(made).view(np.uint32).ravel()
    return run


def shifted(x, n, left):
    n = n.astype(object)
    return np.array([(int(a) << min(int(b), 64)) & 0xFFFFFFFF if left else int(a) >> min(int(b), 64)
                     for a, b in zip(x, n)]).astype(x.dtype)  # fmt: skip


def number(fn):
    """A function of Python integers, for arrays."""
    return lambda *xs: np.array([fn(*map(int, x)) & 0xFFFFFFFF for x in zip(*xs)], np.uint64).astype(np.uint32)


def extracted(signed):
    def run(x, start, count):
        start, count, msb = start & 255, count & 255, 31
        bit = lambda k: x >> k & 1
        sign = 0 if not signed or not count else bit(min(start + count - 1, msb))
        return sum((bit(start + k) if k < count and start + k <= msb else sign) << k for k in range(32))
    return run


def inserted(a, b, start, count):
    start, count = start & 255, count & 255
    for k in range(count):
        if start + k <= 31:
            b = b & ~(1 << start + k) | (a >> k & 1) << start + k
    return b


def permuted(a, b, selector):
    data, total = (a | b << 32).to_bytes(8, "little"), 0
    for k in range(4):
        pick = selector >> 4 * k & 15
        byte = data[pick & 7]
        total |= (255 * (byte >> 7) if pick & 8 else byte) << 8 * k
    return total


def looked_up(table):
    return lambda a, b, c: sum((table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1) & 1) << k
                               for k in range(32))


def extreme(name, x, y):
    """min and max with -0 below +0; a NaN loses."""
    key = lambda v: np.where(np.isnan(v), np.inf if name == "min" else -np.inf, v)
    signs = np.signbit(x) if name == "min" else ~np.signbit(x)
    first = np.where(key(x) == key(y), signs, key(x) < key(y) if name == "min" else key(x) > key(y))
    return np.where(np.isnan(x), y, np.where(np.isnan(y), x, np.where(first, x, y)))


def with_nan(fn):
    return lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, fn(x, y)).astype(x.dtype)


def saturated(x):
    return np.where(x > 0, np.minimum(x, 1), 0).astype(x.dtype)


def to_int(t, fn=np.trunc, nan=0):
    def run(x):
        info, wide = np.iinfo(t), fn(x.astype(np.float64))
        return np.array([nan if np.isnan(v) else info.max if v >= info.max else info.min if v <= info.min else int(v)
                         for v in wide], np.int64 if info.min else np.uint64).astype(t)  # fmt: skip
    return run


def pair(t, high, low):
    """Two arrays as narrow floats beside each other, codes in a u16 or u32."""
    code = lambda x: np.where(np.isnan(x), 0x7F, np.clip(x, -L, L).astype(t).view(np.uint8)).astype(np.uint32)
    L = float(ml_dtypes.finfo(t).max)
    return code(high) << 8 | code(low)


def fp4(high, low):
    code = lambda x: np.where(np.isnan(x), 7, np.clip(x, -6, 6).astype(E2M1).view(np.uint8) & 15).astype(np.uint32)
    return code(high) << 4 | code(low)


def packed(t):
    """High half first."""
    return lambda high, low: np.stack([low.astype(t), high.astype(t)], -1).view(np.uint32).ravel()


def wide(fn):
    return lambda *xs: fn(*[x.astype(np.float64) for x in xs]).astype(xs[0].dtype)


def unpacked(t, to):
    return lambda x: (x & 0xFFFF).astype(np.uint16).view(t).astype(np.float32).astype(to).view(np.uint32)


def unpacked_fp4(to):
    def run(x):
        code = np.stack([x & 15, x >> 4 & 15], -1).astype(np.uint8)
        return code.view(E2M1).astype(np.float32).astype(to).view(np.uint32).ravel()
    return run


def e8m0(up):
    def code(x):
        mantissa, exponent = np.frexp(np.abs(x.astype(np.float64)))
        found = exponent - 1 + (up & (mantissa != 0.5))
        found = np.where(x == 0, 0, np.where(np.isinf(x), 254, np.clip(found + 127, 0, 254)))
        return np.where(np.isnan(x), 255, found).astype(np.uint32)
    return lambda high, low: code(high) << 8 | code(low)


def tf32(x):
    bits = x.view(np.uint32)
    return np.where(np.isfinite(x), bits + 0x1000 & 0xFFFFE000, bits)


def twice(t):
    """cvt of words of two floats to 8-bit ones."""
    return lambda x: pair(E4M3, *np.ascontiguousarray(x).view(t).reshape(-1, 2).astype(np.float32).T[::-1])


same_bits = lambda x: x.view(f"u{x.dtype.itemsize}")
clip32 = lambda x: np.clip(x, -(1 << 31), (1 << 31) - 1).astype(np.int32)

# text -> (types of the arguments, type of the result, its meaning[, units in the last place that it may be off])
CASES = {
    "add.f32 $0, $1, $2;": ((f32, f32), f32, np.add),
    "sub.rn.ftz.f32 $0, $1, $2;": ((f32, f32), f32, np.subtract),
    "mul.f64 $0, $1, $2;": ((f64, f64), f64, np.multiply),
    "{ .reg .f32 t; mul.rn.f32 t, $1, $2; add.f32 $0, t, $1; }": ((f32, f32), f32, lambda x, y: x * y + x),
    "add.sat.f32 $0, $1, $2;": ((f32, f32), f32, lambda x, y: saturated(x + y)),
    "mul.f16x2 $0, $1, $2;": ((u32, u32), u32, halves(np.multiply, F16)),
    "sub.f16 $0, $1, $2;": ((f16, f16), f16, np.subtract),
    "add.rn.bf16x2 $0, $1, $2;": ((u32, u32), u32, halves(np.add, BF16)),
    "add.rn.f32x2 $0, $1, $1;": ((u64,), u64, lambda x: (lambda v: (v + v).view("u8"))(x.view("f4"))),
    "fma.rn.f32 $0, $1, $2, 0f3F800000;": ((f32, f32), f32, lambda x, y: (x.astype("g") * y + 1).astype("f4")),
    "mad.f32 $0, $1, 2.0, $2;": ((f32, f32), f32, lambda x, y: (2 * x.astype("f8") + y).astype("f4")),
    "fma.rn.relu.bf16x2 $0, $1, $2, $1;": ((u32, u32), u32, halves(
        lambda x, y: (lambda r: np.where(r < 0, 0, r))(x.astype("g") * y.astype("g") + x.astype("g")).astype(BF16),
        BF16)),
    "div.full.f32 $0, $1, $2;": ((f32, f32), f32, np.divide, 2),
    "div.rn.f32 $0, $1, $2;": ((f32, f32), f32, np.divide),
    "rcp.rn.f32 $0, $1;": ((f32,), f32, np.reciprocal),
    "rcp.approx.ftz.f32 $0, $1;": ((f32,), f32, np.reciprocal, 2),
    "sqrt.rn.f32 $0, $1;": ((f32,), f32, np.sqrt),
    "sqrt.approx.f32 $0, $1;": ((f32,), f32, np.sqrt, 2),
    "rsqrt.approx.ftz.f32 $0, $1;": ((f32,), f32, wide(lambda x: 1 / np.sqrt(x)), 2),
    "ex2.approx.ftz.f32 $0, $1;": ((f32,), f32, wide(np.exp2), 2),
    "ex2.approx.f16 $0, $1;": ((f16,), f16, wide(np.exp2), 1),
    "lg2.approx.f32 $0, $1;": ((f32,), f32, wide(np.log2), 2),
    "sin.approx.f32 $0, $1;": ((f32,), f32, wide(np.sin), 2),
    "cos.approx.f32 $0, $1;": ((f32,), f32, wide(np.cos), 2),
    "tanh.approx.f32 $0, $1;": ((f32,), f32, wide(np.tanh), 2),
    "tanh.approx.bf16 $0, $1;": ((bf16,), bf16, wide(np.tanh), 1),
    "abs.f32 $0, $1;": ((f32,), f32, np.abs),
    "neg.f32 $0, $1;": ((f32,), f32, np.negative),
    "neg.f16x2 $0, $1;": ((u32,), u32, lambda x: x ^ 0x80008000),
    "min.f32 $0, $1, $2;": ((f32, f32), f32, lambda x, y: extreme("min", x, y)),
    "max.ftz.f32 $0, $1, $2;": ((f32, f32), f32, lambda x, y: extreme("max", x, y)),
    "max.NaN.f32 $0, $1, $2;": ((f32, f32), f32, with_nan(lambda x, y: extreme("max", x, y))),
    "min.NaN.xorsign.abs.f32 $0, $1, $2;": ((f32, f32), f32, with_nan(
        lambda x, y: np.copysign(extreme("min", abs(x), abs(y)), np.where(np.signbit(x) ^ np.signbit(y), -1, 1)))),
    "copysign.f32 $0, $1, $2;": ((f32, f32), f32, lambda x, y: np.copysign(y, x)),
    "add.s32 $0, $1, $2;": ((i32, i32), i32, np.add),
    "add.sat.s32 $0, $1, $2;": ((i32, i32), i32, lambda x, y: clip32(x.astype("i8") + y)),
    "sub.u16x2 $0, $1, $2;": ((u32, u32), u32, halves(np.subtract, np.uint16)),
    "mul.lo.u32 $0, $1, 3;": ((u32,), u32, lambda x: x * np.uint32(3)),
    "mul.hi.s32 $0, $1, $2;": ((i32, i32), i32, lambda x, y: x.astype("i8") * y >> 32),
    "mul.hi.u16 $0, $1, $2;": ((u16, u16), u16, lambda x, y: x.astype("u4") * y >> 16),
    "mul.wide.s32 $0, $1, $2;": ((i32, i32), i64, lambda x, y: x.astype("i8") * y),
    "mad.wide.u32 $0, $1, $2, 7;": ((u32, u32), u64, lambda x, y: x.astype("u8") * y + 7),
    "mad.lo.s32 $0, $1, $2, $1;": ((i32, i32), i32, lambda x, y: x * y + x),
    "min.s32 $0, $1, $2;": ((i32, i32), i32, np.minimum),
    "max.u32 $0, $1, $2;": ((u32, u32), u32, np.maximum),
    "abs.s32 $0, $1;": ((i32,), i32, np.abs),
    "sad.u32 $0, $1, $2, $1;": ((u32, u32), u32, lambda x, y: np.maximum(x, y) - np.minimum(x, y) + x),
    "dp4a.s32.u32 $0, $1, $2, 5;": ((u32, u32), i32, lambda x, y: 5 + np.sum(
        x.view("i1").reshape(-1, 4).astype("i4") * y.view("u1").reshape(-1, 4), -1)),
    "rem.s32 $0, $1, 7;": ((i32,), i32, lambda x: np.fmod(x, 7)),
    "div.s32 $0, $1, 7;": ((i32,), i32, lambda x: (x - np.fmod(x, 7)) // 7),
    "and.b32 $0, $1, 0xFF00FF00U;": ((u32,), u32, lambda x: x & 0xFF00FF00),
    "or.b32 $0, $1, $2;": ((u32, u32), u32, np.bitwise_or),
    "xor.b64 $0, $1, $2;": ((u64, u64), u64, np.bitwise_xor),
    "not.b32 $0, $1;": ((u32,), u32, np.invert),
    "cnot.b32 $0, $1;": ((u32,), u32, lambda x: x == 0),
    "shl.b32 $0, $1, $2;": ((u32, u32), u32, lambda x, n: shifted(x, n, True)),
    "shr.s32 $0, $1, $2;": ((i32, u32), i32, lambda x, n: shifted(x, n, False)),
    "shr.u32 $0, $1, 33;": ((u32,), u32, np.zeros_like),
    "shf.r.wrap.b32 $0, $1, $2, 33;": ((u32, u32), u32, lambda x, y: x >> 1 | y << 31),
    "shf.l.clamp.b32 $0, $1, $2, $2;": ((u32, u32), u32, number(
        lambda x, y: (x | y << 32) << min(y, 32) >> 32)),
    "bfe.u32 $0, $1, $2, $3;": ((u32,) * 3, u32, number(extracted(False))),
    "bfe.s32 $0, $1, $2, $3;": ((u32,) * 3, u32, number(extracted(True))),
    "bfi.b32 $0, $1, $2, $3, 5;": ((u32,) * 3, u32, number(lambda *x: inserted(*x, 5))),
    "popc.b64 $0, $1;": ((u64,), u32, lambda x: np.bitwise_count(x)),
    "clz.b32 $0, $1;": ((u32,), u32, number(lambda x: 32 - x.bit_length())),
    "brev.b32 $0, $1;": ((u32,), u32, number(lambda x: int(f"{x:032b}"[::-1], 2))),
    "bfind.u32 $0, $1;": ((u32,), u32, number(lambda x: x.bit_length() - 1)),
    "bfind.shiftamt.s32 $0, $1;": ((i32,), u32, number(
        lambda x: (lambda v: 32 - v.bit_length() if v else -1)(~x if x < 0 else x))),
    "prmt.b32 $0, $1, $2, 0x9F64;": ((u32, u32), u32, number(lambda x, y: permuted(x, y, 0x9F64))),
    "prmt.b32 $0, $1, $2, $3;": ((u32,) * 3, u32, number(permuted)),
    **{f"lop3.b32 $0, $1, $2, $3, {t};": ((u32,) * 3, u32, number(looked_up(t))) for t in (0xEA, 0xE4, 0x96, 0x1B)},
    "{ .reg .pred p; setp.gt.f32 p, $1, $2; selp.f32 $0, $1, 0.5, p; }":
        ((f32, f32), f32, lambda x, y: np.where(x > y, x, np.float32(0.5))),
    "{ .reg .pred p, q; setp.ltu.f32 p, $1, $2; setp.ne.and.f32 q, $1, 0.0, !p; selp.b32 $0, 1, 2, q; }":
        ((f32, f32), i32, lambda x, y: np.where((x != 0) & (x >= y), 1, 2)),
    "{ .reg .pred p<2>; setp.lo.u32 p0, $1, $2; not.pred p1, p0; mov.b32 $0, $1; @p1 add.u32 $0, $2, 1; }":
        ((u32, u32), u32, lambda x, y: np.where(x < y, x, y + 1)),
    "set.le.u32.s32 $0, $1, $2;": ((i32, i32), u32, lambda x, y: np.where(x <= y, 0xFFFFFFFF, 0)),
    "slct.b32.s32 $0, $1, 9, $2;": ((u32, i32), u32, lambda x, y: np.where(y >= 0, x, 9)),
    "{ .reg .b8 a, b, c, d; mov.b32 {a, b, c, d}, $1; mov.b32 $0, {d, 0, b, a}; }":
        ((u32,), u32, lambda x: x >> 24 | (x >> 8 & 255) << 16 | x << 24),
    "{ .reg .b32 a, b; mov.b64 {a, b}, $1; mov.b64 $0, {b, a}; /* swapped */ } // done":
        ((u64,), u64, lambda x: x >> 32 | x << 32),
    "mov.b32 $0, 0f40490FDB;": ((u32,), u32, lambda x: np.full_like(x, 0x40490FDB)),
    "cvt.s32.s8 $0, $1;": ((u32,), i32, lambda x: x.astype("i1")),
    "cvt.sat.u8.s32 $0, $1;": ((i32,), u32, lambda x: np.clip(x, 0, 255)),
    "cvt.u64.s32 $0, $1;": ((i32,), u64, lambda x: x.astype("i8").view("u8")),
    "cvt.rn.f32.s32 $0, $1;": ((i32,), f32, lambda x: x.astype("f4")),
    "cvt.rz.f32.u32 $0, $1;": ((u32,), f32, number(lambda x: (
        lambda s: (158 - s << 23 | (x << s >> 8 & 0x7FFFFF)) if x else 0)(32 - x.bit_length()))),
    "cvt.f64.s32 $0, $1;": ((i32,), f64, lambda x: x.astype("f8")),
    "cvt.rn.bf16.u32 $0, $1;": ((u32,), bf16, lambda x: x.astype("f8").astype(BF16)),
    "cvt.rzi.s32.f32 $0, $1;": ((f32,), i32, to_int(np.int32)),
    "cvt.rni.u32.f32 $0, $1;": ((f32,), u32, to_int(np.uint32, np.rint)),
    "cvt.rmi.s64.f32 $0, $1;": ((f32,), i64, to_int(np.int64, np.floor, -1 << 63)),
    "cvt.rzi.s8.f32 $0, $1;": ((f32,), i32, to_int(np.int8)),
    "cvt.rzi.s32.f64 $0, $1;": ((f64,), i32, to_int(np.int32, nan=-1 << 31)),
    "cvt.rpi.f32.f32 $0, $1;": ((f32,), f32, np.ceil),
    "cvt.sat.f32.f32 $0, $1;": ((f32,), f32, saturated),
    "cvt.f32.f16 $0, $1;": ((f16,), f32, lambda x: x.astype("f4")),
    "cvt.f32.bf16 $0, $1;": ((bf16,), f32, lambda x: x.astype("f4")),
    "cvt.rn.f16.f32 $0, $1;": ((f32,), f16, lambda x: x.astype(F16)),
    "cvt.rn.satfinite.f16.f32 $0, $1;": ((f32,), f16, lambda x: np.clip(x, -65504, 65504).astype(F16)),
    "cvt.rn.relu.bf16.f32 $0, $1;": ((f32,), bf16, lambda x: np.where(x < 0, 0, x).astype(BF16)),
    "cvt.rz.bf16.f32 $0, $1;": ((f32,), bf16, lambda x: np.where(
        np.isnan(x), 0x7FC0, x.view("u4") >> 16).astype("u2").view(BF16)),
    "cvt.rn.f32.f64 $0, $1;": ((f64,), f32, lambda x: x.astype("f4")),
    "cvt.rna.tf32.f32 $0, $1;": ((f32,), u32, tf32),
    "cvt.rn.f16x2.f32 $0, $1, $2;": ((f32, f32), u32, packed(F16)),
    "cvt.rn.bf16x2.f32 $0, $1, $2;": ((f32, f32), u32, packed(BF16)),
    "{ .reg .b16 t; cvt.rn.satfinite.e4m3x2.f32 t, $1, $2; cvt.u32.u16 $0, t; }":
        ((f32, f32), u32, lambda x, y: pair(E4M3, x, y)),
    "{ .reg .b16 t; cvt.rn.satfinite.e5m2x2.f32 t, $1, $2; cvt.u32.u16 $0, t; }":
        ((f32, f32), u32, lambda x, y: pair(E5M2, x, y)),
    "{ .reg .b16 t; cvt.rn.satfinite.e4m3x2.f16x2 t, $1; cvt.u32.u16 $0, t; }": ((u32,), u32, twice(F16)),
    "{ .reg .b16 t; cvt.rn.satfinite.e4m3x2.bf16x2 t, $1; cvt.u32.u16 $0, t; }": ((u32,), u32, twice(BF16)),
    "{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, $1, $2; cvt.u32.u8 $0, t; }": ((f32, f32), u32, fp4),
    "{ .reg .b16 t; cvt.u16.u32 t, $1; cvt.rn.f16x2.e4m3x2 $0, t; }": ((u32,), u32, unpacked(E4M3, F16)),
    "{ .reg .b16 t; cvt.u16.u32 t, $1; cvt.rn.f16x2.e5m2x2 $0, t; }": ((u32,), u32, unpacked(E5M2, F16)),
    "{ .reg .b16 t; cvt.u16.u32 t, $1; cvt.rn.bf16x2.ue8m0x2 $0, t; }": ((u32,), u32, unpacked(E8M0, BF16)),
    "{ .reg .b8 t; cvt.u8.u32 t, $1; cvt.rn.f16x2.e2m1x2 $0, t; }": ((u32,), u32, unpacked_fp4(F16)),
    "{ .reg .b8 t; cvt.u8.u32 t, $1; cvt.rn.bf16x2.e2m1x2 $0, t; }": ((u32,), u32, unpacked_fp4(BF16)),
    "{ .reg .b16 t; cvt.rp.satfinite.ue8m0x2.f32 t, $1, $2; cvt.u32.u16 $0, t; }": ((f32, f32), u32, e8m0(True)),
    "{ .reg .b16 t; cvt.rz.satfinite.ue8m0x2.f32 t, $1, $2; cvt.u32.u16 $0, t; }": ((f32, f32), u32, e8m0(False)),
}
FLOATS = {"f16x2": F16, "f16.": F16, "bf16x2": BF16}  # of results that are words, to tell which are NaN


def inputs_of(types):
    xs = [np.resize(x, LANES) for x in operands(types[0], max(2, len(types)))]
    return [np.resize(x, LANES) if t is types[0] else np.resize(operands(t, 2)[1], LANES) for t, x in zip(types, xs)]


def module_of(cases, lanes=LANES):
    """One kernel that runs every text; an argument for each input and each result."""
    b = Builder()
    at = ops.arange(b, start=0, end=lanes)
    for k, (text, (types, result, *_)) in enumerate(cases.items()):
        pointers = [b.argument(T.Ptr(t), f"x{k}_{j}") for j, t in enumerate((*types, result))]
        tiles = [ops.addptr(b, ops.splat(b, p, shape=(lanes,)), at) for p in pointers]
        letters = [LETTERS.get(t, "r") for t in (result, *types)]
        xs = [ops.load(b, p) for p in tiles[:-1]]
        y = ops.inline_asm(b, *xs, asm=text, constraints="=" + ",".join(letters), types=(result,), pure=True, pack=1)
        ops.store(b, tiles[-1], y)
    return verify(Module("ptx", b.finish()))


def close(got, wanted, text, ulps):
    """Which elements agree: NaN with NaN, bits with bits."""
    half = next((t for name, t in FLOATS.items() if f".{name}" in text and "cvt.u32" not in text), None)
    if half is not None and got.dtype == np.uint32:
        got, wanted = got.view(half), wanted.astype(np.uint32).view(half)
    if got.dtype.kind in "iu":
        return got == wanted
    with np.errstate(all="ignore"):
        both = np.isnan(got) & np.isnan(wanted)
        if ulps:
            step = np.spacing(np.abs(wanted.astype(np.float32))) if got.dtype != F16 and got.dtype != BF16 else \
                np.maximum(np.abs(wanted.astype(np.float32)) * 2.0 ** -(7 if got.dtype == BF16 else 10), 2.0**-24)
            off = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
            return both | (got == wanted) | (off <= ulps * step)
    return both | (same_bits(got) == same_bits(wanted))


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_values(backend):
    arguments = []
    for types, result, *_ in CASES.values():
        arguments += [*inputs_of(types), np.zeros(LANES, np_dtype(result))]
    module = module_of(CASES)
    if backend == "interpreter":
        interpret(module, arguments)
    else:
        backends_present()[backend](verify(passes.run(module, (passes.expand_ptx, *passes.CLEANUP))), arguments)
    wrong, at = [], 0
    for text, (types, result, meaning, *ulps) in CASES.items():
        xs, got = arguments[at:at + len(types)], arguments[at + len(types)]
        at += len(types) + 1
        with np.errstate(all="ignore"):
            wanted = np.asarray(meaning(*xs))
        if result.is_float and wanted.dtype == np.uint32:
            wanted = wanted.view(np_dtype(result))
        wanted = wanted.astype(np_dtype(result))
        good = close(got, wanted, text, ulps[0] if ulps else 0)
        if not np.all(good):
            k = int(np.argmin(good)) * LANES // len(good)
            wrong.append(f"{text} of {[x[k] for x in xs]}: {got[k]!r}, expected {wanted[k]!r} ({np.sum(~good)} differ)")
    assert not wrong, "\n".join(wrong)


# --- packs ------------------------------------------------------------------------------------------------------------
BYTES_TO_BF16 = """{
    prmt.b32 $0, $2, 0, 0x5140;
    shl.b32 $0, $0, 7;
    prmt.b32 $1, $2, 0, 0x7362;
    shl.b32 $1, $1, 7;
}"""
HALVES = "mov.b32 {$0, $1}, $2;"
FOURTHS = "{ mov.b32 $0, $4; shr.b32 $1, $4, 8; shr.b32 $2, $4, 16; shr.b32 $3, $4, 24; }"
x8, x16, x32 = (np.random.default_rng(3).integers(0, 1 << bits, 60).astype(f"u{bits // 8}") for bits in (8, 16, 32))
PACKS = [  # text, constraints, pack, arguments, results
    ("not.b32 $0, $1;", "=r,r", 4, [x8], [~x8]),
    ("not.b32 $0, $1;", "=r,r", 2, [x8], [~x8]),
    ("not.b32 $0, $1;", "=r,r", 1, [x8], [~x8]),
    ("not.b16 $0, $1;", "=h,h", 2, [x8], [~x8]),
    ("add.u16x2 $0, $1, $2;", "=r,r,r", 2, [x16, x16[::-1].copy()], [x16 + x16[::-1]]),
    ("{ not.b32 $0, $2; not.b32 $1, $3; }", "=r,=r,r,r", 4, [x16], [~x16]),
    ("{ add.u32 $0, $2, 1; add.u32 $1, $3, 1; }", "=r,=r,r,r", 2, [x32], [x32 + 1]),
    ("{ add.u32 $0, $0, 1; }", "=r,0", 1, [x32], [x32 + 1]),
    ("{ add.u32 $1, $1, $2; mov.b32 $0, $1; }", "=r,r,r", 1, [x32, x32], [x32 + x32]),
    (BYTES_TO_BF16, "=r,=r,r", 4, [x8], [(x8.astype("u2") << 7).view(BF16)]),
    (HALVES, "=h,=h,r", 1, [x32], [x32.astype("u2"), (x32 >> 16).astype("u2")]),
    (FOURTHS, "=r,=r,=r,=r,r", 1, [x32], [(x32 >> k).astype("u1") for k in (0, 8, 16, 24)]),
    ("{ cvt.rn.satfinite.e4m3x2.f32 $0, $2, $1; }", "=h,r,r", 2, [x32.view("f4")],
     [pair(E4M3, x32.view("f4") * 0, x32.view("f4")).astype("u1").view(E4M3)]),
    ("{ setp.gt.s32 $0, $1, 0; }", "=b,r", 1, [x32.view("i4")],
     [x32.view("i4") > 0]),
]  # fmt: skip
KINDS = {"uint8": u8, "uint16": u16, "uint32": u32, "int32": i32, "float32": f32, "bfloat16": bf16, "bool": T.i1,
         "float8_e4m3fn": T.f8e4nv}  # fmt: skip
SHAPES = [(60,), (3, 4, 5), (2, 6, 5), (15,), (2,), ()]


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
@pytest.mark.parametrize("text, constraints, pack, xs, ys", PACKS)
def test_packs(backend, text, constraints, pack, xs, ys):
    """Whole packs, and shapes that packs do not fill."""
    b, arguments = Builder(), []
    for j, shape in enumerate(SHAPES):
        count = int(np.prod(shape, dtype=int))

        def pointers(kind, name, shape=shape, count=count):
            p = b.argument(T.Ptr(kind), name)
            if not shape:
                return p
            at = ops.addptr(b, ops.splat(b, p, shape=(count,)), ops.arange(b, start=0, end=count))
            return ops.reshape(b, at, shape=shape)

        inputs = [ops.load(b, pointers(KINDS[x.dtype.name], f"x{j}_{k}")) for k, x in enumerate(xs)]
        made = ops.inline_asm(b, *inputs, asm=text, constraints=constraints, pure=True, pack=pack,
                              types=tuple(KINDS[y.dtype.name] for y in ys))
        for k, value in enumerate(made if type(made) is tuple else (made,)):
            ops.store(b, pointers(KINDS[ys[k].dtype.name], f"y{j}_{k}"), value)
        arguments += [*xs, *[np.zeros_like(y) for y in ys]]
    module = verify(Module("packs", b.finish()))
    if backend == "interpreter":
        interpret(module, arguments)
    else:
        module = verify(passes.run(module, (passes.expand_ptx, *passes.CLEANUP)))
        backends_present()[backend](module, arguments)
    for j, shape in enumerate(SHAPES):
        count, at = int(np.prod(shape, dtype=int)), j * (len(xs) + len(ys)) + len(xs)
        for got, wanted in zip(arguments[at:], ys):
            good = (got == wanted) | (got != got) & (wanted != wanted)
            assert np.all(good[:count]), (shape, got)


# --- what is refused --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("text, constraints, said", [
    ("bar.sync 0;", "=r,r", "the instruction 'bar.sync'"),
    ("ld.global.b32 $0, [$1];", "=r,r", "the instruction 'ld.global.b32'"),
    ("again: add.s32 $0, $1, 1;", "=r,r", "the label 'again'"),
    ("mov.u32 $0, %tid.x;", "=r,r", "the operand '%tid.x'"),
    ("add.rz.f16 $0, $1, $1;", "=h,h", "the instruction 'add.rz.f16'"),
    ("add.s32 $0, $1;", "=r,r", "the instruction 'add.s32'"),
    ("add.s64 $0, $1, $1;", "=r,r", "'$1', which has 32 bits, as an operand of 64, in 'add.s64'"),
    ("add.s32 $0, $1, t;", "=r,r", "'t', which has no value, in 'add.s32'"),
    ("add.s32 $0, $1, 1.5;", "=r,r", "the operand 1.5, not an integer, in 'add.s32'"),
    ("add.f32 $0, $1, 1;", "=r,r", "the operand 1, not a float, in 'add.f32'"),
    ("mov.b32 $1, 0;", "=r,r", "'$0', which has no value"),
    ("add.s32 $0, $1, $1", "=r,r", "'add.s32', a statement without a semicolon"),
    ("{ .reg .b128 t; mov.b32 $0, $1; }", "=r,r", "registers of type 'b128'"),
    ("mov.b32 $0, $1;", "=r,q", "the constraint 'q'"),
    ("mov.b32 $0, $1;", "=r,r,r", "2 inputs, for arguments that fill 1 registers with pack=1"),
    ("mov.b32 $0, {$1, $1};", "=r,r", "'$1', which has 32 bits, as an operand of 16, in 'mov.b32'"),
    ("cvt.rs.f16x2.f32 $0, $1, $1, $1;", "=r,r", "the instruction 'cvt.rs.f16x2.f32'"),
    ("", "=r,0", "no instruction"),
])  # fmt: skip
def test_refusals(text, constraints, said):
    b = Builder()
    op = ops.inline_asm(b, b.argument(T.u32), asm=text, constraints=constraints, types=(u32,), pure=True, pack=1)
    assert ptx.refusal(op) == said
    module = Module("f", b.finish())
    assert passes.expand_ptx(module) is module
