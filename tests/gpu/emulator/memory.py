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
    """Shared memory. Each warp has a clock that ticks when it tells others of its work, at a barrier or by arriving
    somewhere, and knows how far it has heard of the others: `heard[w, u]`. What warp u did at its time c is before what
    w does if heard[w, u] > c. The last column is the copy engine's."""

    def __init__(self, size, warps=32):
        self.bytes = np.zeros(size, np.uint8)
        self.engine = warps
        self.heard = np.zeros((warps + 1, warps + 1), int) + np.eye(warps + 1, dtype=int)
        self.written, self.writer = (np.full(size, NOBODY) for _ in range(2))  # time and thread
        self.read = np.zeros((warps, size), np.int32)  # time, for each warp
        self.reader = np.full((warps, size), NOBODY, np.int32)
        self.readers = set()
        self.meetings, self.added = 0, np.full(size, NOBODY)  # barriers so far; and when atomics came
        self.in_flight = np.zeros(size, bool)  # by asynchronous copies
        self.unfenced = np.zeros(size, bool)  # ordinary writes the tensor cores do not see yet
        self.copies, self.products = [[]], []  # open and closed groups
        self.registers = []  # names of those that each group of products reads
        self.phases, self.boxes = {}, []  # barriers in memory by address, copies of the engine under way
        self.events = 0  # arrivals at them
        self.lent = []  # groups of boxes that the engine writes to global memory
        self.filled = np.zeros(size, bool)

    def barrier(self, warps=None):
        warps = np.arange(self.engine) if warps is None else np.asarray(warps)
        self.heard[warps, warps] += 1
        self.heard[warps] = self.heard[warps].max(0)
        self.meetings += 1

    def _at(self, address, size, what):
        address = address.astype(np.int64) - SHARED_BASE
        if np.any(address % size):
            raise Fault(f"shared {what} of {size} bytes at unaligned address")
        index = address[:, None] + np.arange(size)
        if np.any(index < 0) or np.any(index >= len(self.bytes)):
            raise Fault(f"shared {what} outside the kernel's {len(self.bytes)} bytes, at {int(address.max())}")
        return index

    def _unheard_writes(self, index, thread):
        """Where the last write is of another thread, and nobody told this one."""
        writer = self.writer[index]
        return (writer != NOBODY) & (writer != thread) & (self.heard[thread // 32, writer // 32] <= self.written[index])

    def _check_heard(self, index, thread, what):
        if np.any(self._unheard_writes(index, thread)):
            raise Fault(f"race: {what} shared memory that another wrote since the last barrier")
        if np.any(self.added[index] == self.meetings):
            raise Fault(f"race: {what} shared memory that atomics changed since the last barrier")

    def load(self, address, size, threads):
        index, thread = self._at(address, size, "load"), threads[:, None]
        self._check_heard(index, thread, "a thread reads")
        if np.any(self.in_flight[index]):
            raise Fault("shared memory is read while a copy into it is under way")
        if not np.all(self.filled[index]):
            raise Fault("shared memory is read before anybody wrote it")
        self._note_read(index, np.broadcast_to(thread, index.shape))
        return self.bytes[index]

    def _note_read(self, index, thread):
        warp = thread // 32
        now = self.heard[warp, warp]
        several = (self.read[warp, index] == now) & (self.reader[warp, index] != thread)
        self.read[warp, index], self.reader[warp, index] = now, thread
        several |= self.reader[warp, index] != thread  # two lanes at once
        self.reader[warp[several], index[several]] = MANY
        self.readers.update(np.unique(warp))

    def _check_write(self, index, thread, data=None):
        warp = thread // 32
        for other in self.readers:
            read = self.read[other, index]
            mine = (warp == other) & (self.reader[other, index] == thread)
            if np.any((read > 0) & (self.heard[warp, other] <= read) & ~mine):
                raise Fault("race: a thread overwrites shared memory that another read since the last barrier")
        twice = self._unheard_writes(index, thread)
        if np.any(twice) and (data is None or np.any(self.bytes[index][twice] != data[twice])):
            raise Fault("race: two threads write different values to one place of shared memory")
        if np.any(self.in_flight[index]):
            raise Fault("shared memory is written while a copy into it is under way")
        for group in self.products:
            if np.any(group[index]):
                raise Fault("the operand of a running matrix product is overwritten")
        if any(np.any(np.isin(index, part)) for group in self.lent if not group.read for part in group.parts):
            raise Fault("shared memory is written while the copy engine reads it")

    def store(self, address, data, threads):
        index, thread = self._at(address, data.shape[1], "store"), threads[:, None]
        self._check_write(index, thread, data)
        self._write(index, thread, data)

    def _write(self, index, thread, data):
        self.bytes[index] = data
        if np.any(self.bytes[index] != data):
            raise Fault("race: two threads write different values to one place of shared memory")
        self._note_write(index, np.broadcast_to(thread, index.shape))
        self.unfenced[index] = self.filled[index] = True

    def _note_write(self, index, thread):
        self.written[index], self.writer[index] = self.heard[thread // 32, thread // 32], thread

    def add(self, address, amount, threads):
        """Atomic addition of 32-bit numbers: threads may meet at one place."""
        index = self._at(address, 4, "atomic")
        if np.any(self._unheard_writes(index, threads[:, None])):
            raise Fault("race: atomics on shared memory that another thread wrote since the last barrier")
        words = self.bytes.view(np.uint32)
        np.add.at(words, index[:, 0] // 4, amount)
        self.added[index] = self.meetings

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
                self._note_write(index, thread)
        self.copies = [*closed[len(done) :], *self.copies]

    # --- barriers in memory, and the copy engine --------------------------------------------------------------------
    def start_phases(self, address, arrivals):
        self.phases[int(address)] = Phases(arrivals, self.engine + 1)

    def phases_at(self, address):
        if int(address) not in self.phases:
            raise Fault("there is no barrier at this address of shared memory")
        return self.phases[int(address)]

    def arrive(self, address, thread):
        warp, phases = thread // 32, self.phases_at(address)
        self.heard[warp, warp] += 1
        phases.hear(self.heard[warp])
        phases.arrive()
        self.events += 1

    def phase_over(self, address, parity, warps):
        """Whether a phase of this parity is over; warps that learn it is have heard of all that came before."""
        phases = self.phases_at(address)
        if phases.number % 2 == parity:
            return False
        self.heard[warps] = np.maximum(self.heard[warps], phases.before)
        return True

    def start_box(self, index, data, thread, barrier):
        """The engine writes data[i] at index[i] some time from now."""
        if np.any(index < 0) or np.any(index >= len(self.bytes)):
            raise Fault("the copy engine writes outside shared memory")
        self._check_write(index, np.full_like(index, thread))
        self.bytes[index] = data
        self.filled[index], self.in_flight[index], self.unfenced[index] = True, True, False
        self.boxes.append((index, self.heard[thread // 32].copy(), self.phases_at(barrier)))

    def finish_box(self):
        """The oldest copy arrives; False if there is none."""
        if not self.boxes:
            return False
        index, before, phases = self.boxes.pop(0)
        self.in_flight[index] = False
        self.written[index], self.writer[index] = self.heard[self.engine, self.engine], 32 * self.engine
        self.heard[self.engine, self.engine] += 1
        phases.hear(np.maximum(before, self.heard[self.engine]))
        phases.expect(-index.size)
        self.events += 1
        return True

    def lend(self, index, thread, write):
        """The engine reads these bytes some time from now, and calls write(bytes) even later."""
        self._check_read_by_engine(index, [thread // 32], "the copy engine")
        if not self.lent or self.lent[-1].closed:
            self.lent.append(Lent(thread))
        self.lent[-1].parts.append(index)
        self.lent[-1].writes.append((write, self.bytes[index]))

    def close_boxes(self, thread):
        for group in self.lent:
            group.closed = group.closed or group.thread == thread

    def await_boxes(self, pending, written, thread):
        """A thread waits for its own groups."""
        mine = [group for group in self.lent if group.thread == thread and group.closed]
        done, warp = mine[: len(mine) - pending], thread // 32
        for group in done:
            for index in () if group.read else group.parts:
                self.read[warp, index], self.reader[warp, index] = self.heard[warp, warp], MANY
                self.readers.add(warp)
            group.read = True
        if written:
            self.write_boxes(done)

    def write_boxes(self, groups):
        """Nothing orders what is not waited for: the last comes first."""
        for write, data in [x for group in reversed(groups) for x in reversed(group.writes)]:
            write(data)
        self.lent = [group for group in self.lent if group not in groups]

    def end(self):
        """The program is over: its boxes are written, if they could be read in time."""
        if not all(group.closed and group.read for group in self.lent):
            raise Fault("the program ends while the copy engine reads its memory")
        self.write_boxes(list(self.lent))

    # --- tensor cores ---------------------------------------------------------------------------------------------
    def fence(self):
        self.unfenced[:] = False

    def _check_read_by_engine(self, index, warps, who):
        """Tensor cores and the copy engine read what these warps have heard of, behind a fence."""
        if np.any(index < 0) or np.any(index >= len(self.bytes)):
            raise Fault(f"{who} reads outside shared memory")
        writer = self.writer[index] // 32
        if any(np.any(self.heard[w, writer] <= self.written[index]) for w in warps) or np.any(self.in_flight[index]):
            raise Fault(f"race: {who} reads what was written since the last barrier")
        if np.any(self.unfenced[index]):
            raise Fault(f"{who} reads ordinary writes without a proxy fence")
        if not np.all(self.filled[index]):
            raise Fault(f"{who} reads shared memory before anybody wrote it")

    def operand(self, index, warps):
        """Bytes a matrix product reads, whoever wrote them; they must not change until it is waited for."""
        self._check_read_by_engine(index, warps, "a matrix product")
        self.open_product[index] = True
        return self.bytes[index]

    def begin_products(self):
        self.open_product, self.open_registers = np.zeros(len(self.bytes), bool), set()

    def close_products(self):
        self.products.append(self.open_product)
        self.registers.append(self.open_registers)

    def wait_products(self, pending, warps):
        while len(self.products) > pending:
            self.registers.pop(0)
            index = np.nonzero(self.products.pop(0))[0]
            for w in warps:
                self.read[w, index], self.reader[w, index] = self.heard[w, w], MANY
            self.readers.update(warps)


class Lent:
    """A group of boxes that a thread has the copy engine write."""

    def __init__(self, thread):
        self.thread, self.closed, self.read = thread, False, False
        self.parts, self.writes = [], []


class Phases:
    """One barrier in shared memory: a phase is over when all have arrived and all announced bytes are there."""

    def __init__(self, arrivals, agents):
        self.arrivals = self.missing = arrivals
        self.number = self.bytes = 0
        self.heard, self.before = np.zeros(agents, int), np.zeros(agents, int)

    def hear(self, times):
        self.heard = np.maximum(self.heard, times)

    def arrive(self):
        if not self.missing:
            raise Fault("more warps arrive at a barrier than it was made for")
        self.missing -= 1
        self._end()

    def expect(self, size):
        self.bytes += size
        self._end()

    def _end(self):
        if not self.missing and not self.bytes:
            self.number, self.missing, self.before = self.number + 1, self.arrivals, self.heard.copy()
