"""`x[index]` of tensors: axes added with None, or one element read and written."""

from __future__ import annotations

import builtins

from tritium.errors import fail
from tritium.ir import types as T

from ..source.dependencies import Compilable
from ..types.constants import unwrap
from ..types.promotion import check_fits
from ..types.values import constant, number, tensor, to_tensor, type_of
from .calling import Builtin
from .casting import convert
from .deferred import ops


def _kind(x):
    return T.element(x.handle.type)


NO_SHAPE = "a pointer knows nothing of the size behind it: pass that as an argument of its own"


def getitem(b, x, index):
    """`x[index]`: new axes with None, whole axes with `:`, or one element with one integer for each axis.

    A `:` behind the last axis has no effect: published kernels write `x[:, :, None, :]` of a tile with two axes. Nor
    has any `:` of a scalar, which has no axes: `tl.program_id(0)[:, None]` has the shape (1,).
    """
    x = unwrap(x)
    if number(x) is not None and _is_shaping(index):
        x = to_tensor(b, x)  # a constant gets axes like a scalar: an argument that equals 1 is one
    if not isinstance(x, tensor):
        return _own_item(b, x, index) if hasattr(x, "remade") else _constant_item(x, index)
    if _is_pointer(x) and not _is_shaping(index):
        raise fail(ValueError, f"unsupported tensor index: {x.dtype} is a pointer, which has no elements of its own",
                   hint="read memory with tl.load(ptr + index)")
    index = index if isinstance(index, builtins.tuple) else (index,)
    if all(map(_is_integer, index)) and index:
        return element_at(b, x, index, x.shape)
    if not x.shape:
        index = [part for part in index if not _is_whole_axis(part)]
    handle = x.handle
    for axis, part in enumerate(index):
        if part is not None:
            if not _is_whole_axis(part):
                raise _unsupported_index(part)
        elif axis > len(T.shape(handle.type)):
            raise fail(ValueError, f"too many indices: a tensor of shape {x.shape} has no axis {axis - 1}")
        else:
            handle = ops.expand_dims(b, handle, axis=axis)
    return tensor(handle)


def setitem(b, x, index, value):
    """The tensor `x` with one element exchanged: what the name holds after `x[index] = value`."""
    if hasattr(x, "with_item"):
        return x.with_item(b, index, value)
    if not isinstance(x, tensor):
        raise fail(TypeError, f"__setitem__ is not supported for {type_of(x)}",
                   hint="only an element of a tile can be assigned")
    if _is_pointer(x):
        raise fail(TypeError, f"__setitem__ is not supported for {x.dtype}",
                   hint="write memory with tl.store(ptr + index, value)")
    return with_element(b, x, index, value, x.shape)


def element_at(b, x, index, dims):
    """The element at `index` of a tile, of which `dims` count."""
    return tensor(ops.extract(b, x.handle, *_positions(b, index, dims)))


def with_element(b, x, index, value, dims):
    """The tile `x` with the element at `index` exchanged; `dims` of it count."""
    at = _positions(b, index, dims)
    value = unwrap(value)
    value = convert(b, to_tensor(b, value), _kind(x)) if isinstance(value, tensor) else _element(b, value, _kind(x))
    value = only_element(b, value)
    if value.shape:
        raise fail(ValueError, f"an element of a tile is a scalar, got shape {value.shape}")
    return tensor(ops.insert(b, x.handle, value.handle, *at))


def _is_pointer(x):
    """Whether `x` is one pointer: a tile of them has elements."""
    return type(_kind(x)) is T.Ptr and not x.shape


def _is_shaping(index):
    """Whether an index adds axes and takes no part of the others."""
    parts = index if isinstance(index, builtins.tuple) else (index,)
    return any(part is None for part in parts) and all(part is None or _is_whole_axis(part) for part in parts)


def only_element(b, x):
    """The element of a tile that has just one, as a scalar; any other tensor as it is."""
    return tensor(ops.reshape(b, x.handle, shape=())) if x.shape and T.numel(x.handle.type) == 1 else x


def _element(b, value, kind):
    """A Python number stored into a tile takes the tile's type."""
    plain = number(value)
    if plain is None or type(kind) is T.Ptr:
        return convert(b, to_tensor(b, value), kind)
    if kind.is_int and not isinstance(plain, float):
        check_fits(kind, plain)
        return constant(b, plain, kind)
    return constant(b, plain, kind) if kind.is_float else convert(b, to_tensor(b, plain), kind)


def _own_item(b, x, index):
    """`x[index]` of an aggregate: its own `__getitem__`, compiled or plain Python."""
    method = getattr(type(x), "__getitem__", None)
    if method is None:
        raise fail(TypeError, f"{type_of(x)} has no items", hint="define `__getitem__` as a @triton.jit method of it")
    return call_own(b, method, x, index)


def call_own(b, method, *args):
    """Call a method of a composite value: compiled, a builtin, or plain Python."""
    if isinstance(method, Builtin):
        return method.fn(b, *args)
    return b.call(method, args, {}) if isinstance(method, Compilable) else method(*args)


def _constant_item(x, index):
    if isinstance(index, tensor) and getattr(index.handle, "data", None) is None:
        raise fail(AssertionError, "a tuple can only be indexed by a compile-time constant",
                   hint="use tl.static_range so that the index is known")
    return x[unwrap(index)]


def _is_whole_axis(part):
    return (hasattr(part, "start") and part.start is None and part.stop is None and part.step is None)


def _is_integer(part):
    part = unwrap(part)
    if isinstance(part, tensor):
        return not T.shape(part.handle.type) and type(_kind(part)) is T.Scalar and _kind(part).is_int
    return isinstance(number(part), int) and not isinstance(part, bool)


def _unsupported_index(part):
    shown = part.type if isinstance(part, tensor) else part
    hint = ("an index mixes None and `:`, or names one element with an integer for each axis; tl.gather takes many "
            "elements")
    if isinstance(part, tensor) and _kind(part) is T.i1:
        hint = "a tile keeps its size: choose with tl.where(mask, x, 0), or store with mask="
    elif hasattr(part, "start"):
        hint = "a tile keeps its size: load the part alone, with its own tl.arange, or take elements with tl.gather"
    return fail(ValueError, f"unsupported tensor index: {shown}", hint=hint)


def _positions(b, index, dims):
    """One i32 or i64 handle for each axis; constants are checked against the shape and may count from the end."""
    index = index if isinstance(index, builtins.tuple) else (index,)
    for part in index:
        if not _is_integer(part):
            raise _unsupported_index(part)
    if len(index) != len(dims):
        raise fail(ValueError, f"unsupported tensor index: {len(index)} integers for shape {tuple(dims)}",
                   hint="give one integer for each axis, or reduce the axis with tl.sum and a mask")
    handles = []
    for axis, (part, size) in enumerate(zip(index, dims)):
        part = unwrap(part)
        if isinstance(part, tensor):
            handles.append(convert(b, part, T.i64 if _kind(part).bits == 64 else T.i32).handle)
            continue
        place = int(part) + (size if part < 0 else 0)
        if not 0 <= place < size:
            raise fail(IndexError, f"index {part} is out of range for axis {axis} of size {size}")
        handles.append(constant(b, place, T.i32).handle)
    return handles
