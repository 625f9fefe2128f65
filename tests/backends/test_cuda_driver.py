"""The CUDA driver and launcher without a GPU: the driver's functions only take notes (S07, S11, S12, S44)."""

import doctest
import gc
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends import fake_cuda
from tritium import knobs
from tritium.backends.compiler import GPUTarget
from tritium.backends.driver import driver
from tritium.backends.nvptx import ahead, assemble, cuda, launch, launcher, link, memory
from tritium.errors import OutOfResources, PTXASError
from tritium.tools.tensor_descriptor import TensorDescriptor

torch = pytest.importorskip("torch")


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)


@triton.jit
def scalars(x_ptr, flag, f, g: tl.float64, h: tl.float16, big, small: tl.int8, SKIPPED: tl.constexpr, last=7):
    value = (f + g + h).to(tl.float32)
    tl.store(x_ptr, tl.where(flag, value, (big + small + last).to(tl.float32)))


@triton.jit
def tiles(x_ptr, y_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i[:, None] * N + i[None, :], tl.load(x_ptr + i[:, None] + i[None, :] * N, i[:, None] < n))


@pytest.fixture
def fake(monkeypatch):
    made, _ = fake_cuda.install(monkeypatch)
    for kernel in (add, scalars, tiles):
        kernel.device_caches.clear()
    yield made
    gc.collect()  # buffers go while their driver is there
    driver.reset_active()
    fake_cuda.clear()


def f32(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


class Tensor:
    """A tensor of a framework: what kernels ask of one, and counters."""

    def __init__(self, address, dtype="fp32", device=0):
        self.address, self.dtype, self.index, self.asked = address, dtype, device, 0

    @property
    def device(self):
        return f"cuda:{self.index}" if self.index >= 0 else "cpu"

    def data_ptr(self):
        self.asked += 1
        return self.address

    def get_device(self):
        return self.index


X, Y, Z = (Tensor(4096 * (k + 1)) for k in range(3))


def slow_launches(monkeypatch):
    """Count how often the slow way is gone."""
    from tritium.runtime import dispatch
    seen, original = [], dispatch.launch
    monkeypatch.setattr(dispatch, "launch", lambda *args: seen.append(1) or original(*args))
    return seen


@pytest.mark.parametrize("module", [cuda, launch, launcher, memory], ids=lambda m: m.__name__)
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0


# -- launching ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [(97,), lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),), [97], 97],
                         ids=["tuple", "function", "list", "int"])
def test_both_ways_launch_alike(fake, monkeypatch, grid):
    """S01, S07: no synchronisation, no allocation, the same parameters by the slow and the fast way."""
    slow = slow_launches(monkeypatch)
    first = add[grid](X, Y, Z, 98432, BLOCK=1024)
    fake.calls.clear()
    second = add[grid](X, Y, Z, 98432, BLOCK=1024)
    assert first is second and len(slow) == 1
    assert fake.calls == ["cuCtxGetCurrent", "cuLaunchKernel"]
    one, two = fake.launches
    assert one["slots"][:4] == two["slots"][:4] == [4096, 8192, 12288, 98432]
    assert {**one, "slots": 0} == {**two, "slots": 0}
    assert one["grid"] == (97, 1, 1) and one["block"] == (128, 1, 1) and one["function"] == first.function


@pytest.mark.parametrize("args", [
    (Tensor(4096 + 4), Y, Z, 98432), (Tensor(4096, "fp16"), Y, Z, 98432), (X, Y, Z, 98433), (X, Y, Z, 2**40),
    (X, Y, Z, 1),
], ids=["alignment", "dtype", "multiple", "width", "one"])
def test_guards_send_other_arguments_the_slow_way(fake, monkeypatch, args):
    add[(1,)](X, Y, Z, 98432, BLOCK=1024)
    slow = slow_launches(monkeypatch)
    add[(1,)](*args, BLOCK=1024)
    assert len(slow) == 1 and len(add.device_caches[0][0]) == 2
    add[(1,)](*args, BLOCK=1024)
    add[(1,)](X, Y, Z, 98432, BLOCK=1024)  # both are at hand now
    assert len(slow) == 1 and len(fake.launches) == 4


