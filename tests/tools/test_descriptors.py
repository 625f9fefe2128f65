"""Tensor descriptors made on the host, used in kernels: tiles, padding, ragged batches, microscaling products."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.interp.eager import launch
from tritium.tools.ragged_tma import atomic_add_ragged, create_ragged_descriptor, load_ragged, store_ragged
from tritium.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def copy_kernel(x, out, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.program_id(0) * M, tl.program_id(1) * N
    out.store([i, j], x.load([i, j]))


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_tiles_past_the_edge_are_padded_and_dropped(padding):
    x = np.arange(40 * 12, dtype=np.float32).reshape(40, 12)
    out = np.full((64, 16), -1, np.float32)
    copy_kernel[(4, 2)](TensorDescriptor.from_tensor(x, [16, 8], padding), TensorDescriptor.from_tensor(out, [16, 8]),
                        M=16, N=8)
    expected = np.full((64, 16), 0 if padding == "zero" else np.nan, np.float32)
    expected[:40, :12] = x
    np.testing.assert_array_equal(out, expected)


# Ties go to the even neighbour; the largest float goes to infinity; NaNs, infinities and signs stay.
TF32 = {1 + 2**-11: 1.0, 1 + 3 * 2**-11: 1 + 2**-9, 1 + 2**-11 + 2**-23: 1 + 2**-10, -1 - 2**-12: -1.0,
        3.4028234663852886e38: np.inf, np.inf: np.inf, -np.inf: -np.inf, -0.0: -0.0, 2**-149: 0.0, 2**-136: 2**-136}


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_loads_round_to_tf32(eager, padding):
    x = np.zeros((16, 8), np.float32)
    x.ravel()[:len(TF32)], x[2] = list(TF32), np.nan
    out = np.full((32, 8), -1, np.float32)
    args = (TensorDescriptor.from_tensor(x, [32, 8], padding, round_f32_to_tf32=True),
            TensorDescriptor.from_tensor(out, [32, 8]))
    if eager:
        launch(copy_kernel, (1, 1), args, {"M": 32, "N": 8})
    else:
        copy_kernel[(1, 1)](*args, M=32, N=8)
    expected = np.full((32, 8), 0 if padding == "zero" else np.nan, np.float32)
    expected[:16], expected[2] = 0, np.nan
    expected.ravel()[:len(TF32)] = list(TF32.values())
    np.testing.assert_array_equal(out, expected)
    assert np.signbit(out.ravel()[list(TF32).index(-0.0)])


def test_stores_round_nothing():
    x, out = np.full((16, 8), 1 + 2**-20, np.float32), np.zeros((16, 8), np.float32)
    copy_kernel[(1, 1)](TensorDescriptor.from_tensor(x, [16, 8]),
                        TensorDescriptor.from_tensor(out, [16, 8], round_f32_to_tf32=True), M=16, N=8)
    np.testing.assert_array_equal(out, x)
    with pytest.raises(AssertionError, match="round_f32_to_tf32 needs a float32 tensor, not float16"):
        TensorDescriptor.from_tensor(x.astype(np.float16), [16, 8], round_f32_to_tf32=True)


@triton.jit(noinline=True)
def first_of(x, row):
    return tl.sum(x.load([row, 0]))


@triton.jit
def called_kernel(x, y, out_ptr):
    tl.store(out_ptr, first_of(x, 0))
    tl.store(out_ptr + 1, first_of(y, 0))


def test_functions_are_lowered_for_each_way_of_reading():
    """The types of two descriptors are equal; what lies outside of them, and its rounding, may not be."""
    x, out = np.full((1, 4), 1 + 2**-12, np.float32), np.zeros(2, np.float32)
    plain = TensorDescriptor(x, [1, 4], [4, 1], [1, 8])
    called_kernel[(1,)](plain, TensorDescriptor(x, [1, 4], [4, 1], [1, 8], "nan"), out)
    assert out[0] == 4 + 2**-10 and np.isnan(out[1])
    called_kernel[(1,)](plain, TensorDescriptor(x, [1, 4], [4, 1], [1, 8], round_f32_to_tf32=True), out)
    assert out.tolist() == [4 + 2**-10, 4.0]


def test_stores_stay_inside():
    x = np.ones((16, 8), np.float32)
    out = np.zeros((10, 8), np.float32)
    view = TensorDescriptor(out, [7, 5], [8, 1], [16, 8])
    copy_kernel[(1, 1)](TensorDescriptor.from_tensor(x, [16, 8]), view, M=16, N=8)
    assert out[:7, :5].all() and out.sum() == 35


@triton.jit
def ragged_kernel(x, out, offsets, sizes, ROWS: tl.constexpr, COLS: tl.constexpr, ADD: tl.constexpr):
    batch = tl.program_id(0)
    first = tl.load(offsets + batch)
    size = tl.load(sizes + batch)
    for row in range(0, size, ROWS):
        tile = load_ragged(x, first, size, [row, 0])
        tl.static_assert(tile.shape[0] == ROWS)
        if ADD:
            atomic_add_ragged(out, first, size, [row, 0], tile)
        else:
            store_ragged(out, first, size, [row, 0], tile + 1)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("add", [False, True])
def test_ragged_batches(add, eager):
    """Tiles of 8 rows over batches of 3, 8, 0 and 13: a tile neither reads nor writes the next batch."""
    sizes = np.int32([3, 8, 0, 13])
    offsets = np.int32([0, 3, 11, 11])
    x = np.arange(24 * 16, dtype=np.float32).reshape(24, 16)
    out = np.full((24, 16), 1000, np.float32)
    args = create_ragged_descriptor(x, [8, 16]), create_ragged_descriptor(out, [8, 16]), offsets, sizes
    if eager:
        launch(ragged_kernel, (4,), args, {"ROWS": 8, "COLS": 16, "ADD": add})
    else:
        ragged_kernel[(4,)](*args, ROWS=8, COLS=16, ADD=add)
    assert np.array_equal(out, 1000 + x if add else x + 1)


@triton.jit
def first_tile_kernel(x, out_ptr, first, size, ROWS: tl.constexpr, COLS: tl.constexpr):
    tile = load_ragged(x, first, size, [0, 0])
    tl.store(out_ptr + tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :], tile)


def test_rows_of_the_next_batch_read_as_zero():
    x = np.ones((24, 16), np.float32)
    out = np.empty((8, 16), np.float32)
    first_tile_kernel[(1,)](create_ragged_descriptor(x, [8, 16]), out, 5, 3, ROWS=8, COLS=16)
    assert out[:3].all() and not out[3:].any()


@triton.jit
def scaled_dot_kernel(a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr,
                      K: tl.constexpr):
    m, n, k, half = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 32), tl.arange(0, K // 2)
    a = tl.load(a_ptr + m[:, None] * (K // 2) + half[None, :])
    b = tl.load(b_ptr + half[:, None] * N + n[None, :])
    a_scale = tl.load(a_scale_ptr + m[:, None] * (K // 32) + k[None, :])
    b_scale = tl.load(b_scale_ptr + n[:, None] * (K // 32) + k[None, :])
    c = tl.dot_scaled(a, a_scale, "e2m1", b, b_scale, "e2m1")
    tl.store(c_ptr + m[:, None] * N + n[None, :], c)


def test_microscaling_product():
    """The formats of tools.mxfp are those of tl.dot_scaled."""
    torch = pytest.importorskip("torch")
    from tritium.tools.mxfp import MXFP4Tensor, MXScaleTensor

    M, N, K = 16, 32, 64
    a, b = MXFP4Tensor(size=(M, K)).random(), MXFP4Tensor(size=(K, N)).random()
    a_scale, b_scale = (MXScaleTensor(size=(n, K // 32)).random(1 / 4, 4) for n in (M, N))
    c = torch.empty(M, N)
    scaled_dot_kernel[(1,)](a.to_packed_tensor(1), a_scale.data, b.to_packed_tensor(0), b_scale.data, c, M=M, N=N, K=K)
    left = a.to(torch.float64) * a_scale.to(torch.float64).repeat_interleave(32, 1)
    right = b.to(torch.float64) * b_scale.to(torch.float64).repeat_interleave(32, 1).T
    torch.testing.assert_close(c.double(), left @ right, rtol=1e-5, atol=1e-4)
