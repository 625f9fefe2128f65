"""Functions that a kernel calls: every thread calls with its copy of the scalars, so all meet at barriers in them.

Their shared memory lies above that of their callers.
"""

from __future__ import annotations

from collections.abc import Sequence

from .... import ops
from ....ir.core import Module, Op, callees_first
from ....named_tuples import NamedTuple
from ...llvm.writer import Val, results_type, symbol, value
from .function import Lowering, llvm_type, lower


class Callee(NamedTuple):
    """A function as LLVM knows it."""

    symbol: str
    types: tuple

    @property
    def result(self) -> str:
        """The LLVM type of what it returns."""
        return results_type(self.types)


def callees(module: Module) -> dict[str, Callee]:
    """The functions of a module by name."""
    return {function.name: Callee(f"fn{k}.{symbol(function.name)}",
                                  tuple(llvm_type(y.type) for y in function.body.yields))
            for k, function in enumerate(module.functions)}


def write_functions(g: Lowering) -> None:
    """Write the functions of a kernel that is lowered already, callers first."""
    for function in reversed(callees_first(g.module)):
        inner = Lowering(function.replace(attrs=g.module.attrs), g.target)
        inner.w, inner.callees, inner.lines = g.w, g.callees, g.lines
        _write(inner, g.callees[function.name])


def _write(g: Lowering, callee: Callee) -> None:
    body = g.module.body
    types = [llvm_type(arg.type) for arg in body.args]
    parameters = [f"{t} a{k}" for k, t in enumerate(types)]
    with g.function(callee.result, callee.symbol, parameters, "nounwind noinline convergent", "internal"):
        for k, (arg, t) in enumerate(zip(body.args, types)):
            g.set(arg, [value(t, f"%a{k}")])
        g.w.ret(*(x for (x,) in map(list, g.block(body))))


@lower(ops.call)
def call(g: Lowering, op: Op, *operands: Sequence[Val]) -> tuple[list[Val], ...]:
    w, callee = g.w, g.callees[op.attrs["callee"]]
    arguments = ", ".join(x.typed for (x,) in map(list, operands))
    made = w.effect(f"call {callee.result} @{callee.symbol}({arguments})", callee.result)
    return tuple([x] for x in w.results(made, callee.types))
