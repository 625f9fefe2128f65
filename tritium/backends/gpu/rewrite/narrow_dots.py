"""Dots of widened 16-bit floats multiply these as they were.

    a = cast x {to=f32}                                 x, y: both f16, or both bf16
    b = cast y {to=f32}                         ->      d = dot x, y, c
    d = dot a, b, c {precision="tf32"}

tf32 has the exponents of bf16 and the mantissa of f16: it holds both exactly, and f32 holds their products. The
instruction for 16 bits takes half the time, registers and shared memory.
"""

from __future__ import annotations

from .... import ops
from ....ir import types as T
from ....ir.core import Module, Op, Value, behind_views, walk
from ....ir.rewrite import Rewriter, sweep
from ....passes.dce import dce
from ..target import Target

_TF32 = {"tf32", "tf32x3"}  # precisions that lose nothing of tf32 numbers


def narrow_dots(module: Module, target: Target) -> Module:
    """Multiply 16-bit floats as they are, where a dot widens them and may round to tf32."""
    if ops.dot not in module.kinds or not target.mma.subnormals:
        return module
    warps, dots = module.attrs["num_warps"], [op for op in walk(module.body) if op.kind is ops.dot]

    def rule(b: Rewriter, op: Op) -> Value | None:
        if op.kind is not ops.dot or op.attrs["precision"] not in _TF32:
            return None
        left, right, acc = op.operands
        element = _narrow(left)
        if element is None or element is not _narrow(right):
            return None
        types = [T.with_element(x.type, element) for x in (left, right)]
        if target.mma.accumulator(*types, op.type, "ieee", warps) is None:
            return None
        factors = _as_it_was(b, left), _as_it_was(b, right)
        return b.emit_as_is(ops.dot, (*factors, acc), {**op.attrs, "precision": "ieee"})

    return sweep(module, rule, dce) if any(op.attrs["precision"] in _TF32 for op in dots) else module


def _narrow(x: Value) -> T.Scalar | None:
    """The type of 16-bit floats that were widened to a tile; None if they were not."""
    match behind_views(x):
        case Op(ops.cast, (y,)) if T.element(y.type) in (T.f16, T.bf16):
            return T.element(y.type)
    return None


def _as_it_was(b: Rewriter, x: Value) -> Value:
    """A tile before it was widened."""
    assert type(x) is Op
    return x.operands[0] if x.kind is ops.cast else b.emit(x.kind, (_as_it_was(b, x.operands[0]),), x.attrs)
