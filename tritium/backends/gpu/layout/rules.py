"""How layouts pass through ops: one rule for each kind of op that moves elements.

`RESULT[kind](a, op, source)` is the layout of the result when the leading operand is in `source`; without a rule it is
`source` itself, or the usual layout if the shape changes. `OPERAND[kind](a, op, k, layout)` is where operand k must be
for the result to be made in `layout`; without a rule it is there as well. `a` is the assignment under way: it knows the
number of warps and the home of every tile.
"""

from __future__ import annotations

from typing import Any

from .... import ops
from ....ir import types as T
from ....ir.core import Op, Result
from .. import ops as gpu_ops
from .linear import PARTS, Layout, axis_bits, blocked, turning

_FREE = (
    ops.splat,
    ops.arange,
    ops.expand_dims,
    ops.broadcast,
    ops.cast,
    ops.bitcast,
    ops.addptr,
    ops.select,
    ops.hint,
    ops.reshape,
    ops.trans,
    gpu_ops.buffer_load,  # shared memory is read in any layout at about the same cost
)


def simple(x):
    """True for an op whose result may be made in several layouts."""
    if type(x) is not Op:
        return False
    row = x.kind.row
    return x.kind in _FREE or (row is not None and (row.cost == "cheap" or T.element(x.type).is_int))


def _top_bit(op):
    """The bit of the element index that tells the two halves of a `cat` apart."""
    low, width = axis_bits(op.type.shape, op.attrs["axis"])
    return 1 << (low + width - 1)


def with_low_register(layout):
    """A layout whose first register bit is the tile's lowest bit (what `split` takes apart)."""
    if 1 in layout.reg:
        return layout._replace(reg=(1, *(x for x in layout.reg if x != 1)))
    return blocked(layout.shape, 2, 1 << len(layout.warp))


# --- results ----------------------------------------------------------------------------------------------------------
def _reshape_result(a, op, source):
    return source.reshape(op.type.shape)


def _trans_result(a, op, source):
    return source.trans(op.attrs["order"])


def _reduce_result(a, op, source):
    return source.drop(op.attrs["axis"]).dedupe()


def _packed_result(a, op, source):
    """Neighbours that are computed together must be in one thread."""
    pack = op.attrs["pack"]
    return source if source.contiguous() >= pack else blocked(source.shape, pack, a.warps)


def _join_result(a, op, source):
    return Layout(op.type.shape, (1, *(x << 1 for x in source.reg)), *(tuple(x << 1 for x in p) for p in source[2:]))


def _split_result(a, op, source):
    inner = with_low_register(source)
    return Layout(
        op.types[0].shape, tuple(x >> 1 for x in inner.reg[1:]), *(tuple(x >> 1 for x in p) for p in inner[2:])
    )


def _cat_result(a, op, source):
    bit = _top_bit(op)
    wide = source.map(lambda x: (x & (bit - 1)) | (x & -bit) << 1, op.type.shape)
    return wide._replace(reg=(*wide.reg, bit))


def _broadcast_result(a, op, source):
    """What a reduction made, spread out again along its axis, lies where the reduced tile does."""
    match op.operands[0]:
        case Op(ops.expand_dims, (Op(ops.reduce) | Result(Op(ops.reduce)) as found,), {"axis": axis}):
            made: Any = found.op if type(found) is Result else found
            if made.operands[0].type.shape == op.type.shape and made.attrs["axis"] % len(op.type.shape) == axis:
                return a.home(a.leader(made.operands))
    return a.usual(op.type.shape)


def _usual_result(a, op, source):
    return a.usual(op.type.shape)


RESULT = {
    ops.expand_dims: _reshape_result,
    ops.reshape: _reshape_result,
    ops.trans: _trans_result,
    ops.reduce: _reduce_result,
    ops.map_: _packed_result,
    ops.inline_asm: _packed_result,
    ops.join: _join_result,
    ops.split: _split_result,
    ops.cat: _cat_result,
    ops.broadcast: _broadcast_result,
    ops.gather: _usual_result,
    ops.histogram: _usual_result,
}


# --- operands ---------------------------------------------------------------------------------------------------------
def _shape(op, k):
    return op.operands[k].type.shape


def _reshape_operand(a, op, k, layout):
    return layout.reshape(_shape(op, k)) if layout else a.home(op.operands[k])


def _trans_operand(a, op, k, layout):
    return layout.untrans(op.attrs["order"])


def _broadcast_operand(a, op, k, layout):
    return layout.squash(_shape(op, k)).dedupe()


def _join_operand(a, op, k, layout):
    halves = {p: tuple(x >> 1 for x in getattr(layout, p)) for p in PARTS}
    halves["reg"] = tuple(x >> 1 for x in layout.reg if x != 1)
    return Layout(_shape(op, k), **halves)


def _cat_operand(a, op, k, layout):
    bit = _top_bit(op)
    half = layout._replace(reg=tuple(x for x in layout.reg if x != bit))
    return half.map(lambda x: (x & (bit - 1)) | (x >> 1 & -bit), _shape(op, k))


def _split_operand(a, op, k, layout):
    return with_low_register(a.home(op.operands[k]))


def _at_home(a, op, k, layout):
    """Read through shared memory or in registers: the tile may be wherever it is."""
    return a.home(op.operands[k])


def _with_first(a, op, k, layout):
    """Every operand where the first one is."""
    return a.home(op.operands[0])


def _gather_operand(a, op, k, layout):
    return layout if k == 1 else a.home(op.operands[k])


def _dot_operand(a, op, k, layout):
    if k == 2:
        return layout
    fragments = a.fragments(*(x.type for x in op.operands), op.attrs["precision"], a.warps)
    return fragments[k] if fragments else a.home(op.operands[k])


def _dot_shared_operand(a, op, k, layout):
    return a.started(op, a.warps)[1] if k == 0 else layout


def _share_operand(a, op, k, layout):
    """What can be made anywhere is made with the buffer's rows in registers."""
    x = op.operands[k]
    if not a.cheap(x):
        return a.home(x)
    return turning(x.type.shape, x.type.element.bytes, 1 - op.attrs["axis"], a.warps)


OPERAND = {
    ops.expand_dims: _reshape_operand,
    ops.reshape: _reshape_operand,
    ops.trans: _trans_operand,
    ops.broadcast: _broadcast_operand,
    ops.join: _join_operand,
    ops.cat: _cat_operand,
    ops.split: _split_operand,
    ops.gather: _gather_operand,
    ops.dot: _dot_operand,
    ops.assert_: _with_first,
    ops.histogram: _at_home,
    ops.print_: _at_home,
    ops.extract: _at_home,
    gpu_ops.dot_shared: _dot_shared_operand,
    gpu_ops.share: _share_operand,
    gpu_ops.tma_store: _at_home,
    gpu_ops.cluster_all_gather: _at_home,
}
