"""Named barriers of a block, which any of its warps may use, and the barrier of a cluster."""

from typing import Any

import numpy as np

from tritium.insight.emulator.faults import Fault

NUMBERS = 16  # barriers of a block


class Barriers:
    """All barriers of a program. A warp that waits is not able to run until the others have come."""

    def __init__(self, machine):
        self.machine, self.numbered = machine, {}
        self.agents = len(machine.shared.heard)
        self.cluster = Barrier(self.agents, self.machine.warp_size)
        self.owing = np.zeros(machine.threads // machine.warp_size, bool)  # came to the cluster's, have yet to wait

    def come(self, guard, numbers, counts=None, waits=True):
        """Warps arrive at barriers of their blocks for `counts` threads (all, if None), and wait there if `waits`."""
        m = self.machine
        for warp in m.warps_of(guard, "a barrier") * m.warp_size:
            if np.any(numbers[warp : warp + m.warp_size] != numbers[warp]):
                raise Fault("the lanes of a warp name different barriers", "wrong barrier")
        for number in np.unique(numbers[guard]):
            if number >= NUMBERS:
                raise Fault(f"there is no barrier {number}", "wrong barrier")
            here = guard & (numbers == number)
            count = None if counts is None else int(counts[here][0])
            if count is not None and (count % m.warp_size or not 0 < count <= m.members):
                raise Fault(f"a barrier for {count} of a block's {m.members} threads", "wrong barrier")
            for block, warps in m.blocks_of(m.warps_of(here, "a barrier")):
                self._come(block, warps, int(number), count, waits)

    def _come(self, block, warps, number, count, waits):
        m = self.machine
        barrier = self.numbered.setdefault((block, number), Barrier(self.agents, self.machine.warp_size))
        barrier.come(m.shared, warps, count or m.members, waits)
        barrier.places.add(m.here)
        if count is None and (len(barrier.places) > 1 or m.done[block * m.members : (block + 1) * m.members].any()):
            raise Fault("a barrier that not all threads reach", "wrong barrier")
        m.waiting.reshape(-1, m.warp_size)[warps] = waits
        if barrier.missing() == 0:
            barrier.complete(m.shared)
            m.waiting.reshape(-1, m.warp_size)[barrier.waiting] = False
            m.shared.meetings[block] += 1
            del self.numbered[block, number]

    # --- all blocks of the cluster ----------------------------------------------------------------------------------
    def come_to_cluster(self, guard):
        """Warps say that they came."""
        warps = self.machine.warps_of(guard, "a barrier")
        if self.owing[warps].any():
            raise Fault("a warp comes to the cluster's barrier twice before it waits", "wrong barrier")
        self.owing[warps] = True
        self.cluster.come(self.machine.shared, warps, self.machine.threads, waits=False)
        self.settle()

    def wait_for_cluster(self, guard):
        """Warps that came wait until all others have."""
        m, warps = self.machine, self.machine.warps_of(guard, "a barrier")
        if not self.owing[warps].all():
            raise Fault("a warp waits at the cluster's barrier and did not come to it", "wrong barrier")
        early = np.isin(warps, self.cluster.warps)
        self.cluster.waiting += list(warps[early])
        m.waiting.reshape(-1, m.warp_size)[warps[early]] = True
        self._release(warps[~early])

    def settle(self):
        """The cluster's barrier is complete when all have come that have not ended."""
        m = self.machine
        missing = ~m.done.reshape(-1, m.warp_size).all(1)
        missing[self.cluster.warps] = False
        if self.cluster.warps and not missing.any():
            m.shared.met, m.shared.meetings = self.cluster.heard, m.shared.meetings + 1
            self._release(self.cluster.waiting)
            self.cluster = Barrier(self.agents, self.machine.warp_size)

    def _release(self, warps):
        m = self.machine
        m.shared.heard[warps] = np.maximum(m.shared.heard[warps], m.shared.met)
        m.waiting.reshape(-1, m.warp_size)[warps] = self.owing[warps] = False


class Barrier:
    """The warps that arrived so far, and their vector clocks."""

    def __init__(self, agents, warp_size):
        self.count: Any = None
        self.warp_size = warp_size
        self.warps, self.waiting, self.places = [], [], set()
        self.heard = np.zeros(agents, int)

    def come(self, shared, warps, count, waits):
        if self.count not in (None, count):
            raise Fault(f"a barrier that is for {self.count} threads and for {count}", "wrong barrier")
        if any(w in self.warps for w in warps):
            raise Fault("a warp comes to a barrier twice", "wrong barrier")
        self.count = count
        self.warps += list(warps)
        self.waiting += list(warps) if waits else []
        if self.missing() < 0:
            raise Fault("more warps come to a barrier than it is for", "wrong barrier")
        shared.heard[warps, warps] += 1
        self.heard = np.maximum(self.heard, shared.heard[warps].max(0))

    def missing(self):
        return self.count - self.warp_size * len(self.warps)

    def complete(self, shared):
        """Waiting warps are ordered after everything before the barrier."""
        shared.heard[self.waiting] = np.maximum(shared.heard[self.waiting], self.heard)
