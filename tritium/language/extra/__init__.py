"""`tl.extra`: what only some targets have, and the library of mathematical functions."""

from . import cuda, hip, libdevice

__all__ = ["cuda", "hip", "libdevice"]
