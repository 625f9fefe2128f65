"""Global memory: `load`, `store` and atomics through pointers and tiles of pointers."""

from __future__ import annotations

from tritium.errors import fail
from tritium.ir import types as T

from ..types.constants import unwrap
from ..types.dtypes import from_ir
from ..types.limits import check_fp8
from ..types.values import constant, number, tensor, to_tensor
from .broadcasting import broadcast_together, spread
from .calling import builtin
from .casting import bitcast, convert, splat_constant
from .deferred import ops
from .indexing import only_element

__all__ = [
    "atomic_add", "atomic_and", "atomic_cas", "atomic_load", "atomic_max", "atomic_min", "atomic_or", "atomic_store",
    "atomic_xchg", "atomic_xor", "load", "store",
]  # fmt: skip

LOAD_CACHES = ("", ".ca", ".cg", ".cv", ".cs")
STORE_CACHES = ("", ".wb", ".cg", ".cs", ".wt")
EVICTIONS = ("", "evict_first", "evict_last")
SEMANTICS = ("acquire", "release", "acq_rel", "relaxed")
SCOPES = ("cta", "gpu", "sys")


def cache_modifier_of(value, allowed):
    """A cache modifier, with or without its dot; "none" is none."""
    plain = unwrap(value) or ""
    dotted = plain if plain == "" or str(plain).startswith(".") else f".{plain}"
    return choose("" if plain == "none" else dotted, allowed, "Cache modifier", "cache_modifier")


def eviction_of(value):
    """An eviction policy; "evict_normal" is none."""
    plain = unwrap(value)
    return choose("" if plain == "evict_normal" else plain, EVICTIONS, "Eviction policy", "eviction_policy")


def choose(value, allowed, what, argument):
    """A string option, or an error that lists what it may be."""
    value = unwrap(value) or ""
    if value not in allowed:
        short = str(value).removeprefix(".") if what == "Cache modifier" else value
        raise fail(ValueError, f"{what} {value} not supported: Unsupported {what.lower()} '{short}'",
                   hint=f"use one of {', '.join(repr(a) for a in allowed)}", argument=argument)
    return value


def pointee(x):
    """The IR type a tensor of pointers points to."""
    return T.element(x.handle.type).pointee


def _is_pointer(x):
    return isinstance(x, tensor) and type(T.element(x.handle.type)) is T.Ptr


def _check_pointer(x, where, value=None):
    if not _is_pointer(x):
        if hasattr(x, "block_type"):
            call = "x.store(offsets, value)" if where.endswith("store") else "x.load(offsets)"
            raise fail(ValueError, f"Unsupported ptr type {x.type} in `{where}`", argument="pointer",
                       hint=f"a descriptor x is accessed with its methods: {call}, with one offset per axis")
        shown = x.type if isinstance(x, tensor) else repr(x)
        raise fail(ValueError, f"Unsupported ptr type {shown} in `{where}`",
                   hint=f"the pointer comes first: {where}(pointer, value)" if _is_pointer(value) else
                   "the first argument is a pointer plus offsets, such as x_ptr + tl.arange(0, BLOCK)",
                   argument="pointer")


def _check_boundary_arguments(boundary_check, padding_option, where):
    if boundary_check or padding_option:
        raise fail(ValueError, f"`boundary_check` and `padding_option` of `{where}` need a block pointer: for other "
                   "pointers the compiler does not know the boundary", hint="use mask=, or tl.make_block_ptr",
                   argument="boundary_check")


def _as_mask(b, mask):
    """An int1 tensor; None when there is no mask or it is the constant True."""
    if mask is None or mask is True:
        return None
    mask = to_tensor(b, mask)
    if T.element(mask.handle.type) is not T.i1:
        raise fail(ValueError, f"Mask must have boolean scalar type, got {mask.dtype}",
                   hint="compare, for instance offsets < n, or test with != 0", argument="mask")
    return mask


def _through_bytes(b, pointer):
    """Bools live in memory as bytes."""
    if pointee(pointer) is not T.i1:
        return pointer
    const = T.element(pointer.handle.type).const
    return tensor(ops.bitcast(b, pointer.handle, to=T.Ptr(T.i8, const)))


# ---------------------------------------------------------------------------------------------------------------------
# Load and store


