"""Benchmarks as a user writes them: decorated functions, and a report. `triton` is what the command makes of it."""

import numpy as np
import triton
import triton.language as tl

from tritium.tools.bench import Case, benchmark


@triton.jit
def double_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


def double(x):
    out = np.empty_like(x)
    double_kernel[(triton.cdiv(x.size, 256),)](x, out, x.size, BLOCK=256)
    return out


@benchmark(sizes=[100, 1000])
def doubling(size, dtype):
    """Twice an array."""
    x = np.ones(size, dtype)
    return Case(lambda: double(x), reference=lambda: 2.0 * x, rivals={"numpy": lambda: x + x}, bytes=2 * x.nbytes)


@benchmark(name="plain")
def a_function_alone():
    return lambda: double(np.ones(10, np.float32))


@triton.testing.perf_report(triton.testing.Benchmark(
    x_names=["n"], x_vals=[64, 128], line_arg="provider", line_vals=["triton", "numpy"], line_names=["Triton", "NumPy"],
    plot_name="doubling rate", args={}, ylabel="GB/s"))
def report(n, provider):
    return {"triton": 8.0, "numpy": 4.0}[provider] * n
