"""Inline calls that a GPU should not make: with tiles in registers, and in code with dots.

MMAs are asynchronous, which ptxas gives up in functions with calls.
"""

from __future__ import annotations

from .... import ops
from ....ir.core import Module
from ....passes.inline_calls import has_tiles, inline_calls


def inline_for_gpu(module: Module) -> Module:
    """Inline all calls, except calls of functions of scalars where neither caller nor callee has a dot."""
    if not module.functions:
        return module
    module = inline_calls(module, lambda function: has_tiles(function) or _multiplies(function))
    return inline_calls(module) if _multiplies(module) else module


def _multiplies(module: Module) -> bool:
    return ops.dot in module.kinds
