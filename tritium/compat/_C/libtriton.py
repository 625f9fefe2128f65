"""The few names of Triton's native library that frameworks use to look into a kernel; nothing here is native.

    >>> context = ir.context()
    >>> ir.load_dialects(context)
    >>> sorted(get_cache_invalidating_env_vars())  # of the environment, those that change what is compiled
    []
"""

from types import SimpleNamespace

from tritium.knobs import cache_invalidating_env as get_cache_invalidating_env_vars
from tritium.runtime.cublas import CublasLt
from tritium.runtime.specialize import native_specialize_impl

from ..compiler.mlir_view import Context

__all__ = ["get_cache_invalidating_env_vars", "ir", "native_specialize_impl", "nvidia"]

ir = SimpleNamespace(context=Context, load_dialects=lambda context: None)
nvidia = SimpleNamespace(cublas=SimpleNamespace(CublasLt=CublasLt))
