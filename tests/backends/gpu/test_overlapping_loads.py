"""Tiles that overlap, as the neighbours in a filter, are loaded once: the widest accesses have what others share."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.samples import numbers
from tritium.backends.compiler import GPUTarget


@triton.jit
def smoothed(x, o, N, BLOCK: tl.constexpr):
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + n - 1, mask=(n - 1 >= 0) & (n - 1 < N), other=0.0)
    here = tl.load(x + n, mask=n < N, other=0.0)
    right = tl.load(x + n + 1, mask=n + 1 < N, other=5.0)
    tl.store(o + n, left * 2 + here * 3 - right, mask=n < N)


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("n", [1024, 1008, 1021, 3])
def test_neighbours(check, n, warps):
    check(smoothed, numbers("f4", 1024), np.zeros(1024, "f4"), n, 512, grid=(2,), warps=warps)


@triton.jit
def filtered(x, w, o, H, W, BLOCK_Y: tl.constexpr, BLOCK_X: tl.constexpr):
    y = tl.program_id(1) * BLOCK_Y + tl.arange(0, BLOCK_Y)
    c = tl.program_id(0) * BLOCK_X + tl.arange(0, BLOCK_X)
    total = tl.zeros((BLOCK_Y, BLOCK_X), tl.float32)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            yy, xx = y[:, None] + (dy - 1), c[None, :] + (dx - 1)
            inside = (yy >= 0) & (yy < H) & (xx >= 0) & (xx < W)
            total += tl.load(x + yy * W + xx, mask=inside, other=0.0) * tl.load(w + dy * 3 + dx)
    tl.store(o + y[:, None] * W + c[None, :], total, mask=(y[:, None] < H) & (c[None, :] < W))


@pytest.mark.parametrize(("h", "w"), [(16, 128), (15, 112), (9, 61)])
def test_a_filter(check, h, w):
    check(filtered, numbers("f4", h, w), numbers("f4", 9), np.zeros((h, w), "f4"), h, w, 8, 64, grid=(2, 2),
          tolerance=1e-5)  # fmt: skip


def ptx(kernel, signature, constants):
    signature |= dict.fromkeys(constants, "constexpr")
    aligned = {(k,): [["tt.divisibility", 16]] for k, t in enumerate(signature.values()) if t != "constexpr"}
    source = triton.compiler.ASTSource(kernel, signature, constants, aligned)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]


def test_a_row_of_a_filter_takes_three_loads():
    signature = {"x": "*fp32", "w": "*fp32", "o": "*fp32", "H": "i32", "W": "i32"}
    loads = re.findall(r"ld\.global\S*", ptx(filtered, signature, {"BLOCK_Y": 8, "BLOCK_X": 128}))
    assert len(loads) == 9 + 6 * 3  # weights; six rows of a thread, each in four neighbours and one on either side
    assert loads.count("ld.global.v4.b32") == 6


@triton.jit
def changed_between(x, o, N: tl.constexpr):
    n = tl.arange(0, N)
    before = tl.load(x + n)
    tl.store(x + n, before + 1.0)
    tl.debug_barrier()
    tl.store(o + n, before + tl.load(x + n + 1))


def test_what_a_store_changes_is_loaded_again(check):
    x = np.concatenate([numbers("f4", 256), np.zeros(16, "f4")])
    check(changed_between, x, np.zeros(256, "f4"), 256, warps=1)


@triton.jit
def extrema_of_differences(x, o, rows, N: tl.constexpr):
    n, most = tl.arange(0, N), 0.0
    for i in range(rows):
        here, after = tl.load(x + i * N + n), tl.load(x + i * N + n + 2, mask=n + 2 < N, other=0.0)
        most = tl.maximum(most, tl.max(here - after, 0))
        most = tl.maximum(most, tl.sum(tl.load(x + i * N + n + 1, mask=n + 1 < N, other=0.0), 0))
    tl.store(o, most)


@pytest.mark.parametrize("warps", [1, 4])
def test_in_a_loop_with_reductions(check, warps):
    check(extrema_of_differences, numbers("f4", 6, 512), np.zeros(1, "f4"), 6, 512, warps=warps, tolerance=1e-4)
