"""Launches on a real NVIDIA GPU: streams, graphs, dtypes, errors, memory without torch (S01, S07, S11, S12, S44)."""

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium.backends.driver import driver
from tritium.backends.nvptx.runtime import cuda
from tritium.errors import OutOfResources
from tritium.ir.preconditions import preconditions_of
from tritium.runtime import memory
from tritium.tools.occupancy import occupancy

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)


@triton.jit
def combine(out_ptr, flag, f, g: tl.float64, h: tl.float16, b: tl.bfloat16, big, small: tl.int8, last=7):
    tl.store(out_ptr, tl.where(flag, 1.0, 0.0).to(tl.float64))
    tl.store(out_ptr + 1, f.to(tl.float64))
    tl.store(out_ptr + 2, g)
    tl.store(out_ptr + 3, h.to(tl.float64))
    tl.store(out_ptr + 4, b.to(tl.float64))
    tl.store(out_ptr + 5, big.to(tl.float64))
    tl.store(out_ptr + 6, small.to(tl.float64))
    tl.store(out_ptr + 7, last.to(tl.float64))


def inputs(n=98432, dtype=torch.float32):
    x, y = (torch.randint(-8, 8, (n,), device="cuda").to(dtype) for _ in range(2))
    return x, y, torch.zeros(n, device="cuda", dtype=dtype)


def slow_launches(monkeypatch):
    """Count how often the slow way is gone."""
    from tritium.runtime import dispatch
    seen, original = [], dispatch.launch
    monkeypatch.setattr(dispatch, "launch", lambda *args: seen.append(1) or original(*args))
    return seen


@pytest.mark.parametrize("grid", [lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),), (97,), [97], 97],
                         ids=["function", "tuple", "list", "int"])
def test_vector_add(grid, monkeypatch):
    """S01: the slow way once, then the fast one."""
    x, y, z = inputs()
    add[grid](x, y, z, 98432, BLOCK=1024)
    slow = slow_launches(monkeypatch)
    for _ in range(3):
        z.zero_()
        kernel = add[grid](x, y, z, 98432, BLOCK=1024)
        assert torch.equal(z, x + y)
    assert not slow and kernel.name == "add"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int16, torch.int64])
def test_dtypes(dtype):
    x, y, z = inputs(1000, dtype)
    for _ in range(2):
        z.zero_()
        add[(1,)](x, y, z, 1000, BLOCK=1024)
        assert torch.equal(z, x + y)


def test_unaligned_tensors_take_another_kernel():
    x, y, z = inputs(4097)
    add[(4,)](x, y, z, 4097, BLOCK=1024)
    z.zero_()
    add[(4,)](x[1:], y[1:], z[1:], 4096, BLOCK=1024)
    add[(4,)](x[1:], y[1:], z[1:], 4096, BLOCK=1024)
    assert torch.equal(z[1:], x[1:] + y[1:]) and z[0] == 0


@pytest.mark.parametrize("launches", [1, 2], ids=["slow", "fast"])
def test_scalars(launches):
    out = torch.zeros(8, device="cuda", dtype=torch.float64)
    for _ in range(launches):
        combine[(1,)](out, True, 1.5, 0.1, 2.0, -3.0, 2**40, -3)
    assert out.tolist() == [1.0, 1.5, 0.1, 2.0, -3.0, 2.0**40, -3.0, 7.0]


# -- streams, graphs, threads ------------------------------------------------------------------------------------------


def test_launches_are_asynchronous_on_the_current_stream():
    """S07."""
    x, y, z = inputs()
    add[(97,)](x, y, z, 98432, BLOCK=1024)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    z.zero_()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(400_000_000)
        start = time.perf_counter()
        add[(97,)](x, y, z, 98432, BLOCK=1024)
        spent = time.perf_counter() - start
        assert not stream.query() and spent < 0.05
    add[(97,)](x, y, torch.empty_like(z), 98432, BLOCK=1024)  # on the default stream, not behind the other
    stream.synchronize()
    assert torch.equal(z, x + y)


def test_graphs():
    x, y, z = inputs()
    add[(97,)](x, y, z, 98432, BLOCK=1024)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            add[(97,)](x, y, z, 98432, BLOCK=1024)
            add[lambda meta: (97,)](z, y, z, 98432, BLOCK=1024)
    z.zero_()
    torch.cuda.synchronize()
    assert not z.any()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(z, x + y + y)


def test_threads():
    x, y, _ = inputs()
    outs = [torch.zeros_like(x) for _ in range(4)]
    add[(97,)](x, y, outs[0], 98432, BLOCK=1024)
    errors = []

    def work(z):
        try:
            for _ in range(100):
                add[(97,)](x, y, z, 98432, BLOCK=1024)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(z,)) for z in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert not errors and all(torch.equal(z, x + y) for z in outs)


