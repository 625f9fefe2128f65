"""Tell functions what holds of their arguments in every call: divisors, which decide how wide memory is touched.

    call %p {callee="f"}  with %p a multiple of 16      ->      function @f(%p: ptr<f32> {divisible=16})
"""

from __future__ import annotations

from .. import ops
from ..analysis.axis_info import analyze
from ..ir.builder import Builder
from ..ir.core import callees_first, walk
from ..ir.rewrite import substitute

__all__ = ["promise_arguments", "promised"]

MOST = 1 << 16  # the largest divisor worth knowing


def promise_arguments(module):
    """Propagate the divisibility of call arguments to the parameters of the called functions.

    >>> from tritium.ir.text import parse_module
    >>> m = parse_module('''kernel @k(%p: ptr<f32> {divisible=16}) { call %p {callee="f", memory=""} }
    ... function @f(%q: ptr<f32>) { yield }''')
    >>> promise_arguments(m).functions[0].args[0].attrs
    {'divisible': 16}
    """
    if not module.functions:
        return module
    known, made = {}, {}  # name of a function -> divisors of its arguments in every call so far; its new form
    for caller in (module, *reversed(callees_first(module))):  # a function after all that call it
        if caller is not module:
            caller = made[caller.name] = promised(caller, known[caller.name])
        info = analyze(caller)
        for op in walk(caller.body):
            if op.kind is ops.call:
                given = [min(info(x).divisibility[0], MOST) for x in op.operands]
                known[op.attrs["callee"]] = list(map(min, given, known.get(op.attrs["callee"], given)))
    return module.replace(functions=[made.get(function.name, function) for function in module.functions])


def promised(function, divisors):
    """A kernel or function whose arguments are multiples of these numbers."""
    if all(d <= arg.attrs.get("divisible", 1) for arg, d in zip(function.args, divisors)):
        return function
    b = Builder()
    args = [b.argument(arg.type, arg.name, **({**arg.attrs, "divisible": d} if d > 1 else arg.attrs))
            for arg, d in zip(function.args, divisors)]
    results = substitute(b, function.body, args)
    if function.body.ops and function.body.ops[-1].kind.terminator:  # a kernel may have none
        ops.yield_(b, *results)
    return function.replace(body=b.finish())
