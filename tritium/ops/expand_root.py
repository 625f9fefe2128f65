"""Roots over simple rows."""

from __future__ import annotations

from .expression import expands, sqrt


@expands("rsqrt")
def rsqrt(x):
    """Reciprocal square root."""
    return 1.0 / sqrt(x)
