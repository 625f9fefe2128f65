"""Clusters whose producer warps multicast the boxes that all blocks need."""

import ml_dtypes
import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.modules import H100, binary, module_of, run_cuda
from tests.backends.gpu.samples import agree
from tests.backends.gpu.test_tma import attention, by_descriptors, data, product, product_args
from tritium.backends.gpu.analysis.preconditions import Assumptions
from tritium.backends.nvptx.assemble.ptxas import ptxas
from tritium.insight import emulator
from tritium.interp.machine import interpret

e4m3 = ml_dtypes.float8_e4m3fn


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def check(request):
    """A function that runs a kernel and compares every array with what the interpreter makes of it; `shared` tells how
    many boxes blocks bring to each other in an iteration."""

    def run(kernel, *args, grid=(1,), blocks=2, shared=1, **options):
        module, values = module_of(kernel, args)
        mine, theirs = ([x.copy() if isinstance(x, np.ndarray) else x for x in values] for _ in range(2))
        text, metadata = emulator.llvm_of(module, num_ctas=blocks, **options)
        assert metadata["producer_warps"]
        assert text.count(".multicast::cluster") == shared
        (emulator.run if request.param == "emulated" else run_cuda)(module, mine, grid, num_ctas=blocks, **options)
        interpret(module, theirs, grid)
        agree(theirs, mine)

    return run


@pytest.mark.parametrize(("sizes", "tile", "options"), [
    ((128, 128, 128), (128, 64, 64), {}),  # rows of one chunk: every block brings half of them
    ((256, 128, 192), (128, 128, 64), {"num_stages": 4}),  # of two chunks: one each
    ((200, 96, 176), (128, 128, 64), {"num_stages": 2}),
    ((192, 64, 16), (256, 64, 64), {"num_warps": 8}),  # one iteration, a tile larger than the matrix
    ((256, 256, 64), (256, 256, 32), {"num_warps": 8, "shared": 2}),  # of four chunks: two each
    ((256, 128, 128), (256, 128, 64), {"blocks": 4, "shared": 2}),  # of two chunks: a quarter of both
    ((128, 128, 64), (128, 128, 64), {"blocks": 4}),  # the lhs is shared: parts have columns of their own
], ids=str)  # fmt: skip
def test_products(check, sizes, tile, options):
    args, grid = product_args(*sizes, tile)
    check(product, *args, grid=grid, **options)


@pytest.mark.parametrize(("dtype", "blocks"), [(np.float16, 2), (ml_dtypes.bfloat16, 4), (e4m3, 2), (e4m3, 4)], ids=str)
def test_products_of_transposed_matrices(check, dtype, blocks):
    args, grid = product_args(64 * blocks, 64, 256, (64 * blocks, 64, 64), dtype, turned=True)
    check(product, *args, grid=grid, blocks=blocks)


@triton.jit
def wide(a_ptr, b_ptr, c_ptr, K, am, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The rows of b that a program wants begin before it, for some."""
    z = tl.program_id(0) - 1
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * am + step + k[None, :])
        b = tl.load(b_ptr + 64 * BN + (z * 64 + step + k[:, None]) * BN + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + (z + 1) * BM * BN + m[:, None] * BN + n[None, :], total)


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_boxes_that_tma_cannot_load(check, trips):
    """Every block brings them whole for itself, while the other may still be reading what came before."""
    a, b, c = data(np.float16, 128, 320), data(np.float16, 512, 64), np.zeros((3, 128, 64), np.float32)
    check(wide, a, b, c, 64 * trips, 320, 128, 64, 64, grid=(3,))


@pytest.mark.parametrize("looks", [False, True], ids=["certain", "looks"])
def test_descriptors(check, looks, monkeypatch):
    if looks:
        monkeypatch.setattr(Assumptions, "in_range", lambda *args, **options: False)
    m, n, k = 112, 80, 144
    check(by_descriptors, data(np.float16, m, k), data(np.float16, n, k), np.zeros((m, n), np.float32), m, n, k, -16,
          128, 64, 64, grid=(2, 2))  # fmt: skip


@pytest.mark.parametrize(("warps", "rows", "stages"), [(4, 128, 2), (8, 256, 2)])
def test_attention(check, warps, rows, stages):
    """Two boxes with barriers of their own; with 8 warps, groups alternate within each block."""
    q, k, v = (data(np.float16, 2, 256, 64) / 4 for _ in range(3))
    check(attention, q, k, v, np.zeros_like(q), 256, rows, 64, 64, grid=(256 // rows, 2), num_warps=warps,
          num_stages=stages, shared=2)  # fmt: skip


@triton.jit
def rounds_of_tiles(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    across = tl.cdiv(N, BN)
    a_tiles = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c_tiles = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0)):
        i, j = tile // across * BM, tile % across * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a_tiles.load([i, k]), b_tiles.load([k, j]), total)
        c_tiles.store([i, j], total)


def test_loops_over_tiles(check):
    """Programs that iterate over several tiles themselves."""
    m, n, k = 256, 128, 128
    check(rounds_of_tiles, data(np.float16, m, k), data(np.float16, k, n), np.zeros((m, n), np.float32), m, n, k,
          128, 64, 64, grid=(2,))  # fmt: skip


def test_small_boxes_are_not_multicast(check):
    """A quarter of 16 rows is less than what is swizzled as one."""
    args, grid = product_args(256, 64, 64, (256, 64, 16))
    check(product, *args, grid=grid, blocks=4, shared=0)


@pytest.mark.skipif(ptxas() is None, reason="ptxas is not installed")
@pytest.mark.parametrize("blocks", [2, 4])
def test_registers_suffice(blocks):
    """The assembler takes the kernel, whose sums alone need half of a thread's registers."""
    args, _ = product_args(256, 256, 64, (128 * blocks, 256, 64))
    module, _ = module_of(product, args)
    _, metadata = binary(module, H100, num_warps=8, num_stages=4, num_ctas=blocks)
    assert metadata["n_spills"] == 0
