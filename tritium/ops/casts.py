"""Conversions between element types."""

# The functions of an op's class have no `self`.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from ..ir import types as T
from ..ir.opdef import op
from ..later import np
from . import meaning as M

__all__ = ["addptr", "bitcast", "cast", "select"]


def _pointer(m, source, target, out):
    """Tell the machine of a pointer made from an integer: it may lead where no argument does."""
    if type(target) is T.Ptr and type(source) is not T.Ptr and m is not None:
        m.pointer_made(out)
    return out


@op("cast", attrs=("to",), elementwise=True, rounding=None)
class cast:
    """Convert values to element type `to`; `rounding` is None (nearest even) or "rtz" for narrowing floats."""

    def infer(x, *, to, rounding):
        return T.with_element(x, to)

    def eval(m, op, x):
        source, target = T.element(op.operands[0].type), op.attrs["to"]
        with np.errstate(all="ignore"):
            out = np.asarray(M.convert(x, source, target, op.attrs["rounding"]))
        return _pointer(m, source, target, out)


@op("bitcast", attrs=("to",), elementwise=True)
class bitcast:
    """The same bits as another element type of equal width."""

    def infer(x, *, to):
        if T.element(x).bits != to.bits:
            raise TypeError(f"bitcast: {T.element(x)} has {T.element(x).bits} bits, {to} has {to.bits}")
        return T.with_element(x, to)

    def eval(m, op, x):
        out = np.ascontiguousarray(x).view(M.np_dtype(op.attrs["to"])).reshape(x.shape)
        return _pointer(m, T.element(op.operands[0].type), op.attrs["to"], out)


@op("select", elementwise=True)
class select:
    """x where the i1 condition holds, else y; all of one shape."""

    def infer(cond, x, y):
        if x is not y or T.shape(cond) != T.shape(x) or T.element(cond) is not T.i1:
            raise TypeError(f"select: {cond}, {x}, {y}")
        return x

    def eval(m, op, cond, x, y):
        return np.asarray(np.where(cond, x, y), dtype=x.dtype)


@op("addptr", elementwise=True)
class addptr:
    """Move a pointer by a signed or unsigned integer number of elements (a bool pointee counts one byte)."""

    def infer(p, offset):
        if not T.is_ptr(p) or T.shape(p) != T.shape(offset) or not T.element(offset).is_int:
            raise TypeError(f"addptr: {p} + {offset}")
        return p

    def eval(m, op, p, offset):
        size = np.uint64(T.element(op.type).pointee.bytes)
        return (p + offset.astype(np.int64).astype(np.uint64) * size).astype(np.uint64)
