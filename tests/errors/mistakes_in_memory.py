"""Mistakes in memory."""

# ruff: noqa: F841

import tritium.language as tl

from .cases import mistake


@mistake(x_ptr="*kfp32")
def store_to_const_pointer(x_ptr):
    tl.store(x_ptr, 1.0)


@mistake(x_ptr="*fp32", n="i32", BLOCK=64)
def mask_of_integers(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 0.0, mask=n - offsets)


@mistake(x_ptr="*fp32", BLOCK=64)
def other_without_mask(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK), other=0.0)


@mistake(x_ptr="*fp32", BLOCK=64)
def block_through_a_scalar_pointer(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr, tl.zeros((BLOCK,), tl.float32))


@mistake(x_ptr="*fp32", n="i32", BLOCK=64)
def block_mask_of_a_scalar_pointer(x_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr, mask=tl.arange(0, BLOCK) < n)


@mistake(n="i32")
def load_of_a_number(n):
    x = tl.load(n)


@mistake(x_ptr="*fp32", BLOCK=64)
def value_larger_than_its_pointers(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.zeros((BLOCK, BLOCK), tl.float32))


@mistake(x_ptr="*fp32")
def unknown_cache_modifier(x_ptr):
    x = tl.load(x_ptr, cache_modifier=".xx")


@mistake(x_ptr="*fp32")
def unknown_memory_order(x_ptr):
    tl.atomic_add(x_ptr, 1.0, sem="strong")


@mistake(x_ptr="*fp32")
def dropped_block_pointer(x_ptr):
    block = tl.make_block_ptr(x_ptr, (64,), (1,), (0,), (16,), (0,))
    tl.advance(block, (16,))
    x = tl.load(block)


@mistake(x_ptr="*fp32")
def block_pointer_with_a_longer_order(x_ptr):
    block = tl.make_block_ptr(x_ptr, (64,), (1,), (0,), (16,), (1, 0))


@mistake(x_ptr="*fp32")
def block_pointer_advanced_along_two_axes(x_ptr):
    block = tl.make_block_ptr(x_ptr, (64,), (1,), (0,), (16,), (0,))
    block = tl.advance(block, (16, 0))


@mistake(x_ptr="*fp32", n="i32")
def descriptor_at_one_offset(x_ptr, n):
    tile = tl.make_tensor_descriptor(x_ptr, [n, 64], [64, 1], [16, 64])
    x = tile.load([0])
