"""The lowering of a kernel for an AMD GPU, as type checkers see it: its target has the architecture's family."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...gpu.lower.function import Lowering
    from .target import AmdTarget

    class AmdLowering(Lowering):
        """A `Lowering` whose target is an AMD GPU."""

        target: AmdTarget
