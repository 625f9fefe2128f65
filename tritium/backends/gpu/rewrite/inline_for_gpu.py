"""Put functions in place of their calls where a GPU had better not call: registers of tiles, and tensor cores.

Tensor cores work while a thread goes on, which the assembler gives up in code that calls.
"""

from __future__ import annotations

from .... import ops
from ....ir.core import walk
from ....passes.inline_calls import has_tiles, inline_calls


def inline_for_gpu(module):
    """The module with only those calls that go from code without dots to functions of scalars without dots."""
    if not module.functions:
        return module
    module = inline_calls(module, lambda function: has_tiles(function) or _multiplies(function))
    return inline_calls(module) if _multiplies(module) else module


def _multiplies(module):
    return any(op.kind is ops.dot for op in walk(module.body))
