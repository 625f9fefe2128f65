"""Several dots in flight at once, and across the back edge of a loop; against the interpreter."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data
from tests.backends.gpu.test_redundant_loads import ttgir_of
from tritium.insight import emulator

pytestmark = pytest.mark.sampled

ROUNDS = (0, 1, 2, 5)


@triton.jit
def rounds_of(x_ptr, y_ptr, q_ptr, k_ptr, v_ptr, N, TWO: tl.constexpr, X: tl.constexpr, Y: tl.constexpr,
              Y_FIRST: tl.constexpr, M: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Iterations of two to four dots, dependent or not, and accumulators that are scaled or not, in either order."""
    m, j, d = tl.arange(0, M), tl.arange(0, BN), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :])
    x = tl.zeros((M, D), tl.float32)
    y = tl.zeros((M, BN if Y == 1 or Y == 3 else D), tl.float32)
    for s in range(0, N, BN):
        n = s + j
        k = tl.load(k_ptr + n[None, :] * D + d[:, None])
        v = tl.load(v_ptr + n[None, :] * D + d[:, None])
        p = tl.dot(q, k) * 0.125
        if TWO:
            p = p - tl.dot(q, v) * 0.25
        p = (p * 0.125).to(q.dtype)
        if Y_FIRST:
            y = add_to(y, q, p, v, Y)
        x = tl.dot(p, tl.trans(k), x) if X == 0 else x * 0.5 + tl.dot(p, tl.trans(k))
        if not Y_FIRST:
            y = add_to(y, q, p, v, Y)
    tl.store(x_ptr + m[:, None] * D + d[None, :], x)
    if Y == 1 or Y == 3:
        tl.store(y_ptr + m[:, None] * BN + j[None, :], y)
    else:
        tl.store(y_ptr + m[:, None] * D + d[None, :], y)


@triton.jit
def add_to(y, q, p, v, Y: tl.constexpr):
    """Nothing, a product of what is loaded or one of what was computed, or half of the sum and one of both."""
    if Y == 1:
        return tl.dot(q, v, y)
    if Y == 2:
        return tl.dot(p, tl.trans(v), y)
    if Y == 3:
        return y * 0.5 + tl.dot(q, v)
    return y


@pytest.mark.parametrize("warps", [4, 8, 16])
@pytest.mark.parametrize("y_first", [0, 1])
@pytest.mark.parametrize("y", [0, 1, 2, 3])
@pytest.mark.parametrize("x", [0, 1])
@pytest.mark.parametrize("two", [0, 1])
def test_iterations_of_many_kinds(check, two, x, y, y_first, warps):
    m, block, d = 64 if warps == 4 else 128, 32, 64
    for trips, stages in ((1, 3), (2, 2), (5, 2 + y_first)):
        n = trips * block
        args = data("f2", m, d), data("f2", n, d), data("f2", n, d), n, two, x, y, y_first, m, block, d
        check(rounds_of, np.zeros((m, d), "f4"), np.zeros((m, d), "f4"), *args, warps=warps, stages=stages,
              tolerance=2e-3)  # fmt: skip


@triton.jit
def gated(a_ptr, b_ptr, c_ptr, out_ptr, K, SCALED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Two sums of products with one lhs; scaled, the second is waited for in every iteration."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x = tl.zeros((BM, BN), tl.float32)
    y = tl.zeros((BM, BN), tl.float32)
    for s in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (s + k)[None, :])
        x = tl.dot(a, tl.load(b_ptr + (s + k)[:, None] * BN + n[None, :]), x)
        c = tl.load(c_ptr + (s + k)[:, None] * BN + n[None, :])
        if SCALED:
            y = y * 0.5 + tl.dot(a, c)
        else:
            y = tl.dot(a, c, y)
    tl.store(out_ptr + m[:, None] * BN + n[None, :], x * 2 + y)


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("warps", [4, 8, 16])
@pytest.mark.parametrize("scaled", [0, 1])
def test_two_sums(check, scaled, warps, stages):
    """With a producer warp, and with the threads' own copies."""
    m, n, deep = 64, 64, 32
    for trips in ROUNDS:
        k = trips * deep
        args = data("f2", m, k), data("f2", k, n), data("f2", k, n), np.zeros((m, n), "f4"), k, scaled, m, n, deep
        check(gated, *args, warps=warps, stages=stages)


