"""Tile IR with layouts to LLVM, one file for each family of ops; `LOWER` has them all."""

from . import async_copy, calls, clusters, control, convert, dot, memory, reduce, scan, shape, sort, warp_roles
from .function import LOWER, lower_kernel

FAMILIES = (async_copy, calls, clusters, control, convert, dot, memory, reduce, scan, shape, sort, warp_roles)

__all__ = ["FAMILIES", "LOWER", "lower_kernel"]
