"""What a GPU would punish or silently get wrong, and who hears of it."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Fault", "Log", "Unknown"]


class Fault(AssertionError):
    """Something a GPU would punish or silently get wrong.

    `threads` are those at fault, `address` where in memory (an offset in shared memory), `other` the threads of the
    other side, `other_place` the number of its line. Who catches it adds `place`, the line at fault.
    """

    def __init__(self, message: str, kind: str = "fault", *, threads: Any = None, address: int | None = None,
                 other: Any = None, other_place: int | None = None, did: str = ""):
        super().__init__(message)
        self.message, self.kind, self.address, self.did = message, kind, address, did
        self.threads, self.other = _listed(threads), _listed(other)
        self.other_place = other_place
        self.place: int | None = None


def _listed(threads: Any) -> list[int]:
    return [] if threads is None else np.unique(np.atleast_1d(np.asarray(threads))).astype(int).tolist()


class Unknown(RuntimeError):
    """An instruction that the emulator does not know."""

    def __init__(self, text: str):
        super().__init__(f"the emulator does not know this instruction: {text}")


class Log:
    """Hears of faults, and knows the line that is executed. This one does not put up with any.

    One that `keeps` places wants to know the other side of a race, too; if its `tell` returns, the program goes on.
    """

    keeps = False
    place = 0

    def tell(self, fault: Fault) -> None:
        """Hear of a fault."""
        raise fault
