"""What kernels print and assert: they write records to a buffer on the device, which is read when the host waits.

`tritium.backends.amdgcn.records` knows the form of the records. The buffer is read by `memory.synchronize()`, by
`driver.active.get_device_interface().synchronize()` where that is ours, and when the process ends; torch's own
`synchronize` does not know of it.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....locks import imported, lock, once
from ...gpu_runtime import launch as shared
from ...gpu_runtime import memory
from .hip import HIP, HipError

_RECORDS = "tritium.backends.amdgcn.records"
_room = 1 << 18  # words of the buffer of a kernel: 1 MiB
_all: weakref.WeakSet[Messages] = weakref.WeakSet()
_draining = lock()


def set_room(size: int) -> None:
    """Bytes that a kernel may print between two synchronisations; counts for kernels loaded from now on.

    >>> set_room(1 << 20)
    """
    global _room
    if size < 4:
        raise ValueError(f"a kernel needs room to print, not {size} bytes")
    _room = size // 4


class Messages:
    """The buffer of one kernel on one device; `sites` describe its messages by number."""

    def __init__(self, name: str, sites: Sequence[dict[str, Any]], device: int):
        self.name, self._sites, self._device = name, sites, device
        self._buffer: Any = None
        self._connected = 0

    def connect(self, function: int) -> None:
        """Tell a loaded kernel where its buffer is."""
        if self._connected == function:
            return
        kernel = shared.loaded.get(function)
        if kernel is None:  # its module is known once it belongs to a kernel
            return
        records = imported(_RECORDS)
        if self._buffer is None:
            self._buffer = memory.empty(len(records.empty(_room)), np.uint32, self._device)
            self._empty()
        address = HIP.variable(kernel.module, records.VARIABLE)
        if address is not None:
            value = ctypes.c_uint64(self._buffer.data_ptr())
            with HIP.on(self._device):
                HIP.call("hipMemcpyHtoD", ctypes.c_void_p(address), ctypes.byref(value), ctypes.c_size_t(8))
        self._connected = function
        _all.add(self)
        _register()

    def _empty(self) -> None:
        self._buffer.copy_(np.array(imported(_RECORDS).empty(_room), np.uint32))

    def drain(self) -> tuple[str, ...]:
        """Print what the kernel has printed; the assertions of it that failed."""
        if self._buffer is None:
            return ()
        head = self._buffer.numpy()
        found = imported(_RECORDS).read(head, self._sites)
        if not (found.printed or found.failed or found.lost):
            return ()
        self._empty()
        sys.stdout.write(found.printed)
        if found.lost:
            print(f"{self.name} printed more than there was room for: {found.lost * 4} bytes are lost; "
                  "driver.active.utils.set_printf_fifo_size makes more", file=sys.stderr)
        sys.stdout.flush()
        return found.failed


def drain() -> None:
    """Print what kernels have printed since the last time; an assertion that failed is raised."""
    with _draining:
        failed = [text for messages in list(_all) for text in messages.drain()]
    if failed:
        raise HipError("device-side assert triggered\n" + "\n".join(failed))


@once
def _register() -> None:
    """Look whenever the host waits for the device, and at the end."""
    HIP.watchers.append(drain)
    atexit.register(_at_exit, os.getpid())


def _at_exit(process: int) -> None:
    if os.getpid() != process:  # a forked child cannot use the GPU
        return
    try:
        HIP.synchronize()
    except HipError as error:
        print(error, file=sys.stderr)
