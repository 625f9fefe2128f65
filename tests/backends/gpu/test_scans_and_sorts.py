"""Sorts, scans and reductions across threads, on the emulated GPU, and on a real one where there is one.

Each is compared with the interpreter, for tiles of many shapes, any number of warps and every architecture.
"""

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import WARPS, numbers
from tritium.backends.compiler import GPUTarget
from tritium.backends.gpu.lower import sort
from tritium.backends.gpu.shared_memory.needs import Room
from tritium.compiler import ASTSource
from tritium.insight import emulator

pytestmark = pytest.mark.sampled

bf16 = ml_dtypes.bfloat16


# --- order ------------------------------------------------------------------------------------------------------------
@triton.jit
def sort_rows(x, o, M: tl.constexpr, K: tl.constexpr, DOWN: tl.constexpr):
    i = tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :]
    tl.store(o + i, tl.sort(tl.load(x + i), descending=DOWN))


@triton.jit
def scan_columns(x, o, M: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :]
    tl.store(o + i, tl.cumsum(tl.load(x + i), 0 if M > K else 1))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "f2", bf16, "f4", "f8"], ids=str)
def test_sort_of_every_type(check, dtype):
    check(sort_rows, numbers(dtype, 4, 16), np.zeros((4, 16), dtype), 4, 16, True)


@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("shape", [(1, 2), (1, 512), (16, 64), (2, 1)])
def test_sort(check, shape, warps):
    check(sort_rows, numbers("f4", *shape), np.zeros(shape, "f4"), *shape, False, warps=warps)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "u8", "f2", bf16, "f4", "f8"], ids=str)
def test_sort_in_loops(check, dtype, down, monkeypatch):
    monkeypatch.setattr(sort, "WRITTEN_OUT", 0)
    check(sort_rows, numbers(dtype, 4, 32), np.zeros((4, 32), dtype), 4, 32, down, warps=1)


@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("shape", [(1, 2), (1, 2048), (32, 64), (8, 256), (2, 1)])
def test_sort_in_loops_over_threads(check, shape, warps, monkeypatch):
    monkeypatch.setattr(sort, "WRITTEN_OUT", 0)
    check(sort_rows, numbers("f4", *shape), np.zeros(shape, "f4"), *shape, warps == 1, warps=warps)


@pytest.mark.parametrize("written_out", [0, 1 << 30])
def test_sorting_loses_no_element(check, written_out, monkeypatch):
    """Zeros of both signs and numbers that compare with nothing."""
    monkeypatch.setattr(sort, "WRITTEN_OUT", written_out)
    x = numbers("f4", 2, 64)
    x[:, ::3], x[:, 1::5] = 0.0, -0.0
    check(sort_rows, x, np.zeros((2, 64), "f4"), 2, 64, False, warps=1)
    x[:, 7::11] = np.nan
    check(sort_rows, x, np.zeros((2, 64), "f4"), 2, 64, False, warps=1)


@triton.jit
def sort_what_was_not_loaded(o, K: tl.constexpr):
    i = tl.arange(0, K)
    tl.store(o + i, tl.sort((i * 37) % K))


def test_sort_of_what_was_not_loaded(check, monkeypatch):
    monkeypatch.setattr(sort, "WRITTEN_OUT", 0)
    check(sort_what_was_not_loaded, np.zeros(1024, "i4"), 1024)


@pytest.mark.parametrize(("kernel", "args", "most"), [
    (sort_rows, (64, 32, False), 2500), (sort_rows, (1, 4096, False), 5000),
    (scan_columns, (1024, 16), 5000), (scan_columns, (16, 1024), 5000),
])  # fmt: skip
def test_large_tiles_in_one_warp_do_not_take_long_to_assemble(kernel, args, most):
    """Written out, each took ten thousand lines or more, and the assembler up to minutes."""
    x = np.zeros(1, "i8" if args[0] == 64 else "f4")
    module, _ = module_of(kernel, (x, x, *args))
    text, _ = emulator.llvm_of(module, 90, num_warps=1)
    assert len(text.splitlines()) < most


# --- scans and reductions ---------------------------------------------------------------------------------------------
@triton.jit
def scan_cube(x, o, f, M: tl.constexpr, K: tl.constexpr, L: tl.constexpr, AXIS: tl.constexpr, BACK: tl.constexpr):
    i = tl.arange(0, M)[:, None, None] * K * L + tl.arange(0, K)[None, :, None] * L + tl.arange(0, L)[None, None, :]
    v = tl.load(x + i)
    tl.store(o + i, tl.cumsum(v, AXIS, reverse=BACK))
    tl.store(f + i, tl.flip(v, AXIS))


@triton.jit
def larger(a, i, b, j):
    first = (a > b) | ((a == b) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def best_with_index(x, o, oi, s, si, M: tl.constexpr, K: tl.constexpr, AXIS: tl.constexpr, LEFT: tl.constexpr):
    i = tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :]
    v = tl.load(x + i)
    value, index = tl.reduce((v, i), AXIS, larger)
    tl.store(o + tl.arange(0, LEFT), value)
    tl.store(oi + tl.arange(0, LEFT), index)
    value, index = tl.associative_scan((v, i), AXIS, larger)
    tl.store(s + i, value)
    tl.store(si + i, index)


