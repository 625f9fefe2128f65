"""Functions that a kernel calls: LLVM functions of scalars, which also take the program id and scratch memory.

The caller allocates a function's scratch for the call. A function that may fail an assertion returns a flag first, on
which its caller returns as well.
"""

from __future__ import annotations

from collections.abc import Callable

from .... import ops
from ....ir import types as T
from ....ir.core import Module, Op, callees_first, walk
from ....named_tuples import NamedTuple
from ...llvm.rows import llvm_type
from ...llvm.writer import results_type, symbol, value
from .function import Lowering
from .table import statement

# The parameters of every function before its own.
_HANDED_ON = ("i64 program", "ptr grid", "ptr arena", "ptr noalias scratch")


class Callee(NamedTuple):
    """An LLVM function: the types of its results, whether a flag precedes them, the bytes of scratch it needs."""

    symbol: str
    types: tuple
    stops: bool
    scratch: int

    @property
    def result(self) -> str:
        """The LLVM type of what it returns."""
        return results_type(self.returned)

    @property
    def returned(self) -> tuple[str, ...]:
        """The types of the flag, if there is one, and of the results."""
        return ("i1",) * self.stops + self.types


def write_functions(lo: Lowering, make: Callable[[Module], Lowering]) -> dict[str, Callee]:
    """Write the functions of `lo`'s module; `make(function)` is a lowering of one. Returns them by name."""
    callees = {}
    for function in callees_first(lo.module):
        inner = make(function.replace(attrs=lo.module.attrs))
        inner.w, inner.callees = lo.w, callees
        callees[function.name] = _write(inner, function, f"fn{len(callees)}.{symbol(function.name)}")
    return callees


def _write(lo: Lowering, function: Module, name: str) -> Callee:
    w, body = lo.w, function.body
    stops = any(op.kind is ops.assert_ or op.kind is ops.call and lo.callees[op.attrs["callee"]].stops
                for op in walk(body))
    callee = Callee(name, tuple(llvm_type(y.type) for y in body.yields), stops, 0)
    flag = [w.const("i1", False)] * stops
    lo.stop = lambda: w.ret(w.const("i1", True), *[value(t, "poison") for t in callee.types])
    parameters = [*_HANDED_ON, *[f"{llvm_type(a.type)} a{k}" for k, a in enumerate(body.args)]]
    with w.function(callee.result, name, parameters, "nounwind noinline", "internal") as taken:
        lo.program, lo.grid, lo.base, lo.scratch, *args = taken
        lo.values.update(zip(body.args, args, strict=True))
        lo.block(body, lambda: w.ret(*flag, *map(lo.scalar, body.yields)))
    return callee._replace(scratch=lo.arena.bytes)


@statement(ops.call)
def _call(lo: Lowering, op: Op) -> None:
    w, callee = lo.w, lo.callees[op.attrs["callee"]]
    buffer = lo.arena.take((callee.scratch,), T.i8) if callee.scratch else None
    scratch = lo.scratch if buffer is None else lo.address(buffer)
    made = w.call(callee.result, callee.symbol, lo.program, lo.grid, lo.base, scratch, *map(lo.scalar, op.operands))
    if buffer is not None:
        lo.arena.release(buffer)
    parts = w.results(made, callee.returned)
    if callee.stops:
        with lo.when(parts.pop(0), likely=False):
            lo.stop()
            w.block(w.label("unreachable"))
    lo.values.update(zip(op.results, parts))
