"""Registers that hold the same are computed and loaded once: quotients within a run, masks within a bound."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.samples import numbers
from tritium.backends.compiler import GPUTarget


@triton.jit
def scaled_channels(x, scale, o, size, N, SIZE: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = i // SIZE % CHANNELS
    inside = i < N
    v = tl.load(x + i, mask=inside, other=0.0) * tl.load(scale + channel)
    v += tl.load(scale + i // size % CHANNELS, mask=inside, other=3.0)
    tl.store(o + i, tl.where(inside, v, 1.0) + (i % SIZE).to(tl.float32))


@pytest.mark.parametrize("size", [1, 2, 6, 8, 28, 64, 100])
@pytest.mark.parametrize("n", [1024, 1021])
def test_channels_of_any_size(check, size, n):
    check(scaled_channels, numbers("f4", n), numbers("f4", 8), np.zeros(1024, "f4"), size, n, size, 8, 512, grid=(2,))


@triton.jit
def around_zero(o, p, q, start, N: tl.constexpr):
    n = tl.arange(0, N)
    i = start + n
    tl.store(o + n, i // 8)
    tl.store(p + n, i % 8)
    tl.store(q + n, (i < 8).to(tl.int32) + 2 * (i >> 3))


@pytest.mark.parametrize("start", [-512, -16, -3, 0, 5, 16])
def test_quotients_of_either_sign(check, start):
    check(around_zero, *(np.zeros(256, "i4") for _ in range(3)), start, 256, warps=1)


@triton.jit
def rows_of_scales(x, rows, columns, o, M: tl.constexpr, K: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    m, k = tl.arange(0, M)[:, None], tl.arange(0, K)[None, :]
    at = m * K + k
    v = tl.load(x + at) + tl.load(rows + m // A + k * 0) * tl.load(columns + k // B + m * 0)
    tl.store(o + at, tl.where((m >= 8) & (k < 24), v, -v))


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize(("a", "b"), [(1, 16), (4, 4), (16, 1), (32, 32)])
def test_groups_along_either_axis(check, a, b, warps):
    out = np.zeros((32, 32), "f4")
    check(rows_of_scales, numbers("f4", 32, 32), numbers("f4", 32), numbers("f4", 32), out, 32, 32, a, b, warps=warps)


@triton.jit
def volatile_words(x, o, N: tl.constexpr):
    n = tl.arange(0, N)
    tl.store(o + n, tl.load(x + n // 4, volatile=True))


def test_volatile_words(check):
    check(volatile_words, numbers("i4", 64), np.zeros(256, "i4"), 256, warps=2)


@triton.jit
def biased(x, bias, o, start, C: tl.constexpr, BLOCK: tl.constexpr):
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = start + n
    v = tl.load(x + n) + tl.load(bias + n % C)
    tl.store(o + n, v + tl.load(bias + (i & (C - 1))) * tl.load(bias + (i + n) % C))


@pytest.mark.parametrize("start", [0, 5, 64])
@pytest.mark.parametrize("c", [1, 2, 8, 24, 128])
def test_remainders_that_come_again(check, c, start):
    if c == 24:
        start = 8  # x & 23 is no remainder
    check(biased, numbers("f4", 1024), numbers("f4", 128), np.zeros(1024, "f4"), start, c, 512, grid=(2,), warps=1)


@triton.jit
def distances(o, start, slope, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M)[:, None], start + tl.arange(0, N)[None, :]
    tl.store(o + m * N + tl.arange(0, N)[None, :], (n - m).to(tl.float32) * slope + (m + n))


@pytest.mark.parametrize("start", [0, -7, 2147483600])
def test_distances_of_rows_and_columns(check, start):
    check(distances, np.zeros((32, 64), "f4"), start, 0.5, 32, 64, warps=1)


def test_what_comes_again_is_loaded_once():
    signature = {"x": "*fp32", "bias": "*fp32", "o": "*fp32", "start": "i32", "C": "constexpr", "BLOCK": "constexpr"}
    aligned = {(k,): [["tt.divisibility", 16]] for k in range(4)}
    source = triton.compiler.ASTSource(biased, signature, {"C": 128, "BLOCK": 1024}, aligned)
    text = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert text.count("ld.global") == 2 + 1 + 1 + 8  # of x, n % C, i & (C - 1); those of i + n are two apart


@triton.jit
def biased_dot(x, y, o, slope, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    at = m[:, None] * N + n[None, :]
    v = tl.dot(tl.load(x + at), tl.load(y + n[:, None] * N + n[None, :])) * 1.5
    tl.store(o + at, v + (n[None, :] - m[:, None]).to(tl.float32) * slope)


def test_distances_are_converted_once_for_a_diagonal():
    """Of the 32 elements of a thread, in two rows, 18 differ in their distances."""
    signature = {"x": "*fp16", "y": "*fp16", "o": "*fp32", "slope": "fp32", "M": "constexpr", "N": "constexpr"}
    source = triton.compiler.ASTSource(biased_dot, signature, {"M": 64, "N": 64})
    text = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert text.count("cvt.rn.f32.s32") == 18


@triton.jit
def quotients_far_apart(o, x, count, D: tl.constexpr, N: tl.constexpr):
    for k in range(count):
        i = (tl.program_id(0) * count + k) * N + tl.arange(0, N)
        tl.store(o + i, i // D + tl.load(x + 2 * (i % D) + 64 * (i // D) % 512))


@pytest.mark.parametrize("divisor", [1, 3, 16, 24, 64, 100, 512, 5000])
@pytest.mark.parametrize("warps", [1, 2])
def test_quotients_of_registers_that_are_far_apart(check, divisor, warps):
    x = np.zeros(2 * divisor + 512, "i4")
    x[:] = np.arange(x.size) * 7
    check(quotients_far_apart, np.zeros(4 * 256, "i4"), x, 2, divisor, 256, grid=(2,), warps=warps)


@triton.jit
def quotients_in_rows(o, start, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(o + m * N + n, (m * 48 + n) // D + (start + m * N + n) // D)


@pytest.mark.parametrize("divisor", [4, 7, 32, 48])
@pytest.mark.parametrize("start", [0, 13, -100])
def test_quotients_of_sums_along_two_axes(check, divisor, start):
    check(quotients_in_rows, np.zeros((32, 32), "i4"), start, 32, 32, divisor, warps=1)
