"""Matrix products: `dot` and `dot_scaled`."""

from __future__ import annotations

import builtins

from tritium import knobs
from tritium.errors import fail
from tritium.ir import types as T

from ..types.constants import unwrap
from ..types.dtypes import float32, from_ir
from ..types.limits import capability, limits
from ..types.promotion import is_fp8
from ..types.values import tensor, to_tensor
from .calling import builtin, warn
from .casting import convert, scalar_type, splat_constant
from .deferred import ops
from .microscaling import FORMATS, alike, check_operand, common_float, unpacked_size, upcast
from .shaping import constant_int, permute

__all__ = ["dot", "dot_scaled"]

_SAME = (T.i8, T.f16, T.bf16, T.f32, T.f64)


def _kind(x):
    return T.element(x.handle.type)


def _assert(holds, message, hint=None, argument=None):
    if not holds:
        raise fail(AssertionError, message, hint=hint, argument=argument)


@builtin
def dot(b, input, other, acc=None, input_precision=None, allow_tf32=None, max_num_imprecise_acc=None,
        out_dtype=None):
    """Matrix product `input @ other + acc` of [.., M, K] and [.., K, N] tiles.

    16- and 8-bit floats are summed in float32, int8 in int32. `input_precision` says how far float32 operands may be
    rounded before they are multiplied: "ieee" not at all, "tf32" to 11 bits; "tf32x3", "bf16x3" and "bf16x6" split them
    and keep about 22, 16 and 24. A target may always be more precise: CPUs and the interpreters multiply all of them
    as float32.

        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
    """
    for name, x in (("input", input), ("other", other)):
        _assert(isinstance(x, tensor) and x.shape, f"dot multiplies tiles, `{name}` is {x!r}", argument=name)
    _check_dtypes(input, other)
    _warn_of_deprecated(b, input, other)
    _check_shapes(b, input, other)
    precision = _precision(b, input_precision, allow_tf32)
    imprecise = _imprecise_sums(b, input, other, max_num_imprecise_acc)
    out = _out_kind(input, unwrap(out_dtype), unwrap(acc))
    result, summed = _result_kinds(_kind(input), out)
    shape = (*input.shape[:-1], other.shape[-1])
    start = _accumulator(b, acc, shape, out, summed)
    operands = [_one_batch(b, x) for x in (input, other, start)]
    out = tensor(ops.dot(b, *[x.handle for x in operands], imprecise=imprecise,
                         precision=precision if _kind(input) is T.f32 else "ieee"))
    if len(shape) > 3:
        out = tensor(ops.reshape(b, out.handle, shape=shape))
    return convert(b, out, result)


def _check_dtypes(x, y):
    kinds = (_kind(x), _kind(y))
    if all(map(is_fp8, kinds)):
        return
    names = [str(from_ir(t)) for t in kinds]
    _assert(kinds[0] is not T.u8, "only int8 supported!", hint="cast uint8 operands to int8 or to float16")
    for kind in kinds:
        _assert(kind in _SAME or is_fp8(kind), f"Unsupported dtype {from_ir(kind)} of a dot operand",
                hint="use float8, float16, bfloat16, float32, float64 or int8")
    _assert(kinds[0] is kinds[1], f"Both operands must be same dtype. Got {names[0]} and {names[1]}",
            hint=f"cast one of them, for instance with .to(tl.{from_ir(kinds[0]).codegen_name()})")


def _warn_of_deprecated(b, *operands):
    if capability(b.target) >= 90 and any(_kind(x) is T.f8e4b15 for x in operands):
        warn(b, "operands of a dot of type fp8e4b15 are deprecated on Hopper and later: tensor cores do not take them, "
             "so they are converted first. Use fp8e4nv or fp8e5")


def _check_shapes(b, x, y):
    ranks = len(x.shape), len(y.shape)
    _assert(ranks[0] == ranks[1] >= 2, f"Both inputs must be either 2D or 3D; (lhs: {list(x.shape)} vs rhs: "
            f"{list(y.shape)})", hint="the product of two vectors is tl.sum(x * y, 0); of a matrix and a vector "
            "tl.sum(a * x[None, :], 1)" if 1 in ranks else None)
    _assert(x.shape[:-2] == y.shape[:-2], f"First input batch shape {list(x.shape[:-2])} and second input batch shape "
            f"{list(y.shape[:-2])} must be equal")
    (m, k), (k2, n) = x.shape[-2:], y.shape[-2:]
    _assert(k == k2, f"First input shape ({list(x.shape)}) and second input shape {list(y.shape)} are not compatible "
            f"for matmul (second index of first shape ({k}) must be equal to first index of second shape ({k2})",
            hint=_of_shapes(m, k, k2, n))
    least = limits(b).smallest_k.get(_kind(x).bits, 1)
    _assert(k >= least, f"Input shapes should have M >= 1, N >= 1 and K >= {least}, got M = {m}, N = {n}, K = {k}",
            hint=f"use a BLOCK_K of at least {least} and mask the tail with zeros")


