"""What the language computes: operators, casts, the standard library, checked on the interpreter."""

import ml_dtypes
import numpy as np
import pytest
from builders import evaluate

import tritium as triton
import tritium.language as tl
from tritium.ir import types as T
from tritium.language.builtins import operators
from tritium.language.builtins.casting import convert


def op(symbol):
    return lambda b, x, y: operators.binary(b, symbol, x, y)


def i32(*values):
    return np.array(values, np.int32)


def f32(*values):
    return np.array(values, np.float32)


DIVIDENDS = i32(-7, 7, -1, -3)


@pytest.mark.parametrize("symbol, x, y, expected", [
    ("//", DIVIDENDS, 3, [-2, 2, 0, -1]),
    ("%", DIVIDENDS, 3, [-1, 1, -1, 0]),
    (">>", DIVIDENDS, 1, [-4, 3, -1, -2]),
    ("<<", DIVIDENDS, 2, [-28, 28, -4, -12]),
    ("/", i32(1, 3, 5, 7), 2, [0.5, 1.5, 2.5, 3.5]),
    ("%", f32(-7, 7, 5.5, -5.5), 3.0, [-1, 1, 2.5, -2.5]),
    ("-", np.array([0, 1], np.uint8), np.array([1, 255], np.uint8), [255, 2]),
    ("&", np.array([True, True]), np.array([True, False]), [True, False]),
    ("^", i32(5, 6), 3, [6, 5]),
    ("//", np.array([True, False]), np.array([True, True]), [True, False]),
])
def test_operators(symbol, x, y, expected):
    np.testing.assert_array_equal(evaluate(op(symbol), x, y), expected)


def test_right_shift_keeps_the_sign_of_the_left_operand():
    wide = evaluate(op(">>"), np.array([-8, 8], np.int8), np.array([1, 1], np.uint32))
    np.testing.assert_array_equal(wide, np.array([0xFFFFFFFC, 4], np.uint32))
    logical = evaluate(op(">>"), np.array([0xF8, 8], np.uint8), np.array([1, 1], np.int32))
    np.testing.assert_array_equal(logical, i32(0x7C, 4))
    assert evaluate(op(">>"), -8, i32(1, 1)).tolist() == [-4, -4]


def test_minus_changes_the_sign_of_zero():
    out = evaluate(lambda b, x: operators.unary(b, "-", x), f32(0.0, -0.0, 1.5, -2.0))
    assert out.tolist() == [0.0, 0.0, -1.5, 2.0] and np.signbit(out).tolist() == [True, False, True, False]


def test_invert():
    assert evaluate(lambda b, x: operators.unary(b, "~", x), i32(0, -1)).tolist() == [-1, 0]
    assert evaluate(lambda b, x: operators.unary(b, "~", x), np.array([1, 2], np.uint16)).tolist() == [65534, 65533]
    assert evaluate(lambda b, x: operators.unary(b, "not", x), np.array([True, False])).tolist() == [False, True]


def test_unsigned_comparison_with_a_negative_number():
    small = np.array([5, 0xFFFFFFFF], np.uint32)
    assert evaluate(lambda b, x: operators.compare(b, "<", x, -1), small).tolist() == [True, False]
    bytes_ = np.array([5, 255], np.uint8)
    assert evaluate(lambda b, x: operators.compare(b, "<", x, -1), bytes_).tolist() == [False, False]


def test_eight_bit_floats_compute():
    x = np.array([1.5, 2.0], ml_dtypes.float8_e4m3fn)
    assert evaluate(op("*"), x, x).astype(np.float32).tolist() == [2.25, 4.0]
    assert evaluate(tl.abs, -x).astype(np.float32).tolist() == [1.5, 2.0]
    assert evaluate(lambda b, v: operators.compare(b, ">", v, 1.75), x).tolist() == [False, True]


