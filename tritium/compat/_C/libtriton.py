"""The few names of Triton's native library that frameworks use to look into a kernel; nothing here is native.

    >>> context = ir.context()
    >>> ir.load_dialects(context)
"""

from types import SimpleNamespace

from tritium.runtime.cublas import CublasLt
from tritium.runtime.specialize import native_specialize_impl

from ..compiler.mlir_view import Context

__all__ = ["ir", "native_specialize_impl", "nvidia"]

ir = SimpleNamespace(context=Context, load_dialects=lambda context: None)
nvidia = SimpleNamespace(cublas=SimpleNamespace(CublasLt=CublasLt))
