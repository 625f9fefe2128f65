"""Matrix products: every dtype and shape, accumulators, epilogues, batches, precisions and microscaling formats."""

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.language.coverage.engines import cuda

pytestmark = pytest.mark.sampled

NUMPY = {"int8": np.int8, "int32": np.int32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
         "float32": np.float32, "float64": np.float64, "float8e5": ml_dtypes.float8_e5m2,
         "float8e4nv": ml_dtypes.float8_e4m3fn, "float8e4b8": ml_dtypes.float8_e4m3fnuz,
         "float8e5b16": ml_dtypes.float8_e5m2fnuz}  # fmt: skip
rng = np.random.default_rng(0)


def numbers(name, shape):
    """Numbers that every dtype holds exactly, and whose products sum without rounding."""
    return (rng.integers(-8, 9, shape) / (1 if name.startswith("int") else 4)).astype(np.float32).astype(NUMPY[name])


def refused_by_tensor_cores(engine, kind, *k):
    """Whether a GPU refuses a product: sums shorter than its instructions', types it does not have."""
    least = {"int8": 32, "float8e5": 32, "float8e4nv": 32, "float32": 8, "float64": 4}.get(kind, 16)
    return engine is cuda and (min(k) < least or kind in ("float8e4b8", "float8e5b16"))


@triton.jit
def product(a, b, c, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, SUM: tl.constexpr, THEN: tl.constexpr,
            PRECISION: tl.constexpr, TRANSPOSED: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    if TRANSPOSED:
        x = tl.trans(tl.load(a + k[:, None] * M + m[None, :]))
        y = tl.load(b + n[:, None] * K + k[None, :]).T
    else:
        x = tl.load(a + m[:, None] * K + k[None, :])
        y = tl.load(b + k[:, None] * N + n[None, :])
    at = m[:, None] * N + n[None, :]
    if THEN == "acc":
        z = tl.dot(x, y, acc=tl.load(c + at), input_precision=PRECISION, out_dtype=SUM)
    else:
        z = tl.dot(x, y, input_precision=PRECISION, out_dtype=SUM)
    tl.static_assert(z.dtype == SUM)
    if THEN == "+=":
        z += tl.load(c + at)
    elif THEN == "rows":
        z += tl.load(c + m)[:, None]
    elif THEN == "columns":
        z += tl.load(c + n)[None, :]
    elif THEN == "dot":
        w = tl.load(c + n[:, None] * N + n[None, :])
        z = tl.dot(z.to(w.dtype), w, out_dtype=SUM, input_precision=PRECISION)
    tl.store(out + at, z)


TYPES = [("int8", "int32"), ("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32"),
         ("float32", "float32"), ("float64", "float64"), ("float8e5", "float32"), ("float8e4nv", "float32"),
         ("float8e4nv", "float16"), ("float8e4b8", "float32"), ("float8e5b16", "float32")]  # fmt: skip
SHAPES = [(16, 16, 16), (1, 1, 1), (2, 8, 4), (32, 16, 64), (1, 64, 32), (64, 1, 2)]


@pytest.mark.parametrize("kind, total", TYPES, ids=lambda t: t)
def test_shapes(engine, kind, total):
    for m, n, k in SHAPES:
        a, b = numbers(kind, (m, k)), numbers(kind, (k, n))
        exact = a.astype(np.float64) @ b.astype(np.float64)
        out, turned = np.zeros((m, n), NUMPY[total]), np.zeros((m, n), NUMPY[total])
        if refused_by_tensor_cores(engine, kind, k):
            with pytest.raises(triton.CompilationError, match=r"K >= \d+, got|not supported in this architecture"):
                engine(product, [a, b, None, out, m, n, k, getattr(tl, total), "", None, False])
            continue
        engine(product, [a, b, None, out, m, n, k, getattr(tl, total), "", None, False])
        engine(product, [np.ascontiguousarray(a.T), np.ascontiguousarray(b.T), None, turned, m, n, k,
                         getattr(tl, total), "", None, True])
        np.testing.assert_array_equal(out, exact.astype(NUMPY[total]), err_msg=str((m, n, k)))
        np.testing.assert_array_equal(turned, out)


@pytest.mark.parametrize("kind, total", TYPES[:6], ids=lambda t: t)
@pytest.mark.parametrize("then", ["acc", "+=", "rows", "columns", "dot"])
def test_what_follows(engine, kind, total, then):
    a, b = numbers(kind, (16, 32)), numbers(kind, (32, 32))
    c = numbers(kind, (32, 32)).astype(NUMPY[kind if then == "dot" else total])
    if then == "dot":
        a, c = (a * np.eye(16, 32)).astype(a.dtype), (c > 0).astype(c.dtype)  # so that no narrow type overflows
    elif then in ("acc", "+="):
        c = c[:16]
    out = np.zeros((16, 32), NUMPY[total])
    engine(product, [a, b, c, out, 16, 32, 32, getattr(tl, total), then, None, False])
    exact, wide = a.astype(np.float64) @ b.astype(np.float64), c.astype(np.float64)
    exact = {"acc": lambda: exact + wide, "+=": lambda: exact + wide, "rows": lambda: exact + wide.flat[:16][:, None],
             "columns": lambda: exact + wide.flat[:32], "dot": lambda: exact @ wide}[then]()
    np.testing.assert_allclose(out.astype(np.float64), exact, rtol=1e-3 if total == "float16" else 0)


# How many bits of each operand a way to multiply f32 keeps at least.
BITS = {None: 11, "tf32": 11, "tf32x3": 21, "bf16x3": 15, "bf16x6": 23, "ieee": 24}


def test_precisions_of_f32(engine):
    a, b = (rng.standard_normal((32, 32)).astype(np.float32) for _ in range(2))
    exact, scale = a.astype(np.float64) @ b, np.abs(a).astype(np.float64) @ np.abs(b)
    for precision, bits in BITS.items():
        out = np.zeros((32, 32), np.float32)
        engine(product, [a, b, None, out, 32, 32, 32, tl.float32, "", precision, False])
        assert (np.abs(out - exact) / scale).max() < 2.0 ** (2 - bits), precision


@triton.jit
def batched(a, b, out, SHAPE: tl.constexpr, SUM: tl.constexpr):
    numel: tl.constexpr = SHAPE[0] * SHAPE[1] * SHAPE[2] * SHAPE[2]
    at = tl.arange(0, numel).reshape(SHAPE[0], SHAPE[1], SHAPE[2], SHAPE[2])
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at), out_dtype=SUM))
    at = at.reshape(SHAPE[0] * SHAPE[1], SHAPE[2], SHAPE[2])
    tl.store(out + numel + at, tl.dot(tl.load(a + at), tl.load(b + at), out_dtype=SUM))