def _of_shapes(m, k, k2, n):
    """The hint for a product of an m x k by a k2 x n matrix: which transpose would fit."""
    if k == n:
        return "the sizes along K differ: tl.trans of the second operand fits"
    if m == k2:
        return "the sizes along K differ: tl.trans of the first operand fits"
    return "load tiles of (M, K) and (K, N), with one K"


def _precision(b, input_precision, allow_tf32):
    input_precision, allow_tf32 = unwrap(input_precision), unwrap(allow_tf32)
    _assert(input_precision is None or allow_tf32 is None,
            "Only one of input_precision and allow_tf32 can be specified", argument="allow_tf32")
    allowed = limits(b).precisions
    if input_precision is None:
        default = knobs.language.fp32_default or allowed[0]
        input_precision = default if allow_tf32 is None else ("tf32" if allow_tf32 else "ieee")
        if allow_tf32 and "tf32" not in allowed:
            input_precision = "ieee"
    _assert(isinstance(input_precision, str) and input_precision.lower() in allowed,
            f"input_precision must be one of {allowed}. Got {input_precision}", argument="input_precision")
    return input_precision.lower()


def _imprecise_sums(b, x, y, asked):
    both = is_fp8(_kind(x)) and is_fp8(_kind(y))
    if asked is None:
        return limits(b).imprecise_sums if both else 0
    asked, k = constant_int(asked, "max_num_imprecise_acc"), x.shape[-1]
    _assert(not both or asked <= k, f"max_num_imprecise_acc ({asked}) must be <= K ({k})",
            argument="max_num_imprecise_acc")
    return asked if both else 0


def _out_kind(x, out_dtype, acc):
    """The type of the sum: as asked, that of the accumulator, or f32."""
    if out_dtype is not None:
        return scalar_type(out_dtype, "out_dtype")
    if not isinstance(acc, tensor):
        return T.f32
    kind = _kind(acc)
    _assert(kind is not T.bf16, "the accumulator is bf16: expected accumulator dtype fp32, got bf16",
            hint="sum in float32 and convert the result", argument="acc")
    _assert(kind is not T.f16 or _kind(x) is T.f16 or is_fp8(_kind(x)),
            f"the accumulator is fp16, the operands are {x.dtype}: expected accumulator dtype fp32, got fp16",
            hint="sum in float32", argument="acc")
    return kind


def _result_kinds(kind, out):
    """The element type of the result, and the one in which products are summed."""
    if kind.is_int:
        return T.i32, T.i32
    if kind is T.f64:
        return T.f64, T.f64
    if kind is T.f32 or kind is T.bf16:
        return T.f32, T.f32
    if out not in (T.f32, T.f16):
        raise fail(ValueError, f"out_dtype={from_ir(out)} is unsupported. Please use out_dtype=float32/float16",
                   hint=f"cast the result with .to(tl.{from_ir(out).codegen_name()})", argument="out_dtype")
    return out, T.f32


def _accumulator(b, acc, shape, out, summed):
    if acc is None:
        return tensor(splat_constant(b, 0, T.Tile(builtins.tuple(shape), summed)))
    acc = to_tensor(b, acc)
    _assert(acc.shape == builtins.tuple(shape), f"the accumulator has shape {list(acc.shape)}, the product "
            f"{list(shape)}", argument="acc")
    _assert(_kind(acc) is out, f"the accumulator is {acc.dtype}, out_dtype is {from_ir(out)}: expected accumulator "
            f"dtype {from_ir(out)}, got {acc.dtype}; pass out_dtype={acc.dtype}",
            hint=f"pass out_dtype=tl.{acc.dtype.codegen_name()}", argument="acc")
    return convert(b, acc, summed)


def _one_batch(b, x):
    """Several batch axes as one."""
    *batch, rows, columns = x.shape
    if len(batch) < 2:
        return x
    count = 1
    for size in batch:
        count *= size
    return tensor(ops.reshape(b, x.handle, shape=(count, rows, columns)))


# ---------------------------------------------------------------------------------------------------------------------
# Block-scaled operands


def _check_groups(k, scales):
    """Groups of 16 or 32 elements share a scale, on both sides alike."""
    sizes = {name: k // scale.shape[-1] for name, scale in scales.items()
             if isinstance(scale, tensor) and scale.shape and scale.shape[-1] and k % scale.shape[-1] == 0}
    for name, size in sizes.items():
        _assert(size in (16, 32), f"scale factor must be 16 or 32. Got {size}", argument=f"{name}_scale")
    _assert(len({*sizes.values()}) < 2, "Operands must have the same scale factor: "
            f"{' and '.join(map(str, sizes.values()))}", argument="rhs_scale")


