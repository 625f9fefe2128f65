"""The floating-point state of the interpreter: the default one, as that of compiled kernels.

NumPy computes in the state of the thread that calls it, and the caller may have set another: to flush subnormals, or to
round differently.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys

__all__ = ["default_floats"]


@functools.cache
def _library():
    """(library, address of the default state) of the C library, or None where it has no such functions."""
    library = ctypes.CDLL(None)
    try:
        for function in (library.fegetenv, library.fesetenv):
            function.argtypes, function.restype = (ctypes.c_void_p,), ctypes.c_int
        default = ctypes.addressof(ctypes.c_char.in_dll(library, "_FE_DFL_ENV")) if sys.platform == "darwin" else -1
    except (AttributeError, ValueError):
        return None
    return library, ctypes.c_void_p(default)


@contextlib.contextmanager
def default_floats():
    """Inside the `with`, this thread rounds to nearest and keeps subnormals; afterwards it is as it was.

    >>> with default_floats():
    ...     1 / 3
    0.3333333333333333
    """
    found = _library()
    if found is None:
        yield
        return
    library, default = found
    before = ctypes.create_string_buffer(256)  # a fenv_t has 32 bytes or less
    library.fegetenv(before)
    library.fesetenv(default)
    try:
        yield
    finally:
        library.fesetenv(before)
