"""Accesses to tiles of more registers than a thread holds, with strides that nobody knows, and of bools."""

import re

import numpy as np

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import module_of
from tests.backends.gpu.samples import data
from tritium.backends.compiler import BaseBackend, GPUTarget
from tritium.backends.gpu.passes import pipeline
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.compiler import ASTSource
from tritium.insight import emulator
from tritium.ir.text import print_module
from tritium.passes import run


@triton.jit
def scaled_rows(x_ptr, out_ptr, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    for start in range(0, n, C):
        inside = start + j < n
        x = tl.load(x_ptr + i * n + start + j, mask=inside, other=0.0)
        tl.store(out_ptr + i * n + start + j, x.to(tl.float32) * 3.0 + 1.0, mask=inside)


def test_a_large_tile_is_loaded_in_groups(check):
    """Each vector of a tile of 64 registers was waited for before the next was loaded: a store stood between them."""
    args = data("f2", 16, 1008), np.zeros((16, 1008), "f4"), 1008, 16, 512
    text, _ = emulator.llvm_of(module_of(scaled_rows, args)[0])
    before = re.findall(r"ld\.global(?:\.v(\d))?\.b(\d+)", text[: text.index("st.global")])
    assert sum(int(count or 1) * int(bits) for count, bits in before) == 128 * 8
    check(scaled_rows, *args)


@triton.jit
def updated_in_place(a_ptr, b_ptr, out_ptr, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    product = tl.dot(tl.load(a_ptr + i * K + k[None, :]), tl.load(b_ptr + k[:, None] * N + j))
    there = tl.load(out_ptr + i * N + j, mask=i < n, other=0.0)
    tl.store(out_ptr + i * N + j, there + product.to(tl.float16), mask=i < n)


def test_a_large_tile_that_is_updated_in_place_is_loaded_in_groups(check):
    """Beside products each vector is loaded when it is asked for: a store asks for several before it writes one, since
    no load moves above a store."""
    args = data("f2", 128, 32), data("f2", 32, 64), data("f2", 128, 64), 125, 128, 64, 32
    text, _ = emulator.llvm_of(module_of(updated_in_place, args)[0])
    behind = text[: text.index("st.global")]
    before = re.findall(r"ld\.global(?:\.v(\d))?\.b(\d+)", behind[behind.rindex("wgmma") :])
    assert sum(int(count or 1) * int(bits) for count, bits in before) == 128 * 8
    check(updated_in_place, *args)


@triton.jit
def transposed_filter(x_ptr, out_ptr, fine, coarse, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    tl.store(out_ptr + i * C + j, tl.load(x_ptr + i * fine + j * coarse))


def with_layouts(kernel, types, constants, divisible):
    """The text of a kernel with layouts; arguments with these numbers are multiples of 16."""
    attrs = {(k,): [["tt.divisibility", 16]] for k in divisible}
    target = GPUTarget("cuda", 90, 32)
    module = ASTSource(kernel, types, constants, attrs).make_ir(target, BaseBackend(target).parse_options({}))
    module = module.replace(attrs={**module.attrs, "num_warps": 4, "num_stages": 1})
    return print_module(run(module, pipeline(NvTarget.of(90))))


def lanes_of_load(divisible):
    """The lanes of the layout in which the filter is loaded: what each bit adds to the place in a tile of 32 x 64."""
    types = {"x_ptr": "*fp16", "out_ptr": "*fp16", "fine": "i32", "coarse": "i32"}
    text = with_layouts(transposed_filter, types, {"R": 32, "C": 64}, divisible)
    return re.search(r"= load .*layout=\(\(32, 64\), \([^)]*\), \(([^)]*)\)", text)[1]


def test_the_stride_that_is_a_multiple_is_taken_for_the_longer():
    """Lanes follow the axis whose stride is likely the shorter: they share lines of the cache."""
    assert lanes_of_load({0, 1, 3}) == "64, 128, 256, 512, 1024"
    assert lanes_of_load({0, 1, 2}) == lanes_of_load({0, 1}) == "8, 16, 32, 64, 128"


@triton.jit
def positive(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i) > 0)


def test_bools_are_stored_side_by_side():
    """Their pointers are cast to those of bytes, and what is known of addresses got lost there."""
    text = with_layouts(positive, {"x_ptr": "*fp32", "out_ptr": "*i1"}, {"N": 512}, range(2))
    assert re.search(r"\n  store .*vector=4}", text)


@triton.jit
def compacted(x_ptr, ends_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + tl.load(ends_ptr + i) - 1, i, mask=tl.load(x_ptr + i) > 0)


def test_what_is_stored_to_loaded_places_is_stored_by_neighbours(check):
    """Pairs of neighbours in a thread left gaps between what the lanes of a warp store at once."""
    x = data("f4", 512)
    args = x, np.cumsum(x > 0).astype("i4"), np.zeros(512, "i4"), 512
    types = {"x_ptr": "*fp32", "ends_ptr": "*i32", "out_ptr": "*i32"}
    assert with_layouts(compacted, types, {"N": 512}, range(3)).count("(1, 2, 4, 8, 16), (32, 64)), vector=1}") == 3
    check(compacted, *args)
