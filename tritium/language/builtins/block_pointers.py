"""Block pointers: a window of a tensor in memory that is read and written as one tile."""

from __future__ import annotations

import builtins

from tritium.errors import fail
from tritium.ir import types as T

from ..source.function import must_use_result
from ..types.dtypes import block_type, check_shape, from_ir, pointer_type
from ..types.values import tensor, to_tensor
from .addressing import constants, indices, inside, padding, pointers, scalars, sequence
from .broadcasting import common_shape
from .calling import builtin
from .deferred import ops
from .memory import check_writable, choose, load, load_pointers, store, store_pointers

__all__ = ["advance", "block_pointer", "make_block_ptr"]


class block_pointer:
    """Points at the tile of `block_shape` that starts at `offsets` of a strided tensor. Made by `tl.make_block_ptr`."""

    __slots__ = ("base", "block_shape", "offsets", "order", "shape", "strides")
    operator_hint = "a block pointer moves with tl.advance(ptr, offsets)"

    def __init__(self, base, shape, strides, offsets, block_shape, order):
        self.base, self.shape, self.strides, self.offsets = base, shape, strides, offsets
        self.block_shape, self.order = block_shape, order

    @property
    def type(self) -> pointer_type:
        """A pointer to the type of the tile."""
        return pointer_type(block_type(from_ir(self._kind), self.block_shape), const=self._pointer.const)

    @property
    def dtype(self) -> pointer_type:
        """The same pointer type; `.element_ty.element_ty` is that of one element."""
        return self.type

    @property
    def _pointer(self):
        return T.element(self.base.handle.type)

    @property
    def _kind(self):
        return self._pointer.pointee

    def parts(self):
        """The run-time values inside."""
        return (self.base, *self.shape, *self.strides, *self.offsets)

    def remade(self, parts):
        """Another block pointer of the same tile with other run-time values."""
        base, *rest = parts
        rank = len(self.block_shape)
        shape, strides, offsets = (builtins.tuple(rest[k * rank:(k + 1) * rank]) for k in range(3))
        return block_pointer(base, shape, strides, offsets, self.block_shape, self.order)

    def moved(self, b, offsets):
        """The block pointer whose window starts `offsets` further along each axis."""
        added = [tensor(ops.add(b, old.handle, by.handle)) for old, by in zip(self.offsets, offsets)]
        return block_pointer(self.base, self.shape, self.strides, builtins.tuple(added), self.block_shape, self.order)

    def _access(self, b, boundary_check):
        axes = _checked_axes(boundary_check, len(self.block_shape))
        positions = indices(b, self.offsets, self.block_shape)
        return (pointers(b, self.base, positions, self.strides, self.block_shape),
                inside(b, positions, self.shape, axes, self.block_shape))

    def load_tile(self, b, mask, other, boundary_check, padding_option, hints):
        """What `tl.load` does with a block pointer."""
        if mask is not None or other is not None:
            raise fail(ValueError, "`mask` and `other` arguments cannot be specified for loading block pointers",
                       hint="use boundary_check= and padding_option=", argument="mask")
        option = choose(padding_option, ("", "zero", "nan"), "Padding option", "padding_option")
        fill = padding(b, option, self._kind)
        where, mask = self._access(b, boundary_check)
        return load_pointers(b, where, mask, fill if mask is not None else None, hints)

    def store_tile(self, b, value, mask, boundary_check, hints):
        """What `tl.store` does with a block pointer."""
        if mask is not None:
            raise fail(ValueError, "`mask` argument cannot be specified for storing block pointers",
                       hint="use boundary_check=", argument="mask")
        check_writable(self.base)
        value = to_tensor(b, value)
        if common_shape(value.shape, self.block_shape) != self.block_shape:
            raise fail(AssertionError, f"Block shape({list(self.block_shape)}) and value shape({list(value.shape)})"
                       " mismatch", argument="value")
        where, mask = self._access(b, boundary_check)
        store_pointers(b, where, value, mask, hints)


def _checked_axes(boundary_check, rank):
    axes = constants(boundary_check, "boundary_check") if boundary_check is not None else ()
    for axis in axes:
        if not 0 <= axis < rank:
            raise fail(AssertionError, f"boundary_check names axis {axis} of a tile of rank {rank}",
                       argument="boundary_check")
    if len(set(axes)) != len(axes):
        raise fail(AssertionError, "Duplicate dimension in `boundary_check`", argument="boundary_check")
    return sorted(axes)


@builtin
def make_block_ptr(b, base, shape, strides, offsets, block_shape, order) -> block_pointer:
    """A pointer to the tile of `block_shape` at `offsets` of a tensor in memory.

    `shape` and `strides` describe the tensor, in elements; `order` lists the axes from the fastest in memory.

        a = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (pid * BM, 0), (BM, BK), order=(1, 0))
        for _ in range(0, K, BK):
            acc += tl.sum(tl.load(a, boundary_check=(0, 1)), axis=1)
            a = tl.advance(a, (0, BK))
    """
    if not isinstance(base, tensor) or base.shape or type(base.handle.type) is not T.Ptr:
        raise fail(ValueError, "Expected `base` to be a pointer type (but not a block pointer type or others)",
                   hint="give the kernel's pointer argument; offsets= says where the tile starts", argument="base")
    block_shape = check_shape(constants(block_shape, "block_shape"))
    order = constants(order, "order")
    if sorted(order) != list(range(len(order))):
        raise fail(AssertionError, "Expected a permutation of (0, 1, ..., len(order)-1) in order", argument="order")
    lengths = [len(sequence(values)) for values in (shape, strides, offsets)]
    if {*lengths, len(block_shape), len(order)} != {len(block_shape)}:
        raise fail(AssertionError, "Expected shape/strides/offsets/block_shape/order to have the same length, got "
                   f"{[*lengths, len(block_shape), len(order)]}",
                   hint=f"each has one entry for each axis, {len(block_shape)} as block_shape; the order of a tile "
                   f"whose last axis is contiguous is {builtins.tuple(reversed(range(len(block_shape))))}")
    pointer = base.handle.type
    if pointer.pointee is T.i1:  # bools live in memory as bytes
        base = tensor(ops.bitcast(b, base.handle, to=T.Ptr(T.i8, pointer.const)))
    return block_pointer(base, scalars(b, shape, T.i64, "shape"), scalars(b, strides, T.i64, "strides"),
                         scalars(b, offsets, T.i64, "offsets"), block_shape, order)


@must_use_result("tl.advance changes nothing: assign the block pointer it returns.")
@builtin
def advance(b, base: block_pointer, offsets) -> block_pointer:
    """The block pointer moved by `offsets`, one for each axis.

        a = tl.advance(a, (0, BLOCK_K))
    """
    if not isinstance(base, block_pointer):
        raise fail(ValueError, "tl.advance moves a block pointer", hint="other pointers move with +", argument="base")
    moves = scalars(b, offsets, T.i64, "offsets")
    if len(moves) != len(base.block_shape):
        raise fail(AssertionError, f"expected {len(base.block_shape)} offsets, but got {len(moves)}",
                   hint=f"give one for each axis of the tile, {base.block_shape}; 0 where it stays", argument="offsets")
    return base.moved(b, moves)


for _name, _method in {"advance": advance, "load": load, "store": store}.items():
    setattr(block_pointer, _name, _method)
