"""Weights of four bits, two in a byte, that `tl.interleave` unpacks for a dot. Against the interpreter."""

import re

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data
from tests.backends.gpu.test_redundant_loads import ttgir_of
from tritium.insight import emulator


@triton.jit
def unpacked(a_ptr, w_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr, SCALE: tl.constexpr):
    """Rows of weights lie along K: they are transposed."""
    i, j, k, half = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BLOCK), tl.arange(0, BLOCK // 2)
    total = tl.zeros((M, N), tl.float32)
    for s in range(0, K, BLOCK):
        a = tl.load(a_ptr + i[:, None] * K + s + k[None, :])
        w = tl.load(w_ptr + j[:, None] * (K // 2) + s // 2 + half[None, :])
        w = tl.interleave((w & 15).to(a.dtype), (w >> 4).to(a.dtype)) * SCALE
        total = tl.dot(a, tl.trans(w), total)
    tl.store(c_ptr + i[:, None] * N + j[None, :], total)


@triton.jit
def unpacked_rows(a_ptr, w_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr, SCALE: tl.constexpr):
    """Rows of weights lie along N."""
    i, j, k, half = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BLOCK), tl.arange(0, N // 2)
    total = tl.zeros((M, N), tl.float32)
    for s in range(0, K, BLOCK):
        a = tl.load(a_ptr + i[:, None] * K + s + k[None, :])
        w = tl.load(w_ptr + (s + k[:, None]) * (N // 2) + half[None, :])
        total = tl.dot(a, tl.interleave((w & 15).to(a.dtype), (w >> 4).to(a.dtype)) * SCALE, total)
    tl.store(c_ptr + i[:, None] * N + j[None, :], total)


@triton.jit
def words_of_eight(a_ptr, w_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr, SCALE: tl.constexpr):
    """Eight weights in a word along N: a block of them has a few words in a row."""
    i, j, k, word = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BLOCK), tl.arange(0, N // 8)
    shifts = tl.reshape(tl.broadcast_to(tl.arange(0, 8)[None, :] * 4, (BLOCK * (N // 8), 8)), (BLOCK, N))
    total = tl.zeros((M, N), tl.float32)
    for s in range(0, K, BLOCK):
        a = tl.load(a_ptr + i[:, None] * K + s + k[None, :])
        w = tl.load(w_ptr + (s + k[:, None]) * (N // 8) + word[None, :])
        w = tl.interleave(w, w)
        w = tl.interleave(w, w)
        w = tl.interleave(w, w)
        total = tl.dot(a, ((w >> shifts) & 15).to(a.dtype) * SCALE, total)
    tl.store(c_ptr + i[:, None] * N + j[None, :], total)


def arguments(kernel, m, n, k, block=64):
    if kernel is words_of_eight:
        words = np.random.default_rng(0).integers(0, 2**31, (k, n // 8), "i4")
        return data(ml_dtypes.bfloat16, m, k), words, np.zeros((m, n), "f4"), k, m, n, block, 0.5
    rows, columns = (n, k) if kernel is unpacked else (k, n)
    weights = np.random.default_rng(0).integers(0, 256, (rows, columns // 2), "u1")
    return data(ml_dtypes.bfloat16, m, k), weights, np.zeros((m, n), "f4"), k, m, n, block, 0.5


@pytest.mark.parametrize("arch", [90, 80])
@pytest.mark.parametrize(("m", "n", "warps"), [(64, 128, 4), (128, 64, 4), (16, 64, 4), (64, 64, 8), (16, 32, 2)])
@pytest.mark.parametrize("kernel", [unpacked, unpacked_rows, words_of_eight], ids=lambda x: x.__name__)
def test_results(check, kernel, m, n, warps, arch):
    check(kernel, *arguments(kernel, m, n, 192), arch=arch, warps=warps)


@pytest.mark.parametrize("kernel", [unpacked, unpacked_rows], ids=lambda x: x.__name__)
def test_words_are_copied_and_go_to_tensor_cores_in_registers(kernel):
    module, _ = module_of(kernel, arguments(kernel, 64, 128, 256))
    text, _ = emulator.llvm_of(module)
    assert "ld.global" not in text and "wgmma" in text


def test_no_thread_unpacks_words_that_others_unpack():
    """Short rows of words leave lanes to the rows: with copies in eight lanes, a thread would have 64 weights."""
    text = ttgir_of(words_of_eight, arguments(words_of_eight, 32, 32, 96, 32))
    assert re.findall(r"buffer_load .*layout=\(\(32, 4\), (\([^)]*\)), .*tile<32x4xi32>", text) == ["()"]
