"""Barriers of threads: the numbered ones of a block, which any of its warps may use, and the one of a cluster."""

import numpy as np

from tests.gpu.emulator.memory import Fault

NUMBERS = 16  # a block has so many barriers


class Barriers:
    """All barriers of a program. A warp that waits is not able to run until the others have come."""

    def __init__(self, machine):
        self.machine, self.numbered = machine, {}

    def come(self, guard, numbers, counts=None, waits=True):
        """Warps come to barriers of their blocks that are for so many threads, or for all; or they only say so."""
        m = self.machine
        for warp in m.warps_of(guard, "a barrier") * 32:
            if np.any(numbers[warp : warp + 32] != numbers[warp]):
                raise Fault("the lanes of a warp name different barriers")
        for number in np.unique(numbers[guard]):
            if number >= NUMBERS:
                raise Fault(f"there is no barrier {number}")
            here = guard & (numbers == number)
            count = None if counts is None else int(counts[here][0])
            if count is not None and (count % 32 or not 0 < count <= m.members):
                raise Fault(f"a barrier for {count} of a block's {m.members} threads")
            for block, warps in m.blocks_of(m.warps_of(here, "a barrier")):
                self._come(block, warps, int(number), count, waits)

    def _come(self, block, warps, number, count, waits):
        m = self.machine
        barrier = self.numbered.setdefault((block, number), Barrier(len(m.shared.heard)))
        barrier.come(m.shared, warps, count or m.members, waits)
        barrier.places.add(m.here)
        if count is None and (len(barrier.places) > 1 or m.done[block * m.members : (block + 1) * m.members].any()):
            raise Fault("a barrier that not all threads reach")
        m.waiting.reshape(-1, 32)[warps] = waits
        if barrier.missing() == 0:
            barrier.complete(m.shared)
            m.waiting.reshape(-1, 32)[barrier.waiting] = False
            m.shared.meetings[block] += 1
            del self.numbered[block, number]


class Barrier:
    """The warps that came so far, and what they know."""

    def __init__(self, agents):
        self.count, self.warps, self.waiting, self.places = None, [], [], set()
        self.heard = np.zeros(agents, int)

    def come(self, shared, warps, count, waits):
        if self.count not in (None, count):
            raise Fault(f"a barrier that is for {self.count} threads and for {count}")
        if any(w in self.warps for w in warps):
            raise Fault("a warp comes to a barrier twice")
        self.count = count
        self.warps += list(warps)
        self.waiting += list(warps) if waits else []
        if self.missing() < 0:
            raise Fault("more warps come to a barrier than it is for")
        shared.heard[warps, warps] += 1
        self.heard = np.maximum(self.heard, shared.heard[warps].max(0))

    def missing(self):
        return self.count - 32 * len(self.warps)

    def complete(self, shared):
        """Those that waited have heard of all that came before."""
        shared.heard[self.waiting] = np.maximum(shared.heard[self.waiting], self.heard)
