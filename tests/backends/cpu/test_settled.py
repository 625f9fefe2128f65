"""Indices that run over several axes and are taken apart again: quotients and remainders within chunks."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.interp.eager import launch


@triton.jit
def two_axes(x, w, b, index, out, first, n, INNER: tl.constexpr, OUTER: tl.constexpr, HOW: tl.constexpr,
             BLOCK: tl.constexpr):  # fmt: skip
    i = first + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (i >= 0) & (i < n)
    if HOW == "affine":
        y = tl.load(x + i, mask) * tl.load(w + i // INNER % OUTER, mask) + tl.load(b + i % INNER, mask)
    elif HOW == "looked up":
        row = tl.load(index + i // INNER % OUTER, mask, other=0)
        y = tl.load(x + tl.where(row < 0, row + OUTER, row) * INNER + i % INNER, mask)
    elif HOW == "numbers":
        y = (i // INNER * 3 + i % INNER).to(tl.float32)
    elif HOW == "bits":
        y = ((i >> 5) * 7 + (i & 31)).to(tl.float32)
    else:
        y = tl.load(x + i % INNER * OUTER + i // INNER % OUTER, mask)
    tl.store(out + tl.where(i < 0, n - 1, i), y, mask | (i == -1))


HOW = ["affine", "looked up", "numbers", "bits", "transposed"]


@pytest.mark.parametrize("inner", [64, 48, 40, 24, 7, 1])
@pytest.mark.parametrize("how", HOW)
def test_settled(how, inner, first=0, block=256):
    rng = np.random.default_rng(0)
    outer, n = 5, 5 * inner * 7 + 3
    x, w, b = (rng.standard_normal(k).astype(np.float32) for k in (5 * inner * 8, outer, inner))
    index = rng.integers(-outer, outer, outer).astype(np.int32)
    outs = [np.zeros(n, np.float32) for _ in range(2)]
    args = lambda out: (x, w, b, index, out, first, n)
    options = dict(INNER=inner, OUTER=outer, HOW=how, BLOCK=block)
    grid = (-(-n // block) + 1,)
    launch(two_axes, grid, args(outs[0]), options)
    two_axes[grid](*args(outs[1]), **options)
    np.testing.assert_allclose(outs[1], outs[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("first", [-256, -32, -5, 3, 16])
@pytest.mark.parametrize("how", HOW)
def test_settled_from_elsewhere(how, first):
    """An index that begins below 0 rounds towards it; one that begins off a multiple meets borders inside chunks."""
    test_settled(how, 64, first)


@triton.jit
def rows_of_table(table, index, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(table + tl.load(index + i // 64) * 64 + i % 64))


def test_a_chunk_inside_a_row_is_one_access():
    table = np.random.default_rng(0).standard_normal((10, 64)).astype(np.float32)
    index = np.array([3, 9, 0, 0], np.int64)
    out = np.zeros((4, 64), np.float32)
    kernel = rows_of_table[(1,)](table, index, out, BLOCK=256)
    np.testing.assert_array_equal(out, table[index])
    assert "gather" not in kernel.asm["llir"]


@triton.jit
def sums_of_fields(x, w, sums, squares, FIELDS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
                   BLOCK: tl.constexpr):  # fmt: skip
    """Sums over the middle one of three axes; the first and last share an index, and each field has a weight."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    f = tl.arange(0, BLOCK)[None, :]
    inside = f < FIELDS
    y = tl.load(x + i % WIDTH + WIDTH * f + FIELDS * WIDTH * (i // WIDTH), inside, other=0.0)
    y *= tl.load(w + f, inside, other=0.0)
    total, of_squares = tl.sum(tl.where(inside, y, 0), 1), tl.sum(tl.where(inside, y * y, 0), 1)
    tl.store(sums + i, total[:, None])
    tl.store(squares + i, of_squares[:, None])


@pytest.mark.parametrize("fields, width", [(26, 16), (26, 64), (32, 8), (30, 12), (17, 1)])
def test_sums_across_rows_run_along_memory(fields, width):
    """The weights, which lie along the sums, do not decide how the chunks run: the fields do."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((32, fields, width), fields))
    sums, squares = (np.zeros((32, width), np.float32) for _ in range(2))
    options = dict(FIELDS=fields, WIDTH=width, ROWS=4 * width if width & width - 1 == 0 else 4, BLOCK=32)
    grid = (32 * width // options["ROWS"],)
    kernel = sums_of_fields[grid](x, w, sums, squares, **options)
    y = (x * w[:, None]).astype(np.float64)
    np.testing.assert_allclose(sums, y.sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(squares, (y * y).sum(1), rtol=1e-5, atol=1e-5)
    assert ("gather" not in kernel.asm["llir"]) == (width != 12)