def test_elements_are_read_and_written():
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert evaluate(lambda b, v, i: operators.getitem(b, v, (i, 3)), x, np.int32(1)) == 7.0
    assert evaluate(lambda b, v: operators.getitem(b, v, (-1, -2)), x) == 6.0
    changed = evaluate(lambda b, v, i: operators.setitem(b, v, (0, i), 9), x, np.int32(2))
    assert changed.tolist() == [[0, 1, 9, 3], [4, 5, 6, 7]]


def to(kind, **options):
    return lambda b, x: tl.cast.fn(b, x, kind, **options)


@pytest.mark.parametrize("x, kind, expected", [
    (i32(2, 256, -1, 0), tl.int1, [True, True, True, False]),
    (f32(float("nan"), -0.0, 1e-40, 0), tl.int1, [True, False, True, False]),
    (i32(256, -1), tl.int8, [0, -1]), (i32(256, -1), tl.uint8, [0, 255]),
    (np.array([-1, 1], np.int8), tl.uint32, [0xFFFFFFFF, 1]), (np.array([200, 1], np.uint8), tl.int32, [200, 1]),
    (np.array([True, False]), tl.float32, [1.0, 0.0]), (f32(-1.9, 1.9), tl.int32, [-1, 1]),
    (f32(1.0625, 1.1875, 500, -500, float("inf"), 0.001, 1.9375, 2), tl.float8e4nv,
     [1.0, 1.25, 448, -448, 448, 0.001953125, 2.0, 2.0]),
    (f32(1.0625, 1.1875, 500, float("inf"), 0.001, 1.9375, 1, 2), tl.float8e5,
     [1.0, 1.25, 512, 57344, 0.0009765625, 2.0, 1, 2]),
    (i32(3, -2), tl.float8e5, [3, -2]),
])
def test_casts(x, kind, expected):
    out = evaluate(to(kind), x)
    np.testing.assert_array_equal(out, np.array(expected, out.dtype))


def test_rounding_towards_zero():
    x = f32(1 + 2**-11 + 2**-12, -1 - 2**-10 * 0.75)
    assert evaluate(to(tl.float16, fp_downcast_rounding="rtz"), x).tolist() == [1.0, -1.0]
    assert evaluate(to(tl.float16), x).tolist() == [1 + 2**-10, -1 - 2**-10]


def test_bitcast():
    assert evaluate(to(tl.int32, bitcast=True), f32(1.0, -0.0)).tolist() == [0x3F800000, -(1 << 31)]


def test_unsigned_offsets_are_not_signed(monkeypatch):
    """A u32 offset of 2**31 moves a pointer forward."""
    from builders import Bench
    b = Bench()
    moved = operators.binary(b, "+", b.tile("ptr<f32>"), b.tile("u32"))
    assert moved.handle.operands[1].type is T.i64
    back = operators.binary(b, "-", b.tile("ptr<f32>"), b.tile("u8"))
    assert back.handle.operands[1].type is T.i64 and back.handle.operands[1].kind.name == "sub"


def test_nan_rules():
    nan = float("nan")
    x, y = f32(nan, 1, nan, 2), f32(5, nan, nan, 1)
    np.testing.assert_array_equal(evaluate(tl.maximum, x, y), f32(5, 1, nan, 2))
    np.testing.assert_array_equal(evaluate(tl.minimum, x, y), f32(5, 1, nan, 1))
    every = tl.PropagateNan.ALL
    np.testing.assert_array_equal(evaluate(tl.maximum, x, y, propagate_nan=every), f32(nan, nan, nan, 2))
    np.testing.assert_array_equal(evaluate(tl.clamp, f32(nan, -1, 3, 0.5), 0.0, 1.0), f32(0, 0, 1, 0.5))
    np.testing.assert_array_equal(evaluate(tl.clamp, f32(nan, 2), 0.0, 1.0, propagate_nan=every), f32(nan, 1))


def test_correctly_rounded_functions():
    x = f32(2, 3, 5, 7)
    np.testing.assert_array_equal(evaluate(tl.sqrt_rn, x), np.sqrt(x))
    np.testing.assert_array_equal(evaluate(tl.div_rn, x, 3.0), x / np.float32(3))


