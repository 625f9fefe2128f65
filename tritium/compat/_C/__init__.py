"""Where frameworks look for Triton's native library."""

from . import libtriton

__all__ = ["libtriton"]
