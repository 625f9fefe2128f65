"""Ops that make, move and reshape tiles without computing on their elements."""

from __future__ import annotations

from ..ir import types as T
from ..ir.opdef import op
from ..later import np
from .meaning import fp8_values

__all__ = [
    "arange", "broadcast", "cat", "expand_dims", "extract", "gather", "histogram", "insert", "join", "reshape",
    "sort", "splat", "split", "topk", "trans",
]  # fmt: skip


@op("arange", attrs=("start", "end"), traits=("rematerializable",), cost="free")
class arange:
    """start, start+1 ... end-1 as i32."""

    def infer(*, start, end):
        return T.Tile((end - start,), T.i32)

    def eval(m, op):
        return np.arange(op.attrs["start"], op.attrs["end"], dtype=np.int32)


@op("splat", attrs=("shape",), traits=("broadcasts",))
class splat:
    """A scalar repeated over a shape."""

    def infer(x, *, shape):
        if type(x) is T.Tile:
            raise TypeError(f"splat takes a scalar, got {x}")
        return T.Tile(shape, x)

    def eval(m, op, x):
        return np.broadcast_to(x, op.attrs["shape"])


@op("expand_dims", attrs=("axis",), traits=("broadcasts",))
class expand_dims:
    """Insert an axis of size 1 before `axis` (counted in the result, not negative)."""

    def infer(x, *, axis):
        dims = T.shape(x)
        if not 0 <= axis <= len(dims):
            raise TypeError(f"expand_dims: no axis {axis} in a result of rank {len(dims) + 1}")
        return T.with_shape(x, (*dims[:axis], 1, *dims[axis:]))

    def eval(m, op, x):
        return np.expand_dims(x, op.attrs["axis"])


@op("broadcast", attrs=("shape",), traits=("broadcasts",))
class broadcast:
    """Repeat the axes of size 1 of a tile of the same rank."""

    def infer(x, *, shape):
        old = T.shape(x)
        if len(old) != len(shape) or any(o != n and o != 1 for o, n in zip(old, shape)):
            raise TypeError(f"cannot broadcast {x} to {tuple(shape)}")
        return T.with_shape(x, shape)

    def eval(m, op, x):
        return np.broadcast_to(x, op.attrs["shape"])


@op("reshape", attrs=("shape",), traits=("view",), reorder=False)
class reshape:
    """Same elements in row-major order in another shape (`()` for a scalar); `reorder` allows any order."""

    def infer(x, *, shape, reorder):
        out = T.with_shape(x, shape)
        if T.numel(out) != T.numel(x):
            raise TypeError(f"cannot reshape {x} to {tuple(shape)}: {T.numel(x)} elements against {T.numel(out)}")
        return out

    def eval(m, op, x):
        return np.reshape(x, op.attrs["shape"])


@op("trans", attrs=("order",), traits=("view",))
class trans:
    """Permute the axes: axis k of the result is axis order[k] of x."""

    def infer(x, *, order):
        dims = T.shape(x)
        if sorted(order) != list(range(len(dims))):
            raise TypeError(f"trans: {tuple(order)} is not a permutation of {len(dims)} axes")
        return T.with_shape(x, tuple(dims[k] for k in order))

    def eval(m, op, x):
        return np.transpose(x, op.attrs["order"])


@op("join", traits=("rematerializable",))
class join:
    """Two values of one type side by side along a new last axis of size 2."""

    def infer(x, y):
        if x is not y:
            raise TypeError(f"join: {x} against {y}")
        return T.with_shape(x, (*T.shape(x), 2))

    def eval(m, op, x, y):
        return np.stack([x, y], axis=-1)


@op("split")
class split:
    """The two halves x[..., 0] and x[..., 1] of a last axis of size 2."""

    def infer(x):
        dims = T.shape(x)
        if not dims or dims[-1] != 2:
            raise TypeError(f"split: the last axis of {x} is not 2")
        half = T.with_shape(x, dims[:-1])
        return (half, half)

    def eval(m, op, x):
        return np.asarray(x[..., 0]), np.asarray(x[..., 1])


