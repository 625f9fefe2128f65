"""Layout propagation through ops that move elements, forwards and backwards.

`RESULT[kind](a, op, source)` returns the layout of the result if the leading operand has layout `source`; the default
is `source`, or the default layout of the shape if the shape changes. `OPERAND[kind](a, op, k, layout)` returns the
layout of operand k that yields the result in `layout`; the default is `layout`. `a` is the `choose.Choice`,
which provides the numbers of warps and lanes and the anchor layout of every tile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

from .... import ops
from ....ir import types as T
from ....ir.core import Op, Result, Value, op_of
from .. import ops as gpu_ops
from .axis import Runs
from .linear import Layout, axis_bits, blocked, transposing

if TYPE_CHECKING:
    from .choose import Choice


def simple(x: Value) -> TypeGuard[Op]:
    """True for an op that may be rematerialized in another layout."""
    return type(x) is Op and (x.kind.cost != "slow" or x.kind.elementwise and T.element(x.type).is_int)


def recomputes_in(x: Value, layout: Layout) -> TypeGuard[Op]:
    """True for an op that may be rematerialized in this layout: simple ones in any, a join where threads have both
    halves of a pair."""
    return simple(x) or type(x) is Op and x.kind is ops.join and 1 in layout.reg


def _top_bit(op: Op) -> int:
    """The bit of the element index that selects the half of a `cat`."""
    low, width = axis_bits(op.type.shape, op.attrs["axis"])
    return 1 << (low + width - 1)


def with_low_register(layout: Layout) -> Layout:
    """A layout whose first register bit is the tile's lowest bit, the one that `split` removes."""
    if 1 in layout.reg:
        return layout._replace(reg=(1, *(x for x in layout.reg if x != 1)))
    return blocked(layout.shape, 2, 1 << len(layout.warp), 1 << len(layout.lane))


# --- results ----------------------------------------------------------------------------------------------------------
def _packed_result(a: Choice, op: Op, source: Layout) -> Layout:
    """Neighbours that are computed together must be in one thread, also those of several short rows."""
    pack = op.attrs["pack"]
    if source.contiguous() >= pack:
        return source
    shape = source.shape if source.shape[-1] >= pack else (source.numel,)
    return blocked(shape, pack, a.warps, a.lanes).reshape(source.shape)


def _join_result(a: Choice, op: Op, source: Layout) -> Layout:
    wide = source.map(lambda x: x << 1, op.type.shape)
    return wide._replace(reg=(1, *wide.reg))


def _split_result(a: Choice, op: Op, source: Layout) -> Layout:
    inner = with_low_register(source)
    return inner._replace(reg=inner.reg[1:]).map(lambda x: x >> 1, op.types[0].shape)


def _cat_result(a: Choice, op: Op, source: Layout) -> Layout:
    bit = _top_bit(op)
    wide = source.map(lambda x: (x & (bit - 1)) | (x & -bit) << 1, op.type.shape)
    return wide._replace(reg=(*wide.reg, bit))


def _broadcast_result(a: Choice, op: Op, source: Layout) -> Layout:
    """A reduction's result, broadcast along the reduced axis, has the layout of the reduced tile. A matrix with an
    element for each thread stays where it is, if no access is to a tile of the new shape: in the layout of such tiles
    each operand would be converted, and sums along the new axis would take shuffles."""
    match op.operands[0]:
        case Op(ops.expand_dims, (Op(ops.reduce) | Result(Op(ops.reduce)) as found,), {"axis": axis}):
            made = op_of(found)
            if made.operands[0].type.shape == op.type.shape and made.attrs["axis"] % len(op.type.shape) == axis:
                return a.anchor(a.leader(made.operands))
    wide = op.type.shape
    stays = len(wide) == 3 and not a.is_rematerializable(op.operands[0]) and source.numel >= source.threads
    layout = source.spread(wide) if stays and not a.accesses.has(wide) else None
    return a.default(wide) if layout is None or layout.registers > _SPREAD else layout


_SPREAD = 64  # registers of a thread for copies of its elements, at most


