"""Quotients that compute the index of a tile: by floats where they are exact."""

import re

import numpy as np

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data, rng
from tritium.backends.gpu.analysis.division import SMALL
from tritium.insight import emulator


@triton.jit
def quotients(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ANY: tl.constexpr):
    across = tl.cdiv(N, BN)
    pid = tl.program_id(0)
    i, j = pid // across, pid % across
    if ANY:
        j = (K - 64 + pid) % across
    m, n, k = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (s + k)[None, :])
        b = tl.load(b_ptr + (s + k)[:, None] * N + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total)


def test_small_quotients_are_floats(check):
    args = data("f2", 192, 64), data("f2", 64, 96), np.zeros((192, 96), "f4"), 96, 64, 64, 32, 32, False
    text, metadata = emulator.llvm_of(module_of(quotients, args)[0])
    assert "rcp.approx" in text and not re.search(r"[su]div i32 %\S+, %", text.partition("working")[2])
    values = [*args[:3], 96, 64]
    assert emulator.fit(metadata, values, (9, 1, 1)) and not emulator.fit(metadata, values, (1 << 21 | 1, 1, 1))
    check(quotients, *args, grid=(9,))


def test_other_quotients_are_integers(check):
    """Nobody knows how small what is divided is, or that it is not negative."""
    args = data("f2", 64, 64), data("f2", 64, 96), np.zeros((64, 96), "f4"), 96, 64, 64, 32, 32, True
    text, _ = emulator.llvm_of(module_of(quotients, args)[0])
    assert "rcp.approx" not in text and re.search(r"sdiv i32 %\S+, %", text)
    check(quotients, *args, grid=(3,))


def test_quotients_by_floats_are_exact():
    """For every dividend that counts as small, with the reciprocal as far off as the instruction may be."""
    y = np.unique(np.concatenate([rng.integers(1, 2**31, 400), rng.integers(1, SMALL, 2000), np.arange(1, 300),
                                  2 ** np.arange(31), 2 ** np.arange(1, 31) - 1])).astype("i8")  # fmt: skip
    near = rng.integers(0, SMALL, (len(y), 40)) // y[:, None] * y[:, None] + rng.integers(-1, 2, (len(y), 40))
    x = np.concatenate([near, np.broadcast_to([0, 1, SMALL - 1], (len(y), 3)), y[:, None] - 1], 1).clip(0, SMALL - 1)
    reciprocal = (1 / y.astype("f4").astype("f8")).astype("f4")[:, None]
    for off in (0, -np.inf, np.inf):
        float_ = np.nextafter(reciprocal, np.float32(off)) if off else reciprocal
        got = ((x + 0.5).astype("f4") * float_).astype("i4")
        np.testing.assert_array_equal(got, x // y[:, None])


@triton.jit
def wide_quotients(x_ptr, out_ptr, by, N: tl.constexpr, UNSIGNED: tl.constexpr):
    i = tl.arange(0, N)
    x, by = tl.load(x_ptr + i), by.to(tl.int64)
    if UNSIGNED:
        x, by = x.to(tl.uint64), by.to(tl.uint64)
    tl.store(out_ptr + i, (x // by).to(tl.int64))
    tl.store(out_ptr + N + i, (x % by).to(tl.int64))


def test_wide_quotients_take_32_bits_where_both_fit(check):
    x = np.concatenate([rng.integers(0, 1 << 32, 48), rng.integers(-(1 << 62), 1 << 62, 12), [0, -1, 1 << 32, 1 << 31]])
    for by in (7, 1 << 31, (1 << 32) + 5, -3):
        for unsigned in (False, True):
            args = x.astype("i8"), np.zeros(128, "i8"), by, 64, unsigned
            text, _ = emulator.llvm_of(module_of(wide_quotients, args)[0])
            assert "div.u32" in text
            check(wide_quotients, *args)


@triton.jit
def picked(x_ptr, index_ptr, out_ptr, stride, pitch, columns, N: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    row, column = i // columns, i % columns
    at = tl.load(index_ptr + row * pitch + column)
    tl.store(out_ptr + i, tl.load(x_ptr + row * stride + at))


def test_wide_quotients_stand_in_front_of_the_loads_they_lead_to(check):
    """They branch: loads before and after would wait for each other."""
    args = data("f4", 8, 64), rng.integers(0, 64, 512), np.zeros(512, "f4"), 64, 64, 64, 512
    text, _ = emulator.llvm_of(module_of(picked, args)[0])
    assert text.rindex("div.u32") < text.index(" = load ")
    check(picked, *args)


@triton.jit
def mirrored(x_ptr, out_ptr, columns, width, N: tl.constexpr, WIDE: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    if WIDE:
        i = i.to(tl.int64) - 5
    row, column = i // columns, i % columns
    tl.store(out_ptr + tl.program_id(0) * N + tl.arange(0, N), tl.load(x_ptr + tl.abs(column - 3) % width) + row)


def test_remainders_are_computed_from_quotients_that_there_are(check):
    for wide in (False, True):
        args = data("f4", 64), np.zeros(128, "f4"), 24, 9, 128, wide
        text, _ = emulator.llvm_of(module_of(mirrored, args)[0])
        rest, quotient = ("rem.u32", "div.u32") if wide else (" srem i32 ", " sdiv i32 ")
        assert text.count(rest) == text.count(quotient) == 1 and "llvm.abs.i" in text
        check(mirrored, *args)


def test_wide_quotients_by_constants_stay(check):
    @triton.jit
    def thirds(x_ptr, out_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out_ptr + i, tl.load(x_ptr + i) // 3)

    args = rng.integers(-(1 << 62), 1 << 62, 64), np.zeros(64, "i8"), 64
    assert "div.u32" not in emulator.llvm_of(module_of(thirds, args)[0])[0]
    check(thirds, *args)
