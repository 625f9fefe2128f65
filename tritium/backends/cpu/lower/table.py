"""The CPU's lowering table: each op is evaluated lazily by chunks, or is a statement.

    @pulled(ops.select)     fn(lo, op, idx) -> the chunk of the result at `idx` (a list of chunks for several results)
    @statement(ops.store)   fn(lo, op) lowers the op in program order, with its own loops

The loops of a statement visit every element of its operands once, in chunks. If not, it says what they visit:
"elements", one by one, so costly operands are computed by chunks before; or "some", perhaps more than once.

A pulled tile op generates no code in place: each loop nest that uses its result computes the chunks it needs. Pulled
ops on scalars are evaluated in place. An op in neither table cannot be compiled for the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .... import ops
from ....errors import CompilationError
from ....ir import types as T
from ....ir.core import Block, Op
from ....ir.opdef import OpKind

Fn = TypeVar("Fn", bound="Callable[..., Any]")
PULL: dict = {}
STATEMENTS: dict = {}
_VISITS: dict = {}


def fill() -> None:
    """Import the files that fill the tables."""
    from . import atomics, calls, checks, control, dot, program, shape  # noqa: F401


def pulled(*kinds: OpKind | str) -> Callable[[Fn], Fn]:
    """Register a function that computes chunks of an op's result."""
    def register(fn: Fn) -> Fn:
        PULL.update(dict.fromkeys(kinds, fn))
        return fn
    return register


def statement(*kinds: OpKind, visits: str = "chunks") -> Callable[[Fn], Fn]:
    """Register a function that lowers an op in program order, and what its loops visit."""
    def register(fn: Fn) -> Fn:
        STATEMENTS.update(dict.fromkeys(kinds, fn))
        _VISITS.update(dict.fromkeys(kinds, visits))
        return fn
    return register


def puller(kind: OpKind) -> Any:
    """The function that computes chunks of ops of this kind, or None."""
    return PULL.get(kind) or (PULL.get("row") if kind.row else None)


def statement_of(kind: OpKind) -> Callable[..., None]:
    """The function that lowers ops of this kind in program order."""
    fn = STATEMENTS.get(kind)
    if fn is None:
        raise CompilationError(None, None, f"op {kind.name} has no lowering for the cpu backend")
    return fn


def visits(op: Op) -> str:
    """What the loops of a statement visit of its operands: "chunks", "elements" or "some"."""
    return _VISITS.get(op.kind, "chunks")


def is_lazy(op: Op) -> bool:
    """Whether a tile op is evaluated by chunks, inside the loop nests that use it."""
    if puller(op.kind) is None or not op.types or all(type(t) is not T.Tile for t in op.types):
        return False
    if op.kind is ops.load:
        return not op.attrs["volatile"]
    if op.kind is ops.map_:
        return op.attrs["pack"] == 1 and lane_by_lane(op.regions[0])
    return True


def lane_by_lane(block: Block) -> bool:
    """Whether a region of scalars can be evaluated on all lanes of a chunk at once: no loops, no effects."""
    for op in block.ops:
        pure = not op.kind.effects and (op.kind.positionwise or op.kind.cost == "free")
        if not (pure or op.kind.terminator or op.kind is ops.if_) or not all(map(lane_by_lane, op.regions)):
            return False
    return True
