"""Mistakes in calls."""

# ruff: noqa: F841, RUF059

import math
from typing import NamedTuple

import tritium as triton
import tritium.language as tl

from .cases import mistake


@triton.jit
def scaled(x, factor):
    return x * factor


@triton.jit
def pick(x, flag):
    if flag > 0:
        return x
    return 1


@triton.jit
def endless(x):
    return endless(x + 1)


@triton.jit
def deeper(x, DEPTH: tl.constexpr):
    return deeper(x, DEPTH + 1)


@triton.jit
def add_blocks(x, N: tl.constexpr):
    return x + tl.arange(0, N)


@triton.jit
def calls_add_blocks(x):
    return add_blocks(x, 48)


@triton.jit(noinline=True)
def apart(x):
    return x + 1


@triton.must_use_result("It has no other effect.")
@triton.jit
def costly(x):
    return x * 2


@triton.constexpr_function
def checked_width(n):
    if n > 64:
        raise ValueError(f"{n} columns do not fit")
    return n


class Pair(NamedTuple):
    a: object
    b: object


def increment(x):
    return x + 1


@mistake(x_ptr="*fp32")
def too_many_arguments(x_ptr):
    tl.store(x_ptr, scaled(tl.load(x_ptr), 2.0, 3.0))


@mistake(x_ptr="*fp32")
def missing_argument(x_ptr):
    tl.store(x_ptr, scaled(tl.load(x_ptr)))


@mistake(x_ptr="*fp32")
def unknown_keyword(x_ptr):
    tl.store(x_ptr, scaled(tl.load(x_ptr), scale=2.0))


@mistake(x_ptr="*fp32")
def builtin_without_arguments(x_ptr):
    tl.store(x_ptr)


@mistake(x_ptr="*fp32")
def builtin_with_unknown_keyword(x_ptr):
    x = tl.load(x_ptr, masked=True)


@mistake(x_ptr="*fp32")
def plain_function(x_ptr):
    tl.store(x_ptr, increment(tl.load(x_ptr)))


@mistake(x_ptr="*fp32", n="i32")
def return_types_differ(x_ptr, n):
    tl.store(x_ptr, pick(tl.load(x_ptr), n))


@mistake(x_ptr="*fp32")
def recursion(x_ptr):
    tl.store(x_ptr, endless(tl.load(x_ptr)))


@mistake(x_ptr="*fp32")
def recursion_without_end(x_ptr):
    tl.store(x_ptr, deeper(tl.load(x_ptr), 0))


@mistake(x_ptr="*fp32")
def error_in_a_callee(x_ptr):
    x = calls_add_blocks(tl.program_id(0))
    tl.store(x_ptr + x, 0.0)


@mistake(x_ptr="*fp32")
def block_to_noinline(x_ptr):
    tl.store(x_ptr + tl.arange(0, 8), apart(tl.arange(0, 8)))


@mistake(x_ptr="*fp32")
def unused_result(x_ptr):
    costly(tl.load(x_ptr))


@mistake(BLOCK=100)
def static_assertion(BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 16 == 0, "BLOCK must be a multiple of 16")


@mistake(n="i32")
def static_assertion_at_run_time(n):
    tl.static_assert(n > 0)


@mistake(x_ptr="*fp32")
def f_string_of_a_tensor(x_ptr):
    x = tl.load(x_ptr)
    tl.static_print(f"x is {x}")


@mistake(x_ptr="*fp32")
def attribute_assignment(x_ptr):
    x = tl.load(x_ptr)
    x.scale = 2


@mistake(x_ptr="*fp32")
def tuple_element_assignment(x_ptr):
    pair = (1, 2)
    pair[0] = 3


@mistake(x_ptr="*fp32")
def too_many_values(x_ptr):
    a, b = (1, 2, 3)


@mistake(x_ptr="*fp32")
def too_few_values(x_ptr):
    a, b, c = (1, 2)


@mistake(x_ptr="*fp32")
def unpacked_scalar(x_ptr):
    a, b = tl.load(x_ptr)


@mistake(x_ptr="*fp32")
def math_of_a_tensor(x_ptr):
    tl.store(x_ptr, math.exp(tl.load(x_ptr)))


@mistake(n="i32")
def host_function(n):
    width = triton.next_power_of_2(n)


@mistake(x_ptr="*fp32")
def calling_a_tensor(x_ptr):
    x = tl.load(x_ptr)
    tl.store(x_ptr, x(1))


@mistake(N=100)
def constexpr_function_fails(N: tl.constexpr):
    width: tl.constexpr = checked_width(N)


@mistake(x_ptr="*fp32", BLOCK=16)
def int_of_a_tensor(x_ptr, BLOCK: tl.constexpr):
    n = int(tl.load(x_ptr))


@mistake(x_ptr="*fp32", n="fp32", BLOCK=16)
def combine_with_outer_value(x_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(x_ptr, tl.reduce(x, 0, lambda a, b: a + b * n))


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@mistake(x_ptr="*fp32", BLOCK=16)
def combine_of_two_tiles_takes_one(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    a, b = tl.reduce((x, x), 0, larger)


@mistake(x_ptr="*fp32", BLOCK=16)
def keyword_dict(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr, **BLOCK)


@mistake(MODE=["fast"])
def int_of_a_word(MODE: tl.constexpr):
    n = int(MODE)


@mistake(N=3)
def wrong_format(N: tl.constexpr):
    tl.static_print(f"{N:zz}")


@mistake(x_ptr="*fp32")
def named_tuple_lacks_a_field(x_ptr):
    pair = Pair(tl.load(x_ptr))


@mistake(N=0)
def constant_division_by_zero(N: tl.constexpr):
    BLOCKS: tl.constexpr = 128 // N


@mistake(x_ptr="*fp32")
def isinstance_of_one(x_ptr):
    if isinstance(x_ptr):
        tl.store(x_ptr, 0.0)


@triton.jit(noinline=True)
def endless_apart(x, n):
    if n == 0:
        return x
    return endless_apart(x + 1, n - 1)


@triton.jit(noinline=True)
def calls_apart(x):
    return add_blocks(apart(x), 48)


@mistake(x_ptr="*fp32", n="i32")
def recursion_of_noinline(x_ptr, n):
    tl.store(x_ptr, endless_apart(tl.load(x_ptr), n))


@mistake(x_ptr="*fp32")
def error_in_a_noinline_callee(x_ptr):
    x = calls_apart(tl.program_id(0))
    tl.store(x_ptr + x, 0.0)


@mistake(x_ptr="*i32")
def assembly_of_one_tensor(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 64))
    y = tl.inline_asm_elementwise("neg.s32 $0, $1;", "=r,r", x, dtype=tl.int32, is_pure=True, pack=1)
