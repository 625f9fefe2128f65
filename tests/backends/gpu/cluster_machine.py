"""Runs what `split_clusters` makes on the interpreter: one machine for each block, on one memory.

Blocks alternate: each runs until it must meet the others. So an order can be chosen, and what a block reads too early
or too late, for want of a meeting, is read so in one of two orders.
"""

import threading

import numpy as np

from tritium.backends.gpu.cluster.split import split_clusters
from tritium.backends.gpu.rewrite.simplify_induction import simplify_induction
from tritium.backends.nvptx.isa.target import NvTarget
from tritium.interp.machine import Machine, programs
from tritium.interp.memory import Memory
from tritium.ir.verify import verify


def interpret_in_blocks(module, args, grid=(1,), *, blocks=2, backwards=False):
    """Run every program of a launch on a cluster of so many blocks."""
    module = module.replace(attrs={**module.attrs, "num_ctas": blocks})
    module = verify(split_clusters(simplify_induction(module), NvTarget.of(90)))
    memory = Memory(True)
    first = Machine(memory, grid)
    values = [first.argument(arg.type, value, arg.name) for arg, value in zip(module.args, args, strict=True)]
    for pid in programs(first.grid):
        cluster = Cluster(blocks, backwards)
        cluster.run(module, memory, grid, values, pid)


class Cluster:
    """Blocks that alternate."""

    def __init__(self, blocks, backwards):
        self.order = list(range(blocks))[:: -1 if backwards else 1]
        self.changed, self.turn, self.error = threading.Condition(), 0, None
        self.left = {}  # block -> what it shows the others
        self.meetings = dict.fromkeys(self.order, 0)

    def run(self, module, memory, grid, values, pid):
        threads = [threading.Thread(target=self._block, args=(k, module, memory, grid, values, pid))
                   for k in self.order]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.error is not None:
            raise self.error
        assert len(set(self.meetings.values())) == 1, f"the blocks met {self.meetings} times"

    def _block(self, rank, module, memory, grid, values, pid):
        machine = Block(self, rank, memory, grid)
        self.wait(rank)
        try:
            machine.run_kernel(module, values, pid)
        except BaseException as error:
            self.error = self.error or error
        self.pass_on()

    def wait(self, rank):
        with self.changed:
            self.changed.wait_for(lambda: self.order[self.turn] == rank)
        if self.error is not None:
            raise Stopped

    def pass_on(self):
        with self.changed:
            self.turn = (self.turn + 1) % len(self.order)
            self.changed.notify_all()

    def meet(self, rank):
        self.meetings[rank] += 1
        self.pass_on()
        self.wait(rank)


class Stopped(Exception):
    """Another block has failed."""


class Block(Machine):
    """One block of a cluster."""

    def __init__(self, cluster, rank, memory, grid):
        super().__init__(memory, grid)
        self.cluster, self.rank = cluster, rank

    def block_rank(self):
        return np.array(self.rank, np.int32)

    def cluster_barrier(self):
        self.cluster.meet(self.rank)

    def cluster_all_gather(self, values, blocks):
        self.cluster.left[self.rank] = values
        self.cluster_barrier()
        found = tuple(np.stack([np.asarray(self.cluster.left[k][n]) for k in blocks]) for n in range(len(values)))
        self.cluster_barrier()
        return found
