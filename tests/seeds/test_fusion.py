"""Fused element-wise work, fp8 products, loads with hints, small kernels known from CUDA exercises (S20, S22, S23)."""

import math

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.seeds.examples import example


@pytest.fixture
def rng():
    return np.random.default_rng(9)


@pytest.mark.parametrize("scale", [2.0, 0.5, 1])
def test_add_relu_mul(rng, scale):
    x, bias = rng.standard_normal((2, 10_000), dtype=np.float32)
    out = np.empty_like(x)
    example("fusion").fused_add_relu_mul_kernel[lambda meta: (triton.cdiv(x.size, meta["BLOCK_SIZE"]),)](
        x, bias, out, scale, x.size, BLOCK_SIZE=1024)
    assert np.array_equal(out, np.maximum(x + bias, 0) * np.float32(scale))


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("M, N, K", [(64, 64, 64), (50, 40, 100)])
def test_fp8_product(rng, dtype, M, N, K):
    """Rows past the edge wrap around and store the same values again."""
    a, b = rng.standard_normal((M, K)).astype(dtype), rng.standard_normal((K, N)).astype(dtype)
    c = np.empty((M, N), np.float16)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    example("fp8_and_hints").matmul_fp8_kernel[grid](a, b, c, M, N, K, K, 1, N, 1, N, 1, BLOCK_M=32, BLOCK_N=32,
                                                     BLOCK_K=32)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=2e-3, atol=2e-2)


def test_cache_hints_change_nothing(rng):
    x = rng.standard_normal((64, 128), dtype=np.float32)
    out = np.empty_like(x)
    example("fp8_and_hints").tma_load_kernel[(4, 4)](x, out, 64, 128, BLOCK_M=16, BLOCK_N=32)
    assert np.array_equal(out, x * 2)


@triton.jit
def silu_kernel(input_ptr, output_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(input_ptr + i, mask=i < n)
    tl.store(output_ptr + i, x * (1.0 / (1.0 + tl.exp(-x))), mask=i < n)


def test_silu(rng):
    x = rng.standard_normal(777, dtype=np.float32) * 10
    out = np.empty_like(x)
    silu_kernel[(4,)](x, out, 777, BLOCK=256)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(out, wide / (1 + np.exp(-wide)), rtol=2e-6, atol=1e-7)


@triton.jit
def rms_norm_kernel(input_ptr, weight_ptr, output_ptr, rows, cols, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    if row >= rows:
        return
    j = tl.arange(0, BLOCK)
    x = tl.load(input_ptr + row * cols + j, mask=j < cols, other=0.0)
    rms = tl.sqrt(tl.sum(x * x, axis=0) / cols + epsilon)
    tl.store(output_ptr + row * cols + j, x / rms * tl.load(weight_ptr + j, mask=j < cols), mask=j < cols)


@pytest.mark.parametrize("rows, cols", [(1, 300), (9, 64), (5, 1000)])
def test_rms_norm(rng, rows, cols):
    x, weight = rng.standard_normal((rows, cols), dtype=np.float32), rng.standard_normal(cols, dtype=np.float32)
    out = np.zeros((rows, cols), np.float32)
    rms_norm_kernel[(rows + 3,)](x, weight, out, rows, cols, 1e-5, BLOCK=triton.next_power_of_2(cols))
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * weight
    np.testing.assert_allclose(out, expected, rtol=3e-6, atol=1e-7)


@triton.jit
def tree_sum_kernel(input_ptr, output_ptr, size, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(output_ptr + tl.program_id(0), tl.sum(tl.load(input_ptr + i, mask=i < size, other=0.0), axis=0))


def test_reduction_in_two_launches(rng):
    x = rng.standard_normal(10_000, dtype=np.float32)
    partial, total = np.empty(10, np.float32), np.empty(1, np.float32)
    tree_sum_kernel[(10,)](x, partial, x.size, BLOCK=1024)
    tree_sum_kernel[(1,)](partial, total, 10, BLOCK=16)
    assert math.isclose(total[0], x.astype(np.float64).sum(), rel_tol=1e-4, abs_tol=1e-3)
