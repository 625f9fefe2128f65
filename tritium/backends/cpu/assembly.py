"""Inline assembly in the interpreter: each op is compiled and run as machine code."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import ops, passes
from ...ir import types as T
from ...ir.builder import Builder
from ...ir.core import Module, Op, Value
from ...passes.simplify import full
from ..llvm.target import compile_text, cpu_target


def run(op: Op, xs: Any) -> Any:
    """The results of one inline assembly op, as arrays.

    >>> from types import SimpleNamespace
    >>> attrs = {"asm": "", "constraints": "=r,0", "types": (T.i32,), "pure": True, "pack": 1}
    >>> x = np.arange(4, dtype=np.int32)
    >>> y, = run(SimpleNamespace(attrs=attrs, operands=[SimpleNamespace(type=T.Tile((4,), T.i32))], loc=None), [x])
    >>> y.tolist()
    [0, 1, 2, 3]
    """
    from ...ops.meaning import np_dtype
    from ..launcher.calls import pack
    from .runtime.image import Runtime

    shape = T.shape(op.operands[0].type) if op.operands else ()
    entry, arena, _ = _compiled(tuple(op.attrs.items()), tuple(T.element(x.type) for x in op.operands), shape, op.loc)
    arrays = [np.ascontiguousarray(np.broadcast_to(x, shape)) for x in xs]
    outs = [np.empty(shape, np_dtype(t)) for t in op.attrs["types"]]
    slots = b"".join(pack("*i8", a.ctypes.data) for a in (*arrays, *outs))
    Runtime.get().launch_raw(entry, arena, 1, 1, 1, slots)
    return outs


@functools.lru_cache(maxsize=256)
def _compiled(attrs: Mapping[str, Any], kinds: tuple, shape: tuple[int, ...], loc: Any) -> Any:
    """A kernel that only loads, runs the assembly and stores: (its address, its scratch bytes, its library)."""
    from .compile import prepare
    from .lower.function import lower
    from .runtime.image import Runtime

    cpu = cpu_target()
    b = Builder(loc)
    inputs = [_load(b, kind, shape, f"x{k}") for k, kind in enumerate(kinds)]
    made = ops.inline_asm(b, *inputs, **dict(attrs))
    for k, value in enumerate(made if isinstance(made, tuple) else (made,)):
        _store(b, value, shape, f"y{k}")
    module = passes.run(Module("assembly", b.finish()), passes.CLEANUP)
    text, name, arena, _ = lower(prepare(module, cpu), cpu)
    library = Runtime.get().load(compile_text(text, cpu, passes=(), opt=0))
    return library.address(name), arena, library


def _memory_kind(kind: Any) -> Any:
    """The type of an element in memory: bools are bytes, pointers are integers."""
    return T.i8 if kind is T.i1 else T.i64 if type(kind) is T.Ptr else kind


def _pointers(b: Builder, kind: Any, shape: tuple[int, ...], name: str) -> Any:
    base = b.argument(T.Ptr(_memory_kind(kind)), name)
    if not shape:
        return base
    count = T.numel(T.Tile(shape, T.i32))
    flat = ops.addptr(b, ops.splat(b, base, shape=(count,)), ops.arange(b, start=0, end=count))
    return ops.reshape(b, flat, shape=shape) if len(shape) > 1 else flat


def _load(b: Builder, kind: Any, shape: tuple[int, ...], name: str) -> Any:
    x = ops.load(b, _pointers(b, kind, shape, name))
    if kind is T.i1:
        return ops.ne(b, x, full(b, 0, x.type))
    return ops.cast(b, x, to=kind) if type(kind) is T.Ptr else x


def _store(b: Builder, x: Value, shape: tuple[int, ...], name: str) -> None:
    kind = T.element(x.type)
    pointers = _pointers(b, kind, shape, name)
    ops.store(b, pointers, ops.cast(b, x, to=_memory_kind(kind)) if _memory_kind(kind) is not kind else x)
