"""Dots of 16-bit floats that a kernel widens before it multiplies them."""

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data
from tritium.backends.amdgcn.isa import mma
from tritium.insight import emulator


@triton.jit
def widened(a, b, c, N, M: tl.constexpr, K: tl.constexpr, HOW: tl.constexpr):
    """Loaded in a loop, one of them transposed."""
    i, k = tl.arange(0, M), tl.arange(0, K)
    total = tl.zeros((M, M), tl.float32)
    for start in range(0, N, K):
        x = tl.load(a + i[:, None] * N + (start + k)[None, :]).to(tl.float32)
        y = tl.load(b + i[:, None] * N + (start + k)[None, :]).to(tl.float32)
        total = tl.dot(x, y.T, total, input_precision=HOW)
    tl.store(c + i[:, None] * M + i[None, :], total)


def args_of(dtype, rows, depth, how):
    x, y = data(dtype, rows, 2 * depth), data(dtype, rows, 2 * depth)
    if dtype == np.float16:
        x[0, :4], y[:, :4] = 2.0**-24, 2.0**10  # subnormal
    return x, y, np.zeros((rows, rows), np.float32), 2 * depth, rows, depth, how


@pytest.mark.parametrize("arch, rows, depth", [(90, 64, 32), (80, 32, 16), (80, 32, 8), (75, 16, 32)])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_they_agree(check, dtype, arch, rows, depth):
    check(widened, *args_of(dtype, rows, depth, "tf32"), arch=arch)


@pytest.mark.parametrize("how, narrow", [("tf32", True), ("tf32x3", True), ("bf16x3", False), ("ieee", False)])
def test_the_instruction_is_that_of_16_bits(how, narrow):
    text, _ = emulator.llvm_of(module_of(widened, args_of(np.float16, 64, 32, how))[0])
    assert (".f32.f16.f16" in text) == narrow and "tf32" not in text


def test_gpus_that_take_subnormals_for_zero_widen_them():
    assert mma.instructions("gfx942").subnormals and not mma.instructions("gfx90a").subnormals
