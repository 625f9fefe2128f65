"""Operands of dots with repeated elements: packed weights, scales of groups."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data, rng
from tritium import passes
from tritium.backends import get
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.compiler.sources import with_options
from tritium.ir.text import print_module

pytestmark = pytest.mark.sampled

ARCHS = [(90, 64, 4), (90, 64, 8), (90, 16, 4), (80, 32, 4)]  # architecture, rows, warps


def ttgir_of(kernel, args, arch=90, warps=4, **options):
    """The text of a kernel's tiles with their layouts."""
    target = GPUTarget("cuda", arch, 32)
    chosen = BaseBackend(target).parse_options({"num_warps": warps, **options})
    module, _ = module_of(kernel, args)
    module = with_options(module, target, chosen)
    _, stage = get(target).stages[0]
    return print_module(stage(passes.run(module, get(target).passes(target)), target, chosen, {}))


def buffers(text):
    """The tiles that are copied ahead."""
    return sorted(re.findall(r"multibuffer \{tile=tile<(\S+)>", text))


def words(*shape):
    return rng.integers(-(2**31), 2**31, shape).astype("i4")


@triton.jit
def packed(a_ptr, q_ptr, c_ptr, M, trips, ALONG_K: tl.constexpr, STARTS: tl.constexpr, BM: tl.constexpr,
           BN: tl.constexpr, BK: tl.constexpr):
    """Weights of four bits, eight of a column in a word; words of a row or of a column side by side."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(STARTS, STARTS + BK)
    total = tl.zeros((BM, BN), tl.float32)
    step, side = (trips * BK // 8 if ALONG_K else 1), (1 if ALONG_K else BN)
    q_ptrs = q_ptr + (k[:, None] // 8 - STARTS // 8) * side + n[None, :] * step
    for s in range(0, trips):
        a = tl.load(a_ptr + m[:, None] * (trips * BK) + (s * BK + k - STARTS)[None, :], mask=m[:, None] < M, other=0.0)
        w = (tl.load(q_ptrs) >> (k % 8 * 4)[:, None]) & 0xF
        total = tl.dot(a, (w - 8).to(a.dtype), total)
        q_ptrs += BK // 8 * side
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)


def packed_args(m, trips, along_k=False, starts=0, n=64, deep=64, block=64):
    q = words(n, max(trips * deep // 8, 1)) if along_k else words(max(trips * deep // 8, 1), n)
    return (data("f2", m, max(trips * deep, 1)), q, np.zeros((block, n), "f4"), m, trips, along_k, starts, block, n,
            deep)  # fmt: skip


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize(("arch", "block", "warps"), ARCHS)
@pytest.mark.parametrize("along_k", [False, True])
def test_packed_weights(check, arch, block, warps, along_k, stages):
    """Any number of iterations, rows that are off."""
    for trips in (0, 1, 2, 5):
        check(packed, *packed_args(block - 3, trips, along_k, block=block), arch=arch, warps=warps, stages=stages)


@pytest.mark.parametrize("starts", [0, 64])
@pytest.mark.parametrize("along_k", [False, True])
def test_a_word_of_weights_is_copied_once(check, along_k, starts):
    args = packed_args(64, 3, along_k, starts)
    text = ttgir_of(packed, args)
    assert buffers(text) == ["64x64xf16", "8x64xi32"]
    (axis,) = re.findall(r"multibuffer \{tile=tile<8x64xi32>, slots=\d, axis=(\d)", text)
    assert int(axis) == 1 - along_k
    check(packed, *args)


@triton.jit
def in_groups(a_ptr, w_ptr, scale_ptr, c_ptr, K, trips, GROUP: tl.constexpr, ACROSS: tl.constexpr,
              WHERE: tl.constexpr, OTHER: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Weights of eight bits with a scale for GROUP rows by ACROSS columns, loaded as a tile."""
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, trips):
        k = s * BK + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * (trips * BK) + k[None, :])
        w = tl.load(w_ptr + k[:, None] * BN + n[None, :])
        at = scale_ptr + (k[:, None] // GROUP) * (BN // ACROSS) + n[None, :] // ACROSS
        if WHERE == "everywhere":
            scale = tl.load(at)
        elif WHERE == "groups":
            scale = tl.load(at, mask=k[:, None] // GROUP < K // GROUP, other=OTHER)
        else:
            scale = tl.load(at, mask=k[:, None] < K, other=OTHER)
        total = tl.dot(a, (w * scale).to(a.dtype), total)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)


def group_args(group, across, where="everywhere", other=0.0, k=None, trips=3, deep=32, block=64, n=64):
    deepest = max(trips * deep, 1)
    scale = np.exp2(rng.integers(-2, 2, (-(-deepest // group), n // across))).astype("f2")
    return (data("f2", block, deepest), data("i1", deepest, n), scale, np.zeros((block, n), "f4"), k or deepest, trips,
            group, across, where, other, block, n, deep)  # fmt: skip


@pytest.mark.parametrize(("arch", "block", "warps"), ARCHS)
@pytest.mark.parametrize(("group", "across"), [(8, 1), (32, 1), (64, 1), (16, 16), (1, 4), (128, 64)])
def test_scales_of_groups(check, arch, block, warps, group, across):
    """Groups of some rows, of a whole tile and of several, also of columns."""
    for trips in (0, 1, 2, 5):
        check(in_groups, *group_args(group, across, trips=trips, block=block), arch=arch, warps=warps)


@pytest.mark.parametrize(("group", "across", "tile"), [(8, 1, "4x64xf16"), (64, 1, "1x64xf16"), (16, 8, "2x8xf16")])
def test_a_scale_is_copied_once(group, across, tile):
    assert tile in buffers(ttgir_of(in_groups, group_args(group, across)))


def test_what_would_need_short_copies_stays():
    """One half float for the whole tile, or far from the next."""
    assert "1x1xf16" not in buffers(ttgir_of(in_groups, group_args(64, 64)))


@pytest.mark.parametrize(("where", "k"), [("groups", 80), ("rows", 80), ("rows", 77)])
@pytest.mark.parametrize("other", [0.0, 2.0])
@pytest.mark.parametrize(("arch", "block", "warps"), ARCHS)
def test_masks(check, arch, block, warps, where, k, other):
    """Equal over groups, or cutting through one; with zeros or something else where they are off."""
    check(in_groups, *group_args(8, 1, where, other, k, block=block), arch=arch, warps=warps)


def test_a_mask_that_cuts_through_groups_keeps_them_apart():
    assert "4x64xf16" in buffers(ttgir_of(in_groups, group_args(8, 1, "groups", k=80)))
    assert "32x64xf16" in buffers(ttgir_of(in_groups, group_args(8, 1, "rows", k=77)))


@triton.jit
def below_zero(a_ptr, q_ptr, c_ptr, first, trips, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Quotients are rounded towards zero: around it more neighbours are equal, and groups lie elsewhere."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for s in range(0, trips):
        a = tl.load(a_ptr + m[:, None] * (trips * BK) + (s * BK + k)[None, :])
        w = tl.load(q_ptr + ((first + s * BK + k)[:, None] // 8 + 8) * BN + n[None, :])
        total = tl.dot(a, (w & 7).to(a.dtype), total)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)


@pytest.mark.parametrize("first", [-64, -16, 0, 16])
@pytest.mark.parametrize(("arch", "block", "warps"), ARCHS)
def test_quotients_below_zero(check, arch, block, warps, first):
    """What was taken for granted is looked at when it is launched."""
    args = data("f2", block, 96), words(32, 64), np.zeros((block, 64), "f4")
    check(below_zero, *args, first, 3, block, 64, 32, arch=arch, warps=warps)


def test_what_is_taken_for_granted_is_noted():
    args = data("f2", 64, 96), words(32, 64), np.zeros((64, 64), "f4")
    text = ttgir_of(below_zero, (*args, 16, 3, 64, 64, 32))
    assert "4x64xi32" in buffers(text) and "preconditions={nonnegative=" in text
    assert "4x64xi32" not in buffers(ttgir_of(below_zero, (*args, 16, 3, 64, 64, 32), launch_checks=False))


@triton.jit
def rows(a_ptr, w_ptr, scale_ptr, row_ptr, c_ptr, trips, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A row of scales for pairs of columns; another that depends on what is loaded, and a tile that is carried."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total, at = tl.zeros((BM, BN), tl.float32), k // 4
    for s in range(0, trips):
        a = tl.load(a_ptr + m[:, None] * (trips * BK) + (s * BK + k)[None, :])
        scale = tl.load(scale_ptr + s * BN // 2 + n // 2)
        row = tl.load(row_ptr + s)
        w = tl.load(w_ptr + row * BN + at[:, None] * BN + n[None, :])
        total = tl.dot(a, (w * scale[None, :]).to(a.dtype), total)
        at = at ^ 1
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)


@pytest.mark.parametrize(("arch", "block", "warps"), ARCHS)
def test_rows_and_what_cannot_be_seen_through(check, arch, block, warps):
    for trips in (0, 1, 2, 5):
        args = data("f2", block, max(trips * 32, 1)), data("i2", 16, 64), data("f4", max(trips, 1), 32)
        args = *args, rng.integers(0, 8, max(trips, 1)).astype("i4"), np.zeros((block, 64), "f4"), trips, block, 64
        check(rows, *args, 32, arch=arch, warps=warps)
    text = ttgir_of(rows, (*args, 32), arch, warps)
    assert "32xf32" in buffers(text) and "64xf32" not in buffers(text)
    assert "8x64xi16" not in text  # a carried tile is not made of scalars
