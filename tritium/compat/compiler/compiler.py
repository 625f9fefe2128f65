"""The compiler's names, where Triton's users look for them."""

from tritium.backends.compiler import BaseBackend, GPUTarget, Language
from tritium.cache import fingerprint as triton_key
from tritium.compiler import (
    ASTSource,
    CompiledKernel,
    CompileTimes,
    IRSource,
    LazyDict,
    compile,
    get_cache_key,
    make_backend,
)
from tritium.compiler.kernel import Stages as AsmDict

__all__ = [
    "ASTSource", "AsmDict", "BaseBackend", "CompileTimes", "CompiledKernel", "GPUTarget", "IRSource", "Language",
    "LazyDict", "compile", "get_cache_key", "make_backend", "triton_key",
]  # fmt: skip
