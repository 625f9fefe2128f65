"""Attention before Hopper: each warp has whole rows of scores, which stay in its registers between two dots."""

import numpy as np
import pytest

from tests.backends.gpu.samples import rng
from tests.backends.gpu.test_redundant_loads import ttgir_of
from tests.backends.gpu.test_tma import attention

pytestmark = pytest.mark.sampled


def args(rows, d, length=128):
    q, k, v = (rng.standard_normal((2, length, d)).astype(np.float16) / 4 for _ in range(3))
    return q, k, v, np.zeros_like(q), length, rows, 32, d


@pytest.mark.parametrize("arch", [80, 89, 120])
@pytest.mark.parametrize(("rows", "d", "warps"), [(128, 64, 8), (64, 128, 4), (64, 32, 8), (32, 32, 2)])
def test_attention(check, arch, rows, d, warps):
    """Also with too few rows: 64 for eight warps."""
    check(attention, *args(rows, d), grid=(128 // rows, 2), arch=arch, warps=warps)


@pytest.mark.parametrize(("rows", "warps", "crosses"), [(128, 8, False), (64, 4, False), (64, 8, True)])
def test_no_scores_cross_warps(rows, warps, crosses):
    loop = ttgir_of(attention, args(rows, 64), arch=80, warps=warps).split(" = for ")[1].split("\n  }\n")[0]
    assert loop.count(" dot ") == 2 and ("shared=" in loop) == crosses