def test_cooperative_and_overlapping_launches():
    x, y, z = inputs()
    for _ in range(2):
        z.zero_()
        add[(97,)](x, y, z, 98432, BLOCK=1024, launch_cooperative_grid=True)
        add[(97,)](z, y, z, 98432, BLOCK=1024, launch_pdl=True)
        torch.cuda.synchronize()
    assert torch.isfinite(z).all()


# -- figures and errors ------------------------------------------------------------------------------------------------


def test_figures_of_the_binary():
    """S11, S12."""
    x, y, z = inputs()
    kernel = add.warmup(x, y, z, 98432, grid=(1,), BLOCK=1024)
    before = kernel.n_regs
    kernel._init_handles()
    assert kernel.n_regs == before > 0 and kernel.n_spills == 0 and kernel.n_max_threads >= 128
    kernel[(97, 1, 1)](x, y, z, 98432, 1024)
    assert torch.equal(z, x + y)
    target = driver.active.get_current_target()
    assert (target.backend, target.warp_size) == ("cuda", 32)
    assert target.arch == 10 * torch.cuda.get_device_capability()[0] + torch.cuda.get_device_capability()[1]
    found, theirs = driver.active.utils.get_device_properties(0), torch.cuda.get_device_properties(0)
    assert found["multiprocessor_count"] == theirs.multi_processor_count


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("limit", [None, 32, 64, 128])
def test_occupancy_is_what_the_driver_says(warps, limit):
    """S13."""
    if limit is not None and limit * warps * 32 > 65536:
        pytest.skip("more registers than a program can have")
    x, y, z = inputs(1 << 14)
    kernel = add.warmup(x, y, z, 1 << 14, grid=(1,), BLOCK=1 << 14, num_warps=warps, maxnreg=limit)
    kernel._init_handles()
    found = ctypes.c_int()
    cuda.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(found), ctypes.c_void_p(kernel.function),
              32 * warps, ctypes.c_size_t(kernel.metadata.shared))
    assert occupancy(kernel).programs == found.value


def test_loading_ptx_by_the_driver():
    x, y, z = inputs()
    kernel = add.warmup(x, y, z, 98432, grid=(1,), BLOCK=1024)
    _module, function, n_regs, n_spills, n_max_threads = driver.active.utils.load_binary(
        "add", kernel.asm["ptx"], kernel.metadata.shared, 0)
    assert function and n_regs > 0 and n_spills == 0 and n_max_threads >= 128


def test_memory_of_the_host_is_refused():
    x, y, z = inputs()
    add[(97,)](x, y, z, 98432, BLOCK=1024)
    with pytest.raises(ValueError, match=r"cannot be accessed from Triton \(cpu tensor\?\)"):
        add[(97,)](x, y.cpu(), z, 98432, BLOCK=1024)


def test_refused_launches_name_kernel_and_grid():
    x, y, z = inputs(64)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"launching add on a grid of \(1, 70000, 1\) failed"):
            add[(1, 70000)](x, y, z, 64, BLOCK=64)
        add[(1,)](x, y, z, 64, BLOCK=64)
    assert torch.equal(z, x + y)


def test_too_many_threads():
    x, y, z = inputs(64)
    with pytest.raises(OutOfResources, match="threads"):
        add[(1,)](x, y, z, 64, BLOCK=64, num_warps=64)


BROKEN = """
    import torch, tritium as triton, tritium.language as tl
    from tritium.runtime import memory

    @triton.jit
    def innocent(x_ptr):
        tl.store(x_ptr, 1.0)

    @triton.jit
    def culprit(x_ptr, far):
        tl.store(x_ptr + far, 1.0)

    x = torch.zeros(4, device="cuda")
    innocent[(1,)](x)
    memory.synchronize()
    try:
        culprit[(1,)](x, 2**40)
        memory.synchronize()
    except RuntimeError as error:
        print("FOUND", str(error).replace(chr(10), " | "))
"""


