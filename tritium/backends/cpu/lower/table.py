"""Who lowers which op on the CPU.

    @pulled(ops.select)     fn(lo, op, idx) -> the chunk of the result at `idx` (a list of chunks for several results)
    @step(ops.store)        fn(lo, op): done where it stands, with loops of its own

A pulled op costs nothing where it stands: its chunks are computed inside the loops of whoever wants them. Ops on
scalars are pulled where they stand. An op in neither table cannot be compiled for the CPU.
"""

from __future__ import annotations

from typing import Any

from .... import ops
from ....errors import CompilationError
from ....ir import types as T

__all__ = ["PULL", "STEP", "is_lazy", "lane_by_lane", "pulled", "puller", "step", "stepper"]

PULL: dict = {}
STEP: dict = {}


def pulled(*kinds):
    """Register how chunks of an op's result are computed."""
    def register(fn):
        PULL.update(dict.fromkeys(kinds, fn))
        return fn
    return register


def step(*kinds):
    """Register how an op is done where it stands."""
    def register(fn):
        STEP.update(dict.fromkeys(kinds, fn))
        return fn
    return register


def puller(kind) -> Any:
    """The function that computes chunks of ops of this kind, or None."""
    return PULL.get(kind) or (PULL.get("row") if kind.row else None)


def stepper(kind):
    """The function that does ops of this kind where they stand."""
    fn = STEP.get(kind)
    if fn is None:
        raise CompilationError(None, None, f"op {kind.name} has no lowering for the cpu backend")
    return fn


def is_lazy(op) -> bool:
    """Whether a tile op waits until somebody wants its chunks."""
    if puller(op.kind) is None or not op.types or all(type(t) is not T.Tile for t in op.types):
        return False
    if op.kind is ops.load:
        return not op.attrs["volatile"]
    if op.kind is ops.map_:
        return op.attrs["pack"] == 1 and lane_by_lane(op.regions[0])
    return True


def lane_by_lane(block) -> bool:
    """Whether a region of scalars can be evaluated on all lanes of a chunk at once: no loops, no effects."""
    for op in block.ops:
        if op.kind in (ops.if_, ops.rare):
            if not all(map(lane_by_lane, op.regions)):
                return False
        elif not (op.kind.elementwise or op.kind.terminator or op.kind is ops.constant or op.kind is ops.hint):
            return False
    return True
