"""Elementwise ops with an instruction of their own on AMD GPUs."""

from __future__ import annotations

NATIVE = {}


def float_to_int(g, x, to):
    """Saturating; NaN to 0."""
    out = f"i{to.bits}"
    return g.w.intrinsic("fptosi.sat" if to.signed else "fptoui.sat", out, x, overload=(out, x.type))
