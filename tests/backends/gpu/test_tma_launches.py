"""Launches of kernels with tensor maps, and of their fallback variants; on a driver that only records."""

import ctypes
import gc
import re

import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.gpu.test_tma import by_descriptors, grouped, product, stacked
from tests.backends.nvptx import fake_driver
from tritium.backends.driver import driver
from tritium.backends.nvptx.runtime import cuda
from tritium.backends.nvptx.runtime.tensor_map import Template
from tritium.ir.preconditions import preconditions_of


class Tensor:
    """What kernels ask of a tensor."""

    dtype, device = "fp16", "cuda:0"

    def __init__(self, address):
        self.address = address

    def data_ptr(self):
        return self.address

    def get_device(self):
        return 0


@pytest.fixture
def fake(monkeypatch):
    made, _ = fake_driver.install(monkeypatch)
    made.maps, made.parameters = [], 9

    def encode(out, kind, rank, address, dims, steps, box, ones, interleave, swizzle, promotion, fill):
        read = lambda pointer, count, t: tuple((t * count).from_address(pointer))
        made.maps.append((kind, address, read(dims, rank, ctypes.c_uint64), read(steps, rank - 1, ctypes.c_uint64),
                          read(box, rank, ctypes.c_uint32), swizzle))  # fmt: skip
        ctypes.c_uint64.from_address(out).value = address

    def places(out, function, threads, shared):
        fake_driver.word(out, fake_driver.I).value = 1

    def exchange(out, address):
        ctypes.c_uint64.from_address(out).value = address

    made._cuTensorMapReplaceAddress = exchange
    made._cuTensorMapEncodeTiled, made._cuOccupancyMaxActiveBlocksPerMultiprocessor = encode, places
    product.device_caches.clear()
    yield made
    gc.collect()
    driver.reset_active()
    fake_driver.clear()


def launch(a, b, c, m, n, k):
    grid = (triton.cdiv(m, 64) * triton.cdiv(n, 64),)
    return product[grid](a, b, c, m, n, k, k, 1, n, 1, n, 1, 64, 64, 64)


A, B, C = (Tensor(4096 * k) for k in (1, 2, 3))


def test_launches_describe_their_tensors(fake):
    fake.parameters = 9 + 3 + 3
    launch(A, B, C, 4096, 2048, 1024)
    assert fake.maps == [(6, 4096, (1024, 4096), (2048,), (64, 64), 3), (6, 8192, (2048, 1024), (4096,), (64, 64), 3),
                         (6, 12288, (2048, 4096), (4096,), (64, 64), 3)]  # fmt: skip
    found = fake.launches[-1]
    assert found["grid"] == (132, 1, 1) and found["block"] == (160, 1, 1)
    assert found["slots"][9] & 0xFFFFFFFF == 64 * 32 and found["slots"][12:] == [4096, 8192, 12288]


def test_tensor_maps_are_kept_until_a_tensor_differs(fake):
    for _ in range(3):
        launch(A, B, C, 256, 256, 128)
    assert len(fake.maps) == 3 and fake.launches[-1]["grid"] == (16, 1, 1)
    fake.parameters = 9 + 3 + 3
    launch(A, Tensor(1 << 20), C, 256, 256, 128)
    assert len(fake.maps) == 3 and fake.launches[-1]["slots"][12:14] == [4096, 1 << 20]  # only the address is exchanged
    launch(A, Tensor(1 << 20), C, 512, 256, 128)
    assert [x[1:3] for x in fake.maps[3:]] == [(4096, (128, 512)), (12288, (256, 512))]


@pytest.mark.parametrize("by_grid", [True, False])
def test_sizes_follow_from_the_grid_and_from_products_of_arguments(fake, by_grid):
    stacked.device_caches.clear()
    fake.parameters = 6
    stacked[(2, 48)](A, B, C, 2, 48, 128, by_grid, 64, 64, 64)
    assert sorted(x[1:3] for x in fake.maps) == [(4096, (128, 6144)), (8192, (64, 6144)), (12288, (64, 6144))]
    stacked[(4, 48)](A, B, C, 4, 48, 128, by_grid, 64, 64, 64)
    assert sorted(x[1:3] for x in fake.maps[3:]) == [(4096, (128, 12288)), (12288, (64, 12288))]


def as_dims(size):
    """A size as the driver is told it."""
    return size % (1 << 64)


@pytest.mark.parametrize(("heads", "group", "rows"), [(8, 4, 2), (11, 4, 2), (-11, 4, -2), (11, -4, -2), (-9, -4, 2),
                                                      (3, 4, 0), (0, 4, 0), (8, 0, 0), (8, -1, -8)])
