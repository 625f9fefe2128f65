"""Mistakes in control."""

# ruff: noqa: B007

import tritium.language as tl

from .cases import mistake


@mistake(x_ptr="*fp32", BLOCK=64)
def tensor_in_if(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    if x > 0:
        tl.store(x_ptr, 0.0)


@mistake(x_ptr="*fp32", SCALE=1.5)
def float_constant_in_if(x_ptr, SCALE: tl.constexpr):
    if SCALE:
        tl.store(x_ptr, SCALE)


@mistake(x_ptr="*fp32", n="i32")
def type_change_in_loop(x_ptr, n):
    total = 0
    for i in range(n):
        total += tl.load(x_ptr + i)
    tl.store(x_ptr, total)


@mistake(x_ptr="*fp32", n="i32", BLOCK=64)
def shape_change_in_loop(x_ptr, n, BLOCK: tl.constexpr):
    total = 0.0
    for i in range(n):
        total = total + tl.load(x_ptr + i + tl.arange(0, BLOCK))
    tl.store(x_ptr + tl.arange(0, BLOCK), total)


@mistake(x_ptr="*fp32", n="i32", stride=1)
def constant_rebound_in_loop(x_ptr, n, stride):
    for i in range(n):
        stride = stride * 2
    tl.store(x_ptr, stride)


@mistake(x_ptr="*fp32", n="i32")
def type_change_in_branch(x_ptr, n):
    x = 1
    if n > 0:
        x = 2.5
    tl.store(x_ptr, x)


@mistake(x_ptr="*fp32", n="i32")
def branches_disagree(x_ptr, n):
    if n > 0:
        x = 2.5
    else:
        x = 2
    tl.store(x_ptr, x)


@mistake(x_ptr="*fp32", n="i32", BLOCK=64)
def none_in_branch(x_ptr, n, BLOCK: tl.constexpr):
    mask = tl.arange(0, BLOCK) < n
    if n > BLOCK:
        mask = None
    tl.store(x_ptr + tl.arange(0, BLOCK), 0.0, mask=mask)


@mistake(x_ptr="*fp32", n="fp32")
def float_in_range(x_ptr, n):
    for i in range(n):
        tl.store(x_ptr + i, 0.0)


@mistake(x_ptr="*fp32")
def for_over_a_tuple(x_ptr):
    for x in (1, 2, 3):
        tl.store(x_ptr, x)


@mistake(x_ptr="*fp32", n="i32")
def for_with_else(x_ptr, n):
    for i in range(n):
        tl.store(x_ptr + i, 0.0)
    else:
        tl.store(x_ptr, 1.0)


@mistake(x_ptr="*fp32", n="i32")
def runtime_static_range(x_ptr, n):
    for i in tl.static_range(n):
        tl.store(x_ptr + i, 0.0)


@mistake(x_ptr="*fp32")
def try_statement(x_ptr):
    try:
        tl.store(x_ptr, 0.0)
    except ValueError:
        pass


@mistake(x_ptr="*fp32")
def dict_display(x_ptr):
    options = {"a": 1}
    tl.store(x_ptr, options["a"])


@mistake(x_ptr="*fp32")
def nested_function(x_ptr):
    def twice(x):
        return 2 * x

    tl.store(x_ptr, twice(tl.load(x_ptr)))


@mistake(x_ptr="*fp32")
def import_statement(x_ptr):
    import math
    tl.store(x_ptr, math.pi)


@mistake(x_ptr="*fp32", n="i32")
def chained_comparison(x_ptr, n):
    if 0 < n in (1, 2):
        tl.store(x_ptr, 0.0)


@mistake(x_ptr="*fp32", n="i32")
def in_operator(x_ptr, n):
    if n in (1, 2):
        tl.store(x_ptr, 0.0)


@mistake(x_ptr="*fp32", n="i32")
def ternary_of_two_types(x_ptr, n):
    tl.store(x_ptr, 1.0 if n > 0 else 2)


@mistake(x_ptr="*fp32")
def range_without_end(x_ptr):
    for i in range():
        tl.store(x_ptr, i)


@mistake(x_ptr="*fp32", n="i32")
def step_of_zero(x_ptr, n):
    for i in range(0, n, 0):
        tl.store(x_ptr + i, i)
