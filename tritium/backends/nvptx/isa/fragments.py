"""Which lanes and registers of NVIDIA's matrix instructions hold which elements: layouts of operands and results."""

from __future__ import annotations

from collections.abc import Sequence

from ...gpu.layout.linear import Layout, powers, product, spread, spread_operand


def accumulator(shape: Sequence[int], warps_m: int, warps_n: int, rows: int = 16) -> Layout:
    """Where mma.sync (rows=16) and wgmma (rows=64, four warps stacked) keep the f32 result of a dot.

    Registers walk a pair of columns, then the rows eight below, then the tile's repeats; lanes hold 2x4 columns by 8
    rows.
    """
    m, n = shape
    stacked, wide = ([16 * n, 32 * n], n // warps_n) if rows == 64 else ([], 8)
    down, row_repeats = spread(m, n, rows, warps_m >> len(stacked))
    across, col_repeats = spread(n, 1, wide, warps_n)
    reg = (1, 8 * n, *powers(8, wide), *col_repeats, *row_repeats)
    clip = lambda xs: tuple(x if x < product(shape) else 0 for x in xs)
    return Layout(tuple(shape), reg, clip((2, 4, n, 2 * n, 4 * n)), clip((*stacked, *down, *across)))


def operand(shape: Sequence[int], bits: int, warps_m: int, warps_n: int, which: str) -> Layout:
    """Where mma.sync m16n8 wants operand "a" ([M, K]) or "b" ([K, N]) of `bits` wide elements: K in 32-byte steps."""
    rows, cols = shape
    (outer, across), (depth, along) = ((rows, cols), (cols, 1)) if which == "a" else ((cols, 1), (rows, cols))
    word, further = 32 // bits, [8 * across] if which == "a" else []
    warp, repeats = spread_operand(which, (warps_m, warps_n), outer, across, 16 if which == "a" else 8)
    reg = [along * k for k in powers(1, word)] + further + [along * k for k in (4 * word, *powers(8 * word, depth))]
    lane = along * word, along * 2 * word, across, 2 * across, 4 * across
    return Layout(tuple(shape), (*reg, *repeats), lane, tuple(warp))
