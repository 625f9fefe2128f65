"""Pipelined loops with fewer iterations than stages: the copies of all of them are issued in front."""

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
def scaled(a_ptr, b_ptr, s_ptr, c_ptr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    """Operands that are computed, so that no producer warp loads them."""
    i, k = tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((N, N), tl.float32)
    for s in range(0, K, BK):
        a = tl.load(a_ptr + i[:, None] * K + s + k[None, :])
        b = tl.load(b_ptr + (s + k)[:, None] * N + i[None, :])
        scale = tl.load(s_ptr + s + k)
        total = tl.dot(a, (b * scale[:, None]).to(a.dtype), total)
    tl.store(c_ptr + i[:, None] * N + i[None, :], total)


def arguments(k, step=32):
    return data("f2", 64, k), data("f2", k, 64), data("f2", k), np.zeros((64, 64), "f4"), 64, k, step


@pytest.mark.parametrize("arch", [90, 80])
@pytest.mark.parametrize("trips", [2, 3, 4, 5])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_results(check, trips, stages, arch):
    check(scaled, *arguments(32 * trips), stages=stages, arch=arch, tolerance=0.0)


def test_they_have_a_slot_for_each_iteration():
    made = {trips: emulator.llvm_of(module_of(scaled, arguments(32 * trips))[0], num_stages=4) for trips in (2, 3, 5)}
    (two, _), (three, _), (five, _) = made.values()
    copies = [len(re.findall(r"cp\.async\.c[ag]", text)) for text in (two, three, five)]
    assert copies[0] * 3 == copies[1] * 2 and copies[2] * 3 == copies[1] * 4, "five: three in front, one in the loop"
    shared = {trips: metadata["shared"] for trips, (_, metadata) in made.items()}
    assert shared[3] - shared[2] == shared[5] - shared[3], "slots: 2, 3, 4"
