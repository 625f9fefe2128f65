"""What the first compilation of a process ends with, begun while it begins: LLVM, the launcher, the driver's linker.

Only where a GPU is in use already: a process that merely compiles may want to fork, and needs no launcher.
"""

from __future__ import annotations

import contextlib
import functools
import threading

from . import cuda, launch, link

# Linking anything brings the driver's assembler in.
_EMPTY = """.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
"""


def start() -> None:
    """Have threads bring it in, once in a process."""
    if link.context() is not None:
        _start(cuda.current())


@functools.cache
def _start(device: int) -> None:
    for work in (_launcher, functools.partial(_linker, device)):
        threading.Thread(target=work, name="tritium ahead").start()


def _launcher() -> None:
    with contextlib.suppress(Exception):  # whoever needs it meets the same error, and says so
        launch.Runtime.get()


def _linker(device: int) -> None:
    with contextlib.suppress(Exception):
        cuda.use(device)
        link.link(_EMPTY)