def test_scalars_of_every_type(fake, monkeypatch):
    args = (X, True, 1.5, 0.1, 2.0, 2**40, -3, "skipped")
    fake.parameters = 8
    scalars[(1,)](*args)
    slow = slow_launches(monkeypatch)
    scalars[(1,)](*args)
    for noted in fake.launches:
        pointer, flag, f, g, h, big, small, last = noted["slots"]
        assert (pointer, flag & 255, f & 0xFFFFFFFF, big, small & 255, last & 0xFFFFFFFF) == (
            4096, 1, f32(1.5), 2**40, 256 - 3, 7)
        assert g == struct.unpack("<Q", struct.pack("<d", 0.1))[0]
        assert h & 0xFFFF == struct.unpack("<H", struct.pack("<e", 2.0))[0]
    assert len(fake.launches) == 2 and len(slow) == 1  # a half is no type the guards know


def test_keywords_options_and_defaults(fake, monkeypatch):
    slow = slow_launches(monkeypatch)
    for _ in range(2):
        add[(3, 2)](X, n=64, z_ptr=Z, y_ptr=Y, BLOCK=64, num_warps=8)
    assert len(slow) == 1
    assert [noted["slots"][:4] for noted in fake.launches] == [[4096, 8192, 12288, 64]] * 2
    assert {noted["block"] for noted in fake.launches} == {(256, 1, 1)}
    add[(3, 2)](X, n=64, z_ptr=Z, y_ptr=Y, BLOCK=64, num_warps=4)
    assert fake.launches[-1]["block"] == (128, 1, 1) and len(slow) == 2


def test_empty_grids_launch_nothing(fake):
    for _ in range(2):
        add[(0,)](X, Y, Z, 64, BLOCK=64)
    assert not fake.launches


def test_a_thread_without_a_context_gets_one(fake):
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    fake.current = 0
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    assert fake.launches[-1]["context"] == 1000 and fake.current == 1000


def test_launch_through_the_compiled_kernel(fake):
    """S11: warmup, figures, then a launch on a stream."""
    kernel = add.warmup(X, Y, Z, 64, grid=(1,), BLOCK=64)
    kernel._init_handles()
    assert (kernel.n_regs, kernel.n_spills, kernel.n_max_threads) == (40, 4, 256)
    kernel[(5, 1, 1)](X, Y, Z, 64, 64)
    kernel[(5, 1, 1)](X, Y, Z, 64, 64, stream=77)
    assert [(noted["stream"], noted["grid"]) for noted in fake.launches] == [(0, (5, 1, 1)), (77, (5, 1, 1))]


@pytest.mark.parametrize("ext", ["ttir", "ttgir", "llir", "ptx"])
def test_a_text_of_any_stage_can_be_compiled_and_launched(fake, tmp_path, ext):
    """S14: what PTX cannot say of its kernel stands in a comment."""
    fake.parameters = 3
    first = tiles.warmup(X, Y, 5, grid=(1,), N=32, num_warps=8)
    path = tmp_path / f"tiles.{ext}"
    path.write_text(first.asm[ext])
    again = triton.compile(str(path), GPUTarget("cuda", 90, 32))
    assert (again.metadata.num_warps, again.metadata.shared) == (8, first.metadata.shared) and first.metadata.shared
    first[(3, 1, 1)](X, Y, 5, 32)
    again[(3, 1, 1)](X, Y, 5)
    one, other = fake.launches
    assert one == other and one["block"] == (256, 1, 1) and one["slots"] == [4096, 8192, 5]


def test_texts_are_compiled_for_the_machine_asked_for(fake, tmp_path):
    """PTX of an older architecture is assembled for a newer one."""
    path = tmp_path / "add.ptx"
    types = dict.fromkeys(("x_ptr", "y_ptr", "z_ptr"), "*fp32") | {"n": "i32"}
    source = triton.compiler.ASTSource(add, types, {"BLOCK": 64})
    path.write_text(triton.compile(source, GPUTarget("cuda", 80, 32), {"num_warps": 2}).asm["ptx"])
    again = triton.compile(str(path), GPUTarget("cuda", 90, 32))
    assert (again.metadata.arch, again.metadata.num_warps) == ("90", 2) and ".target sm_80" in again.asm["ptx"]


def test_compiled_kernels_say_what_they_take(fake, tmp_path):
    kernel = add.warmup(X, Y, Z, 64, grid=(1,), BLOCK=64)
    with pytest.raises(TypeError, match="add takes 5 arguments, constants included, and was given 4: x_ptr, y_ptr"):
        kernel[(1, 1, 1)](X, Y, Z, 64)
    path = tmp_path / "add.ptx"
    path.write_text("\n".join(line for line in kernel.asm["ptx"].splitlines() if "tritium:" not in line))
    with pytest.raises(TypeError, match="compiled from a file that does not tell its parameters"):
        triton.compile(str(path), GPUTarget("cuda", 90, 32))[(1, 1, 1)](X, Y, Z, 64)


