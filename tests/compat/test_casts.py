"""Conversions between every two dtypes, on ordinary and on special values, in all three ways a kernel can run."""

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.language.coverage.engines import cuda

INTS = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16, "int32": np.int32,
        "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64}  # fmt: skip
WIDE = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
FP8 = {"float8e5": ml_dtypes.float8_e5m2, "float8e4nv": ml_dtypes.float8_e4m3fn,
       "float8e4b8": ml_dtypes.float8_e4m3fnuz, "float8e5b16": ml_dtypes.float8_e5m2fnuz}  # fmt: skip
FLOATS = {**WIDE, **FP8}
DTYPES = {"int1": np.bool_, **INTS, **FLOATS}
NUMBERS = [0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 0.1, -7.3, 127.4, -128.9, 300.0, 65504.0, 1e-8, 448.0, 57344.0, 3.9,
           1.0625, 1.1875, 500.0, np.inf, -np.inf, np.nan, 0.001, 1.9375, 1e-40, 6e-8, 240.0, 1e6, -1e6, 2.0, 3.0,
           5.0]  # fmt: skip
N = len(NUMBERS)
OF_AMD = ("float8e4b8", "float8e5b16")  # refused on NVIDIA GPUs


@triton.jit
def casts(x, outs, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    for k in tl.static_range(len(outs)):
        z = v.to(outs[k].dtype.element_ty)
        tl.static_assert(z.dtype == outs[k].dtype.element_ty)
        tl.store(outs[k] + i, z)


def values(name):
    kind = DTYPES[name]
    if name == "int1":
        return np.arange(N) % 3 == 0
    if name in FLOATS:
        with np.errstate(all="ignore"):
            return np.array(NUMBERS).astype(np.float32 if name in FP8 else kind).astype(kind)
    info = np.iinfo(kind)
    return np.array([0, 1, 2, 7, 100, 127, info.max, info.min, info.max - 1, info.min + 1, 63, 64, 5, 50, 11, 3] * 2,
                    dtype=kind)


def expected(x, a, b):
    """The converted values, and for which of them the language says what comes out."""
    kind, known = DTYPES[b], np.ones(N, bool)
    if a == b:
        return x, known
    wide = x.astype(np.float64) if a in FLOATS else x
    if b == "int1":
        return wide != 0, known
    if a in FLOATS and b in INTS:
        info, whole = np.iinfo(kind), np.trunc(wide)
        known = np.isfinite(wide) & (whole >= info.min) & (whole < 2.0 ** (info.bits - (info.kind == "i")))
        return np.where(known, whole, 0).astype(kind), known
    if b in FP8:  # nearest even, saturating; NaN stays
        limit = float(ml_dtypes.finfo(kind).max)
        return np.clip(x.astype(np.float32), -limit, limit).astype(kind), known
    if b in ("float16", "bfloat16"):  # through f32
        return x.astype(np.float32).astype(kind), known
    return x.astype(kind), known


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("a", DTYPES)
def test_every_pair(engine, a):
    if engine is cuda and a in OF_AMD:
        with pytest.raises(triton.CompilationError, match="not supported in this architecture"):
            engine(casts, [values(a), (), N])
        return
    x = values(a)
    outs = {b: np.zeros(N, kind) for b, kind in DTYPES.items() if engine is not cuda or b not in OF_AMD}
    engine(casts, [x, tuple(outs.values()), N])
    for b, got in outs.items():
        want, known = expected(x, a, b)
        got, want = (np.asarray(v).astype(np.float64)[known] for v in (got, want))
        np.testing.assert_array_equal(got, want, err_msg=f"{a} -> {b}")
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]), err_msg=f"{a} -> {b}: zeros")


@triton.jit
def towards_zero(x, half, brain, byte, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(half + i, v.to(tl.float16, fp_downcast_rounding="rtz"))
    tl.store(brain + i, tl.cast(v, tl.bfloat16, "rtz"))
    tl.store(byte + i, v.to(tl.float8e5, fp_downcast_rounding="rtz"))


def test_rounding_towards_zero(engine):
    x = np.float32([1 + 2**-11, -1 - 2**-11, 1.9999, -1.9999, 3.1, 1e-3, -1e-3, 0.0])
    half, brain, byte = np.zeros(8, np.float16), np.zeros(8, ml_dtypes.bfloat16), np.zeros(8, ml_dtypes.float8_e5m2)
    engine(towards_zero, [x, half, brain, byte, 8])
    for got, bits in ((half, 10), (brain, 7), (byte, 2)):
        fraction, exponent = np.frexp(x.astype(np.float64))
        want = np.ldexp(np.trunc(fraction * 2.0 ** (bits + 1)), exponent - bits - 1)
        np.testing.assert_array_equal(got.astype(np.float64), want, err_msg=str(got.dtype))


@triton.jit
def reread(x, outs, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    for k in tl.static_range(len(outs)):
        tl.store(outs[k] + i, v.to(outs[k].dtype.element_ty, bitcast=True))


@pytest.mark.parametrize("names", [
    ("int8", "uint8", "float8e5", "float8e4nv", "float8e4b8", "float8e5b16"),
    ("int16", "uint16", "float16", "bfloat16"), ("int32", "uint32", "float32"), ("int64", "uint64", "float64"),
], ids=lambda names: names[0])  # fmt: skip
def test_bitcasts(engine, names):
    names = [name for name in names if engine is not cuda or name not in OF_AMD]
    size = np.dtype(DTYPES[names[0]]).itemsize
    bits = np.random.default_rng(0).integers(0, 256, 32 * size, np.uint8)
    for a in names:
        outs = tuple(np.zeros(32, DTYPES[b]) for b in names)
        engine(reread, [bits.view(DTYPES[a]), outs, 32])
        for b, got in zip(names, outs):
            np.testing.assert_array_equal(got.view(np.uint8), bits, err_msg=f"{a} -> {b}")


@triton.jit
def addresses(x, out):
    address = (x + 1).to(tl.int64)
    aligned = (address + 15) // 16 * 16
    tl.store(out, tl.load(aligned.to(tl.pointer_type(tl.int32))))
    tl.store(out + 1, (aligned % 16).to(tl.int32))
    tl.store(out + 2, x.to(tl.int1).to(tl.int32))
    tl.store(out + 3, tl.load((x.to(tl.uint64) + 8).to(tl.pointer_type(tl.int32))))
    tl.store(out + 4, tl.load(x.to(tl.pointer_type(tl.int16)) + 2).to(tl.int32))


def test_addresses_are_numbers(engine):
    x, out = np.arange(100, 132, dtype=np.int32), np.zeros(5, np.int32)
    engine(addresses, [x, out])
    place = -(-(x.ctypes.data + 4) // 16) * 16
    assert out.tolist() == [x[(place - x.ctypes.data) // 4], 0, 1, x[2], x[1] & 0xFFFF]
