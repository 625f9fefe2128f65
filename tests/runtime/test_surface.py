"""What users import, and what importing costs (LANGUAGE 1; SURFACE)."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tritium

TOP = [
    "jit", "JITFunction", "KernelInterface", "constexpr_function", "autotune", "Config", "heuristics", "cdiv",
    "next_power_of_2", "compile", "CompilationError", "TritonError", "InterpreterError", "OutOfResources", "MockTensor",
    "TensorWrapper", "reinterpret", "AsyncCompileMode", "FutureKernel", "set_allocator", "must_use_result", "language",
    "runtime", "testing", "tools", "compiler", "backends", "errors", "knobs", "set_num_threads", "get_num_threads",
]  # fmt: skip

PATHS = {
    "runtime": ["driver", "JITFunction", "Autotuner", "Heuristics", "Config", "autotune", "heuristics",
                "KernelInterface", "OutOfResources", "InterpreterError", "MockTensor", "TensorWrapper", "reinterpret",
                "RemoteCacheBackend", "RedisRemoteCacheBackend"],
    "runtime.jit": ["JITFunction", "JITCallable", "ConstexprFunction", "KernelInterface", "KernelParam", "MockTensor",
                    "TensorWrapper", "jit", "reinterpret", "mangle_type", "get_full_name"],
    "runtime.autotuner": ["Autotuner", "AutotunerError", "OutOfResources", "Config"],
    "runtime.cache": ["get_cache_manager", "get_dump_manager", "get_override_manager", "CacheManager", "stats",
                      "_base32", "knobs"],
    "runtime.driver": ["driver", "active", "set_active", "reset_active", "default"],
    "runtime.errors": ["InterpreterError", "OutOfResources", "PTXASError", "AutotunerError", "TritonError"],
    "runtime.interpreter": ["InterpretedFunction"],
    "runtime.build": ["compile_module_from_src", "compile_module_from_file", "compile_so_from_src",
                      "compile_so_from_file", "_build"],
    "runtime._allocation": ["set_allocator", "NullAllocator"],
    "compiler": ["ASTSource", "IRSource", "CompiledKernel", "CompilationError", "LazyDict", "compile", "make_backend",
                 "get_cache_key"],
    "compiler.compiler": ["ASTSource", "CompiledKernel", "compile", "make_backend", "triton_key", "LazyDict"],
    "compiler.code_generator": ["ast_to_ttir", "CompilationError"],
    "compiler.errors": ["CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"],
    "backends": ["backends"],
    "backends.compiler": ["GPUTarget", "BaseBackend", "Language"],
    "backends.driver": ["DriverBase", "GPUDriver"],
    "errors": ["TritonError"],
    "profiler": ["start", "scope", "viewer", "language"],
    "profiler.language": ["enter_scope", "exit_scope", "enable_semantic"],
    "profiler.viewer": ["read", "parse"],
    "_utils": ["find_paths_if", "get_iterable_path"],
    "_internal_testing": ["is_cuda", "is_hip", "is_interpreter", "numpy_random", "to_numpy", "to_triton", "dtypes",
                          "requires_tma", "default_alloc_fn"],
    "knobs": ["runtime", "compilation", "autotuning", "cache", "language", "build", "nvidia", "amd", "proton", "redis",
              "env", "propagate_env", "refresh_knobs", "HookChain"],
}  # fmt: skip


@pytest.mark.parametrize("name", TOP)
def test_top_level_names(name):
    assert getattr(tritium, name) is not None and name in dir(tritium)


@pytest.mark.parametrize(("module", "names"), PATHS.items(), ids=PATHS)
def test_import_paths(module, names):
    found = importlib.import_module(f"tritium.{module}")
    missing = [name for name in names if not hasattr(found, name)]
    assert not missing


def test_version_and_unknown_names():
    assert tritium.__version__ == "3.6.0"
    with pytest.raises(AttributeError, match="no attribute 'jitt'"):
        tritium.jitt
    with pytest.raises(AttributeError, match="no attribute 'jitt'"):
        tritium.runtime.jitt


def test_driver_is_module_and_object():
    import tritium.runtime.driver as module
    from tritium.runtime import driver
    from tritium.runtime.driver import driver as really

    assert module.active is driver.active is really.active


def test_import_brings_in_nothing_heavy():
    heavy = ("torch", "llvmlite", "numpy", "rich", "matplotlib", "pandas", "cuda")
    text = ("import sys, tritium; tritium.jit; import tritium.language\n"
            f"print(*(module for module in {heavy} if module in sys.modules))")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_decorating_touches_no_driver_and_no_compiler():
    text = ("import sys, tritium\n"
            "from tritium.language.source.function import cdiv\n"
            "tritium.jit(cdiv.fn)\n"
            "print(*(m for m in sys.modules if m.startswith(('tritium.backends', 'tritium.compiler', 'tritium.ops'))))")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942", "x86-64-v3", "aarch64"])
def test_compiling_brings_in_neither_numpy_nor_other_backends(target, tmp_path):
    """NumPy takes longer to import than a small kernel to compile."""
    (tmp_path / "kernel.py").write_text("""