@pytest.mark.parametrize("kind, total", [("float16", "float32"), ("float32", "float32"), ("int8", "int32")])
def test_batches(engine, kind, total):
    shapes = ((2, 2, 32), (1, 4, 32)) if engine is cuda else ((2, 2, 8), (1, 4, 1), (8, 1, 4))
    for shape in shapes:
        a, b = (numbers(kind, (*shape, shape[-1])) for _ in range(2))
        out = np.zeros((2, *shape, shape[-1]), NUMPY[total])
        engine(batched, [a, b, out, shape, getattr(tl, total)])
        np.testing.assert_array_equal(out, [a.astype(np.float64) @ b.astype(np.float64)] * 2)


# --- microscaling -----------------------------------------------------------------------------------------------------
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
STORED = {"e4m3": (ml_dtypes.float8_e4m3fn, np.uint8), "e5m2": (ml_dtypes.float8_e5m2, np.uint8),
          "bf16": (ml_dtypes.bfloat16, np.uint16), "fp16": (np.float16, np.uint16)}  # fmt: skip
FORMATS = ("e2m1", *STORED)
M, N, K = 16, 8, 64


@triton.jit
def scaled(a, sa, b, sb, out, FA: tl.constexpr, FB: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
           PA: tl.constexpr, PB: tl.constexpr, GROUP: tl.constexpr, ACC: tl.constexpr):
    m, n, g = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // GROUP)
    x = tl.load(a + m[:, None] * (K // PA) + tl.arange(0, K // PA)[None, :])
    y = tl.load(b + n[None, :] * (K // PB) + tl.arange(0, K // PB)[:, None])
    at = m[:, None] * N + n[None, :]
    if sa is not None and sb is not None:
        p, q = tl.load(sa + m[:, None] * (K // GROUP) + g), tl.load(sb + n[:, None] * (K // GROUP) + g)
        if ACC:
            z = tl.dot_scaled(x, p, FA, y, q, FB, acc=tl.load(out + at))
        else:
            z = tl.dot_scaled(x, p, FA, y, q, FB)
    elif sa is not None:
        z = tl.dot_scaled(x, tl.load(sa + m[:, None] * (K // GROUP) + g), FA, y, None, FB)
    else:
        z = tl.dot_scaled(x, None, FA, y, None, FB)
    tl.static_assert(z.dtype == tl.float32)
    tl.store(out + at, z)


def operand(form, rows, as_bytes):
    """Memory and values of an operand with K last."""
    if form == "e2m1":
        codes = rng.integers(0, 16, (rows, K)).astype(np.uint8)
        return codes[:, 0::2] | codes[:, 1::2] << 4, FP4[codes]
    kind, raw = STORED[form]
    x = rng.standard_normal((rows, K)).astype(np.float32).astype(kind)
    return (x.view(raw) if as_bytes else x), x.astype(np.float64)


@pytest.mark.parametrize("left", FORMATS)
@pytest.mark.parametrize("right", FORMATS)
def test_microscaling(engine, left, right):
    """No operand loses bits: the only error is that of sums in f32."""
    for scales, acc in ((2, False), (2, True), (1, False), (0, False)):
        (a, x), (b, y) = operand(left, M, acc), operand(right, N, not acc)
        sa, sb = (rng.integers(120, 135, (rows, K // 32)).astype(np.uint8) for rows in (M, N))
        x = x * np.repeat(2.0 ** (sa.astype(float) - 127), 32, 1) if scales > 0 else x
        y = y * np.repeat(2.0 ** (sb.astype(float) - 127), 32, 1) if scales > 1 else y
        out = rng.standard_normal((M, N)).astype(np.float32)
        exact = x @ y.T + (out if acc else 0)
        engine(scaled, [a, sa if scales > 0 else None, b, sb if scales > 1 else None, out, left, right, M, N, K,
                        2 if left == "e2m1" else 1, 2 if right == "e2m1" else 1, 32, acc])
        assert (np.abs(out - exact) / (np.abs(x) @ np.abs(y.T) + 1)).max() < 2e-6


def test_scales_that_are_floats(engine):
    (a, x), (b, y) = operand("e2m1", M, False), operand("e2m1", N, False)
    sa, sb = (rng.integers(0, 100, (rows, K // 16)).astype(np.uint8).view(ml_dtypes.float8_e4m3fn) for rows in (M, N))
    out = np.zeros((M, N), np.float32)
    engine(scaled, [a, sa, b, sb, out, "e2m1", "e2m1", M, N, K, 2, 2, 16, False])
    x, y = (v * np.repeat(s.astype(np.float64), 16, 1) for v, s in ((x, sa), (y, sb)))
    np.testing.assert_allclose(out, x @ y.T, rtol=1e-5, atol=1e-3)