def test_hooks_see_every_launch(fake):
    seen = []
    with knobs.runtime.scope():
        knobs.runtime.launch_enter_hook.add(lambda told: seen.append(told.get()["name"]))
        for _ in range(3):
            add[(1,)](X, Y, Z, 64, BLOCK=64)
    assert seen == ["add"] * 3 and len(fake.launches) == 3


def test_attributes_go_through_the_long_call(fake):
    for _ in range(2):
        add[(4,)](X, Y, Z, 64, BLOCK=64, launch_cooperative_grid=True, launch_pdl=True)
    for noted in fake.launches:
        assert noted["how"] == "ex" and noted["grid"] == (4, 1, 1) and noted["block"] == (128, 1, 1)
        assert noted["attributes"] == [(2, (1, 0, 0)), (6, (1, 0, 0))] and noted["slots"][:4] == [4096, 8192, 12288, 64]


def test_clusters_are_launched_as_so_many_blocks(fake):
    kernel = add[(4, 3)](X, Y, Z, 64, BLOCK=64, num_ctas=2)
    assert kernel.metadata.num_ctas == 2
    for noted in fake.launches:
        assert noted["how"] == "ex" and noted["grid"] == (8, 3, 1) and noted["attributes"] == [(4, (2, 1, 1))]


def test_grids_of_clusters_must_fit(fake):
    with pytest.raises(RuntimeError, match="invalid"):
        add[(1 << 30,)](X, Y, Z, 64, BLOCK=64, num_ctas=2)
    assert not fake.launches


@pytest.mark.parametrize(("num_ctas", "why"), [(3, "must be a power of 2"), (32, "at most 16"), (0, "at least 1")])
def test_sizes_of_clusters(fake, num_ctas, why):
    with pytest.raises(ValueError, match=why):
        add[(4,)](X, Y, Z, 64, BLOCK=64, num_ctas=num_ctas)


# -- devices and streams -----------------------------------------------------------------------------------------------


def test_kernels_run_where_their_tensors_are(monkeypatch):
    fake, drv = fake_cuda.install(monkeypatch, devices=2)
    add.device_caches.clear()
    there = [Tensor(4096 * (k + 1), device=1) for k in range(3)]
    try:
        for tensors in ((X, Y, Z), there, there, (X, Y, Z)):
            add[(1,)](*tensors, 64, BLOCK=64)
        assert [noted["context"] for noted in fake.launches] == [1000, 1001, 1001, 1000]
        assert len({noted["function"] for noted in fake.launches}) == 2
        assert fake.current == 1000 and drv.get_current_device() == 0
        assert set(add.device_caches) == {0, 1}
    finally:
        driver.reset_active()
        fake_cuda.clear()


def test_launches_go_to_the_current_stream(fake):
    stream = memory.Stream()
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    with stream:
        add[(1,)](X, Y, Z, 64, BLOCK=64)
        with memory.Stream() as inner:
            add[(1,)](X, Y, Z, 64, BLOCK=64)
        add[(1,)](X, Y, Z, 64, BLOCK=64)
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    assert [noted["stream"] for noted in fake.launches] == [0, stream.handle, inner.handle, stream.handle, 0]


def test_streams_of_torch(fake, monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: asked.append(device) or 99, raising=False)
    for _ in range(3):
        add[(1,)](X, Y, Z, 64, BLOCK=64)
    assert [noted["stream"] for noted in fake.launches] == [99] * 3 and set(asked) == {0}


def test_driver_interface(fake):
    """S12."""
    drv = driver.active
    assert drv.get_current_target() == GPUTarget("cuda", 90, 32) and drv.get_device_capability(0) == (9, 0)
    found = drv.utils.get_device_properties(0)
    assert found["max_shared_mem"] == 232448 and found["multiprocessor_count"] == 132 and found["warpSize"] == 32
    assert {"max_num_regs", "sm_clock_rate", "mem_clock_rate", "mem_bus_width", "max_threads_per_sm"} <= set(found)
    assert (drv.get_current_device(), drv.get_current_stream(0)) == (0, 0)
    assert drv.map_python_to_cpp_type("*fp32") == "CUdeviceptr" and drv.map_python_to_cpp_type("u32") == "uint32_t"
    assert drv.utils.cuOccupancyMaxActiveClusters(5000, 1024, 2) == 66
    drv.utils.set_printf_fifo_size(1 << 20)
    assert "cuCtxSetLimit" not in fake.calls  # it is so already, and after a kernel that prints it could not be set
    drv.utils.set_printf_fifo_size(1 << 21)
    assert "cuCtxSetLimit" in fake.calls
    fake.fail["cuCtxSetLimit"] = 1
    with pytest.raises(cuda.CudaError, match="hint: how much kernels may print is set before the first launch"):
        drv.utils.set_printf_fifo_size(1 << 22)
    with pytest.raises(ValueError, match="there is no GPU 3: this machine has 1"):
        cuda.use(3)


