"""Loops around dots without tensor cores: threads multiply prefetched tiles, against the interpreter."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data
from tritium.insight import emulator

pytestmark = pytest.mark.sampled


@triton.jit
def along(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, TA: tl.constexpr,
          TB: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Operands that lie along K, or along M and N; the last iteration is not full."""
    i, j = tl.arange(0, M), tl.arange(0, N)
    total = tl.zeros((M, N), c_ptr.dtype.element_ty)
    for s in range(0, K, BK):
        k = s + tl.arange(0, BK)
        at_a = k[None, :] * M + i[:, None] if TA else i[:, None] * K + k[None, :]
        at_b = j[None, :] * K + k[:, None] if TB else k[:, None] * N + j[None, :]
        a = tl.load(a_ptr + at_a, mask=k[None, :] < K, other=0)
        b = tl.load(b_ptr + at_b, mask=k[:, None] < K, other=0)
        total = tl.dot(a, b, total, input_precision=PRECISION, out_dtype=total.dtype)
    tl.store(c_ptr + i[:, None] * N + j[None, :], total)


def of_along(dtype, m, n, k, block, turned):
    return data(dtype, m, k), data(dtype, k, n), np.zeros((m, n), dtype), k, m, n, block, *turned, "ieee"


@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize(("shape", "warps"), [((32, 64), 1), ((64, 32), 4), ((16, 16), 4), ((128, 8), 2), ((4, 4), 2)])
def test_operands_contiguous_along_either_axis(check, shape, warps, turned):
    """More and fewer elements than threads, long and square."""
    for block, stages in ((16, 2), (32, 3)):
        check(along, *of_along("f4", *shape, 80, block, turned), warps=warps, stages=stages, tolerance=1e-5)


@pytest.mark.parametrize("turned", [(0, 0), (1, 1)])
@pytest.mark.parametrize("arch", [90, 80])
def test_doubles(check, turned, arch):
    check(along, *of_along("f8", 32, 32, 48, 16, turned), arch=arch, tolerance=1e-5)


@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_copies_are_prefetched_and_accesses_vectorized(turned):
    """Sixteen bytes at a time, from whichever axis lies in rows. Columns of a rhs that lies along K are not
    neighbours in a thread, so the result passes through shared memory."""
    text, metadata = emulator.llvm_of(module_of(along, of_along("f4", 64, 64, 128, 16, turned))[0], num_warps=4)
    assert "cp.async" in text and "mma" not in text
    assert metadata["shared"] == 3 * 2 * 64 * 16 * 4
    read = re.findall(r"= load (\S.*?), ptr addrspace\(3\)", text)
    assert set(read) == {"<4 x float>"} and len(read) == 16 * (8 + 4) // 4 + (8 if turned[1] else 0)


def test_before_there_were_copies_operands_are_staged():
    text, _ = emulator.llvm_of(module_of(along, of_along("f4", 32, 32, 64, 16, (0, 0)))[0], 75)
    assert "cp.async" not in text and "<4 x float>" in text


@triton.jit
def outside(a_ptr, b_ptr, c_ptr, N, M: tl.constexpr, BN: tl.constexpr, K: tl.constexpr):
    """A lhs of all iterations, and a tile that is stored as well as multiplied."""
    i, j, k = tl.arange(0, M), tl.arange(0, BN), tl.arange(0, K)
    a = tl.load(a_ptr + i[:, None] * K + k[None, :])
    total = tl.zeros((M, BN), tl.float32)
    for s in range(0, N, BN):
        b = tl.load(b_ptr + k[:, None] * N + (s + j)[None, :])
        total = tl.dot(a, b, total, input_precision="ieee") + tl.sum(b, 0)[None, :]
    tl.store(c_ptr + i[:, None] * BN + j[None, :], total)


@pytest.mark.parametrize("trips", [1, 3])
def test_loop_invariant_operands_are_shared_once(check, trips):
    m, k, block = 32, 16, 32
    args = data("f4", m, k), data("f4", k, trips * block), np.zeros((m, block), "f4"), trips * block, m, block, k
    check(outside, *args, tolerance=1e-5)
