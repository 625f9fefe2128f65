"""Where frameworks look for Triton's native library."""

from tritium._C import libtriton

__all__ = ["libtriton"]