def test_tensor_maps(fake):
    made = driver.active.utils.fill_tma_descriptor(65536, "fp16", 2, (512, 256), (256, 1), (64, 32))
    assert fake.maps == [(6, 65536, [256, 512], [512], [32, 64], [1, 1], 0, 3, 2, 0, 0)]
    assert len(made) == 128
    with pytest.raises(ValueError, match="last stride"):
        driver.active.utils.fill_tma_descriptor(65536, "fp16", 2, (512, 256), (1, 512), (64, 32))


# -- errors ------------------------------------------------------------------------------------------------------------


def test_refused_launches_name_kernel_grid_and_arguments(fake):
    fake.fail["cuLaunchKernel"] = 1
    for _ in range(2):
        with pytest.raises(cuda.CudaError, match=r"add on a grid of \(1, 70000, 1\) failed: invalid argument") as e:
            add[(1, 70000)](X, Y, Z, 64, BLOCK=64)
        assert "x_ptr=0x1000, y_ptr=0x2000, z_ptr=0x3000, n=64" in str(e.value) and "65535" in str(e.value)
        fake.fail.clear()
        add[(1,)](X, Y, Z, 64, BLOCK=64)
        fake.fail["cuLaunchKernel"] = 1


def test_grids_beyond_32_bits_are_refused(fake):
    for _ in range(2):
        with pytest.raises(cuda.CudaError, match=r"\(4294967297, 1, 1\) failed"):
            add[(2**32 + 1,)](X, Y, Z, 64, BLOCK=64)
        add[(1,)](X, Y, Z, 64, BLOCK=64)
    assert len(fake.launches) == 2


def test_late_errors_name_the_kernels_launched_before(fake):
    """S07."""
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    memory.synchronize()
    scalars[(1,)](X, True, 1.5, 0.1, 2.0, 2**40, -3, "skipped")
    fake.fail["cuCtxSynchronize"] = 700
    with pytest.raises(cuda.CudaError, match="illegal memory access") as e:
        memory.synchronize()
    assert "launched last, the latest first: scalars\n" in str(e.value)
    assert "compute-sanitizer" in str(e.value)
    fake.fail["cuLaunchKernel"] = 700
    with pytest.raises(cuda.CudaError, match="last, the latest first: scalars\n") as e:
        add[(1,)](X, Y, Z, 64, BLOCK=64)
    assert "arguments" not in str(e.value)  # those of this launch have nothing to do with it


def test_errors_of_launches_that_wait_are_their_own(fake, monkeypatch):
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    fake.fail["cuLaunchKernel"] = 700
    with pytest.raises(cuda.CudaError, match="arguments: x_ptr=0x1000, y_ptr=0x2000, z_ptr=0x3000, n=64") as e:
        add[(1,)](X, Y, Z, 64, BLOCK=64)
    assert "compute-sanitizer" in str(e.value) and "launched last" not in str(e.value)


def test_memory_of_the_host_is_refused(fake, monkeypatch):
    message = r"Pointer argument \(at 1\) cannot be accessed from Triton \(cpu tensor\?\)"
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    for wrong in (torch.zeros(64), np.zeros(64, np.float32), Tensor(4096, device=-1)):
        with pytest.raises(ValueError, match=message):
            add[(1,)](X, wrong, Z, 64, BLOCK=64)
    with pytest.raises(ValueError, match="hint: move x_ptr to the GPU first, or pin its memory"):
        add[(1,)](torch.zeros(64), Y, Z, 64, BLOCK=64)
    monkeypatch.setattr(Tensor, "device", None)  # one that does not say where it is
    for _ in range(2):
        with pytest.raises(ValueError, match=r"\(at 0\) cannot be accessed"):
            add[(1,)](Tensor(4096, "fp64"), Y, Z, 64, BLOCK=64)
    assert len(fake.launches) == 1


@triton.jit
def scattered(pair, desc, out_ptr):
    tl.store(out_ptr + tl.arange(0, 16), tl.load(pair[0] + tl.arange(0, 16)) + desc.load([0]))


