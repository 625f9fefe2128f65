"""Launches on the real CPU backend: kinds of tensors and scalars, guards, threads, processes (S01, S02, S06)."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl
from tritium import knobs
from tritium.tools.tensor_descriptor import TensorDescriptor

torch = pytest.importorskip("torch")


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)


@triton.jit
def fill(x_ptr, value, n, BLOCK: tl.constexpr = 16):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, value, mask=offsets < n)


@triton.jit
def programs(x_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    index = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
    tl.store(x_ptr + index, x + 10 * y + 100 * z)


@pytest.fixture(autouse=True)
def on_the_cpu():
    knobs.backend = "cpu"
    yield
    del knobs.backend
    os.environ.pop("TRITIUM_BACKEND", None)


# -- kinds of tensors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [
    lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),), (97,), [97], 97], ids=["function", "tuple", "list", "int"])
def test_vector_add(grid):
    """S01: 97 programs, the last of 128 elements."""
    x, y = torch.rand(98432), torch.rand(98432)
    z = torch.full((98432 + 64,), 7.0)
    for _ in range(2):
        kernel = add[grid](x, y, z, 98432, BLOCK=1024)
    assert torch.equal(z[:98432], x + y) and (z[98432:] == 7).all()
    assert kernel.metadata.name == "add" and "llir" in kernel.asm


class Interface:
    """Memory known through one of the array protocols only."""

    def __init__(self, array, *names):
        self.array = array
        for name in names:
            setattr(self, name, getattr(array, name))


class Pointer:
    """The least an argument may be: an address and a dtype."""

    def __init__(self, tensor):
        self.tensor, self.dtype = tensor, tensor.dtype

    def data_ptr(self):
        return self.tensor.data_ptr()


class Dlpack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def wrap_pointer(array):
    return Pointer(torch.from_numpy(array))


@pytest.mark.parametrize("wrap", [
    lambda a: a, torch.from_numpy, Dlpack, wrap_pointer, lambda a: torch.nn.Parameter(torch.from_numpy(a)),
    lambda a: Interface(a, "__array_interface__"), lambda a: Dlpack(torch.from_numpy(a)),
], ids=["numpy", "torch", "dlpack of numpy", "data_ptr", "parameter", "array interface", "dlpack of torch"])
def test_anything_that_owns_memory(wrap):
    x, y, z = (np.full(40, value, np.float32) for value in (1, 2, 0))
    for _ in range(2):
        z[:] = 0
        add[(1,)](wrap(x), wrap(y), wrap(z), 40, BLOCK=64)
        assert (z == 3).all()


def test_views_start_where_they_start():
    base = torch.zeros(64)
    x = torch.arange(64.0)
    add[(1,)](x[3:], x[5:], base[7:], 10, BLOCK=16)
    assert torch.equal(base[7:17], x[3:13] + x[5:15]) and base[17:].sum() == 0 and base[:7].sum() == 0
    reversed_ = np.arange(8, dtype=np.float32)[::-1]
    out = np.zeros(8, np.float32)
    add[(1,)](reversed_, reversed_, out, 1, BLOCK=8)
    assert out[0] == 14


def test_a_function_kept_from_before_the_first_launch(monkeypatch):
    """It goes on by the native one as soon as there is one, and launches other types as well."""
    @triton.jit
    def twice(x_ptr, BLOCK: tl.constexpr):
        at = x_ptr + tl.arange(0, BLOCK)
        tl.store(at, tl.load(at) * 2)

    kept = twice[(1,)]
    for dtype in (torch.float32, torch.int32):
        x = torch.ones(16, dtype=dtype)
        for times in range(1, 4):
            kept(x, BLOCK=16)
            assert x.tolist() == [2**times] * 16
    with pytest.raises(KeyError, match="nonsense"):
        kept(x, BLOCK=16, nonsense=1)
    monkeypatch.setattr(twice.launcher, "native", None)  # nobody asks for another one
    kept(x, BLOCK=16)
    assert x.tolist() == [16] * 16


def test_empty_tensors_and_grids():
    x, empty = torch.ones(4), torch.empty(0)
    z = torch.zeros(4)
    add[(1,)](empty, empty, empty, 0, BLOCK=16)
    for grid in ((0,), (0, 4), lambda meta: (triton.cdiv(0, meta["BLOCK"]),)):
        assert add[grid](x, x, z, 4, BLOCK=16) is not None
    assert z.sum() == 0


@pytest.mark.parametrize("dtype", [
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint8])
def test_element_types(dtype):
    x, y, z = torch.arange(20).to(dtype), torch.full((20,), 2).to(dtype), torch.zeros(20).to(dtype)
    add[(1,)](x, y, z, 20, BLOCK=32)
    assert torch.equal(z, x + y)


def test_grid_order():
    out = torch.zeros(24, dtype=torch.int32)
    programs[(2, 3, 4)](out)
    expected = [x + 10 * y + 100 * z for z in range(4) for y in range(3) for x in range(2)]
    assert out.tolist() == expected


# -- scalars -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "dtype"), [
    (1, torch.int32), (16, torch.int32), (-7, torch.int64), (2**40, torch.int64), (-(2**40), torch.int64),
    (True, torch.int8), (False, torch.int8), (2.5, torch.float32), (1e300, torch.float32), (-0.0, torch.float32),
    (float("nan"), torch.float32), (3, torch.float64)])
def test_scalars(value, dtype):
    out = torch.zeros(16, dtype=dtype)
    for _ in range(2):
        out.zero_()
        fill[(1,)](out, value, 16)
        expected = torch.full((16,), value if abs(value) < 1e38 or value != value else float("inf"), dtype=dtype)
        assert torch.equal(out, expected) or (out.isnan().all() and expected.isnan().all())
        assert not out.is_floating_point() or torch.equal(out.signbit(), expected.signbit())


def test_uint64_scalars():
    out = np.zeros(16, np.uint64)
    for value in (2**64 - 1, 2**63, 5, 2**63):
        fill[(1,)](out, value, 16)
        assert (out == value).all()


def test_annotated_scalars():
    @triton.jit
    def kernel(x_ptr, a: tl.int64, b: tl.float64, c: "u8", d: tl.float16, e: tl.bfloat16):  # noqa: F821
        tl.store(x_ptr, a.to(tl.float64))
        tl.store(x_ptr + 1, b)
        tl.store(x_ptr + 2, c.to(tl.float64))
        tl.store(x_ptr + 3, d.to(tl.float64))
        tl.store(x_ptr + 4, e.to(tl.float64))

    out = torch.zeros(5, dtype=torch.float64)
    for a in (1, 2, 2**40, -1):
        kernel[(1,)](out, a, 0.1, 200, 1.5, 2.25)
        assert out.tolist() == [a, 0.1, 200, 1.5, 2.25]


def test_the_active_device_has_a_stream_to_set():
    """S40: tutorials set a stream of the active device before they measure."""
    device = triton.runtime.driver.active.get_active_torch_device()
    module = getattr(torch, device.type)
    module.set_stream(module.Stream())
    assert device.type == "cpu" and module.current_stream() is not None


def test_an_annotated_one_is_its_own_kernel_at_run_time():
    @triton.jit
    def kernel(x_ptr, n: tl.int32):
        tl.store(x_ptr, n)

    x = np.zeros(1, np.int32)
    for value in (1, 1, 8, 16, 1, 17):
        kernel[(1,)](x, value)
        assert x[0] == value
    kernels, *_ = kernel.device_caches[0]
    assert len(kernels) == 3


def test_a_stride_annotated_as_an_integer_is_known_to_be_one():
    """It stays a tensor, and the code is that of contiguous memory."""
    @triton.jit
    def kernel(x_ptr, step: int, B: tl.constexpr):
        rows = tl.make_block_ptr(x_ptr, (B,), (step.to(tl.int64),), (0,), (B,), (0,))
        tl.store(rows, tl.load(rows) * 2)

    x = np.arange(32, dtype=np.float32)
    one, two = (kernel[(1,)](x, step, 16).asm["ttir"] for step in (1, 2))
    assert "cast %step" in two and "%step" not in one.partition("{dialect")[2]
    assert x.tolist() == [2.0 * k * (2 if k < 16 and k % 2 == 0 else 1) for k in range(16)] + \
        [2.0 * k if k % 2 == 0 else k for k in range(16, 32)]


def test_optional_pointers():
    @triton.jit
    def kernel(x_ptr, bias_ptr, n):
        value = n
        if bias_ptr is not None:
            value += tl.load(bias_ptr)
        tl.store(x_ptr, value)

    out, bias = torch.zeros(1, dtype=torch.int32), torch.full((1,), 5, dtype=torch.int32)
    for pointer, expected in ((None, 3), (bias, 8), (None, 3), (bias, 8)):
        kernel[(1,)](out, pointer, 3)
        assert out.item() == expected


def test_tuples():
    @triton.jit
    def kernel(pair, n):
        tl.store(pair[0] + tl.arange(0, 4), pair[1] + n)

    out = torch.zeros(4, dtype=torch.int32)
    for _ in range(2):
        kernel[(1,)]((out, 40), 2)
    assert out.tolist() == [42] * 4


def test_descriptors():
    @triton.jit
    def kernel(src, dst):
        row = tl.program_id(0) * 8
        dst.store([row, 0], src.load([row, 0]) + 1)

    x, out = torch.rand(20, 16), torch.zeros(20, 16)
    kernel[(3,)](TensorDescriptor.from_tensor(x, [8, 16]), TensorDescriptor.from_tensor(out, [8, 16]))
    assert torch.equal(out, x + 1)


# -- guards ------------------------------------------------------------------------------------------------------------


def test_a_guard_never_runs_the_wrong_kernel():
    """Launch in an order that meets every armed specialisation with arguments of another one."""
    base = {dtype: torch.arange(80).to(dtype) for dtype in (torch.float32, torch.float64, torch.int32)}
    inputs = [tensor[shift:shift + 32] for tensor in base.values() for shift in (0, 1, 4)]
    inputs += [np.arange(40, dtype=np.float32)[shift:shift + 32] for shift in (0, 1)]
    rng = np.random.default_rng(0)
    for _ in range(400):
        x = inputs[rng.integers(len(inputs))]
        n = int(rng.choice([1, 3, 16, 17, 32]))
        block = [32, 64][rng.integers(2)]
        out = np.full(32, -1.0) if isinstance(x, np.ndarray) else torch.full((32,), -1.0, dtype=torch.float64)
        add[(1,)](x, x, out, n, BLOCK=block, **({"num_warps": 2} if rng.integers(2) else {}))
        assert (out[:n] == x[:n] + x[:n]).all() and (out[n:] == -1).all()


@pytest.mark.parametrize("pair", [(1, True), (1, 1.0), (0.0, -0.0), (16, 16.0)])
def test_guards_tell_equal_constants_apart(pair):
    @triton.constexpr_function
    def kind(c):
        return ["bool", "int", "float"].index(type(c).__name__) + 10 * (repr(c)[0] == "-")

    @triton.jit
    def kernel(x_ptr, C: tl.constexpr):
        tl.store(x_ptr, kind(C))

    out = torch.zeros(1)
    for value in (*pair, *pair, pair[1], pair[0]):
        kernel[(1,)](out, value)
        assert out.item() == kind(value)
    assert len(kernel.device_caches[0][0]) == 2


def test_tensors_without_memory_are_refused():
    del knobs.backend
    os.environ.pop("TRITIUM_BACKEND", None)
    x, nowhere = torch.empty(4), torch.empty(4, device="meta")
    add[(1,)](x, x, x, 4, BLOCK=16)
    with pytest.raises(ValueError, match=r"(?s)y_ptr is on meta, an argument before it on cpu.*a shape and no memory"):
        add[(1,)](x, nowhere, x, 4, BLOCK=16)
    with pytest.raises(ValueError, match="tensors on meta cannot be accessed from Triton"):
        add[(1,)](nowhere, nowhere, nowhere, 4, BLOCK=16)


def test_threads_launch_at_the_same_time():
    failures = []

    def work(seed):
        x = torch.full((4096,), float(seed))
        z = torch.zeros(4096)
        for i in range(50):
            block = [64, 128][i % 2]
            z.zero_()
            add[(triton.cdiv(4096, block),)](x, x, z, 4096, BLOCK=block)
            if not (z == 2 * seed).all():
                failures.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_number_of_threads():
    before = triton.get_num_threads()
    try:
        for n in (1, 3):
            triton.set_num_threads(n)
            assert triton.get_num_threads() == n
            z = torch.zeros(4096)
            add[(64,)](z + 1, z + 2, z, 4096, BLOCK=64)
            assert (z == 3).all()
        with pytest.raises(ValueError, match="must be a positive int"):
            triton.set_num_threads(0)
    finally:
        triton.set_num_threads(before)


# -- the driver --------------------------------------------------------------------------------------------------------


def test_driver_answers():
    """S12: users ask at import, also where there is no GPU."""
    active = triton.runtime.driver.active
    target = active.get_current_target()
    assert (target.backend, target.warp_size) == ("cpu", 1) and active.get_current_device() == 0
    properties = active.utils.get_device_properties(0)
    assert {"max_shared_mem", "max_num_regs", "multiprocessor_count", "warpSize", "sm_clock_rate", "mem_clock_rate",
            "mem_bus_width"} <= properties.keys()  # fmt: skip
    assert properties["multiprocessor_count"] >= 1 and active.get_active_torch_device() == torch.device("cpu")
    assert active.map_python_to_cpp_type("*fp32") == "void*" and active.map_python_to_cpp_type("i32") == "int32_t"
    buffer = active.get_empty_cache_for_benchmark()
    active.clear_cache(buffer)
    assert not buffer.any()


def test_warmup_then_launch():
    """S11: figures of a kernel that has not run, then a launch of it."""
    kernel = add.warmup(torch.float32, torch.float32, torch.float32, 100, BLOCK=128, grid=(1,))
    kernel._init_handles()
    assert kernel.n_regs > 0 and kernel.n_spills == 0 and kernel.metadata.shared > 0
    x, z = torch.rand(100), torch.zeros(100)
    kernel[(1, 1, 1)](x, x, z, 100, 128)
    assert torch.equal(z, 2 * x)


def test_every_stage_is_text():
    kernel = add.warmup(torch.float32, torch.float32, torch.float32, 100, BLOCK=128, grid=(1,))
    assert "kernel @add" in kernel.asm["ttir"] and "define" in kernel.asm["llir"] and "add" in kernel.asm["asm"]
    assert isinstance(kernel.asm["obj"], bytes)


# -- processes ---------------------------------------------------------------------------------------------------------

PROGRAM = textwrap.dedent("""
    import sys
    import numpy as np
    import tritium as triton
    from kernels import scale, FACTOR
    triton.cache.fingerprint = lambda: "one compiler"  # somebody may be editing it
    x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    scale[(1,)](x, y, BLOCK=16)
    assert (y == x * FACTOR.value + 1).all(), y
    print(*triton.runtime.cache.stats())
    """)
KERNELS = textwrap.dedent("""
    import tritium as triton, tritium.language as tl
    FACTOR = tl.constexpr(2)

    @triton.jit
    def plus_one(x):
        return x + 1

    @triton.jit
    def scale(x_ptr, y_ptr, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        tl.store(y_ptr + offsets, plus_one(tl.load(x_ptr + offsets) * FACTOR))
    """)


def test_second_process_finds_the_kernel_and_edits_recompile(tmp_path):
    """S06: a second process compiles nothing; editing kernel, callee or global does."""

    def run(text):
        (tmp_path / "kernels.py").write_text(text)
        paths = {"TRITON_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-B", "-c", PROGRAM], cwd=tmp_path, env={**os.environ, **paths},
                              text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        hits, misses, *_ = map(int, done.stdout.split())
        return hits, misses

    assert run(KERNELS) == (0, 1)
    assert run(KERNELS) == (1, 0)
    assert run(KERNELS.replace("constexpr(2)", "constexpr(3)")) == (0, 1)
    assert run(KERNELS.replace("return x + 1", "return 1 + x")) == (0, 1)
    assert run(KERNELS.replace("offsets = tl.arange", "offsets = 0 + tl.arange")) == (0, 1)
    assert run("\n" + KERNELS) == (0, 1)
    assert run(KERNELS) == (1, 0)


def test_arrays_of_the_host_leave_a_gpu_alone(monkeypatch):
    """Its driver takes a fifth of a second to start, and memory in every process."""
    from tritium import backends
    from tritium.backends.driver import driver

    def asked():
        raise AssertionError("the driver of a GPU was started")

    monkeypatch.setattr(knobs, "backend", None)
    monkeypatch.setattr(driver, "_default", None)
    monkeypatch.setattr(driver, "_chosen", None)
    monkeypatch.setattr(backends, "may_have_device", lambda name: True)
    monkeypatch.setattr(backends.driver_class("cuda"), "is_usable", asked)
    x = np.ones(16, np.float32)
    for _ in range(2):
        add[(1,)](x, x, x, 16, BLOCK=16)
    assert (x == 4).all()
    with pytest.raises(AssertionError, match="was started"):
        driver.active.get_current_target()
