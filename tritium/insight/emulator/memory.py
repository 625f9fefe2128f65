"""Global memory, with bounds."""

import ctypes
from typing import Any

import numpy as np

from tritium.insight.emulator.faults import Fault

FIRST = 1 << 20  # addresses below are nobody's
GAP = 1 << 12  # between buffers
SHARED_BASE = 2048  # where @smem lies
WINDOW = 1 << 24  # addresses of the shared memory of a cluster's first block begin here, those of the next as far on


def _bounds(x):
    return np.lib.array_utils.byte_bounds(x) if x.size else (x.ctypes.data, x.ctypes.data)


def _spans(ranges):
    """Ranges of addresses, those that overlap as one."""
    found = []
    for low, high in sorted(ranges):
        if found and low < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


class Memory:
    """The kernel's arguments: the memory of each array gets its own range of addresses, arrays that share some one."""

    def __init__(self, args):
        self.arrays, self.arguments, at, starts = [], [], FIRST, {}
        spans = _spans([_bounds(x) for x in args if isinstance(x, np.ndarray)])
        for x in args:
            if not isinstance(x, np.ndarray):
                self.arguments.append(x)
                continue
            low, high = _bounds(x)
            memory: Any = (ctypes.c_uint8 * (high - low)).from_address(low)
            host = np.frombuffer(memory, np.uint8)
            span, end = next(((a, b) for a, b in spans if a <= low and high <= b))
            if span not in starts:
                starts[span] = at + span % 16  # as aligned as on the host
                at += -(-(end - span) // 256) * 256 + GAP
            start = starts[span] + low - span
            self.arrays.append((start, host, x))
            self.arguments.append(np.uint64(start + x.ctypes.data - low))
        self.bytes = np.zeros(at, np.uint8)
        self.valid = np.zeros(at, bool)
        for start, host, _ in self.arrays:
            self.bytes[start : start + host.nbytes] = host
            self.valid[start : start + host.nbytes] = True
        self.before = self.bytes.copy()
        self.watch = None  # of clusters

    @property
    def size(self):
        """How many bytes there are to watch."""
        return len(self.bytes)

    def read_back(self):
        """Copy changed memory back into the arrays."""
        for start, host, _ in self.arrays:
            part = slice(start, start + host.nbytes)
            changed = self.bytes[part] != self.before[part]
            host[changed] = self.bytes[part][changed]

    def _at(self, address, size, what, align):
        address = address.astype(np.int64)
        if np.any(address % (align or size)):
            wrong = address[address % (align or size) != 0]
            raise Fault(f"{what} of {size} bytes at unaligned address {hex(int(wrong[0]))}", "misaligned")
        index = address[:, None] + np.arange(size)
        outside = (index < 0) | (index >= len(self.bytes))
        if np.any(outside) or not np.all(self.valid[index]):
            bad = address[np.any(outside, 1) | ~np.all(self.valid[np.where(outside, 0, index)], 1)]
            raise Fault(f"{what} of {size} bytes outside every buffer at {hex(int(bad[0]))}", "out of bounds")
        return index

    def load(self, address, size, threads, atomic=False, align=None):
        """The elements at addresses; `threads` are the readers, None for TMA. Addresses are multiples of `align`, by
        default of the size."""
        index = self._at(address, size, "load", align)
        if self.watch is not None and threads is not None:
            self.watch.load(index, threads[:, None], atomic)
        return self.bytes[index]

    def store(self, address, data, threads, atomic=False, align=None):
        index = self._at(address, data.shape[1], "store", align)
        if self.watch is not None and threads is not None:
            self.watch.store(index, threads[:, None], atomic, changed=self.bytes[index] != data)
        self.bytes[index] = data
        if self.watch is not None and threads is not None:
            self.watch.stored(index, threads[:, None], lost=self.bytes[index] != data)


class Watch:
    """Who of a cluster's blocks used which global memory: what one writes, others use only after they met. Within a
    block nothing is watched."""

    def __init__(self, memory, shared):
        rows = lambda count: np.full((count, memory.size), -1, np.int32)
        self.shared = shared
        self.written, self.added, self.read = rows(2), rows(2), [rows(2) for _ in range(shared.blocks)]  # time and warp

    def _unheard(self, noted, index, thread):
        """Where another block accessed memory since the last cluster barrier."""
        time, warp = noted[:, index]
        return (
            (warp // self.shared.warps != self.shared.block_of(thread)) & (self.shared.met[warp] <= time) & (time > 0)
        )

    def _note(self, noted, index, thread):
        warp = thread // self.shared.warp_size
        noted[0][index], noted[1][index] = self.shared.heard[warp, warp], warp

    def load(self, index, thread, atomic):
        writes = (self.written,) if atomic else (self.written, self.added)
        if any(np.any(self._unheard(noted, index, thread)) for noted in writes):
            raise Fault("race: a block reads global memory that another wrote since they met", "race")
        for block in () if atomic else np.unique(self.shared.block_of(thread)):
            mine = self.shared.block_of(thread)[:, 0] == block
            self._note(self.read[block], index[mine], thread[mine])

    def store(self, index, thread, atomic, changed):
        writes = (self.written,) if atomic else (self.written, self.added)
        if any(np.any(changed & self._unheard(noted, index, thread)) for noted in writes):
            raise Fault("race: two blocks write different values to one place of global memory", "race")
        if any(np.any(changed & self._unheard(noted, index, thread)) for noted in self.read):
            raise Fault("race: a block overwrites global memory that another read since they met", "race")
        self._note(self.added if atomic else self.written, index, thread)

    def stored(self, index, thread, lost):
        """Threads that wrote at the same time: lost values were overwritten by the same block."""
        if np.any(lost & (self.written[1][index] // self.shared.warps != self.shared.block_of(thread))):
            raise Fault("race: two blocks write different values to one place of global memory", "race")
