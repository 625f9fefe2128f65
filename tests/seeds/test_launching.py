"""How a kernel is launched: grids, indexing, program ids, warm-up and occupancy (S01-S05, S11, S12)."""

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.seeds.examples import example

N = 98432
add_kernel = example("launching").add_kernel
softmax_kernel = example("softmax_persistent").softmax_kernel


@pytest.fixture
def xy():
    return np.random.default_rng(0).random((2, N), dtype=np.float32)


@pytest.mark.parametrize("grid", [
    lambda meta: (triton.cdiv(N, meta["BLOCK_SIZE"]),), (97,), [97], 97, (97, 1, 1)
], ids=["function", "tuple", "list", "int", "three axes"])
def test_grids(xy, grid):
    x, y = xy
    output = np.full(N + 896, -1, np.float32)
    add_kernel[grid](x, y, output, N, BLOCK_SIZE=1024)
    assert np.array_equal(output[:N], x + y)
    assert (output[N:] == -1).all()  # the last of the 97 programs stores 128 elements


def test_the_grid_function_sees_every_argument(xy):
    x, y = xy
    seen = {}
    output = np.empty_like(x)
    add_kernel[lambda meta: seen.update(meta) or (97,)](x, y, output, N, BLOCK_SIZE=1024)
    assert seen["n_elements"] == N and seen["BLOCK_SIZE"] == 1024 and seen["x_ptr"] is x


def test_indexing_is_getitem_and_returns_a_launcher(xy):
    x, y = xy
    output = np.empty_like(x)
    launcher = add_kernel.__getitem__((97,))
    assert callable(launcher)
    launcher(x, y, BLOCK_SIZE=1024, n_elements=N, output_ptr=output)
    assert np.array_equal(output, x + y)
    add_kernel.run(x, y, output, N, BLOCK_SIZE=1024, grid=(97,), warmup=False)
    assert isinstance(add_kernel, triton.JITFunction) and isinstance(add_kernel, triton.KernelInterface)


def test_cdiv():
    assert triton.cdiv(98432, 1024) == 97 and 98432 // 1024 == 96
    assert triton.next_power_of_2(1000) == 1024


@triton.jit
def ids_kernel(out_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    nx, ny, nz = tl.num_programs(0), tl.num_programs(1), tl.num_programs(2)
    tl.store(out_ptr + (z * ny + y) * nx + x, x + 10 * y + 100 * z + 1000 * nz)


def test_three_axes():
    out = np.zeros((4, 3, 2), np.int32)
    ids_kernel[(2, 3, 4)](out)
    z, y, x = np.indices(out.shape)
    assert np.array_equal(out, x + 10 * y + 100 * z + 4000)


@triton.jit
def fourth_axis_kernel(out_ptr):
    tl.store(out_ptr, tl.program_id(3))


def test_a_fourth_axis_is_an_error_at_its_place():
    with pytest.raises(triton.CompilationError) as caught:
        fourth_axis_kernel[(1,)](np.zeros(1, np.int32))
    assert "axis" in str(caught.value) and "tl.program_id(3)" in str(caught.value)


@triton.jit
def no_constexpr_kernel(x_ptr, BLOCK_SIZE):
    tl.store(x_ptr + tl.arange(0, BLOCK_SIZE), 1.0)


def test_a_block_size_without_constexpr_names_the_parameter():
    with pytest.raises(triton.CompilationError) as caught:
        no_constexpr_kernel[(1,)](np.zeros(64, np.float32), 64)
    text = str(caught.value)
    assert "constexpr" in text and "BLOCK_SIZE" in text and "^" in text


def test_each_block_size_is_compiled_once(xy):
    x, y = xy
    output = np.empty_like(x)
    add_kernel.device_caches.clear()
    for block in (256, 512, 256, 512, 512):
        add_kernel[(triton.cdiv(N, block),)](x, y, output, N, BLOCK_SIZE=block)
    (cache,) = add_kernel.device_caches.values()
    assert len(cache[0]) == 2


# ---------------------------------------------------------------------------------------------------------------------
# Warm-up, figures of the compiled kernel, and a grid made from them


def is_hip():
    return triton.runtime.driver.active.get_current_target().backend == "hip"


def is_cdna():
    return is_hip() and triton.runtime.driver.active.get_current_target().arch in (
        "gfx940", "gfx941", "gfx942", "gfx90a", "gfx908")


def softmax(x):
    driver = triton.runtime.driver
    properties = driver.active.utils.get_device_properties(driver.active.get_current_device())
    num_sm, num_regs = properties["multiprocessor_count"], properties["max_num_regs"]
    size_smem_limit, warp_size = properties["max_shared_mem"], properties["warpSize"]
    n_rows, n_cols = x.shape
    block_size = triton.next_power_of_2(n_cols)
    num_warps, num_stages = 8, 4 if size_smem_limit > 200000 else 2
    y = np.empty_like(x)
    kernel = softmax_kernel.warmup(x, y, n_cols, n_cols, n_rows, n_cols, BLOCK_SIZE=block_size,
                                   num_stages=num_stages, num_warps=num_warps, grid=(1,))
    kernel._init_handles()
    assert kernel.n_spills >= 0 and kernel.n_max_threads > 0
    if is_hip():
        num_gprs = num_regs * 2 if is_cdna() else num_regs
        max_num_waves = properties["max_threads_per_sm"] // warp_size
        occupancy = min(num_gprs // warp_size // kernel.n_regs, max_num_waves) // num_warps
    else:
        occupancy = num_regs // max(kernel.n_regs * warp_size * num_warps, 1)
    occupancy = max(1, min(occupancy, size_smem_limit // max(kernel.metadata.shared, 1)))
    num_programs = min(num_sm * occupancy, n_rows)
    kernel[(num_programs, 1, 1)](x, y, n_cols, n_cols, n_rows, n_cols, block_size, num_stages)
    return y


@pytest.mark.parametrize("shape", [(1823, 781), (3, 64), (1, 1)])
def test_softmax_on_a_grid_sized_from_the_compiled_kernel(shape):
    x = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(softmax(x), e / e.sum(1, keepdims=True), rtol=2e-6)


def test_device_questions_are_answered_on_every_machine():
    """S12."""
    driver = triton.runtime.driver.active
    target = driver.get_current_target()
    assert target.backend in ("cpu", "cuda", "hip") and target.warp_size >= 1 and not is_cdna()
    properties = driver.utils.get_device_properties(0)
    for name in ("max_shared_mem", "max_num_regs", "multiprocessor_count", "warpSize"):
        assert properties[name] > 0, name
