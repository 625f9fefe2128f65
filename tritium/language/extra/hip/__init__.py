"""`tl.extra.hip`: readings of AMD hardware."""

from __future__ import annotations

from ...builtins.calling import builtin
from ...builtins.deferred import ops
from ...types.values import tensor
from . import libdevice


@builtin
def memrealtime(b):
    """Ticks of a clock that all programs share, as int64.

        start = tl.extra.hip.memrealtime()
    """
    return tensor(ops.clock(b, what="globaltimer"))


@builtin
def smid(b):
    """The number of the compute unit this program runs on, as int32.

        unit = tl.extra.hip.smid()
    """
    return tensor(ops.clock(b, what="smid"))


@builtin
def num_warps(b) -> int:
    """How many warps run this program: a compile-time constant.

        WARPS: tl.constexpr = tl.extra.hip.num_warps()
    """
    return b.options.num_warps


@builtin
def num_threads(b) -> int:
    """How many threads run this program: a compile-time constant.

        THREADS: tl.constexpr = tl.extra.hip.num_threads()
    """
    return (b.target.warp_size if b.target is not None else 64) * b.options.num_warps


__all__ = ["libdevice", "memrealtime", "num_threads", "num_warps", "smid"]
