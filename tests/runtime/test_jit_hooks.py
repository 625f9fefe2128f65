"""What is told of launches and compilations: hooks, compiled kernels, errors, and futures (LANGUAGE 9 to 11)."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.runtime.jit_kernels import X, add, kernels, nothing, tl
from tritium import compiler, knobs
from tritium.compiler import CompiledKernel
from tritium.compiler.background import AsyncCompileMode, FutureKernel
from tritium.errors import CompilationError, OutOfResources, is_ours
from tritium.language.types import dtypes as tl_types
from tritium.runtime.jit import jit
from tritium.tensors import MockTensor

# -- hooks -------------------------------------------------------------------------------------------------------------


def test_pre_run_hooks_get_the_arguments_as_written(fake):
    seen = []
    add[(1,)](X, X, 3)
    add.add_pre_run_hook(lambda *args, **kwargs: seen.append((len(args), sorted(kwargs))))
    add[(1,)](X, X, n=3, num_warps=2)
    assert seen == [(2, ["n", "num_warps"])] and len(fake.launches) == 2
    with pytest.raises(TypeError, match="a hook is a function"):
        add.add_pre_run_hook(3)


def test_launch_hooks_surround_the_launch(fake):
    events = []
    add[(1,)](X, X, 3)
    knobs.runtime.launch_enter_hook.add(lambda told: events.append(("enter", told.get()["name"], len(fake.launches))))
    knobs.runtime.launch_exit_hook.add(lambda told: events.append(("exit", told.get()["stream"], len(fake.launches))))
    add[(1,)](X, X, 3)
    assert events == [("enter", "add", 1), ("exit", 7, 2)]


def test_launch_metadata_is_computed_only_when_read(fake):
    calls = []

    @jit(launch_metadata=lambda grid, metadata, args: calls.append((grid, metadata.name, args["n"])) or {"flops": 9})
    def kernel(x, n):
        pass

    seen = []
    kernel[(1,)](X, 3)
    knobs.runtime.launch_enter_hook.add(seen.append)
    kernel[(2,)](X, 3)
    assert not calls
    assert seen[0].get()["flops"] == 9 and calls == [((2, 1, 1), "kernel", 3)]


def test_load_hooks(fake):
    events = []
    knobs.runtime.kernel_load_start_hook.add(lambda module, function, name, group, key: events.append((name, module)))
    knobs.runtime.kernel_load_end_hook.add(lambda module, function, name, group, key: events.append((name, function)))
    add[(1,)](X, X, 3)
    add[(1,)](X, X, 3)
    assert events == [("add", None), ("add", "add")]


def test_unload_hook(tmp_path):
    """A collected kernel gives its code back; what a forked child inherited stays its parent's."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent("""
        import gc, os, sys
        import numpy as np
        import tritium as triton
        import tritium.language as tl
        from tritium import knobs

        events = []
        knobs.runtime.kernel_unload_hook = lambda module, function, name, group, key: events.append((name, function))
        def made():
            @triton.jit
            def fill(x):
                tl.store(x, 7)
            x = np.zeros(1, np.int32)
            kernel = fill[(1,)](x)
            assert x[0] == 7
            return kernel
        function, module = made().function, made().module
        gc.collect()
        assert ("fill", function) in events and len(events) == 2, events
        assert not module._addresses  # unmapped, though we keep it
        kept = made()
        if (child := os.fork()) == 0:
            del kept
            gc.collect()
            os._exit(len(events) - 2)
        assert os.waitpid(child, 0)[1] == 0
        del kept
        gc.collect()
        assert len(events) == 3
        last = made()  # lives until the end: nothing is unloaded then
        """))
    # Python 3.12 warns of a fork beside threads, which a driver may have.
    done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", str(program)], capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_cache_hook_can_cancel_and_post_hook_is_told(fake):
    told = []
    knobs.runtime.jit_cache_hook = lambda **what: told.append(what) or True
    knobs.runtime.jit_post_compile_hook = lambda **what: told.append("post")
    assert add[(1,)](X, X, 3, num_warps=2) is None
    assert not fake.launches and not fake.lowered
    what = told[0]
    assert what["fn"].jit_function is add and what["fn"].name == "add" and what["is_manual_warmup"] is False
    assert "add[num_warps=2" in what["repr"] and "x_ptr: *fp32" in what["repr"]
    assert set(what["compile"]) == {
        "key", "signature", "device", "constants", "num_warps", "num_ctas", "num_stages", "enable_fp_fusion",
        "launch_cooperative_grid", "extern_libs", "configs", "specialization_data", "is_warmup"}  # fmt: skip
    knobs.runtime.jit_cache_hook = None
    add[(1,)](X, X, 3, num_warps=2)
    assert told[1:] == ["post"] and len(fake.launches) == 1


def test_preload_fills_the_cache(fake):
    told = []
    knobs.runtime.jit_cache_hook = lambda **what: told.append(what["compile"]["specialization_data"])
    add[(1,)](X, X, 3, BLOCK=tl_types.float16, num_warps=2)
    knobs.runtime.jit_cache_hook = None
    add.device_caches.clear()
    kernel = add.preload(told[0])
    assert kernel.metadata.num_warps == 2
    assert add[(1,)](X, X, 3, BLOCK=tl_types.float16, num_warps=2) is kernel
    with pytest.raises(RuntimeError, match=r"Specialization data is for .*add but trying to preload for .*nothing"):
        nothing.preload(told[0])


# -- warmup, compiled kernels ------------------------------------------------------------------------------------------


def test_warmup_compiles_and_the_result_can_be_launched(fake):
    kernel = add.warmup(MockTensor("fp32"), X, 3, grid=(1,))
    assert not fake.launches and not fake.loads
    kernel._init_handles()
    assert (kernel.n_regs, kernel.n_spills, kernel.n_max_threads) == (10, 0, 64) and fake.loads == ["add"]
    assert kernel.metadata.shared == 24 and kernel.metadata.target.backend == "fake"
    kernel[(4, 1, 1)](X, X, 3, 64)
    assert fake.launches == [("add", (4, 1, 1), [X.ctypes.data, X.ctypes.data, 3])]
    with pytest.raises(ValueError, match="3 sizes"):
        kernel[(4,)]


def test_warmup_takes_torch_dtypes(fake):
    torch = pytest.importorskip("torch")
    add.warmup(torch.bfloat16, torch.float32, 3, grid=(1,))
    assert fake.lowered[0][1]["x_ptr"] == "*bf16"


def test_out_of_resources_is_remembered(fake, monkeypatch):
    monkeypatch.setattr(fake, "get_device_properties", lambda device: {"max_shared_mem": 8})
    for _ in range(2):
        with pytest.raises(OutOfResources, match="out of resource: shared memory, Required: 24, Hardware limit: 8"):
            add[(1,)](X, X, 3)
    assert len(fake.lowered) == 1


def test_too_much_tensor_memory(fake, monkeypatch):
    monkeypatch.setitem(compiler._BASE, "tmem_size", 513)
    with pytest.raises(OutOfResources, match="tensor memory, Required: 513, Hardware limit: 512"):
        add[(1,)](X, X, 3)


def test_too_many_threads(fake):
    with pytest.raises(OutOfResources, match="threads, Required: 128, Hardware limit: 64"):
        add[(1,)](X, X, 3, num_warps=128)


def test_repr_names_the_kernel(fake):
    @jit(repr=lambda spec: f"copy_{spec.constants['BLOCK']}_{spec.signature['x'][1:]}")
    def kernel(x, BLOCK: tl.constexpr):
        pass

    assert kernel[(1,)](X, 32).name == "copy_32_fp32"


def test_repr_of_a_kernel_made_from_another(fake):
    @jit(repr=lambda spec: f"copy_{spec.constants['B']}")
    def kernel(x, B: tl.constexpr):
        pass

    derived = jit(kernel.fn, repr=lambda spec: f"{kernel.repr(spec)}_of_mine")
    assert derived[(1,)](X, 32).name == "copy_32_of_mine"


# -- several devices ---------------------------------------------------------------------------------------------------


class OnDevice:
    dtype = "fp32"

    def __init__(self, device):
        self.device = device

    def data_ptr(self):
        return 32


def test_tensors_on_different_devices(fake):
    with pytest.raises(ValueError, match=r"Pointer argument \(at 1\) cannot be accessed from Triton: .* is on xpu"):
        add[(1,)](OnDevice("cuda:0"), OnDevice("xpu:0"), 3)


# -- tracebacks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [lambda: add[(1,)](X, X, 3), lambda: add.warmup(X, X, 3, grid=(1,))])
def test_traceback_ends_at_the_launch(fake, monkeypatch, start):
    def broken(*args):
        raise CompilationError(None, None, "no")

    monkeypatch.setattr("tritium.frontend.lower", broken)
    with pytest.raises(CompilationError) as caught:
        start()
    assert caught.traceback[-1].name == "broken"
    assert not [entry for entry in caught.traceback if is_ours(str(entry.path))]  # from the launch into the user's code


# -- background compilation --------------------------------------------------------------------------------------------


def test_async_compilation_returns_futures_and_waits_at_the_end(fake):
    with ThreadPoolExecutor(2) as pool, AsyncCompileMode(pool):
        first = add.warmup(X, X, 3, grid=(1,))
        again = add.warmup(X, X, 3, grid=(1,))
        launched = add[(1,)](X, X, 16)
        assert isinstance(first, FutureKernel) and again is first
        assert isinstance(launched, CompiledKernel)
        with pytest.raises(RuntimeError, match="Another AsyncCompileMode is already active"), AsyncCompileMode(pool):
            pass
    assert all(isinstance(kernel, CompiledKernel) for kernel in kernels(add).values())
    assert first.result().name == first.name == "add" and len(fake.launches) == 1


def test_async_errors_are_raised_or_ignored(fake, monkeypatch):
    def broken(*args):
        raise CompilationError(None, None, "no")

    monkeypatch.setattr("tritium.frontend.lower", broken)
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(CompilationError, match="no"), AsyncCompileMode(pool):
            add.warmup(X, X, 3, grid=(1,))
        add.device_caches.clear()
        with AsyncCompileMode(pool, ignore_errors=True):
            future = add.warmup(X, X, 3, grid=(1,))
        assert future.result(ignore_errors=True) is None
