"""AMD GPUs: tile IR with layouts to AMDGCN machine code, by LLVM alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import knobs
from ...errors import fail
from .. import Backend, lazy

if TYPE_CHECKING:
    from ..compiler import GPUTarget, Options

_STAGES = "tritium.backends.amdgcn.compile"
MOST_THREADS = 1024  # of a program


def fingerprint(target: GPUTarget) -> str:
    """The version of LLVM's bindings: LLVM makes the machine code, and the linker is a part of tritium."""
    import llvmlite  # its version alone: LLVM itself is loaded by what is imported from it

    return f"llvmlite {llvmlite.__version__}{'' if knobs.amd.use_buffer_ops else ' without buffers'}"


def check(options: Options) -> None:
    """Refuse what no AMD GPU has: clusters, a limit of registers, programs of more than 1024 threads."""
    from .isa.target import AmdTarget

    amd = AmdTarget.of_options(options)
    if options.num_ctas != 1 or options.clc:
        what = "clc=True" if options.num_ctas == 1 else f"num_ctas={options.num_ctas}"
        raise fail(ValueError, f"{what} needs clusters of blocks, which {amd.cpu} does not have",
                   hint="leave it out: AMD GPUs have no clusters")
    if options.maxnreg is not None:
        raise fail(ValueError, f"maxnreg={options.maxnreg} means nothing to {amd.cpu}: LLVM shares the registers out",
                   hint="waves_per_eu=n asks for so few registers that n warps fit on a SIMD")
    if options.num_warps * amd.warp_size > MOST_THREADS:
        raise fail(ValueError, f"num_warps={options.num_warps} makes programs of {options.num_warps * amd.warp_size} "
                   f"threads, and {amd.cpu} has at most {MOST_THREADS}",
                   hint=f"warps of {amd.cpu} have {amd.warp_size} threads: num_warps={MOST_THREADS // amd.warp_size} "
                   "is the most")
    if not 0 <= options.waves_per_eu <= amd.most_waves:
        raise fail(ValueError, f"waves_per_eu must be between 0 and {amd.most_waves} on {amd.cpu}, not "
                   f"{options.waves_per_eu}", hint="0 leaves the choice to the compiler")


BACKEND = Backend(
    name="hip",
    passes=lazy("tritium.backends.amdgcn.isa.target_info:pipeline"),
    stages=tuple((name, lazy(f"{_STAGES}:{name}")) for name in ("ttgir", "llir", "hsaco")),
    options={
        "default_dot_input_precision": "ieee",
        "num_stages": 2,
    },
    tile_passes=lazy(f"{_STAGES}:tile_passes"),
    check=check,
    fingerprint=fingerprint,
    long=True,
    views={"amdgcn": lazy(f"{_STAGES}:amdgcn")},
    takes_host_memory=True,
    # LLVM does it all, in any process; what is to be shown is shown here.
    hand_over=lambda settings: "llir" if knobs.amd.dump_amdgcn else None,
    parts=lazy("tritium.backends.amdgcn.runtime.launch:parts"),
)
