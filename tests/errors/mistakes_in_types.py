"""Mistakes in types."""

# ruff: noqa: E711, F841

import tritium.language as tl

from .cases import mistake


@mistake(x_ptr="*fp32", y_ptr="*fp32", BX=128, BY=64)
def shape_mismatch(x_ptr, y_ptr, BX: tl.constexpr, BY: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BX))
    y = tl.load(y_ptr + tl.arange(0, BY))
    tl.store(x_ptr + tl.arange(0, BX), x + y)


@mistake(a="i32", b="u32")
def mixed_signedness_division(a, b):
    c = a // b


@mistake(x_ptr="*u8")
def negative_with_unsigned(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) + -1)


@mistake(x_ptr="*i8")
def number_out_of_range(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) + 300)


@mistake(n="i64")
def integer_too_large(n):
    m = n + 2**70


@mistake(x_ptr="*fp32")
def bits_of_a_float(x_ptr):
    x = tl.load(x_ptr)
    tl.store(x_ptr, x & 1)


@mistake(x_ptr="*fp32")
def floor_division_of_floats(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) // 2.0)


@mistake(x_ptr="*fp32", y_ptr="*fp32")
def adding_pointers(x_ptr, y_ptr):
    tl.store(x_ptr, x_ptr + y_ptr)


@mistake(x_ptr="*fp32", y_ptr="*fp32")
def comparing_pointers(x_ptr, y_ptr):
    if x_ptr < y_ptr:
        tl.store(x_ptr, 1.0)


@mistake(x_ptr="*fp32", BLOCK=64)
def forgotten_load(x_ptr, BLOCK: tl.constexpr):
    x = x_ptr + tl.arange(0, BLOCK)
    tl.store(x_ptr + tl.arange(0, BLOCK), x * 2)


@mistake(x_ptr="*fp32")
def pointer_plus_float(x_ptr):
    tl.store(x_ptr + 1.5, 0.0)


@mistake(x_ptr="*fp16", BLOCK=64)
def math_on_f16(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(x_ptr + offsets, tl.exp(x))


@mistake(x_ptr="*fp32", BLOCK=16)
def matmul_operator(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + offsets)
    tl.store(x_ptr + offsets, x @ x)


@mistake(x_ptr="*fp32")
def power_operator(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) ** 2)


@mistake(n="i32")
def not_of_an_int(n):
    if not n:
        n += 1


@mistake(n="i32", m="i32")
def and_of_ints(n, m):
    if n and m:
        n += 1


@mistake(x_ptr="*fp32")
def dtype_as_a_string(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr).to("float16"))


@mistake(x_ptr="*fp32", n="i32")
def compared_with_none(x_ptr, n):
    if n == None:
        tl.store(x_ptr, 0.0)


@mistake(x_ptr="*fp8e4nv", y_ptr="*i32")
def fp8_with_int(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(x_ptr) + tl.load(y_ptr))
