"""The language of kernels: `import tritium.language as tl`."""

from . import core, extra, math, random, semantic, standard, target_info
from .builtins import members
from .core import *  # noqa: F403
from .random import *  # noqa: F403
from .standard import *  # noqa: F403

__all__ = [name for name in (*core.__all__, *standard.__all__, *random.__all__) if not name.startswith("_")]