@builtin
def load(b, pointer, mask=None, other=None, boundary_check=(), padding_option="", cache_modifier="",
         eviction_policy="", volatile: bool = False):
    """Read memory. Where `mask` is false nothing is read and the value is `other` (0 if not given).

        x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)

    A block pointer is read as a whole tile: `tl.load(block_ptr, boundary_check=(0, 1), padding_option="zero")`.
    """
    hints = {"cache": cache_modifier_of(cache_modifier, LOAD_CACHES),
             "eviction": eviction_of(eviction_policy),
             "volatile": bool(volatile)}
    if hasattr(pointer, "load_tile"):
        return pointer.load_tile(b, mask, other, boundary_check, padding_option, hints)
    _check_pointer(pointer, "tl.load")
    _check_boundary_arguments(boundary_check, padding_option, "tl.load")
    if mask is None and other is not None:
        raise fail(ValueError, "`other` cannot be provided without `mask`", hint="add mask=, or drop other=",
                   argument="other")
    return load_pointers(b, pointer, _as_mask(b, mask), other, hints)


def load_pointers(b, pointer, mask, other, hints):
    """Read through a pointer or tile of pointers; a larger mask or other enlarges the tile."""
    kind = pointee(pointer)
    check_fp8(b, kind)
    given = [x for x in (mask, other if isinstance(other, tensor) else None) if x is not None]
    if not pointer.shape:
        for name, x in (("Mask", mask), ("Other", other)):
            if isinstance(x, tensor) and x.shape:
                raise fail(ValueError, f"{name} argument cannot be block type if pointer argument is not a block",
                           hint="add a tl.arange to the pointer", argument=name.lower())
    elif given:
        pointer = broadcast_together(b, pointer, *given)[0]
    shape = pointer.shape
    operands = [_through_bytes(b, pointer)]
    stored = pointee(operands[0])
    if mask is not None:
        operands.append(spread(b, mask, shape))
        if other is not None:
            operands.append(spread(b, _as_element(b, other, stored), shape))
    out = tensor(ops.load(b, *[x.handle for x in operands], **hints))
    return convert(b, out, kind)


def _as_element(b, value, kind):
    """A value to be stored, in the pointee's type."""
    return convert(b, to_tensor(b, value), kind)


@builtin
def store(b, pointer, value, mask=None, boundary_check=(), cache_modifier="", eviction_policy="") -> None:
    """Write `value`, cast to the pointee's dtype, where `mask` is true.

        tl.store(out_ptr + offsets, x + y, mask=offsets < n)
    """
    hints = {"cache": cache_modifier_of(cache_modifier, STORE_CACHES),
             "eviction": eviction_of(eviction_policy)}
    if hasattr(pointer, "store_tile"):
        return pointer.store_tile(b, value, mask, boundary_check, hints)
    _check_pointer(pointer, "tl.store", value)
    _check_boundary_arguments(boundary_check, "", "tl.store")
    check_writable(pointer)
    store_pointers(b, pointer, value, _as_mask(b, mask), hints)


def check_writable(pointer):
    """Refuse to write through a pointer to constants."""
    if T.element(pointer.handle.type).const:
        raise fail(ValueError, "Cannot store to a constant pointer", hint="drop tl.const from the parameter",
                   argument="pointer")


def store_pointers(b, pointer, value, mask, hints):
    """Write through a pointer or tile of pointers, whose shape is the shape of the write."""
    kind = pointee(pointer)
    if isinstance(value, tensor) and value.dtype.is_ptr() and type(kind) is not T.Ptr and kind.bits != 64:
        raise fail(TypeError, f"cannot cast {value.dtype} to {from_ir(kind)}", argument="value",
                   hint="the value is a pointer: did you mean tl.load(value)?")
    value = _as_element(b, value, kind)
    shape = pointer.shape
    if not shape:
        value = only_element(b, value)
    for name, x in (("Value", value), ("Mask", mask)):
        if x is None:
            continue
        if x.shape and not shape:
            raise fail(ValueError, f"{name} argument cannot be block type if pointer argument is not a block",
                       hint="add a tl.arange to the pointer", argument=name.lower())
        _as_pointers(b, pointer, x)
    pointer = _through_bytes(b, pointer)
    value = convert(b, value, pointee(pointer))
    operands = [pointer, spread(b, value, shape), *([spread(b, mask, shape)] if mask is not None else ())]
    ops.store(b, *[x.handle for x in operands], **hints)


# ---------------------------------------------------------------------------------------------------------------------
# Atomics