def test_sizes_are_quotients_rounded_toward_zero(fake, heads, group, rows):
    """A division by zero traps no more than in a kernel."""
    grouped.device_caches.clear()
    fake.parameters = 7
    kernel = grouped[(3, 5)](A, B, C, 3, heads, group, 520, 64, 64, 64)
    assert not kernel.metadata.tensor_maps  # 520 is no multiple of 16, as strides must be
    kernel = grouped[(3, 5)](A, B, C, 3, heads, group, 512, 64, 64, 64)
    found = sorted(x[1:4] for x in fake.maps)
    assert found == [(4096, (128, as_dims(3 * rows * 64)), (256,)), (8192, (64, 128), (128,)),
                     (12288, (64, as_dims(3 * rows * group * 64)), (128,))]
    compared = [Template(*x).tensor([4096, 8192, 12288, 3, heads, group, 512], (3, 5, 1))
                for x in kernel.metadata.tensor_maps]
    assert sorted((address, tuple(map(as_dims, reversed(sizes)))) for address, sizes, _ in compared) == [
        x[:2] for x in found]


@pytest.mark.parametrize("heads", [3, 0, -8])
def test_sizes_that_are_not_positive_take_another_kernel(fake, heads):
    encode = fake._cuTensorMapEncodeTiled

    def strict(out, kind, rank, address, dims, *rest):
        encode(out, kind, rank, address, dims, *rest)
        return int(not all(1 <= n <= 1 << 32 for n in (ctypes.c_uint64 * rank).from_address(dims)))

    fake._cuTensorMapEncodeTiled = strict
    grouped.device_caches.clear()
    fake.parameters = 7
    for given, block in ((8, 160), (heads, 128), (8, 160)):
        grouped[(3, 5)](A, B, C, 3, given, 4, 512, 64, 64, 64)
        assert fake.launches[-1]["block"] == (block, 1, 1)


@triton.jit
def mixed(a_ptr, b_ptr, c_ptr, K, p, q, B: tl.constexpr):
    rows = tl.minimum(p // q, 100) * tl.maximum(p % q, q) + (p * p * p * q * q * K) // (p * q * K) // 7
    a = tl.make_tensor_descriptor(a_ptr, [rows, K], [K, 1], [B, B])
    b = tl.make_tensor_descriptor(b_ptr, [tl.cdiv(tl.num_programs(1) * K, p), B], [B, 1], [B, B])
    n, total = tl.arange(0, B), tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        total = tl.dot(a.load([0, k]), b.load([k, 0]), total)
    tl.store(c_ptr + n[:, None] * B + n[None, :], total)


@pytest.mark.parametrize(("p", "q"), [(17, 5), (-17, 5), (17, -5), (-17, -5), (5000, 3), (2, 2000), (31, 31)])
def test_values_of_the_host_are_those_of_the_kernel(fake, p, q):
    mixed.device_caches.clear()
    fake.parameters = 6
    kernel = mixed[(1, 9)](A, B, C, 64, p, q, 64)
    quotient = lambda a, b: int(a / b)
    rest = p - quotient(p, q) * q
    rows = min(quotient(p, q), 100) * max(rest, q) + quotient(p * p * q, 7)
    sizes = rows, quotient(9 * 64 + p - 1, p)
    loads = [x[2] for x in fake.maps if x[1] < 12288]
    assert loads == [(64, as_dims(sizes[0])), (64, as_dims(sizes[1]))]
    compared = [Template(*x).tensor([4096, 8192, 12288, 64, p, q], (1, 9, 1)) for x in kernel.metadata.tensor_maps]
    assert [x[1][0] for x in compared][:2] == list(sizes)


@triton.jit
def walking(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    across = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0)):
        i, j = tile // across * BM, tile % across * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            total = tl.dot(a.load([i, k]), b.load([k, j]), total)
        c.store([i, j], total.to(tl.float16))


@pytest.mark.parametrize(("address", "apart"), [(4 << 20, True), ((1 << 20) + 256 * 128 * 2, True), (1 << 20, False),
                                                ((1 << 20) + 256 * 128 * 2 - 16, False), ((2 << 20) - 16, False)])
def test_what_a_loop_writes_lies_apart_from_what_it_loads(fake, address, apart):
    """Or another kernel is launched, whose loads wait for its stores."""
    walking.device_caches.clear()
    fake.parameters = 6
    a, b, c = Tensor(1 << 20), Tensor(2 << 20), Tensor(address)
    for _ in range(2):
        walking[(4,)](a, b, c, 256, 64, 128, 64, 64, 64)
        assert fake.launches[-1]["block"] == ((160, 1, 1) if apart else (128, 1, 1))
    walking[(4,)](a, b, Tensor(8 << 20), 256, 64, 128, 64, 64, 64)
    assert fake.launches[-1]["block"] == (160, 1, 1)


