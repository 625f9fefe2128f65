"""Atomic updates of one element: where the threads of a program meet around them."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.samples import data
from tritium.backends.compiler import GPUTarget
from tritium.compiler import ASTSource


@triton.jit
def sums_of_channels(x, sums, squares, o, C, N: tl.constexpr):
    n = tl.arange(0, N)
    for c in range(C):
        v = tl.load(x + c * N + n)
        tl.atomic_add(sums + c, tl.sum(v))
        tl.atomic_add(squares + c, tl.sum(v * v))
    tl.store(o + n, tl.load(sums + C - 1) + n)


@pytest.mark.parametrize("warps", [1, 4])
def test_updates_behind_reductions(check, warps):
    args = data("f4", 3, 256), np.ones(3, "f4"), np.zeros(3, "f4"), np.zeros(256, "f4")
    check(sums_of_channels, *args, 3, 256, warps=warps)


def test_threads_meet_only_in_reductions_before_updates():
    """Of two updates in an iteration the first is of a tensor that is loaded, too: a barrier is behind it."""
    signature = dict.fromkeys(("x", "sums", "squares", "o"), "*fp32") | {"C": "i32"}
    made = triton.compile(ASTSource(sums_of_channels, signature, {"N": 256}), target=GPUTarget("cuda", 90, 32))
    assert made.asm["ptx"].count("bar.sync") == 3
