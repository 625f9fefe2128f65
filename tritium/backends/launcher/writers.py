"""What launchers have in common: the modules that write it, and the parts that few processes need.

Imported to compile a part, not to load one.
"""

from __future__ import annotations

from ..llvm import notation, structs
from . import fast_paths, guards, launcher, preconditions, wrappers
from .parts import Part

WRITERS = (notation, structs, guards, launcher, wrappers, preconditions)
PARTS = (
    Part("wrappers", wrappers.SYMBOLS, WRITERS, lambda _: launcher.further(wrappers.TEXT, {}, wrappers.FUNCTIONS),
         "written"),
    Part("fast_paths", fast_paths.SYMBOLS, (*WRITERS, fast_paths),
         lambda _: launcher.further(fast_paths.TEXT, fast_paths.TEXTS), "written"),
)
