"""Kernels whose accesses can be counted by hand, and launches of them."""

import numpy as np

import tritium as triton
import tritium.language as tl
from tests.insight import helpers
from tritium.insight.facts.launch import prepared
from tritium.tools.compile import known_target


@triton.jit
def columns(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    """Each lane reads the first element of a row: no two in one sector."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows * stride)
    tl.store(out_ptr + rows, x)


@triton.jit
def shifted(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Reads from one element on, which lies in no vector's place."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i + 1, mask=i + 1 < n), mask=i < n)


@triton.jit
def unmasked(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Forgets the mask."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * 2)


@triton.jit
def overlapping(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Neighbouring programs store half of their elements to the same places."""
    i = tl.program_id(0) * (BLOCK // 2) + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def row_sums(x_ptr, out_ptr, columns, stride, BLOCK: tl.constexpr):
    """One program sums one row in a loop."""
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * stride + i, mask=i < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(total, 0))


@triton.jit
def gather(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The addresses of the second load come out of the first."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index_ptr + i, mask=i < n, other=0)
    tl.store(out_ptr + i, tl.load(x_ptr + at, mask=i < n), mask=i < n)


@triton.jit
def counting(x_ptr, bins_ptr, n, BLOCK: tl.constexpr):
    """Adds to bins by atomics."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.atomic_add(bins_ptr + x, 1, mask=i < n)


@triton.jit
def through_a_table(table_ptr, out_ptr, BLOCK: tl.constexpr):
    """Loads and stores through addresses that it finds in memory."""
    at = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(at + i))
    tl.store(at + i, 7.0)
    tl.atomic_add(at + i, 1.0)


@triton.jit
def squared(x_ptr, wide_ptr, out_ptr, N: tl.constexpr):
    """A copy of a matrix in another type, and its square."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    x = tl.load(x_ptr + at)
    tl.store(wide_ptr + at, x.to(tl.float32))
    tl.store(out_ptr + at, tl.dot(x, x))


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, stride_a, stride_b, stride_c, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """One tile of a product, in a pipelined loop."""
    m = tl.program_id(0) * M + tl.arange(0, M)
    n = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * stride_a + k[None, :])
        b = tl.load(b_ptr + k[:, None] * stride_b + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * stride_c + n[None, :], total.to(c_ptr.dtype.element_ty))


def launched(kernel, grid, *args, target="cuda:80", **meta):
    """A launch, compiled."""
    return prepared(kernel, grid, args, meta, known_target(target))


def floats(*shape, dtype=np.float32):
    """Small numbers."""
    return (np.arange(int(np.prod(shape))) % 7).astype(dtype).reshape(shape)


@triton.jit
def neighbours(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Each element and the next: the second load touches the sectors of the first."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) + tl.load(x_ptr + i + 1, mask=i < n), mask=i < n)


@triton.jit
def running_sums(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """A scan that warps make together."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.cumsum(tl.load(x_ptr + i), 0))


@triton.jit
def in_order(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Sorts what its warps exchange."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.sort(tl.load(x_ptr + i)))


@triton.jit
def column_sums(x_ptr, out_ptr, rows, N: tl.constexpr, M: tl.constexpr):
    """Sums columns of tiles, with a reduction in every iteration."""
    n = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for start in range(0, rows, M):
        m = start + tl.arange(0, M)
        total += tl.sum(tl.load(x_ptr + m[:, None] * N + n[None, :]), 0)
    tl.store(out_ptr + n, total)


@triton.jit
def exact_product(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """A product that threads compute, from operands in shared memory."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    tl.store(c_ptr + m[:, None] * N + n[None, :], tl.dot(a, b, input_precision="ieee"))


@triton.jit
def scaled_rows(x_ptr, w_ptr, out_ptr, BLOCK: tl.constexpr):
    """Every program has its own row, and loads the same weights."""
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * BLOCK
    tl.store(out_ptr + row + i, tl.load(x_ptr + row + i) * tl.load(w_ptr + i))


@triton.jit
def product_unlike(a_ptr, b_ptr, c_ptr, count_ptr, M, N, K, HOW: tl.constexpr, B: tl.constexpr, BK: tl.constexpr):
    """A product by descriptors, with something that a producer warp cannot do."""
    rows, end = M, K
    if HOW == "loaded size":
        rows = tl.load(count_ptr)
    if HOW == "size of a program":
        rows = tl.program_id(0) * B + B
    if HOW == "xor":
        rows = M ^ 1
    if HOW == "quotient":
        rows = M // N * N
    if HOW == "loaded bound":
        end = tl.load(count_ptr)
    a = tl.make_tensor_descriptor(a_ptr, [rows, K], [K, 1], [B, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, B])
    i, j = tl.program_id(0) * B, tl.program_id(1) * B
    total = tl.zeros((B, B), tl.float32)
    if HOW == "early store":
        tl.store(c_ptr, 0.0)
    for k in range(0, end, BK):
        left = a.load([i, k])
        if HOW == "loaded place":
            left = a.load([tl.load(count_ptr + k), k])
        total = tl.dot(left, b.load([k, j]), total)
        if HOW == "stores":
            tl.store(a_ptr + k, 0.0)
    if HOW == "sort":
        total = tl.sort(total)
    m, n = i + tl.arange(0, B), j + tl.arange(0, B)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total)


@triton.jit
def shifted_products(out_ptr, q_ptr, k_ptr, row_ptr, L, D: tl.constexpr, B: tl.constexpr):
    """A loop that loads a row of numbers for its products."""
    n, d = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, D)
    k = tl.load(k_ptr + n[:, None] * D + d[None, :])
    total = tl.zeros((B, D), tl.float32)
    for start in range(0, L, B):
        m = start + tl.arange(0, B)
        q = tl.load(q_ptr + m[None, :] * D + d[:, None])
        s = tl.dot(k, q) - tl.load(row_ptr + m)[None, :]
        total = tl.dot(s.to(q.dtype), tl.trans(q), total)
    tl.store(out_ptr + n[:, None] * D + d[None, :], total)


@triton.jit
def by_helpers(x_ptr, out_ptr, N: tl.constexpr):
    """What it does is in another file."""
    total = helpers.square_of(x_ptr, N)
    helpers.put(out_ptr, total, N)


@triton.jit
def under_a_lock(x_ptr, lock_ptr, out_ptr, N: tl.constexpr):
    """Programs add to one row in turn."""
    i = tl.arange(0, N)
    x = tl.load(x_ptr + tl.program_id(0) * N + i)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(out_ptr + i, tl.load(out_ptr + i) + x)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def four_columns(x_ptr, y_ptr, out_ptr, stride, N: tl.constexpr):
    """Loads two columns of each of two matrices."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + i * stride)
    x += tl.load(x_ptr + i * stride + 8)
    y = tl.load(y_ptr + i * stride)
    y += tl.load(y_ptr + i * stride + 8)
    tl.store(out_ptr + i, x * y)


@triton.jit
def added_in_turn(x_ptr, w_ptr, out_ptr, lock_ptr, columns, N: tl.constexpr):
    """Adds the tiles of a product to memory, in turn with the other programs."""
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + tl.program_id(0) * N * N + at)
    for k in range(0, columns):
        y = tl.dot(x, tl.load(w_ptr + k * N * N + at))
        while tl.atomic_cas(lock_ptr + k, 0, 1) == 1:
            pass
        tl.store(out_ptr + k * N * N + at, tl.load(out_ptr + k * N * N + at) + y)
        tl.atomic_xchg(lock_ptr + k, 0)
