"""Shared memory with race detection."""

from typing import Any

import numpy as np

from tritium.insight.emulator.faults import Fault, Log
from tritium.insight.emulator.memory import SHARED_BASE, WINDOW
from tritium.insight.emulator.phases import Phases

NOBODY, MANY = -1, -2
RACE, WAIT = "shared race", "missing wait"


class Shared:
    """The shared memory of a cluster's blocks, one behind the other; mostly there is one block. Each warp has a clock
    that ticks when it tells others of its work, at a barrier or by arriving somewhere, and knows how far it has heard
    of the others: `heard[w, u]`. What warp u did at its time c is before what w does if heard[w, u] > c. The last
    columns are those of the blocks' TMA units."""

    def __init__(self, size, warps=32, blocks=1, log=None, warp_size=32):
        self.size, self.warps, self.blocks, self.log = size, warps, blocks, log or Log()
        self.warp_size = warp_size
        if self.log.keeps:  # the lines of the last write, and of each warp's last read
            self.wrote_at, self.read_at = np.zeros(blocks * size, np.int32), np.zeros((warps, blocks * size), np.int32)
        self.bytes = np.zeros(blocks * size, np.uint8)
        self.tma = blocks * warps  # that of the first block
        self.heard = np.eye(blocks * (warps + 1), dtype=int)
        self.written, self.writer = (np.full(blocks * size, NOBODY) for _ in range(2))  # time and thread
        self.read = np.zeros((warps, blocks * size), np.int32)  # time, for each warp of a byte's block
        self.reader = np.full((warps, blocks * size), NOBODY, np.int32)
        self.readers = set()
        self.meetings = np.zeros(blocks, int)  # barriers so far
        self.added = np.full(blocks * size, NOBODY)  # when atomics came, in meetings
        self.in_flight = np.zeros(blocks * size, bool)  # by asynchronous copies
        self.unfenced = np.zeros(blocks * size, bool)  # ordinary writes the tensor cores do not see yet
        self.filled = np.zeros(blocks * size, bool)
        self.copies = [[[]] for _ in range(blocks)]  # open and closed groups of each block
        self.products, self.open_products = {}, {}  # for each warpgroup: closed groups, and the open one
        self.registers = []  # (warpgroup, names of those that a running group of its products reads)
        self.phases, self.boxes = {}, []  # barriers in memory by place, copies of TMA under way
        self.events = 0  # arrivals at them
        self.lent = []  # groups of boxes that TMA writes to global memory
        self.met = np.zeros(len(self.heard), int)  # what all have heard of where the cluster met
        self.far_read: Any = None
        self.far_readers = set()  # time, for each warp, of reads in blocks that are not its own
        self.touched = np.full((blocks, len(self.heard)), NOBODY)  # when others last used a block's memory
        self.left = np.zeros(blocks, bool)

    def barrier(self, warps=None):
        """A barrier of warps: each is ordered after the earlier accesses of the others."""
        warps = np.arange(self.tma) if warps is None else np.asarray(warps)
        self.heard[warps, warps] += 1
        self.heard[warps] = self.heard[warps].max(0)
        self.meetings[np.unique(warps // self.warps)] += 1

    # --- places -----------------------------------------------------------------------------------------------------
    def warp_of(self, thread):
        return thread // self.warp_size

    def now(self, warp):
        """The clock of a warp."""
        return self.heard[warp, warp]

    def block_of(self, thread):
        return thread // (self.warp_size * self.warps)

    def _at(self, address, size, what, threads, align=None):
        address, align = address.astype(np.int64) - SHARED_BASE, align or size
        if np.any(address % align):
            raise Fault(f"shared {what} of {size} bytes at unaligned address", "misaligned",
                        threads=threads[address % align != 0])
        index = address[:, None] + np.arange(size)
        if np.any(index < 0) or np.any(index >= self.size):
            wrong = (address < 0) | (address + size > self.size)
            raise Fault(f"shared {what} outside the kernel's {self.size} bytes, at {int(address[wrong][0])}",
                        "out of bounds", threads=threads[wrong], address=int(address[wrong][0]))
        return index if self.blocks == 1 else index + self.size * self.block_of(threads)[:, None]

    def part(self, index, block, who):
        """Bytes that TMA uses of a block's memory."""
        if np.any(index < 0) or np.any(index >= self.size):
            raise Fault(f"{who} outside shared memory", "out of bounds")
        return index + self.size * block

    def _far_at(self, address, size, what, threads):
        """(bytes, their blocks) that addresses name in the cluster; those of a block's own memory are its own."""
        address = address.astype(np.int64)
        block = np.where(address < WINDOW, self.block_of(threads), address // WINDOW - 1)
        offset = address % WINDOW - SHARED_BASE
        if np.any(block >= self.blocks):
            raise Fault(f"{what} in block {block.max()} of a cluster of {self.blocks}")
        if np.any(offset % size):
            raise Fault(f"{what} of {size} bytes at unaligned address of a block's memory")
        if np.any((offset < 0) | (offset + size > self.size)):
            raise Fault(f"{what} outside a block's {self.size} bytes, at {int(offset.max())}")
        return (self.size * block + offset)[:, None] + np.arange(size), block

    def _touch(self, block, thread):
        """A thread uses the memory of another block, which must be there."""
        if self.left[block]:
            raise Fault("a thread uses the shared memory of a block that has ended")
        if block != self.block_of(thread):
            self.touched[block, self.warp_of(thread)] = self.now(self.warp_of(thread))

    def _first_warp(self, index):
        """The first warp of the block whose memory these bytes are."""
        return 0 if self.blocks == 1 else index // self.size * self.warps

    def _meeting(self, index):
        return self.meetings[0] if self.blocks == 1 else self.meetings[index // self.size]

    # --- races ------------------------------------------------------------------------------------------------------
    def _unheard_writes(self, index, thread):
        """Where the last write is of another thread, and nobody told this one."""
        writer = self.writer[index]
        told = self.heard[self.warp_of(thread), self.warp_of(writer)] > self.written[index]
        return (writer != NOBODY) & (writer != thread) & ~told

    def _check_heard(self, index, thread, what):
        unheard = self._unheard_writes(index, thread)
        if np.any(unheard):
            self._tell(f"race: {what} shared memory that another wrote since the last barrier", RACE, unheard, index,
                       thread, self.writer)
        changed = self.added[index] == self._meeting(index)
        if np.any(changed):
            self._tell(f"race: {what} shared memory that atomics changed since the last barrier", RACE, changed, index,
                       thread)

    def _check_there(self, index, thread):
        early = self.in_flight[index]
        if np.any(early):
            self._tell("shared memory is read while a copy into it is under way", WAIT, early, index, thread,
                       self.writer, did="started the copy")
        empty = ~self.filled[index]
        if np.any(empty):
            self._tell("shared memory is read before anybody wrote it", "uninitialised", empty, index, thread)

    def _tell(self, message, kind, wrong, index, thread, others=None, *, did="wrote it", places=None):
        """Tell of the bytes where something is wrong; `others` and `places` are, for each byte, a thread of the other
        side (by default the writer) and its line."""
        byte, threads = index[wrong], np.broadcast_to(thread, index.shape)[wrong]
        places = self.wrote_at if self.log.keeps and places is None and others is not None else places
        self.log.tell(Fault(message, kind, threads=threads, address=int(byte.flat[0]) % max(self.size, 1), did=did,
                            other=None if others is None else others[byte],
                            other_place=int(places[byte].flat[0]) if places is not None else None))

    def _note_read(self, index, thread):
        warp = self.warp_of(thread)
        now, row = self.heard[warp, warp], warp % self.warps
        several = (self.read[row, index] == now) & (self.reader[row, index] != thread)
        self.read[row, index], self.reader[row, index] = now, thread
        if self.log.keeps:
            self.read_at[row, index] = self.log.place
        several |= self.reader[row, index] != thread  # two lanes at once
        self.reader[np.broadcast_to(row, index.shape)[several], index[several]] = MANY
        self.readers.update(np.unique(row))

    def _check_write(self, index, thread, data=None):
        warp, first = self.warp_of(thread), self._first_warp(index)
        for row in self.readers:
            read, other = self.read[row, index], first + row
            mine = (warp == other) & (self.reader[row, index] == thread)
            early = (read > 0) & (self.heard[warp, other] <= read) & ~mine
            if np.any(early):
                others = np.where(self.reader[row] >= 0, self.reader[row], self.warp_size * row)
                self._tell("race: a thread overwrites shared memory that another read since the last barrier", RACE,
                           early, index, thread, others, did="read it", places=self.read_at[row] if self.log.keeps
                           else None)
        for other in self.far_readers:
            read = self.far_read[other, index]
            early = (read > 0) & (self.heard[warp, other] <= read)
            if np.any(early):
                self._tell("race: a thread overwrites shared memory that another block read since they met", RACE,
                           early, index, thread)
        twice = self._unheard_writes(index, thread)
        if np.any(twice) and (data is None or np.any(self.bytes[index][twice] != data[twice])):
            self._tell("race: two threads write different values to one place of shared memory", RACE, twice, index,
                       thread, self.writer)
        early = self.in_flight[index]
        if np.any(early):
            self._tell("shared memory is written while a copy into it is under way", WAIT, early, index, thread,
                       self.writer, did="started the copy")
        for group in (group for groups in self.products.values() for group in groups):
            if np.any(group[index]):
                self._tell("the operand of a running matrix product is overwritten", WAIT, group[index], index, thread)
        for group in (group for group in self.lent if not group.read):
            lent = np.isin(index, np.concatenate([part.ravel() for part in group.parts]))
            if np.any(lent):
                self._tell("shared memory is written while TMA reads it", WAIT, lent, index, thread)

    def _note_write(self, index, thread):
        self.written[index], self.writer[index] = self.now(self.warp_of(thread)), thread
        if self.log.keeps:
            self.wrote_at[index] = self.log.place

    # --- accesses ---------------------------------------------------------------------------------------------------
    def load(self, address, size, threads, align=None):
        index, thread = self._at(address, size, "load", threads, align), threads[:, None]
        self._check_heard(index, thread, "a thread reads")
        self._check_there(index, thread)
        self._note_read(index, thread)
        return self.bytes[index]

    def load_far(self, address, size, threads):
        """Distributed shared memory: values written before the last cluster barrier."""
        index, block = self._far_at(address, size, "a load", threads)
        for b, t in np.unique(np.stack([block, threads - threads % self.warp_size], 1), axis=0):
            self._touch(b, t)
        far, thread = block != self.block_of(threads), threads[:, None]
        early = far[:, None] & (self.met[self.warp_of(self.writer[index])] <= self.written[index])
        if np.any(early):
            self._tell("race: a thread reads what another block wrote since they met", RACE, early, index, thread,
                       self.writer)
        self._check_heard(index, thread, "a thread reads")
        self._check_there(index, thread)
        self._note_read(index[~far], thread[~far])
        if self.far_read is None:
            self.far_read = np.zeros((self.tma, len(self.bytes)), np.int32)
        warp = self.warp_of(thread[far])
        self.far_read[warp, index[far]] = self.heard[warp, warp]
        self.far_readers.update(np.unique(warp))
        return self.bytes[index]

    def store(self, address, data, threads, align=None):
        index, thread = self._at(address, data.shape[1], "store", threads, align), threads[:, None]
        self._check_write(index, thread, data)
        self._write(index, thread, data)

    def _write(self, index, thread, data):
        self.bytes[index] = data
        lost = self.bytes[index] != data
        if np.any(lost):
            self._tell("race: two threads write different values to one place of shared memory", RACE, lost, index,
                       thread)
        self._note_write(index, thread)
        self.unfenced[index] = self.filled[index] = True

    def add(self, address, amount, threads):
        """Atomic addition of 32-bit numbers, one thread after the other at one address; returns what was there."""
        index = self._at(address, 4, "atomic", threads)
        unheard = self._unheard_writes(index, threads[:, None])
        if np.any(unheard):
            self._tell("race: atomics on shared memory that another thread wrote since the last barrier", RACE,
                       unheard, index, threads[:, None], self.writer)
        words, place = self.bytes.view(np.uint32), index[:, 0] // 4
        order = np.argsort(place, kind="stable")
        sums = np.cumsum(amount[order], dtype=np.uint32) - amount[order]
        first = np.searchsorted(place[order], place[order])
        old = np.empty(len(place), np.uint32)
        old[order] = words[place[order]] + sums - sums[first]
        np.add.at(words, place, amount)
        self.added[index] = self._meeting(index)
        return old

    # --- asynchronous copies ----------------------------------------------------------------------------------------
    def start_copy(self, address, data, threads):
        index, thread = self._at(address, data.shape[1], "copy", threads), threads[:, None]
        self._check_write(index, thread)
        self._write(index, thread, data)
        self.in_flight[index] = True
        block = self.block_of(threads)
        for b in np.unique(block):
            self.copies[b][-1].append((index[block == b], thread[block == b]))

    def close_copies(self, blocks):
        for b in blocks:
            self.copies[b].append([])

    def wait_copies(self, pending, blocks):
        for b in blocks:
            *closed, last = self.copies[b]
            done = closed[: len(closed) - pending] if pending else closed
            for index, thread in (copy for group in done for copy in group):
                self.in_flight[index] = False
                self._note_write(index, thread)
            self.copies[b] = [*closed[len(done) :], last]

    # --- barriers in memory, and TMA --------------------------------------------------------------------
    def start_phases(self, address, arrivals, thread):
        place = int(self._at(np.array([address]), 8, "wrong barrier", np.array([thread]))[0, 0])
        self.phases[place] = Phases(arrivals, len(self.heard), thread, self.now(self.warp_of(thread)))

    def fence_phases(self, thread):
        """The barriers that a thread made may be used by other blocks and by TMA."""
        for phases in self.phases.values():
            phases.fenced |= phases.maker == thread

    def phases_at(self, address, thread, block=None):
        """A barrier in a thread's own block, or in another one, or for TMA to signal."""
        place = int(address) - SHARED_BASE + self.size * (self.block_of(thread) if block is None else block)
        if place not in self.phases:
            raise Fault("there is no barrier at this address of shared memory", "wrong barrier", threads=thread)
        phases = self.phases[place]
        warp, maker = self.warp_of(thread), self.warp_of(phases.maker)
        if maker != warp and self.heard[warp, maker] <= phases.made:
            self.log.tell(Fault("race: a barrier is used by a thread that has not heard of it", RACE, threads=thread,
                                other=phases.maker, did="made it"))
        if block is not None and not phases.fenced:
            self.log.tell(Fault("a barrier that was made without a fence is used by another block or TMA",
                                "missing fence", threads=thread, other=phases.maker, did="made it"))
        return phases

    def arrive(self, address, thread):
        self._arrive(self.phases_at(address, thread), self.warp_of(thread))

    def arrive_far(self, address, thread):
        """Arrive at a barrier of any block of the cluster."""
        index, block = self._far_at(np.array([address]), 8, "an arrival", np.array([thread]))
        self._touch(block[0], thread)
        phases = self.phases_at(int(index[0, 0]) - self.size * block[0] + SHARED_BASE, thread, block[0])
        self._arrive(phases, self.warp_of(thread))

    def _arrive(self, phases, warp):
        self.heard[warp, warp] += 1
        phases.hear(self.heard[warp])
        phases.arrive()
        self.events += 1

    def phase_over(self, address, parity, thread):
        """Whether a phase of this parity is complete; warps that see so are ordered after everything before it."""
        phases, warp = self.phases_at(address, thread), self.warp_of(thread)
        if phases.number % 2 == parity:
            return False
        self.heard[warp] = np.maximum(self.heard[warp], phases.before)
        phases.seen = phases.number
        return True

    def start_box(self, index, data, thread, barrier, block):
        """TMA of a block writes data[i] at index[i] some time from now."""
        if self.left[block]:
            raise Fault("a copy into the shared memory of a block that has ended")
        index = self.part(index, block, "TMA writes")
        self._check_write(index, np.full_like(index, thread))
        self.bytes[index] = data
        self.filled[index], self.in_flight[index], self.unfenced[index] = True, True, False
        if self.log.keeps:
            self.wrote_at[index], self.writer[index], self.written[index] = self.log.place, NOBODY, NOBODY
        heard = self.heard[self.warp_of(thread)].copy()
        self.boxes.append((index, block, heard, self.phases_at(barrier, thread, block), self.log.place))

    def finish_box(self):
        """The oldest copy arrives; False if there is none."""
        if not self.boxes:
            return False
        index, block, before, phases, place = self.boxes.pop(0)
        tma = self.tma + block
        self.in_flight[index] = False
        self.written[index], self.writer[index] = self.heard[tma, tma], self.warp_size * tma
        if self.log.keeps:
            self.wrote_at[index] = place
        self.touched[block, tma] = self.heard[tma, tma]
        self.heard[tma, tma] += 1
        phases.hear(np.maximum(before, self.heard[tma]))
        phases.expect(-index.size)
        self.events += 1
        return True

    def lend(self, index, thread, write):
        """TMA reads these bytes some time from now, and calls write(bytes) even later."""
        index = self.part(index, self.block_of(thread), "TMA reads")
        self._check_read_by_proxy(index, [self.warp_of(thread)], "TMA")
        group = next((group for group in self.lent if group.thread == thread and not group.closed), None)
        if group is None:
            group = Lent(thread)
            self.lent.append(group)
        group.parts.append(index)
        group.writes.append((write, self.bytes[index]))

    def close_boxes(self, thread):
        for group in self.lent:
            group.closed = group.closed or group.thread == thread

    def await_boxes(self, pending, written, thread):
        """A thread waits for its own groups."""
        mine = [group for group in self.lent if group.thread == thread and group.closed]
        done, warp = mine[: len(mine) - pending], self.warp_of(thread)
        for group in done:
            for index in () if group.read else group.parts:
                self._note_read_by_proxy(index, warp)
            group.read = True
        if written:
            self.write_boxes(done)

    def write_boxes(self, groups):
        """TMA stores that are not waited for are unordered: the last one is done first."""
        for write, data in [x for group in reversed(groups) for x in reversed(group.writes)]:
            write(data)
        self.lent = [group for group in self.lent if group not in groups]

    def leave(self, block):
        """A block is over: its boxes are written, if they could be read in time, and nobody uses its memory now."""
        lent = [group for group in self.lent if self.block_of(group.thread) == block]
        if not all(group.closed and group.read for group in lent):
            self.log.tell(Fault("the program ends while TMA reads its memory", WAIT, threads=lent[0].thread))
        self.write_boxes(lent)
        unheard = self.touched[block] >= self.heard[block * self.warps : (block + 1) * self.warps].max(0)
        if unheard[self.tma :].any() or any(box[1] == block for box in self.boxes):
            self.log.tell(Fault("a block ends while a copy into its shared memory may be under way", WAIT))
        elif unheard.any():
            self.log.tell(Fault("a block ends while another may still use its shared memory", RACE))
        self.left[block] = True

    # --- tensor cores -----------------------------------------------------------------------------------------------
    def fence(self, blocks):
        for b in blocks:
            self.unfenced[b * self.size : (b + 1) * self.size] = False

    def _check_read_by_proxy(self, index, warps, who):
        """Check a read by the async proxy (tensor cores, TMA): these warps are ordered after the writes, with a
        fence."""
        writer, thread = self.warp_of(self.writer[index]), self.warp_size * np.asarray(warps)[0]
        early = self.in_flight[index] | np.any([self.heard[w, writer] <= self.written[index] for w in warps], axis=0)
        if np.any(early):
            self._tell(f"race: {who} reads what was written since the last barrier", RACE, early, index, thread,
                       self.writer)
        unfenced = self.unfenced[index]
        if np.any(unfenced):
            self._tell(f"{who} reads ordinary writes without a proxy fence", "missing fence", unfenced, index, thread,
                       self.writer)
        empty = ~self.filled[index]
        if np.any(empty):
            self._tell(f"{who} reads shared memory before anybody wrote it", "uninitialised", empty, index, thread)

    def _note_read_by_proxy(self, index, warp):
        row = warp % self.warps
        self.read[row, index], self.reader[row, index] = self.heard[warp, warp], MANY
        if self.log.keeps:
            self.read_at[row, index] = self.log.place
        self.readers.add(row)

    def begin_products(self, groups):
        """Warpgroups may multiply now; until they close the group, or since."""
        for g in groups:
            self.open_products.setdefault(g, (np.zeros(len(self.bytes), bool), set()))

    def operand(self, index, threads, group):
        """Bytes that a matrix product reads, of any writer; they must not change until the product is waited for."""
        index = self.part(index, self.block_of(group), "a matrix product reads")
        self._check_read_by_proxy(index, np.unique(self.warp_of(threads)), "a matrix product")
        self.open_products[group][0][index] = True
        return self.bytes[index]

    def close_products(self, groups):
        for g in groups:
            read, names = self.open_products.pop(g)
            self.products.setdefault(g, []).append(read)
            self.registers.append((g, names))

    def wait_products(self, pending, groups):
        for g in groups:
            running = self.products.get(g, [])
            while len(running) > pending:
                self.registers.remove(next(x for x in self.registers if x[0] == g))
                index = np.nonzero(running.pop(0))[0]
                for warp in range(self.warp_of(g), self.warp_of(g) + 4):
                    self._note_read_by_proxy(index, warp)

    def reads_register(self, name, active):
        """Whether a running product of some of these threads reads a register."""
        return any(name in names and active[g] for g, names in self.registers)


class Lent:
    """A group of boxes that a thread has TMA write."""

    def __init__(self, thread):
        self.thread, self.closed, self.read = thread, False, False
        self.parts, self.writes = [], []
