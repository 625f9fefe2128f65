"""NVIDIA GPUs: tile IR with layouts to PTX, and the CUDA driver."""

from __future__ import annotations

from .. import Backend, lazy

_STAGES = "tritium.backends.nvptx.compile"


def fingerprint(target) -> str:
    """Versions of LLVM's bindings and of what may make the machine code: the driver, or the assembler."""
    import llvmlite  # its version alone: LLVM itself is loaded by what is imported from it

    from . import assemble, link

    path = assemble.ptxas()
    return f"llvmlite {llvmlite.__version__}-driver {link.version()}-{assemble.version(path) if path else 'no ptxas'}"


BACKEND = Backend(
    name="cuda",
    passes=lazy("tritium.backends.nvptx.facts:pipeline"),
    stages=tuple((name, lazy(f"{_STAGES}:{name}")) for name in ("ttgir", "llir", "ptx", "cubin")),
    options={
        "default_dot_input_precision": "tf32",
        "max_num_imprecise_acc_default": 2**30,
        "supported_fp8_dtypes": ("fp8e4nv", "fp8e5", "fp8e4b15"),
    },
    fingerprint=fingerprint,
    ahead=lazy("tritium.backends.nvptx.ahead:start"),
    views={"sass": lazy(f"{_STAGES}:sass")},
    long=True,
)
