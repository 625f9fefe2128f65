"""Programs around the compiler: each module here is one command or one host-side tool."""

import importlib

# What programs reach as attributes, without an import of their own.
_MODULES = ("disasm", "mxfp", "ragged_tma", "tensor_descriptor")


def __getattr__(name: str):
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
