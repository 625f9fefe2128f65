"""Loops around dots with data-dependent addresses: index loads are prefetched with the tiles."""

import re

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data, rng
from tritium.insight import emulator

pytestmark = pytest.mark.sampled

FAR = 1 << 20  # a page that is nowhere near


@triton.jit
def paged(a_ptr, b_ptr, table_ptr, c_ptr, L, W, M: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
          BN: tl.constexpr):
    """A product with rows that lie on pages, as in the caches of attention; the last block may not be whole."""
    i, d = tl.arange(0, M), tl.arange(0, D)
    total = tl.zeros((M, D), tl.float32)
    for s in range(0, L, BN):
        n = s + tl.arange(0, BN)
        page = tl.load(table_ptr + n // PAGE, mask=n < L, other=0).to(tl.int64)
        row = page * PAGE + n % PAGE
        b = tl.load(b_ptr + row[:, None] * D + d[None, :], mask=(n < L)[:, None], other=0.0)
        total = tl.dot(tl.load(a_ptr + i[:, None] * W + n[None, :]), b, total)
    tl.store(c_ptr + i[:, None] * D + d[None, :], total)


SIZES = [(90, 64, 64), (90, 16, 64), (80, 16, 64)]  # architecture, rows: a warpgroup's, or what warps multiply


def page_table(count, pages, further=0):
    """So many pages of all there are, in any order; what follows in the table is poison."""
    return np.concatenate([rng.permutation(pages)[:count], np.full(further, FAR)]).astype("i4")


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize(("arch", "m", "d"), SIZES)
def test_rows_on_pages_are_prefetched(check, arch, m, d, stages):
    """The next iteration's pages are looked up while this one is at work; those of iterations that are not, never."""
    page, block = 8, 32
    for length in (0, 1, 13, 32, 33, 64, 130, 200):
        width = -(-max(length, 1) // block) * block
        args = data("f2", m, width), data("f2", 30 * page, d), page_table(-(-length // page), 30, 9)
        args = *args, np.zeros((m, d), "f4"), length, width, m, d, page, block
        check(paged, *args, arch=arch, stages=stages)
    text, _ = emulator.llvm_of(module_of(paged, args)[0], arch, num_stages=stages)
    looked_up = len(re.findall(r"ld\.global[^\"]*b32", text))
    assert "cp.async" in text and looked_up == 2 * stages  # two rows of a thread, and no other look-up


@triton.jit
def whole_pages(a_ptr, b_ptr, table_ptr, c_ptr, first, end, step, M: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
                SCALED: tl.constexpr):
    """A page in every iteration, with no mask that would keep the look-up within its table."""
    i, d, n = tl.arange(0, M), tl.arange(0, D), tl.arange(0, PAGE)
    total = tl.zeros((M, D), tl.float32)
    for s in range(first, end, step):
        page = tl.load(table_ptr + s)
        b = tl.load(b_ptr + (page * PAGE + n)[:, None] * D + d[None, :])
        a = tl.load(a_ptr + i[:, None] * PAGE + n[None, :])
        if SCALED:
            a = a * (page % 3).to(tl.float16)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + i[:, None] * D + d[None, :], total)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize(("arch", "m", "d"), SIZES)
def test_index_loads_are_predicated_on_their_iteration(check, arch, m, d, stages, scaled):
    """Also in loops that skip some, and where the page is of interest in itself."""
    page = 32
    for first, end, step in ((0, 6, 1), (0, 1, 1), (0, 0, 1), (3, 3, 2), (1, 6, 2)):
        args = data("f2", m, page), data("f2", 7 * page, d), page_table(6, 7), np.zeros((m, d), "f4")
        check(whole_pages, *args, first, end, step, m, d, page, scaled, arch=arch, stages=stages)
    module, _ = module_of(whole_pages, (*args, first, end, step, m, d, page, scaled))
    assert "cp.async" in emulator.llvm_of(module, arch, num_stages=stages)[0]


@triton.jit
def pages_counted_down(a_ptr, b_ptr, table_ptr, c_ptr, count, M: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr):
    i, d, n = tl.arange(0, M), tl.arange(0, D), tl.arange(0, PAGE)
    a = tl.load(a_ptr + i[:, None] * PAGE + n[None, :])
    total = tl.zeros((M, D), tl.float32)
    for s in range(count - 1, -1, -1):
        rows = tl.load(table_ptr + s) * PAGE + n
        total = tl.dot(a, tl.load(b_ptr + rows[:, None] * D + d[None, :]), total)
    tl.store(c_ptr + i[:, None] * D + d[None, :], total)


@triton.jit
def chained_pages(a_ptr, b_ptr, table_ptr, c_ptr, count, M: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr):
    """Every page says which is the next."""
    i, d, n = tl.arange(0, M), tl.arange(0, D), tl.arange(0, PAGE)
    a = tl.load(a_ptr + i[:, None] * PAGE + n[None, :])
    total, page = tl.zeros((M, D), tl.float32), 0
    for _ in range(count):
        rows = page * PAGE + n
        total = tl.dot(a, tl.load(b_ptr + rows[:, None] * D + d[None, :]), total)
        page = tl.load(table_ptr + page)
    tl.store(c_ptr + i[:, None] * D + d[None, :], total + page)


@triton.jit
def pages_of_pages(a_ptr, b_ptr, table_ptr, c_ptr, count, M: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr):
    """An index of an index."""
    i, d, n = tl.arange(0, M), tl.arange(0, D), tl.arange(0, PAGE)
    a = tl.load(a_ptr + i[:, None] * PAGE + n[None, :])
    total = tl.zeros((M, D), tl.float32)
    for s in range(count):
        rows = tl.load(table_ptr + tl.load(table_ptr + s)) * PAGE + n
        total = tl.dot(a, tl.load(b_ptr + rows[:, None] * D + d[None, :]), total)
    tl.store(c_ptr + i[:, None] * D + d[None, :], total)


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("arch", "m", "d"), SIZES)
@pytest.mark.parametrize("kernel", [pages_counted_down, chained_pages, pages_of_pages])
def test_other_ways_to_a_page(check, kernel, arch, m, d, stages):
    page, order = 32, rng.permutation(6).astype("i4")
    table = order
    if kernel is chained_pages:  # from page 0 through all; the last leads nowhere
        order = np.roll(order, -np.argmin(order))
        table = np.full_like(order, FAR)
        table[order[:-1]] = order[1:]
    for count in (0, 1, 2, 6):
        args = data("f2", m, page), data("f2", 6 * page, d), table, np.zeros((m, d), "f4"), count, m, d, page
        check(kernel, *args, arch=arch, stages=stages)
    assert "cp.async" in emulator.llvm_of(module_of(kernel, args)[0], arch, num_stages=stages)[0]
