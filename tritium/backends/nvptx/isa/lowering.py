"""The lowering of a kernel for an NVIDIA GPU, as type checkers see it: its target has the architecture's number."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...gpu.lower.function import Lowering
    from .target import NvTarget

    class NvLowering(Lowering):
        """A `Lowering` whose target is an NVIDIA GPU."""

        target: NvTarget
