"""Masks that cut few tiles: the others pass them by."""

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
def attend(o_ptr, q_ptr, k_ptr, v_ptr, L, WINDOW, HOW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
           D: tl.constexpr):  # fmt: skip
    """Attention with a mask: causal, causal with what is left out named, bounded, or within a window."""
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :])
    top, total = tl.full((BM,), -1e30, tl.float32), tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, L, BN):
        n = start + tl.arange(0, BN)
        s = tl.dot(q, tl.load(k_ptr + n[None, :] * D + d[:, None])) * 0.125
        if HOW == "causal":
            s = tl.where(m[:, None] >= n[None, :], s, -1e9)
        elif HOW == "left out":
            s = tl.where(m[:, None] < n[None, :], -1e9, s)
        elif HOW == "bounded":
            s = tl.where((n < WINDOW)[None, :], s, -1e9)
        elif HOW == "window":
            s = tl.where((m[:, None] >= n[None, :]) & (m[:, None] - n[None, :] < WINDOW), s, -1e9)
        elif HOW == "either":
            s = tl.where((m[:, None] < n[None, :]) | (n >= WINDOW)[None, :], -1e9, s)
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        shrink = tl.exp2(top - new)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :])
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        top = new
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc / total[:, None])


def arguments(length, window, how, m, n, d=64):
    return (np.zeros((length, d), "f4"), *(data("f2", length, d) for _ in range(3)), length, window, how, m, n, d)


@pytest.mark.parametrize("how", ["causal", "left out", "bounded", "window", "either"])
@pytest.mark.parametrize(("m", "n", "warps", "arch"), [(64, 32, 4, 90), (128, 64, 8, 90), (64, 32, 4, 80)])
def test_tiles_that_a_mask_cuts_or_not(check, how, m, n, warps, arch):
    check(attend, *arguments(256, 150, how, m, n), grid=(256 // m,), warps=warps, arch=arch, tolerance=4e-3)


@pytest.mark.parametrize(("how", "compared"), [("causal", 32), ("left out", 32), ("bounded", 16), ("window", 50),
                                               ("either", 48)])  # fmt: skip
def test_elements_are_compared_behind_a_branch(how, compared):
    """Each thread has two rows of sixteen elements, which have 18 distances."""
    text, _ = emulator.llvm_of(module_of(attend, arguments(256, 150, how, 128, 64))[0], num_warps=8)
    blocks = re.split(r"\n(?=\w[\w.]*:\n)", text)
    counts = {block: len(re.findall(r"= icmp \w+ i32", block)) for block in blocks}
    assert max(counts.values()) == compared
    assert not any("ex2" in block or "wgmma" in block for block, count in counts.items() if count >= 16)
