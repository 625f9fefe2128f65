"""On an AMD GPU: launches, memory, streams, graphs, messages and what the runtime says of a kernel.

`make test-gpu` runs them where ROCm is, beside every test that runs on the GPU of the machine.
"""

import ctypes

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.amdgcn.runtime.hip import HIP
from tritium.backends.driver import driver
from tritium.backends.gpu_runtime import memory
from tritium.backends.occupancy import MACHINES, machine, occupancy

pytestmark = pytest.mark.gpu("amd")


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)


@triton.jit
def every_type(out_ptr, flag, f, g: tl.float64, h: tl.float16, big, small: tl.int8):
    tl.store(out_ptr, tl.where(flag, (f + g + h).to(tl.float32), 0.0))
    tl.store(out_ptr + 1, (big >> 20).to(tl.float32))
    tl.store(out_ptr + 2, small.to(tl.float32))


@triton.jit
def row_sums(x_ptr, out_ptr, N: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out_ptr + row, tl.sum(tl.load(x_ptr + row * N + tl.arange(0, N)), axis=0))


@triton.jit
def printing(x_ptr):
    tl.device_print("value", tl.load(x_ptr))


N = 5000
X, Y = np.random.default_rng(0).random((2, N), dtype=np.float32)


def buffers():
    return memory.to_device(X), memory.to_device(Y), memory.zeros(N)


def test_the_target_is_one_that_tritium_knows():
    target = driver.active.get_current_target()
    assert target.backend == "hip" and target.arch in MACHINES["hip"] and machine(target).warp_size == target.warp_size


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_launches(warps):
    x, y, z = buffers()
    for _ in range(3):  # the slow way, then the native ones
        kernel = add[(triton.cdiv(N, 1024),)](x, y, z, N, BLOCK=1024, num_warps=warps)
    kernel[(triton.cdiv(N, 1024), 1, 1)](x, y, z, N, 1024)
    np.testing.assert_array_equal(z.numpy(), X + Y)


def test_arguments_of_every_type():
    out = memory.zeros(3)
    for _ in range(2):
        every_type[(1,)](out, True, 1.5, 0.25, 2.0, 1 << 40, -3)
    assert out.numpy().tolist() == [3.75, float(1 << 20), -3.0]


@pytest.mark.parametrize("size", [32, 64, 1024, 4096])
def test_warps_and_shared_memory(size):
    x = np.arange(4 * size, dtype=np.float32).reshape(4, size) % 7
    out = memory.zeros(4)
    row_sums[(4,)](memory.to_device(x), out, N=size, num_warps=4)
    np.testing.assert_array_equal(out.numpy(), x.sum(1))


def test_streams_and_events():
    x, y, z = buffers()
    memory.synchronize()
    start, end = memory.Event(enable_timing=True), memory.Event(enable_timing=True)
    with memory.Stream() as stream:
        start.record()
        add[(triton.cdiv(N, 1024),)](x, y, z, N, BLOCK=1024)
        end.record()
    stream.synchronize()
    assert start.elapsed_time(end) > 0
    np.testing.assert_array_equal(z.numpy(), X + Y)


def test_graphs_and_tensors_of_torch():
    torch = pytest.importorskip("torch")
    if not torch.version.hip:
        pytest.skip("torch is not made for ROCm")
    x, y = (torch.from_numpy(a).cuda() for a in (X, Y))
    z, grid = torch.zeros_like(x), (triton.cdiv(N, 1024),)
    add[grid](x, y, z, N, BLOCK=1024)
    graph = torch.cuda.CUDAGraph()
    z.zero_()
    with torch.cuda.graph(graph):
        add[grid](x, y, z, N, BLOCK=1024)
    assert not z.any()
    graph.replay()
    torch.testing.assert_close(z, x + y, rtol=0, atol=0)


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16])
def test_occupancy_is_what_the_runtime_says(warps):
    """S13."""
    x, y, z = buffers()
    kernel = add.warmup(x, y, z, N, grid=(1,), BLOCK=4096, num_warps=warps)
    kernel._init_handles()
    found = ctypes.c_int()
    threads = warps * kernel.metadata.warp_size
    HIP.call("active_blocks", ctypes.byref(found), ctypes.c_void_p(kernel.function), threads, ctypes.c_size_t(0))
    assert occupancy(kernel).programs == found.value


def test_messages(capfd):
    printing[(2,)](memory.to_device(np.array([7], np.int32)))
    memory.synchronize()
    out = capfd.readouterr().out
    assert "pid (0, 0, 0)" in out and "pid (1, 0, 0)" in out and out.count("7") == 2


def test_memory_of_the_host_is_refused():
    _, y, z = buffers()
    with pytest.raises(ValueError, match=r"Pointer argument \(at 0\) cannot be accessed"):
        add[(1,)](X, y, z, N, BLOCK=1024)
