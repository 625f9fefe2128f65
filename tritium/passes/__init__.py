"""Passes: pure functions from module to module, and the tuple that says in which order they run.

    from tritium import passes
    module = passes.run(module, (*passes.CLEANUP, passes.legalize(facts), passes.dce))
"""

from __future__ import annotations

import os
import sys

from .. import knobs
from ..ir.verify import name_of, verify
from .accumulate import accumulate
from .apply_hints import apply_hints
from .apply_ranges import apply_ranges
from .dce import dce
from .expand_ptx import expand_ptx
from .inline_calls import has_tiles, inline_calls
from .instrument import instrument
from .legalize import TargetInfo, is_legal, legalize
from .licm import licm
from .promise_arguments import promise_arguments
from .reduce_early import reduce_early
from .simplify import simplify
from .sink_stores import sink_stores

# What every target begins with. After a pass that writes new code, as `legalize` does, `dce` takes what it left over.
CLEANUP = (
    apply_hints,    # hints written as statements count for their values
    simplify,       # fold, cancel, canonical forms
    licm,           # out of the loop what the loop does not change
    accumulate,     # dot(a, b, 0) + c -> dot(a, b, c)
    dce,            # nothing that nobody reads
)

# Every pass that needs no target; `legalize` makes one for what a target has.
PASSES = (accumulate, apply_hints, apply_ranges, dce, expand_ptx, inline_calls, instrument, licm, promise_arguments,
          reduce_early, simplify, sink_stores)


def run(module, pipeline, watch=None):
    """The whole pass manager: each pass in turn; `watch(pass, before, after)` sees every step that is kept.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: i32) {\\n  %0 = add %x, %x : i32\\n}")
    >>> print(run(m, CLEANUP), end="")
    kernel @f(%x: i32) {
    }
    """
    checked, idle = knobs.verify, set()  # the passes that left the module as it is now
    for step in pipeline:
        if isinstance(step, first_that):
            module, idle = step(module, watch), set()
            continue
        after = module if step in idle else step(module)
        if after is module:
            idle.add(step)
        else:
            idle = set()
            if checked:
                verify(after, made_by=step)
        if watch:
            watch(step, module, after)
        module = after
    return module


def dumping(name):
    """With MLIR_ENABLE_DUMP=1, or set to the kernel's name, a `watch` that prints what each pass changed; else None."""
    wanted = os.environ.get("MLIR_ENABLE_DUMP", "0")
    if wanted in ("", "0") or wanted not in ("1", name):
        return None

    def show(step, before, after):
        title = f"// {name}: after {name_of(step)}"
        print(title + " (unchanged)" if after is before else f"{title}\n{after}", file=sys.stderr)

    return show


class first_that:
    """A step of a pipeline: the first of several pipelines whose result satisfies a condition, else the last.

    `alternatives(module)` gives the pipelines. One is passed over as soon as a pass in it that `must_change` the module
    does not. Each begins with the same module.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module("kernel @f(%x: i32) {\\n  %0 = add %x, %x : i32\\n}")
    >>> is_empty = lambda module: not module.body.ops
    >>> run(m, (first_that(is_empty, lambda module: ((licm,), (must_change(dce),), ())),)).body.ops
    ()
    """

    def __init__(self, holds, alternatives):
        self.holds, self.alternatives = holds, alternatives

    def __call__(self, module, watch=None):
        """The module after the pipeline that was chosen; `watch` sees the steps of this one only."""
        made, seen = module, []
        for pipeline in self.alternatives(module):
            try:
                made, seen = _recorded(module, pipeline) if watch else (run(module, pipeline), [])
            except Unchanged:
                continue
            if self.holds(made):
                break
        if watch:
            for step in seen:
                watch(*step)
        return made


def _recorded(module, pipeline):
    """The module after a pipeline, and what a `watch` is told of its steps."""
    steps = []
    return run(module, pipeline, lambda *step: steps.append(step)), steps


class Unchanged(Exception):
    """Raised by a pass that `must_change` a module and did not."""


class must_change:
    """A pass of an alternative of `first_that` without which the alternative makes no sense."""

    def __init__(self, step):
        self.step, self.pass_name = step, name_of(step)

    def __call__(self, module):
        made = self.step(module)
        if made is module:
            raise Unchanged(self.pass_name)
        return made


__all__ = [
    "CLEANUP",
    "PASSES",
    "TargetInfo",
    "Unchanged",
    "accumulate",
    "apply_hints",
    "apply_ranges",
    "dce",
    "dumping",
    "expand_ptx",
    "first_that",
    "has_tiles",
    "inline_calls",
    "instrument",
    "is_legal",
    "legalize",
    "licm",
    "must_change",
    "name_of",
    "promise_arguments",
    "reduce_early",
    "run",
    "simplify",
    "sink_stores",
]  # fmt: skip
