"""What the first compilation of a process ends with, begun while it begins: LLVM, the launcher, the driver's linker.

Only where a GPU is in use already: a process that merely compiles may want to fork, and needs no launcher.
"""

from __future__ import annotations

import contextlib
import functools
import threading

from ....locks import once
from ..runtime import cuda, launch
from . import driver_link

# Linking anything brings the driver's assembler in.
_EMPTY = """.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
"""
_LARGE = 31 << 20  # bytes; glibc takes none above 32 MiB for an example


def start() -> None:
    """Have threads bring it in, once in a process."""
    if driver_link.context() is not None:
        _start(cuda.current())


@once
def _start(device: int) -> None:
    keep_freed_memory()
    for work in (_launcher, functools.partial(_linker, device)):
        threading.Thread(target=work, name="tritium ahead").start()


def keep_freed_memory() -> None:
    """Have the C library keep what is freed, up to 62 MiB, instead of handing it back to the system.

    The driver's compiler frees all it had after every kernel, 7 to 13 MB, and would meet each page anew at the next: 6
    of the 11 to 60 ms that a kernel takes. glibc learns how much is worth keeping from the largest block it sees freed;
    this one is never touched, so it costs nothing. Other C libraries do not mind.
    """
    bytes(_LARGE)


def _launcher() -> None:
    with contextlib.suppress(Exception):  # the first launch meets the same error and reports it
        launch.Runtime.get()


def _linker(device: int) -> None:
    with contextlib.suppress(Exception):  # the first use of the linker meets the same error and reports it
        cuda.use(device)
        driver_link.link(_EMPTY)
