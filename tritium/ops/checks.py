"""What the sanitizer adds to a kernel: ops that look at an access before it happens. See `passes.instrument`."""

# The functions of an op's class have no `self`.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from ..ir import types as T
from ..ir.opdef import op
from ..later import np

__all__ = ["check", "demand", "notice", "patience", "verify"]

ACCESSES = ("load", "store", "atomic", "swap", "volatile")
MOMENTS = ("acquire", "barrier", "wait")


@op("check", attrs=("access", "site"), effects="read", origin=-1, foreign=False, masked=False, releases=False)
class check:
    """Which lanes of an access may touch memory: operands (context, pointer[, mask], *indices).

    `access` is one of ACCESSES, "swap" for atomics that may be repeated, and `site` its number in the kernel. `origin`
    is the number of the parameter that the pointer is computed from, or -1; a `foreign` pointer may lead to memory that
    is no argument's. Each index is the offset of a pointer as it would be without overflow: lanes where it does not fit
    in 32 bits are left out. What is left out is told to `context`.
    """

    def infer(context, p, *rest, access, site, origin, foreign, masked, releases):
        if not T.is_ptr(p) or access not in ACCESSES:
            raise TypeError(f"check: {access} through {p}")
        mask, indices = (rest[:1], rest[1:]) if masked else ((), rest)
        wanted = T.with_element(p, T.i1)
        if any(t is not wanted for t in mask) or any(t is not T.with_element(p, T.i64) for t in indices):
            raise TypeError(f"check: {rest} do not fit {p}")
        return wanted

    def eval(m, op, context, p, *rest):
        mask = rest[0] if op.attrs["masked"] else np.ones(np.shape(p), bool)
        for index in rest[op.attrs["masked"]:]:
            mask = mask & (index == index.astype(np.int32))
        size, stores = T.element(op.operands[1].type).pointee.bytes, op.attrs["access"] in ("store", "atomic", "swap")
        return np.asarray(mask & m.memory.holds(p, size, stores))


@op("verify", attrs=("site",), effects="write")
class verify:
    """Report to the sanitizer memory that differs from the value just stored: operands (context, pointer, value, mask).

    Then two lanes stored to one element, and what it holds is left to chance.
    """

    def infer(context, p, value, mask, *, site):
        if not T.is_ptr(p) or T.shape(value) != T.shape(p) or mask is not T.with_element(p, T.i1):
            raise TypeError(f"verify: {value}, {mask} through {p}")
        return None

    def eval(m, op, context, p, value, mask):
        return None


@op("demand", attrs=("of", "what"), effects="write", site=-1)
class demand:
    """Report to the sanitizer a number that is no multiple of `of`: operands (x[, context]); `what` is its name."""

    def infer(x, context=None, *, of, what, site):
        if x is not T.i64:
            raise TypeError(f"demand: {x}")
        return None

    def eval(m, op, x, context=None):
        return None


@op("notice", attrs=("moment",), effects="write")
class notice:
    """Report synchronization between programs to the sanitizer: operands (context[, pointer]).

    `moment` is "acquire", after an atomic of one element through the pointer; "barrier"; or "wait", before a loop that
    waits.
    """

    def infer(context, p=None, *, moment):
        if moment not in MOMENTS:
            raise TypeError(f"notice: there is no {moment!r}")
        return None

    def eval(m, op, context, p=None):
        return None


@op("patience", attrs=("site",), effects="read")
class patience:
    """Whether a waiting loop may run another iteration: operands (context). False once it has waited too long."""

    def infer(context, *, site):
        return T.i1

    def eval(m, op, context):
        return np.asarray(True)
