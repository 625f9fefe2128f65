"""The PTX instruction `cvt`: between integers, floats, and floats of 4 and 8 bits in pairs."""

from __future__ import annotations

from ..ir import types as T
from .expression import Expr, ceil_, floor_, maximum, minimum, rint, row, trunc, where
from .ptx_arithmetic import DIRECTIONS, positive, saturated
from .ptx_text import PACKED, SCALARS, Instructions

CONVERSIONS = Instructions()

_PAIRS = {"e4m3x2": T.f8e4nv, "e5m2x2": T.f8e5}
_TYPES = [*[name for name in SCALARS if name[0] in "usf"], "bf16", "f16x2", "bf16x2", *_PAIRS, "e2m1x2", "ue8m0x2",
          "tf32"]  # fmt: skip
_TO_INTEGER = {"rni": rint, "rzi": trunc, "rmi": floor_, "rpi": ceil_}
_LARGEST = {T.f16: 65504.0, T.bf16: float.fromhex("0x1.fep127")}
_NAMES = {T.i32: "int2float", T.u32: "uint2float", T.i64: "ll2float", T.u64: "ull2float"}


@CONVERSIONS((2, 3), "cvt")
def _convert(code, modifiers, d, *xs):
    source, to = modifiers.last(*_TYPES), modifiers.last(*_TYPES)
    rounding = modifiers.take("rna", "rn", "rz", "rm", "rp", *_TO_INTEGER)
    modifiers.take("ftz")
    limits = {name: modifiers.take(name) for name in ("satfinite", "sat", "relu")}
    if modifiers.left or (len(xs) == 2) != (to[-2:] == "x2" and source == "f32"):
        modifiers.refuse()
    if to[-2:] == "x2":
        _to_pair(code, modifiers, d, xs, to, source, rounding, limits)
    elif to == "tf32":
        _to_tf32(code, modifiers, d, xs[0], source, rounding, limits)
    elif source in SCALARS:
        made = _scalar(modifiers, code.read(xs[0], SCALARS[source], wider=True), SCALARS[to], rounding, limits)
        code.write(d, made, extends=True)
    else:
        modifiers.refuse()


# --- one element ------------------------------------------------------------------------------------------------------
def _scalar(modifiers, x, to, rounding, limits):
    source = x.element
    x = positive(x) if limits["relu"] and source.is_float else x
    if limits["relu"] and not (source.is_float and rounding in ("rn", "rz")):
        modifiers.refuse()
    if not to.is_float:
        if limits["satfinite"] or source.is_float != (rounding in _TO_INTEGER):
            modifiers.refuse()
        return _float_to_int(_TO_INTEGER[rounding](_at_least_f32(x)), to) if source.is_float else \
            _between_ints(x, to, limits["sat"])
    made = _int_to_float(modifiers, x, to, rounding) if source.is_int else \
        _between_floats(modifiers, x, to, rounding, limits["satfinite"])
    return saturated(made) if limits["sat"] else made


def _at_least_f32(x):
    return x.cast(T.f32) if x.element.bits < 32 else x


def _between_ints(x, to, saturates):
    """Wrapped, or with `.sat` the nearest that `to` holds."""
    if not saturates:
        return x.cast(to)
    low, high = _range(to)
    own = _range(x.element)
    x = maximum(x, x.const(low)) if low > own[0] else x
    return (minimum(x, x.const(high)) if high < own[1] else x).cast(to)


