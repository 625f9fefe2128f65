"""The CUDA driver and launcher without a GPU: the driver's functions only take notes (S07, S11, S12, S44)."""

import doctest
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tests.backends.nvptx import fake_driver
from tests.backends.nvptx.kernels import Tensor, X, Y, Z, add, f32, scalars, slow_launches, tiles
from tritium import knobs
from tritium.backends.compiler import GPUTarget
from tritium.backends.driver import driver
from tritium.backends.gpu_runtime import launch, memory
from tritium.backends.nvptx.driver import Driver
from tritium.backends.nvptx.runtime import cuda, launcher
from tritium.errors import OutOfResources
from tritium.tools.tensor_descriptor import TensorDescriptor

torch = pytest.importorskip("torch")


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
    one, other = ({**noted, "function": 0} for noted in fake.launches)
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
    with pytest.raises(TypeError, match="add takes 5 arguments, constants included, and was given 3: x_ptr, y_ptr"):
        kernel[(1, 1, 1)](X, Y, Z)
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
    fake, drv = fake_driver.install(monkeypatch, devices=2)
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
        fake_driver.clear()


@pytest.mark.parametrize("wrap", [
    triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], ["n"],
                    do_bench=lambda fn, quantiles: [fn() or 1.0] * 3),
    triton.heuristics({"BLOCK": lambda args: 64}),
], ids=["autotune", "heuristics"])  # fmt: skip
def test_what_wraps_kernels_launches_where_their_tensors_are(monkeypatch, wrap):
    """A choice holds for all devices; the kernel's own records tell them apart."""
    fake, _ = fake_driver.install(monkeypatch, devices=2)
    add.device_caches.clear()
    wrapped, there = wrap(add), [Tensor(4096 * (k + 1), device=1) for k in range(3)]
    grid = lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)
    try:
        for tensors in ((X, Y, Z), there, (X, Y, Z)):
            wrapped[grid](*tensors, 64)
        wrapped._road[0] = None  # there is no Python to ask from now on
        fake.launches.clear(), fake.calls.clear()
        for tensors in ((X, Y, Z), there, there, (X, Y, Z)):
            wrapped[grid](*tensors, 64)
        assert [noted["context"] for noted in fake.launches] == [1000, 1001, 1001, 1000]
        assert {noted["grid"] for noted in fake.launches} == {(1, 1, 1)} and "cuMemAlloc_v2" not in fake.calls
    finally:
        driver.reset_active()
        fake_driver.clear()


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
        with pytest.raises(ValueError, match=r"fewer than 2\*\*31 programs along each axis, not 4294967297"):
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
    monkeypatch.setitem(fake_driver.ATTRIBUTES, 1, 64)
    kernel = add.warmup(X, Y, Z, 64, grid=(1,), BLOCK=64)
    for _ in range(2):
        with pytest.raises(OutOfResources, match="threads, Required: 128, Hardware limit: 64"):
            kernel._init_handles()
    assert "cuModuleLoadDataEx" not in fake.calls


def test_what_the_drivers_compiler_says_is_shown(fake, monkeypatch):
    def refuse(self, out, data, count, options, values):
        log = fake_driver.word(values).value
        fake_driver.ctypes.memmove(log, b"ptxas: line 3: no such instruction\0", 35)
        return 218

    monkeypatch.setattr(fake_driver.FakeCuda, "_cuModuleLoadDataEx", refuse)
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
from tritium.backends.nvptx.runtime import cuda
cuda.CUDA.library = lambda: None
runpy.run_path({str(file)!r})
"""], capture_output=True, text=True)
    lines = out.stdout.splitlines()
    assert lines[0] in ("True True", "True nothing"), out.stderr
    assert lines[1] == "False 0" and lines[2].startswith("there is no NVIDIA driver on this machine")


def test_threads_launch_at_once(fake):
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    threads = [threading.Thread(target=lambda: [add[(1,)](X, Y, Z, 64, BLOCK=64) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake.launches) == 201 and all(noted["slots"][:4] == [4096, 8192, 12288, 64] for noted in fake.launches)


@pytest.mark.parametrize(("code", "active", "usable"), [(0, True, True), (3, True, False), (100, False, False)])
def test_a_forked_process_sees_the_device_it_cannot_use(fake, code, active, usable):
    """torch's compile workers are forked from a process that uses the GPU: they compile for it, and launch nothing."""
    fake.fail["cuInit"] = code
    assert Driver.is_active() is active
    assert Driver.is_usable() is usable


@pytest.mark.parametrize(("code", "active"), [(0, True), (100, False)])
def test_a_driver_is_initialised_once_in_a_process_and_its_children(fake, monkeypatch, code, active):
    """libcuda crashes where a child initialises it again after its parent has failed to."""
    fake.fail["cuInit"] = code
    assert Driver.is_usable() is active
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert Driver.is_active() is active and not Driver.is_usable()
    assert fake.calls.count("cuInit") == 1


@pytest.mark.parametrize("hidden", ["", " ", "-1"])
def test_devices_that_are_hidden_are_not_looked_for(fake, monkeypatch, hidden):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    fake_driver.clear()
    assert not Driver.is_active() and not Driver.is_usable() and "cuInit" not in fake.calls
    with pytest.raises(cuda.CudaError, match=r"cuInit failed: .*\nhint: nvidia-smi lists .*CUDA_VISIBLE_DEVICES"):
        cuda.start()
