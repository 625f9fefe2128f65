"""Chains of dots outside of loops, whose operands several dots read, against the interpreter."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.samples import data
from tests.backends.gpu.test_language import module_of
from tritium.insight import emulator

pytestmark = pytest.mark.sampled


@triton.jit
def gradients(q_ptr, k_ptr, g_ptr, dq_ptr, dk_ptr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    """A masked product, and the gradients of both its operands: each tile is read by several dots, also transposed."""
    i, k = tl.arange(0, N), tl.arange(0, K)
    at = i[:, None] * K + k[None, :]
    q, x, g = tl.load(q_ptr + at), tl.load(k_ptr + at), tl.load(g_ptr + at)
    s = tl.where(i[:, None] >= i[None, :], tl.dot(q, tl.trans(x), input_precision=PRECISION), 0).to(q.dtype)
    ds = tl.where(i[:, None] >= i[None, :], tl.dot(g, tl.trans(x), input_precision=PRECISION), 0).to(q.dtype)
    dq = tl.dot(ds, x, input_precision=PRECISION)
    dk = tl.dot(tl.trans(ds), q, input_precision=PRECISION)
    dk = tl.dot(tl.trans(s), g, dk, input_precision=PRECISION)
    tl.store(dq_ptr + at, dq)
    tl.store(dk_ptr + at, dk + tl.dot(ds, g, input_precision=PRECISION))


def of_gradients(dtype, n=64, k=64, precision="tf32"):
    tiles = [data(dtype, n, k) for _ in range(3)]
    return *tiles, *(np.zeros((n, k), "f4") for _ in range(2)), n, k, precision


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize(("dtype", "precision"), [("f2", "tf32"), ("f4", "ieee")])
def test_operands_that_several_dots_read(check, dtype, precision, warps):
    check(gradients, *of_gradients(dtype, 64, 64 if dtype == "f2" else 16, precision), warps=warps, tolerance=1e-2)


@pytest.mark.parametrize("arch", [90, 80])
def test_on_other_instructions(check, arch):
    check(gradients, *of_gradients("f2", 128, 32), arch=arch, tolerance=1e-2)


def test_they_are_written_once():
    """Six dots: the first writes q and k, the others g, ds and s. As a lhs ds stays in registers, so two dots write
    nothing."""
    text, _ = emulator.llvm_of(module_of(gradients, of_gradients("f2"))[0], 90)
    fences, barriers = text.count("fence.proxy.async"), len(re.findall(r"call void @llvm.nvvm.barrier", text))
    assert text.count("wgmma.commit_group") == 6 and fences == 4
    assert barriers == fences + 4, "those of the dots, and two for each conversion of a result"