@triton.jit
def gradients(out_ptr, q_ptr, k_ptr, v_ptr, shift_ptr, N, M: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
              ROWS: tl.constexpr):
    """Gradients of attention's queries, or of its keys with 1-D loads in every iteration: two dots are issued first."""
    m, j, d = tl.arange(0, M), tl.arange(0, BN), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :])
    kept = tl.load(shift_ptr + m)
    total = tl.zeros((M, D), tl.float32)
    for s in range(0, N, BN):
        n = s + j
        k = tl.load(k_ptr + n[None, :] * D + d[:, None])
        v = tl.load(v_ptr + n[None, :] * D + d[:, None])
        shift = tl.load(shift_ptr + n)[None, :] if ROWS else kept[:, None]
        p = tl.dot(q, k) * 0.125 - shift
        p = p * (tl.dot(q, v) - shift)
        total = tl.dot((p * 0.0625).to(q.dtype), tl.trans(k), total)
    tl.store(out_ptr + m[:, None] * D + d[None, :], total)


def of_gradients(m, block, d, trips, rows):
    n = trips * block
    return (np.zeros((m, d), "f4"), data("f2", m, d), data("f2", n, d), data("f2", n, d), data("f4", max(m, n)), n, m,
            block, d, rows)  # fmt: skip


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("m", "warps"), [(64, 4), (128, 4), (128, 8), (256, 8)])
@pytest.mark.parametrize("rows", [0, 1])
def test_dots_issued_together(check, rows, m, warps, stages):
    for trips in ROUNDS:
        check(gradients, *of_gradients(m, 32, 64, trips, rows), warps=warps, stages=stages, tolerance=2e-3)


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize(("producer", "waits"), [(True, [1, 0, 0]), (False, [1, 0, 1, 0])])
def test_each_is_waited_for_at_its_first_use(producer, waits, rows):
    """The first of two while the second runs; the third not in its iteration, but behind the loop. With copies of the
    threads' own, which kernels without checks of the launcher have, all dots of the iteration before are over when the
    third begins; else nobody needs to know."""
    module, _ = module_of(gradients, of_gradients(128, 32, 64, 2, rows))
    text, metadata = emulator.llvm_of(module, num_warps=8, launch_checks=producer)
    assert bool(metadata["producer_warps"]) == producer
    assert [int(x) for x in re.findall(r"wgmma\.wait_group\.sync\.aligned (\d+)", text)] == waits


def test_results_that_find_no_registers_are_waited_for_at_once():
    """Two results and a sum would take 192 of a thread's registers, and a producer warp leaves 232."""
    text, metadata = emulator.llvm_of(module_of(gradients, of_gradients(128, 64, 64, 2, 0))[0], num_warps=4)
    waits = re.findall(r"wgmma\.wait_group\.sync\.aligned (\d+)", text)
    assert metadata["producer_warps"] and waits == ["0", "0", "1", "0"]


def test_ping_pong_of_three_dots():
    """A group signals when the first dots of its iteration are issued, and waits before its last."""
    text, _ = emulator.llvm_of(module_of(gradients, of_gradients(128, 32, 64, 2, 0))[0], num_warps=8)
    kinds = {"take": r"sync\.aligned\.count\(i32 %", "pass": r"arrive\.aligned\.count\(i32 %", "dot": r"wgmma\.commit"}
    found = re.findall("|".join(f"(?P<{name}>{pattern})" for name, pattern in kinds.items()), text)
    order = [name for row in found for name, x in zip(kinds, row) if x]
    assert order == ["take", "dot", "dot", "pass", "take", "dot", "pass"]


@triton.jit
def clipped_sums(x_ptr, y_ptr, out_ptr, N, BLOCK: tl.constexpr):
    """A dot that is waited for in every iteration."""
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for s in range(0, N, BLOCK):
        x = tl.load(x_ptr + i[:, None] * N + (s + i)[None, :])
        y = tl.load(y_ptr + (s + i)[:, None] * BLOCK + i[None, :])
        total += tl.maximum(tl.dot(x, y), 0.0)
    tl.store(out_ptr + i[:, None] * BLOCK + i[None, :], total)


def test_copies_start_before_a_dot_that_is_waited_for():
    """Also where a block is alone on its multiprocessor, as eight buffers make it: they would wait, too."""
    args = data("f2", 64, 512), data("f2", 512, 64), np.zeros((64, 64), "f4"), 512, 64
    text = ttgir_of(clipped_sums, args, num_stages=8, launch_checks=False)
    loop = text.split(" = for ")[1].split("\n  }\n")[0]
    assert loop.index("async_load") < loop.index("dot_shared")
