"""Tensor descriptors: a tensor in memory and the tile that is moved between it and the program."""

from __future__ import annotations

import builtins

from tritium.errors import fail
from tritium.ir import types as T

from ..types.constants import unwrap
from ..types.dtypes import block_type, check_shape, dtype, from_ir, tensor_descriptor_type, tuple_type
from ..types.limits import capability, limits
from ..types.values import constant, number, tensor, to_tensor, tuple
from .addressing import constants, indices, inside, padding, pointers, scalars, sequence
from .broadcasting import spread
from .calling import builtin
from .casting import convert
from .deferred import ops
from .memory import check_writable, choose, load_pointers, store_pointers

__all__ = ["load_tensor_descriptor", "make_tensor_descriptor", "store_tensor_descriptor", "tensor_descriptor"]

_LOAD = {"cache": "", "eviction": "", "volatile": False}
_STORE = {"cache": "", "eviction": ""}


class tensor_descriptor:
    """A tensor in memory seen tile by tile; every access is checked against its bounds.

        desc = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
        tile = desc.load([row, column])
    """

    operator_hint = "load a tile first: desc.load(offsets)"

    base: tensor
    shape: tuple
    strides: tuple
    block_shape: tuple
    padding: str
    rounding: str

    def __init__(self, base: tensor, shape, strides, block_shape, padding: str = "zero", rounding: str = ""):
        self.base = base
        self.shape, self.strides = tuple(shape), tuple(strides)
        self.block_shape = tuple(block_shape)
        self.padding, self.rounding = padding, rounding  # "zero" or "nan", "" or "tf32"

    @property
    def dtype(self) -> dtype:
        """The type of one element."""
        return from_ir(self._kind)

    @property
    def block_type(self) -> block_type:
        """The type of the tile that is moved."""
        return block_type(self.dtype, self.block_shape)

    @property
    def type(self) -> tensor_descriptor_type:
        """A `tensor_descriptor_type`."""
        return tensor_descriptor_type(self.block_type, tuple_type([x.type for x in self.shape]),
                                      tuple_type([x.type for x in self.strides]))

    @property
    def _kind(self):
        return T.element(self.base.handle.type).pointee

    def parts(self):
        """The run-time values inside, and the constants on which loads depend."""
        return (self.base, *self.shape, *self.strides, self.padding, self.rounding)

    def remade(self, parts):
        """Another descriptor of the same tile with other run-time values."""
        base, *rest, padding, rounding = parts
        rank = len(self.block_shape)
        return tensor_descriptor(base, rest[:rank], rest[rank:], self.block_shape, padding, rounding)

    def access(self, b, offsets):
        """The pointers and the mask of the tile at `offsets`."""
        starts = scalars(b, offsets, T.i32, "offsets")
        rank = len(self.block_shape)
        if len(starts) != rank:
            raise fail(AssertionError, f"expected {rank} offsets, but got {len(starts)}",
                       hint=f"give one for each axis of the tile, {self.block_shape}", argument="offsets")
        positions = indices(b, starts, self.block_shape)
        dims = builtins.tuple(self.block_shape)
        mask = inside(b, positions, self.shape, range(rank), dims)
        return pointers(b, self.base, positions, self.strides, dims), mask

    def rows(self, b, what, x_offsets, y_offset):
        """The pointers and the mask of the rows `x_offsets`, columns from `y_offset` on."""
        self._check_rows(what, x_offsets)
        shape = (x_offsets.shape[0], self.block_shape[1])
        columns, = indices(b, scalars(b, y_offset, T.i32, "y_offset"), shape[1:])
        positions = [convert(b, x_offsets, T.i64), columns]
        return pointers(b, self.base, positions, self.strides, shape), inside(b, positions, self.shape, (0, 1), shape)

    def read(self, b, where, mask):
        """What lies at these pointers, padded and rounded as the descriptor says."""
        found = load_pointers(b, where, mask, padding(b, self.padding, self._kind), _LOAD)
        return _rounded_to_tf32(b, found) if self.rounding == "tf32" else found

    def _check_rows(self, what, x_offsets):
        dims, bits = self.block_shape, self._kind.bits
        least = 32 // bits * 8
        problems = (
            (len(dims) != 2, f"descriptor {what} needs a 2-d descriptor, this has rank {len(dims)}"),
            (len(dims) == 2 and dims[0] != 1, f"descriptor {what}: the block must have 1 row, not {dims[0]}"),
            (len(x_offsets.shape) != 1, f"x offsets must be 1-d, got shape {x_offsets.shape}"),
            (x_offsets.numel < 8, f"descriptor {what} must have at least 8 rows, but got {x_offsets.numel}"),
            (len(dims) == 2 and dims[1] < least,
             f"descriptor {what} of {self.dtype} must have at least {least} columns, but got {dims[-1]}"),
            (T.element(x_offsets.handle.type) not in (T.i16, T.i32),
             f"x offsets must have dtype int16 or int32, got {x_offsets.dtype}"),
        )
        for wrong, message in problems:
            if wrong:
                raise fail(AssertionError, message)


