"""Matrix instructions of AMD GPUs."""

from __future__ import annotations

from ...gpu.target import NO_MMA

LOWER = {}


def instructions(arch: str):
    """The matrix instructions of an architecture."""
    return NO_MMA
