"""What pieces of Python mean in an eager kernel where they would mean something else in plain Python.

`syntax` puts calls of these functions into the user's code; the builder is the current one.
"""

from __future__ import annotations

import builtins

import numpy as np

from ..language import constants, elementwise, operators, program, values

slice, range = builtins.slice, program.range  # what rewritten code finds under these names


def bind(value):
    """What a plain assignment binds: numbers become tensors, in tuples too; anything else stays."""
    if type(value) is values.tensor:
        return value
    if isinstance(value, constants.constexpr):
        value = value.value
    if values.number(value) is not None:
        return values.to_tensor(values.require("assignment"), value)
    if isinstance(value, builtins.tuple):
        parts, remake = values.parts_of(value)
        return remake([bind(part) for part in parts])
    return value


def keep(value):
    """What `x: tl.constexpr = value` binds: the bare object."""
    return constants.unwrap(value)


def new_axes(x, index):
    """`x[None, ...]`, also of a number; dictionaries may have None among their keys."""
    return x[index] if values.number(x) is None else operators.getitem(values.require("[None]"), x, index)


def setitem(x, index, value):
    """What `x` is after `x[index] = value`: another tile; Python's own containers are changed as ever."""
    if isinstance(x, values.tensor):
        return operators.setitem(values.require("item assignment"), x, index, value)
    x[index] = value
    return x


def value_of(x):
    """`x.value`; a constant is its own."""
    return x.value if hasattr(x, "value") else x


def type_of(x):
    """`x.type`; a tuple has the types of its elements, a constant, a tuple of constants too, a `constexpr_type`."""
    if hasattr(x, "type"):
        return x.type
    return values.constexpr_type(x) if type(x) is builtins.tuple and values.is_constant(x) else values.type_of(x)


def both(*operands):
    """`a and b and ...`, each operand given as a function."""
    return _combine(operands, operators.logical_and, decides=False)


def either(*operands):
    """`a or b or ...`, each operand given as a function."""
    return _combine(operands, operators.logical_or, decides=True)


def _combine(operands, combine, decides):
    """As compiled: a constant may decide, and then nothing after it is evaluated; run-time values never do."""
    found = value = None
    for operand in operands:
        value = operand()
        if values.is_constant(value) or isinstance(value, builtins.tuple):
            if bool(value) is decides:
                return value
            continue
        found = value if found is None else combine(values.require("and, or"), found, value)
    return value if found is None else found


def negate(x):
    """`not x`"""
    return operators.unary(values.require("not"), "not", x) if isinstance(x, values.tensor) else not x


def choose(test, then, other):
    """`then if test else other`: under a run-time test the result is a tensor."""
    taken = then() if test else other()
    return bind(taken) if isinstance(test, values.tensor) else taken


def holds(test):
    """Whether an assertion's condition holds for every element."""
    return bool(np.all(test.handle.data)) if isinstance(test, values.tensor) else test


def min(*args, **kwargs):
    """Python's `min`, and `tl.minimum` of tensors."""
    return _extreme(builtins.min, "minimum", args, kwargs)


def max(*args, **kwargs):
    """Python's `max`, and `tl.maximum` of tensors."""
    return _extreme(builtins.max, "maximum", args, kwargs)


def _extreme(python, ours, args, kwargs):
    elementwise.check_several(python.__name__, args)
    items = args[0] if len(args) == 1 and isinstance(args[0], builtins.tuple) else args
    if kwargs or not any(isinstance(item, values.tensor) for item in items):
        return python(*args, **kwargs)
    elementwise.warn_of_blocks(values.require(ours), ours, items)
    found = items[0]
    for item in items[1:]:
        found = getattr(elementwise, ours)(found, item)
    return found
