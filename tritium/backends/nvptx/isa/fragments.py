"""Which lanes and registers of NVIDIA's matrix instructions hold which elements: layouts of operands and results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...gpu.layout.linear import Layout, log2, product


def accumulator(shape: Sequence[int], warps_m: int, warps_n: int, rows: int = 16) -> Layout:
    """Where mma.sync (rows=16) and wgmma (rows=64, four warps stacked) keep the f32 result of a 2-D dot.

    Registers walk a pair of columns, then the rows eight below, then the tile's repeats; lanes hold 2x4 columns by 8
    rows.
    """
    m, n = shape[-2:]
    row, col = (lambda r: r * n), (lambda c: c)
    reg = [col(1), row(8)]
    lane = [col(2), col(4), row(1), row(2), row(4)]
    warp, next_row, next_col = [], 16, 8
    if rows == 64:
        warp += [row(16), row(32)]
        next_row, next_col = 64, n // warps_n
        reg += _powers(col, 8, next_col)
    for _ in range(log2(warps_m) - (2 if rows == 64 else 0)):
        warp.append(row(next_row) if next_row < m else 0)
        next_row *= 2
    for _ in range(log2(warps_n)):
        warp.append(col(next_col) if next_col < n else 0)
        next_col *= 2
    reg += _powers(col, next_col, n) + _powers(row, next_row, m)
    batch = [1 << k for k in range(log2(m * n), log2(product(shape)))]
    clip = lambda xs: tuple(x if x < product(shape) else 0 for x in xs)
    return Layout(tuple(shape), tuple(reg + batch), clip(lane), clip(warp))


def operand(shape: Sequence[int], bits: int, warps_m: int, warps_n: int, which: str) -> Layout:
    """Where mma.sync m16n8 wants operand "a" ([M, K]) or "b" ([K, N]) of `bits` wide elements: K in 32-byte steps."""
    rows, cols = shape[-2:]
    per_word = 32 // bits
    k_step = (lambda k: k) if which == "a" else (lambda k: k * cols)
    o_step = (lambda o: o * cols) if which == "a" else (lambda o: o)
    outer, depth = (rows, cols) if which == "a" else (cols, rows)
    reg = _powers(k_step, 1, per_word)
    if which == "a":
        reg += [o_step(8)]
    reg += [k_step(4 * per_word)]
    lane = [k_step(per_word), k_step(2 * per_word), o_step(1), o_step(2), o_step(4)]
    first = 16 if which == "a" else 8
    mine, others = (warps_m, warps_n) if which == "a" else (warps_n, warps_m)
    own = []
    for _ in range(log2(mine)):
        own.append(o_step(first) if first < outer else 0)
        first *= 2
    spare = [0] * log2(others)
    warp = own + spare if which == "a" else spare + own
    reg += _powers(k_step, 8 * per_word, depth) + _powers(o_step, first, outer)
    batch = [1 << k for k in range(log2(rows * cols), log2(product(shape)))]
    return Layout(tuple(shape), tuple(reg + batch), tuple(lane), tuple(warp))


def _powers(step: Callable[[int], int], start: int, stop: int) -> list[int]:
    out = []
    while start < stop:
        out.append(step(start))
        start *= 2
    return out
