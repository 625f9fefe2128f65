"""Affine forms of addresses and indices: base + sum of stride * index over the axes, plus irregular terms.

A `Form` describes a tile of integers or pointers by a few scalars, so that a chunk's address is one scalar and no
vector of indices is built. Terms that are not affine (a loaded index, a remainder) stay *loose*: tile values that are
evaluated where the address is needed, usually uniform in a chunk.

Forms are computed in 64 bits: overflow of a signed 32-bit index is undefined, as in C. Unsigned indices narrower than
64 bits wrap, so their sums and products are left loose.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .... import ops
from ....ir import types as T
from ....ir.core import Arg, Result
from ...llvm.writer import Val
from .index import power_of_two, source_index

__all__ = ["ADDRESSING", "Form", "Loose", "described", "form_of", "unfolded", "uniform", "usual_stride"]


class Loose(NamedTuple):
    """`scale` times a tile value, reached from the form's tile through the shape ops in `path`, outermost first."""

    scale: int | Val
    value: Any
    path: tuple = ()

    def index(self, lo, idx):
        """The index in `value` of the element at `idx` of the form's tile."""
        for op in self.path:
            idx = source_index(lo, op, idx)
        return idx


class Form(NamedTuple):
    """pointer + (base + sum(strides[d] * index[d]) + loose terms) elements; `pointer` is None for integers."""

    pointer: Val | None
    base: int | Val
    strides: tuple
    loose: tuple[Loose, ...] = ()

    @property
    def level(self) -> int:
        """The deepest loop level of its parts."""
        parts = [self.base, *self.strides, *[x.scale for x in self.loose]]
        if self.pointer is not None:
            parts.append(self.pointer)
        return max([x.level for x in parts if type(x) is Val], default=0)


def uniform(form: Form) -> bool:
    """Whether all elements are equal."""
    return not form.loose and not any(s != 0 for s in form.strides)


def unfolded(path, strides):
    """Strides after the shape ops in `path` (outermost first); None if they are not affine."""
    for op in reversed(path):
        if op.kind is ops.expand_dims:
            at = op.attrs["axis"]
            strides = (*strides[:at], 0, *strides[at:])
        elif op.kind is ops.trans:
            strides = tuple([strides[a] for a in op.attrs["order"]])
        elif op.kind is ops.broadcast:
            strides = tuple([0 if n == 1 else s for s, n in zip(strides, T.shape(op.operands[0].type), strict=True)])
        elif op.kind is not ops.hint:
            return None
    return strides


def usual_stride(lo, form: Form, axis: int):
    """The stride along an axis if no remainder wraps: an estimate for prefetching."""
    total = form.strides[axis]
    for loose in form.loose:
        x = loose.value
        if type(x) in (Arg, Result) or x.kind is not ops.rem:
            continue
        strides = unfolded(loose.path, form_of(lo, x.operands[0]).strides)
        if strides is not None:
            total = lo.add(total, lo.mul(strides[axis], loose.scale))
    return total


def form_of(lo, x) -> Form:
    """The form of integers or pointers; a value that is not affine is its own loose term."""
    key = ("form", x)
    found = lo.memo.get(key)
    if found is None:
        found = _find(lo, x)
        lo.remember(key, found, found.level)
    return found


def _find(lo, x) -> Form:
    t = x.type
    if type(t) is not T.Tile:
        return _scalar(lo, x)
    induction = lo.inductions.get(x)
    if induction is not None:
        form = form_of(lo, induction.start)
        return form._replace(base=lo.add(form.base, induction.offset))
    op = None if type(x) in (Arg, Result) else x
    rule = _RULES.get(op.kind) if op is not None else None
    form = rule(lo, op) if rule else None
    if form is None:
        return Form(None, 0, (0,) * len(t.shape), (Loose(1, x),))
    return form


def _scalar(lo, x) -> Form:
    if type(x.type) is T.Ptr:
        return Form(lo.scalar(x), 0, ())
    if type(x) is not Arg and type(x) is not Result and x.kind is ops.constant:
        return Form(None, int(x.attrs["value"]), ())
    return Form(None, lo.index_of(lo.scalar(x), x.type), ())


# --- rules ------------------------------------------------------------------------------------------------------
def _arange(lo, op):
    return Form(None, op.attrs["start"], (1,))


def _splat(lo, op):
    form = form_of(lo, op.operands[0])
    return form._replace(strides=(0,) * len(op.type.shape))


def _moved(op, form, strides):
    """The form after a shape op."""
    return form._replace(strides=tuple(strides), loose=tuple([x._replace(path=(op, *x.path)) for x in form.loose]))


def _expand_dims(lo, op):
    form = form_of(lo, op.operands[0])
    axis = op.attrs["axis"]
    return _moved(op, form, (*form.strides[:axis], 0, *form.strides[axis:]))


