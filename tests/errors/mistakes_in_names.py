"""Mistakes in names."""

# ruff: noqa: F821, F841

import tritium.language as tl

from .cases import mistake

SCALE = 3.0
TABLE = [1, 2, 3]


@mistake(x_ptr="*fp32", BLOCK=128)
def undefined_name(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + ofsets)
    tl.store(x_ptr + offsets, x)


@mistake(x_ptr="*fp32")
def plain_global(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) * SCALE)


@mistake(x_ptr="*fp32")
def global_list(x_ptr):
    tl.store(x_ptr, TABLE[0])


@mistake(x_ptr="*fp32")
def unknown_tl_name(x_ptr):
    x = tl.laod(x_ptr)
    tl.store(x_ptr, x)


@mistake(x_ptr="*fp32", n="i32")
def bound_in_one_branch(x_ptr, n):
    if n > 3:
        scale = 2.0
    tl.store(x_ptr, scale)


@mistake(x_ptr="*fp32", n="i32")
def bound_in_loop_only(x_ptr, n):
    for i in range(n):
        last = tl.load(x_ptr + i)
    tl.store(x_ptr, last)


@mistake(x_ptr="*fp32")
def python_builtin(x_ptr):
    tl.store(x_ptr, abs(tl.load(x_ptr)))


@mistake(x_ptr="*fp32")
def unknown_attribute(x_ptr):
    x = tl.load(x_ptr)
    tl.store(x_ptr, x.too(tl.float16))


@mistake(n=1)
def method_of_a_constant(n):
    n.append(1)


@mistake(x_ptr="*fp32")
def constexpr_defined_twice(x_ptr):
    SIZE: tl.constexpr = 4
    SIZE: tl.constexpr = 8
    tl.store(x_ptr, SIZE)


@mistake()
def string_in_a_variable():
    mode = "fast"


@mistake(x_ptr="*fp32")
def numpy_in_a_kernel(x_ptr):
    x = tl.load(x_ptr)
    tl.store(x_ptr, np.exp(x))