def test_memory_of_the_host_is_refused_in_tuples_and_descriptors(fake):
    scattered.device_caches.clear()
    host, there = np.zeros(16, np.float32), memory.empty(16)
    box = lambda x: TensorDescriptor(x, [16], [1], [16])
    scattered[(1,)]((there, 3), box(there), there)
    for pair, desc, number in (((host, 3), box(there), 0), ((there, 3), box(host), 1)):
        with pytest.raises(ValueError, match=rf"Pointer argument \(at {number}\) cannot be accessed"):
            scattered[(1,)](pair, desc, there)
    assert len(fake.launches) == 1


def test_memory_of_the_gpu_is_refused_by_the_cpu(fake, monkeypatch):
    driver.reset_active()
    monkeypatch.setattr(knobs, "backend", "cpu")
    with pytest.raises(ValueError, match="hint: move them to the CPU, or unset TRITIUM_BACKEND"):
        add[(1,)](X, Y, Z, 64, BLOCK=64)


def test_pinned_memory_is_an_argument_beside_that_of_the_gpu(fake):
    host, there = memory.pinned(64), [memory.empty(64) for _ in range(2)]
    for place in range(3):
        xs = [*there[:place], host, *there[place:]]
        add[(1,)](*xs, 64, BLOCK=64)
        addresses = [x.ctypes.data if x is host else x.data_ptr() for x in xs]
        assert fake.launches[-1]["slots"][:3] == addresses


def test_too_much_of_something(fake, monkeypatch):
    """S11: the failure is remembered."""
    monkeypatch.setitem(fake_cuda.ATTRIBUTES, 1, 64)
    kernel = add.warmup(X, Y, Z, 64, grid=(1,), BLOCK=64)
    for _ in range(2):
        with pytest.raises(OutOfResources, match="threads, Required: 128, Hardware limit: 64"):
            kernel._init_handles()
    assert "cuModuleLoadDataEx" not in fake.calls


def test_what_the_drivers_compiler_says_is_shown(fake, monkeypatch):
    def refuse(self, out, data, count, options, values):
        log = fake_cuda.word(values).value
        fake_cuda.ctypes.memmove(log, b"ptxas: line 3: no such instruction\0", 35)
        return 218

    monkeypatch.setattr(fake_cuda.FakeCuda, "_cuModuleLoadDataEx", refuse)
    with pytest.raises(cuda.CudaError, match=r"loading k failed(.|\n)*line 3: no such instruction"):
        cuda.load("k", ".version 8.3", 0, 0)


def test_without_a_driver(tmp_path):
    """Compiling needs none, nor do the figures the assembler gives; everything else says what is missing."""
    code = """
import tritium, tritium.language as tl
from tritium.backends.compiler import GPUTarget
from tritium.runtime import memory
@tritium.jit
def k(x):
    tl.store(x, 1.0)
"""
    file = tmp_path / "k_without_a_driver.py"
    file.write_text(code + """
made = tritium.compile(tritium.compiler.ASTSource(k, {"x": "*fp32"}), target=GPUTarget("cuda", 90, 32))
print("ptx" in made.asm, "nothing" if getattr(made.metadata, "n_regs", None) is None else made.n_regs > 0)
print(memory.is_available(), memory.device_count())
try:
    memory.empty(4)
except RuntimeError as error:
    print(error)
""")
    out = subprocess.run([sys.executable, "-c", f"""
import runpy
from tritium.backends.nvptx import cuda
cuda.library = lambda: None
runpy.run_path({str(file)!r})
"""], capture_output=True, text=True)
    lines = out.stdout.splitlines()
    assert lines[0] in ("True True", "True nothing"), out.stderr
    assert lines[1] == "False 0" and lines[2].startswith("there is no NVIDIA driver on this machine")


# -- memory ------------------------------------------------------------------------------------------------------------


def test_buffers_are_arguments(fake, monkeypatch):
    """S44."""
    x, y, z = memory.to_device(np.arange(64, dtype=np.float32)), memory.zeros(64), memory.empty(64)
    slow = slow_launches(monkeypatch)
    for _ in range(2):
        add[(1,)](x, y, z, 64, BLOCK=64)
    assert len(slow) == 1 and [noted["slots"][:3] for noted in fake.launches] == [
        [x.data_ptr(), y.data_ptr(), z.data_ptr()]] * 2
    assert (x.device, x.get_device(), x.dtype, x.shape, x.nbytes) == ("cuda:0", 0, np.float32, (64,), 256)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "i8", "u1", "fp8e4nv", np.int16, torch.float16, tl.int64])
