"""Tiles of addresses: what block pointers and descriptors turn into, so that memory sees plain affine accesses."""

from __future__ import annotations

import builtins

from tritium.errors import fail
from tritium.ir import types as T

from ..types.constants import unwrap
from ..types.dtypes import from_ir
from ..types.values import constant, number, tensor, to_tensor
from .broadcasting import spread
from .casting import convert
from .deferred import ops


def sequence(values):
    """A list of what the user gave as a sequence or as one value."""
    values = unwrap(values)
    return list(values) if isinstance(values, (list, builtins.tuple)) else [values]


def scalars(b, values, kind, what):
    """Integers, constant or not, as scalars of IR type `kind` (i32 or i64)."""
    return builtins.tuple(_scalar(b, value, kind, what) for value in sequence(values))


def _scalar(b, value, kind, what):
    value = unwrap(value)
    plain = number(value)
    if plain is not None and not isinstance(plain, float):
        if kind is T.i32 and not -(1 << 31) <= plain < 1 << 31:
            raise fail(AssertionError, f"{what} must fit in int32, got {plain}", argument=what)
        return constant(b, plain, kind)
    value = to_tensor(b, value)
    element = T.element(value.handle.type)
    if value.shape or type(element) is T.Ptr or not element.is_int:
        raise fail(AssertionError, f"Expected an integer scalar type in {what}, got {value.type}", argument=what)
    if kind is T.i32 and element.bits == 64:
        raise fail(AssertionError, f"{what} must be 32-bit integers, got {from_ir(element)}. Block pointers only "
                   "support 32 bit `offsets/block_shape`, add a `.to(tl.int32)` or use regular indexing for 64 bit "
                   "support. Expected a 32-bit integer; add a .to(tl.int32)",
                   hint="add a .to(tl.int32)", argument=what)
    return convert(b, value, kind)


def constants(values, what):
    """Compile-time integers as a tuple of ints."""
    out = []
    for value in sequence(values):
        plain = number(unwrap(value))
        if plain is None or isinstance(plain, float):
            raise fail(AssertionError, f"Expected a list of constant integers (`int32_t` range) in `{what}`",
                       hint="annotate the parameter it comes from with tl.constexpr", argument=what)
        out.append(int(plain))
    return builtins.tuple(out)


def indices(b, offsets, block_shape):
    """For each axis the i64 positions offset, offset + 1 ... as a 1-d tile."""
    out = []
    for offset, size in zip(offsets, block_shape):
        counted = tensor(ops.cast(b, ops.arange(b, start=0, end=size), to=T.i64))
        base = spread(b, convert(b, offset, T.i64), (size,))
        out.append(tensor(ops.add(b, base.handle, counted.handle)))
    return out


def along(b, x, axis, rank):
    """A 1-d tile laid along one axis of a shape of `rank` axes, the others being of size 1."""
    handle = x.handle
    for k in range(rank):
        if k != axis:
            handle = ops.expand_dims(b, handle, axis=k)
    return tensor(handle)


def pointers(b, base, positions, strides, shape):
    """base + sum(position * stride): a tile of pointers of `shape`."""
    total = None
    for axis, (position, stride) in enumerate(zip(positions, strides)):
        scaled = ops.mul(b, position.handle, spread(b, stride, position.shape).handle)
        part = spread(b, along(b, tensor(scaled), axis, len(shape)), shape).handle
        total = part if total is None else ops.add(b, total, part)
    return tensor(ops.addptr(b, spread(b, base, shape).handle, total))


def inside(b, positions, sizes, axes, shape):
    """The mask of positions that lie in 0 .. size - 1 along the given axes; None if no axis is checked."""
    mask = None
    for axis in axes:
        position = positions[axis].handle
        zero = spread(b, constant(b, 0, T.i64), positions[axis].shape).handle
        size = spread(b, convert(b, sizes[axis], T.i64), positions[axis].shape).handle
        within = ops.and_(b, ops.ge(b, position, zero), ops.lt(b, position, size))
        part = spread(b, along(b, tensor(within), axis, len(shape)), shape).handle
        mask = part if mask is None else ops.and_(b, mask, part)
    return None if mask is None else tensor(mask)


def padding(b, option, kind):
    """What is read outside of the bounds: a scalar, or None for the default 0."""
    if option != "nan":
        return None
    if not kind.is_float:
        raise fail(ValueError, f"Padding option `nan` is not supported for integer elements ({from_ir(kind)})",
                   hint='use padding_option="zero"', argument="padding_option")
    return constant(b, float("nan"), kind)


