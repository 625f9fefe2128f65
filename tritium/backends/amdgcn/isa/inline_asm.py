"""Inline assembly: refused, for nobody here could assemble it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from .... import ops
from ....errors import CompilationError

if TYPE_CHECKING:
    from ....ir.core import Op
    from ...llvm.writer import Val
    from .lowering import AmdLowering


def inline_asm(g: AmdLowering, op: Op, *xs: Sequence[Val]) -> NoReturn:
    """Say why there is none: LLVM's AMDGPU target without its assembler ends the process."""
    raise CompilationError(None, None, "inline assembly cannot be compiled for AMD GPUs: the LLVM of llvmlite "
                           "has no assembler for them\nhint: write the kernel without inline assembly for this target")


LOWER = {ops.inline_asm: inline_asm}