def _broadcast(lo, op):
    form = form_of(lo, op.operands[0])
    return _moved(op, form, [0 if n == 1 else s for s, n in zip(form.strides, T.shape(op.operands[0].type))])


def _trans(lo, op):
    form = form_of(lo, op.operands[0])
    return _moved(op, form, [form.strides[axis] for axis in op.attrs["order"]])


def _reshape(lo, op):
    """Splitting an axis or moving axes of size 1 keeps the form; merging axes does if their strides are nested."""
    source, target = T.shape(op.operands[0].type), op.attrs["shape"]
    form = form_of(lo, op.operands[0])
    if form.loose and not all(map(power_of_two, source)):
        return None  # indices cannot be delinearized
    merged = []
    for n, s in zip(source, form.strides):
        if n == 1:
            continue
        if merged and type(s) is int and type(merged[-1][1]) is int and merged[-1][1] == s * n:
            merged[-1] = (merged[-1][0] * n, s)
        else:
            merged.append((n, s))
    strides, rest = [], list(merged)
    for n in reversed(target):
        if n == 1:
            strides.insert(0, 0)
            continue
        if not rest or rest[-1][0] % n:
            return None
        size, s = rest.pop()
        strides.insert(0, s)
        if size > n:
            rest.append((size // n, lo.mul(s, n)))
    return _moved(op, form, strides)


def _wraps(t):
    """Whether arithmetic on an integer type may wrap before the extension to 64 bits."""
    return t.kind != "int" and t.bits < 64


def _sum(sign):
    def rule(lo, op):
        if _wraps(T.element(op.type)):
            return None
        x, y = (form_of(lo, v) for v in op.operands)
        if sign < 0:
            y = _scaled(lo, y, -1)
        return _added(lo, x, y)
    return rule


def _added(lo, x, y):
    return Form(x.pointer if y.pointer is None else y.pointer, lo.add(x.base, y.base),
                tuple([lo.add(a, b) for a, b in zip(x.strides, y.strides)]), x.loose + y.loose)


def _scaled(lo, form, by):
    return Form(None, lo.mul(form.base, by), tuple([lo.mul(s, by) for s in form.strides]),
                tuple([x._replace(scale=lo.mul(x.scale, by)) for x in form.loose]))


def _mul(lo, op):
    if _wraps(T.element(op.type)):
        return None
    x, y = (form_of(lo, v) for v in op.operands)
    if uniform(x):
        x, y = y, x
    return _scaled(lo, x, y.base) if uniform(y) else None


def _shl(lo, op):
    by = form_of(lo, op.operands[1])
    if _wraps(T.element(op.type)) or not uniform(by) or type(by.base) is not int or not 0 <= by.base < 31:
        return None
    return _scaled(lo, form_of(lo, op.operands[0]), 1 << by.base)


def _cast(lo, op):
    """Widening casts keep the form; others are loose."""
    source, target = T.element(op.operands[0].type), op.attrs["to"]
    pointers = [type(t) is T.Ptr for t in (source, target)]
    if all(pointers):
        return _repointed(lo, op, source, target)
    if any(pointers) or not (source.is_int and target.is_int):
        return None
    same = target.bits == source.bits and (target.signed == source.signed or target.bits == 64)
    wider = target.bits > source.bits and (target.signed or not source.signed or target.bits == 64)
    return form_of(lo, op.operands[0]) if source is not T.i1 and (same or wider) else None


def _repointed(lo, op, source, target):
    """A cast of the pointee type: the same address, in units of the new element size."""
    form = form_of(lo, op.operands[0])
    before, after = source.pointee.bytes, target.pointee.bytes
    if before == after or form.pointer is None:
        return form
    if before % after:
        return None
    moved = _scaled(lo, form._replace(pointer=None), before // after)
    return moved._replace(pointer=form.pointer)


def _addptr(lo, op):
    x, y = (form_of(lo, v) for v in op.operands)
    return _added(lo, x, y) if x.pointer is not None else None


def _hint(lo, op):
    return form_of(lo, op.operands[0])


_RULES = {
    ops.arange: _arange, ops.splat: _splat, ops.expand_dims: _expand_dims, ops.broadcast: _broadcast, ops.trans: _trans,
    ops.reshape: _reshape, ops.add: _sum(1), ops.sub: _sum(-1), ops.mul: _mul, ops.shl: _shl, ops.cast: _cast,
    ops.addptr: _addptr, ops.hint: _hint,
}
# Ops that are cheaper to rematerialize than to buffer.
ADDRESSING = frozenset(_RULES)


def described(x) -> bool:
    """Whether `x` is an integer remainder of values with forms: computing it reads no memory."""
    if type(x) in (Arg, Result) or x.kind is not ops.rem or not T.element(x.type).is_int:
        return False
    stack = list(x.operands)
    while stack:
        x = stack.pop()
        if type(x.type) is T.Tile:
            if type(x) in (Arg, Result) or x.kind not in ADDRESSING:
                return False
            stack += x.operands
    return True
