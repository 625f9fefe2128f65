"""NVIDIA GPUs: tile IR with layouts to PTX, and the CUDA driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import fail
from .. import Backend, TextForm, lazy

if TYPE_CHECKING:
    from ..compiler import GPUTarget, Options

_STAGES = "tritium.backends.nvptx.compile"


def fingerprint(target: GPUTarget) -> str:
    """Versions of LLVM's bindings and of what may make the machine code: the driver, or the assembler."""
    import llvmlite  # its version alone: LLVM itself is loaded by what is imported from it

    from .assemble import driver_link, ptxas

    path = ptxas.ptxas()
    assembler = ptxas.version(path) if path else "no ptxas"
    return f"llvmlite {llvmlite.__version__}-driver {driver_link.version()}-{assembler}"


MOST_BLOCKS = 16  # of a cluster


def check(options: Options) -> None:
    """Refuse clusters that no GPU of the architecture has, and cluster launch control where there is none."""
    count = options.num_ctas
    if count == 1 and not options.clc:
        return
    from .isa.target import NvTarget

    sm = NvTarget.of(options.arch).sm
    if options.clc and sm < 100:
        raise fail(ValueError, f"clc=True needs cluster launch control, which sm_{sm} does not have",
                   hint="leave clc out: it is there from sm_100 on, and programs are the same without it")
    if count == 1:
        return
    if sm < 90:
        raise fail(ValueError, f"num_ctas={count} needs clusters of blocks, which sm_{sm} does not have",
                   hint="num_ctas=1 runs everywhere, num_ctas > 1 from sm_90 on")
    if count & (count - 1) or count > MOST_BLOCKS:
        raise fail(ValueError, f"num_ctas must be a power of 2 and at most {MOST_BLOCKS}, not {count}")


BACKEND = Backend(
    name="cuda",
    passes=lazy("tritium.backends.nvptx.isa.target_info:pipeline"),
    stages=tuple((name, lazy(f"{_STAGES}:{name}")) for name in ("ttgir", "llir", "ptx", "cubin")),
    options={
        "default_dot_input_precision": "tf32",
        "max_num_imprecise_acc_default": 2**30,
        "supported_fp8_dtypes": ("fp8e4nv", "fp8e5", "fp8e4b15"),
        "deprecated_fp8_dot_operand_dtypes": ("fp8e4b15",),
    },
    tile_passes=lazy(f"{_STAGES}:tile_passes"),
    check=check,
    fingerprint=fingerprint,
    ahead=lazy("tritium.backends.nvptx.assemble.warm_up:start"),
    views={"sass": lazy(f"{_STAGES}:sass")},
    long=True,
    texts={"ptx": TextForm("//", r"\.visible\s+\.entry\s+([\w$]+)")},
    takes_host_memory=True,
    hand_over=lazy("tritium.backends.nvptx.assemble.ptxas:hand_over"),
    fits=lazy("tritium.backends.nvptx.bundled:fits"),
    parts=lazy("tritium.backends.nvptx.bundled:parts"),
)
