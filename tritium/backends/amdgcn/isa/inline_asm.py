"""Inline assembly: refused, for nobody here could assemble it."""

from __future__ import annotations

from .... import ops
from ....errors import CompilationError


def inline_asm(g, op, *xs):
    """Say why there is none: LLVM's AMDGPU target without its assembler ends the process."""
    raise CompilationError(None, None, "inline assembly cannot be compiled for AMD GPUs: the LLVM of llvmlite "
                           "has no assembler for them\nhint: write the kernel without inline assembly for this target")


LOWER = {ops.inline_asm: inline_asm}
