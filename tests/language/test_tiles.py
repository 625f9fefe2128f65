"""Block pointers and tensor descriptors: what they read and write, where they stop, what they refuse."""

import numpy as np
import pytest
from builders import Bench, evaluate

import tritium.language as tl
from tritium.frontend import lower
from tritium.interp.machine import interpret
from tritium.ir import types as T
from tritium.language.builtins import operators
from tritium.language.source.function import device
from tritium.language.types.values import flatten

X = np.arange(6 * 10, dtype=np.float32).reshape(6, 10)


def window(x, row, column, shape, fill=0.0):
    """The tile of an array at a place, `fill` outside of it."""
    out = np.full(shape, fill, x.dtype)
    for i in range(shape[0]):
        for j in range(shape[1]):
            if 0 <= row + i < x.shape[0] and 0 <= column + j < x.shape[1]:
                out[i, j] = x[row + i, column + j]
    return out


@device
def block_copy(x, out, rows, columns, row, column, H: tl.constexpr, W: tl.constexpr, PADDING: tl.constexpr):
    source = tl.make_block_ptr(x, (rows, columns), (columns, 1), (row, column), (H, W), (1, 0))
    target = tl.make_block_ptr(out, (H, W), (W, 1), (0, 0), (H, W), (1, 0))
    tile = tl.load(source, boundary_check=(0, 1), padding_option=PADDING)
    tl.store(target, tile)


def launch(kernel, signature, constants, *args):
    module = lower(kernel, {**signature, **dict.fromkeys(constants, "constexpr")}, constants)
    interpret(module, list(args), (1,))


SIGNATURE = {"x": "*fp32", "out": "*fp32", "rows": "i32", "columns": "i32", "row": "i32", "column": "i32"}


@pytest.mark.parametrize("row, column", [(0, 0), (4, 6), (-2, -3), (5, 9), (2, 1)])
@pytest.mark.parametrize("padding, fill", [("zero", 0.0), ("nan", float("nan")), ("", 0.0)])
def test_block_pointer_reads_and_pads(row, column, padding, fill):
    out = np.zeros((4, 8), np.float32)
    launch(block_copy, SIGNATURE, {"H": 4, "W": 8, "PADDING": padding}, X, out, 6, 10, row, column)
    np.testing.assert_array_equal(out, window(X, row, column, (4, 8), fill))


@device
def descriptor_copy(x, out, rows, columns, row, column, H: tl.constexpr, W: tl.constexpr, PADDING: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [H, W], PADDING)
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [H, W])
    target.store([row, column], source.load([row, column]) * 2)


@pytest.mark.parametrize("row, column", [(0, 0), (4, 6), (-2, -3), (2, 1)])
def test_descriptor_stores_only_inside(row, column):
    out = np.full((6, 10), -1, np.float32)
    launch(descriptor_copy, SIGNATURE, {"H": 4, "W": 8, "PADDING": "zero"}, X, out, 6, 10, row, column)
    expected = np.full((6, 10), -1, np.float32)
    inside = np.s_[max(row, 0):row + 4, max(column, 0):column + 8]
    expected[inside] = X[inside] * 2
    np.testing.assert_array_equal(out, expected)


@device
def walk(x, out, n, BLOCK: tl.constexpr):
    p = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(0, n, BLOCK):
        total += tl.load(p, boundary_check=(0,))
        p = tl.advance(p, (BLOCK,))
    tl.store(out, tl.sum(total, 0))


def test_block_pointers_are_carried_through_loops():
    x, out = np.arange(21, dtype=np.float32), np.zeros(1, np.float32)
    launch(walk, {"x": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 8}, x, out, 21)
    assert out[0] == x.sum()


@device
def move_rows(x, rows_of, out, n, m, column, C: tl.constexpr):
    rows = tl.load(rows_of + tl.arange(0, 8))
    source = tl.make_tensor_descriptor(x, [n, m], [m, 1], [1, C])
    target = tl.make_tensor_descriptor(out, [n, m], [m, 1], [1, C])
    tile = source.gather(rows, column)
    target.scatter(tile + 1, rows, column)
    target.atomic_add([0, column], tl.full((1, C), 100.0, tl.float32))


def test_gather_and_scatter_of_rows():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((12, 16)).astype(np.float32)
    rows = np.array([3, 11, 0, 5, 7, 12, 2, 9], np.int32)  # 12 is outside
    out = np.zeros_like(x)
    launch(move_rows, {"x": "*fp32", "rows_of": "*i32", "out": "*fp32", "n": "i32", "m": "i32", "column": "i32"},
           {"C": 8}, x, rows, out, 12, 16, 10)
    expected = np.zeros_like(x)
    for row in rows[rows < 12]:
        expected[row, 10:16] = x[row, 10:16] + 1
    expected[0, 10:16] += 100
    np.testing.assert_array_equal(out, expected)


