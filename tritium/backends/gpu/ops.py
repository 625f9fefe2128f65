"""Ops that exist only at the GPU stage: layout conversions, and shared memory filled ahead of its use."""

from __future__ import annotations

from ...ir import types as T
from ...ir.opdef import op


@op("convert")
class convert:
    """The same tile in another layout (the op's `layout`)."""

    def infer(x):
        return x

    def eval(m, op, x):
        return x


@op("ring", attrs=("tile", "slots", "axis"))
class ring:
    """`slots` buffers in shared memory for tiles of type `tile`, rows of which lie along `axis`; gives the byte address."""

    def infer(*, tile, slots, axis):
        return T.i32


@op("async_load", attrs=("tile", "axis"), effects="write")
class async_load:
    """Start copying a tile from global memory into a buffer: operands (buffer address, pointers[, mask])."""

    def infer(buffer, pointers, mask=None, *, tile, axis):
        return None


@op("async_commit", effects="write")
class async_commit:
    """Close a group of copies."""

    def infer():
        return None


@op("async_wait", attrs=("pending",), effects="write")
class async_wait:
    """Wait until at most `pending` groups of copies are under way, then let all threads see what arrived."""

    def infer(*, pending):
        return None


@op("dot_shared", attrs=("lhs", "rhs", "a_axis", "b_axis", "precision"), effects="read")
class dot_shared:
    """Start acc + a @ b on buffers: operands (address of a, address of b, acc); attributes are their tile types and axes.

    The result may be used by further `dot_shared` at once, by anything else after `dot_wait`.
    """

    def infer(pa, pb, acc, *, lhs, rhs, a_axis, b_axis, precision):
        return acc


@op("dot_wait", attrs=("pending",), effects="read")
class dot_wait:
    """The accumulator once at most `pending` started dots are unfinished."""

    def infer(acc, *, pending):
        return acc


# What a loop's loads and dots become; the pass that makes them asks the target which dots it can start on buffers.
STAGED = (ring, async_load, async_commit, async_wait, dot_shared, dot_wait)
