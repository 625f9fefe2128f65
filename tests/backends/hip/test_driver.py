"""The HIP driver and launcher without a GPU: the runtime's functions only take notes (S07, S11, S12, S15)."""

import doctest
import gc
import struct
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from tests.backends.hip import fake_hip
from tests.backends.nvptx.kernels import Tensor, X, Y, Z, add, f32, scalars, slow_launches
from tritium import backends, knobs
from tritium.backends.amdgcn.runtime import hip, launch, launcher, messages, services
from tritium.backends.amdgcn.runtime.hip import HIP, HipError
from tritium.backends.compiler import GPUTarget
from tritium.backends.driver import Drivers, driver
from tritium.backends.gpu_runtime import memory
from tritium.backends.occupancy import occupancy
from tritium.compat import _internal_testing
from tritium.errors import OutOfResources

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("module", [hip, launch, launcher, messages, services], ids=lambda m: m.__name__)
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0


# -- launching ---------------------------------------------------------------------------------------------------------


def test_both_ways_launch_alike(fake, monkeypatch):
    """S01, S07: no synchronisation, no allocation, the same parameters by the slow and the fast way."""
    slow = slow_launches(monkeypatch)
    first = add[(97,)](X, Y, Z, 98432, BLOCK=1024)
    fake.calls.clear()
    second = add[(97,)](X, Y, Z, 98432, BLOCK=1024)
    assert first is second and len(slow) == 1
    assert fake.calls == ["hipGetDevice", "hipModuleLaunchKernel"]
    one, two = fake.launches
    assert one["slots"] == two["slots"] == [4096, 8192, 12288, 98432]
    assert {**one, "slots": 0} == {**two, "slots": 0}
    assert one["grid"] == (97, 1, 1) and one["block"] == (256, 1, 1) and one["function"] == first.function
    assert first.kernel == fake_hip.HSACO and first.metadata.target == GPUTarget("hip", "gfx942", 64)


def test_scalars_of_every_type(fake):
    """The runtime copies as many bytes of each slot as the code object says that the argument has."""
    fake.parameters = 8
    for _ in range(2):
        scalars[(1,)](X, True, 1.5, 0.1, 2.0, 2**40, -3, "skipped")
    for noted in fake.launches:
        pointer, flag, f, g, h, big, small, last = noted["slots"]
        assert (pointer, flag & 255, f & 0xFFFFFFFF, big, small & 255, last & 0xFFFFFFFF) == (
            4096, 1, f32(1.5), 2**40, 256 - 3, 7)
        assert g == struct.unpack("<Q", struct.pack("<d", 0.1))[0] and h & 0xFFFF == 0x4000


def test_roads_and_streams(fake):
    kernel = add.warmup(X, Y, Z, 64, grid=(1,), BLOCK=64)
    for stream in (0, 7, SimpleNamespace(cuda_stream=9)):
        for _ in range(2):
            kernel[(5, 1, 1)](X, Y, Z, 64, 64, stream=stream)
    own = memory.Stream()
    with own:
        add[(1,)](X, Y, Z, 64, BLOCK=64)
    assert [noted["stream"] for noted in fake.launches] == [0, 0, 7, 7, 9, 9, own.handle]
    assert (kernel.n_regs, kernel.n_spills, kernel.n_max_threads) == (40, 4, 256)
    add[(0,)](X, Y, Z, 64, BLOCK=64)
    assert len(fake.launches) == 7