import tritium as triton, tritium.language as tl
@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) + 1.0, i < n)
""")
    text = ("import sys, tritium\n"
            "from kernel import add\n"
            "types = {'x': '*fp32', 'y': '*fp32', 'n': 'i32', 'BLOCK': 'constexpr'}\n"
            f"kernel = tritium.compile(tritium.compiler.ASTSource(add, types, {{'BLOCK': 64}}), target={target!r})\n"
            "kinds = {'cuda': 'nvptx', 'hip': 'amdgcn', 'cpu': 'cpu'}\n"
            "others = [kind for name, kind in kinds.items() if name != kernel.metadata.target.backend]\n"
            "unwanted = ('numpy', 'ml_dtypes', 'fractions', *(f'tritium.backends.{kind}.isa' for kind in others),\n"
            "            *(f'tritium.backends.{kind}.lower' for kind in others))\n"
            "print(*(module for module in unwanted if module in sys.modules))")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(Path(__file__).parents[2]), str(tmp_path))),
           "TRITIUM_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=env)
    assert not done.returncode and done.stdout.split() == [], done.stdout + done.stderr


def test_allocator():
    from tritium.runtime._allocation import get_allocator, no_allocator

    with pytest.raises(RuntimeError, match="no allocator was set"):
        no_allocator(128, 16, None)
    tritium.set_allocator(lambda size, alignment, stream: (size, alignment))
    assert get_allocator()(128, 16, None) == (128, 16)
    tritium.set_allocator(None)
    assert get_allocator() is no_allocator


def test_fresh_settings_for_test_suites(monkeypatch):
    from tritium import knobs
    from tritium._internal_testing import _fresh_knobs_impl

    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    monkeypatch.setenv("TRITON_KERNEL_DUMP", "0")  # to be gone afterwards: the next line sets it for good
    knobs.compilation.dump_ir = True
    fresh, restore = _fresh_knobs_impl()
    settings = fresh()
    assert settings is knobs and not knobs.autotuning.print and not knobs.compilation.dump_ir
    knobs.language.fp32_default = "ieee"
    restore()
    assert knobs.autotuning.print and knobs.compilation.dump_ir and knobs.language.fp32_default is None
    del knobs.compilation.dump_ir


@pytest.mark.parametrize("dtype", ["int8", "uint16", "uint64", "float16", "bfloat16", "bool"])
def test_arrays_of_test_suites_come_back(dtype):
    import numpy as np

    from tritium import _internal_testing as testing

    x = testing.numpy_random((3, 4), dtype)
    assert np.array_equal(testing.to_numpy(testing.to_triton(x, dst_type=dtype)), x)
