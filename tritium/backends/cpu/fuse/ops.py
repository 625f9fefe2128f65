"""Ops of the CPU stage: loop nests, and tiles in scratch memory.

`fuse_loops`, the last pass, emits them. They do not change what a program computes: the interpreter runs loop nests as
they stand, and ignores scratch memory.
"""

# The functions of an op's class have no `self`.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

from ....ir import types as T
from ....ir.core import Block, Op, op_of, walk
from ....ir.opdef import op


@op("loop_nest", axis=None, beyond=False)
class loop_nest:
    """Run stores and reductions over tiles of one shape in one loop nest, with the ops that compute their operands.

    The loops run along rows, or, for reductions along another axis (`axis`), along the results. An operand is a mask:
    the loops may stop where it ends, or one chunk later (`beyond`), where reductions read what all later elements are.
    """

    def infer(*mask: Any, axis: int | None, beyond: bool, regions: tuple[Block, ...]):
        return tuple(y.type for y in regions[0].yields)

    def check(op) -> str | None:
        if op.operands and T.element(op.operands[0].type) is not T.i1:
            return f"the loops stop at the end of a mask, got {op.operands[0].type}"
        return None if len(op.operands) < 2 else "a loop nest stops at the end of one mask"

    def eval(m, op: Op, *mask: Any):
        return m.run(op.regions[0], ())


@op("materialize", in_place=False)
class materialize:
    """Write tiles to scratch memory, each in loops of its own; in a loop nest, one tile in the loops of the nest.

    `in_place`: only dots read the tile, before the next write to memory, so they may read it in global memory.
    """

    def infer(*tiles: Any, in_place: bool):
        return None

    def eval(m, op: Op, *tiles: Any):
        return None


@op("buffer")
class buffer:
    """The loops of the next op also write these tiles to scratch memory, as they compute them."""

    def infer(*tiles: Any):
        return None

    def eval(m, op: Op, *tiles: Any):
        return None


@op("free")
class free:
    """No later op reads these tiles: their scratch memory may be reused. Others of a block live until its end."""

    def infer(*tiles: Any):
        return None

    def eval(m, op: Op, *tiles: Any):
        return None


def is_marker(op: Op) -> bool:
    """Whether an op only says what other loops do with scratch memory."""
    return op.kind is materialize or op.kind is buffer or op.kind is free


def reads(block: Block) -> dict:
    """How often each op or parameter is read in a block and its regions; a result counts for its op."""
    counts = {}
    for inner in walk(block):
        if not is_marker(inner):
            for x in inner.operands:
                key = op_of(x)
                counts[key] = counts.get(key, 0) + 1
    return counts
