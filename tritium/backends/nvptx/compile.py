"""The stages of an NVIDIA kernel: ttir -> ttgir (layouts) -> llir -> ptx -> cubin."""

from __future__ import annotations

from ...passes.axis_info import analyze
from ..gpu import (  # noqa: F401
    lower_async,
    lower_control,
    lower_convert,
    lower_dot,
    lower_memory,
    lower_reduce,
    lower_shape,
    lower_sort,
)
from ..gpu.assign_layouts import assign_layouts
from ..gpu.lower import LOWER, lower_kernel
from ..gpu.pipeline_loops import pipeline_loops
from ..gpu.scalar_steps import scalar_steps
from ..llvm.target import assembly
from . import assemble, inline_asm, mma
from .target import NvTarget

LOWER.update({**mma.LOWER, **inline_asm.LOWER})


def ttgir(module, target, options, metadata):
    """Pipeline the loops around dots and give every tile a layout.

    Values that are taken for not negative are noted in the module's `nonnegative`; the launcher sees to it.
    """
    nv = NvTarget.of(options.arch)
    taken = [] if options.launch_checks else None
    module = scalar_steps(module)
    module = pipeline_loops(module, mma.abilities(nv, analyze(module, taken), options.num_warps))
    module = assign_layouts(module, mma.dot_layout(nv), mma.left_operand, taken)
    return module.replace(attrs={**module.attrs, "nonnegative": tuple(taken)}) if taken else module


def llir(module, target, options, metadata):
    """LLVM text; notes how much shared memory it takes, and what it takes for granted."""
    metadata["nonnegative"] = module.attrs.get("nonnegative", ())
    text, metadata["shared"] = lower_kernel(module, NvTarget.of(options.arch), _attributes(options))
    return text


def _attributes(options):
    return f'"nvvm.maxnreg"="{options.maxnreg}"' if options.maxnreg else ""


# ptxas optimises again; of LLVM's passes only the one that simplifies address arithmetic pays for itself. LLVM's code
# generator takes quadratic time for the addresses of very large tiles: there it is told not to optimise at all, unless
# the kernel has wgmma, whose accumulators must not be copied.
PASSES = ("instcombine",)
LONG = 3000  # lines of LLVM


def ptx(text, target, options, metadata):
    """LLVM's PTX."""
    effort = 0 if text.count("\n") > LONG and "wgmma" not in text else 2
    return assembly(text, NvTarget.of(options.arch), passes=PASSES, opt=effort)


def cubin(text, target, options, metadata):
    """Machine code by ptxas; without one, the PTX itself, which the driver compiles when it is loaded."""
    if assemble.ptxas() is None:
        return text.encode()
    extra = tuple((options.ptx_options or "").split())
    binary, used = assemble.assemble(text, NvTarget.of(options.arch).cpu, extra)
    metadata.update(used)
    return binary


def sass(asm, target):
    """Disassembly of the machine code (needs cuobjdump)."""
    from ...tools.disasm import get_sass

    return get_sass(asm["cubin"])
