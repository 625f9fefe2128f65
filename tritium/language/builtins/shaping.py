"""Making tiles and moving their elements: `arange`, `full`, `reshape`, `permute`, `join`, `gather` ..."""

from __future__ import annotations

import builtins

from tritium.errors import fail
from tritium.ir import types as T

from ..types.constants import unwrap
from ..types.dtypes import check_shape, from_ir
from ..types.limits import check_fp8
from ..types.values import Pair, constant, number, size_of_tile, tensor, to_tensor, tuple
from .broadcasting import broadcast_exactly, broadcast_together
from .calling import builtin, warn
from .casting import convert, scalar_type
from .deferred import ops
from .padded_tiles import padded_tile, room_for

__all__ = [
    "arange", "broadcast", "broadcast_to", "cat", "expand_dims", "full", "gather", "item", "join", "permute",
    "reshape", "split", "trans", "view",
]  # fmt: skip


def sequence(args):
    """The numbers of `f(x, 1, 2)` or `f(x, (1, 2))`."""
    if len(args) == 1 and isinstance(unwrap(args[0]), (list, builtins.tuple)):
        args = unwrap(args[0])
    return [unwrap(a) for a in args]


def wrap_axis(axis, rank, argument="axis"):
    """An axis counted from either end as a number from 0 to rank - 1.

    >>> wrap_axis(-1, 3)
    2
    """
    axis = constant_int(axis, argument)
    if not -rank <= axis < rank:
        raise fail(ValueError, f"invalid axis {axis}. Expected {-rank} <= axis < {rank}", argument=argument,
                   hint="a tile with one axis has axis 0 alone" if rank == 1 else f"the tile has axes 0 to {rank - 1}")
    return axis % rank


def constant_int(value, argument):
    """A compile-time integer, or an error that says it must be one."""
    plain = number(unwrap(value))
    if plain is None or isinstance(plain, float):
        shown = value.type if isinstance(value, tensor) else repr(value)
        if argument == "axis":
            raise fail(TypeError, f"`axis` must be a compile-time integer, got {shown}", argument=argument,
                       hint="pass an int, such as 0; two tiles are compared with tl.maximum(x, y), tl.minimum(x, y)")
        raise fail(TypeError, f"`{argument}` must be a compile-time integer, got {shown}",
                   hint="annotate the parameter it comes from with tl.constexpr" if isinstance(value, tensor) else
                   "pass an int", argument=argument)
    return int(plain)


# ---------------------------------------------------------------------------------------------------------------------
# Creation


BLOCK_AND_MASK = ("take one as a parameter, `BLOCK: tl.constexpr`, and mask what is past the end: "
                  "`offsets = tl.arange(0, BLOCK)`, `mask=offsets < n`")


START_AT_ZERO = "start at 0 and add the offset to the result: `start + tl.arange(0, BLOCK)`"


@builtin
def arange(b, start, end):
    """The int32 numbers start, start + 1 ... end - 1; their count is a power of two.

        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    """
    start, end = size_of_tile(start), size_of_tile(end)
    for name, value in (("start", start), ("end", end)):
        if isinstance(unwrap(value), tensor):
            hint = START_AT_ZERO if name == "start" else f"the size of a block is a constant: {BLOCK_AND_MASK}"
            raise fail(ValueError, f"arange's arguments must be of type tl.constexpr, `{name}` is not", hint=hint,
                       argument=name)
        if isinstance(number(value), float) or number(value) is None:
            raise fail(ValueError, f"arange's arguments must be integers, `{name}` is {unwrap(value)!r}",
                       hint="divide with //, or round with int()" if number(value) else "pass an int", argument=name)
    start, end = int(number(start)), int(number(end))
    if start >> 32 or end >> 32:
        raise fail(ValueError, f"arange must fit in int32, got {start} to {end}",
                   hint="start at 0 and add the offset to the result" if start < end else
                   "the end must be greater than the start")
    size = end - start
    if size <= 0:
        raise fail(ValueError, f"arange's end argument must be greater than the start argument, got {start} to {end}")
    if size & (size - 1):
        raise fail(ValueError, "arange's range must be a power of 2", label=f"{size} elements",
                   hint=f"use triton.next_power_of_2({size}) = {1 << size.bit_length()} and mask the tail")
    check_shape((size,))
    return tensor(ops.arange(b, start=start, end=end))


