"""Operands of `dot_scaled` as plain tiles of floats: unpacked, upcast and multiplied by their scales."""

from __future__ import annotations

from tritium.errors import fail
from tritium.ir import types as T

from ..types.promotion import is_fp8
from ..types.values import constant, tensor
from .broadcasting import spread
from .casting import bitcast, convert, is_nonzero, splat_constant
from .deferred import ops

# format -> types its elements may have in memory, and the float type their bits stand for (None: packed 4-bit floats)
FORMATS = {
    "e2m1": ((T.u8, T.i8), None),
    "e4m3": ((T.u8, T.i8, T.f8e4nv), T.f8e4nv),
    "e5m2": ((T.u8, T.i8, T.f8e5), T.f8e5),
    "bf16": ((T.u16, T.i16, T.bf16), T.bf16),
    "fp16": ((T.u16, T.i16, T.f16), T.f16),
}
_SCALES = (T.u8, T.i8, T.f8e4nv)


def _kind(x):
    return T.element(x.handle.type)


def _number(b, x, value):
    return splat_constant(b, value, x.handle.type)


def check_operand(name, scale, form, k_pack):
    """Refuse what `dot_scaled` has no meaning for: packing of other formats than e2m1, scales of other types."""
    if not k_pack and form != "e2m1":
        raise fail(AssertionError, "only mxfp4 inputs can be packed along a dimension different than K: "
                   f"{name}_k_pack=False goes with {name}_format=\"e2m1\", not {form!r}", argument=f"{name}_k_pack")
    if scale is None:
        return
    if not isinstance(scale, tensor) or _kind(scale) not in _SCALES:
        found = scale.dtype if isinstance(scale, tensor) else repr(scale)
        raise fail(AssertionError, f"{name}_scale must be a tile of uint8 exponents or of fp8e4nv, not {found}",
                   hint="keep exponents as bytes: 2 ** (s - 127)", argument=f"{name}_scale")


def unpacked_size(x, form, k_pack, axis):
    """The size of the last axis (K) in elements."""
    return x.shape[axis] * (2 if form == "e2m1" and k_pack else 1)


def common_float(*forms):
    """What both operands are multiplied in: bf16 holds every format but fp16, which keeps its bits in f32.

    >>> common_float("e2m1", "e5m2"), common_float("fp16", "e4m3")
    (bf16, f32)
    """
    return T.f32 if "fp16" in forms else T.bf16


