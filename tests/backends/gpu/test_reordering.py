"""Loops around dots with stores: loads are hoisted only above stores, and atomics, to other memory."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data, rng
from tests.backends.gpu.test_index_loads import SIZES, page_table
from tests.backends.gpu.test_loops import ARCHS
from tritium.insight import emulator
from tritium.interp.machine import interpret
from tritium.ir.preconditions import preconditions_of

pytestmark = pytest.mark.sampled


@triton.jit
def linear_attention(out_ptr, q_ptr, k_ptr, v_ptr, L, BLOCK: tl.constexpr, D: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * L * D
    t, d = tl.arange(0, BLOCK), tl.arange(0, D)
    state = tl.zeros((D, D), tl.float32)
    for start in range(0, L, BLOCK):
        rows = base + (start + t[:, None]) * D + d[None, :]
        q, k, v = tl.load(q_ptr + rows), tl.load(k_ptr + rows), tl.load(v_ptr + rows)
        s = tl.where(t[:, None] >= t[None, :], tl.dot(q, tl.trans(k)), 0.0)
        out = tl.dot(s.to(v.dtype), v) + tl.dot(q, state.to(q.dtype))
        state += tl.dot(tl.trans(k), v)
        tl.store(out_ptr + rows, out.to(out_ptr.dtype.element_ty))


def rarely(*shape):
    """Mostly zeros: products of products stay small, and exact."""
    return (rng.integers(-1, 2, shape) * (rng.random(shape) < 0.1)).astype("f2")


def compare(kernel, memory, views, *args, arch=90):
    """Run a kernel on arrays that may overlap, `views` of the same memory, and compare that with what the interpreter
    leaves there. Returns whether the kernel that is pipelined was fit for it."""
    bases = memory.copy(), memory.copy()
    (module, mine), (_, theirs) = (module_of(kernel, (*views(base), *args)) for base in bases)
    _, metadata = emulator.llvm_of(module, arch)
    assert preconditions_of(metadata).disjoint
    fit = emulator.fit(metadata, mine, (1, 1, 1))
    emulator.run(module, mine, arch=arch)
    interpret(module, theirs, (1,))
    np.testing.assert_array_equal(*bases)
    return fit


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_loads_are_hoisted_above_stores_to_other_memory(check, stages, arch):
    block, d = (64, 64) if arch == 90 else (32, 32)
    for trips in (0, 1, 2, 5):
        length, programs = block * trips, 2
        q, k, v = (rarely(programs, max(length, 1), d) for _ in range(3))
        args = np.zeros_like(q), q, k, v, length, block, d
        check(linear_attention, *args, grid=(programs,), arch=arch, stages=stages)
    text, metadata = emulator.llvm_of(module_of(linear_attention, args)[0], arch, num_stages=stages)
    assert "cp.async" in text and len(preconditions_of(metadata).disjoint[1]) == 3
    text, metadata = emulator.llvm_of(module_of(linear_attention, args)[0], arch, launch_checks=False)
    assert "cp.async" not in text and metadata["preconditions"] == {}


@triton.jit
def spread(out_ptr, old_ptr, a_ptr, b_ptr, L, SEM: tl.constexpr, KEPT: tl.constexpr, BLOCK: tl.constexpr,
           D: tl.constexpr):
    """Rows of products are added to what other programs add to as well."""
    t, d = tl.arange(0, BLOCK), tl.arange(0, D)
    b = tl.load(b_ptr + t[:, None] * D + d[None, :])
    for start in range(0, L, BLOCK):
        rows = (start + t[:, None]) * D + d[None, :]
        a = tl.load(a_ptr + tl.program_id(0) * L * D + rows)
        before = tl.atomic_add(out_ptr + rows, tl.dot(a, b), sem=SEM)
        if KEPT:
            tl.store(old_ptr + tl.program_id(0) * L * D + rows, before)


@pytest.mark.parametrize("arch", [90, 80])
@pytest.mark.parametrize("sem", ["relaxed", "acq_rel"])
def test_loads_are_hoisted_above_atomics_without_a_result(check, sem, arch):
    """Who reads the old value may know from it what others have written."""
    block, length = 64, 256
    b = rarely(block, block)
    for kept, programs in ((False, 3), (True, 1)):  # of several programs, nobody knows who comes first
        a = rarely(programs, length, block)
        args = np.zeros((length, block), "f4"), np.zeros((programs, length, block), "f4"), a, b, length, sem, kept
        check(spread, *args, block, block, grid=(programs,), arch=arch)
        text, metadata = emulator.llvm_of(module_of(spread, (*args, block, block))[0], arch)
        assert ("cp.async" in text) == (not kept) and bool(preconditions_of(metadata).disjoint) == (not kept)


@triton.jit
def sums_beside(out_ptr, sum_ptr, a_ptr, b_ptr, L, BLOCK: tl.constexpr, D: tl.constexpr):
    """Every iteration adds a product to memory, and another one to a sum that it carries."""
    t, d = tl.arange(0, BLOCK), tl.arange(0, D)
    b = tl.load(b_ptr + t[:, None] * D + d[None, :])
    total = tl.zeros((D, D), tl.float32)
    for start in range(0, L, BLOCK):
        rows = (start + t[:, None]) * D + d[None, :]
        a = tl.load(a_ptr + rows)
        total = tl.dot(tl.trans(a), b, total)
        tl.atomic_add(out_ptr + rows, tl.dot(a, b))
    tl.store(sum_ptr + d[:, None] * D + d[None, :], total)


@pytest.mark.parametrize("stages", [2, 3])
def test_sums_run_while_products_are_stored(check, stages):
    args = np.zeros((256, 64), "f4"), np.zeros((64, 64), "f4"), rarely(256, 64), rarely(64, 64), 256, 64, 64
    text, _ = emulator.llvm_of(module_of(sums_beside, args)[0], 90, num_stages=stages)
    assert text.rindex("wgmma.mma_async") < next(re.finditer(r"\bred\.|atomicrmw", text)).start()
    check(sums_beside, *args, stages=stages)


@pytest.mark.parametrize("arch", [90, 80])
@pytest.mark.parametrize("which", [0, 2])
@pytest.mark.parametrize("shift", [0, 1, -1, 32, 64, 159, -160, 160])
def test_results_that_lie_on_what_is_loaded(shift, which, arch):
    """In place, a row or a block further on or back: what an iteration stores, a later one may load."""
    length, block, d, far = 160, 32, 32, 1000

    def views(base):
        starts = [length + k * far for k in range(3)]
        return [base[start:start + length] for start in (starts[which] + shift, *starts)]

    fit = compare(linear_attention, rarely(3 * far, d), views, length, block, d, arch=arch)
    assert fit == (abs(shift) >= length)


@triton.jit
def kept_state(out_ptr, state_ptr, new_ptr, x_ptr, w_ptr, trips, M: tl.constexpr, D: tl.constexpr,
               BLOCK: tl.constexpr):
    """Every iteration loads a state, and stores the next."""
    i, d, k = tl.arange(0, M), tl.arange(0, D), tl.arange(0, BLOCK)
    at = i[:, None] * D + d[None, :]
    total = tl.zeros((M, D), tl.float32)
    for r in range(trips):
        w = tl.load(w_ptr + (r * BLOCK + k)[:, None] * D + d[None, :])
        state = tl.load(state_ptr + at)
        total = tl.dot(tl.load(x_ptr + i[:, None] * BLOCK + k[None, :]), w, total)
        total = tl.dot(state.to(tl.float16), tl.load(w_ptr + d[:, None] * D + d[None, :]), total)
        tl.store(new_ptr + at, (state + r + 1) % 4)
    tl.store(out_ptr + at, total)


@pytest.mark.parametrize(("arch", "m", "d"), SIZES)
@pytest.mark.parametrize("together", [False, True])
def test_a_state_that_is_stored_and_loaded_through_two_arguments(together, arch, m, d):
    """If it is one, every iteration must see what the last has stored."""
    block = 32
    sizes = np.array([m * d, m * d, m * d, m * block, 6 * block * d])
    ends = np.cumsum(sizes) + np.arange(5) * 4096

    def views(base):
        out, state, new, x, w = (base[end - size:end] for end, size in zip(ends, sizes))
        return out, state, state if together else new, x.astype("f2"), w.astype("f2")

    fit = compare(kept_state, data("f4", ends[-1]), views, 6, m, d, block, arch=arch)
    assert fit != together


@triton.jit
def own_state(out_ptr, state_ptr, x_ptr, w_ptr, trips, M: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    """The same through one argument."""
    i, d, k = tl.arange(0, M), tl.arange(0, D), tl.arange(0, BLOCK)
    total = tl.zeros((M, D), tl.float32)
    for r in range(trips):
        a = tl.load(x_ptr + i[:, None] * BLOCK + k[None, :])
        state = tl.load(state_ptr + k[:, None] * D + d[None, :])
        total = tl.dot(a, tl.load(w_ptr + (r * BLOCK + k)[:, None] * D + d[None, :]), total)
        total = tl.dot(a, state, total)
        tl.store(state_ptr + k[:, None] * D + d[None, :], 1 - state)
    tl.store(out_ptr + i[:, None] * D + d[None, :], total)


@pytest.mark.parametrize(("arch", "m", "d"), SIZES)
def test_loads_and_stores_through_one_argument_stay_in_order(check, arch, m, d):
    """While the rest runs ahead."""
    args = np.zeros((m, d), "f4"), data("f2", 32, d), data("f2", m, 32), data("f2", 5 * 32, d), 5, m, d, 32
    text, metadata = emulator.llvm_of(module_of(own_state, args)[0], arch)
    assert "cp.async" in text and len(preconditions_of(metadata).disjoint[1]) == 2
    check(own_state, *args, arch=arch)


@triton.jit
def stored_first(out_ptr, state_ptr, x_ptr, w_ptr, trips, M: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    """Every iteration multiplies what it has just stored."""
    i, d, k = tl.arange(0, M), tl.arange(0, D), tl.arange(0, BLOCK)
    at = i[:, None] * BLOCK + k[None, :]
    total = tl.zeros((M, D), tl.float32)
    for r in range(trips):
        tl.store(state_ptr + at, tl.load(x_ptr + r * M * BLOCK + at))
        w = tl.load(w_ptr + (r * BLOCK + k)[:, None] * D + d[None, :])
        total = tl.dot(tl.load(state_ptr + at), w, total)
    tl.store(out_ptr + i[:, None] * D + d[None, :], total)


@pytest.mark.parametrize(("arch", "m", "d"), SIZES)
def test_loads_stay_behind_stores_of_their_iteration(check, arch, m, d):
    args = np.zeros((m, d), "f4"), np.zeros((m, 32), "f2"), data("f2", 5, m, 32), data("f2", 5 * 32, d), 5, m, d, 32
    check(stored_first, *args, arch=arch)


@triton.jit
def twice(out_ptr, x_ptr, w_ptr, L, HEADS, BLOCK: tl.constexpr, D: tl.constexpr):
    """Pointers that move, in a loop within another; then a loop on its own."""
    t, d = tl.arange(0, BLOCK), tl.arange(0, D)
    w = tl.load(w_ptr + d[:, None] * D + d[None, :])
    for head in range(HEADS):
        xs = x_ptr + (head * L + t[:, None]) * D + d[None, :]
        outs = out_ptr + (head * L + t[:, None]) * D + d[None, :]
        for _ in range(0, L, BLOCK):
            tl.store(outs, tl.dot(tl.load(xs), w))
            xs += BLOCK * D
            outs += BLOCK * D
    for s in range(0, L, BLOCK):
        x = tl.load(x_ptr + (s + t[:, None]) * D + d[None, :])
        tl.store(out_ptr + (HEADS * L + s + t[:, None]) * D + d[None, :], tl.dot(x, w) + s)


@pytest.mark.parametrize("arch", [90, 80])
@pytest.mark.parametrize("shift", [None, 0, 64, -64, 128])
def test_pointers_that_move_past_stores(shift, arch):
    """In units of the result, whose rows are as long as two of what is loaded."""
    length, heads, block, d = 256, 2, 64, 64
    size = length * heads * d

    def views(base):
        start = 8 * size if shift is None else size + shift * d
        return base[start:start + 2 * size], base[size:2 * size].view("f2")[:size], base[:d * d].view("f2")[:d * d]

    memory = np.zeros(12 * size, "f4")
    memory[:2 * size].view("f2")[:] = rarely(4 * size)
    assert compare(twice, memory, views, length, heads, block, d, arch=arch) == (shift is None)


@triton.jit
def paged_results(out_ptr, a_ptr, b_ptr, table_ptr, count, M: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
                  TABLED: tl.constexpr):
    """Where pages lie nobody knows before."""
    i, d, n = tl.arange(0, M), tl.arange(0, D), tl.arange(0, PAGE)
    a = tl.load(a_ptr + i[:, None] * PAGE + n[None, :])
    for s in range(count):
        page = tl.load(table_ptr + s)
        rows = page if TABLED else s
        b = tl.load(b_ptr + (rows * PAGE + n)[:, None] * D + d[None, :])
        tl.store(out_ptr + ((s if TABLED else page) * M + i)[:, None] * D + d[None, :], tl.dot(a, b))


@pytest.mark.parametrize("tabled", [False, True])
def test_unknown_addresses_are_hoisted_above_stores_by_other_pointers(check, tabled):
    """The launcher checks that the two are not the same."""
    args = np.zeros((6, 16, 64), "f4"), data("f2", 16, 32), data("f2", 6, 32, 64), page_table(6, 6), 6, 16, 64, 32
    module, values = module_of(paged_results, (*args, tabled))
    text, metadata = emulator.llvm_of(module, 80)
    assert "cp.async" in text
    assert emulator.fit(metadata, values, (1, 1, 1))
    assert not emulator.fit(metadata, [values[2], *values[1:]], (1, 1, 1))
    check(paged_results, *args, tabled, arch=80)
