"""The program model: ids, loops, promises to the compiler, barriers."""

from __future__ import annotations

import builtins

from tritium.errors import fail
from tritium.ir import types as T

from ..types.constants import unwrap
from ..types.promotion import promote
from ..types.values import number, tensor, to_tensor
from .calling import builtin, current
from .casting import convert
from .deferred import ops
from .operators import truth
from .shaping import constant_int

__all__ = [
    "assume", "condition", "debug_barrier", "max_constancy", "max_contiguous", "multiple_of", "num_programs",
    "program_id", "range", "static_range",
]  # fmt: skip


def _grid_axis(what, axis):
    axis = constant_int(axis, "axis")
    if axis not in (0, 1, 2):
        raise fail(ValueError, f"{what} axis must be 0, 1, or 2 but got {axis}", hint="a grid has at most three axes",
                   argument="axis")
    return axis


@builtin
def program_id(b, axis):
    """This program's index along an axis (0, 1 or 2) of the launch grid, as an int32 scalar.

        start = tl.program_id(axis=0) * BLOCK
    """
    return tensor(ops.program_id(b, axis=_grid_axis("program_id", axis)))


@builtin
def num_programs(b, axis):
    """How many programs run along an axis (0, 1 or 2) of the launch grid, as an int32 scalar.

        for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0)): ...
    """
    return tensor(ops.num_programs(b, axis=_grid_axis("num_programs", axis)))


# ---------------------------------------------------------------------------------------------------------------------
# Loops


class range:
    """A loop's values, as Python's range gives them, with scheduling hints that never change a result.

        for k in tl.range(0, K, BLOCK_K, num_stages=3): ...
    """

    HINTS = ("num_stages", "loop_unroll_factor", "disallow_acc_multi_buffer", "flatten", "warp_specialize",
             "disable_licm")  # fmt: skip

    def __init__(self, arg1, arg2=None, step=None, num_stages=None, loop_unroll_factor=None,
                 disallow_acc_multi_buffer=False, flatten=False, warp_specialize=False, disable_licm=False):
        arg1, arg2, step = unwrap(arg1), unwrap(arg2), unwrap(step)
        self.start, self.end = (0, arg1) if arg2 is None else (arg1, arg2)
        self.step = 1 if step is None else step
        self.num_stages, self.loop_unroll_factor = unwrap(num_stages), unwrap(loop_unroll_factor)
        self.disallow_acc_multi_buffer, self.flatten = unwrap(disallow_acc_multi_buffer), unwrap(flatten)
        self.warp_specialize, self.disable_licm = unwrap(warp_specialize), unwrap(disable_licm)

    def bounds(self, b):
        """start, end and step as scalars of one integer type."""
        values = [to_tensor(b, value) for value in (self.start, self.end, self.step)]
        for name, value in zip(("start", "end", "step"), values):
            if value.shape or not value.dtype.is_int():
                raise fail(TypeError, f"For loop bounds and step must all be ints, {name} is {value.type}",
                           hint="a loop has one bound for the whole program: use a scalar, such as tl.max(x, 0)"
                           if value.shape else "divide with //, or cast it with .to(tl.int32)")
        kinds = [T.element(value.handle.type) for value in values]
        kind = promote(promote(kinds[0], kinds[1]), kinds[2])
        return [convert(b, value, kind) for value in values]

    def __iter__(self):
        """Eager kernels: each index is a tensor, as in a compiled one."""
        b = current()
        start, end, step = self.bounds(b)
        for index in builtins.range(int(start), int(end), int(step)):
            yield convert(b, to_tensor(b, index), T.element(start.handle.type))


class static_range:
    """A loop that is unrolled while the kernel is compiled: its index is a compile-time constant.

    >>> list(static_range(0, 6, 2))
    [0, 2, 4]
    """

    def __init__(self, arg1, arg2=None, step=None):
        for name, value in (("arg1", arg1), ("arg2", arg2), ("step", step)):
            if (value is not None or name == "arg1") and not isinstance(number(unwrap(value)), int):
                raise fail(AssertionError, f"{name} of static_range must be a constexpr integer",
                           hint="use tl.range for bounds known only at run time", argument=name)
        self.start, self.end = (0, int(unwrap(arg1))) if arg2 is None else (int(unwrap(arg1)), int(unwrap(arg2)))
        self.step = 1 if step is None else int(unwrap(step))

    def __iter__(self):
        return iter(builtins.range(self.start, self.end, self.step))

    def __len__(self):
        return len(builtins.range(self.start, self.end, self.step))


class condition:
    """The test of a `while` loop, with a scheduling hint.

        while tl.condition(n > 0, disable_licm=True): ...
    """

    def __init__(self, arg1, disable_licm=False):
        self.condition, self.disable_licm = arg1, unwrap(disable_licm)

    def __bool__(self):
        return bool(self.condition)


# ---------------------------------------------------------------------------------------------------------------------
# Promises and barriers


def _promise(b, what, x, values, attribute):
    x = unwrap(x)
    if not isinstance(x, tensor):
        return x  # a constant has nothing to promise
    values = unwrap(values)
    values = list(values) if isinstance(values, (list, builtins.tuple)) else [values]
    for k, value in enumerate(values):
        if not isinstance(number(unwrap(value)), int):
            raise fail(TypeError, f"values element {k} must have type `constexpr[int]`, got {value!r}",
                       argument="values")
    if max(1, len(x.shape)) != len(values):
        raise fail(ValueError, f"Shape of input to {what} does not match the length of values: {len(x.shape)} axes, "
                   f"{len(values)} values", argument="values")
    return tensor(ops.hint(b, x.handle, **{attribute: builtins.tuple(int(unwrap(v)) for v in values)}))


@builtin
def multiple_of(b, input, values):
    """Promise that every value is divisible by `values` (one number for each axis); gives the input back.

        offsets = tl.multiple_of(offsets, 16)
    """
    return _promise(b, "multiple_of", input, values, "divisible")


@builtin
def max_contiguous(b, input, values):
    """Promise that groups of `values` neighbours count up by 1; gives the input back.

        offsets = tl.max_contiguous(offsets, BLOCK)
    """
    if isinstance(input, tensor) and not input.shape:
        raise fail(ValueError, "Shape of input to max_contiguous does not match the length of values: a scalar has no "
                   "neighbours", argument="input")
    return _promise(b, "max_contiguous", input, values, "contiguous")


@builtin
def max_constancy(b, input, values):
    """Promise that groups of `values` neighbours are equal; gives the input back.

        mask = tl.max_constancy(mask, 8)
    """
    if isinstance(input, tensor) and not input.shape:
        raise fail(ValueError, "Shape of input to max_constancy does not match the length of values: a scalar has no "
                   "neighbours", argument="input")
    return _promise(b, "max_constancy", input, values, "constancy")


@builtin
def assume(b, cond) -> None:
    """Promise that a condition holds; the compiler may use it, the interpreter checks it.

        tl.assume(stride > 0)
        tl.assume(stride % 16 == 0)     # as tl.multiple_of(stride, 16): accesses may be wider
    """
    if cond is True:
        return
    ops.assume(b, truth(b, cond).handle)


@builtin
def debug_barrier(b) -> None:
    """Let all threads of the program meet, and see each other's memory writes.

        tl.store(scratch + lane, x)
        tl.debug_barrier()
        y = tl.load(scratch + (N - 1) - lane)
    """
    ops.barrier(b)
