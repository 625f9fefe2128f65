"""The interpreter for a look at addresses: no output, no assertions, no values that nothing depends on, and no stores
to memory that is not a copy."""

from __future__ import annotations

import numpy as np

from tritium.interp.machine import Machine
from tritium.ir import types as T
from tritium.ops.meaning import np_dtype


class QuietMachine(Machine):
    """A machine that prints nothing, lets assertions fail, and gives zeros for the ops that are `skipped`. Only the
    `spans` of memory, (start, bytes), are written."""

    def __init__(self, skipped: set[int], spans: list[tuple[int, int]], *args):
        super().__init__(*args)
        self.skipped, self.spans = skipped, spans
        self.blank: dict[int, tuple] = {}

    def execute(self, op, inputs):
        """As a machine does; an op whose values do not matter gives zeros."""
        if id(op) not in self.skipped:
            return super().execute(op, inputs)
        for observer in self.observers:
            observer.before(self, op, inputs)
        if id(op) not in self.blank:
            self.blank[id(op)] = tuple(np.zeros(T.shape(t), np_dtype(T.element(t))) for t in op.types)
        for observer in self.observers:
            observer.after(self, op, inputs, self.blank[id(op)])
        return self.blank[id(op)]

    def store(self, op, p, value, mask):
        """As a machine does, into the copies: what a pointer from elsewhere leads to is the user's."""
        super().store(op, p, value, self._own(p, mask))

    def atomic(self, op, p, value, mask):
        """As a machine does in the copies; elsewhere memory is only read."""
        own = self._own(p, mask)
        if own is mask:
            return super().atomic(op, p, value, mask)
        others = ~own if mask is None else mask & ~own
        return np.where(own, super().atomic(op, p, value, own), self.load(op, p, others, None))

    def atomic_cas(self, op, p, expected, value):
        """As a machine does in the copies; elsewhere memory is only read."""
        if self._own(p, None) is None:
            return super().atomic_cas(op, p, expected, value)
        return self.load(op, p, None, None)

    def _own(self, p, mask):
        """The mask without lanes that lead elsewhere; the mask itself if none does."""
        inside = np.zeros(np.shape(p), bool)
        for start, size in self.spans:
            inside |= (p >= np.uint64(start)) & (p < np.uint64(start + size))
        if inside.all() or mask is not None and not (mask & ~inside).any():
            return mask
        return inside if mask is None else mask & inside

    def print(self, op, values):
        """Nothing."""

    def assert_failed(self, op, failed):
        """Nothing."""

    def check_assumption(self, op, cond):
        """Nothing."""
