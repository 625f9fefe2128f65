"""Kernels that are slow for one reason each; a launch says how slow."""

import tritium as triton
import tritium.language as tl


@triton.jit
def sums_in_a_column(x_ptr, out_ptr, stride, BM: tl.constexpr, BN: tl.constexpr):
    """Sums the rows of a tile, and stores the sums down a column."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    x = tl.load(x_ptr + m[:, None] * BN + n[None, :])
    tl.store(out_ptr + m * stride, tl.sum(x, 1))


@triton.jit
def doubled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """A program does next to nothing if its block is small."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def every_other(x_ptr, out_ptr, step, BLOCK: tl.constexpr):
    """Element i of the result is element i * step."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i * step))


@triton.jit
def whole_row(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Holds a row in registers; two of them, as the row is added to the result."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    y = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + i, y / tl.sum(y, 0) + x)


@triton.jit
def transposed(x_ptr, out_ptr, N, TILE: tl.constexpr):
    """A tile goes through shared memory, in which its rows become columns."""
    m = tl.program_id(0) * TILE + tl.arange(0, TILE)
    n = tl.program_id(1) * TILE + tl.arange(0, TILE)
    tile = tl.load(x_ptr + m[:, None] * N + n[None, :])
    tl.store(out_ptr + n[:, None] * N + m[None, :], tl.trans(tile))


@triton.jit
def softmax_in_passes(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """Loads its row three times."""
    row = tl.program_id(0) * columns
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        largest = tl.maximum(largest, tl.load(x_ptr + row + start + tl.arange(0, BLOCK)))
    top = tl.max(largest, 0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        total += tl.exp(tl.load(x_ptr + row + start + tl.arange(0, BLOCK)) - top)
    below = tl.sum(total, 0)
    for start in range(0, columns, BLOCK):
        i = row + start + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.exp(tl.load(x_ptr + i) - top) / below)


@triton.jit
def sum_by_atomics(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    """Every lane adds to the same element."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.atomic_add(total_ptr + i * 0, x, mask=i < n)


@triton.jit
def sum_by_programs(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    """A program adds its block up, and makes one atomic."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), 0))


@triton.jit
def adds_a_row(x_ptr, out_ptr, row_ptr, columns, BLOCK: tl.constexpr):
    """Loads the same row in every iteration; a store comes between, which might have changed it."""
    for start in range(0, columns, BLOCK):
        i = tl.program_id(0) * columns + start + tl.arange(0, BLOCK)
        row = tl.load(row_ptr + tl.arange(0, BLOCK), volatile=True)
        tl.store(out_ptr + i, tl.load(x_ptr + i) + row)


@triton.jit
def two_sums(a_ptr, b_ptr, out_ptr, length, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Holds two sums of products, and what it adds to them."""
    at = tl.arange(0, BLOCK)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    a = tl.load(a_ptr + tl.program_id(0) * BLOCK * WIDTH + at)
    first = tl.zeros((BLOCK, WIDTH), tl.float32)
    second = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(0, length, BLOCK):
        b = tl.load(b_ptr + start * WIDTH + at)
        scores = tl.dot(a, tl.trans(b))
        weights = tl.exp(scores - tl.max(scores, 1)[:, None])
        first = tl.dot(weights.to(b.dtype), b, first)
        second = tl.dot((weights * scores).to(b.dtype), b, second)
    tl.store(out_ptr + tl.program_id(0) * BLOCK * WIDTH + at, first * second)
