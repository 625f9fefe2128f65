"""What NVIDIA GPUs do in one instruction."""

from __future__ import annotations

from ... import passes
from ...ir import types as T
from ...passes.legalize import BETWEEN_WIDE
from .target import NATIVE

FACTS = passes.Facts(
    rare=True,
    casts=BETWEEN_WIDE | {(T.f16, T.f32), (T.f32, T.f16), (T.bf16, T.f32), (T.f32, T.bf16)},
    rows=frozenset(NATIVE),
    # LLVM has no code for these on NVPTX, or an inexact one
    lacks=frozenset((name, t) for name in ("rem", "min_nan", "max_nan") for t in (T.f32, T.f64))
    - {("min_nan", T.f32), ("max_nan", T.f32)},
)


def pipeline(target) -> tuple:
    """The passes to the stage `ttir`."""
    return (*passes.CLEANUP, passes.legalize(FACTS), passes.dce)
