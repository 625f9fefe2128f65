"""Mistakes in blocks."""

# ruff: noqa: F841

import tritium.language as tl

from .cases import mistake


@mistake(x_ptr="*fp32", BLOCK="i32")
def block_size_without_constexpr(x_ptr, BLOCK):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 0.0)


@mistake(x_ptr="*fp32", BLOCK="i32")
def zeros_without_constexpr(x_ptr, BLOCK):
    acc = tl.zeros((BLOCK,), tl.float32)
    tl.store(x_ptr, tl.sum(acc, 0))


@mistake(x_ptr="*fp32")
def block_size_in_a_variable(x_ptr):
    size = 64 * tl.num_programs(0)
    tl.store(x_ptr + tl.arange(0, size), 0.0)


@mistake(x_ptr="*fp32")
def arange_not_a_power_of_two(x_ptr):
    offsets = tl.arange(0, 100)
    tl.store(x_ptr + offsets, 0.0)


@mistake(x_ptr="*fp32")
def arange_backwards(x_ptr):
    tl.store(x_ptr + tl.arange(8, 4), 0.0)


@mistake(x_ptr="*fp32")
def shape_not_a_power_of_two(x_ptr):
    acc = tl.full([3, 4], 0.0, tl.float32)


@mistake(x_ptr="*fp32")
def tensor_too_large(x_ptr):
    acc = tl.zeros([2048, 2048], tl.float32)


@mistake(x_ptr="*fp32")
def wrong_grid_axis(x_ptr):
    pid = tl.program_id(3)
    tl.store(x_ptr + pid, 0.0)


@mistake(x_ptr="*fp32", BLOCK=64)
def reshape_of_another_size(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    y = tl.reshape(x, (8, 16))


@mistake(x_ptr="*fp16", M=32, K=16, N=64)
def dot_of_wrong_shapes(x_ptr, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    a = tl.zeros((M, K), tl.float16)
    b = tl.zeros((N, M), tl.float16)
    acc = tl.dot(a, b)


@mistake(x_ptr="*fp16", B=32)
def dot_of_two_dtypes(x_ptr, B: tl.constexpr):
    a = tl.zeros((B, B), tl.float16)
    b = tl.zeros((B, B), tl.float32)
    acc = tl.dot(a, b)


@mistake(x_ptr="*fp32", BLOCK=16)
def slice_of_a_tensor(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(x_ptr, x[0:2])


@mistake(x_ptr="*fp32", BLOCK=16)
def index_out_of_range(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(x_ptr, x[16])


@mistake(x_ptr="*fp32", BLOCK=16)
def too_few_indices(x_ptr, BLOCK: tl.constexpr):
    x = tl.zeros((BLOCK, BLOCK), tl.float32)
    tl.store(x_ptr, x[3])


@mistake(x_ptr="*fp32", BLOCK=16)
def reduction_axis(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(x_ptr, tl.sum(x, axis=1))


@mistake(x_ptr="*fp32", BLOCK=16)
def broadcast_to_other_rank(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    y = tl.broadcast_to(x, (BLOCK, BLOCK))