def _order(sem, scope):
    return {"sem": choose(sem or "acq_rel", SEMANTICS, "Memory semantic", "sem"),
            "scope": choose(scope or "gpu", SCOPES, "Memory scope", "scope")}


def _check_atomic(pointer, how):
    _check_pointer(pointer, f"tl.atomic_{how}")
    check_writable(pointer)
    kind = pointee(pointer)
    integer = type(kind) is T.Ptr or kind.is_int
    narrow_sum = how == "add" and kind in (T.f16, T.bf16)
    if (kind.bits < 32 and not narrow_sum) or (how in ("and", "or", "xor") and not integer):
        raise fail(ValueError, f"atomic_{how} does not support {from_ir(kind)}",
                   hint="use 32- or 64-bit elements" if kind.bits < 32 else "bits of floats are reached through a "
                   "pointer cast to tl.pointer_type(tl.int32)", argument="pointer")


def _atomic(b, how, pointer, val, mask, sem, scope):
    _check_atomic(pointer, how)
    order = _order(sem, scope)
    kind = pointee(pointer)
    value, mask = _as_element(b, val, kind), _as_mask(b, mask)
    for name, x in (("val", value), ("mask", mask)):
        if x is not None and x.shape and not pointer.shape:
            raise fail(ValueError, f"`{name}` cannot be a block if the pointer is a scalar",
                       hint="add a tl.arange to the pointer", argument=name)
    operands = [_as_pointers(b, pointer, x) for x in (value, mask) if x is not None]
    if how in ("max", "min") and type(kind) is T.Scalar and kind.is_float:
        return _float_extreme(b, how, pointer, *operands, order=order)
    return tensor(ops.atomic(b, pointer.handle, *[x.handle for x in operands], how=how, **order))


def _as_pointers(b, pointer, x):
    """A value or a mask in the shape of the pointers, as in a store: leading axes are added."""
    widened = broadcast_together(b, pointer, x)[0].shape if x.shape else pointer.shape
    if widened != pointer.shape:
        raise fail(ValueError, f"Expected pointer argument to have shape {list(widened)} but got {list(pointer.shape)}",
                   hint="the pointer has the shape of the whole access: broadcast it first, or give the value and the "
                   "mask its axes", argument="pointer")
    return spread(b, x, pointer.shape)


def _float_extreme(b, how, pointer, value, mask=None, *, order):
    """Positive floats order as signed integers, negative ones as unsigned integers the other way round."""
    kind = pointee(pointer)
    signed, unsigned = (T.SCALARS[f"{letter}{kind.bits}"] for letter in "iu")
    bits = bitcast(b, value, signed)
    negative = tensor(ops.lt(b, bits.handle, splat_constant(b, 0, bits.handle.type)))
    positive = tensor(ops.ge(b, bits.handle, splat_constant(b, 0, bits.handle.type)))
    opposite = {"max": "min", "min": "max"}[how]
    old = []
    for lanes, kind_of_bits, which in ((positive, signed, how), (negative, unsigned, opposite)):
        taken = lanes if mask is None else tensor(ops.and_(b, lanes.handle, mask.handle))
        address = convert(b, pointer, T.Ptr(kind_of_bits))
        old.append(bitcast(b, tensor(ops.atomic(b, address.handle, bitcast(b, value, kind_of_bits).handle, taken.handle,
                                                how=which, **order)), kind))
    return tensor(ops.select(b, positive.handle, old[0].handle, old[1].handle))


def _read_modify_write(how, does, example):
    def run(b, pointer, val, mask=None, sem=None, scope=None):
        return _atomic(b, how, pointer, val, mask, sem, scope)
    run.__name__ = run.__qualname__ = f"atomic_{how}"
    run.__doc__ = f"""{does} in one indivisible step; gives the old value back.

        {example}
    """
    return builtin(run)


atomic_add = _read_modify_write("add", "Add to memory", "ticket = tl.atomic_add(counter_ptr, 1)")
atomic_max = _read_modify_write("max", "Keep the larger of memory and `val`", "tl.atomic_max(best_ptr, score)")
atomic_min = _read_modify_write("min", "Keep the smaller of memory and `val`", "tl.atomic_min(first_ptr, index)")
atomic_and = _read_modify_write("and", "`&` into memory", "tl.atomic_and(flags_ptr, ~1)")
atomic_or = _read_modify_write("or", "`|` into memory", "tl.atomic_or(flags_ptr, 1)")
atomic_xor = _read_modify_write("xor", "`^` into memory", "tl.atomic_xor(parity_ptr, bit)")
atomic_xchg = _read_modify_write("xchg", "Exchange memory and `val`", "tl.atomic_xchg(lock_ptr, 0)  # release a lock")


