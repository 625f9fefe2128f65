"""Chains of dots, outside of loops and in them: what they write, wait for and fence."""

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


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), tl.float32)
    for s in range(0, K, BK):
        a = tl.load(a_ptr + i[:, None] * K + (s + k)[None, :])
        b = tl.load(b_ptr + (s + k)[:, None] * N + j[None, :])
        total = tl.dot(a * 2, b, total)  # computed: no producer warp
    tl.store(c_ptr + i[:, None] * N + j[None, :], total)


@triton.jit
def solved(a_ptr, b_ptr, c_ptr, o_ptr, N: tl.constexpr):
    """Products of products, whose operands are read again when others lie beside them."""
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a, b, c = tl.load(a_ptr + at), tl.load(b_ptr + at), tl.load(c_ptr + at)
    ba = tl.dot(b, a).to(a.dtype)
    cb = tl.dot(c, b).to(a.dtype)
    tl.store(o_ptr + at, tl.dot(cb, a) + tl.dot(c, ba) + tl.dot(ba, cb))
    tl.store(o_ptr + N * N + at, tl.trans(tl.dot(tl.trans(a), cb)))


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


def test_neighbouring_products_do_not_wait_for_each_other():
    """One warp: sixteen pieces of a result, each a sum of steps along K."""
    text, _ = emulator.llvm_of(module_of(gradients, of_gradients("f2", 32, 64))[0], 90, num_warps=1)
    made, sums, before = {}, [], None
    for line in text.splitlines():
        if found := re.match(r"\s*(%\S+) = extractvalue {.*} (%\S+), \d", line):
            made[found[1]] = found[2]
        if found := re.match(r'\s*(%\S+) = call .*"mma.sync.*\((.*)\)', line):
            sums.append(before is not None and before in {made.get(x) for x in re.findall(r"%[\w.]+", found[2])})
            before = found[1]
    assert len(sums) > 64 and not any(sums)


def test_copies_that_threads_read_are_not_fenced():
    """Fragments of mma.sync are read by threads, operands of wgmma by the tensor cores."""
    args = data("f2", 64, 256), data("f2", 256, 64), np.zeros((64, 64), "f4"), 256, 64, 64, 32
    for warps, fences in ((1, 0), (4, 1)):
        text, _ = emulator.llvm_of(module_of(product, args)[0], 90, num_warps=warps, num_stages=3)
        assert "cp.async" in text and bool(text.count("fence.proxy.async")) == fences
