"""Loads `gpu_kernels.py` for one implementation of the language, so that rivals run the same source."""

from __future__ import annotations

import types
from pathlib import Path


def kernels(module):
    """The kernel file, with `triton` and `tl` standing for `module` and its language."""
    path = Path(__file__).with_name("gpu_kernels.py")
    loaded = types.ModuleType(f"gpu_kernels_{module.__name__}")
    loaded.__file__ = str(path)
    loaded.triton, loaded.tl = module, module.language
    exec(compile(path.read_text(), str(path), "exec"), loaded.__dict__)
    return loaded
