"""tritium: the Triton language over LLVM.

    import tritium as triton
    import tritium.language as tl

Names are imported when first used, so `import tritium` costs next to nothing and needs no framework.
"""

import importlib
import os
import sys
from typing import Any

__path__ = [*__path__, f"{__path__[0]}/compat"]  # modules that only Triton's users look for

from .interp import assembly as _assembly

__version__: str  # the release of Triton whose programs run here, which libraries compare: `knobs.language.dialect`

_HOMES = {
    "jit": "runtime.jit", "JITFunction": "runtime.jit", "KernelInterface": "runtime.jit", "MockTensor": "tensors",
    "TensorWrapper": "tensors", "reinterpret": "tensors",
    "autotune": "runtime.autotuner", "Config": "runtime.autotuner", "heuristics": "runtime.autotuner",
    "set_allocator": "runtime._allocation",
    "aggregate": "language.types.aggregate",
    "constexpr_function": "language.source.function", "must_use_result": "language.source.function",
    "cdiv": "language.source.function", "next_power_of_2": "language.source.function",
    "load_bundle": "compiler.bundles", "BundleError": "compiler.bundle_file",
    "compile": "compiler", "AsyncCompileMode": "compiler.background", "FutureKernel": "compiler.background",
    "CompilationError": "errors", "TritonError": "errors", "InterpreterError": "errors", "OutOfResources": "errors",
    "explain": "insight.explain.explanation", "profile": "insight.profile.profiler",
    "sanitize": "insight.sanitize.sanitizer",
    "explain_recompile": "runtime.recompile", "watch_recompiles": "runtime.recompile",
    "install_as_triton": "alias", "uninstall_as_triton": "alias",
}  # fmt: skip

_MODULES = (
    "alias", "backends", "cache", "compiler", "errors", "insight", "interp", "ir", "kernels", "knobs", "language",
    "ops", "passes", "runtime", "tensors", "testing", "tools",
)  # fmt: skip

__all__ = sorted({*_HOMES, *_MODULES, "__version__", "get_num_threads", "set_num_threads"})


def _run_assembly(op, xs):
    from tritium.backends.cpu.assembly import run

    return run(op, xs)


# The interpreter stands below the backends: what needs machine code there comes from here.
_assembly.register(_run_assembly)


def __getattr__(name: str):
    if name == "__version__":
        return f"{importlib.import_module(f'{__name__}.knobs').language.dialect}.0"
    if name in _HOMES:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    elif name in _MODULES or name == "_C":
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    globals()[name] = value
    return value


if os.environ.get("TRITIUM_SANITIZE", "0") not in ("", "0"):
    importlib.import_module(f"{__name__}.insight.sanitize.sanitizer").start()


def __dir__():
    return sorted({*globals(), *__all__})


def set_num_threads(n: int) -> None:
    """Let up to `n` threads work on one launch on the CPU.

    >>> import tritium
    >>> before = tritium.get_num_threads()
    >>> tritium.set_num_threads(1); tritium.get_num_threads()
    1
    >>> tritium.set_num_threads(before)
    """
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"the number of threads must be a positive int, not {n!r}")
    from tritium import knobs
    from tritium.backends.driver import driver

    knobs.num_threads = n
    cpu: Any = driver.named("cpu")
    cpu.set_num_threads(n)


def get_num_threads() -> int:
    """How many threads may work on one launch on the CPU, the caller's included.

    >>> import tritium
    >>> tritium.get_num_threads() >= 1
    True
    """
    from tritium import knobs

    return knobs.num_threads
