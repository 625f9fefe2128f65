"""Reductions, scans and elementwise maps whose combination is a region of scalar ops."""

# The functions of an op's class have no `self`.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from ..ir import types as T
from ..ir.opdef import op
from ..later import np

__all__ = ["inline_asm", "map_", "reduce", "scan"]


def _one_shape(what, types):
    for t in types[1:]:
        if T.shape(t) != T.shape(types[0]):
            raise TypeError(f"{what}: shapes differ: {', '.join(map(str, types))}")


def _check_combine(op, copies):
    region, = op.regions
    elements = [T.element(x.type) for x in op.operands]
    if [a.type for a in region.args] != elements * copies or [y.type for y in region.yields] != elements:
        return f"the combination must map {copies} times {elements} to {elements}"
    return None


def _part(x, axis, start, stop):
    return x[(slice(None),) * axis + (slice(start, stop),)]


@op("reduce", attrs=("axis",), traits=("combines",))
class reduce:
    """Combine the elements along an axis: region (a..., b...) -> combined, associative and commutative."""

    def infer(*types, axis, regions):
        _one_shape("reduce", types)
        dims = T.shape(types[0])
        return tuple(T.with_shape(t, dims[:axis] + dims[axis + 1:]) for t in types)

    def check(op):
        return _check_combine(op, 2)

    def eval(m, op, *xs):
        axis = op.attrs["axis"]
        while (size := xs[0].shape[axis]) > 1:
            half = size // 2
            low = [_part(x, axis, 0, half) for x in xs]
            high = [_part(x, axis, half, 2 * half) for x in xs]
            merged = m.map_region(op.regions[0], (*low, *high))
            if size % 2:
                merged = [np.concatenate([y, _part(x, axis, size - 1, size)], axis) for y, x in zip(merged, xs)]
            xs = merged
        return tuple(np.asarray(np.squeeze(x, axis=axis)) for x in xs)


@op("scan", attrs=("axis",), traits=("combines", "cross_lane"), reverse=False)
class scan:
    """Running combination along an axis, inclusive: region (acc..., x...) -> acc."""

    def infer(*types, axis, reverse, regions):
        _one_shape("scan", types)
        return tuple(types)

    def check(op):
        return _check_combine(op, 2)

    def eval(m, op, *xs):
        axis, reverse = op.attrs["axis"], op.attrs["reverse"]
        first = [np.moveaxis(np.flip(x, axis) if reverse else x, axis, 0) for x in xs]
        outs = _running(lambda acc, ys: m.map_region(op.regions[0], (*acc, *ys)), first)
        outs = [np.moveaxis(out, 0, axis) for out in outs]
        return tuple([np.ascontiguousarray(np.flip(out, axis) if reverse else out) for out in outs])


_LONG = 256  # scans up to this size go element by element; longer ones in pieces that are scanned side by side


def _running(combine, xs):
    """The running combination along the first axis of several arrays."""
    size, outs = len(xs[0]), [np.array(x) for x in xs]
    piece = 1 << size.bit_length() // 2
    if size <= _LONG or size % piece:
        for k in range(1, size):
            for out, value in zip(outs, combine([out[k - 1] for out in outs], [x[k] for x in xs])):
                out[k] = value
        return outs
    pieces = [x.reshape(size // piece, piece, *x.shape[1:]).swapaxes(0, 1) for x in outs]
    within = _running(combine, pieces)
    before = [np.broadcast_to(total[:-1], w[:, 1:].shape)
              for total, w in zip(_running(combine, [w[-1] for w in within]), within)]
    for w, value in zip(within, combine(before, [w[:, 1:] for w in within])):
        w[:, 1:] = value
    return [w.swapaxes(0, 1).reshape(out.shape) for w, out in zip(within, outs)]


@op("map", traits=("rematerializable",), pack=1)
class map_:
    """Apply a region of scalars to every `pack` neighbours of the flattened operands; several results possible.

    The region takes pack values of operand 0, then of operand 1 ...; it yields pack values of each result in turn.
    """

    def infer(*types, pack, regions):
        _one_shape("map", types)
        return tuple(T.with_element(types[0], y.type) for y in regions[0].yields[::pack])

    def eval(m, op, *xs):
        pack, dims = op.attrs["pack"], xs[0].shape
        lanes = [np.reshape(x, (-1, pack))[:, k] for x in xs for k in range(pack)] if pack > 1 else list(xs)
        outs = m.map_region(op.regions[0], lanes)
        if pack == 1:
            return tuple(outs)
        return tuple(np.stack(outs[k:k + pack], axis=-1).reshape(dims) for k in range(0, len(outs), pack))


@op("inline_asm", attrs=("asm", "constraints", "types", "pure", "pack"), traits=("global_memory", "cross_lane"))
class inline_asm:
    """LLVM inline assembly applied to every `pack` elements; `types` are the element types of the results."""

    def infer(*operands, asm, constraints, types, pure, pack):
        dims = T.shape(operands[0]) if operands else ()
        return tuple(T.with_shape(t, dims) for t in types)

    def effect(op):
        return "" if op.attrs["pure"] else "write"

    def eval(m, op, *xs):
        return m.inline_asm(op, xs)
