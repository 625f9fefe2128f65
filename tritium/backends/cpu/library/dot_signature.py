"""What the functions of products have in common, whatever the processor: their parameters, and how they cut ranges."""

from __future__ import annotations

from collections.abc import Sequence

from ...llvm.writer import Val, Writer

# C (M x N) gets A (M x K) @ B (K x N). Strides of rows are in elements; `panel` is scratch memory or null; C is written
# if it is `fresh`, else added to.
PARAMETERS = [*(f"ptr {p}" for p in "ABC"), *(f"i64 {p}" for p in ("M", "N", "K", "lda", "ldb", "ldc")), "ptr panel",
              "i1 fresh"]  # fmt: skip


def round_down(w: Writer, n: Val, step: int) -> Val:
    """The largest multiple of `step` up to `n`.

    >>> from tritium.backends.llvm.writer import value
    >>> round_down(Writer(), value("i64", "%n"), 1)
    '%n'
    """
    return n if step == 1 else w.binary("sub", n, w.binary("urem", n, w.const("i64", step)))


def interleaved(w: Writer, lines: Sequence[Val], columns: int) -> Val:
    """Four lines of bytes as one vector, the four bytes of each column side by side."""
    low, high = (w.shuffle(x, y, [l // 2 + columns * (l % 2) for l in range(2 * columns)])
                 for x, y in (lines[:2], lines[2:]))
    return w.shuffle(low, high, [l // 4 * 2 + l % 2 + 2 * columns * (l % 4 // 2) for l in range(4 * columns)])