@builtin
def dot_scaled(b, lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, acc=None, fast_math: bool = False,
               lhs_k_pack: bool = True, rhs_k_pack: bool = True, out_dtype=float32):
    """Matrix product of operands in microscaling formats: groups of 32 (or 16) elements along K share a scale.

    Formats: "e2m1" (two 4-bit floats in a uint8, the first in the low half), "e4m3", "e5m2", "bf16", "fp16". Scales
    are uint8 exponents (2 ** (s - 127)) of shapes [M, K // 32] and [N, K // 32], or None. Operands are multiplied in
    bf16, or in f32 when one of them is fp16, so that neither loses bits.

        acc = tl.dot_scaled(a, a_scale, "e2m1", b, b_scale, "e4m3", acc)
    """
    if scalar_type(out_dtype, "out_dtype") is not T.f32:
        raise fail(AssertionError, "Only float32 is supported for out_dtype at the moment", argument="out_dtype")
    sides = []
    for name, x, form, k_pack in (("lhs", lhs, lhs_format, lhs_k_pack), ("rhs", rhs, rhs_format, rhs_k_pack)):
        form = unwrap(form)
        _assert(form in FORMATS, f"{name}_format must be one of {', '.join(FORMATS)}; got {form!r}",
                argument=f"{name}_format")
        _assert(isinstance(x, tensor) and len(x.shape) in (2, 3), f"dot_scaled multiplies 2-d or 3-d tiles, `{name}` "
                f"is {f'of shape {x.shape}' if isinstance(x, tensor) else repr(x)}", argument=name)
        check_operand(name, unwrap(lhs_scale if name == "lhs" else rhs_scale), form, bool(unwrap(k_pack)))
        sides.append((x, form, bool(unwrap(k_pack))))
    _assert(len(lhs.shape) == len(rhs.shape), f"Both inputs must be either 2D or 3D; (lhs: {list(lhs.shape)} vs rhs: "
            f"{list(rhs.shape)})")
    _assert(lhs.shape[:-2] == rhs.shape[:-2], f"the batches of lhs {list(lhs.shape[:-2])} and of rhs "
            f"{list(rhs.shape[:-2])} must be equal", argument="rhs")
    (lhs, lhs_format, lhs_k_pack), (rhs, rhs_format, rhs_k_pack) = sides
    # Both with K last: the scales of either side then lie along the last axis.
    rank = len(lhs.shape)
    swap = [*range(rank - 2), rank - 1, rank - 2]
    rhs = permute.fn(b, rhs, *swap)
    k = unpacked_size(lhs, lhs_format, lhs_k_pack, -1)
    _assert(k == unpacked_size(rhs, rhs_format, rhs_k_pack, -1), "Reduction dimension should pack the same number of "
            f"elements; (lhs: {k} vs rhs: {unpacked_size(rhs, rhs_format, rhs_k_pack, -1)})")
    _check_groups(k, {"lhs": unwrap(lhs_scale), "rhs": unwrap(rhs_scale)})
    wide = common_float(lhs_format, rhs_format)
    left = upcast(b, "lhs", lhs, unwrap(lhs_scale), lhs_format, lhs_k_pack, bool(fast_math), wide)
    right = upcast(b, "rhs", rhs, unwrap(rhs_scale), rhs_format, rhs_k_pack, bool(fast_math), wide)
    start = _accumulator(b, unwrap(acc), (*left.shape[:-1], right.shape[-2]), T.f32, T.f32)
    # tf32 has the bits of fp16 and the range of the scales, so nothing is lost where it is faster.
    precision = "tf32" if wide is T.f32 and "tf32" in limits(b).precisions else "ieee"
    scales, hints, formats = [unwrap(lhs_scale), unwrap(rhs_scale)], [], None
    small = all(form in ("e2m1", "e4m3", "e5m2") for form in (lhs_format, rhs_format))
    if limits(b).scaled and small and rank == 2 and lhs_k_pack and rhs_k_pack and all(x is not None for x in scales):
        (first, second), formats = [lhs, rhs], (lhs_format, rhs_format)
        if not limits(b).mixes_scaled:
            (first, second), formats = alike(b, [(lhs, lhs_format), (rhs, rhs_format)])
        hints = [x.handle for x in (first, permute.fn(b, second, *swap), *scales)]
    return tensor(ops.dot(b, left.handle, permute.fn(b, right, *swap).handle, start.handle, *hints, precision=precision,
                          formats=formats))
