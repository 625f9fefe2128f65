"""Loads, stores and atomics. Pointer, value and mask operands have one shape (the language broadcasts them)."""

# The functions of an op's class have no `self`.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from ..ir import types as T
from ..ir.opdef import Access, op

__all__ = ["ATOMICS", "atomic", "atomic_cas", "load", "store"]

ATOMICS = ("add", "max", "min", "and", "or", "xor", "xchg", "load", "store")


def _pointee(p):
    if not T.is_ptr(p):
        raise TypeError(f"not a pointer: {p}")
    return T.with_element(p, T.element(p).pointee)


def _fits(what, p, *others):
    for t in others:
        if T.shape(t) != T.shape(p):
            raise TypeError(f"{what}: {t} does not fit {p}")


@op("load", effects="read", access=Access(0, mask=1), cache="", eviction="", volatile=False)
class load:
    """Read memory: operands (pointer[, mask[, other]]). Masked-off lanes are not read and give `other`, or 0."""

    def infer(p, mask=None, other=None, *, cache, eviction, volatile):
        out = _pointee(p)
        if mask is not None:
            _fits("load mask", p, mask)
            if T.element(mask) is not T.i1:
                raise TypeError(f"load: a mask is i1, got {mask}")
        if other is not None and other is not out:
            raise TypeError(f"load: other is {other}, expected {out}")
        return out

    def effect(op):
        return "write" if op.attrs["volatile"] else "read"

    def eval(m, op, p, mask=None, other=None):
        return m.load(op, p, mask, other)


@op("store", effects="write", access=Access(0, mask=2), cache="", eviction="")
class store:
    """Write memory: operands (pointer, value[, mask])."""

    def infer(p, value, mask=None, *, cache, eviction):
        if value is not _pointee(p):
            raise TypeError(f"store: {value} through {p}")
        if mask is not None:
            _fits("store mask", p, mask)
        return None

    def eval(m, op, p, value, mask=None):
        m.store(op, p, value, mask)


@op("atomic", attrs=("how",), effects="write", access=Access(0, mask=2), traits=("atomic",), sem="acq_rel",
    scope="gpu")
class atomic:
    """Read-modify-write, returning the old value: operands (pointer, value[, mask]); `how` is one of ATOMICS.

    "load" leaves memory as it is, whatever the value; what "store" returns is unspecified.
    """

    def infer(p, value, mask=None, *, how, sem, scope):
        out = _pointee(p)
        if value is not out:
            raise TypeError(f"atomic_{how}: {value} through {p}")
        if mask is not None:
            _fits("atomic mask", p, mask)
        return out

    def eval(m, op, p, value, mask=None):
        return m.atomic(op, p, value, mask)


@op("atomic_cas", effects="write", access=Access(0), traits=("atomic",), sem="acq_rel", scope="gpu")
class atomic_cas:
    """Store `value` where memory equals `expected`; returns the old value: operands (pointer, expected, value)."""

    def infer(p, expected, value, *, sem, scope):
        out = _pointee(p)
        if expected is not out or value is not out:
            raise TypeError(f"atomic_cas: {expected}, {value} through {p}")
        return out

    def eval(m, op, p, expected, value):
        return m.atomic_cas(op, p, expected, value)