@builtin
def atomic_cas(b, pointer, cmp, val, sem=None, scope=None):
    """Store `val` where memory equals `cmp`, in one indivisible step; gives the old value back.

        while tl.atomic_cas(lock_ptr, 0, 1) == 1:        # take a lock
            pass
    """
    _check_pointer(pointer, "tl.atomic_cas")
    check_writable(pointer)
    order = _order(sem, scope)
    kind = pointee(pointer)
    if kind.bits not in (16, 32, 64):
        raise fail(ValueError, f"atomic_cas only supports elements with width {{16, 32, 64}}, got {from_ir(kind)}: it "
                   "does not support others", argument="pointer")
    operands = [pointer]
    for name, x in (("cmp", cmp), ("val", val)):
        given = T.element(to_tensor(b, x).handle.type)  # integers of either sign are compared and stored as bits
        alike = type(given) is T.Scalar and given.is_int and kind.is_int and given.bits == kind.bits
        x = _as_element(b, x, kind) if number(unwrap(x)) is not None else to_tensor(b, x)
        x = spread(b, x, pointer.shape) if not x.shape else x
        if x.shape != pointer.shape or T.element(x.handle.type) is not kind and not alike:
            raise fail(ValueError, f"`{name}` of atomic_cas must have type {from_ir(kind)} and shape "
                       f"{list(pointer.shape)}, got {x.type}", hint="cast and broadcast it first", argument=name)
        operands.append(convert(b, x, kind))
    found = tensor(ops.atomic_cas(b, *[x.handle for x in operands], **order))
    return convert(b, found, given) if alike else found  # the type of `val`, as in Triton


@builtin
def atomic_load(b, pointer, mask=None, sem=None, scope=None):
    """Read elements that other programs write, each at once; by default, what they wrote before is seen afterwards.

    `sem` is "acquire" or "relaxed". Where `mask` is false nothing is read and the value is unspecified.

        while tl.atomic_load(flag_ptr) == 0:
            pass
    """
    _check_pointer(pointer, "tl.atomic_load")
    kind = pointee(pointer)
    value = constant(b, 0, T.i8 if kind is T.i1 else kind if type(kind) is T.Scalar else T.i64)
    return convert(b, _access(b, "load", pointer, value, mask, sem or "acquire", scope), kind)


@builtin
def atomic_store(b, pointer, val, mask=None, sem=None, scope=None) -> None:
    """Write elements that other programs read: each at once, and by default after all that was written before.

    `sem` is "release" or "relaxed". The value is cast and broadcast as in `tl.store`.

        tl.store(result_ptr, x)
        tl.atomic_store(flag_ptr, 1)
    """
    _check_pointer(pointer, "tl.atomic_store")
    check_writable(pointer)
    _access(b, "store", pointer, _as_element(b, val, pointee(pointer)), mask, sem or "release", scope)


_ACCESS_ORDERS = {"load": ("acquire", "relaxed"), "store": ("release", "relaxed")}


def _access(b, how, pointer, value, mask, sem, scope):
    """An atomic load or store; bools are bytes."""
    order = {"sem": choose(sem, _ACCESS_ORDERS[how], "Memory semantic", "sem"),
             "scope": choose(scope or "gpu", SCOPES, "Memory scope", "scope")}
    where = _through_bytes(b, pointer)
    if type(pointee(where)) is T.Ptr:
        raise fail(ValueError, f"atomic_{how} does not support {from_ir(pointee(where))}",
                   hint="cast the pointer to tl.pointer_type(tl.int64)", argument="pointer")
    value, mask = convert(b, value, pointee(where)), _as_mask(b, mask)
    if not pointer.shape:
        value = only_element(b, value)
    for name, x in (("val", value), ("mask", mask)):
        if x is not None and x.shape and not pointer.shape:
            raise fail(ValueError, f"`{name}` cannot be a block if the pointer is a scalar",
                       hint="add a tl.arange to the pointer", argument=name)
    operands = [_as_pointers(b, where, x) for x in (value, mask) if x is not None]
    return tensor(ops.atomic(b, where.handle, *[x.handle for x in operands], how=how, **order))
