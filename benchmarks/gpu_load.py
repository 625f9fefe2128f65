"""Loads a file of kernels for one implementation of the language, so that rivals run the same source."""

from __future__ import annotations

import types
from pathlib import Path


def kernels(module, name="gpu_kernels"):
    """The kernels of a file beside this one, with `triton` and `tl` standing for `module` and its language."""
    path = Path(__file__).with_name(f"{name}.py")
    loaded = types.ModuleType(f"{name}_{module.__name__}")
    loaded.__file__ = str(path)
    loaded.triton, loaded.tl = module, module.language
    exec(compile(path.read_text(), str(path), "exec"), loaded.__dict__)
    return loaded
