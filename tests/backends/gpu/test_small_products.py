"""Products of small tiles: warpgroups that share columns read parts of swizzled rows, few rows are swapped for columns,
and a producer warp loads further ahead than stages were asked for."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tritium import passes
from tritium.backends.gpu.passes import pipeline
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.ir.text import print_module


@triton.jit
def product(x, y, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BLOCK)
    total = tl.zeros([M, N], tl.float32)
    for start in range(0, K, BLOCK):
        a = tl.load(x + m[:, None] * K + (start + k)[None, :])
        b = tl.load(y + (start + k)[:, None] * N + n[None, :])
        total += tl.dot(a, b)
    tl.store(o + m[:, None] * N + n[None, :], total)


@triton.jit
def single_product(x, y, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * N + n[None, :])
    tl.store(o + m[:, None] * N + n[None, :], tl.dot(a, b))


@triton.jit
def tiles_with_bias(x, y, bias, o, N, K: tl.constexpr, M: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    across = N // COLUMNS
    m = tl.program_id(0) // across * M + tl.arange(0, M)
    n, k = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, BLOCK)
    total = tl.zeros([M, COLUMNS], tl.float32)
    for start in range(0, K, BLOCK):
        a = tl.load(x + m[:, None] * K + (start + k)[None, :])
        b = tl.load(y + (start + k)[:, None] * N + n[None, :])
        total += tl.dot(a, b)
    total += tl.load(bias + n)[None, :]
    tl.store(o + m[:, None] * N + n[None, :], total.to(tl.float16))


def arrays(m, n, k):
    rng = np.random.default_rng(m * n + k)
    factors = [rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n))]
    return [*factors, np.zeros((m, n), np.float32)]


SHAPES = [(16, 64, 64, 4), (32, 128, 32, 4), (32, 64, 32, 8), (64, 64, 16, 4), (64, 64, 64, 8), (64, 32, 32, 8),
          (64, 16, 64, 8), (64, 128, 32, 8), (64, 64, 32, 16), (64, 128, 64, 16), (128, 64, 64, 16)]  # fmt: skip


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize(("m", "n", "block", "warps"), SHAPES)
def test_products(check, m, n, block, warps, stages):
    check(product, *arrays(m, n, 4 * block), m, n, 4 * block, block, warps=warps, stages=stages)


@pytest.mark.parametrize(("m", "n", "k", "warps"), [(64, 64, 64, 8), (64, 32, 16, 8), (64, 64, 32, 16)])
def test_one_product(check, m, n, k, warps):
    check(single_product, *arrays(m, n, k), m, n, k, warps=warps)


def optimized(kernel, args, warps, stages):
    """The text of a kernel with a producer warp."""
    module = passes.run(module_of(kernel, args)[0], passes.CLEANUP)
    module = module.replace(attrs={**module.attrs, "num_warps": warps, "num_stages": stages, "launch_checks": True})
    text = print_module(passes.run(module, pipeline(NvTarget.of(90))))
    assert "warp_specialize" in text
    return text


@pytest.mark.parametrize(("columns", "k", "persistent"), [(128, 512, False), (128, 448, True), (64, 512, True)])
def test_results_lie_where_tiles_have_if_more_blocks_find_room_so(check, columns, k, persistent):
    x, y, _ = arrays(128, 256, k)
    args = [x, y, np.arange(256, dtype=np.float32), np.zeros((128, 256), np.float16), 256, k, 64, columns, 64]
    text = optimized(tiles_with_bias, args, 4, 3)
    assert ("persistent=True" in text) == persistent
    if not persistent:  # three blocks
        assert int(re.search(r"shared_bytes=(\d+)", text)[1]) <= NvTarget.of(90).machine.shared_of(3)
    check(tiles_with_bias, *args, grid=(2 * 256 // columns,), warps=4, stages=3)


@pytest.mark.parametrize(("block", "stages", "slots"), [(16, 2, 6), (32, 2, 4), (64, 2, 6), (64, 3, 6), (16, 20, 24)])
def test_tiles_are_loaded_further_ahead(block, stages, slots):
    """Up to 32 kB, and four slots at least; more if they find room beside those of as many blocks."""
    text = optimized(product, [*arrays(64, 64, 4 * block), 64, 64, 4 * block, block], 4, stages)
    assert set(re.findall(r"slots=(\d+)", text)) == {str(slots)}
