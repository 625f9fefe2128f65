"""Tiles that a loop writes to scratch for later loops, beside quotients of them that it computes once for a chunk."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl


@triton.jit
def sum_and_quotient(out_ptr, sum_ptr, k, N: tl.constexpr):
    i = tl.arange(0, N // 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    rows = i // (k * 8)
    tl.store(out_ptr + i, rows // (k + 3))
    tl.store(sum_ptr + i, tl.sum(rows))


@pytest.mark.parametrize("k", [1, 5])
def test_quotients_of_quotients(k):
    out, total, i = np.zeros(2048, np.int32), np.zeros(2048, np.int32), np.arange(2048)
    sum_and_quotient[(1,)](out, total, k, N=2048)
    assert np.array_equal(out, i // (k * 8) // (k + 3)) and (total == (i // (k * 8)).sum()).all()


@triton.jit
def rows_and_positions(x_ptr, y_ptr, rows_ptr, out_ptr, other_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    rows = i // 8
    x = tl.load(x_ptr + rows % 64)
    tl.store(rows_ptr + i, rows)
    y = tl.load(y_ptr + i * 2)
    tl.store(other_ptr + i, y)
    tl.store(out_ptr + i, x)


def test_remainders_as_positions():
    x, y, i = np.arange(64, dtype=np.int32) * 3, np.arange(512, dtype=np.float32), np.arange(256)
    rows, out, other = np.full(256, -1, np.int32), np.zeros(256, np.int32), np.zeros(256, np.float32)
    rows_and_positions[(1,)](x, y, rows, out, other, N=256)
    assert np.array_equal(rows, i // 8) and np.array_equal(out, x[i // 8 % 64]) and np.array_equal(other, y[::2])


@triton.jit
def product_and_copy(x_ptr, a_ptr, product_ptr, out_ptr, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i * 2 + j * 0)
    tl.store(product_ptr + i * N + j, tl.dot(tl.load(a_ptr + i * N + j), (x % 4).to(tl.float32)))
    tl.store(out_ptr + i * N + j, x)


@pytest.mark.parametrize("n", [16, 32])
def test_rows_of_equal_numbers(n):
    x, a = np.arange(2 * n, dtype=np.int64), np.arange(n * n, dtype=np.float32).reshape(n, n) % 7
    product, out = np.zeros((n, n), np.float32), np.full((n, n), -1, np.int64)
    product_and_copy[(1,)](x, a, product, out, N=n)
    rows = np.broadcast_to(x[::2, None], (n, n))
    assert np.array_equal(out, rows) and np.array_equal(product, a @ (rows % 4))