@builtin
def full(b, shape, value, dtype):
    """A tile of `shape` filled with one value; `shape=()` gives a scalar.

    Sizes are powers of two. Rows may be padded, as in (32, 33): such a tile is for reading and writing its elements.

        acc = tl.full((BLOCK_M, BLOCK_N), 0.0, tl.float32)
    """
    asked = sequence((shape,)) if hasattr(shape, "__iter__") else [shape]
    room = room_for(asked)
    shape = check_shape(room or asked)
    if dtype is None:
        raise fail(ValueError, "dtype must be specified when value is not a tensor", hint="add dtype=tl.float32",
                   argument="dtype")
    kind = scalar_type(dtype)
    check_fp8(b, kind)
    if isinstance(value, tensor):
        if T.numel(value.handle.type) != 1:
            raise fail(ValueError, f"full only accepts a size-1 tensor as value, got shape {value.shape}",
                       argument="value")
        scalar = convert(b, item.fn(b, value), kind)
    else:
        scalar = constant(b, representable(value, kind), kind)
    made = tensor(ops.splat(b, scalar.handle, shape=shape)) if shape else scalar
    return made if room is None else _padded(b, made, [number(size_of_tile(size)) for size in asked])


def _padded(b, tile, shape):
    """The tile with padded rows that `tile` has room for."""
    made = padded_tile(tile, shape)
    warn(b, f"a tile of shape {made.shape} takes the room of {builtins.tuple(tile.shape)}, and is no shared memory: "
         "its padding avoids no bank conflicts. The compiler places tiles on chip so that there are few; "
         "tritium.explain shows them")
    return made


def representable(value, kind):
    """A Python number that a constant of IR type `kind` can hold; small integer types wrap."""
    plain = number(value)
    if plain is None:
        raise fail(TypeError, f"cannot fill with {value!r}", hint="use a number or a scalar tensor", argument="value")
    if type(kind) is T.Ptr or not kind.is_int:
        return plain
    if isinstance(plain, float):
        if plain:
            raise fail(TypeError, f"{plain} is a float, {from_ir(kind)} holds integers",
                       hint="write an integer, or use a float dtype", argument="value")
        return 0
    if kind is T.i1:
        return bool(plain)
    if plain < 0 and not kind.signed:
        raise fail(TypeError, f"{plain} is negative, {from_ir(kind)} is unsigned", argument="value")
    low = from_ir(kind).get_int_min_value()
    return (int(plain) - low) % (1 << kind.bits) + low


# ---------------------------------------------------------------------------------------------------------------------
# Shapes


@builtin
def broadcast(b, input, other) -> Pair:
    """Both operands in their common shape, as a pair.

        x, y = tl.broadcast(rows[:, None], columns[None, :])
    """
    return tuple(broadcast_together(b, to_tensor(b, input), to_tensor(b, other)))


@builtin
def broadcast_to(b, input, *shape):
    """Repeat the axes of size 1 until the shape fits; a scalar fits every shape.

        bias = bias[None, :].broadcast_to(BLOCK_M, BLOCK_N)
    """
    return broadcast_exactly(b, to_tensor(b, input), check_shape(sequence(shape)))


@builtin
def expand_dims(b, input, axis):
    """Insert axes of size 1 at the places `axis` names in the result.

        column = tl.expand_dims(x, 1)        # the same as x[:, None]
    """
    x = to_tensor(b, input)
    axes = sequence((axis,)) if hasattr(axis, "__iter__") else [axis]
    rank = len(x.shape) + len(axes)
    axes = [wrap_axis(a, rank) for a in axes]
    if len(set(axes)) != len(axes):
        raise fail(ValueError, f"expand_dims received duplicate axes, normalized axes = {axes}", argument="axis")
    for a in sorted(axes):
        x = tensor(ops.expand_dims(b, x.handle, axis=a))
    return x


@builtin
def reshape(b, input, *shape, can_reorder: bool = False):
    """The same elements, in row-major order, in another shape; `can_reorder` gives that order up.

        pairs = tl.reshape(x, (BLOCK // 2, 2))
    """
    x, dims = to_tensor(b, input), check_shape(sequence(shape))
    if x.numel != _product(dims):
        raise fail(ValueError, "reshape() cannot change total number of elements in tensor: "
                   f"{list(x.shape)} has {x.numel}, {list(dims)} has {_product(dims)}", argument="shape")
    if dims == x.shape and not can_reorder:
        return x
    return tensor(ops.reshape(b, x.handle, shape=dims, reorder=bool(can_reorder)))


def _product(dims):
    out = 1
    for size in dims:
        out *= size
    return out


@builtin
def view(b, input, *shape):
    """Deprecated: `reshape` that may reorder elements.

        y = tl.view(x, (4, 8))        # rather write tl.reshape(x, (4, 8))
    """
    warn(b, "view is deprecated, please use reshape with can_reorder being true.")
    return reshape.fn(b, input, *shape, can_reorder=True)


@builtin
def permute(b, input, *dims):
    """Reorder the axes: axis k of the result is axis `dims[k]` of the input.

        heads_first = tl.permute(x, (1, 0, 2))
    """
    x, order = to_tensor(b, input), sequence(dims)
    rank = len(x.shape)
    if len(order) != rank:
        raise fail(ValueError, f"permute dims must have the same length as input shape: {len(order)} for rank {rank}",
                   argument="dims")
    if sorted(order) != list(range(rank)):
        raise fail(ValueError, f"permute dims must be a permutation of 0, 1, ..., n-1, but were {order}",
                   argument="dims")
    if order == list(range(rank)):
        return x
    return tensor(ops.trans(b, x.handle, order=builtins.tuple(order)))


