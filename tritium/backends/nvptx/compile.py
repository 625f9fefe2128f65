"""The stages of an NVIDIA kernel: ttir -> ttgir (layouts) -> llir -> ptx -> cubin."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from typing import Any

from ... import knobs
from ...errors import OutOfResources
from ...ir.core import Module
from ...locks import once
from ..compiler import GPUTarget, Options
from ..gpu.lower import lower_kernel
from ..gpu.passes import launch_metadata, pipeline, with_layouts
from ..llvm.target import assembly, llvm
from .assemble import driver_link, ptxas
from .assemble.traits import Traits
from .isa.target import NvTarget
from .kernel_traits import traits_of


def ttgir(module: Module, target: GPUTarget, options: Options, metadata: dict[str, Any]) -> Module:
    """Tile IR with pipelined loops, producer warps and layouts."""
    return with_layouts(module, tile_passes(options), options, metadata)


def tile_passes(options: Options) -> tuple:
    """The passes of the stage `ttgir`: those of every GPU, for this one."""
    return pipeline(NvTarget.of(options.arch))


def llir(module: Module, target: GPUTarget, options: Options, metadata: dict[str, Any]) -> str:
    """LLVM text; the metadata gets the shared memory, the preconditions and the traits of the kernel."""
    metadata |= launch_metadata(module)
    nv = NvTarget.of(options.arch)
    traits = traits_of(module, nv, options.maxnreg)
    text = lower_kernel(module, nv, _attributes(traits, module), exact=options.sanitized)
    metadata |= {"shared": max(module.attrs["shared_bytes"], options.min_shared_mem), "lowered": traits}
    return text


def _attributes(traits: Traits, module: Module) -> str:
    blocks = module.attrs.get("num_ctas", 1)
    found = {"nvvm.maxnreg": traits.registers, "nvvm.cluster_dim": f"{blocks},1,1" if blocks > 1 else None}
    return " ".join(f'"{name}"="{value}"' for name, value in found.items() if value)


def ptx(text: str, target: GPUTarget, options: Options, metadata: dict[str, Any]) -> str:
    """LLVM's PTX: instructions selected and registers joined, no more.

    The lowering has folded and shared what it could; ptxas optimises again. LLVM's own passes over addresses cost more
    time than all the rest, and hoist sums out of loops that keep the copies in them apart.

    The metadata gets the traits of the text. Those of a text that somebody else wrote are not known, unless it comes
    with metadata of its own. What is sanitized stays LLVM: the emulator runs it.
    """
    if options.sanitized:
        metadata.pop("lowered", None)
        return text
    _set_up()
    traits = metadata["traits"] = metadata.pop("lowered", None) or Traits.read(metadata)
    made = assembly(text, NvTarget.of(options.arch), passes=(), plain=True)
    return made if traits is None or traits.products else _scaled_indices(made)


def _scaled_indices(text: str) -> str:
    """A 32-bit index that is widened and then shifted, in the one instruction for both.

    LLVM selects it only with its passes, and ptxas does not find it: the two take four machine instructions, with the
    sum of pointer and index, where this and the sum take one. Kernels with MMAs stay as they are: ptxas gave some of
    them more registers with it (190 became 210 in gradients of keys), and nobody has timed the two side by side.

    >>> _scaled_indices("\\tcvt.s64.s32 \\t%rd2, %r1;\\n\\tshl.b64 \\t%rd3, %rd2, 2;").splitlines()[1].split()
    ['mul.wide.s32', '%rd3,', '%r1,', '4;']
    """
    return _WIDENED.sub(lambda m: f"{m[1]}mul.wide.{m[2]} \t{m[5]}, {m[4]}, {1 << int(m[6])};", text)


# Only neighbours: between them neither register can change. A line of the source may begin between them.
_WIDENED = re.compile(r"(\tcvt\.[su]64\.([su]32) \t(%rd\d+), (%r\d+);\n(?:\t\.loc\t[^\n]*\n)?\t)"
                      r"shl\.b64 \t(%rd\d+), \3, ([12]?\d);")  # fmt: skip


@once
def _set_up() -> None:
    """What LLVM must hear before it is asked about the target. No other target's code has to do with any of it.

    Addresses in shared memory have 32 bits. What comes from no line of the source counts to the line before. Reading a
    module whose lines are known need not verify it: we do after, when a defect does not end the process.
    """
    for option in ("nvptx-short-ptr", "use-unknown-locations=Disable", "disable-auto-upgrade-debug-info"):
        llvm().set_option("", f"--{option}")


def cubin(text: str, target: GPUTarget, options: Options, metadata: dict[str, Any]) -> bytes:
    """Machine code by the driver or by ptxas; without both, the PTX itself, for a driver that is there one day.

    The driver is faster, but lets no warps exchange registers. A kernel that needs more shared memory than there is
    stays PTX, too: nobody loads it, and assembling such large tiles takes minutes. What is sanitized stays LLVM.
    """
    if options.sanitized:
        return text.encode()
    traits, shared = Traits.read(metadata), metadata.get("shared", 0)
    if knobs.nvidia.dump_nvptx:
        print(f"// {metadata['name']}: PTX\n{text}")
    if shared > NvTarget.of(options.arch).shared_bytes:
        return text.encode()
    binary, used = _assembled(text, options, traits)
    if traits is not None:
        binary, used = _with_other_registers(text, options, traits, binary, used, shared)
    metadata.update(used)
    return binary


def _with_other_registers(text: str, options: Options, traits: Traits, binary: bytes, used: dict[str, int],
                          shared: int) -> tuple[bytes, dict[str, int]]:
    """The better of the machine code that was made, and what is made if short loops are not unrolled, or if another
    number of registers is asked for."""
    spilled = lambda made: made[1].get("n_spills", 0)
    if traits.short_loops and spilled((binary, used)):
        once = ptxas.rolled(text)
        made = _assembled(once, options, traits)
        if spilled(made) < spilled((binary, used)):
            text, (binary, used) = once, made
    asking = lambda most: _assembled(ptxas.directed(text, traits.threads, f".maxnreg {most}"), options,
                                     traits.asking(most))
    has = NvTarget.of(options.arch).machine
    most = ptxas.all_registers(has, traits, used, len(text))
    if most is not None:
        binary, used = min((binary, used), asking(most), key=spilled)
    for fewer in ptxas.room_for_more(has, traits, used, shared) if _is_hopper(options) else ():
        with contextlib.suppress(OutOfResources):  # some instructions need more registers than that
            found, tight = asking(fewer)
            if tight.get("n_spills", math.inf) <= ptxas.spills_allowed(has, traits, used):
                return found, tight
    return binary, used


def _is_hopper(options: Options) -> bool:
    return NvTarget.of(options.arch).sm == 90


def _assembled(text: str, options: Options, traits: Traits | None) -> tuple[bytes, dict[str, int]]:
    """(machine code, what is known of the registers it uses) of a PTX text with these traits."""
    nv, extra = NvTarget.of(options.arch), tuple((options.ptx_options or "").split())
    if traits is not None and not extra and driver_link.makes(traits, nv.sm):
        binary, said = driver_link.link_to_fit(text, traits, nv.machine.threads)
        if not driver_link.lacks_registers(traits, said):
            return binary, ptxas.usage(said) or ptxas.usage_in(binary)
    if ptxas.ptxas() is None:
        return text.encode(), {}
    if traits is not None and not traits.products and traits.registers is None:
        # Otherwise ptxas moves loads back to their users until 2048 threads find room on an SM, with 32 registers each.
        # The loads of an unrolled loop then wait for each other. The driver's linker does not do so.
        text = ptxas.directed(text, traits.threads, ".minnctapersm 1")
    return ptxas.assemble(text, nv.cpu, extra)


def sass(asm: Mapping[str, Any], target: GPUTarget) -> str:
    """Disassembly of the machine code (needs cuobjdump)."""
    from ...tools.disasm import get_sass

    return get_sass(asm["cubin"])