def test_copies_there_and_back(fake, dtype):
    x = memory.empty((4, 6), dtype)
    host = np.arange(24).reshape(4, 6).astype(x.dtype)
    x.copy_(host)
    assert (x.numpy() == host).all() and x.numpy().dtype == host.dtype
    assert (x.clone().numpy() == host).all() and (memory.empty((4, 6), dtype).zero_().numpy() == 0).all()
    assert x.stride() == (6, 1) and x.stride(0) == 6 and x.numel() == 24 and x.element_size() == host.itemsize


def test_copies_in_streams(fake):
    host, x = memory.pinned((8,), np.int32), memory.empty(8, np.int32)
    host[:] = range(8)
    stream = memory.Stream()
    x.copy_(host, stream, blocking=False)
    assert fake.copies == [stream.handle] and "cuStreamSynchronize" not in fake.calls
    with stream:
        memory.copy(host, x)
    assert fake.copies == [stream.handle] * 2 and fake.calls.count("cuStreamSynchronize") == 1
    torch_like = type("S", (), {"cuda_stream": 55})
    x.copy_(host, torch_like, blocking=False)
    assert fake.copies[-1] == 55


def test_pinned_memory_lives_as_long_as_its_arrays(fake):
    host = memory.pinned(16, np.float32)
    part = host[4:]
    address = host.ctypes.data
    del host
    gc.collect()
    assert address in fake.memory
    del part
    gc.collect()
    assert address not in fake.memory


def test_buffers_are_freed_once(fake):
    x = memory.empty(16)
    x.free()
    x.free()
    with pytest.raises(ValueError, match="has been freed"):
        x.data_ptr()
    y = memory.empty(16)
    address = y.data_ptr()
    del y
    gc.collect()
    assert address not in fake.memory and fake.calls.count("cuMemFree_v2") == 2
    assert memory.empty(0).data_ptr() == 0


def test_buffers_outlive_their_context_quietly(fake, recwarn):
    """After an illegal access everything of the context is gone: giving it back is no second error."""
    x = memory.empty(8)
    address = x.data_ptr()
    fake.fail["cuMemFree_v2"] = 700
    x.free()
    fake.fail["cuMemFree_v2"] = 1
    with pytest.raises(cuda.CudaError, match="cuMemFree_v2 failed"):
        memory.empty(8).free()
    fake.fail.clear()
    assert address in fake.memory


@pytest.mark.parametrize("device", [0, None, "cuda", "cuda:0", torch.device("cuda", 0)])
def test_names_of_devices(fake, device):
    assert memory.empty(3, device=device).get_device() == memory.Stream(device).device_index == 0


def test_what_is_no_device(fake):
    for wrong in ("cpu", "cuda:x", 1.5):
        with pytest.raises(ValueError, match="is no GPU: give its number"):
            memory.empty(3, device=wrong)


def test_arrays_without_axes_and_of_numpys_numbers(fake):
    assert memory.to_device(np.float32(3)).numpy() == 3 and memory.empty(np.int64(4)).shape == (4,)
    with pytest.raises(TypeError, match="without axes"):
        len(memory.to_device(np.float32(3)))


def test_buffers_become_arrays_and_fill_tensors(fake):
    x = memory.to_device(np.arange(3, dtype=np.float32))
    np.testing.assert_array_equal(np.asarray(x), [0, 1, 2])
    assert np.asarray(x, np.int32).dtype == np.int32
    with pytest.raises(ValueError, match="without a copy"):
        np.array(x, copy=False)
    host = torch.zeros(3)
    memory.copy(host, x)
    assert host.tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="not to list"):
        memory.copy([0, 0, 0], x)


def test_wrong_copies(fake):
    x = memory.empty((4, 4))
    with pytest.raises(ValueError, match="cannot copy float64"):
        x.copy_(np.zeros((4, 4)))
    with pytest.raises(ValueError, match=r"\(4,\)"):
        x.copy_(np.zeros(4, np.float32))
    with pytest.raises(ValueError, match="contiguous"):
        memory.copy(np.zeros((4, 8), np.float32)[:, ::2], x)
    with pytest.raises(TypeError, match="must be a DeviceBuffer"):
        memory.copy(np.zeros(4), np.zeros(4))
    with pytest.raises(TypeError, match="no dtype complex64"):
        memory.empty(4, np.complex64)
    with pytest.raises(ValueError, match="negative"):
        memory.empty(-1)


