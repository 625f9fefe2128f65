"""Shared memory of AMD GPUs (LDS): a barrier alone orders nothing, fences around it do."""

import numpy as np

from tritium.insight.emulator.faults import Fault
from tritium.insight.emulator.shared import Shared

FENCE = "missing fence"


class Lds(Shared):
    """Shared memory that knows of each warp whether a fence stands behind its last store, and before its next load.

    Loads that go straight here are under way until their warp waits.
    """

    def __init__(self, size, warps, blocks, log, warp_size):
        super().__init__(size, warps, blocks, log, warp_size)
        self.unreleased, self.unacquired = np.zeros(warps, bool), np.zeros(warps, bool)
        self.loading = {}  # of each warp: the places of loads that come straight here, oldest first

    def _used(self, threads, changes):
        warps = np.unique(self.warp_of(threads))
        if self.unacquired[warps].any():
            self.log.tell(Fault("shared memory is used behind a barrier without a fence that acquires", FENCE,
                                threads=threads))
        self.unreleased[warps] |= changes

    def load(self, address, size, threads, align=None):
        """What is at addresses."""
        self._used(threads, False)
        return super().load(address, size, threads, align)

    def store(self, address, data, threads, align=None):
        """Write at addresses."""
        self._used(threads, True)
        super().store(address, data, threads, align)

    def add(self, address, amount, threads):
        """Atomic addition; what was there."""
        self._used(threads, True)
        return super().add(address, amount, threads)

    def order(self, warps, how):
        """Accesses so far are before what comes behind a barrier (release), or it is before those to come."""
        if how != "acquire":
            self.release(warps)
            self.wait_for_loads(warps, 0)
        if how != "release":
            self.unacquired[warps] = False

    def release(self, warps):
        """Accesses so far, but for loads that come straight here, are over."""
        self.unreleased[warps] = False

    def come(self, warps):
        """Warps come to a barrier."""
        wrong = np.asarray(warps)[self.unreleased[warps]]
        if len(wrong):
            self.log.tell(Fault("a barrier behind accesses to shared memory without a fence that releases", FENCE,
                                threads=wrong * self.warp_size))
        self.unacquired[warps] = True

    def start_load(self, address, data, threads):
        """A load from global memory that comes straight here, some time from now."""
        index, thread = self._at(address, data.shape[1], "store", threads, 4), threads[:, None]
        self._check_write(index, thread)
        self._write(index, thread, data)
        self.in_flight[index] = True
        for warp in np.unique(self.warp_of(threads)):
            mine = self.warp_of(threads) == warp
            self.loading.setdefault(int(warp), []).append((index[mine], thread[mine]))

    def wait_for_loads(self, warps, pending):
        """Wait until at most `pending` loads of each warp are in flight."""
        for warp in warps:
            loads = self.loading.get(int(warp), [])
            while len(loads) > pending:
                index, thread = loads.pop(0)
                self.in_flight[index] = False
                self._note_write(index, thread)
