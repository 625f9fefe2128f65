"""Global memory with bounds, and shared memory that notices races."""

import ctypes

import numpy as np

FIRST = 1 << 20  # addresses below are nobody's
GAP = 1 << 12  # between buffers
SHARED_BASE = 2048  # where @smem lies
NOBODY, MANY = -1, -2


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


class Shared:
    """Shared memory. An epoch is the time between two barriers; within one, a byte that a thread writes is its own."""

    def __init__(self, size):
        self.bytes = np.zeros(size, np.uint8)
        self.epoch = 0
        self.written, self.writer = (np.full(size, NOBODY) for _ in range(2))  # epoch and thread
        self.read, self.reader = (np.full(size, NOBODY) for _ in range(2))
        self.in_flight = np.zeros(size, bool)  # by asynchronous copies
        self.unfenced = np.zeros(size, bool)  # ordinary writes the tensor cores do not see yet
        self.copies, self.products = [[]], []  # open and closed groups
        self.filled = np.zeros(size, bool)

    def barrier(self):
        self.epoch += 1

    def _at(self, address, size, what):
        address = address.astype(np.int64) - SHARED_BASE
        if np.any(address % size):
            raise Fault(f"shared {what} of {size} bytes at unaligned address")
        index = address[:, None] + np.arange(size)
        if np.any(index < 0) or np.any(index >= len(self.bytes)):
            raise Fault(f"shared {what} outside the kernel's {len(self.bytes)} bytes, at {int(address.max())}")
        return index

    def _others(self, epochs, threads, index, thread):
        return (epochs[index] == self.epoch) & (threads[index] != thread)

    def load(self, address, size, threads):
        index, thread = self._at(address, size, "load"), threads[:, None]
        if np.any(self._others(self.written, self.writer, index, thread)):
            raise Fault("race: a thread reads shared memory that another wrote since the last barrier")
        if np.any(self.in_flight[index]):
            raise Fault("shared memory is read while a copy into it is under way")
        if not np.all(self.filled[index]):
            raise Fault("shared memory is read before anybody wrote it")
        self._note_read(index, thread)
        return self.bytes[index]

    def _note_read(self, index, thread):
        thread = np.broadcast_to(thread, index.shape)
        also = self._others(self.read, self.reader, index, thread)
        self.read[index], self.reader[index] = self.epoch, thread
        several = also | (self.reader[index] != thread)
        self.reader[index[several]] = MANY

    def _check_write(self, index, thread, data=None):
        if np.any(self._others(self.read, self.reader, index, thread)):
            raise Fault("race: a thread overwrites shared memory that another read since the last barrier")
        twice = self._others(self.written, self.writer, index, thread)
        if np.any(twice) and (data is None or np.any(self.bytes[index][twice] != data[twice])):
            raise Fault("race: two threads write different values to one place of shared memory")
        if np.any(self.in_flight[index]):
            raise Fault("shared memory is written while a copy into it is under way")
        for group in self.products:
            if np.any(group[index]):
                raise Fault("the operand of a running matrix product is overwritten")

    def store(self, address, data, threads):
        index, thread = self._at(address, data.shape[1], "store"), threads[:, None]
        self._check_write(index, thread, data)
        self._write(index, thread, data)

    def _write(self, index, thread, data):
        self.bytes[index] = data
        if np.any(self.bytes[index] != data):
            raise Fault("race: two threads write different values to one place of shared memory")
        self.written[index], self.writer[index] = self.epoch, np.broadcast_to(thread, index.shape)
        self.unfenced[index] = self.filled[index] = True

    def add(self, address, amount, threads):
        """Atomic addition of 32-bit numbers: threads may meet at one place."""
        index = self._at(address, 4, "atomic")
        if np.any(self._others(self.written, self.writer, index, MANY) & (self.writer[index] != threads[:, None])):
            raise Fault("race: atomics on shared memory that another thread wrote since the last barrier")
        words = self.bytes.view(np.uint32)
        np.add.at(words, index[:, 0] // 4, amount)
        self.written[index], self.writer[index] = self.epoch, MANY

    # --- asynchronous copies --------------------------------------------------------------------------------------
    def start_copy(self, address, data, threads):
        index, thread = self._at(address, data.shape[1], "copy"), threads[:, None]
        self._check_write(index, thread)
        self._write(index, thread, data)
        self.in_flight[index] = True
        self.copies[-1].append((index, np.broadcast_to(thread, index.shape)))

    def close_copies(self):
        self.copies.append([])

    def wait_copies(self, pending):
        closed, self.copies = self.copies[:-1], self.copies[-1:]
        done = closed[: len(closed) - pending] if pending else closed
        for group in done:
            for index, thread in group:
                self.in_flight[index] = False
                self.written[index], self.writer[index] = self.epoch, thread
        self.copies = [*closed[len(done) :], *self.copies]

    # --- tensor cores ---------------------------------------------------------------------------------------------
    def fence(self):
        self.unfenced[:] = False

    def operand(self, index):
        """Bytes a matrix product reads, whoever wrote them; they must not change until it is waited for."""
        if np.any(index < 0) or np.any(index >= len(self.bytes)):
            raise Fault("a matrix product reads outside shared memory")
        if np.any(self.written[index] == self.epoch) or np.any(self.in_flight[index]):
            raise Fault("race: a matrix product reads what was written since the last barrier")
        if np.any(self.unfenced[index]):
            raise Fault("a matrix product reads ordinary writes without a proxy fence")
        if not np.all(self.filled[index]):
            raise Fault("a matrix product reads shared memory before anybody wrote it")
        self.open_product[index] = True
        return self.bytes[index]

    def begin_products(self):
        self.open_product = np.zeros(len(self.bytes), bool)

    def close_products(self):
        self.products.append(self.open_product)

    def wait_products(self, pending):
        while len(self.products) > pending:
            index = np.nonzero(self.products.pop(0))[0]
            self.read[index], self.reader[index] = self.epoch, MANY