def test_what_a_descriptor_says_about_itself(b):
    desc = tl.make_tensor_descriptor.fn(b, b.tile("ptr<f16>"), [b.tile("i64"), 32], [32, 1], [16, 32])
    assert isinstance(desc, tl.tensor_descriptor) and desc.dtype is tl.float16
    assert [x.dtype for x in desc.shape] == [tl.int32, tl.int32] and [x.dtype for x in desc.strides] == [tl.int64] * 2
    assert desc.block_shape == (16, 32) and desc.block_type == tl.block_type(tl.float16, [16, 32])
    handles, rebuild = flatten(desc)
    assert len(handles) == 5 and rebuild(handles).block_shape == (16, 32)


def test_what_a_block_pointer_says_about_itself(b):
    p = tl.make_block_ptr.fn(b, b.tile("ptr<f16>"), (8, 8), (8, 1), (0, 0), (4, 4), (1, 0))
    assert p.type.is_ptr() and p.type.element_ty == tl.block_type(tl.float16, [4, 4])
    assert p.type.element_ty.element_ty is tl.float16
    assert len(flatten(p)[0]) == 7 and tl.advance._must_use_result


def block_pointer(b, kind="f32", offsets=(0, 0)):
    return tl.make_block_ptr.fn(b, b.tile(f"ptr<{kind}>"), (8, 8), (8, 1), offsets, (4, 4), (1, 0))


BLOCK_MISTAKES = [
    (lambda b: tl.make_block_ptr.fn(b, b.tile("ptr<f32>", 4), (8,), (1,), (0,), (4,), (0,)), ValueError,
     "Expected `base` to be a pointer type"),
    (lambda b: tl.make_block_ptr.fn(b, b.tile("ptr<f32>"), (8, 8), (8, 1), (0,), (4, 4), (1, 0)), AssertionError,
     "to have the same length"),
    (lambda b: tl.make_block_ptr.fn(b, b.tile("ptr<f32>"), (8, 8), (8, 1), (0, 0), (4, 4), (1, 1)), AssertionError,
     "Expected a permutation"),
    (lambda b: tl.load.fn(b, block_pointer(b), mask=True), ValueError, "cannot be specified for loading block"),
    (lambda b: tl.load.fn(b, block_pointer(b), boundary_check=(2,)), AssertionError, "names axis 2"),
    (lambda b: tl.load.fn(b, block_pointer(b), boundary_check=(0, 0)), AssertionError, "Duplicate dimension"),
    (lambda b: tl.load.fn(b, block_pointer(b, "i32"), boundary_check=(0,), padding_option="nan"), ValueError,
     "`nan` is not supported for integer"),
    (lambda b: tl.load.fn(b, block_pointer(b), padding_option="one"), ValueError, "Padding option one not supported"),
    (lambda b: tl.store.fn(b, block_pointer(b), b.tile("f32", 2, 4, 4)), AssertionError, "Block shape"),
    (lambda b: tl.store.fn(b, block_pointer(b, "const f32"), 0.0), ValueError, "Cannot store to a constant pointer"),
    (lambda b: tl.advance.fn(b, b.tile("ptr<f32>"), (1,)), ValueError, "moves a block pointer"),
    (lambda b: tl.advance.fn(b, block_pointer(b), (1,)), AssertionError, "expected 2 offsets, but got 1"),
    (lambda b: operators.binary(b, "+", block_pointer(b), 1), TypeError, "invalid operands of type"),
    (lambda b: descriptor(b, strides=(8, b.tile("i32"))), ValueError, "last dim must be 1"),
    (lambda b: descriptor(b, block=(4, 2)), ValueError, "at least 16 bytes in the last dimension"),
    (lambda b: tl.make_tensor_descriptor.fn(b, b.tile("ptr<f32>"), [8] * 6, [1] * 6, [4] * 6), ValueError,
     "Expected 1 <= ndim <= 5"),
    (lambda b: descriptor(b, padding_option="one"), ValueError, "Padding option one not supported"),
    (lambda b: descriptor(b, "i32", padding_option="nan"), ValueError, "not supported for integer"),
    (lambda b: descriptor(b).load.__func__.fn(b, descriptor(b), [0]), AssertionError, "expected 2 offsets, but got 1"),
    (lambda b: tl.load_tensor_descriptor.fn(b, descriptor(b), [0, b.tile("i64")]), AssertionError, "32-bit integers"),
    (lambda b: tl.store_tensor_descriptor.fn(b, descriptor(b), [0, 0], b.tile("f32", 4)), AssertionError,
     "must equal the block shape"),
    (lambda b: tl.tensor_descriptor.atomic_and.fn(b, descriptor(b), [0, 0], b.tile("f32", 4, 8)), AssertionError,
     "Unsupported dtype fp32"),
    (lambda b: tl.tensor_descriptor.gather.fn(b, descriptor(b), b.tile("i32", 8), 0), AssertionError, "have 1 row"),
    (lambda b: tl.tensor_descriptor.gather.fn(b, descriptor(b, block=(1, 8)), b.tile("i32", 4), 0), AssertionError,
     "at least 8 rows"),
]


