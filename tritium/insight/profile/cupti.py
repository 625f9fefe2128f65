"""CUPTI, NVIDIA's profiling library, by ctypes: when each kernel began and ended on the device.

Each launch is given a number (an external correlation id). Records of kernels carry CUPTI's own id of the call, and
other records say which number belongs to which id. Only the first fields of a record are read, which have kept their
places since CUDA 9 (CUpti_ActivityKernel4 and later).
"""

from __future__ import annotations

import ctypes
import glob
import os
import sys
import time
from typing import Any

from tritium import knobs
from tritium.locks import lock

__all__ = ["Cupti", "find", "opened"]

DRIVER, CONCURRENT_KERNEL, EXTERNAL_CORRELATION = 4, 10, 39  # CUpti_ActivityKind
CUSTOM2 = 5  # CUpti_ExternalCorrelationKind; torch uses the first two
FORCED = 1  # CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
KINDS = (DRIVER, CONCURRENT_KERNEL, EXTERNAL_CORRELATION)
SIZE = 1 << 20

_REQUEST = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t),
                            ctypes.POINTER(ctypes.c_size_t))
_COMPLETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t,
                             ctypes.c_size_t)


class Kernel(ctypes.Structure):
    """The first fields of a kernel's record."""

    _fields_ = [("kind", ctypes.c_uint32), ("cache", ctypes.c_uint8), ("shared", ctypes.c_uint8),
                ("registers", ctypes.c_uint16), ("requested", ctypes.c_uint32), ("executed", ctypes.c_uint32),
                ("start", ctypes.c_uint64), ("end", ctypes.c_uint64), ("completed", ctypes.c_uint64),
                ("device", ctypes.c_uint32), ("context", ctypes.c_uint32), ("stream", ctypes.c_uint32),
                ("grid", ctypes.c_int32 * 3), ("block", ctypes.c_int32 * 3), ("static", ctypes.c_int32),
                ("dynamic", ctypes.c_int32), ("local", ctypes.c_uint32), ("local_total", ctypes.c_uint32),
                ("correlation", ctypes.c_uint32)]


class External(ctypes.Structure):
    """Which number belongs to a call."""

    _fields_ = [("kind", ctypes.c_uint32), ("external_kind", ctypes.c_uint32), ("number", ctypes.c_uint64),
                ("correlation", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


def find() -> str | None:
    """The path of CUPTI: as TRITON_CUPTI_LIB_PATH says, beside torch's other libraries, or in the toolkit.

    >>> find() is None or "cupti" in find()
    True
    """
    folders = [knobs.proton.cupti_lib_dir] if knobs.proton.cupti_lib_dir else []
    for place in sys.path:
        folders += glob.glob(os.path.join(place, "nvidia", "cu*", "lib"))
    folders += [f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/{part}" for part in ("extras/CUPTI/lib64", "lib64")]
    found = (path for folder in folders for path in sorted(glob.glob(os.path.join(folder, "libcupti.so*")))[::-1])
    return next(found, None)


def opened() -> Cupti | None:
    """CUPTI, if it is there and nobody else uses it; torch's profiler does while it runs."""
    torch = sys.modules.get("torch.autograd.profiler")
    path = find()
    if path is None or getattr(torch, "_is_profiler_enabled", False):
        return None
    try:
        return Cupti(ctypes.CDLL(path))
    except (OSError, AttributeError, RuntimeError):  # another version, or another profiler has it
        return None


class Cupti:
    """The times of launches by number: `push`, launch, `pop`; `times` after the device is done."""

    def __init__(self, library: Any):
        self._library, self._guard = library, lock()
        self._buffers: dict[int, Any] = {}
        self._spans: dict[int, tuple[int, int]] = {}  # CUPTI's id -> start and end
        self._numbers: dict[int, int] = {}  # CUPTI's id -> ours
        self._next = 0
        self._callbacks = _REQUEST(self._request), _COMPLETE(self._complete)
        now = ctypes.c_uint64()
        self._call("cuptiGetTimestamp", ctypes.byref(now))
        self._offset = time.perf_counter_ns() - now.value
        self._call("cuptiActivityRegisterCallbacks", *self._callbacks)
        for kind in KINDS:
            self._call("cuptiActivityEnable", kind)

    def _call(self, name: str, *args: Any) -> None:
        code = getattr(self._library, name)(*args)
        if code:
            raise RuntimeError(f"{name} failed with code {code}")

    def push(self) -> int:
        """Give the launches of this thread the next number."""
        with self._guard:
            self._next += 1
            number = self._next
        self._call("cuptiActivityPushExternalCorrelationId", CUSTOM2, ctypes.c_uint64(number))
        return number

    def pop(self) -> None:
        """The launch is made."""
        last = ctypes.c_uint64()
        self._call("cuptiActivityPopExternalCorrelationId", CUSTOM2, ctypes.byref(last))

    def times(self) -> dict[int, tuple[int, int]]:
        """(start, end) of the launches that are new since the last call, on the clock of `time.perf_counter_ns`."""
        self._call("cuptiActivityFlushAll", FORCED)
        with self._guard:
            known = {self._numbers[id_]: span for id_, span in self._spans.items() if id_ in self._numbers}
            self._spans.clear()
            self._numbers.clear()
        return {number: (start + self._offset, end + self._offset) for number, (start, end) in known.items()}

    def close(self) -> None:
        """Stop recording."""
        for kind in KINDS:
            self._call("cuptiActivityDisable", kind)
        self._call("cuptiActivityFlushAll", FORCED)

    def _request(self, buffer: Any, size: Any, count: Any) -> None:
        made = (ctypes.c_uint64 * (SIZE // 8))()
        with self._guard:
            self._buffers[ctypes.addressof(made)] = made
        buffer[0], size[0], count[0] = ctypes.addressof(made), SIZE, 0

    def _complete(self, context: Any, stream: int, buffer: int, size: int, valid: int) -> None:
        record = ctypes.c_void_p()
        with self._guard:
            while valid and self._library.cuptiActivityGetNextRecord(
                    ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)) == 0:
                self._read(record.value or 0)
            self._buffers.pop(buffer, None)

    def _read(self, address: int) -> None:
        kind = ctypes.c_uint32.from_address(address).value
        if kind == CONCURRENT_KERNEL:
            kernel = Kernel.from_address(address)
            if kernel.start and kernel.end:
                self._spans[kernel.correlation] = kernel.start, kernel.end
        elif kind == EXTERNAL_CORRELATION:
            external = External.from_address(address)
            if external.external_kind == CUSTOM2:
                self._numbers[external.correlation] = external.number
