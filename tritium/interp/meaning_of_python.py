"""What pieces of Python mean in an eager kernel where they would mean something else in plain Python.

`syntax` puts calls of these functions into the user's code; the builder is the current one.
"""

from __future__ import annotations

import builtins

import numpy as np

from ..language.builtins import elementwise, operators, program
from ..language.types import constants, returned_constants, values

slice, range = builtins.slice, program.range  # what rewritten code finds under these names


def bind(value):
    """What a plain assignment binds: numbers become tensors, in tuples too; anything else stays."""
    if type(value) is values.tensor:
        return value
    if builtins.isinstance(value, constants.constexpr):
        value = value.value
    if values.number(value) is not None:
        return values.to_tensor(values.require("assignment"), value)
    if builtins.isinstance(value, builtins.tuple):
        parts, remake = values.parts_of(value)
        return remake([bind(part) for part in parts])
    return value


def written_as(function, text):
    """A lambda with where its text is: a weak reference to its `Source`, and the syntax."""
    function.text = text
    return function


def keep(value):
    """What `x: tl.constexpr = value` binds: the bare object."""
    return constants.plain(constants.unwrap(value))


def keep_some(value, kept):
    """What `a, b = value` binds where some names were declared with tl.constexpr; `kept` says which, in its form."""
    if builtins.isinstance(kept, builtins.tuple):
        return [keep_some(part, which) for part, which in zip(value, kept)]
    return keep(value) if kept else bind(value)


def chained(symbols, x, *operands):
    """`x < y < z`: each operand but the first given as a function, evaluated once."""
    b, found = values.require("a comparison"), None
    for symbol, operand in zip(symbols, operands):
        y = operand()
        holds = (x is y) is (symbol == "is") if symbol in ("is", "is not") else operators.compare(b, symbol, x, y)
        found = holds if found is None else operators.logical_and(b, found, holds)
        if found is False:
            break
        x = y
    return found


def decide(test):
    """The test of an `if` that a function may return from: a run-time one makes the function's result a tensor."""
    if builtins.isinstance(test, values.tensor):
        values.require("if").decided = True
    return test


def decide_loop(items):
    """The same for a loop that a function may return from."""
    values.require("for").decided = True
    return items


def give_back(value):
    """What `return value` gives: a constant unless a run-time condition chose it."""
    b = values.require("return")
    value = constants.unwrap(value)
    return bind(value) if b.decided and b.dialect.constants_return else returned_constants.returned_eagerly(b, value)


def give_back_constant(value):
    """The same where every `return` of the function gives this constant."""
    return returned_constants.returned_eagerly(values.require("return"), constants.unwrap(value))


def tensor_of(x):
    """The owner of an attribute that tensors have: a number is a tensor there."""
    return values.to_tensor(values.require("an attribute"), x) if values.number(x) is not None else x


def new_axes(x, index):
    """`x[None, ...]`, also of a number; dictionaries may have None among their keys."""
    return x[index] if values.number(x) is None else operators.getitem(values.require("[None]"), x, index)


def setitem(x, index, value):
    """What `x` is after `x[index] = value`: another tile; Python's own containers are changed as ever."""
    if builtins.isinstance(x, values.tensor) or hasattr(x, "with_item"):
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
        if values.is_constant(value) or builtins.isinstance(value, builtins.tuple):
            if bool(value) is decides:
                return value
            continue
        found = value if found is None else combine(values.require("and, or"), found, value)
    return value if found is None else found


def negate(x):
    """`not x`"""
    return operators.unary(values.require("not"), "not", x) if builtins.isinstance(x, values.tensor) else not x


def choose(test, then, other):
    """`then if test else other`: under a run-time test the result is a tensor."""
    taken = then() if test else other()
    return bind(taken) if builtins.isinstance(test, values.tensor) else taken


def isinstance(x, kinds):
    """Python's `isinstance`; what a function returned may be a tensor."""
    return builtins.isinstance(returned_constants.settled(values.current(), x), kinds)


def holds(test):
    """Whether an assertion's condition holds for every element."""
    return bool(np.all(test.handle.data)) if builtins.isinstance(test, values.tensor) else test


def min(*args, **kwargs):
    """Python's `min`, and `tl.minimum` of tensors."""
    return _extreme(builtins.min, "minimum", args, kwargs)


def max(*args, **kwargs):
    """Python's `max`, and `tl.maximum` of tensors."""
    return _extreme(builtins.max, "maximum", args, kwargs)


def _extreme(python, ours, args, kwargs):
    elementwise.check_several(python.__name__, args)
    items = args[0] if len(args) == 1 and builtins.isinstance(args[0], builtins.tuple) else args
    if kwargs or not any(builtins.isinstance(item, values.tensor) for item in items):
        return python(*args, **kwargs)
    elementwise.warn_of_blocks(values.require(ours), ours, items)
    found = items[0]
    for item in items[1:]:
        found = getattr(elementwise, ours)(found, item)
    return found
