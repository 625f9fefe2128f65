"""Branches in loops around dots, which would keep them from being pipelined, against the interpreter."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.samples import data
from tests.backends.gpu.test_redundant_loads import ttgir_of

pytestmark = pytest.mark.sampled


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, n, M: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr):
    """A mask only in the tile that needs one, and a sum that the first iteration begins."""
    i, j, d = tl.arange(0, M), tl.arange(0, BLOCK), tl.arange(0, D)
    q = tl.load(q_ptr + i[:, None] * D + d[None, :])
    total = tl.zeros((M,), tl.float32)
    out = tl.zeros((M, D), tl.float32)
    for start in range(0, n, BLOCK):
        inside = (start + j) < n
        k = tl.load(k_ptr + (start + j)[None, :] * D + d[:, None], mask=inside[None, :], other=0.0)
        v = tl.load(v_ptr + (start + j)[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
        s = tl.dot(q, k)
        if start + BLOCK > n:
            s = tl.where(inside[None, :], s, float("-inf"))
        p = tl.exp(s)
        total = total + tl.sum(p, 1) if start > 0 else tl.sum(p, 1)
        out += tl.dot(p.to(tl.float16), v)
    tl.store(out_ptr + i[:, None] * D + d[None, :], out / total[:, None])


def of_attention(n, m=64, block=32, d=64):
    scaled = lambda *shape: (data("f4", *shape) / 16).astype("f2")
    return scaled(m, d), scaled(n, d), scaled(n, d), np.zeros((m, d), "f4"), n, m, block, d


@pytest.mark.parametrize("arch", [90, 80])
@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("n", [20, 64, 100])
def test_a_mask_in_a_branch(check, n, warps, arch):
    check(attention, *of_attention(n), arch=arch, warps=warps, tolerance=2e-3)


@pytest.mark.parametrize("arch", [90, 80])
def test_such_a_loop_is_pipelined(arch):
    text = ttgir_of(attention, of_attention(100), arch, num_stages=3)
    assert text.count("async_load") == 6 and " load " in text and text.count(" load ") == 1  # only q is waited for
