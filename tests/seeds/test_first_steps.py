"""First kernels: softmax row by row, a 2-D matrix product, tuning, the usual pitfalls (S16, S21, S23)."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.seeds.examples import example


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("shape", [(1823, 781), (7, 2048), (2, 5000)])
def test_one_row_per_program(rng, shape):
    x = rng.standard_normal(shape, dtype=np.float32)
    y = np.empty_like(x)
    block_size = triton.next_power_of_2(shape[1])
    num_warps = 16 if block_size >= 4096 else 8 if block_size >= 2048 else 4
    kernel = example("softmax_by_rows").softmax_kernel
    kernel[shape[0]](x, y, shape[1], shape[1], shape[1], num_warps=num_warps, BLOCK_SIZE=block_size)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=3e-6)


matmul_kernel = example("matmul").matmul_kernel.fn  # without its tuner


def product(kernel, a, b, **blocks):
    (M, K), N = a.shape, b.shape[1]
    c = np.empty((M, N), np.float32)
    grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))
    kernel[grid](a, b, c, M, N, K, K, 1, N, 1, N, 1, **blocks)
    return c


@pytest.mark.parametrize("M, N, K", [(64, 64, 64), (100, 70, 50), (1, 33, 200)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_two_dimensional_blocks(rng, M, N, K, dtype):
    """A masked load without `other` reads zero, so the sum over K needs nothing else."""
    a, b = rng.standard_normal((M, K)).astype(dtype), rng.standard_normal((K, N)).astype(dtype)
    c = product(matmul_kernel, a, b, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-2 if dtype is np.float16 else 1e-4, atol=2e-2)


tuned_matmul = triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}),
    ],
    key=["M", "N", "K"],
)(matmul_kernel)


def test_tuning(rng):
    a, b = rng.standard_normal((64, 80), dtype=np.float32), rng.standard_normal((80, 64), dtype=np.float32)
    np.testing.assert_allclose(product(tuned_matmul, a, b), a @ b, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(product(tuned_matmul, a, b), a @ b, rtol=1e-3, atol=1e-3)
    assert len(tuned_matmul.cache) == 1 and tuned_matmul.best_config in tuned_matmul.configs
    product(tuned_matmul, b, a)
    assert len(tuned_matmul.cache) == 2


@triton.jit
def masked_copy_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    data = tl.load(x_ptr + offsets, mask=offsets < n, other=-7.0)
    tl.store(out_ptr + offsets, data)


def test_the_mask_of_the_last_program(rng):
    """n = 100 in blocks of 64: the second program has 36 elements and reads `other` 28 times."""
    x = rng.standard_normal(100, dtype=np.float32)
    out = np.empty(128, np.float32)
    masked_copy_kernel[(2,)](x, out, 100, BLOCK_SIZE=64)
    assert np.array_equal(out[:100], x) and (out[100:] == -7).all()


@triton.jit
def half_accumulator_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    acc = tl.zeros((BLOCK_SIZE,), dtype=tl.float16)
    for start in range(0, n, BLOCK_SIZE):
        acc += tl.load(x_ptr + start + tl.arange(0, BLOCK_SIZE))
    tl.store(out_ptr + tl.arange(0, BLOCK_SIZE), acc)


def test_an_accumulator_that_changes_type_is_an_error(rng):
    with pytest.raises(triton.CompilationError, match="acc"):
        half_accumulator_kernel[(1,)](np.zeros(64, np.float32), np.zeros(32, np.float32), 64, BLOCK_SIZE=32)


def test_perf_report(rng, capsys):
    """The report with means and spreads; `do_bench` gives three figures when asked for three quantiles."""

    @triton.testing.perf_report(triton.testing.Benchmark(
        x_names=["M", "N", "K"], x_vals=[32, 64], line_arg="provider", line_vals=["triton", "numpy"],
        line_names=["Triton", "NumPy"], styles=[("blue", "-"), ("green", "-")], ylabel="GFLOPS",
        plot_name="matmul-performance", args={}))
    def benchmark(M, N, K, provider):
        a, b = rng.standard_normal((M, K), dtype=np.float32), rng.standard_normal((K, N), dtype=np.float32)
        run = {"triton": lambda: product(matmul_kernel, a, b, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32),
               "numpy": lambda: a @ b}[provider]
        ms, min_ms, max_ms = triton.testing.do_bench(run, warmup=1, rep=3, quantiles=[0.5, 0.2, 0.8])
        rate = lambda ms: 2 * M * N * K / ms * 1e-6
        return rate(ms), rate(max_ms), rate(min_ms)

    benchmark.run(print_data=True)
    out = capsys.readouterr().out
    assert "matmul-performance" in out and "Triton (GFLOPS)" in out
