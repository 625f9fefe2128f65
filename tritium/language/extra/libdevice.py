"""`tl.extra.libdevice`: mathematical functions beyond `tl.math`, for exact dtypes.

    from triton.language.extra import libdevice
    y = libdevice.pow(x, 2.5)
"""

from .library import FUNCTIONS as _functions

globals().update(_functions)
__all__ = list(_functions)