@op("cat", attrs=("axis",), traits=("rematerializable",))
class cat:
    """Two tiles one after the other along an axis."""

    def infer(x, y, *, axis):
        dims = list(T.shape(x))
        if T.element(x) is not T.element(y) or [d for k, d in enumerate(dims) if k != axis] != \
                [d for k, d in enumerate(T.shape(y)) if k != axis]:
            raise TypeError(f"cat: {x} against {y}")
        dims[axis] += T.shape(y)[axis]
        return T.with_shape(x, dims)

    def eval(m, op, x, y):
        return np.concatenate([x, y], axis=op.attrs["axis"])


@op("gather", attrs=("axis",), traits=("cross_lane",))
class gather:
    """out[.., i, ..] = x[.., index[.., i, ..], ..] along an axis; an index outside gives an unspecified element."""

    def infer(x, index, *, axis):
        xs, at = T.shape(x), T.shape(index)
        if len(xs) != len(at) or any(a != b for k, (a, b) in enumerate(zip(xs, at)) if k != axis):
            raise TypeError(f"gather: index {index} does not fit {x} along axis {axis}")
        return T.with_shape(x, at)

    def eval(m, op, x, index):
        axis = op.attrs["axis"]
        return np.take_along_axis(x, np.clip(index.astype(np.int64), 0, x.shape[axis] - 1), axis)


@op("extract", traits=("cross_lane",))
class extract:
    """One element of a tile: operands (tile, one scalar index for each axis). Outside, an unspecified element."""

    def infer(x, *index):
        if len(index) != len(T.shape(x)) or not index:
            raise TypeError(f"extract: {len(index)} indices into {x}")
        return T.element(x)

    def eval(m, op, x, *index):
        return np.asarray(x[tuple(min(max(int(i), 0), n - 1) for i, n in zip(index, x.shape))])


@op("insert")
class insert:
    """The tile with one element exchanged: operands (tile, value, one index for each axis). Outside, no change."""

    def infer(x, value, *index):
        if len(index) != len(T.shape(x)) or not index or value is not T.element(x):
            raise TypeError(f"insert: {value} at {len(index)} indices into {x}")
        return x

    def eval(m, op, x, value, *index):
        at, out = tuple(int(i) for i in index), np.array(x)
        if all(0 <= i < n for i, n in zip(at, x.shape)):
            out[at] = value
        return out


@op("sort", traits=("cross_lane",), descending=False)
class sort:
    """Elements of the last axis in order."""

    def infer(x, *, descending):
        return x

    def eval(m, op, x):
        return _in_order(op, x)


@op("topk", attrs=("k",), traits=("cross_lane",), descending=False)
class topk:
    """The first `k` elements of the last axis in order: what `sort` puts there."""

    def infer(x, *, k, descending):
        *rows, size = T.shape(x) or (0,)
        if k < 1 or k > size or k & (k - 1):
            raise TypeError(f"k must be a power of two and at most the size of the last axis, got {k} of {x}")
        return T.with_shape(x, (*rows, k))

    def fold(b, op):
        x, = op.operands
        return sort(b, x, descending=op.attrs["descending"]) if op.type == x.type else None

    def eval(m, op, x):
        return _in_order(op, x)[..., :op.attrs["k"]]


def _in_order(op, x):
    """The elements of the last axis, as `sort` and `topk` order them."""
    keys = fp8_values(T.f8e4b15)[x] if T.element(op.type) is T.f8e4b15 else x
    out = np.take_along_axis(x, np.argsort(keys, axis=-1, kind="stable"), -1)
    return out[..., ::-1] if op.attrs["descending"] else out


@op("histogram", attrs=("bins",), traits=("cross_lane",))
class histogram:
    """How often each of 0 .. bins-1 occurs in a 1-d integer tile: operands (x[, mask]). Others are not counted."""

    def infer(x, mask=None, *, bins):
        return T.Tile((bins,), T.i32)

    def eval(m, op, x, mask=None):
        bins = op.attrs["bins"]
        inside = (x >= 0) & (x < bins)
        if mask is not None:
            inside = inside & mask
        return np.bincount(x[inside].astype(np.int64), minlength=bins).astype(np.int32)
