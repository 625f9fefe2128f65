"""Tile IR as frameworks expect Triton's: operations to walk over, under the names their analyses know.

torch.compile finds out in this way which of its arguments a kernel reads and which it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tritium.ir.core import Block, Module, Op, Value

# Names analyses know; every other op is a value made of its operands, whatever its name.
_NAMES = {
    "if": "scf.if", "for": "scf.for", "while": "scf.while", "yield": "scf.yield", "atomic": "tt.atomic_rmw",
    "inline_asm": "tt.elementwise_inline_asm",
}  # fmt: skip
# How the regions of these end.
_ENDS = {"while": ("scf.condition", "scf.yield"), "reduce": ("tt.reduce.return",), "scan": ("tt.scan.return",)}


class Context:
    """Makes views of modules. It numbers values: results of an op have no identity of their own."""

    def __init__(self):
        self._numbers: dict[Value, int] = {}

    def number(self, value: Value) -> Number:
        """The number of a value, the same at each use."""
        return Number(self._numbers.setdefault(value, len(self._numbers)))

    def view(self, module: Module) -> ModuleView:
        """The module as a thing to walk over; analyses see more of functions that stand where they are called."""
        from tritium.passes import inline_calls

        return ModuleView(self, inline_calls(module))


class Number:
    """Anything of which only the identity matters."""

    def __init__(self, number: int):
        self._number = number

    def id(self) -> int:
        """The identity."""
        return self._number


class ModuleView:
    """One kernel."""

    def __init__(self, context: Context, module: Module):
        self._context, self._module = context, module

    def walk(self, visit: Callable[[OpView | FunctionView], Any]) -> None:
        """Visit every operation, those inside an operation before it; the function itself comes last."""
        for op in self._inside(self._module.body, ()):
            visit(op)
        visit(FunctionView(self._context, self._module))

    def _inside(self, block: Block, ends: tuple[str, ...]) -> Iterator[OpView]:
        for op in block.ops:
            names = _ENDS.get(op.kind.name, ("scf.yield",) * len(op.regions))
            for region, end in zip(op.regions, names):
                yield from self._inside(region, (end,))
            name = ends[0] if op.kind.terminator and ends else _NAMES.get(op.kind.name, f"tt.{op.kind.name}")
            yield OpView(self._context, op, name, block)

    def verify(self) -> bool:
        """Whether the module is well formed: the frontend makes no other."""
        return True

    def __str__(self) -> str:
        return str(self._module)


class BlockView(Number):
    """A list of operations with parameters; its region is known by the same number."""

    def __init__(self, context: Context, block: Block):
        super().__init__(id(block))
        self._context, self._block = context, block

    def get_num_arguments(self) -> int:
        """How many parameters it has."""
        return len(self._block.args)

    def get_argument(self, index: int) -> Number:
        """A parameter."""
        return self._context.number(self._block.args[index])

    def get_parent(self) -> Number:
        """The region that holds it."""
        return self


class OpView:
    """An operation in a block."""

    def __init__(self, context: Context, op: Op, name: str, block: Block):
        self._context, self._op, self._name, self._block = context, op, name, block

    def get_name(self) -> str:
        """Its name in Triton's dialects."""
        return self._name

    def get_num_operands(self) -> int:
        """How many values it uses."""
        return len(self._op.operands)

    def get_operand(self, index: int) -> Number:
        """A value it uses."""
        return self._context.number(self._op.operands[index])

    def get_num_results(self) -> int:
        """How many values it makes."""
        return len(self._op.types)

    def get_result(self, index: int) -> Number:
        """A value it makes."""
        return self._context.number(self._op.results[index])

    def get_num_regions(self) -> int:
        """How many regions it has."""
        return len(self._op.regions)

    def get_region(self, index: int) -> Number:
        """A region of it."""
        return BlockView(self._context, self._op.regions[index])

    def get_block(self) -> BlockView:
        """The block it stands in."""
        return BlockView(self._context, self._block)

    def get_bool_attr(self, name: str) -> bool:
        """An attribute that is a flag."""
        return bool(self._op.attrs[name])


class FunctionView:
    """The function that holds a kernel's body."""

    def __init__(self, context: Context, module: Module):
        self._context, self._module = context, module

    def get_name(self) -> str:
        """Its name in Triton's dialects."""
        return "tt.func"

    def get_num_operands(self) -> int:
        """It uses nothing."""
        return 0

    get_num_results = get_num_operands

    def get_num_regions(self) -> int:
        """It has one region, the body."""
        return 1

    def get_region(self, index: int) -> Number:
        """The body."""
        return BlockView(self._context, self._module.body)

    def get_block(self) -> None:
        """It stands nowhere."""

    def get_str_attr(self, name: str) -> str:
        """The kernel's symbol."""
        return self._module.name
