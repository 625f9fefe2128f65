"""Which element types the tensor cores multiply, and how PTX calls them."""

from __future__ import annotations

from ....ir import types as T

NAMES = {T.f16: "f16", T.bf16: "bf16", T.f32: "tf32", T.f8e4nv: "e4m3", T.f8e5: "e5m2", T.i8: "s8"}
STEP = 32  # bytes of K in one instruction, whatever the type


def multiplies(a: T.Tile, b: T.Tile, out: T.Tile, precision: str) -> bool:
    """True if tiles of these types can be multiplied into an accumulator of type `out`."""
    ta, tb = a.element, b.element
    if ta not in NAMES or tb not in NAMES:
        return False
    both_eight_bits = ta.bits == tb.bits == 8 and ta.is_float and tb.is_float
    if ta is not tb and not both_eight_bits:
        return False
    if ta is T.f32 and precision != "tf32":
        return False
    return out.element is (T.i32 if ta is T.i8 else T.f32) and a.shape[-1] * ta.bytes >= STEP
