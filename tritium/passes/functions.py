"""How passes that look at one body treat the functions of a module."""

from __future__ import annotations

import functools


def each_function(run):
    """Decorator: a pass over one body, applied to the kernel and to each function that it calls.

    >>> from tritium.ir.text import parse_module
    >>> @each_function
    ... def count(module):
    ...     print(module.name, len(module.body.ops))
    ...     return module
    >>> _ = count(parse_module("kernel @k() { call {callee=\\"f\\"} }  function @f() { yield }"))
    k 1
    f 1
    """
    @functools.wraps(run)
    def run_on_each(module):
        after = run(module)
        return after.replace(functions=[run(f) for f in after.functions]) if after.functions else after

    return run_on_each
