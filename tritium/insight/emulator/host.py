"""The memory of a launch's arguments where it lies: nothing is copied, and what is at fault does not happen."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tritium.backends.cpu.checked import Argument
from tritium.insight.emulator.faults import Fault, Log
from tritium.interp.memory import mapped_region

__all__ = ["HostMemory"]

_LOWEST = 1 << 16  # addresses below are nobody's


class HostMemory:
    """What the machine takes for global memory: the elements of each argument.

    A `foreign` kernel has pointers that come from no argument; they may lead wherever the process has memory.
    """

    def __init__(self, values: list[Any], arguments: list[Argument], log: Log, foreign: bool = False):
        self.arguments, self.log = values, log
        self.watch: Any = None  # of clusters
        known = [a for a in arguments if a.keep is not None and a.high > a.low]
        self.foreign = foreign or any(a.keep is None for a in arguments)
        spans = _merged(known)
        self.lows = np.array([low for low, _, _ in spans], np.int64)
        self.highs = np.array([high for _, high, _ in spans], np.int64)
        self.writable = np.array([writable for _, _, writable in spans], bool)
        self.starts = np.concatenate([[0], np.cumsum(self.highs - self.lows)])[:-1] if spans else self.lows
        self.size = int((self.highs - self.lows).sum())
        self._mapped: list[tuple[int, int]] = []
        every: Any = (ctypes.c_uint8 * ((1 << 48) - _LOWEST)).from_address(_LOWEST)  # most are never touched
        self._bytes = np.frombuffer(every, np.uint8)

    def load(self, address: np.ndarray, size: int, threads: np.ndarray | None, atomic: bool = False,
             align: int | None = None) -> np.ndarray:
        """The elements at addresses, multiples of `align` or of the size; `threads` are the readers, None for TMA."""
        at, fine = self._find(address, size, threads, "atomic" if atomic else "load", align or size)
        if fine is None:
            if self.watch is not None and threads is not None:
                self.watch.load(self._numbers(at, size), threads[:, None], atomic)
            return self._bytes[_index(at, size)]
        out = np.zeros((len(at), size), np.uint8)
        out[fine] = self._bytes[_index(at[fine], size)]
        return out

    def store(self, address: np.ndarray, data: np.ndarray, threads: np.ndarray | None, atomic: bool = False,
              align: int | None = None) -> None:
        """Write elements at addresses."""
        access = "atomic" if atomic else "store"
        at, fine = self._find(address, data.shape[1], threads, access, align or data.shape[1])
        if fine is not None:
            at, data = at[fine], data[fine]
            threads = None if threads is None else threads[fine]
        index = _index(at, data.shape[1])
        watch: Any = self.watch if fine is None else None
        if watch is not None and threads is not None:
            watch.store(self._numbers(at, data.shape[1]), threads[:, None], atomic, changed=self._bytes[index] != data)
        self._bytes[index] = data
        if watch is not None and threads is not None:
            watch.stored(self._numbers(at, data.shape[1]), threads[:, None], lost=self._bytes[index] != data)

    def read_back(self) -> None:
        """Nothing is copied."""

    def _find(self, address: np.ndarray, size: int, threads: np.ndarray | None, access: str, align: int) -> tuple:
        """(addresses, which of them may be used); None for all."""
        at = address.astype(np.int64)
        region = np.searchsorted(self.lows, at, "right") - 1
        inside = region >= 0
        if len(self.lows):
            inside &= at + size <= self.highs[region]
        if self.foreign and not inside.all():
            inside |= np.array([self._reachable(int(x), size) for x in at], bool)
        if not inside.all():
            past = self.highs[region] if len(self.lows) else at  # a vector may begin inside
            self._tell(np.where((region >= 0) & (at < past), past, at), ~inside, threads, "out of bounds", access)
        crooked = inside & (at % align != 0)
        self._tell(at, crooked, threads, "misaligned", access, f"{access} of {size} bytes")
        fine = inside & ~crooked
        if access != "load" and len(self.lows) and not self.writable.all():
            closed = fine & (at < self.highs[region]) & ~self.writable[region]
            self._tell(at, closed, threads, "read-only", access)
            fine &= ~closed
        return at, None if fine.all() else fine

    def _tell(self, at: np.ndarray, wrong: np.ndarray, threads: np.ndarray | None, kind: str, access: str,
              what: str = "") -> None:
        if wrong.any():
            self.log.tell(Fault(what or f"{access} at {int(at[wrong][0]):#x}: {kind}", kind, address=int(at[wrong][0]),
                                threads=None if threads is None else threads[wrong], did=access))

    def _reachable(self, address: int, size: int) -> bool:
        if address < _LOWEST:
            return False
        if not any(low <= address and address + size <= high for low, high in self._mapped):
            found = mapped_region(address, size)
            if found is None:
                return False
            self._mapped.append((found[0], found[0] + found[1]))
        return True

    def _numbers(self, at: np.ndarray, size: int) -> np.ndarray:
        """The bytes' numbers among those of all arguments."""
        region = np.searchsorted(self.lows, at, "right") - 1
        return (at - self.lows[region] + self.starts[region])[:, None] + np.arange(size)


def _index(at: np.ndarray, size: int) -> np.ndarray:
    """Where bytes lie among all of the process."""
    return (at - _LOWEST)[:, None] + np.arange(size)


def _merged(arguments: list[Argument]) -> list[tuple[int, int, bool]]:
    """(low, high, writable) of stretches of memory; arguments that share memory are one."""
    out: list[tuple[int, int, bool]] = []
    for a in sorted(arguments, key=lambda a: a.low):
        if out and a.low < out[-1][1]:
            low, high, writable = out[-1]
            out[-1] = low, max(high, a.high), writable or a.writable
        else:
            out.append((a.low, a.high, a.writable))
    return out
