"""The conflicts between releases that change results silently: one test each, at every level, on every engine."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.dialects.engines import HALF, LEVELS
from tests.language.coverage.engines import ENGINES

ALL = pytest.mark.parametrize("level", LEVELS, indirect=True)
NEWEST = {"3.6": False, "3.7": False, "3.9": True}


@triton.jit
def half_of(n):
    return n // 2


@triton.jit
def two():
    return 2.0


@triton.jit
def chosen(n):
    if n > 3:
        return 1.0
    else:
        return 2.0


@triton.jit
def either_way(n):
    if n > 3:
        return 1.0
    return 1.0


@triton.jit
def parts():
    return 2.0, 16


@triton.jit
def yes():
    return True


@triton.jit
def nothing():
    return None


@triton.jit
def width(x):
    return x.dtype.primitive_bitwidth


@triton.jit
def returns_constants(x, out, n):
    v = tl.load(x + tl.arange(0, half_of(16)))
    i = v.to(tl.int8)
    size: tl.constexpr = half_of(8)
    stored = two()
    tl.static_assert(size == 4)
    tl.store(out, width(v * two()))
    tl.store(out + 1, width(v * stored))
    tl.store(out + 2, width(v * parts()[0]))
    tl.store(out + 3, width(i + tl.cdiv(100, 3)))
    tl.store(out + 4, width(v * chosen(n)))
    tl.store(out + 5, width(v * either_way(n)))
    tl.store(out + 6, width(tl.where(v > 0, v, two())))
    tl.store(out + 7, width(tl.cdiv(16, 4).to(tl.int64)))
    tl.store(out + 8, width(v * (two() + 1)))
    tl.store(out + 9, width(v * -two()))
    tl.store(out + 10, width(tl.zeros([tl.cdiv(64, 4)], tl.float16)) + (nothing() is None) + yes())


@ALL
def test_constants_that_functions_return(engine, level):
    """Row 1. An assigned constant, and one that a run-time condition chooses, are tensors at every level."""
    out = np.zeros(16, np.int32)
    engine(returns_constants, (HALF, out, 5))
    number = 32 if level == "3.6" else 16
    narrow = 32 if level == "3.6" else 8
    assert out[:11].tolist() == [number, 32, number, narrow, 32, number, number, 64, number, number, 18]


@triton.jit
def compares(x, out):
    v = tl.load(x + tl.arange(0, 8))
    o = out + tl.arange(0, 8)
    tl.store(o, (v == 0.1).to(tl.int32))
    tl.store(o + 8, (v >= 0.1).to(tl.int32))
    tl.store(o + 16, (0.1 != v).to(tl.int32))


@ALL
def test_comparisons_with_a_number(engine, level):
    """Row 2."""
    out = np.zeros(24, np.int32)
    engine(compares, (HALF, out))
    adapts = NEWEST[level]
    assert out[::8].tolist() == [adapts, adapts, not adapts]


@triton.jit
def widths(x, b, i, out):
    v, w, n = tl.load(x + tl.arange(0, 8)), tl.load(b + tl.arange(0, 8)).to(tl.bfloat16), tl.load(i + tl.arange(0, 8))
    tl.store(out, width(tl.maximum(v, 0.0)))
    tl.store(out + 1, width(tl.minimum(n, 3)))
    tl.store(out + 2, width(tl.clamp(v, 0.0, 1.0)))
    tl.store(out + 3, width(tl.fma(v, v, 1.0)))
    tl.store(out + 4, width(tl.maximum(n > 0, 1)))
    tl.store(out + 5, width(tl.maximum(n.to(tl.int32), 2.5)))
    tl.store(out + 6, width(tl.maximum(w, w)))
    tl.store(out + 7, width(tl.clamp(w, w, w)))
    tl.store(out + 8, width(tl.cumsum(w)))
    tl.store(out + 9, width(tl.cumprod(w)))
    tl.store(out + 10, width(tl.max(w, 0, return_indices=True)[0]))
    tl.store(out + 11, width(tl.max(w, 0)))
    tl.store(out + 12, width(tl.cumprod(n)))
    tl.store(out + 13, width(tl.cumprod(n > 0)))
    tl.store(out + 14, width(tl.fdiv(v, v)))
    tl.store(out + 15, width(tl.where(v > 0, v, 0.0) * 1.0))
    tl.store(out + 16, width(tl.maximum(v, w)))
    tl.store(out + 17, width(tl.sum(w)) + width(tl.sort(w)))
    tl.store(out + 18, width(tl.fma(2.0, 3.0, v)))
    tl.store(out + 19, width(tl.fma(v, 1.0, w.to(tl.float32))))


OLD = [32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 8, 1, 16, 16, 32, 32, 32, 32]
NEW = [16, 8, 16, 16, 32, 32, 16, 16, 16, 16, 16, 32, 32, 32, 32, 16, 16, 32, 16, 32]


@ALL
def test_result_types(engine, level):
    """Rows 3 to 7, and what did not change."""
    out = np.zeros(20, np.int32)
    engine(widths, (HALF, np.ones(8, np.float32), np.ones(8, np.int8), out))
    assert out.tolist() == (NEW if NEWEST[level] else OLD)


@triton.jit
def values(x, b, i, out):
    at = tl.arange(0, 8)
    v, w, n = tl.load(x + at), tl.load(b + at).to(tl.bfloat16), tl.load(i + at)
    tl.store(out + at, tl.cumsum(w).to(tl.float32))
    tl.store(out + 8 + at, tl.cumprod(n).to(tl.float32))
    tl.store(out + 16 + at, tl.fdiv(v, v + 0.2).to(tl.float32))
    tl.store(out + 24 + at, tl.clamp(v, 0.05, 0.3).to(tl.float32))


@ALL
def test_results(engine, level):
    """The values of rows 4 to 7: sums of 257 in bf16 round, products of 3 overflow in int8."""
    out = np.zeros(32, np.float32)
    engine(values, (HALF, np.full(8, 257, np.float32), np.full(8, 3, np.int8), out))
    x = HALF[0]
    if NEWEST[level]:
        assert out[7] == 2048 and out[15] == 3**8
        np.testing.assert_allclose(out[16], np.float32(x) / np.float32(np.float16(x + np.float16(0.2))), rtol=3e-7)
    else:
        assert out[7] == 2048 and out[15] == np.array(3**8).astype(np.int8)
        assert out[16] == np.float16(np.float32(x) / np.float32(np.float16(x + np.float16(0.2))))
    assert out[24] == x


@triton.jit
def prints(x):
    tl.device_print("v", tl.load(x), hex=True)


@ALL
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_floats_in_hexadecimal(dtype, level, capfd):
    """Row 8."""
    x = np.array([-1.5], dtype)
    expected = "-0x1.8p+0" if NEWEST[level] else {"float16": "0xbe00", "float32": "0xbfc00000"}[dtype]
    for name, engine in ENGINES.items():
        engine(prints, (x,))
        assert capfd.readouterr().out.split()[-1] == expected, name


@pytest.mark.parametrize("level", ["3.9"], indirect=True)
def test_numbers_out_of_range(level):
    """Row 2 and 3: what no value of the type can equal is an error, as in arithmetic."""
    for kernel in (below_zero, too_large, least):
        with pytest.raises(triton.CompilationError, match=r"negative scalar|out of range"):
            kernel[(1,)](np.ones(8, np.uint8))


@triton.jit
def below_zero(x):
    tl.store(x, (tl.load(x) < -1).to(tl.uint8))


@triton.jit
def too_large(x):
    tl.store(x, (tl.load(x) < 300).to(tl.uint8))


@triton.jit
def least(x):
    tl.store(x, tl.minimum(tl.load(x), 300))
