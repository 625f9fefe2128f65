"""The language of kernels: `import tritium.language as tl`."""

import importlib
import sys

from . import core, math, random, semantic, standard, target_info
from .builtins import members
from .core import *  # noqa: F403
from .random import *  # noqa: F403
from .standard import *  # noqa: F403

__all__ = [name for name in (*core.__all__, *standard.__all__, *random.__all__) if not name.startswith("_")]


def __getattr__(name: str):
    if name == "extra":  # few kernels use it, and it has a module for each vendor
        return importlib.import_module(f"{__name__}.extra")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
