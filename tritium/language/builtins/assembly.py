"""Escapes from the language: inline assembly, and functions of external libraries."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from tritium.errors import fail
from tritium.ir import types as T

from ..types.constants import unwrap
from ..types.dtypes import dtype, from_ir
from ..types.values import tensor, to_tensor, tuple
from .broadcasting import broadcast_together
from .calling import builtin
from .casting import scalar_type
from .deferred import ops
from .shaping import constant_int

__all__ = ["extern_elementwise", "inline_asm_elementwise"]


@builtin
def inline_asm_elementwise(b, asm, constraints, args, dtype: dtype | Sequence[dtype], is_pure, pack) -> Any:
    """Run LLVM inline assembly on every `pack` elements; `dtype` is one dtype, or a sequence for several results.

    Elements of less than 32 bits share 32-bit registers. Which elements are taken together is not specified. PTX that
    only computes on registers runs on every target.

        doubled = tl.inline_asm_elementwise("add.s32 $0, $1, $1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1)
    """
    dtypes = unwrap(dtype)
    several = isinstance(dtypes, (list, builtins.tuple))
    kinds = builtins.tuple(scalar_type(d) for d in (dtypes if several else [dtypes]))
    if not kinds:
        raise fail(ValueError, "inline_asm_elementwise needs at least one output", argument="dtype")
    for name, text in (("asm", asm), ("constraints", constraints)):
        if not isinstance(unwrap(text), str):
            raise fail(TypeError, f"`{name}` must be a string known at compile time, got {text!r}", argument=name)
    xs = [to_tensor(b, x) for x in _listed(args)]
    xs = broadcast_together(b, *xs) if xs else []
    out = ops.inline_asm(b, *[x.handle for x in xs], asm=unwrap(asm), constraints=unwrap(constraints), types=kinds,
                         pure=bool(unwrap(is_pure)), pack=constant_int(pack, "pack"))
    results = [tensor(h) for h in (out if isinstance(out, builtins.tuple) else (out,))]
    return tuple(results) if several else results[0]


def _listed(args):
    args = unwrap(args)
    if isinstance(args, tensor):
        raise fail(TypeError, f"`args` must be a list of tensors, got {args.type}", hint="write [...] around it",
                   argument="args")
    return args


def dispatch(b, args, overloads, name):
    """The overload whose dtypes are exactly those of the arguments, and the arguments in one shape."""
    xs = [to_tensor(b, x) for x in args]
    kinds = builtins.tuple(T.element(x.handle.type) for x in xs)
    if kinds not in overloads:
        shown = [f"({', '.join(str(from_ir(t)) for t in key)})" for key in overloads]
        got = ", ".join(str(from_ir(t)) for t in kinds)
        raise fail(KeyError, f"{name} has no overload for ({got}); it takes {' or '.join(shown)}",
                   hint="cast the arguments with .to(); Python numbers count as int32 or float32")
    return overloads[kinds], broadcast_together(b, *xs)


@builtin
def extern_elementwise(b, lib_name, lib_path, args, arg_type_symbol_dict, is_pure):
    """Call a function of a device library by symbol, chosen by the dtypes of the arguments.

    The symbols of CUDA's and ROCm's math libraries are known on every target.

        y = tl.core.extern_elementwise("", "", [x], {(tl.float32,): ("__nv_asinf", tl.float32)}, is_pure=True)
    """
    from ..extra.library import call_symbol
    overloads = {builtins.tuple(scalar_type(t) for t in key): entry for key, entry in arg_type_symbol_dict.items()}
    (symbol, dtype), xs = dispatch(b, _listed(args), overloads, unwrap(lib_name) or "extern_elementwise")
    return call_symbol(b, symbol, xs, scalar_type(dtype))
