"""Conversions: `x.to(dtype)`, `tl.cast`, and what operators do implicitly."""

from __future__ import annotations

from tritium.errors import fail
from tritium.ir import types as T

from ..types import dtypes
from ..types.constants import unwrap
from ..types.dtypes import dtype as dtype_class
from ..types.dtypes import from_ir
from ..types.limits import check_fp8
from ..types.promotion import is_fp8
from ..types.values import constant, tensor, to_tensor
from .calling import builtin
from .deferred import ops

__all__ = ["cast"]


def convert(b, x, kind, rounding=None):
    """Tensor `x` with its elements converted to IR type `kind`."""
    source = T.element(x.handle.type)
    if source is kind:
        return x
    check_fp8(b, kind)
    if type(source) is T.Ptr or type(kind) is T.Ptr:
        return _convert_pointer(b, x, source, kind)
    if kind is T.i1:
        return is_nonzero(b, x)
    if (is_fp8(source) and kind.is_int) or (source.is_int and is_fp8(kind)):
        x = tensor(ops.cast(b, x.handle, to=T.f32))  # the formats know no integers
    return tensor(ops.cast(b, x.handle, to=kind, rounding=rounding))


def _convert_pointer(b, x, source, kind):
    pointers = [type(t) is T.Ptr for t in (source, kind)]
    if all(pointers):
        return tensor(ops.bitcast(b, x.handle, to=kind))
    if kind is T.i1:
        return is_nonzero(b, tensor(ops.cast(b, x.handle, to=T.i64)))
    if pointers[1]:
        if not source.is_int:
            raise fail(TypeError, f"cannot cast {from_ir(source)} to {from_ir(kind)}",
                       hint="the type of what a pointer points to is ptr.dtype.element_ty; an address is an int64")
        wide = x if source.bits == 64 else tensor(ops.cast(b, x.handle, to=T.i64))
        return tensor(ops.cast(b, wide.handle, to=kind))
    if not kind.is_int or kind.bits != 64:
        raise fail(TypeError, f"cannot cast {from_ir(source)} to {from_ir(kind)}",
                   hint="an address has 64 bits: use .to(tl.int64) or .to(tl.uint64)")
    return tensor(ops.cast(b, x.handle, to=kind))


def is_nonzero(b, x):
    """x != 0, element by element; NaN is not zero."""
    kind = T.element(x.handle.type)
    if kind is T.i1:
        return x
    if type(kind) is T.Ptr or is_fp8(kind):
        x = convert(b, x, T.i64 if type(kind) is T.Ptr else T.f32)
    return tensor(ops.ne(b, x.handle, splat_constant(b, 0, x.handle.type)))


def splat_constant(b, value, ir_type):
    """The handle of a constant of the shape and element of `ir_type`."""
    scalar = constant(b, value, T.element(ir_type)).handle
    dims = T.shape(ir_type)
    return ops.splat(b, scalar, shape=dims) if dims else scalar


def bitcast(b, x, kind):
    """The same bits read as another type of the same width."""
    source = T.element(x.handle.type)
    if source is kind:
        return x
    if type(source) is T.Ptr or type(kind) is T.Ptr:
        return convert(b, x, kind)
    if source.bits != kind.bits:
        raise fail(ValueError, f"Cannot bitcast data-type of size {source.bits} to data-type of size {kind.bits}",
                   hint=f"{from_ir(source)} and {from_ir(kind)} differ in width; a plain cast converts the value")
    check_fp8(b, kind)
    return tensor(ops.bitcast(b, x.handle, to=kind))


def scalar_type(dtype, argument="dtype"):
    """The IR type of a dtype given by the user."""
    dtype = unwrap(dtype)
    if not isinstance(dtype, dtype_class):
        raise fail(TypeError, f"dtype must be a tl.dtype, got {dtype!r}", hint=_named_alike(dtype), argument=argument)
    return T.element(dtype.ir)


def _named_alike(dtype):
    """A hint: which dtype of the language has the name of one of Python, NumPy or PyTorch."""
    name = str(getattr(dtype, "__name__", dtype)).rpartition(".")[2]
    name = _OTHER_NAMES.get(name, name)
    found = name if isinstance(getattr(dtypes, name, None), dtype_class) else "float32"
    return f"write tl.{found}" + (", not its name" if isinstance(dtype, str) else "")


_OTHER_NAMES = {"bool": "int1", "half": "float16", "int": "int32", "float": "float32", "double": "float64",
                "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64",
                "float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5"}  # fmt: skip


@builtin
def cast(b, input, dtype, fp_downcast_rounding: str | None = None, bitcast: bool = False):
    """Convert to another dtype. Narrowing floats round to nearest even, or towards zero with `"rtz"`.

    With `bitcast` the bits stay and are read as a dtype of the same width.

        y = tl.cast(x, tl.float16)
        bits = tl.cast(x, tl.int32, bitcast=True)    # also written x.to(tl.int32, bitcast=True)
    """
    x, kind = to_tensor(b, input), scalar_type(dtype)
    source = T.element(x.handle.type)
    _check_rounding(source, kind, fp_downcast_rounding)
    if bitcast:
        return _bitcast(b, x, kind)
    return convert(b, x, kind, "rtz" if fp_downcast_rounding == "rtz" else None)


_bitcast = bitcast


def _check_rounding(source, kind, rounding):
    if rounding is None:
        return
    if rounding not in ("rtne", "rtz"):
        raise fail(ValueError, f"Invalid fp_downcast_rounding {rounding!r}", hint='use "rtne" or "rtz"',
                   argument="fp_downcast_rounding")
    narrows = all(type(t) is T.Scalar and t.is_float for t in (source, kind)) and kind.bits < source.bits
    if not narrows and source is not kind:  # kernels for several dtypes say how to round even where there is no need
        raise fail(ValueError, "fp_downcast_rounding should be set only for truncating fp conversions. "
                   f"Source scalar type is {from_ir(source)} and destination type is {from_ir(kind)}",
                   hint="leave it out: this conversion does not round", argument="fp_downcast_rounding")