def test_umulhi_is_unsigned():
    x, y = i32(-1, 1 << 30), i32(-1, 16)
    assert evaluate(tl.umulhi, x, y).tolist() == [-2, 4]  # (2**32 - 1)**2 >> 32 is 2**32 - 2


def test_where_broadcasts():
    out = evaluate(tl.where, np.array([[True], [False]]), f32(1, 2, 3, 4), 0.0)
    assert out.tolist() == [[1, 2, 3, 4], [0, 0, 0, 0]]


# --- the standard library -------------------------------------------------------------------------------------------

RANDOM = np.random.default_rng(0)
FLOATS = RANDOM.standard_normal((4, 8)).astype(np.float32)
INTS = RANDOM.integers(-50, 50, (4, 8)).astype(np.int32)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_reductions(axis):
    assert_close = lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5)
    assert_close(evaluate(tl.sum, FLOATS, axis=axis), FLOATS.sum(axis))
    np.testing.assert_array_equal(evaluate(tl.max, INTS, axis=axis), INTS.max(axis))
    np.testing.assert_array_equal(evaluate(tl.min, FLOATS, axis=axis), FLOATS.min(axis))
    np.testing.assert_array_equal(evaluate(tl.xor_sum, INTS, axis=axis), np.bitwise_xor.reduce(INTS, axis))
    if axis is not None:
        np.testing.assert_array_equal(evaluate(tl.argmax, FLOATS, axis=axis), FLOATS.argmax(axis))
        np.testing.assert_array_equal(evaluate(tl.argmin, INTS, axis=axis), INTS.argmin(axis))
        np.testing.assert_array_equal(evaluate(tl.reduce_or, INTS > 40, axis=axis), (INTS > 40).any(axis))


def test_ties_break_left():
    x = i32(3, 7, 7, 1, 7, 0, 1, 0)
    assert evaluate(tl.argmax, x, axis=0) == 1 and evaluate(tl.argmin, x, axis=0) == 5
    value, index = evaluate(tl.max, x, axis=0, return_indices=True)
    assert (value, index) == (7, 1)
    assert evaluate(tl.argmax, x, axis=0, tie_break_left=False) in (1, 2, 4)


def test_maximum_passes_nan_over():
    assert evaluate(tl.max, f32(float("nan"), 1, 3, float("nan")), axis=0) == 3


def test_scans():
    x = i32(1, 4, 3, 2)
    assert evaluate(tl.cumsum, x, axis=0).tolist() == [1, 5, 8, 10]
    assert evaluate(tl.cumsum, x, axis=0, reverse=True).tolist() == [10, 9, 5, 2]
    assert evaluate(tl.cumprod, x, axis=0).tolist() == [1, 4, 12, 24]
    np.testing.assert_array_equal(evaluate(tl.cumsum, INTS, axis=1), INTS.cumsum(1))


@pytest.mark.parametrize("x", [FLOATS, INTS], ids=["float", "int"])
def test_sorting(x):
    np.testing.assert_array_equal(evaluate(tl.sort, x), np.sort(x, -1))
    np.testing.assert_array_equal(evaluate(tl.sort, x, dim=1, descending=True), np.sort(x, -1)[:, ::-1])
    np.testing.assert_array_equal(evaluate(tl.topk, x, k=2), np.sort(x, -1)[:, ::-1][:, :2])
    np.testing.assert_array_equal(evaluate(tl.flip, x, dim=0), x[::-1])
    np.testing.assert_array_equal(evaluate(tl.flip, x, dim=-1), x[:, ::-1])
    bitonic = np.concatenate([np.sort(x[:, :4]), np.sort(x[:, 4:])[:, ::-1]], axis=1)
    np.testing.assert_array_equal(evaluate(tl.bitonic_merge, bitonic), np.sort(x, -1))
    np.testing.assert_array_equal(evaluate(tl.bitonic_merge, bitonic, descending=1), np.sort(x, -1)[:, ::-1])


