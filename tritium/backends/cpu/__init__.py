"""Native CPUs: strip loops over tiles, on all cores."""

from __future__ import annotations

from ... import passes
from .. import Backend
from .compile import assembly_view, fingerprint, llir, obj

BACKEND = Backend(
    name="cpu",
    passes=passes.CLEANUP,
    stages=(("llir", llir), ("obj", obj)),
    options={"default_dot_input_precision": "ieee"},
    fingerprint=fingerprint,
    views={"asm": assembly_view},
)
