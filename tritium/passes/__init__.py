"""Passes: pure functions from module to module, and the tuple that says in which order they run.

    from tritium import passes
    module = passes.run(module, (*passes.CLEANUP, passes.legalize(facts), passes.dce))
"""

from __future__ import annotations

from .. import knobs
from ..ir.verify import name_of, verify
from .accumulate import accumulate
from .dce import dce
from .inline_calls import has_tiles, inline_calls
from .legalize import TargetInfo, is_legal, legalize
from .licm import licm
from .promise_arguments import promise_arguments
from .reduce_early import reduce_early
from .simplify import simplify
from .sink_stores import sink_stores

# What every target begins with. After a pass that writes new code, as `legalize` does, `dce` takes what it left over.
CLEANUP = (
    simplify,       # fold, cancel, canonical forms
    licm,           # out of the loop what the loop does not change
    accumulate,     # dot(a, b, 0) + c -> dot(a, b, c)
    dce,            # nothing that nobody reads
)

# Every pass that needs no target; `legalize` makes one for what a target has.
PASSES = (accumulate, dce, inline_calls, licm, promise_arguments, reduce_early, simplify, sink_stores)


def run(module, pipeline, watch=None):
    """The whole pass manager: each pass in turn; `watch(pass, before, after)` sees every step.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: i32) {\\n  %0 = add %x, %x : i32\\n}")
    >>> print(run(m, CLEANUP), end="")
    kernel @f(%x: i32) {
    }
    """
    for step in pipeline:
        after = step(module)
        if knobs.verify and after is not module:
            verify(after, made_by=step)
        if watch:
            watch(step, module, after)
        module = after
    return module


__all__ = [
    "CLEANUP", "PASSES", "TargetInfo", "accumulate", "dce", "has_tiles", "inline_calls", "is_legal", "legalize", "licm",
    "name_of", "promise_arguments", "reduce_early", "run", "simplify", "sink_stores",
]  # fmt: skip