def _range(t):
    return (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.signed else (0, (1 << t.bits) - 1)


def _float_to_int(x, to):
    """A whole number as an integer: the nearest that `to` holds; of NaN 0, or the top bit of 64-bit conversions."""
    wide = to if to.bits >= 32 else T.i32 if to.signed else T.u32
    made = _between_ints(x.cast(wide), to, True)
    top = _range(to)[0] if to.signed else 1 << to.bits - 1
    return where(x != x, made.const(top), made) if x.element is T.f64 or to.bits == 64 else made


def _int_to_float(modifiers, x, to, rounding):
    wide = x if x.element.bits >= 32 else x.cast(T.i32 if x.element.signed else T.u32)
    exact = to is T.f64 and wide.element.bits == 32
    if rounding in _TO_INTEGER or not (rounding or exact) or rounding == "rna":
        modifiers.refuse()
    if rounding == "rn" or exact:
        if to is T.bf16 and wide.element.bits == 64:
            modifiers.refuse()  # f64 does not hold it
        return (wide.cast(T.f64) if to is T.bf16 else wide).cast(to)
    name = _NAMES[wide.element].replace("float", "double" if to is T.f64 else "float")
    return row(f"{name}_{DIRECTIONS[rounding]}", wide) if to.bits >= 32 else modifiers.refuse()


def _between_floats(modifiers, x, to, rounding, finite):
    if rounding in _TO_INTEGER:
        return _TO_INTEGER[rounding](_at_least_f32(x)).cast(to) if to is x.element else modifiers.refuse()
    narrows = to.bits < x.element.bits or {to, x.element} == {T.f16, T.bf16}
    if narrows != bool(rounding) or rounding == "rna" or finite and to not in _LARGEST:
        modifiers.refuse()
    if finite:
        limit = _LARGEST[to]
        x = _at_least_f32(x)
        x = where(x > limit, limit, where(x < -limit, -limit, x))
    if to is T.f32 and rounding in DIRECTIONS:
        return row(f"double2float_{DIRECTIONS[rounding]}", x)
    if rounding in ("rm", "rp"):
        modifiers.refuse()
    return _at_least_f32(x).cast(to, "rtz" if rounding == "rz" else None) if narrows else x.cast(to)


def _to_tf32(code, modifiers, d, a, source, rounding, limits):
    """f32 with 10 bits of mantissa, halves away from zero."""
    if source != "f32" or rounding not in ("rna", "rz") or any(limits.values()):
        modifiers.refuse()
    x = code.read(a, T.f32)
    bits = x.ubits + (0x1000 if rounding == "rna" else 0) & 0xFFFFE000
    code.write(d, where(abs(x) < float("inf"), bits, x.ubits))


# --- pairs ------------------------------------------------------------------------------------------------------------
def _to_pair(code, modifiers, d, xs, to, source, rounding, limits):
    """The first operand is converted to the high half."""
    if source == "f32":
        lanes = [code.read(x, T.f32) for x in xs[::-1]]
    elif source == "e2m1x2":
        byte = code.read(xs[0], T.u8)
        lanes = [_of_e2m1(byte & 15), _of_e2m1(byte >> 4)]
    elif source == "ue8m0x2":
        lanes = [_of_ue8m0(x) for x in code.unpack(xs[0], T.u8, 2)]
    elif source in _PAIRS or source in PACKED:
        lanes = code.unpack(xs[0], _PAIRS.get(source) or PACKED[source], 2)
    else:
        modifiers.refuse()
    lanes = [positive(x) for x in lanes] if limits["relu"] else lanes
    if to in PACKED and PACKED[to].bits == 16 and source not in PACKED:
        t, sized = PACKED[to], source == "f32"
        if limits["sat"] or not sized and (rounding != "rn" or limits["satfinite"]) or rounding not in ("rn", "rz"):
            modifiers.refuse()
        made = [_between_floats(modifiers, x, t, rounding, limits["satfinite"]) if sized else
                x.cast(T.f32).cast(t) for x in lanes]
        code.pack(d, made)
        return
    if source not in ("f32", "f16x2", "bf16x2") or not limits["satfinite"] or limits["sat"]:
        modifiers.refuse()
    lanes = [x.cast(T.f32) for x in lanes]
    if to == "ue8m0x2":
        if rounding not in ("rz", "rp") or limits["relu"]:
            modifiers.refuse()
        code.pack(d, [_to_ue8m0(x, rounding == "rp") for x in lanes])
        return
    if rounding != "rn":
        modifiers.refuse()
    if to == "e2m1x2":
        low, high = map(_to_e2m1, lanes)
        code.write(d, low | high << 4)
    elif to in _PAIRS:
        code.pack(d, [where(x == x, x.cast(_PAIRS[to]).ubits, 0x7F) for x in lanes])
    else:
        modifiers.refuse()


def _to_e2m1(x):
    """f32 to the nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6, halves to even; NaN gives 6."""
    size, code = abs(x), None
    for k, limit in enumerate((0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)):
        step = (size >= limit if k % 2 else size > limit).cast(T.u8)
        code = step if code is None else code + step
    sign = (x.ubits >> 28).cast(T.u8) & 8
    return where(x == x, code | sign, 7)


def _of_e2m1(code):
    """The f32 of a code of 4 bits."""
    code = code.cast(T.u32)
    size = code & 7
    normal = (size << 22) + (126 << 23)
    return (where(size < 2, size * 0x3F000000, normal) | (code & 8) << 28).bitcast(T.f32)


def _to_ue8m0(x, up):
    """The exponent of |x|, rounded up or down, as a power of two from 2**-127 to 2**127; NaN gives 255."""
    bits = abs(x).ubits
    exponent, fraction = bits >> 23, bits & 0x7FFFFF
    if up:
        above = where(exponent == 0, fraction.const(0x400000), fraction.const(0))
        exponent = exponent + (fraction > above).cast(T.u32)
    return where(x == x, minimum(exponent, exponent.const(254)), 255).cast(T.u8)


def _of_ue8m0(code: Expr):
    """2**(code - 127) as f32."""
    bits = code.cast(T.u32)
    return where(bits == 0, bits.const(0x400000), where(bits == 255, bits.const(0x7FC00000), bits << 23)) \
        .bitcast(T.f32)
