"""Long chains of integer arithmetic: they are cut, and analyses look at each op once."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import GPUTarget


@triton.jit
def steps(x_ptr, out_ptr, COUNT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x_ptr + i)
    for k in tl.static_range(COUNT):
        v = v * v + v // (k + 3) % 7 + tl.where(v > k, v, -v)
    tl.store(out_ptr + i, v)


def lines_of(count):
    source = triton.compiler.ASTSource(steps, {"x_ptr": "*i32", "out_ptr": "*i32"}, {"COUNT": count, "N": 1024})
    return str(triton.compile(source, target=GPUTarget("cpu", "host", 1)).asm["llir"]).count("\n")


def test_the_code_grows_with_the_chain():
    assert lines_of(40) < 4 * lines_of(20)


def test_values_of_a_chain():
    x = np.random.default_rng(0).integers(-99, 99, 1024).astype(np.int32)
    out, v = np.zeros_like(x), x
    steps[(1,)](x, out, COUNT=60, N=1024)
    with np.errstate(over="ignore"):
        for k in range(60):
            towards_zero = np.trunc(v / (k + 3)).astype(np.int32)
            v = v * v + np.fmod(towards_zero, np.int32(7)) + np.where(v > k, v, -v)
    assert np.array_equal(out, v)


@triton.jit
def remainders(out_ptr, COUNT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = i
    for _ in tl.static_range(COUNT):
        v = v * v + v
    tl.store(out_ptr + i, tl.gather(v % 7, N - 1 - i, 0))


def test_indices_that_are_used_twice_at_each_step():
    """There are 3**24 paths to the index."""
    out, v = np.zeros(64, np.int32), np.arange(64, dtype=np.int32)
    remainders[(1,)](out, COUNT=24, N=64)
    with np.errstate(over="ignore"):
        for _ in range(24):
            v = v * v + v
    assert np.array_equal(out, np.fmod(v, np.int32(7))[::-1])
