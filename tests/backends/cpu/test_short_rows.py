"""Chunks that are several short rows, wherever these begin: each is an access of its own."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.cpu.kernels import guarded
from tritium.backends.compiler import GPUTarget

SHAPES = [(64, 16), (64, 8), (16, 4), (128, 2), (32, 32), (1, 16)]


@triton.jit
def doubled(x_ptr, o_ptr, stride, m, n, MASK: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    at = i * stride + j
    mask = (i < m) & (j < n) if MASK == "both" else (i < m) & (j >= 0) if MASK == "rows" else None
    x = tl.load(x_ptr + at, mask) if MASK is None else tl.load(x_ptr + at, mask, 3)
    tl.store(o_ptr + i * N + j, x)
    tl.store(x_ptr + at, x + x, mask)


@triton.jit
def listed(x_ptr, rows_ptr, o_ptr, stride, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    row = tl.load(rows_ptr + i)
    x = tl.load(x_ptr + row * stride + j)
    tl.store(o_ptr + (M - 1 - row) * N + j, x)


@triton.jit
def columns(x_ptr, y_ptr, o_ptr, stride, M: tl.constexpr, N: tl.constexpr):
    """What is loaded is the same along rows: N lanes read one element."""
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(o_ptr + i * N + j, tl.load(x_ptr + i * stride + j * 0) * tl.load(y_ptr + i * stride))


def matrix(m, n, dtype, stride):
    """(m, n) elements with this stride, the last of which is the last before a page that cannot be touched."""
    flat = guarded((np.arange((m - 1) * stride + n) * 37 % 101 - 50).astype(dtype))
    return np.lib.stride_tricks.as_strided(flat, (m, n), (stride * flat.itemsize, flat.itemsize)), flat


@pytest.mark.parametrize("dtype", ["f4", "f2", "i1"])
@pytest.mark.parametrize("m, n", SHAPES)
@pytest.mark.parametrize("mask", [None, "rows", "both"])
def test_rows_with_a_stride(dtype, m, n, mask):
    x, flat = matrix(m, n, dtype, n + 37)
    some = max(1, n - 1) if mask == "both" else n
    before, out = flat.copy(), np.zeros((m, n), dtype)
    inside = np.zeros((m, n), bool)
    inside[: m - 3 if mask and m > 3 else m, :some] = True
    expected = np.where(inside, x, np.array(3, dtype))
    doubled[1,](x, out, n + 37, int(inside[:, 0].sum()), some, mask, m, n)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(x, np.where(inside, expected * 2, expected * 0 + matrix(m, n, dtype, n + 37)[0]))
    between = np.arange(flat.size) % (n + 37) >= n
    np.testing.assert_array_equal(flat[between], before[between])


@pytest.mark.parametrize("dtype", ["f8", "i1"])
@pytest.mark.parametrize("m, n", SHAPES)
def test_rows_that_are_listed(dtype, m, n):
    x, _ = matrix(m, n, dtype, n + 5)
    rows, out = np.random.default_rng(0).permutation(m).astype(np.int32), np.zeros((m, n), dtype)
    listed[1,](x, rows, out, n + 5, m, n)
    np.testing.assert_array_equal(out, x[::-1])


@pytest.mark.parametrize("m, n", SHAPES)
def test_rows_of_one_element(m, n):
    for stride in (0, 1, 3, 50):
        x = guarded(np.arange(stride * (m - 1) + 1, dtype=np.float32))
        out = np.zeros((m, n), np.float32)
        columns[1,](x, x, out, stride, m, n)
        np.testing.assert_array_equal(out, np.repeat((np.arange(m) * stride).astype(np.float32)[:, None] ** 2, n, 1))


@pytest.mark.parametrize("cpu", ["x86-64-v4", "x86-64-v3", "aarch64"])
def test_nothing_is_gathered(cpu):
    signature = {"x_ptr": "*fp32", "o_ptr": "*fp32", "stride": "i32", "m": "i32", "n": "i32"}
    source = triton.compiler.ASTSource(doubled, signature, {"MASK": None, "M": 64, "N": 8})
    text = triton.compile(source, target=GPUTarget("cpu", cpu, 1)).asm["llir"]
    assert "llvm.masked.gather" not in text and "llvm.masked.scatter" not in text


def test_masks_leave_chunks_as_wide_as_they_are():
    """`and` of masks is no remainder, however many lanes have the same."""
    signature = {"x_ptr": "*fp32", "o_ptr": "*fp32", "stride": "i32", "m": "i32", "n": "i32"}
    sizes = {"MASK": "both", "M": 64, "N": 8}
    source = triton.compiler.ASTSource(doubled, signature, sizes, {(4,): [["tt.divisibility", 16]]})
    text = triton.compile(source, target=GPUTarget("cpu", "x86-64-v4", 1)).asm["llir"]
    assert "<32 x float>" in text


@triton.jit
def moved(x_ptr, o_ptr, stride, FIXED: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(o_ptr + i * N + j, tl.load(x_ptr + i * (FIXED or stride) + j))


@pytest.mark.parametrize("fixed, n, times", [(None, 64, 2), (None, 16, 2), (None, 8, 4), (1024, 64, 2), (64, 64, 0)])
def test_rows_far_apart_are_prefetched(fixed, n, times):
    """Eight rows ahead, for each line of memory that a chunk of 32 lanes touches; not where the next row is the next
    line."""
    signature = {"x_ptr": "*fp32", "o_ptr": "*fp32", "stride": "i32"}
    source = triton.compiler.ASTSource(moved, signature, {"FIXED": fixed, "M": 64, "N": n})
    text = triton.compile(source, target=GPUTarget("cpu", "x86-64-v4", 1)).asm["llir"]
    assert text.count("call void @llvm.prefetch.p0") == times


@triton.jit
def row_sums(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)
    tl.store(o_ptr + i, tl.sum(tl.load(x_ptr + i[:, None] * N + tl.arange(0, N)[None, :]), 1))


@pytest.mark.parametrize("n", [2, 8, 16])
def test_rows_are_added_up_several_at_a_time(n):
    """Halves of a chunk's lanes are added, for the rows in it at once."""
    x, out = np.arange(64 * n, dtype=np.float32).reshape(64, n), np.zeros(64, np.float32)
    row_sums[1,](x, out, 64, n)
    np.testing.assert_array_equal(out, x.sum(1))
    source = triton.compiler.ASTSource(row_sums, {"x_ptr": "*fp32", "o_ptr": "*fp32"}, {"M": 64, "N": n})
    text = triton.compile(source, target=GPUTarget("cpu", "x86-64-v4", 1)).asm["llir"]
    assert text.count("fadd") == n.bit_length() - 1 and "vector.reduce" not in text and "gather" not in text
