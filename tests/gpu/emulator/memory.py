"""Global memory, with bounds."""

import ctypes

import numpy as np

FIRST = 1 << 20  # addresses below are nobody's
GAP = 1 << 12  # between buffers
SHARED_BASE = 2048  # where @smem lies
WINDOW = 1 << 24  # addresses of the shared memory of a cluster's first block begin here, those of the next as far on


class Fault(AssertionError):
    """Something a GPU would punish or silently get wrong."""


class Memory:
    """The kernel's arguments: the memory of each array gets its own range of addresses."""

    def __init__(self, args):
        self.arrays, self.arguments, at = [], [], FIRST
        for x in args:
            if not isinstance(x, np.ndarray):
                self.arguments.append(x)
                continue
            low, high = np.lib.array_utils.byte_bounds(x) if x.size else (x.ctypes.data, x.ctypes.data)
            host = np.frombuffer((ctypes.c_uint8 * (high - low)).from_address(low), np.uint8)
            start = at + low % 16  # as aligned as on the host
            self.arrays.append((start, host, x))
            self.arguments.append(np.uint64(start + x.ctypes.data - low))
            at += -(-host.nbytes // 256) * 256 + GAP
        self.bytes = np.zeros(at, np.uint8)
        self.valid = np.zeros(at, bool)
        for start, host, _ in self.arrays:
            self.bytes[start : start + host.nbytes] = host
            self.valid[start : start + host.nbytes] = True
        self.before = self.bytes.copy()

    def read_back(self):
        """Put what changed into the arrays."""
        for start, host, _ in self.arrays:
            part = slice(start, start + host.nbytes)
            changed = self.bytes[part] != self.before[part]
            host[changed] = self.bytes[part][changed]

    def _at(self, address, size, what):
        address = address.astype(np.int64)
        if np.any(address % size):
            raise Fault(f"{what} of {size} bytes at unaligned address {hex(int(address[address % size != 0][0]))}")
        index = address[:, None] + np.arange(size)
        outside = (index < 0) | (index >= len(self.bytes))
        if np.any(outside) or not np.all(self.valid[index]):
            bad = address[np.any(outside, 1) | ~np.all(self.valid[np.where(outside, 0, index)], 1)]
            raise Fault(f"{what} of {size} bytes outside every buffer at {hex(int(bad[0]))}")
        return index

    def load(self, address, size, threads):
        return self.bytes[self._at(address, size, "load")]

    def store(self, address, data, threads):
        self.bytes[self._at(address, data.shape[1], "store")] = data
