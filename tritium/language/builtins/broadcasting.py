"""Bringing operands to one shape."""

from __future__ import annotations

from tritium.errors import fail
from tritium.ir import types as T

from ..types.dtypes import check_shape
from ..types.values import tensor
from .deferred import ops


def common_shape(*shapes):
    """The shape that all shapes broadcast to: aligned at the last axis, sizes equal or 1.

    >>> common_shape((4, 1), (8,), ())
    (4, 8)
    """
    if shapes.count(shapes[0]) == len(shapes):
        return tuple(shapes[0])
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(dims)) + tuple(dims) for dims in shapes]
    out = []
    for axis, sizes in enumerate(zip(*padded)):
        wanted = {size for size in sizes if size != 1}
        if len(wanted) > 1:
            first, second, *_ = sorted(wanted, key=sizes.index)
            raise fail(ValueError, "Cannot make_shape_compatible: incompatible dimensions at index "
                       f"{axis}: {first} and {second}", label=f"{first} against {second}",
                       hint="make the sizes equal, or insert an axis of size 1 with [:, None] or [None, :]")
        out.append(wanted.pop() if wanted else 1)
    return tuple(out)


def spread(b, x, shape):
    """Tensor `x` broadcast to `shape`, adding leading axes where it has fewer."""
    dims = T.shape(x.handle.type)
    if dims == shape:
        return x
    handle, shape = x.handle, check_shape(shape)
    if not dims:
        return tensor(ops.splat(b, handle, shape=shape))
    for _ in range(len(shape) - len(dims)):
        handle = ops.expand_dims(b, handle, axis=0)
    return tensor(ops.broadcast(b, handle, shape=shape) if T.shape(handle.type) != shape else handle)


def broadcast_together(b, *xs):
    """All tensors in their common shape."""
    shape = common_shape(*[T.shape(x.handle.type) for x in xs])
    return [spread(b, x, shape) for x in xs]


def broadcast_exactly(b, x, shape):
    """`tl.broadcast_to`: tiles must have the rank of `shape` already."""
    dims = T.shape(x.handle.type)
    if dims and len(dims) != len(shape):
        raise fail(ValueError, f"Cannot broadcast, rank mismatch: {list(dims)}, {list(shape)}",
                   hint="insert axes of size 1 first, with [:, None] or tl.expand_dims")
    for axis, (old, new) in enumerate(zip(dims, shape)):
        if old != new and old != 1:
            raise fail(ValueError, f"Cannot broadcast, the expanded size of the tensor ({new}) must match the existing "
                       f"size ({old}) at non-singleton dimension {axis}: {list(dims)}, {list(shape)}")
    return spread(b, x, tuple(shape))
