"""`tl.extra.hip`: readings of AMD hardware."""

from __future__ import annotations

from ...calling import builtin
from ...deferred import ops
from ...values import tensor
from . import libdevice


@builtin
def memrealtime(b):
    """Ticks of a clock that all programs share, as int64.

        start = tl.extra.hip.memrealtime()
    """
    return tensor(ops.clock(b, what="globaltimer"))


__all__ = ["libdevice", "memrealtime"]
