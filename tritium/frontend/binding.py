"""What an assignment does: which value it binds, and to what."""

from __future__ import annotations

import ast
import builtins

from ..language.builtins import indexing
from ..language.types import dtypes, values
from . import diagnose
from .scope import Closure, describe


def decay(b, value):
    """What a plain assignment binds: constants become tensors, in tuples too; None, dtypes and lambdas stay."""
    if type(value) is values.tensor or value is None or isinstance(value, dtypes.dtype) or type(value) is Closure:
        return value
    composite = values.parts_of(value)
    if composite is None:
        return values.to_tensor(b, value)
    parts, remake = composite
    if isinstance(value, builtins.tuple):
        return remake([decay(b, part) for part in parts])
    return value


def store(b, target, value):
    """Bind a target: a name, a tuple of targets, or an element of a tile."""
    kind = type(target)
    if kind is ast.Name:
        b.frame.bind(target.id, value, target)
    elif kind is ast.Tuple or kind is ast.List:
        _unpack(b, target, value)
    elif kind is ast.Subscript:
        _store_element(b, target, value)
    elif kind is ast.Attribute:
        raise diagnose.error(b, target, "Attribute assignment is not supported in triton",
                             hint="values do not change in a kernel: build a new one")
    else:
        raise diagnose.unsupported(b, target, f"unsupported AST node type: {kind.__name__}")


def _unpack(b, target, value):
    if not isinstance(value, (builtins.tuple, list)):
        raise diagnose.error(b, target, f"cannot unpack {describe(value)} into {len(target.elts)} names",
                             hint="only tuples can be unpacked; tl.sort and tl.topk give values without positions")
    wanted, got = len(target.elts), len(value)
    for part in target.elts:
        if type(part) is ast.Starred:
            raise diagnose.unsupported(b, part, "unsupported AST node type: Starred",
                                       hint=f"name the values one by one: there are {got}"
                                       ) from NotImplementedError("starred assignment is not supported")
    if wanted != got:
        counts = f"not enough values to unpack (expected {wanted}, got {got})" if got < wanted else \
            f"too many values to unpack (expected {wanted}): there are {got}"
        raise diagnose.error(b, target, counts)
    for part, item in zip(target.elts, value):
        store(b, part, item)


def _store_element(b, target, value):
    """`x[i] = v` binds x anew: a tile with one element exchanged."""
    if type(target.value) is not ast.Name:
        shape = type(target.value) is ast.Attribute and target.value.attr == "shape"
        raise diagnose.error(b, target, "__setitem__ is not supported here: only `name[index] = value` is",
                             hint="a tile keeps its shape: make another one with tl.reshape or tl.broadcast_to" if shape
                             else "bind the tile to a name first")
    owner, index = b.visit(target.value), b.visit(target.slice)
    b.at(target)
    made = b.checked(target, indexing.setitem, owner, index, value)
    b.frame.bind(target.value.id, made, target)
