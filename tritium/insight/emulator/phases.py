"""mbarriers: barriers in shared memory."""

import numpy as np

from tritium.insight.emulator.faults import Fault


class Phases:
    """One barrier in shared memory: a phase is over when all have arrived and all announced bytes are there."""

    def __init__(self, arrivals, agents, thread, time):
        self.maker, self.made, self.fenced = thread, time, False
        self.arrivals = self.missing = arrivals
        self.number = self.bytes = self.seen = 0
        self.heard, self.before = np.zeros(agents, int), np.zeros(agents, int)

    def hear(self, times):
        self.heard = np.maximum(self.heard, times)

    def arrive(self):
        if not self.missing:
            raise Fault("more warps arrive at a barrier than it was made for", "wrong barrier")
        self.missing -= 1
        self._end()

    def expect(self, size):
        self.bytes += size
        self._end()

    def _end(self):
        if not self.missing and not self.bytes:
            if self.seen < self.number:  # who waits for a parity would take two phases for none
                raise Fault("a phase is over before anybody has seen that the one before it was", "missing wait")
            self.number, self.missing, self.before = self.number + 1, self.arrivals, self.heard.copy()
