"""Golden values and result types of the language, in eager kernels."""

import numpy as np
import pytest

import tritium.language as tl
from tritium.interp.eager import InterpretedFunction

eager = InterpretedFunction
SEEN = {}


def note(name, value):
    """Called by kernels: the type of a result."""
    SEEN[name] = str(value.dtype)


@eager
def result_types(N: tl.constexpr):
    at = tl.arange(0, N)
    f16, bf16, i8 = at.to(tl.float16), at.to(tl.bfloat16), at.to(tl.int8)
    u8, i1, i32 = at.to(tl.uint8), at > 1, at
    c, one = i1, 1.0
    note("f16*1.0", f16 * 1.0)
    note("f16*a", f16 * one)
    note("f16/2", f16 / 2)
    note("bf16/bf16", bf16 / bf16)
    note("f16+bf16", f16 + bf16)
    note("i32+bf16", i32 + bf16)
    note("i8+u8", i8 + u8)
    note("i8+1", i8 + 1)
    note("i1+1", i1 + 1)
    note("i1+i1", i1 + i1)
    note("i1*2.0", i1 * 2.0)
    note("i8*2.5", i8 * 2.5)
    note("i8/i8", i8 / i8)
    note("i8//i8", i8 // (i8 + 1))
    note("i1&1", i1 & 1)
    note("i8<<i32", i8 << i32)
    note("where f16", tl.where(c, f16, 0.0))
    note("where i8", tl.where(c, i8, 0.0))
    note("maximum f16", tl.maximum(f16, 0.0))
    note("maximum bf16", tl.maximum(bf16, bf16))
    note("minimum i8", tl.minimum(i8, 3))
    note("clamp f16", tl.clamp(f16, 0.0, 1.0))
    note("fma f16", tl.fma(f16, f16, 1.0))
    note("fdiv f16", tl.fdiv(f16, f16))
    note("sum f16", tl.sum(f16))
    note("sum bf16", tl.sum(bf16))
    note("sum i1", tl.sum(i1))
    note("sum i8", tl.sum(i8))
    note("sum u8", tl.sum(u8))
    note("max f16", tl.max(f16))
    note("max u8", tl.max(u8))
    note("max i1", tl.max(i1))
    values, places = tl.max(f16, 0, return_indices=True)
    note("max f16 value", values)
    note("max f16 place", places)
    note("cumsum bf16", tl.cumsum(bf16))
    note("cumsum i1", tl.cumsum(i1))
    note("cumprod i8", tl.cumprod(i8))
    note("xor_sum i8", tl.xor_sum(i8))
    note("reduce_or i1", tl.reduce_or(i1, 0))
    note("topk f16", tl.topk(f16, 2))
    note("sort f16", tl.sort(f16))
    note("histogram", tl.histogram(i32, 4))
    note("randint", tl.randint(0, at))
    note("rand", tl.rand(0, at))
    note("umulhi i32", tl.umulhi(i32, i32))
    note("argmax", tl.argmax(f16, 0))
    note("cdiv", tl.cdiv(i32, 3))
    m8, mb = tl.zeros((N, N), tl.int8), tl.zeros((N, N), tl.bfloat16)
    note("dot i8", tl.dot(m8, m8))
    note("dot bf16", tl.dot(mb, mb))


TYPES = {
    "f16*1.0": "fp16", "f16*a": "fp32", "f16/2": "fp32", "bf16/bf16": "fp32", "f16+bf16": "fp16", "i32+bf16": "fp32",
    "i8+u8": "uint8", "i8+1": "int8", "i1+1": "int32", "i1+i1": "int1", "i1*2.0": "fp32", "i8*2.5": "fp32",
    "i8/i8": "fp32", "i8//i8": "int8", "i1&1": "int32", "i8<<i32": "int32", "where f16": "fp16", "where i8": "fp32",
    "maximum f16": "fp32", "maximum bf16": "fp32", "minimum i8": "int32", "clamp f16": "fp32", "fma f16": "fp32",
    "fdiv f16": "fp16", "sum f16": "fp16", "sum bf16": "bf16", "sum i1": "uint32", "sum i8": "int32",
    "sum u8": "uint32", "max f16": "fp32", "max u8": "int32", "max i1": "int32", "max f16 value": "fp16",
    "max f16 place": "int32", "cumsum bf16": "fp32", "cumsum i1": "uint32", "cumprod i8": "int8", "xor_sum i8": "int8",
    "reduce_or i1": "int1", "topk f16": "fp32", "sort f16": "fp16", "histogram": "int32", "randint": "uint32",
    "rand": "fp32", "umulhi i32": "int32", "argmax": "int32", "cdiv": "int32", "dot i8": "int32", "dot bf16": "fp32",
}


def test_result_types():
    SEEN.clear()
    result_types[(1,)](16)
    assert SEEN == TYPES


@eager
def small_values(x_ptr, f_ptr, out_ptr, fout_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    tl.store(out_ptr + tl.arange(0, 4), x // 3)
    tl.store(out_ptr + 4 + tl.arange(0, 4), x % 3)
    tl.store(out_ptr + 8 + tl.arange(0, 4), x >> 1)
    tl.store(out_ptr + 12, -7 // 3)
    tl.store(out_ptr + 13, -7 % 3)
    y = tl.load(x_ptr + 4 + tl.arange(0, 4))
    tl.store(out_ptr + 16 + tl.arange(0, 4), tl.cumsum(y, 0))
    tl.store(out_ptr + 20 + tl.arange(0, 4), tl.cumsum(y, 0, reverse=True))
    tl.store(out_ptr + 24 + tl.arange(0, 4), tl.cumprod(y, 0))
    f = tl.load(f_ptr + tl.arange(0, 4))
    tl.store(fout_ptr + tl.arange(0, 4), f % 3.0)
    tl.store(fout_ptr + 4 + tl.arange(0, 4), -f)


def test_small_values():
    x = np.array([-7, 7, -1, -3, 1, 4, 3, 2], np.int32)
    f = np.array([-7, 7, 0.0, -0.0], np.float32)
    out, fout = np.zeros(28, np.int32), np.zeros(8, np.float32)
    small_values[(1,)](x, f, out, fout)
    assert out[:4].tolist() == [-2, 2, 0, -1] and out[4:8].tolist() == [-1, 1, -1, 0] and out[8] == -4
    assert out[12:14].tolist() == [-3, 2]  # constants are Python's own
    assert out[16:].tolist() == [1, 5, 8, 10, 10, 9, 5, 2, 1, 4, 12, 24]
    assert fout[:2].tolist() == [-1, 1] and fout[4:].tolist() == [7, -7, 0, 0]
    assert np.signbit(fout[6:]).tolist() == [True, False]  # the sign of a zero changes too


@eager
def swizzle(out_ptr, G: tl.constexpr):
    for i in range(4):
        for j in range(4):
            a, b = tl.swizzle2d(i, j, 4, 4, G)
            tl.store(out_ptr + i * 4 + j, a * 4 + b)


def test_swizzle2d():
    out = np.zeros((4, 4), np.int32)
    swizzle[(1,)](out, 2)
    assert out.tolist() == [[0, 4, 1, 5], [2, 6, 3, 7], [8, 12, 9, 13], [10, 14, 11, 15]]


@eager
def uniform_extremes(words_ptr, out_ptr):
    at = tl.arange(0, 4)
    tl.store(out_ptr + at, tl.uint_to_uniform_float(tl.load(words_ptr + at)))


def test_uniform_extremes():
    out = np.zeros(4, np.float32)
    uniform_extremes[(1,)](np.array([0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0], np.uint32), out)
    assert [float(v) for v in out] == [float.fromhex("0x1.fffffep-1")] * 2 + [0.0, 0.0]


@eager
def normals(out_ptr):
    a, b, c, d = tl.randn4x(0, tl.zeros((1,), tl.int32))
    at = tl.arange(0, 1)
    tl.store(out_ptr + at, a)
    tl.store(out_ptr + 1 + at, b)
    tl.store(out_ptr + 2 + at, c)
    tl.store(out_ptr + 3 + at, d)


def test_randn4x():
    out = np.zeros(4, np.float32)
    normals[(1,)](out)
    assert out == pytest.approx([0.0465515, 0.6699952, 0.2741977, -1.095427], abs=1e-5)
