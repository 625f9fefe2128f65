"""Tiles that a loop carries, where only small tiles that are broadcast meet them, without a GPU."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.backends.gpu.layout.linear import Layout, reducing
from tritium.backends.gpu.passes import pipeline
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.compiler import ASTSource
from tritium.insight import emulator
from tritium.ir.text import print_module
from tritium.passes import run


@triton.jit
def inverse(a, out, n, N: tl.constexpr):
    """The inverse of I + A row by row, where A is what is below the diagonal of a a'."""
    i = tl.arange(0, N)
    x = tl.load(a + i[:, None] * N + i[None, :])
    below = -tl.where(i[:, None] > i[None, :], tl.dot(x, x.T), 0.0)
    made = below
    for k in range(2, n):
        row = tl.sum(tl.where((i == k)[:, None], below, 0.0), 0)
        row += tl.sum(row[:, None] * made, 0)
        made = tl.where((i == k)[:, None], row, made)
    tl.store(out + i[:, None] * N + i[None, :], made + (i[:, None] == i[None, :]))


@triton.jit
def descent(a, h, out, n, N: tl.constexpr):
    """Steps along directions that products give: `sums` sees the directions only."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    x, y = tl.load(a + at), tl.load(h + at)
    sums = x * 0.0
    for _ in range(n):
        scale = tl.max(tl.abs(x), 1)
        sums += x * scale[:, None]
        x = tl.dot(x.to(tl.float16), y) * 0.125
    tl.store(out + at, sums)


def module_of(kernel, types, constants, warps):
    target = GPUTarget("cuda", 90, 32)
    options = BaseBackend(target).parse_options({"num_warps": warps})
    aligned = {(k,): [["tt.divisibility", 16]] for k, kind in enumerate(types.values()) if kind[0] == "*"}
    return ASTSource(kernel, types, constants, aligned).make_ir(target, options)


def loop_of(module, warps):
    """The text of the last loop with layouts."""
    module = module.replace(attrs={**module.attrs, "num_warps": warps, "num_stages": 1})
    text = print_module(run(module, pipeline(NvTarget.of(90))))
    return re.findall(r"\n  %\S+ = for .*?\n  }", text, re.DOTALL)[-1]


@pytest.mark.parametrize("count", [16, 11])
def test_rows_of_a_product_are_eliminated_where_they_are(count):
    module = module_of(inverse, {"a": "*fp16", "out": "*fp32", "n": "i32"}, {"N": 16}, 1)
    assert loop_of(module, 1).count("convert ") == 1  # a row becomes a column
    a = np.random.default_rng(0).integers(-2, 3, (16, 16)).astype(np.float16) / 8
    out = np.zeros((16, 16), np.float32)
    emulator.run(module, [a, out, count], (1,), 90, 1)
    below = np.tril(a.astype(np.float64) @ a.T.astype(np.float64), -1)
    wanted = np.linalg.inv(np.eye(16) + below)
    np.testing.assert_allclose(out[:count], wanted[:count], rtol=1e-5, atol=1e-5)


def test_sums_are_where_products_are():
    module = module_of(descent, {"a": "*fp32", "h": "*fp16", "out": "*fp32", "n": "i32"}, {"N": 64}, 4)
    assert "convert " not in loop_of(module, 4)
    rng = np.random.default_rng(0)
    a, h = rng.integers(-2, 3, (64, 64)).astype(np.float32), rng.integers(-2, 3, (64, 64)).astype(np.float16)
    out = np.zeros((64, 64), np.float32)
    emulator.run(module, [a, h, out, 3], (1,), 90, 4)
    x, wanted = a.astype(np.float64), 0
    for _ in range(3):
        wanted = wanted + x * np.abs(x).max(1)[:, None]
        x = x.astype(np.float16).astype(np.float64) @ h.astype(np.float64) * 0.125
    np.testing.assert_allclose(out, wanted, rtol=1e-3)


@triton.jit
def solve(a, out, n, N: tl.constexpr, SQUARES: tl.constexpr):
    """The inverse of I + A, whose rows are loaded in the loop."""
    i = tl.arange(0, N)
    made = -tl.load(a + i[:, None] * N + i[None, :])
    for k in range(2, n):
        row = tl.where(i < k, -tl.load(a + k * N + i), 0.0)
        weighted = row[:, None] * made
        for _ in tl.static_range(SQUARES):
            weighted = weighted * weighted
        row += tl.sum(weighted, 0)
        made = tl.where((i == k)[:, None], row, made)
    made += i[:, None] == i[None, :]
    tl.store(out + i[:, None] * N + i[None, :], tl.dot(made, made, input_precision="ieee"))


@pytest.mark.parametrize("warps", [1, 4])
def test_a_carried_tile_is_where_its_sums_need_no_other_warp(warps):
    module = module_of(solve, {"a": "*fp32", "out": "*fp32", "n": "i32"}, {"N": 16, "SQUARES": 0}, warps)
    text = loop_of(module, warps)
    copies = text.count(" reduce ")
    made = Layout(*eval(re.search(r"tile<16x16xf32> {layout=(.*)}\)", text)[1]))
    assert made == reducing((16, 16), 0, warps, 32)
    assert text.count("convert ") == copies, "a row becomes a column"
    a = np.tril(np.random.default_rng(0).integers(-2, 3, (16, 16)).astype(np.float32) / 8, -1)
    out = np.zeros((16, 16), np.float32)
    emulator.run(module, [a, out, 16], (1,), 90, warps)
    inverse = np.linalg.inv(np.eye(16) + a.astype(np.float64))
    np.testing.assert_allclose(out, inverse @ inverse, rtol=1e-4, atol=1e-4)


@triton.jit
def products_and_sums(a, x, y, out, sums, K: tl.constexpr, N: tl.constexpr, BK: tl.constexpr,
                      SQUARES: tl.constexpr):
    """Two tiles that are prefetched: products read both, and sums along K."""
    i, j, k = tl.arange(0, 16), tl.arange(0, N), tl.arange(0, BK)
    total, columns = tl.zeros((16, N), tl.float32), tl.zeros((N,), tl.float32)
    for s in range(0, K, BK):
        at = (s + k)[:, None] + j[None, :] * K
        left, right = tl.load(x + at), tl.load(y + at)
        both = left * right
        for _ in tl.static_range(SQUARES):
            both = both * both
        columns += tl.sum(both, 0)
        row = tl.load(a + i[:, None] * K + (s + k)[None, :])
        total = tl.dot(row, right.to(tl.float16), tl.dot(row, left.to(tl.float16), total))
    tl.store(out + i[:, None] * N + j[None, :], total)
    tl.store(sums + j, columns)


def test_tiles_of_buffers_are_read_where_sums_need_no_other_thread():
    types = {"a": "*fp16", **dict.fromkeys(("x", "y", "out", "sums"), "*fp32")}
    module = module_of(products_and_sums, types, {"K": 96, "N": 64, "BK": 32, "SQUARES": 0}, 2)
    laid_out = module.replace(attrs={**module.attrs, "num_warps": 2, "num_stages": 2})
    text = print_module(run(laid_out, pipeline(NvTarget.of(90))))
    assert re.search(r"reduce %\d+ {axis=0, layout=\(\(64,\), \(\), \(1, 2, 4, 8, 16\), \(32,\)\)}", text)
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (16, 96)).astype(np.float16)
    x, y = (rng.integers(-2, 3, (64, 96)).astype(np.float32) for _ in range(2))
    out, sums = np.zeros((16, 64), np.float32), np.zeros(64, np.float32)
    emulator.run(module, [a, x, y, out, sums], (1,), 90, 2, 2)
    np.testing.assert_array_equal(out, a.astype(np.float32) @ (x + y).T)
    np.testing.assert_array_equal(sums, (x * y).sum(1))


def test_each_op_is_looked_at_once():
    """A tile has two ways to each of its squares, so to the last of 64 there are 2^64."""
    types = {"a": "*fp16", **dict.fromkeys(("x", "y", "out", "sums"), "*fp32")}
    module = module_of(products_and_sums, types, {"K": 96, "N": 64, "BK": 32, "SQUARES": 64}, 2)
    laid_out = module.replace(attrs={**module.attrs, "num_warps": 2, "num_stages": 2})
    assert " reduce " in print_module(run(laid_out, pipeline(NvTarget.of(90))))
    module = module_of(solve, {"a": "*fp32", "out": "*fp32", "n": "i32"}, {"N": 16, "SQUARES": 64}, 2)
    assert " reduce " in loop_of(module, 2)


@triton.jit
def gated(a, gate, old, out, sums, N: tl.constexpr):
    """A product that meets two loaded tiles on its way to a store, and is summed."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    x = tl.load(a + at)
    made = tl.dot(x, x) * tl.exp2(tl.load(gate + at)) + tl.load(old + at)
    tl.store(out + at, made)
    tl.store(sums + i, tl.sum(made, 0))


@pytest.mark.parametrize("warps", [2, 4])
def test_products_are_converted_where_they_meet_what_stores_match(warps):
    types = {"a": "*fp16", **dict.fromkeys(("gate", "old", "out", "sums"), "*fp32")}
    module = module_of(gated, types, {"N": 64}, warps)
    laid_out = module.replace(attrs={**module.attrs, "num_warps": warps, "num_stages": 2})
    text = print_module(run(laid_out, pipeline(NvTarget.of(90))))
    assert len(re.findall(r"convert .*tile<64x64xf32>", text)) == 1
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (64, 64)).astype(np.float16)
    gate, old = (rng.integers(-2, 3, (64, 64)).astype(np.float32) for _ in range(2))
    out, sums = np.zeros((64, 64), np.float32), np.zeros(64, np.float32)
    emulator.run(module, [a, gate, old, out, sums], (1,), 90, warps)
    wanted = a.astype(np.float32) @ a.astype(np.float32) * np.exp2(gate) + old
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_allclose(sums, wanted.sum(0), rtol=1e-5)