def test_shapes():
    assert evaluate(tl.interleave, i32(1, 2), i32(3, 4)).tolist() == [1, 3, 2, 4]
    assert evaluate(tl.ravel, INTS).tolist() == INTS.ravel().tolist()
    assert evaluate(tl.zeros, shape=(2, 2), dtype=tl.int8).tolist() == [[0, 0], [0, 0]]
    np.testing.assert_array_equal(evaluate(tl.trans, INTS), INTS.T)
    np.testing.assert_array_equal(evaluate(tl.gather, INTS, i32(3, 0).reshape(2, 1) + np.zeros((2, 8), np.int32), 0),
                                  INTS[[3, 0]])
    assert evaluate(tl.histogram, i32(0, 1, 1, 3, 9, -1, 3, 3), num_bins=4).tolist() == [1, 2, 0, 3]


def test_full_wraps_small_integers():
    assert evaluate(tl.full, (2,), 300, tl.int8).tolist() == [44, 44]
    assert evaluate(tl.full, (), 1.5, tl.float8e5).astype(np.float32) == 1.5


def test_softmax_and_sigmoid():
    weights = np.exp(FLOATS - FLOATS.max(1, keepdims=True))
    shares = weights / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(evaluate(tl.softmax, FLOATS, dim=1, keep_dims=True), shares, rtol=1e-5)
    np.testing.assert_allclose(evaluate(tl.sigmoid, FLOATS), 1 / (1 + np.exp(-FLOATS)), rtol=1e-6)
    np.testing.assert_allclose(evaluate(tl.softmax, FLOATS[0]), shares[0], rtol=1e-5)


def test_cdiv():
    assert evaluate(tl.cdiv, i32(7, 8, 9, 0), 4).tolist() == [2, 2, 3, 0]


@pytest.mark.parametrize("x, y", [(7, 4), (8, 4), (0, 4), (-7, 2), (7, -2), (True, 2), (7.0, 2), (2**70, 3)])
def test_cdiv_on_the_host(x, y):
    """Grids call it: two ints are divided at once, constants and floats as the function does."""
    expected = (x + y - 1) // y
    assert triton.cdiv(x, y) == triton.cdiv(y=y, x=x) == triton.cdiv(tl.constexpr(x), y) == expected
    assert type(triton.cdiv(x, y)) is type(expected)


def test_wrong_calls_of_cdiv():
    with pytest.raises(TypeError, match=r"^cdiv\(\) missing 1 required positional argument: 'y'"):
        triton.cdiv(1)
    with pytest.raises(ZeroDivisionError):
        triton.cdiv(1, 0)


def test_swizzle2d():
    i, j = np.indices((4, 4), dtype=np.int32)
    new_i, new_j = evaluate(tl.swizzle2d, i, j, 4, 4, 2)
    assert (new_i * 4 + new_j).tolist() == [[0, 4, 1, 5], [2, 6, 3, 7], [8, 12, 9, 13], [10, 14, 11, 15]]


def test_dot_accumulates():
    a, c = RANDOM.standard_normal((16, 32)).astype(np.float16), RANDOM.standard_normal((32, 16)).astype(np.float16)
    acc = np.ones((16, 16), np.float32)
    expected = a.astype(np.float64) @ c.astype(np.float64) + 1
    np.testing.assert_allclose(evaluate(tl.dot, a, c, acc), expected, rtol=1e-5)
    batch = evaluate(tl.dot, a.reshape(2, 2, 4, 32), np.broadcast_to(c, (2, 2, 32, 16)))
    np.testing.assert_allclose(batch.reshape(16, 16), expected - 1, rtol=1e-4, atol=1e-6)


def test_converting_a_pointer_and_back(b):
    pointer = b.tile("ptr<f32>")
    address = convert(b, pointer, T.i64)
    assert address.dtype is tl.int64 and convert(b, address, T.Ptr(T.f16)).dtype == tl.pointer_type(tl.float16)
    assert convert(b, pointer, T.i1).dtype is tl.int1
