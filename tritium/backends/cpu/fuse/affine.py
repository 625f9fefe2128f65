"""Affine forms whose coefficients are the instructions of the kernel: so a chunk's address is one scalar, and no vector
of indices is built.

Loose terms (a loaded index, a remainder) are tiles that are evaluated where the address is needed, usually uniform in
a chunk. Forms are computed in 64 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .... import ops
from ....analysis.affine import Affine, Form, Loose, strides_behind
from ....analysis.arithmetic import ARITHMETIC, is_index, keeps_integers
from ....ir import types as T
from ....ir.core import Arg, Op, Value, closure
from ...llvm.writer import Val
from .index import Index, power_of_two, source_index

if TYPE_CHECKING:
    from ..lower.function import Lowering

# Ops that are cheaper to rematerialize than to buffer.
ADDRESSING = ARITHMETIC - {ops.constant}


def form_of(lo: Lowering, x: Value) -> Form:
    """The form of integers or pointers: base and strides are numbers or values of the kernel."""
    return _Emitted(lo).of(x)


def loose_index(lo: Lowering, loose: Loose, idx: Index) -> Index:
    """The index in a loose term's value of the element at `idx` of the form's tile."""
    for op in loose.path:
        idx = source_index(lo, op, idx)
    return idx


def usual_stride(lo: Lowering, form: Form, axis: int) -> int | Val:
    """The stride along an axis if no remainder wraps: an estimate for prefetching."""
    total = form.strides[axis]
    for loose in form.loose:
        x = loose.value
        if type(x) is not Op or x.kind is not ops.rem:
            continue
        strides = strides_behind(loose.path, form_of(lo, x.operands[0]).strides)
        if strides is not None:
            total = lo.add(total, lo.mul(strides[axis], loose.scale))
    return total


class _Emitted(Affine):
    """Coefficients are numbers, or instructions that are emitted where they are first asked for."""

    def __init__(self, lo: Lowering):
        self.lo = lo

    def plus(self, a: int | Val, b: int | Val) -> int | Val:
        return self.lo.add(a, b)

    def times(self, a: int | Val, b: int | Val) -> int | Val:
        return self.lo.mul(a, b)

    def of(self, x: Value) -> Form:
        """The form of a value, remembered while the loop is open in which the deepest of its parts is computed."""
        lo, key = self.lo, ("form", x)
        found = lo.memo.get(key)
        if found is None:
            found = self.find(x)
            lo.remember(key, found, _level(found))
        return found

    def find(self, x: Value) -> Form:
        return super().find(x) if type(x.type) is T.Tile else self.scalar(x)

    def scalar(self, x: Value) -> Form:
        """The form of a scalar: the scalar itself."""
        if type(x.type) is T.Ptr:
            return Form(self.lo.scalar(x), 0, ())
        if type(x) is Op and x.kind is ops.constant:
            return self.constant(x, x.attrs["value"])
        index = self.lo.index_of(self.lo.scalar(x), x.type)
        if type(x) is Arg and type(index) is Val:
            self.lo.divisors[index] = x.attrs.get("divisible", 1)
        return Form(None, index, ())

    def leaf(self, x: Value) -> Form:
        induction = self.lo.inductions.get(x)
        if induction is None:
            return super().leaf(x)
        form = self.of(induction.start)
        return form._replace(base=self.lo.add(form.base, induction.offset))

    def keeps(self, source: T.Scalar, to: T.Scalar) -> bool:
        """Addresses are computed modulo 2^64."""
        return keeps_integers(source, to) or to is T.u64 and is_index(source) or source is T.u64 and to is T.i64

    def reshaped(self, op: Op, x: Form) -> list | None:
        if x.loose and not all(map(power_of_two, T.shape(op.operands[0].type))):
            return None  # indices cannot be delinearized
        return super().reshaped(op, x)


def _level(form: Form) -> int:
    """The deepest loop level of a form's parts."""
    parts = [form.pointer, form.base, *form.strides, *[x.scale for x in form.loose]]
    return max([x.level for x in parts if type(x) is Val], default=0)


def described(x: Value) -> bool:
    """Whether `x` is an integer remainder of values with forms: computing it reads no memory."""
    if type(x) is not Op or x.kind is not ops.rem or not T.element(x.type).is_int:
        return False
    made = closure(x.operands, lambda y: y.operands if type(y) is Op else ())
    return all(type(y) is Op and y.kind in ADDRESSING for y in made if type(y.type) is T.Tile)
