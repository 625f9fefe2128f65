"""Tile IR with layouts to LLVM, one file for each family of ops; `LOWER` has what all targets share."""

from types import MappingProxyType

from . import async_copy, calls, control, convert, dot, memory, reduce, scan, shape, sort, topk
from .function import LOWER as _FOUND
from .function import lower_kernel

LOWER = MappingProxyType(_FOUND)  # a target has a table of its own: {**LOWER, **more}

__all__ = ["LOWER", "lower_kernel"]