def descriptor(b, kind="f32", strides=(8, 1), block=(4, 8), **options):
    return tl.make_tensor_descriptor.fn(b, b.tile(f"ptr<{kind}>"), [8, 8], list(strides), list(block), **options)


@pytest.mark.parametrize("call, error, message", BLOCK_MISTAKES, ids=[m[2][:30] for m in BLOCK_MISTAKES])
def test_mistakes(b, call, error, message):
    with pytest.raises(error, match=message):
        call(b)


def test_scalars_are_broadcast_into_a_block():
    b = Bench()
    tl.store.fn(b, block_pointer(b, "f16"), 1.5)
    store = b.finish().ops[-1]
    assert store.kind.name == "store" and store.operands[1].type is T.Tile((4, 4), T.f16)


# --- block-scaled products ------------------------------------------------------------------------------------------

FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
FP4 = np.array(FP4 + [-x for x in FP4])


def scaled(x, scale, group):
    return x * np.repeat(2.0 ** (scale.astype(np.float64) - 127), group, axis=-1)


@pytest.mark.parametrize("k_pack", [True, False])
def test_dot_scaled_of_packed_fp4(k_pack):
    rng = np.random.default_rng(2)
    m, n, k = 16, 8, 64
    codes_a, codes_b = rng.integers(0, 16, (m, k)), rng.integers(0, 16, (k, n))
    scale_a, scale_b = (rng.integers(120, 134, (rows, k // 32)).astype(np.uint8) for rows in (m, n))
    pack_a = codes_a[:, 0::2] | codes_a[:, 1::2] << 4 if k_pack else codes_a[0::2] | codes_a[1::2] << 4
    pack_b = codes_b[0::2] | codes_b[1::2] << 4 if k_pack else codes_b[:, 0::2] | codes_b[:, 1::2] << 4
    got = evaluate(tl.dot_scaled, pack_a.astype(np.uint8), scale_a, "e2m1", pack_b.astype(np.uint8), scale_b, "e2m1",
                   lhs_k_pack=k_pack, rhs_k_pack=k_pack)
    expected = scaled(FP4[codes_a], scale_a, 32) @ scaled(FP4[codes_b].T, scale_b, 32).T
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_dot_scaled_of_other_formats():
    import ml_dtypes
    rng = np.random.default_rng(3)
    m, n, k = 16, 8, 32
    a = rng.standard_normal((m, k)).astype(ml_dtypes.float8_e4m3fn)
    c = rng.standard_normal((k, n)).astype(ml_dtypes.bfloat16)
    scale = rng.integers(125, 130, (m, 1)).astype(np.uint8)
    expected = scaled(a.astype(np.float64), scale, 32) @ c.astype(np.float64)
    for form in (a, a.view(np.uint8)):
        got = evaluate(tl.dot_scaled, form, scale, "e4m3", c, None, "bf16", np.ones((m, n), np.float32))
        np.testing.assert_allclose(got, expected + 1, rtol=1e-5, atol=1e-5)
    scale[0] = 255  # NaN
    got = evaluate(tl.dot_scaled, a, scale, "e4m3", c, None, "bf16")
    assert np.isnan(got[0]).all() and not np.isnan(got[1:]).any()


def test_dot_scaled_mistakes(b):
    x, y = b.tile("u8", 16, 32), b.tile("u8", 32, 16)
    with pytest.raises(AssertionError, match="lhs_format must be one of"):
        tl.dot_scaled.fn(b, x, None, "e3m4", y, None, "e4m3")
    with pytest.raises(AssertionError, match="same number of"):
        tl.dot_scaled.fn(b, x, None, "e2m1", y, None, "e4m3")
    with pytest.raises(AssertionError, match="rhs_scale must be a tensor of shape"):
        tl.dot_scaled.fn(b, x, None, "e4m3", y, b.tile("u8", 1, 2), "e4m3")
    with pytest.raises(AssertionError, match="Only float32 is supported"):
        tl.dot_scaled.fn(b, x, None, "e4m3", y, None, "e4m3", out_dtype=tl.float16)
