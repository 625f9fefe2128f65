"""Tensor memory, and the matrix products whose sums are there (tcgen05).

Products run beside the threads: their sums may not be touched, nor their operands overwritten, until a barrier that
they were committed to has told so. What one warp did to tensor memory another sees behind a barrier, and a fence on its
own side of it.

Written from the instruction set's tables, not from the compiler's layouts, so that each checks the other.
"""

import numpy as np

from tritium.insight.emulator import tensor_cores
from tritium.insight.emulator.faults import Fault
from tritium.insight.emulator.memory import SHARED_BASE

LANES, COLUMNS = 128, 512
WAIT, RACE = "missing wait", "race"
_KINDS = {  # kind -> names of types, by their numbers in a descriptor
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": {0: "e4m3", 1: "e5m2"},
    "i8": {1: "s8"},
    "mxf8f6f4": {0: "e4m3", 1: "e5m2"},
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}


class TensorMemory:
    """The tensor memory of a program's blocks. `seen[w]` is how far warp w had heard of others at its last fence."""

    def __init__(self, shared):
        self.shared, blocks, warps = shared, shared.blocks, shared.blocks * shared.warps
        self.words = np.zeros((blocks, LANES, COLUMNS), np.uint32)
        self.filled = np.zeros(self.words.shape, bool)
        self.owned = np.zeros((blocks, COLUMNS), bool)
        self.allocated = [None] * blocks  # (first column, columns, warp)
        self.busy = np.zeros(self.words.shape, np.int16)  # products under way
        self.stored = np.full(self.words.shape, -1, np.int16)  # warps whose stores have not been waited for
        self.written, self.writer = np.zeros(self.words.shape, np.int32), np.full(self.words.shape, -1, np.int16)
        self.read = np.zeros((warps, LANES, COLUMNS), np.int32)  # of the warp's own block
        self.seen = np.zeros((warps, len(shared.heard)), int)
        self.open, self.closed = {}, []  # products by the thread that issued them; and in order, once committed
        self.finished = []  # (barrier, phase) of commits, in order, since the last that somebody has seen

    def tell(self, message, kind, thread):
        self.shared.log.tell(Fault(message, kind, threads=thread))

    # --- allocation -------------------------------------------------------------------------------------------------
    def alloc(self, count, warp):
        """The address of so many columns."""
        block = warp // self.shared.warps
        if count not in (32, 64, 128, 256, 512) or self.allocated[block]:
            raise Fault(f"a program allocates {count} columns of tensor memory", "out of bounds", threads=32 * warp)
        first = COLUMNS - count  # wherever the hardware likes
        self.allocated[block] = first, count, warp
        self.owned[block, first:] = True
        return first

    def dealloc(self, address, count, warp):
        block = warp // self.shared.warps
        if self.allocated[block] != (address, count, warp):
            raise Fault("tensor memory is freed that was not allocated so", "out of bounds", threads=32 * warp)
        if self.busy[block].any():
            self.tell("tensor memory is freed while products use it", WAIT, 32 * warp)
        self._check_write((block, slice(None), slice(None)), warp)
        self.allocated[block], self.owned[block] = None, False

    def leave(self, block):
        if self.allocated[block]:
            raise Fault("a block ends that has not freed its tensor memory", "out of bounds")

    # --- who sees what ----------------------------------------------------------------------------------------------
    def fence(self, warps):
        self.seen[warps] = self.shared.heard[warps]

    def _check_bounds(self, at, warp):
        block, _, columns = at
        if not self.owned[block, columns].all():
            raise Fault("an access to tensor memory that is not allocated", "out of bounds", threads=32 * warp)
        if self.busy[at].any():
            self.tell("tensor memory is used while a product may change it", WAIT, 32 * warp)

    def _check_heard(self, at, warp):
        """The last write is of this warp, or it has heard of it."""
        writer, early = self.writer[at], self.stored[at] >= 0
        unheard = (writer >= 0) & (writer != warp) & (self.seen[warp, writer] <= self.written[at])
        if np.any(unheard):
            self.tell("race: tensor memory is read that another warp wrote, without a barrier and a fence", RACE,
                      32 * warp)
        if np.any(early):
            self.tell("tensor memory is used before a store to it was waited for", WAIT, 32 * warp)
        if not self.filled[at].all():
            self.tell("tensor memory is read before anybody wrote it", "uninitialised", 32 * warp)

    def _check_write(self, at, warp):
        """All others that read or wrote it have told so."""
        block, lanes, columns = at
        writer = self.writer[at]
        if np.any((writer >= 0) & (writer != warp) & (self.seen[warp, writer] <= self.written[at])):
            self.tell("race: tensor memory is overwritten that another warp wrote, without a barrier and a fence", RACE,
                      32 * warp)
        first = block * self.shared.warps
        for other in range(first, first + self.shared.warps):
            read = self.read[other, lanes, columns]
            if other != warp and np.any((read > 0) & (self.seen[warp, other] <= read)):
                self.tell("race: tensor memory is overwritten that another warp read, without a barrier and a fence",
                          RACE, 32 * warp)

    def _note_write(self, at, warp):
        self.written[at], self.writer[at] = self.shared.heard[warp, warp], warp
        self.filled[at] = True

    # --- threads ----------------------------------------------------------------------------------------------------
    def load(self, lanes, columns, warp):
        at = warp // self.shared.warps, lanes, columns
        self._check_bounds(at, warp)
        self._check_heard(at, warp)
        self.read[warp, lanes, columns] = self.shared.heard[warp, warp]
        return self.words[at]

    def store(self, lanes, columns, values, warp):
        at = warp // self.shared.warps, lanes, columns
        self._check_bounds(at, warp)
        self._check_write(at, warp)
        self.words[at] = values
        self.stored[at] = warp
        self._note_write(at, warp)

    def wait_stores(self, warps):
        self.stored[np.isin(self.stored, warps)] = -1

    # --- products ---------------------------------------------------------------------------------------------------
    def operand(self, index, thread):
        """Bytes of shared memory that a product reads."""
        shared, warp = self.shared, thread // 32
        index = shared.part(index, shared.block_of(thread), "a matrix product reads")
        shared._check_read_by_proxy(index, [warp], "a matrix product")
        shared._note_read_by_proxy(index, warp)
        self._open(thread)[0][index] = True
        return shared.bytes[index]

    def copy(self, index, at, thread):
        """Bytes of shared memory, [lane, column, byte], are copied in the order of the thread's products. Some may
        never have been written; nobody may read those."""
        there = self.shared.filled[self.shared.part(index, self.shared.block_of(thread), "a copy reads")]
        self.operand(index[there], thread)
        words = np.ascontiguousarray(self.shared.bytes[index + self.shared.size * self.shared.block_of(thread)])
        self.put(at, words.view(np.uint32)[..., 0], thread)
        self.filled[at] = there.any(-1)

    def _open(self, thread):
        if thread not in self.open:
            group = np.zeros(len(self.shared.bytes), bool), []
            self.open[thread] = group
            self.shared.products.setdefault(("tensor", thread), []).append(group[0])
        return self.open[thread]

    def sums(self, at, thread):
        """Words that a product adds to; those of earlier products of this thread may still be under way."""
        self._check_bounds_of_product(at, thread)
        self._check_heard(at, thread // 32)
        return self.words[at]

    def _check_bounds_of_product(self, at, thread):
        block, _, columns = at
        if not self.owned[block, columns].all():
            raise Fault("a product in tensor memory that is not allocated", "out of bounds", threads=thread)

    def put(self, at, values, thread):
        """Words that a product changes."""
        self._check_bounds_of_product(at, thread)
        self._check_write(at, thread // 32)
        self.words[at] = values
        self._note_write(at, thread // 32)
        self.busy[at] += 1
        self._open(thread)[1].append(at)

    def commit(self, barrier, thread):
        """A barrier is told when all products of a thread so far are finished."""
        shared, warp, group = self.shared, thread // 32, self._open(thread)
        del self.open[thread]
        shared.heard[warp, warp] += 1
        phases = shared.phases_at(barrier, thread, shared.block_of(thread))
        self.closed.append((group, thread, phases, shared.heard[warp].copy()))

    def finish(self):
        """The oldest products are finished; False if there are none."""
        if not self.closed:
            return False
        (read, places), thread, phases, heard = self.closed.pop(0)
        running = self.shared.products["tensor", thread]
        running[:] = [x for x in running if x is not read]
        for at in places:
            self.busy[at] -= 1
        self._see_earlier()
        phases.hear(heard)
        phases.arrive()
        self.finished.append((phases, phases.number))
        self.shared.events += 1
        return True


    def _see_earlier(self):
        """Who has seen that some products are finished knows it of all that were committed before."""
        last = max((k for k, (phases, number) in enumerate(self.finished) if phases.seen >= number), default=-1)
        for phases, number in self.finished[: last + 1]:
            phases.seen = max(phases.seen, number)
        del self.finished[: last + 1]


# --- instructions -----------------------------------------------------------------------------------------------------
def alloc(s, guard, operands):
    """The address is written to shared memory."""
    address, count = s.get(operands[0]), int(operands[1])
    s.m.tensor = s.m.tensor or TensorMemory(s.m.shared)
    for warp in s.m.warps_of(guard, "an allocation"):
        first = np.array([s.m.tensor.alloc(count, warp)], np.uint32).view(np.uint8)[None]
        s.m.shared.store(address[32 * warp : 32 * warp + 1], first, np.array([32 * warp]))


def dealloc(s, guard, operands):
    for warp in s.m.warps_of(guard, "a deallocation"):
        s.m.tensor.dealloc(int(s.get(operands[0])[32 * warp]), int(operands[1]), warp)


def elect(s, guard, operands):
    """The first lane of each warp."""
    chosen = np.zeros(s.m.threads, bool)
    chosen[32 * s.m.warps_of(guard, "an election")] = True
    s.set(operands[0].partition("|")[2], chosen, guard)


def fence(s, guard, operands, side):
    if side == "after":
        s.m.tensor.fence(s.m.warps_of(guard, "a fence"))


def _fragment(form, count, warp, address):
    """(lanes, columns) of the words of a warp, [lane of the warp, register]."""
    lane, column = address >> 16, address & 0xFFFF
    thread, k = np.arange(32)[:, None], np.arange(count)[None, :]
    if form == "32x32b":
        rows, columns = thread + 0 * k, 0 * thread + k
    else:  # 16x256b
        rows, columns = thread // 4 + 8 * (k >> 1 & 1), 2 * (thread % 4) + (k & 1) + 8 * (k >> 2)
    if lane // 32 != warp % 4 or lane % (32 if form == "32x32b" else 16):
        raise Fault(f"a warp uses lane {lane} of tensor memory, its own begin at {warp % 4 * 32}", "out of bounds",
                    threads=32 * warp)
    return rows + lane, columns + column


def _each(s, guard, form, number, address):
    registers = int(number) * (4 if form == "16x256b" else 1)
    for warp in s.m.warps_of(guard, "an access to tensor memory"):
        threads = np.arange(32 * warp, 32 * warp + 32)
        places = np.unique(address[threads])
        if len(places) > 1:
            raise Fault("the lanes of a warp name different tensor memory", "out of bounds", threads=threads)
        yield warp, threads, *_fragment(form, registers, warp % s.m.shared.warps, int(places[0]))


def load(s, guard, operands, form, number):
    """Registers from tensor memory; they are there at once."""
    names, address = operands[0] if isinstance(operands[0], list) else [operands[0]], s.get(operands[1])
    out = np.zeros((s.m.threads, len(names)), np.uint32)
    for warp, threads, lanes, columns in _each(s, guard, form, number, address):
        out[threads] = s.m.tensor.load(lanes, columns, warp)
    for k, name in enumerate(names):
        s.set(name, np.ascontiguousarray(out[:, k]), guard)


def store(s, guard, operands, form, number):
    """Registers to tensor memory."""
    address, names = s.get(operands[0]), operands[1] if isinstance(operands[1], list) else [operands[1]]
    words = np.stack([np.ascontiguousarray(s.get(name)).view(np.uint32) for name in names], axis=1)
    for warp, threads, lanes, columns in _each(s, guard, form, number, address):
        s.m.tensor.store(lanes, columns, words[threads], warp)


def wait(s, guard, operands, what):
    if what == "st":
        s.m.tensor.wait_stores(s.m.warps_of(guard, "a wait"))


def commit(s, guard, operands):
    for t in np.nonzero(guard)[0]:
        s.m.tensor.commit(int(s.get(operands[0])[t]), t)


def _described(descriptor, outer, depth_bytes, size, k_major):
    """Byte addresses [outer, K, byte] of an operand that a descriptor names."""
    d = int(descriptor)
    if d >> 46 & 7 != 1:
        raise Fault("a descriptor of shared memory of another version")
    start, leading, stride = (d & 0x3FFF) << 4, (d >> 16 & 0x3FFF) << 4, (d >> 32 & 0x3FFF) << 4
    width = {2: 128, 4: 64, 6: 32}[d >> 61]
    return tensor_cores.addresses(start, leading, stride, width, outer, depth_bytes, size, k_major) - SHARED_BASE


def _one(s, guard):
    """The thread that multiplies for its block."""
    threads = np.nonzero(guard)[0]
    for block in np.unique(threads // s.m.members):
        mine = threads[threads // s.m.members == block]
        if len(mine) > 1:
            raise Fault("several threads issue the same product", threads=mine)
        yield block, mine[0]


def _rows(m):
    """The lanes of the rows of a result."""
    return np.arange(m) if m == 128 else np.arange(m) // 16 * 32 + np.arange(m) % 16


def mma(s, guard, operands, kind):
    """D [+]= A @ B; shape and types are in the descriptor."""
    target, left, right, what, adds = operands
    for block, t in _one(s, guard):
        bits, address = int(s.get(what)[t]), int(s.get(target)[t])
        m, n = (bits >> 24 & 31) << 4, (bits >> 17 & 63) << 3
        if m not in (64, 128) or not n or n > 256 or n % (8 if m == 64 else 16):
            raise Fault(f"there is no product of {m} x {n}", threads=t)
        names = [_KINDS[kind][bits >> low & 7] for low in (7, 10)]
        a, b = (_fetch(s, x, t, outer, name, bits >> turned & 1)
                for x, outer, name, turned in zip((left, right), (m, n), names, (15, 16)))
        integer = kind == "i8"
        if bits >> 4 & 3 != (2 if integer else 1) or address >> 16:
            raise Fault("a product into words of another type, or other lanes", threads=t)
        at = block, _rows(m)[:, None], (address & 0xFFFF) + np.arange(n)[None, :]
        _accumulate(s, at, a @ b.T, bool(s.get(adds)[t]), t, np.int32 if integer else np.float32)


def _fetch(s, name, t, outer, kind, turned):
    size = tensor_cores.size_of(kind)
    index = _described(s.get(name)[t], outer, 32, size, not turned)
    return tensor_cores.values_of(s.m.tensor.operand(index, t).reshape(outer, 32), kind)


def copy_scales(s, guard, operands):
    """32 rows of 16 bytes to four columns of 32 lanes, and to those of all other warps."""
    target, source = operands
    for block, t in _one(s, guard):
        d, address = int(s.get(source)[t]), int(s.get(target)[t])
        start, stride = (d & 0x3FFF) << 4, (d >> 32 & 0x3FFF) << 4
        if d >> 61 or d >> 46 & 7 != 1 or address >> 16:
            raise Fault("a copy to tensor memory of swizzled rows, or to other lanes", threads=t)
        row, column, byte = np.ogrid[:32, :4, :4]
        index = start + row // 8 * stride + row % 8 * 16 + 4 * column + byte - SHARED_BASE
        for first in range(0, LANES, 32):
            at = block, first + np.arange(32)[:, None], address + np.arange(4)[None, :]
            s.m.tensor.copy(index, at, t)


def scaled_mma(s, guard, operands, kind, count):
    """D [+]= (A * scales) @ (B * scales)."""
    target, left, right, what, *scales, adds = operands
    count, depth = int(count), 32 if kind == "mxf8f6f4" else 64
    for block, t in _one(s, guard):
        bits, address = int(s.get(what)[t]), int(s.get(target)[t])
        m, n, ids = (bits >> 27 & 3) << 7, (bits >> 17 & 63) << 3, (bits >> 29 & 3, bits >> 4 & 3)
        if m != 128 or not n or n > 256 or n % 8 or address >> 16:
            raise Fault(f"there is no block-scaled product of {m} x {n}", threads=t)
        if any(k % count or k + count > 4 for k in ids):
            raise Fault("scales that are no part of a word", threads=t)
        type_ = "ue8m0" if bits >> 23 & 1 else "ue4m3"
        sides = []
        for x, outer, low, turned, scale, k in zip((left, right), (m, n), (7, 10), (15, 16), scales, ids):
            values = _fetch(s, x, t, outer, _KINDS[kind][bits >> low & 7], bits >> turned & 1)
            rows = np.arange(outer)
            at = block, rows % 32, int(s.get(scale)[t]) + rows // 32
            words = np.ascontiguousarray(s.m.tensor.sums(at, t)).view(np.uint8).reshape(outer, 4)[:, k : k + count]
            sides.append(values * np.repeat(tensor_cores.scales_of(words, type_), depth // count, axis=1))
        at = block, _rows(m)[:, None], address + np.arange(n)[None, :]
        _accumulate(s, at, sides[0] @ sides[1].T, bool(s.get(adds)[t]), t, np.float32)


def _accumulate(s, at, product, adds, t, kind):
    old = s.m.tensor.sums(at, t).view(kind) if adds else kind(0)
    s.m.tensor.put(at, (old + product).astype(kind).view(np.uint32), t)


INSTRUCTIONS = [
    (r"elect\.sync", elect),
    (r"tcgen05\.alloc\.cta_group::1\.sync\.aligned\.shared::cta\.b32", alloc),
    (r"tcgen05\.relinquish_alloc_permit\.cta_group::1\.sync\.aligned", lambda s, guard, operands: None),
    (r"tcgen05\.dealloc\.cta_group::1\.sync\.aligned\.b32", dealloc),
    (r"tcgen05\.fence::(before|after)_thread_sync", fence),
    (r"tcgen05\.ld\.sync\.aligned\.(32x32b|16x256b)\.x(\d+)\.b32", load),
    (r"tcgen05\.st\.sync\.aligned\.(32x32b|16x256b)\.x(\d+)\.b32", store),
    (r"tcgen05\.wait::(ld|st)\.sync\.aligned", wait),
    (r"tcgen05\.commit\.cta_group::1\.mbarrier::arrive::one\.shared::cluster\.b64", commit),
    (r"tcgen05\.mma\.cta_group::1\.kind::(f16|tf32|f8f6f4|i8)", mma),
    (r"tcgen05\.mma\.cta_group::1\.kind::(mxf8f6f4|mxf4|mxf4nvf4)\.block_scale\.scale_vec::(\d)X", scaled_mma),
    (r"tcgen05\.cp\.cta_group::1\.32x128b\.warpx4", copy_scales),
]