_DROPPED = 13  # bits of a float32 mantissa that tf32 lacks
_INFINITE = 0x7F800000


def _rounded_to_tf32(b, x):
    """The float32 tile `x` rounded to 10 mantissa bits, ties to even; infinities and NaNs stay as they are."""
    def every(value):
        return spread(b, constant(b, value, T.i32), x.shape).handle

    bits = ops.bitcast(b, x.handle, to=T.i32)
    odd = ops.and_(b, ops.shr(b, bits, every(_DROPPED)), every(1))
    up = ops.add(b, bits, ops.add(b, odd, every((1 << _DROPPED - 1) - 1)))
    rounded = ops.bitcast(b, ops.and_(b, up, every(-1 << _DROPPED)), to=T.f32)
    finite = ops.ne(b, ops.and_(b, bits, every(_INFINITE)), every(_INFINITE))
    return tensor(ops.select(b, finite, rounded, x.handle))


def _check_tile(b, value, shape):
    if isinstance(unwrap(value), builtins.tuple):
        raise fail(TypeError, "the value to store is a tile, not a tuple", argument="value",
                   hint="the offsets come first: descriptor.store([row, column], tile)")
    value = to_tensor(b, value)
    if value.shape != builtins.tuple(shape):
        raise fail(AssertionError, f"the value's shape {list(value.shape)} must equal the block shape {list(shape)}: "
                   f"expected value shape {list(shape)}",
                   hint="broadcast it first with tl.broadcast_to", argument="value")
    return value


@builtin
def load_tensor_descriptor(b, desc, offsets):
    """The tile at `offsets`; outside of the tensor it is 0, or NaN if the descriptor says so.

        tile = tl.load_tensor_descriptor(desc, [row, column])        # or desc.load([row, column])
    """
    return desc.read(b, *desc.access(b, offsets))


@builtin
def store_tensor_descriptor(b, desc, offsets, value) -> None:
    """Write a tile at `offsets`; what lies outside of the tensor is dropped.

        tl.store_tensor_descriptor(desc, [row, column], tile)        # or desc.store([row, column], tile)
    """
    value = _check_tile(b, value, desc.block_shape)
    check_writable(desc.base)
    where, mask = desc.access(b, offsets)
    store_pointers(b, where, value, mask, _STORE)


@builtin
def descriptor_gather(b, desc, x_offsets, y_offset):
    """Rows `x_offsets` of the tensor, columns from `y_offset` on: one row of the result for each.

        tile = desc.gather(row_numbers, column)
    """
    return desc.read(b, *desc.rows(b, "gather", x_offsets, y_offset))


@builtin
def descriptor_scatter(b, desc, value, x_offsets, y_offset) -> None:
    """Write each row of `value` to row `x_offsets[i]` of the tensor, from column `y_offset` on.

        desc.scatter(tile, row_numbers, column)
    """
    check_writable(desc.base)
    where, mask = desc.rows(b, "scatter", x_offsets, y_offset)
    store_pointers(b, where, _check_tile(b, value, where.shape), mask, _STORE)


_SUMS = (T.u32, T.i32, T.u64, T.f32, T.f16, T.bf16)
_INTS = (T.u32, T.i32, T.u64, T.i64)
_ATOMIC = {"add": _SUMS, "min": _INTS, "max": _INTS, "and": _INTS, "or": _INTS, "xor": _INTS}


def _descriptor_atomic(how):
    def run(b, desc, offsets, value) -> None:
        allowed = _ATOMIC[how]
        if how in ("min", "max") and limits(b).narrow_extremes:
            allowed = (*allowed, T.f16, T.bf16)
        if desc._kind not in allowed:
            raise fail(AssertionError, f"Unsupported dtype {desc.dtype} for descriptor atomic_{how}",
                       hint=f"use one of {', '.join(str(from_ir(t)) for t in allowed)}")
        value = convert(b, _check_tile(b, value, desc.block_shape), desc._kind)
        check_writable(desc.base)
        where, mask = desc.access(b, offsets)
        ops.atomic(b, where.handle, value.handle, mask.handle, how=how, sem="relaxed", scope="gpu")
    run.__name__ = f"atomic_{how}"
    run.__doc__ = f"""Combine a tile into memory with an atomic `{how}` of each element; gives nothing back.

        desc.atomic_{how}([row, column], tile)
    """
    return builtin(run)


