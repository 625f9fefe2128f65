"""What a code object says of its kernel: registers, memory, arguments."""

from __future__ import annotations

from typing import Any

from ...llvm import elf
from . import msgpack

_METADATA = 32  # the kind of the note that describes kernels


def kernels_of(data: bytes) -> list[dict[str, Any]]:
    """The kernels that the metadata of a code object describe, with the names that ROCm has for what they need."""
    for owner, kind, description in elf.read(data).notes():
        if (owner, kind) == ("AMDGPU", _METADATA):
            return msgpack.unpack(description)["amdhsa.kernels"]
    return []


def resources_of(data: bytes) -> dict[str, Any]:
    """The resources of the kernel of a code object, as metadata of a compiled kernel.

    n_regs are vector registers of a thread, those for accumulation among them; n_spills are words that it keeps in
    memory for want of them; scratch are bytes of memory of a thread. Scalar registers that did not suffice
    (n_sgpr_spills) are kept in lanes of vector registers. `arguments` has offset, size and kind of each
    that the kernel has in its segment of `argument_bytes`: hidden ones are the runtime's to fill.
    """
    (kernel,) = kernels_of(data)
    agprs = kernel.get(".agpr_count", 0)
    return {
        "n_regs": kernel[".vgpr_count"], "n_agprs": agprs, "n_sgprs": kernel[".sgpr_count"],
        "n_spills": kernel[".vgpr_spill_count"], "n_sgpr_spills": kernel[".sgpr_spill_count"],
        "scratch": kernel[".private_segment_fixed_size"], "static_shared": kernel[".group_segment_fixed_size"],
        "argument_bytes": kernel[".kernarg_segment_size"],
        "arguments": [(a[".offset"], a[".size"], a[".value_kind"]) for a in kernel.get(".args", ())],
    }  # fmt: skip
