"""Kernels with one mistake each. The line at fault ends in `# BUG`; `bug(kind)` says what the sanitizer calls it."""

from . import contents, out_of_bounds, overflow, protocols, races
from .collection import BUGS

__all__ = ["BUGS", "MODULES"]

MODULES = (out_of_bounds, contents, overflow, races, protocols)