def test_streams_and_tensors_of_torch(fake, monkeypatch):
    """On ROCm they are torch.cuda's; a stream that is captured into a graph gets the launches."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 99, raising=False)
    fake.captured = 99
    for _ in range(3):
        add[(1,)](X, Y, Z, 64, BLOCK=64)
    assert [noted["stream"] for noted in fake.launches] == [99] * 3
    assert driver.active.utils.is_stream_capturing(99) and not driver.active.utils.is_stream_capturing(98)


def test_cooperative_launches(fake):
    for _ in range(2):
        add[(4,)](X, Y, Z, 64, BLOCK=64, launch_cooperative_grid=True)
    for noted in fake.launches:
        assert noted["how"] == "cooperative" and noted["grid"] == (4, 1, 1) and noted["block"] == (256, 1, 1)
        assert noted["slots"] == [4096, 8192, 12288, 64]


def test_a_gpu_without_cooperative_launches(fake, monkeypatch):
    monkeypatch.setitem(fake_hip.ATTRIBUTES, 10, 0)
    with pytest.raises(HipError, match="GPU 0 has no cooperative launches, which add asks for"):
        add[(4,)](X, Y, Z, 64, BLOCK=64, launch_cooperative_grid=True)


def test_kernels_run_where_their_tensors_are(monkeypatch):
    fake, drv = fake_hip.install(monkeypatch, devices=2)
    add.device_caches.clear()
    there = [Tensor(4096 * (k + 1), device=1) for k in range(3)]
    try:
        for tensors in ((X, Y, Z), there, there, (X, Y, Z)):
            add[(1,)](*tensors, 64, BLOCK=64)
        assert [noted["context"] for noted in fake.launches] == [1000, 1001, 1001, 1000]
        assert len({noted["function"] for noted in fake.launches}) == 2
        fake.current = 1001  # native launches of the other device's kernel go there and come back
        add[(1,)](X, Y, Z, 64, BLOCK=64)
        assert fake.launches[-1]["context"] == 1000 and fake.current == 1001
        assert set(add.device_caches) == {0, 1} and drv.get_current_device() == 1
    finally:
        add.device_caches.clear()
        driver.reset_active()
        fake_hip.clear()


def test_launching_a_function(fake):
    utils = driver.active.utils
    _, function, *_ = utils.load_binary("other", fake_hip.HSACO, 0, 0)
    utils.launch(3, 2, 1, 5, function, (8, 1, 1024), None, None, None, X, -3, 1.5, True)
    noted = fake.launches[-1]
    assert (noted["grid"], noted["block"], noted["shared"], noted["stream"]) == ((3, 2, 1), (512, 1, 1), 1024, 5)
    assert [noted["slots"][0], noted["slots"][1] & 0xFFFFFFFF, noted["slots"][2]] == [4096, 2**32 - 3, f32(1.5)]
    assert utils.active_blocks(function, 0, 256) == 8 * 304


def test_shared_memory_is_the_code_objects(fake):
    """Only what the code object does not have is given with the launch."""
    kernel = add[(1,)](X, Y, Z, 64, BLOCK=64, min_shared_mem=4096)
    assert kernel.metadata.shared == 4096 and fake.launches[-1]["shared"] == 0


def test_threads_launch_at_once(fake):
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    threads = [threading.Thread(target=lambda: [add[(1,)](X, Y, Z, 64, BLOCK=64) for _ in range(20)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake.launches) == 61 and all(noted["slots"] == [4096, 8192, 12288, 64] for noted in fake.launches)


# -- devices -----------------------------------------------------------------------------------------------------------


def test_driver_interface(fake):
    """S12, S13: what users ask about the device."""
    drv = driver.active
    assert drv.get_current_target() == GPUTarget("hip", "gfx942", 64) and drv.get_device_capability(0) == (9, 4)
    found = drv.utils.get_device_properties(0)
    assert (found["max_shared_mem"], found["multiprocessor_count"], found["warpSize"]) == (65536, 304, 64)
    assert found["arch"] == "gfx942:sramecc+:xnack-" and found["max_threads_per_sm"] == 2048
    assert (drv.get_current_device(), drv.get_current_stream(0)) == (0, 0)
    assert drv.map_python_to_cpp_type("*fp32") == "hipDeviceptr_t" and drv.map_python_to_cpp_type("u32") == "uint32_t"
    assert drv.get_device_interface() is memory and _internal_testing.is_hip() and _internal_testing.is_hip_cdna3()
    assert not _internal_testing.is_cuda()
    from tritium.backends.amd.driver import HIPDriver, HIPLauncher, HIPUtils  # its names in Triton

    assert isinstance(drv, HIPDriver) and isinstance(drv.utils, HIPUtils) and drv.launcher_cls is HIPLauncher
    with pytest.raises(ValueError, match="there is no GPU 3: this machine has 1"):
        HIP.use(3)


def test_the_seeds_formula_and_ours_fill_the_gpu(fake):
    """S13: CDNA's doubled registers, by the properties the driver gives."""
    kernel = add.warmup(X, Y, Z, 64, grid=(1,), BLOCK=64, num_warps=4)
    kernel._init_handles()
    has = driver.active.utils.get_device_properties(0)
    lanes = has["warpSize"]
    waves = min(2 * has["max_num_regs"] // lanes // kernel.n_regs, has["max_threads_per_sm"] // lanes)
    assert waves // 4 == occupancy(kernel).programs == 8


@pytest.mark.parametrize("arch, warp_size", [(b"gfx90a:sramecc+:xnack-", 64), (b"gfx1100", 32)])
def test_other_architectures(monkeypatch, arch, warp_size):
    monkeypatch.setitem(fake_hip.ATTRIBUTES, 87, warp_size)
    _, drv = fake_hip.install(monkeypatch, arch=arch)
    try:
        assert drv.get_current_target() == GPUTarget("hip", arch.decode().partition(":")[0], warp_size)
    finally:
        driver.reset_active()
        fake_hip.clear()


def test_a_runtime_before_rocm_6_and_one_that_tells_nothing(fake, monkeypatch):
    monkeypatch.delattr(fake, "hipGetDevicePropertiesR0600")
    with pytest.raises(HipError, match="does not tell the architecture of GPU 0\nhint: name the target"):
        HIP.arch(0)

    @fake_hip.ctypes.CFUNCTYPE(fake_hip.I, fake_hip.P, fake_hip.I)
    def old(out, device):
        fake_hip.ctypes.memmove(out + 396, b"gfx908", 6)
        return 0

    fake.hipGetDeviceProperties = old
    assert HIP.arch(0) == "gfx908"


def test_the_active_driver_is_hip_where_there_is_no_cuda(fake, monkeypatch):
    """The file /dev/kfd, the library and a device; tensors that frameworks call "cuda" are its own."""
    for name in ("cuda", "hip"):
        monkeypatch.setitem(backends._SIGNS, name, ("/dev/null",))
    monkeypatch.setattr(backends.driver_class("cuda"), "is_usable", classmethod(lambda cls: False))
    monkeypatch.setattr(torch.version, "cuda", None)
    drivers = Drivers()
    assert drivers.active is drivers.named("hip") is drivers.of_device("cuda") is drivers.of_device(None)
    monkeypatch.setattr(backends.driver_class("cuda"), "is_usable", classmethod(lambda cls: True))
    assert Drivers().active.__class__ is backends.driver_class("cuda")
    assert Drivers().of_device("cuda").__class__ is backends.driver_class("cuda")
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert drivers.of_device("cuda") is drivers.named("hip")


def test_where_the_library_is_looked_for(fake, monkeypatch, tmp_path):
    monkeypatch.setattr(knobs.amd, "libhip_path", "/rocm/libamdhip64.so")
    monkeypatch.setenv("ROCM_PATH", "/opt/rocm-6.4")
    names = list(HIP.names())
    assert names[0] == "/rocm/libamdhip64.so" and names[-1] == "/opt/rocm-6.4/lib/libamdhip64.so"
    assert any(name.endswith("torch/lib/libamdhip64.so") for name in names) and "libamdhip64.so.6" in names


# -- memory ------------------------------------------------------------------------------------------------------------


def test_memory_streams_and_events(fake):
    host = np.arange(64, dtype=np.float32)
    x, pinned = memory.to_device(host), memory.pinned(64)
    assert (x.numpy() == host).all() and (x.clone().numpy() == host).all() and (memory.zeros(64).numpy() == 0).all()
    assert x.device == "cuda:0" and memory.memory_info() == (100, 200) and memory.is_available()
    add[(1,)](x, pinned, memory.empty(64), 64, BLOCK=64)
    assert fake.launches[-1]["slots"][:2] == [x.data_ptr(), pinned.ctypes.data]
    start, end = memory.Event(enable_timing=True), memory.Event(enable_timing=True)
    with memory.Stream() as stream:
        start.record()
        end.record()
    stream.synchronize()
    assert start.elapsed_time(end) == 1.0 and end.query() and stream.query()
    fake.fail["hipEventQuery"] = 600
    assert not end.query()
    used = {"hipMalloc", "hipHostMalloc", "hipMemcpyHtoDAsync", "hipMemcpyDtoHAsync", "hipMemcpyDtoDAsync",
            "hipMemsetD8Async", "hipStreamCreateWithPriority", "hipEventCreateWithFlags"}  # fmt: skip
    assert used <= set(fake.calls) and not [name for name in fake.calls if name.startswith("cu")]


def test_a_benchmark_needs_no_torch(fake, monkeypatch):
    from tritium.testing import do_bench

    monkeypatch.setattr(driver.active, "get_empty_cache_for_benchmark", lambda: memory.empty(64))
    assert do_bench(lambda: add[(1,)](X, Y, Z, 64, BLOCK=64), warmup=1, rep=1) > 0
    assert "hipEventElapsedTime" in fake.calls and fake.launches


# -- errors ------------------------------------------------------------------------------------------------------------


def test_refused_launches_name_kernel_error_and_remedy(fake):
    fake.fail["hipModuleLaunchKernel"] = 1
    for _ in range(2):
        with pytest.raises(HipError, match=r"add on a grid of \(2147483647, 1, 1\) failed: invalid argument ") as e:
            add[(2**31 - 1,)](X, Y, Z, 64, BLOCK=64)
        said = str(e.value)
        assert "(hipErrorInvalidValue, code 1)" in said and "x_ptr=0x1000, y_ptr=0x2000" in said and "2**32" in said
        fake.fail.clear()
        add[(1,)](X, Y, Z, 64, BLOCK=64)
        fake.fail["hipModuleLaunchKernel"] = 1


def test_late_errors_name_the_kernels_launched_before(fake):
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    fake.fail["hipDeviceSynchronize"] = 700
    with pytest.raises(HipError, match="hipDeviceSynchronize failed: an illegal memory access") as e:
        memory.synchronize()
    assert "launched last, the latest first: add\n" in str(e.value)
    assert "HIP_LAUNCH_BLOCKING=1" in str(e.value) and "rocgdb" in str(e.value)


@pytest.mark.parametrize("code, hint", [(2, "use smaller ones"), (100, "groups render and video")])
def test_errors_name_the_remedy(fake, code, hint):
    fake.fail["hipMalloc"] = code
    with pytest.raises(HipError, match=rf"hipMalloc failed: (.|\n)*code {code}\)\nhint: (.|\n)*{hint}"):
        memory.empty(4)


def test_binaries_that_do_not_load(fake):
    with pytest.raises(HipError, match="its binary is no code object"):
        HIP.load("k", b"text", 0, 0)
    fake.fail["hipModuleLoadData"] = 209
    with pytest.raises(HipError, match=r"loading k failed: (.|\n)*hipErrorNoBinaryForGpu(.|\n)*hint: .*another GPU"):
        HIP.load("k", fake_hip.HSACO, 0, 0)


def test_kernels_of_another_gpu_and_too_much_shared_memory(fake):
    import tritium

    source = tritium.compiler.ASTSource(add, dict.fromkeys(("x_ptr", "y_ptr", "z_ptr"), "*fp32") | {"n": "i32"},
                                        {"BLOCK": 64})  # fmt: skip
    other = tritium.compile(source, "gfx90a")
    with pytest.raises(RuntimeError, match="compiled for hip:gfx90a:64 cannot run here: the GPU is hip:gfx942:64"):
        other[(1, 1, 1)](X, Y, Z, 64, 64)
    with pytest.raises(OutOfResources, match="shared memory, Required: 70000, Hardware limit: 65536"):
        add[(1,)](X, Y, Z, 64, BLOCK=64, min_shared_mem=70000)


def test_memory_of_the_host_is_refused(fake):
    with pytest.raises(ValueError, match=r"Pointer argument \(at 1\) cannot be accessed from Triton \(cpu tensor\?\)"):
        add[(1,)](X, np.zeros(64, np.float32), Z, 64, BLOCK=64)


def test_modules_are_unloaded(fake):
    gc.collect()
    add[(1,)](X, Y, Z, 64, BLOCK=64)
    add.device_caches.clear()
    gc.collect()
    assert fake.calls.count("hipModuleUnload") == 1 and "hipThreadExchangeStreamCaptureMode" in fake.calls


def test_a_forked_process_sees_the_device_it_cannot_use(fake, monkeypatch):
    """torch's compile workers are forked from a process that uses the GPU: they compile for it, and launch nothing."""
    drv = driver.active.__class__
    assert drv.is_active() and drv.is_usable()
    memory.synchronize()
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert drv.is_active() and not drv.is_usable()
    with pytest.raises(HipError, match="forked from one that uses the GPU cannot use it\nhint: start processes by sp"):
        memory.empty(4)


def test_without_a_runtime(monkeypatch):
    monkeypatch.setattr(HIP, "library", lambda: None)
    assert not HIP.present()
    with pytest.raises(HipError, match="there is no AMD driver on this machine\nhint: compile for a GPU"):
        HIP.function("hipInit")


# -- messages ----------------------------------------------------------------------------------------------------------


def test_kernels_print_and_assert_through_a_buffer(fake, monkeypatch, capsys):
    """Kernels write to the buffer that `tritium_messages` points to; a synchronisation reads it."""
    read = lambda buffer, sites: SimpleNamespace(printed="hello\n" * int(buffer[0]), lost=int(buffer[1]),
                                                 failed=("k.py:3: no",) * int(buffer[2]))
    records = SimpleNamespace(VARIABLE="tritium_messages", empty=lambda words: [0] * (words + 4), read=read)
    monkeypatch.setitem(sys.modules, "tritium.backends.amdgcn.records", records)
    monkeypatch.setattr(messages, "_room", 12)
    at_exit = []
    monkeypatch.setattr(messages, "atexit", SimpleNamespace(register=lambda *call: at_exit.append(call)))
    monkeypatch.setattr(messages, "_all", type(messages._all)())
    fake.variables["tritium_messages"] = pointer = fake_hip.Q()
    original = fake_hip.hsaco
    with_sites = lambda *args: args[3].update(messages=[{"kind": "print"}]) or original(*args)
    monkeypatch.setattr("tritium.backends.amdgcn.BACKEND", fake_hip.BACKEND._replace(stages=(("hsaco", with_sites),)))
    kernel = add[(1,)](X, Y, Z, 48, BLOCK=16)
    buffer = (fake_hip.ctypes.c_uint32 * 16).from_address(pointer.value)
    buffer[0] = 2
    memory.synchronize()
    assert capsys.readouterr().out == "hello\nhello\n" and buffer[0] == 0
    buffer[1] = 3
    memory.synchronize()
    assert "add printed more than there was room for: 12 bytes are lost" in capsys.readouterr().err
    buffer[2] = 1
    with pytest.raises(HipError, match=r"device-side assert triggered\nk\.py:3: no"):
        memory.synchronize()
    memory.synchronize()
    buffer[0] = 1
    (look, process), = at_exit  # what nobody has waited for is printed in the end, by the process that launched
    look(process + 1)
    look(process)
    assert capsys.readouterr().out == "hello\n"
    del kernel
    add.device_caches.clear()
    gc.collect()  # the buffer goes while its driver is there
