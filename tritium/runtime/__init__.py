"""Launching: kernels, tuning, drivers and caches. Everything is imported when first used."""

import importlib

__path__ = [*__path__, f"{__path__[0]}/../compat/runtime"]  # modules that only Triton's users look for

_HOMES = {
    "Autotuner": "autotuner", "Config": "autotuner", "Heuristics": "autotuner", "autotune": "autotuner",
    "heuristics": "autotuner", "JITFunction": "jit", "KernelInterface": "jit", "MockTensor": "jit",
    "TensorWrapper": "jit", "reinterpret": "jit", "InterpreterError": "errors", "OutOfResources": "errors",
    "RemoteCacheBackend": "cache", "RedisRemoteCacheBackend": "cache", "AsyncCompileMode": "async_compile",
    "FutureKernel": "async_compile", "set_allocator": "_allocation",
}  # fmt: skip
_MODULES = {*_HOMES.values(), "build", "driver", "interpreter", "memory"}

__all__ = sorted({*_HOMES, "driver"})


def __getattr__(name: str):
    if name in _HOMES:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_HOMES, *_MODULES})