@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scan(check, axis, back, warps):
    shape = (8, 4, 16)
    check(scan_cube, numbers("i4", *shape), *(np.zeros(shape, "i4") for _ in range(2)), *shape, axis, back, warps=warps)


@pytest.mark.parametrize("dtype", ["i1", "i8", "f2", bf16, "f8"], ids=str)
def test_scan_of_every_type(check, dtype):
    shape = (2, 64, 2)
    total = {"i1": "i4", bf16: "f4"}.get(dtype, dtype)
    check(scan_cube, numbers(dtype, *shape), np.zeros(shape, total), np.zeros(shape, dtype), *shape, 1, False)


@triton.jit
def one_after_the_other(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def scan_maps(x, o, q, M: tl.constexpr, K: tl.constexpr, AXIS: tl.constexpr, BACK: tl.constexpr):
    i = tl.arange(0, M)[:, None] * K + tl.arange(0, K)[None, :]
    v = tl.load(x + i)
    slope, at_zero = tl.associative_scan((v | 1, v * 3), AXIS, one_after_the_other, reverse=BACK)
    tl.store(o + i, slope)
    tl.store(q + i, at_zero)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(("shape", "axis", "warps"), [((64, 32), 0, 8), ((64, 16), 0, 2), ((16, 64), 0, 4),
                                                      ((2, 512), 1, 4), ((1, 1024), 1, 8)])  # fmt: skip
def test_scan_between_warps(check, shape, axis, warps, back):
    outs = np.zeros(shape, "i8"), np.zeros(shape, "i8")
    check(scan_maps, numbers("i4", *shape), *outs, *shape, axis, back, warps=warps)


@pytest.mark.parametrize("room", [2048, 16 << 10])
def test_scan_between_warps_in_little_shared_memory(check, monkeypatch, room):
    """Totals that do not fit go some after the others."""
    monkeypatch.setattr(Room, "bytes", room)
    outs = np.zeros((64, 64), "i8"), np.zeros((64, 64), "i8")
    check(scan_maps, numbers("i4", 64, 64), *outs, 64, 64, 0, False, warps=4)


@pytest.mark.parametrize("shape", [(64, 32), (256, 16)])
@pytest.mark.parametrize("warps", [2, 4, 8])
def test_warps_meet_once_in_a_scan(shape, warps):
    source = ASTSource(scan_columns, {"x": "*fp32", "o": "*fp32"}, dict(zip("MK", shape)))
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    assert made.asm["ptx"].count("bar.sync") == 1


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((64, 2, 16), 0), ((2, 256, 4), 1), ((1, 4, 512), 2), ((16, 16, 8), 2)])
def test_scan_in_segments(check, in_segments, shape, axis, back, warps):
    check(scan_cube, numbers("i4", *shape), *(np.zeros(shape, "i4") for _ in range(2)), *shape, axis, back, warps=warps)
    assert in_segments


@pytest.mark.parametrize("dtype", ["i1", "i8", "f2", bf16, "f8"], ids=str)
def test_scan_of_every_type_in_segments(check, in_segments, dtype):
    shape = (8, 64, 2)
    total = {"i1": "i4", bf16: "f4"}.get(dtype, dtype)
    check(scan_cube, numbers(dtype, *shape), np.zeros(shape, total), np.zeros(shape, dtype), *shape, 1, False, warps=1)
    assert in_segments


@pytest.mark.parametrize("shape", [(1024, 32), (32, 1024)])
def test_scan_of_what_does_not_fit_into_shared_memory(check, in_segments, shape):
    check(scan_columns, numbers("i4", *shape), np.zeros(shape, "i4"), *shape, arch=75)
    assert len(in_segments) == 4 and len({id(segments) for segments in in_segments}) == 1


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("shape", [(64, 16), (1024, 1), (8, 128)])
def test_scan_of_what_does_not_commute(check, in_segments, shape, back, warps):
    outs = np.zeros(shape, "i8"), np.zeros(shape, "i8")
    for axis in (0, 1):
        check(scan_maps, numbers("i8", *shape), *outs, *shape, axis, back, warps=warps)
    assert in_segments


@pytest.mark.parametrize("warps", WARPS)
@pytest.mark.parametrize("shape", [(4, 64), (64, 4), (1, 8), (128, 32)])
@pytest.mark.parametrize("axis", [0, 1])
def test_values_with_indices(check, axis, shape, warps):
    left = shape[1 - axis]
    outs = np.zeros(left, "f4"), np.zeros(left, "i4"), np.zeros(shape, "f4"), np.zeros(shape, "i4")
    check(best_with_index, numbers("f4", *shape), *outs, *shape, axis, left, warps=warps)
