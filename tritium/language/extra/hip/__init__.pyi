# Written by docs/make_stubs.py from the objects themselves: change those, and run it again.

from . import (
    libdevice as libdevice,
)
from ...core import tensor

__all__: list[str]


def memrealtime() -> tensor:
    """Ticks of a clock that all programs share, as int64.

        start = tl.extra.hip.memrealtime()
    """


def smid() -> tensor:
    """The number of the compute unit this program runs on, as int32.

        unit = tl.extra.hip.smid()
    """


def num_warps() -> int:
    """How many warps run this program: a compile-time constant.

        WARPS: tl.constexpr = tl.extra.hip.num_warps()
    """


def num_threads() -> int:
    """How many threads run this program: a compile-time constant.

        THREADS: tl.constexpr = tl.extra.hip.num_threads()
    """
