"""Both elements of a pair in every thread, as sorting networks write them: sums by masks that are 1 at one of them."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.samples import numbers
from tritium.backends.compiler import GPUTarget


@triton.jit
def ordered_pairs(x, index, o, p, N: tl.constexpr, AWAY: tl.constexpr):
    """Elements that are AWAY apart, in order, each with its index."""
    n = tl.arange(0, N)
    v, i = tl.load(x + n), tl.load(index + n)
    bits = v.to(tl.int32, bitcast=True)
    shape: tl.constexpr = [N // (2 * AWAY), 2, AWAY]
    second = tl.arange(0, 2)[None, :, None]
    first = 1 - second
    pairs, indices = tl.reshape(bits, shape), tl.reshape(i, shape)
    left = tl.broadcast_to(tl.sum(pairs * first, 1)[:, None, :], shape)
    right = tl.broadcast_to(tl.sum(second * pairs, 1)[:, None, :], shape)
    left_number = tl.broadcast_to(tl.sum(indices * first.to(i.dtype), 1)[:, None, :], shape)
    right_number = tl.broadcast_to(tl.sum(indices * second.to(i.dtype), 1)[:, None, :], shape)
    left, right = tl.reshape(left, v.shape), tl.reshape(right, v.shape)
    swap = left.to(tl.float32, bitcast=True) > right.to(tl.float32, bitcast=True)
    difference = tl.where(swap, left ^ right, tl.zeros_like(bits))
    tl.store(o + n, (bits ^ difference).to(tl.float32, bitcast=True))
    change = tl.where(swap, tl.reshape(left_number ^ right_number, v.shape), tl.zeros_like(i))
    tl.store(p + n, i ^ change)


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("away", [1, 4, 8, 64, 128])
@pytest.mark.parametrize("index", ["i2", "i4"])
def test_pairs(check, index, away, warps):
    places = np.arange(256).astype(index)
    out = np.zeros(256, "f4"), np.zeros(256, "i4")
    check(ordered_pairs, numbers("f4", 256), places, *out, 256, away, warps=warps)


@triton.jit
def other_masks(x, o, N: tl.constexpr):
    """Masks that are not 1 at one of two."""
    n = tl.arange(0, N)
    v = tl.reshape(tl.load(x + n), [N // 16, 2, 8])
    two = tl.arange(0, 2)[None, :, None]
    row = tl.arange(0, N // 16)[:, None, None]
    total = tl.sum(v * (two + 1), 1) + tl.sum(v * (two - row), 1) + tl.sum(v * (2 * two), 1) - tl.sum(v * (two == 1), 1)
    tl.store(o + tl.reshape(tl.arange(0, N // 2), [N // 16, 8]), total)


def test_other_masks(check):
    check(other_masks, numbers("i4", 256), np.zeros(128, "i4"), 256, warps=1)


@pytest.mark.parametrize(("away", "shuffles"), [(1, 0), (4, 2 * 8)])
def test_each_lane_asks_once_for_each_element(away, shuffles):
    signature = {"x": "*fp32", "index": "*i32", "o": "*fp32", "p": "*i32", "N": "constexpr", "AWAY": "constexpr"}
    aligned = {(k,): [["tt.divisibility", 16]] for k in range(4)}
    source = triton.compiler.ASTSource(ordered_pairs, signature, {"N": 256, "AWAY": away}, aligned)
    text = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1}).asm["ptx"]
    assert text.count("shfl.sync.bfly") == shuffles and "mul.lo" not in text and "xor.b32" not in text


@triton.jit
def differences(x, o, p, N: tl.constexpr):
    """Exclusive ors of constants and of truth values, in two widths."""
    n = tl.arange(0, N)
    v = tl.load(x + n)
    one = tl.full((N,), 1, tl.int32)
    five = one ^ 4
    tl.store(o + n, one ^ tl.where(v > 0, five, 0) ^ tl.where(v > 2, v ^ one, 0))
    wide = tl.full((N,), 1, tl.int64) ^ tl.where(v > 0, tl.full((N,), 5, tl.int64), 0)
    odd, large = (v & 1) > 0, v > 3
    tl.store(p + n, wide + ((odd > large) ^ (odd >= large) ^ (large < odd)).to(tl.int64))


def test_differences_of_constants_and_truth_values(check):
    check(differences, numbers("i4", 256), np.zeros(256, "i4"), np.zeros(256, "i8"), 256, warps=1)
