"""The modules that write what launchers have in common: imported to compile a part, not to load one."""

from __future__ import annotations

from ..llvm import notation, structs
from . import fast_paths, guards, launcher, preconditions, wrappers

__all__ = ["WRITERS"]

WRITERS = (notation, structs, guards, launcher, fast_paths, wrappers, preconditions)
