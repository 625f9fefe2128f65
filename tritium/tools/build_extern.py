"""Bindings to external device libraries.

Triton generates its libdevice module from a bitcode file with this tool. tritium writes the device math library
itself (`tritium.language.extra.libdevice`), in the language and in LLVM, so there is nothing to generate. To call a
function of your own library, write the wrapper by hand with `tl.core.extern_elementwise`.
"""

from __future__ import annotations

MESSAGE = ("tritium has no generated library bindings: tl.extra.libdevice is written by hand. For a function of your "
           "own library write a wrapper with tl.core.extern_elementwise(lib_name, lib_path, args, table, is_pure).")


class ExternLibrary:
    """Stands for a library whose bindings would be generated; making one explains the alternative.

    >>> ExternLibrary("libdevice", "path")
    Traceback (most recent call last):
    RuntimeError: tritium has no generated library bindings: ...
    """

    def __init__(self, *args, **kwargs):
        raise RuntimeError(MESSAGE)


def build(*args, **kwargs):
    """Explains the alternative.

    >>> build("llvm-dis", "src", "libdevice", "out")
    Traceback (most recent call last):
    RuntimeError: tritium has no generated library bindings: ...
    """
    raise RuntimeError(MESSAGE)


if __name__ == "__main__":
    raise SystemExit(MESSAGE)