METHODS = {"load": load_tensor_descriptor, "store": store_tensor_descriptor, "gather": descriptor_gather,
           "scatter": descriptor_scatter, **{f"atomic_{how}": _descriptor_atomic(how) for how in _ATOMIC}}  # fmt: skip

for _name, _method in METHODS.items():
    setattr(tensor_descriptor, _name, _method)


@builtin
def make_tensor_descriptor(b, base, shape, strides, block_shape, padding_option="zero") -> tensor_descriptor:
    """Describe a tensor in memory, of which tiles of `block_shape` are loaded and stored.

    The last stride is the constant 1 and the tile's last axis spans at least 16 bytes. On a GPU the base must be
    16-byte aligned and the other strides multiples of 16 bytes.

        desc = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
        desc.store([0, 0], desc.load([0, 0]) * 2)
    """
    if not isinstance(base, tensor) or base.shape or type(base.handle.type) is not T.Ptr:
        raise fail(ValueError, "Expected `base` to be a pointer", argument="base")
    dims = check_shape(constants(block_shape, "block_shape"))
    shape, strides = sequence(shape), sequence(strides)
    rank = len(shape)
    if not 1 <= rank <= 5:
        raise fail(ValueError, f"Expected 1 <= ndim <= 5 but got {rank} dimensions", argument="shape")
    for name, values in (("strides", strides), ("block_shape", dims)):
        if len(values) != rank:
            raise fail(ValueError, f"Expected {rank} {name} but got {len(values)}", argument=name)
    _check_layout(base, strides, dims)
    if capability(b.target) >= 90:
        _check_alignment(base, strides)
    option = choose(padding_option, ("zero", "nan"), "Padding option", "padding_option")
    pointer = base.handle.type
    if pointer.pointee is T.i1:  # bools live in memory as bytes
        base = tensor(ops.bitcast(b, base.handle, to=T.Ptr(T.i8, pointer.const)))
    padding(b, option, base.handle.type.pointee)
    sizes, steps = [_as_scalar(b, x, T.i32) for x in shape], [_as_scalar(b, x, T.i64) for x in strides]
    if capability(b.target) >= 90:
        steps[:-1] = [_promised(b, x, base.handle.type.pointee) for x in steps[:-1]]
    if b.options.sanitized and b.target.backend == "cpu":
        _demand_alignment(b, base.handle, [x.handle for x in steps[:-1]])
    return tensor_descriptor(base, sizes, steps, dims, option)


def _demand_alignment(b, base, strides):
    """Have the sanitizer look at what a GPU asks of a descriptor."""
    ops.demand(b, ops.cast(b, base, to=T.i64), of=16, what="base")
    size = ops.constant(b, value=base.type.pointee.bytes, type=T.i64)
    for axis, stride in enumerate(strides):
        ops.demand(b, ops.mul(b, stride, size), of=16, what=f"stride of axis {axis}")


def _promised(b, stride, element):
    """A stride that is a multiple of 16 bytes, as the language demands."""
    if number(stride) is not None:
        return stride
    return tensor(ops.hint(b, stride.handle, divisible=(max(1, 16 // element.bytes),)))


def _as_scalar(b, value, kind):
    return convert(b, to_tensor(b, value), kind)


def _check_alignment(base, strides):
    """TMA takes strides that are multiples of 16 bytes; those that are known can be checked."""
    size = base.handle.type.pointee.bytes
    for stride in strides[:-1]:
        known = number(unwrap(stride))
        if known is not None and known * size % 16:
            raise fail(ValueError, f"Tensor descriptor strides must be 16-byte aligned, but got {known} * {size} = "
                       f"{known * size} bytes", hint="pad the rows of the tensor", argument="strides")


def _check_layout(base, strides, dims):
    last = unwrap(strides[-1])
    known = last.handle.data if isinstance(last, tensor) and hasattr(last.handle, "data") else number(last)
    if known is None or int(known) != 1:
        raise fail(ValueError, f"Tensor descriptor last dim must be 1 but got {last}",
                   hint="the last axis is contiguous: write 1 for its stride", argument="strides")
    size = base.handle.type.pointee.bytes
    if dims[-1] * size < 16:
        raise fail(ValueError, "Descriptor block shape must have at least 16 bytes in the last dimension, but got "
                   f"{dims[-1]} * {size} = {dims[-1] * size} bytes", hint="widen the last axis of block_shape",
                   argument="block_shape")