@triton.jit
def walking_halves(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    for tile in range(tl.program_id(0), M // 2 // BM, tl.num_programs(0)):
        a = tl.make_tensor_descriptor(a_ptr, [M // 2, K // 2], [K // 2, 1], [BM, BK])
        b = tl.make_tensor_descriptor(b_ptr, [K // 2, N // 2], [N // 2, 1], [BK, BN])
        c = tl.make_tensor_descriptor(c_ptr, [M // 2, N // 2], [N // 2, 1], [BM, BN])
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K // 2, BK):
            total = tl.dot(a.load([tile * BM, k]), b.load([k, 0]), total)
        c.store([tile * BM, 0], total.to(tl.float16))


@pytest.mark.parametrize(("distance", "apart"), [(256 * 128 * 2, True), (256 * 128 * 2 - 16, False),
                                                 (-256 * 64 * 2, True), (-256 * 64 * 2 + 16, False)])
def test_stores_to_tensors_of_a_quotients_size_lie_apart(fake, distance, apart):
    """Also where descriptors are made in the loop."""
    walking_halves.device_caches.clear()
    fake.parameters = 6
    walking_halves[(4,)](Tensor(1 << 20), Tensor(2 << 20), Tensor((1 << 20) + distance), 512, 128, 256, 64, 64, 64)
    assert fake.launches[-1]["block"] == ((160, 1, 1) if apart else (128, 1, 1))


@pytest.mark.parametrize(("grid", "block"), [(64, 160), (2**21, 160), (2**21 + 1, 128)])
def test_launches_beyond_what_is_granted_take_another_kernel(fake, grid, block):
    """The kernel itself does not look whether boxes are in reach, or small what it divides."""
    kernel = product[(grid,)](A, B, C, 4096, 64, 4096, 4096, 1, 64, 1, 64, 1, 64, 64, 64)
    assert fake.launches[-1]["block"] == (block, 1, 1)
    assert preconditions_of(kernel.metadata).nonnegative
    assert "ld.global" not in kernel.asm["ptx"] and "st.global" not in kernel.asm["ptx"]


@pytest.mark.parametrize(("depth", "grid", "block"), [(16, (64,), 160), (0, (64,), 128), (64, (8, 8), 128),
                                                      (64, (8, 1, 2), 128), (64, (8, 1, 1), 160)])  # fmt: skip
def test_empty_loops_and_further_axes_take_another_kernel(fake, depth, grid, block):
    """Which asks whether there is an iteration, and for its place on the first axis."""
    kernel = product[grid](A, B, C, 512, 512, depth, 64, 1, 512, 1, 512, 1, 64, 64, 64)
    assert fake.launches[-1]["block"] == (block, 1, 1)
    assert kernel.asm["ttgir"].count("nonempty=True") == 4 and not re.search(r"(div|rem)\.u32", kernel.asm["ptx"])


def test_tensors_the_driver_refuses_take_another_kernel(fake):
    launch(A, B, C, 256, 256, 128)
    fake.fail["cuTensorMapEncodeTiled"] = 1
    for _ in range(2):
        launch(A, B, C, 256, 512, 128)
        assert fake.launches[-1]["block"] == (128, 1, 1) and fake.launches[-1]["grid"] == (32, 1, 1)
    del fake.fail["cuTensorMapEncodeTiled"]
    launch(A, B, C, 256, 256, 128)
    assert fake.launches[-1]["block"] == (160, 1, 1)


def test_drivers_without_tensor_maps_take_another_kernel(fake, monkeypatch):
    for name in ("cuTensorMapEncodeTiled", "cuTensorMapReplaceAddress"):
        monkeypatch.delattr(fake, name)
    launch(A, B, C, 256, 256, 128)
    assert fake.launches[-1]["block"] == (128, 1, 1)


def test_more_programs_than_32_bits_count_take_another_kernel(fake):
    fake.parameters = 7
    by_descriptors[(2**30, 4)](A, B, C, 256, 256, 128, 0, 64, 64, 64)
    assert fake.launches[-1]["grid"] == (2**30, 4, 1) and fake.launches[-1]["block"] == (128, 1, 1)
    with pytest.raises(cuda.CudaError, match="at most 2147483647 programs along axis 0 and 65535"):
        by_descriptors[(1, 65536)](A, B, C, 256, 256, 128, 0, 64, 64, 64)