def test_events(fake):
    start, end = memory.Event(enable_timing=True), memory.Event(enable_timing=True)
    start.record()
    end.record()
    assert start.elapsed_time(end) == 1.0 and end.query()
    fake.fail["cuEventQuery"] = 600
    assert not end.query()
    fake.fail["cuEventQuery"] = 700
    with pytest.raises(cuda.CudaError, match="cuEventQuery failed"):
        end.query()
    fake.fail["cuEventElapsedTime"] = 400
    with pytest.raises(cuda.CudaError, match="hint: make both events with enable_timing=True"):
        start.elapsed_time(end)
    stream, other = memory.Stream(), memory.Stream()
    stream.wait_stream(other)
    assert fake.calls.count("cuStreamWaitEvent") == 1 and stream.query()
    assert memory.memory_info() == (100, 200)


def test_arrays_are_shared_by_protocol(fake):
    x = memory.empty((2, 3), np.int32)
    found = x.__cuda_array_interface__
    assert found["shape"] == (2, 3) and found["typestr"] == "<i4" and found["data"] == (x.data_ptr(), False)
    assert not hasattr(memory.empty(2, "bf16"), "__cuda_array_interface__")


class Foreign:
    """An array of another library, CuPy's for one: all it shows of its memory is the protocol."""

    def __init__(self, buffer):
        self.buffer = buffer

    @property
    def __cuda_array_interface__(self):
        return self.buffer.__cuda_array_interface__


def test_arrays_of_other_libraries_are_arguments(fake):
    xs = [memory.empty(64, np.float32) for _ in range(3)]
    for _ in range(2):
        kernel = add[(1,)](*map(Foreign, xs), 64, BLOCK=64)
    assert kernel.src.signature["x_ptr"] == "*fp32"
    assert [noted["slots"][:3] for noted in fake.launches] == [[x.data_ptr() for x in xs]] * 2


class OnStream(Foreign):
    """One that is still being written in a stream of its library."""

    stream: int | None = None

    @property
    def __cuda_array_interface__(self):
        return {**super().__cuda_array_interface__, "stream": self.stream}


def test_streams_of_other_libraries_are_waited_for(fake):
    x, y, z = (OnStream(memory.empty(64, np.float32)) for _ in range(3))
    x.stream, y.stream = 77, 1  # 1 is the default stream, where the launch goes
    add[(1,)](x, y, z, 64, BLOCK=64)
    assert fake.records == [77] and fake.waits == [0] and fake.launches[-1]["stream"] == 0
    with memory.Stream() as mine:
        add[(1,)](x, y, z, 64, BLOCK=64)
        assert fake.records == [77, 77, 1] and fake.waits == [0, mine.handle, mine.handle]
        fake.captured = mine.handle  # what is captured cannot wait for work that is not
        add[(1,)](x, y, z, 64, BLOCK=64)
    assert len(fake.records) == 3 and len(fake.launches) == 3
    assert fake.calls.count("cuEventCreate") == fake.calls.count("cuEventDestroy_v2")


class Exchanged:
    """An array that can only be had through DLPack, on a GPU: its library is told which stream will use it."""

    def __init__(self, host):
        self.host, self.told = host, []

    def __dlpack__(self, *, stream=None):
        self.told.append(stream)
        return self.host.__dlpack__()

    def __dlpack_device__(self):
        return 2, 0


def test_dlpack_is_told_the_stream(fake):
    xs = [Exchanged(np.zeros(64, np.float32)) for _ in range(3)]
    add[(1,)](*xs, 64, BLOCK=64)
    assert fake.launches[-1]["slots"][:3] == [x.host.ctypes.data for x in xs]
    assert set(xs[0].told) == {-1, 1}  # to look at it, and to use it in the default stream
    with memory.Stream() as mine:
        add[(1,)](*xs, 64, BLOCK=64)
    assert [x.told.count(mine.handle) for x in xs] == [1, 1, 1]


def test_arrays_of_other_libraries_are_found_on_their_device(monkeypatch):
    fake, drv = fake_cuda.install(monkeypatch, devices=2)
    add.device_caches.clear()
    try:
        for device in (0, 1, 0):
            xs = [Foreign(memory.empty(64, np.float32, device=device)) for _ in range(3)]
            add[(1,)](*xs, 64, BLOCK=64)
        assert [noted["context"] for noted in fake.launches] == [1000, 1001, 1000]
        assert drv.get_current_device() == 0
        del xs
        gc.collect()
    finally:
        driver.reset_active()
        fake_cuda.clear()