RESULT = {
    ops.expand_dims: lambda a, op, source: source.reshape(op.type.shape),
    ops.reshape: lambda a, op, source: source.reshape(op.type.shape),
    ops.trans: lambda a, op, source: source.trans(op.attrs["order"]),
    ops.reduce: lambda a, op, source: source.drop(op.attrs["axis"]).dedupe(),
    ops.map_: _packed_result,
    ops.inline_asm: _packed_result,
    ops.join: _join_result,
    ops.split: _split_result,
    ops.cat: _cat_result,
    ops.broadcast: _broadcast_result,
    ops.topk: lambda a, op, source: Runs(source, op.attrs["k"]).result,
    ops.gather: lambda a, op, source: a.default(op.type.shape),
    ops.histogram: lambda a, op, source: a.default(op.type.shape),
}


# --- operands ---------------------------------------------------------------------------------------------------------
def _shape(op: Op, k: int) -> tuple[int, ...]:
    return op.operands[k].type.shape


def _reshape_operand(a: Choice, op: Op, k: int, layout: Layout | None) -> Layout:
    return layout.reshape(_shape(op, k)) if layout else a.anchor(op.operands[k])


def _join_operand(a: Choice, op: Op, k: int, layout: Layout) -> Layout:
    half = layout._replace(reg=tuple(x for x in layout.reg if x != 1))
    return half.map(lambda x: x >> 1, _shape(op, k))


def _cat_operand(a: Choice, op: Op, k: int, layout: Layout) -> Layout:
    bit = _top_bit(op)
    half = layout._replace(reg=tuple(x for x in layout.reg if x != bit))
    return half.map(lambda x: (x & (bit - 1)) | (x >> 1 & -bit), _shape(op, k))


def _anchored(a: Choice, op: Op, k: int, layout: Layout | None) -> Layout:
    """Any layout will do: the op reads the tile through shared memory or register by register."""
    return a.anchor(op.operands[k])


def _dot_operand(a: Choice, op: Op, k: int, layout: Layout) -> Layout:
    if k == 2:
        return layout
    fragments = a.mma.operands_of(op, a.warps)
    return fragments[k] if fragments else a.anchor(op.operands[k])


def _dot_shared_operand(a: Choice, op: Op, k: int, layout: Layout) -> Layout:
    assert a.mma.started is not None
    return a.mma.started(op, a.warps)[1] if k == 0 else layout


def scaled_layouts(a: Choice, op: Op) -> Any:
    """The layouts of a `dot_scaled`: result, operands, scales."""
    lhs, rhs, _, *scales = (x.type for x in op.operands)
    return a.mma.scaled(lhs, rhs, op.type, scales, op.attrs["formats"], a.warps)


def _dot_scaled_operand(a: Choice, op: Op, k: int, layout: Layout) -> Layout:
    if k == 2:
        return layout
    _, lhs, rhs, *scales = scaled_layouts(a, op)
    return (lhs, rhs, None, *scales)[k] or a.anchor(op.operands[k])


def _share_operand(a: Choice, op: Op, k: int, layout: Layout | None) -> Layout:
    """Rematerializable tiles are computed with the rows of the buffer in registers."""
    x = op.operands[k]
    if not a.is_rematerializable(x):
        return a.anchor(x)
    return transposing(x.type.shape, x.type.element.bytes, 1 - op.attrs["axis"], a.warps, a.lanes)


OPERAND = {
    ops.expand_dims: _reshape_operand,
    ops.reshape: _reshape_operand,
    ops.trans: lambda a, op, k, layout: layout.untrans(op.attrs["order"]),
    ops.broadcast: lambda a, op, k, layout: layout.squash(_shape(op, k)).dedupe(),
    ops.join: _join_operand,
    ops.cat: _cat_operand,
    ops.split: lambda a, op, k, layout: with_low_register(a.anchor(op.operands[k])),
    ops.gather: lambda a, op, k, layout: layout if k == 1 else a.anchor(op.operands[k]),
    ops.dot: _dot_operand,
    ops.assert_: lambda a, op, k, layout: a.anchor(op.operands[0]),
    ops.histogram: _anchored,
    ops.print_: _anchored,
    ops.extract: _anchored,
    ops.topk: _anchored,
    gpu_ops.dot_shared: _dot_shared_operand,
    gpu_ops.dot_scaled: _dot_scaled_operand,
    gpu_ops.share: _share_operand,
    gpu_ops.buffer_store: _anchored,
    gpu_ops.tma_store: _anchored,
    gpu_ops.cluster_all_gather: _anchored,
}
