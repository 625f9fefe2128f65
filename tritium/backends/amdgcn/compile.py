"""The stages of an AMD kernel: ttir -> ttgir (layouts) -> llir -> hsaco; the assembly is a view of llir."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ... import knobs
from ...ir.core import Module, walk
from ...locks import once
from ..compiler import GPUTarget, Options
from ..gpu.lower import lower_kernel
from ..gpu.ops import async_load
from ..gpu.passes import launch_metadata, pipeline, with_layouts
from ..llvm.target import assembly, compile_text, llvm
from . import records
from .assemble.link import link
from .assemble.resources import resources_of
from .buffer_accesses import use_buffers
from .isa.atomics import NOTHING
from .isa.direct_copies import annotated
from .isa.target import AmdTarget

# The form of code objects that ROCm 5.7 and newer load; implicit arguments begin with the numbers of programs.
_VERSION = ["!llvm.module.flags = !{!999999}", '!999999 = !{i32 1, !"amdhsa_code_object_version", i32 500}',
            f"{NOTHING} = !{{}}"]  # fmt: skip

# Equal values have one name already: 36 kernels have 38,807 instructions without LLVM's value numbering, and 38,809
# with it. Its NewGVN ends the process on some large kernels.
_LLVM_PASSES = ("instcombine", "simplifycfg")


def ttgir(module: Module, target: GPUTarget, options: Options, metadata: dict[str, Any]) -> Module:
    """Tile IR with pipelined loops and layouts."""
    made = with_layouts(module, tile_passes(options), options, metadata)
    if any(op.kind is async_load and "buffer" not in op.attrs for op in walk(made.body)):
        # Direct copies go through buffers alone: prefetch into registers instead.
        amd = replace(AmdTarget.of_options(options), async_copies=None)
        made = with_layouts(module, _passes(amd), options, metadata)
    return made


def tile_passes(options: Options) -> tuple:
    """The passes of the stage `ttgir`: those of every GPU, for this one, and what may go through buffers."""
    return _passes(AmdTarget.of_options(options))


def _passes(amd: AmdTarget) -> tuple:
    return (*pipeline(amd), functools.partial(use_buffers, family=amd.family))


def llir(module: Module, target: GPUTarget, options: Options, metadata: dict[str, Any]) -> str:
    """LLVM text; the metadata gets the shared memory, the preconditions and the messages of the kernel.

    Shared memory has its size in the text, so that LLVM knows how many programs a compute unit holds, and no bytes are
    given at a launch (`dynamic_shared`). What is too large for the GPU compiles all the same: the driver refuses it.
    """
    amd, shared = AmdTarget.of_options(options), module.attrs["shared_bytes"]
    metadata |= launch_metadata(module)
    text = lower_kernel(module, amd, f"{_attributes(options)} {_UNUSED}", exact=options.sanitized)
    text = text.replace(_UNUSED, " ".join(f'"amdgpu-no-{name}"' for name in _unused(text)), 1)
    fits = shared <= amd.shared_bytes
    if fits:
        text = text.replace("@smem = external addrspace(3) global [0 x i8], align 1024",
                            f"@smem = internal addrspace(3) global [{shared} x i8] poison, align 16", 1)
    metadata |= {"shared": max(shared, options.min_shared_mem), "messages": records.sites_of(text)}
    metadata["dynamic_shared"] = metadata["shared"] - (shared if fits else 0)
    return "\n".join([*_VERSION, annotated(text)])


def _attributes(options: Options) -> str:
    found = {
        "amdgpu-waves-per-eu": options.waves_per_eu and f"{options.waves_per_eu}",
        "denormal-fp-math-f32": options.allow_flush_denorm and "preserve-sign,preserve-sign",
    }
    return " ".join(f'"{name}"="{value}"' for name, value in found.items() if value)


_UNUSED = '"tritium.unused"'  # stands for what is known once the text is written
# What a kernel would be given by the hardware and the runtime; a kernel that says it needs none has more registers.
_NEVER = ("dispatch-ptr", "queue-ptr", "dispatch-id", "workitem-id-y", "workitem-id-z", "hostcall-ptr", "heap-ptr",
          "multigrid-sync-arg", "default-queue", "completion-action", "lds-kernel-id")  # fmt: skip
_SOMETIMES = {name.replace(".", "-"): name
              for name in ("workgroup.id.x", "workgroup.id.y", "workgroup.id.z", "workitem.id.x", "implicitarg.ptr")}


def _unused(text: str) -> list[str]:
    return [*_NEVER, *(name for name, intrinsic in _SOMETIMES.items() if f"@llvm.amdgcn.{intrinsic}()" not in text)]


def hsaco(text: str, target: GPUTarget, options: Options, metadata: dict[str, Any]) -> bytes:
    """A code object as the HIP runtime loads it. What is sanitized stays LLVM: the emulator runs it.

    LLVM makes machine code at once; the assembly is a view, made when somebody asks for it.
    """
    if options.sanitized:
        return text.encode()
    _set_up()
    if knobs.amd.dump_amdgcn:
        print(f"; {metadata['name']}: AMDGCN\n{assembled(text, options.arch)}")
    made = link(machine_code(text, options.arch))
    metadata.update(resources_of(made))
    return made


def machine_code(text: str, arch: str | int | None) -> bytes:
    """The object file of LLVM text."""
    return compile_text(text, AmdTarget.of(arch), passes=_LLVM_PASSES)


@once
def _set_up() -> None:
    """What LLVM must hear before it is asked about the target: vectors that a loop carries are sums of matrix
    instructions, and are copied in every iteration if they are taken apart. No other target's code has to do with it.
    """
    llvm().set_option("", "--amdgpu-codegenprepare-break-large-phis=false")


def amdgcn(asm: Mapping[str, Any], target: GPUTarget) -> str:
    """The assembly of a kernel."""
    return assembled(asm["llir"], target.arch)


def assembled(text: str, arch: str | int | None) -> str:
    """The assembly of LLVM text, with the instructions that `hsaco` encodes."""
    _set_up()
    return assembly(text, AmdTarget.of(arch), passes=_LLVM_PASSES)
