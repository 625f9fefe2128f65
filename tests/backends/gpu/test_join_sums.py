"""Sums of rows that loops carry: lanes join their parts behind the loop."""

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
def weigh(o_ptr, sums_ptr, q_ptr, k_ptr, v_ptr, count, SCALED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
          D: tl.constexpr):  # fmt: skip
    """Weights of keys and their sum, which shrinks in each iteration or not."""
    m, d, j = tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :])
    total, acc = tl.zeros((BM,), tl.float32), tl.zeros((BM, D), tl.float32)
    for i in range(count):
        n = i * BN + j
        p = tl.exp2(tl.dot(q, tl.load(k_ptr + n[None, :] * D + d[:, None])) * 0.125)
        if SCALED:
            shrink = 1.0 / (1.0 + tl.max(p, 1))
            total = tl.sum(p, 1) + shrink * total
            acc = acc * shrink[:, None]
        else:
            total += tl.sum(p, 1)
        acc = tl.dot(p.to(q.dtype), tl.load(v_ptr + n[:, None] * D + d[None, :]), acc)
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc / total[:, None])
    tl.store(sums_ptr + m, total)


def arguments(m, n, d, count, scaled):
    return (np.zeros((m, d), "f4"), np.zeros(m, "f4"), data("f2", m, d), data("f2", 4 * n, d), data("f2", 4 * n, d),
            count, scaled, m, n, d)  # fmt: skip


@pytest.mark.parametrize(("m", "n", "warps", "arch"), [
    (64, 32, 4, 90), (128, 64, 8, 90), (128, 64, 4, 90), (64, 64, 4, 80), (32, 32, 2, 80), (16, 64, 4, 80),
    (128, 64, 4, 100),
])  # fmt: skip
@pytest.mark.parametrize(("count", "scaled"), [(3, True), (2, False), (0, True)])
def test_sums_of_rows(check, m, n, warps, arch, count, scaled):
    check(weigh, *arguments(m, n, 64, count, scaled), warps=warps, arch=arch, tolerance=4e-3)


def test_shuffles_are_behind_the_loop():
    """Four lanes have a row, and a thread two rows: two shuffles each."""
    text, _ = emulator.llvm_of(module_of(weigh, arguments(128, 64, 64, 4, False))[0], num_warps=8)
    shuffles = [found.start() for found in re.finditer(r"call \S+ @llvm\.nvvm\.shfl", text)]
    assert len([at for at in shuffles if at > text.rindex("wgmma.mma_async")]) == 4
    assert not [at for at in shuffles if text.index("wgmma.mma_async") < at < text.rindex("wgmma.mma_async")]