@builtin
def trans(b, input, *dims):
    """Swap the last two axes, or reorder all of them as `permute` does.

        scores = tl.dot(q, tl.trans(k))
    """
    order = sequence(dims)
    if not order:
        rank = len(to_tensor(b, input).shape)
        if rank < 2:
            raise fail(ValueError, "tl.trans invoked with a 0- or 1-dimensional tensor",
                       hint="insert an axis first, with x[:, None]")
        order = [*range(rank - 2), rank - 1, rank - 2]
    return permute.fn(b, input, *order)


@builtin
def join(builder, a, b):
    """Two tensors side by side along a new last axis of size 2.

        complex_pairs = tl.join(real, imaginary)
    """
    for x in (a, b):
        if not isinstance(x, tensor):
            raise fail(TypeError, f"join takes tensors, got {x!r}", hint="make it one with tl.full")
    x, y = broadcast_together(builder, a, b)
    if x.dtype != y.dtype:
        raise fail(TypeError, f"join takes tensors of one dtype, got {x.dtype} and {y.dtype}",
                   hint="cast one of them with .to()")
    check_shape((*x.shape, 2))
    return tensor(ops.join(builder, x.handle, y.handle))


@builtin
def split(b, a) -> Pair:
    """The two halves of a last axis of size 2.

        real, imaginary = tl.split(complex_pairs)
    """
    if not a.shape or a.shape[-1] != 2:
        last = a.shape[-1] if a.shape else "a scalar"
        raise fail(ValueError, f"split needs a last axis of size 2, got shape {a.shape}: expected last dimension to be "
                   f"2 for split, got {last}",
                   hint="reshape and permute so that the axis to split comes last")
    return tuple(map(tensor, ops.split(b, a.handle)))


@builtin
def cat(b, input, other, can_reorder: bool = False, dim: int = 0):
    """Two tensors of one shape in one, the second after the first along axis `dim`.

    With `can_reorder` the order of the elements is not specified; both must be 1-d then.

        both = tl.cat(x, y)
        wide = tl.cat(left, right, dim=1)
    """
    if can_reorder and (len(input.shape) != 1 or len(other.shape) != 1):
        raise fail(AssertionError, f"cat with can_reorder takes 1-d tensors, got shapes {input.shape} and "
                   f"{other.shape}", hint="leave can_reorder out: the order is kept then")
    if input.shape != other.shape and not can_reorder:
        raise fail(ValueError, f"cat requires tensors of the same shape, got {input.shape} and {other.shape}",
                   argument="other")
    axis = wrap_axis(dim, len(input.shape), "dim")
    if input.dtype != other.dtype:
        raise fail(TypeError, f"cat takes tensors of one dtype, got {input.dtype} and {other.dtype}",
                   hint="cast one of them with .to()")
    dims = list(input.shape)
    dims[axis] += other.shape[axis]
    check_shape(dims)
    return tensor(ops.cat(b, input.handle, other.handle, axis=axis))


@builtin
def gather(b, src, index, axis):
    """Elements of `src` picked by `index` along an axis: `out[i, j] = src[index[i, j], j]` for axis 0.

        shuffled = tl.gather(x, permutation, axis=0)
    """
    rank = len(src.shape)
    if not index.dtype.is_int():
        raise fail(AssertionError, f"index must be an integer tensor, got {index.dtype}", argument="index",
                   hint="cast it with .to(tl.int32)")
    if len(index.shape) != rank:
        raise fail(AssertionError, "source and index tensors must have the same rank, got shapes "
                   f"{src.shape} and {index.shape}", argument="index")
    axis = constant_int(axis, "axis")
    if not -rank <= axis < rank:
        raise fail(AssertionError, f"gather axis {axis} must be < source rank ({rank})", argument="axis")
    axis %= rank
    for k in range(rank):
        if k != axis and index.shape[k] != src.shape[k]:
            raise fail(AssertionError, f"index dim {k} must match the corresponding source dim: {index.shape[k]} "
                       f"against {src.shape[k]}", argument="index")
    return tensor(ops.gather(b, src.handle, index.handle, axis=axis))


@builtin
def item(b, input):
    """The one element of a tensor, as a scalar.

        if tl.max(x, axis=0, keep_dims=True).item() > 0: ...
    """
    if T.numel(input.handle.type) != 1:
        raise fail(ValueError, f"only a tensor of one element has an item, this has shape {input.shape}",
                   hint="reduce it first, or read one element with x[i]")
    return tensor(ops.reshape(b, input.handle, shape=())) if input.shape else input