@pytest.mark.parametrize("blocking", ["0", "1"])
def test_late_errors_name_their_kernel(tmp_path, blocking):
    """S07: in a process of its own, for its context is lost."""
    script = tmp_path / "broken.py"
    script.write_text(textwrap.dedent(BROKEN))
    done = subprocess.run([sys.executable, str(script)], env={**os.environ, "CUDA_LAUNCH_BLOCKING": blocking},
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    found = next(line for line in done.stdout.splitlines() if line.startswith("FOUND"))
    assert "illegal" in found and "culprit" in found and "innocent" not in found, found


# -- memory without torch ----------------------------------------------------------------------------------------------


def test_memory():
    """S44."""
    a, b = np.arange(98432, dtype=np.float32), np.ones(98432, np.float32)
    x, y, z = memory.to_device(a), memory.to_device(b), memory.empty(98432)
    for _ in range(2):
        z.zero_()
        add[(97,)](x, y, z, 98432, BLOCK=1024)
        assert (z.numpy() == a + b).all()
    assert (z.clone().numpy() == a + b).all()
    free, total = memory.memory_info()
    assert 0 < free < total
    shared = torch.as_tensor(z, device="cuda")
    assert shared.data_ptr() == z.data_ptr() and torch.equal(shared.cpu(), torch.from_numpy(a + b))
    z.free()
    with pytest.raises(ValueError, match="freed"):
        add[(97,)](x, y, z, 98432, BLOCK=1024)


def test_pinned_memory_streams_and_events():
    host, back = memory.pinned(1 << 20), memory.pinned(1 << 20)
    host[:] = np.arange(1 << 20)
    x, z = memory.empty(1 << 20), memory.empty(1 << 20)
    start, end = memory.Event(enable_timing=True), memory.Event(enable_timing=True)
    add[(1024,)](x, x, z, 1 << 20, BLOCK=1024)
    with memory.Stream() as stream:
        start.record()
        x.copy_(host, blocking=False)
        add[(1024,)](x, x, z, 1 << 20, BLOCK=1024)
        memory.copy(back, z, blocking=False)
        end.record()
    stream.synchronize()
    assert (back == 2 * host).all() and 0 < start.elapsed_time(end) < 1000 and end.query()


def test_kernels_read_pinned_memory():
    host = memory.pinned(64)
    host[:] = 3
    x, z = memory.empty(64).copy_(np.ones(64, np.float32)), memory.empty(64)

    class Pinned:
        dtype = np.dtype("float32")

        def data_ptr(self):
            return host.ctypes.data

    add[(1,)](x, Pinned(), z, 64, BLOCK=64)
    assert (z.numpy() == 4).all()


def test_without_torch(tmp_path):
    script = tmp_path / "alone.py"
    script.write_text(textwrap.dedent("""
        import sys
        sys.modules["torch"] = None
        import numpy as np, tritium as triton, tritium.language as tl
        from tritium.runtime import driver, memory

        @triton.jit
        def double(x_ptr, n, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, i < n), i < n)

        x = memory.to_device(np.arange(100, dtype=np.int32))
        for _ in range(3):
            double[(1,)](x, 100, BLOCK=128)
        assert (x.numpy() == 8 * np.arange(100)).all()
        interface = driver.active.get_device_interface()
        event = interface.Event(enable_timing=True)
        event.record()
        interface.synchronize()
        print("FINE", triton.testing.do_bench(lambda: double[(1,)](x, 100, BLOCK=128)) > 0)
    """))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert "FINE True" in done.stdout, done.stderr


@pytest.mark.skipif("torch.cuda.device_count() < 2", reason="needs two GPUs")
def test_kernels_run_where_their_tensors_are():
    for device in (1, 0, 1):
        x, y = (torch.rand(1000, device=f"cuda:{device}") for _ in range(2))
        z = torch.empty_like(x)
        for _ in range(2):
            add[(1,)](x, y, z, 1000, BLOCK=1024)
        assert torch.equal(z, x + y) and torch.cuda.current_device() == 0


class Foreign:
    """An array of another library, CuPy's for one: all it shows of its memory is the protocol."""

    def __init__(self, buffer):
        self.buffer = buffer

    @property
    def __cuda_array_interface__(self):
        return self.buffer.__cuda_array_interface__


def test_arrays_of_other_libraries_are_arguments():
    x, y = (np.arange(1000, dtype=np.float32) * k for k in (1, 3))
    a, b, c = (memory.empty(1000, "fp32") for _ in range(3))
    for _ in range(2):
        a.copy_(x), b.copy_(y), c.zero_()
        add[(1,)](*map(Foreign, (a, b, c)), 1000, BLOCK=1024)
        np.testing.assert_array_equal(c.numpy(), x + y)
        x += 1


@triton.jit
def wrapped(x_ptr, out_ptr, start, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    columns = tl.arange(0, BLOCK)
    tl.store(out_ptr + at + columns, tl.load(x_ptr + (start + at + columns) % n))


def test_indices_that_wrap_below_zero():
    """Launches the kernel does not fit go to one that counts on nothing, by the slow way and by the fast one."""
    x, out = torch.arange(1024, device="cuda", dtype=torch.float32), torch.zeros(256, device="cuda")
    for start in (0, 48, -16, -256, 16, -240, -240, 0):
        kernel = wrapped[(2,)](x[512:], out, start, 32, BLOCK=128)
        index = np.fmod(start + np.arange(256), 32)
        np.testing.assert_array_equal(out.cpu().numpy(), 512 + index)
    assert preconditions_of(kernel.metadata).nonnegative