def test_threads_launch_at_once(fake):
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    threads = [threading.Thread(target=lambda: [add[(1,)](X, Y, Z, 64, BLOCK=64) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake.launches) == 201 and all(noted["slots"][:4] == [4096, 8192, 12288, 64] for noted in fake.launches)


# -- machine code by the driver ----------------------------------------------------------------------------------------


class Linker:
    """The part of the driver that makes machine code: it gives what it was told back."""

    def __init__(self, fake, code=0):
        self.fake, self.code, self.added, self.gone = fake, code, [], 0
        word = fake_cuda.word

        def create(count, options, values, out):
            logs = (fake_cuda.P * count).from_address(values)
            names = (fake_cuda.I * count).from_address(options)
            self.wanted = {name: value for name, value in zip(names, logs) if name > 6}  # no logs
            said = b"ptxas info : Used 40 registers, 8 bytes spill stores, 16 bytes spill loads\0"
            fake_cuda.ctypes.memmove(logs[0], said, len(said))
            fake_cuda.ctypes.memmove(logs[2], b"line 3: no such thing\0", 22)
            word(out).value = 77
            return 0

        def add(state, kind, data, size, name, count, options, values):
            self.added.append((state, kind, fake_cuda.ctypes.string_at(data, size)))
            return code

        def complete(state, out, size):
            self.binary = b"\x7fELF" + self.added[-1][2]
            word(out).value = fake_cuda.ctypes.cast(self.binary, fake_cuda.P).value
            word(size, fake_cuda.S).value = len(self.binary)
            return 0

        def destroy(state):
            self.gone += state == 77
            return 0

        I, P, S, U = fake_cuda.I, fake_cuda.P, fake_cuda.S, fake_cuda.U
        for name, types, fn in (("cuLinkCreate_v2", (U, P, P, P), create), ("cuLinkComplete", (P, P, P), complete),
                                ("cuLinkAddData_v2", (P, I, P, S, P, U, P, P), add), ("cuLinkDestroy", (P,), destroy)):
            setattr(fake, name, fake_cuda.ctypes.CFUNCTYPE(I, *types)(fn))


def test_the_driver_makes_the_machine_code_of_its_own_gpu(fake):
    linker = Linker(fake)
    kernel = add[(1,)](X, Y, Z, 64, BLOCK=16)
    (_, kind, text), = linker.added
    assert kind == 1 and kernel.asm["ptx"].startswith(text[:-1].decode()) and linker.gone == 1
    assert kernel.asm["cubin"] == linker.binary
    assert linker.wanted == {12: 1, 13: 1}  # what it made, and the lines it comes from
    assert (kernel.metadata.n_regs, kernel.metadata.n_spills) == (40, 4)


def test_what_the_driver_cannot_make_goes_to_the_assembler(fake):
    linker = Linker(fake)
    cuda.use(0)
    assert link.makes("ret;", 90)
    assert not link.makes("setmaxnreg.dec 24;", 90)
    product = "setmaxnreg.dec 24; wgmma.mma_async.sync {%r1, %r2}, %rd1, %rd2; "
    assert link.makes(product + ".maxnreg 168", 90) and not link.makes(product + ".maxnreg 32", 90)
    assert not link.makes(product + product.replace("%r2", "%r3") + ".maxnreg 168", 90)
    assert not link.makes(".extern .func (.param .b32 r) vprintf;", 90)
    assert not link.makes("ret;", 80)
    add[(1,)](X, Y, Z, 64, BLOCK=64, ptx_options="-O2")
    fake.current = 0  # no context
    assert not link.makes("ret;", 90) and not linker.added


@pytest.mark.parametrize("said", ["8 bytes spill stores, 16 bytes spill loads", "wgmma instructions are serialized"])
def test_warps_that_need_each_other_s_registers_get_them(said):
    assert link.lacks_registers("setmaxnreg.dec 24;", said)
    assert not link.lacks_registers("ret;", said)
    assert not link.lacks_registers("setmaxnreg.dec 24;", "Performance Loss: 'setmaxnreg' ignored. Used 90 registers")
    assert link.lacks_registers("setmaxnreg.dec 24;", "")  # what the driver remembers it says nothing of
    assert assemble.usage("") == {}


def test_launcher_and_linker_are_brought_in_ahead(fake, monkeypatch):
    linker = Linker(fake)
    before = set(threading.enumerate())
    monkeypatch.setattr(ahead, "_start", fake_cuda.START_AHEAD)
    ahead.start()  # no context yet
    assert set(threading.enumerate()) == before and not linker.added
    cuda.use(0)
    for _ in range(2):
        ahead.start()
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert len(linker.added) == linker.gone == 1 and launch.Runtime._get.__func__.cache_info().currsize == 1


def test_what_the_driver_refuses_is_told(fake):
    linker = Linker(fake, code=218)
    with pytest.raises(PTXASError, match="no such thing"):
        add[(1,)](X, Y, Z, 64, BLOCK=32)
    assert linker.gone == 1