def upcast(b, name, x, scale, form, k_pack, fast_math, wide):
    """A tile with K last as `wide` (bf16 or f32), each group along K multiplied by its scale."""
    stored, target = FORMATS[form]
    if _kind(x) not in stored:
        raise fail(AssertionError, f"Unexpected dtype of {name} for {form}: {x.dtype}", argument=name)
    x = convert(b, _from_fp4(b, x, k_pack) if target is None else bitcast(b, x, target), wide)
    if scale is None:
        return x
    rows, k = x.shape[-2:]
    if scale.shape[:-1] != x.shape[:-1] or not scale.shape[-1] or k % scale.shape[-1]:
        group = 16 if _kind(scale) is T.f8e4nv else 32
        raise fail(AssertionError, f"{name}_scale must be a tensor of shape {[*x.shape[:-1], k // group]}: it must be "
                   f"a tensor of shape [..., {rows}, {k // group}] for groups of {group}. Got {list(scale.shape)}",
                   hint="both scales have K last: [M, K // 32] and [N, K // 32]",
                   argument=f"{name}_scale")
    factors = _spread_groups(b, convert(b, _scale_values(b, scale, fast_math), wide), k // scale.shape[-1])
    return tensor(ops.mul(b, x.handle, factors.handle))


def _from_fp4(b, x, k_pack):
    """Unpack pairs of 4-bit floats along K (the last axis), or along the axis before it."""
    return _fp4_values(b, _halves(b, x, k_pack))


def _halves(b, x, k_pack):
    """The codes of pairs of 4-bit floats."""
    codes = bitcast(b, x, T.u8)
    low = ops.and_(b, codes.handle, _number(b, codes, 15))
    high = ops.shr(b, codes.handle, _number(b, codes, 4))
    pairs = ops.join(b, low, high)
    *batch, rows, columns = x.shape
    if k_pack:
        both = ops.reshape(b, pairs, shape=(*batch, rows, columns * 2))
    else:
        rank = len(batch)
        between = ops.trans(b, pairs, order=(*range(rank), rank, rank + 2, rank + 1))
        both = ops.reshape(b, between, shape=(*batch, rows * 2, columns))
    return tensor(both)


def alike(b, sides):
    """(tiles, formats) of two operands with K last, as tensor cores take them: a 4-bit one beside an 8-bit one becomes
    e4m3, which has all its values. `sides` are (tile, format)."""
    forms = [form for _, form in sides]
    if len({form == "e2m1" for form in forms}) == 1:
        return [x for x, _ in sides], tuple(forms)
    made = [tensor(_fp4_codes(b, _halves(b, x, True))) if form == "e2m1" else x for x, form in sides]
    return made, tuple("e4m3" if form == "e2m1" else form for form in forms)


def _fp4_codes(b, codes):
    """seem -> seeeemmm: exponent and mantissa move up by two bits and the bias changes by 6; 0 and 0.5 are special."""
    size = tensor(ops.and_(b, codes.handle, _number(b, codes, 7)))
    sign = ops.shl(b, ops.and_(b, codes.handle, _number(b, codes, 8)), _number(b, codes, 4))
    normal = ops.add(b, ops.shl(b, size.handle, _number(b, codes, 2)), _number(b, codes, 6 << 3))
    is_half = ops.eq(b, size.handle, _number(b, codes, 1))
    bits = ops.select(b, is_half, _number(b, codes, 6 << 3), normal)
    bits = ops.select(b, is_nonzero(b, size).handle, bits, _number(b, codes, 0))
    return ops.or_(b, bits, sign)


def _fp4_values(b, codes):
    """seem -> bf16: exponent and mantissa move up by six bits and the bias changes by 126; 0 and 0.5 are special."""
    wide = convert(b, codes, T.u16)
    size = tensor(ops.and_(b, wide.handle, _number(b, wide, 7)))
    sign = ops.shl(b, ops.and_(b, wide.handle, _number(b, wide, 8)), _number(b, wide, 12))
    normal = ops.add(b, ops.shl(b, size.handle, _number(b, wide, 6)), _number(b, wide, 126 << 7))
    is_half = ops.eq(b, size.handle, _number(b, wide, 1))
    bits = ops.select(b, is_half, _number(b, wide, 126 << 7), normal)
    bits = ops.select(b, is_nonzero(b, size).handle, bits, _number(b, wide, 0))
    return bitcast(b, tensor(ops.or_(b, bits, sign)), T.bf16)


def _scale_values(b, scale, fast_math):
    """Scales as bf16: 8-bit floats are converted, bytes are exponents (255 is NaN, unless `fast_math` rules it out)."""
    if is_fp8(_kind(scale)):
        return convert(b, scale, T.bf16)
    wide = convert(b, bitcast(b, scale, T.u8), T.u16)
    bits = ops.shl(b, wide.handle, _number(b, wide, 7))
    bits = ops.select(b, is_nonzero(b, wide).handle, bits, _number(b, wide, 0x40))  # 2**-127 is subnormal
    values = bitcast(b, tensor(bits), T.bf16)
    if fast_math:
        return values
    nan = spread(b, constant(b, float("nan"), T.bf16), values.shape)
    is_nan = ops.eq(b, wide.handle, _number(b, wide, 255))
    return tensor(ops.select(b, is_nan, nan.handle, values.handle))


def _spread_groups(b, x, group):
    """Each element of the last axis repeated `group` times."""
    shape = (*x.shape, group)
    repeated = ops.broadcast(b, ops.expand_dims(b, x.handle, axis=len(x.shape)), shape=shape)
    return tensor(ops.reshape(b, repeated, shape=(*x.shape[:-1], x.shape[-1] * group)))
