"""`tl.core`: the types, values and builtins of the language under one roof, and what extensions are written with."""

from __future__ import annotations

from .builtins import deferred as _deferred
from .builtins.assembly import *  # noqa: F403
from .builtins.block_pointers import *  # noqa: F403
from .builtins.calling import builtin as _internal
from .builtins.calling import is_builtin, user_builtin  # noqa: F401
from .builtins.calling import warn as _warn
from .builtins.casting import *  # noqa: F403
from .builtins.debug import *  # noqa: F403
from .builtins.descriptors import *  # noqa: F403
from .builtins.elementwise import *  # noqa: F403
from .builtins.linalg import *  # noqa: F403
from .builtins.memory import *  # noqa: F403
from .builtins.program import *  # noqa: F403
from .builtins.reductions import *  # noqa: F403
from .builtins.shaping import *  # noqa: F403
from .source import dialect as _dialect
from .source.function import must_use_result  # noqa: F401
from .types.aggregate import *  # noqa: F403
from .types.constants import constexpr
from .types.constants import unwrap as _unwrap_if_constexpr  # noqa: F401
from .types.dtypes import *  # noqa: F403
from .types.dtypes import get_int_dtype  # noqa: F401
from .types.values import Four, Pair, Tiles, slice, tensor, tuple  # noqa: F401
from .types.values import to_tensor as _to_tensor

builtin = user_builtin
extern = user_builtin
CONSTEXPR_0 = constexpr(0)  # a default that libraries' own sorting functions are written with


@_internal
def to_tensor(b, x):
    """A Python number as a scalar tensor; a tensor stays what it is.

        limit = tl.to_tensor(3)
    """
    return _to_tensor(b, x)


@_internal
def _promote_bfloat16_to_float32(b, t):
    """bf16 as float32, others as they are: what libraries' own `minimum` and scans call."""
    return cast.fn(b, t, float32) if t.dtype.is_bf16() else t  # noqa: F405


@_internal
def nanoseconds(b):
    """The time on the device, from an arbitrary start; the same in all threads of a program."""
    return tensor(_deferred.ops.clock(b, what="time"))


@_internal
def warn(b, message: str):
    """Warn about the user's line that called the standard library."""
    _warn(b, message)


@_internal
def dialect_rules(b):
    """What the release of Triton that the caller is written for decides: what the standard library asks."""
    return _dialect.of_builder(b)


# What `tl` exports; the rest is reached as tl.core.x.
__all__ = [  # noqa: F405
    "TRITON_MAX_TENSOR_NUMEL",
    "PropagateNan",
    "abs",
    "add",
    "advance",
    "aggregate_replace",
    "arange",
    "associative_scan",
    "assume",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_store",
    "atomic_xchg",
    "atomic_xor",
    "bfloat16",
    "block_type",
    "broadcast",
    "broadcast_to",
    "cast",
    "cat",
    "ceil",
    "clamp",
    "condition",
    "const",
    "constexpr",
    "constexpr_type",
    "cos",
    "debug_barrier",
    "device_assert",
    "device_print",
    "div_rn",
    "dot",
    "dot_scaled",
    "dtype",
    "erf",
    "exp",
    "exp2",
    "expand_dims",
    "expect_zero",
    "fdiv",
    "float8e4b8",
    "float8e4b15",
    "float8e4nv",
    "float8e5",
    "float8e5b16",
    "float16",
    "float32",
    "float64",
    "floor",
    "fma",
    "full",
    "gather",
    "histogram",
    "inline_asm_elementwise",
    "int1",
    "int8",
    "int16",
    "int32",
    "int64",
    "join",
    "load",
    "load_tensor_descriptor",
    "log",
    "log2",
    "make_block_ptr",
    "make_tensor_descriptor",
    "map_elementwise",
    "max_constancy",
    "max_contiguous",
    "maximum",
    "minimum",
    "mul",
    "multiple_of",
    "num_programs",
    "permute",
    "pi32_t",
    "pointer_type",
    "program_id",
    "range",
    "reduce",
    "reshape",
    "rsqrt",
    "sin",
    "slice",
    "split",
    "sqrt",
    "sqrt_rn",
    "static_assert",
    "static_print",
    "static_range",
    "store",
    "store_tensor_descriptor",
    "str_to_ty",
    "sub",
    "tensor",
    "tensor_descriptor",
    "tensor_descriptor_type",
    "to_tensor",
    "trans",
    "tuple",
    "tuple_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "umulhi",
    "view",
    "void",
    "where",
]  # fmt: skip
