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
