"""Predicted passes through shared memory against counts by hand, and against those of the emulator's threads."""

import numpy as np
import pytest

from tests.insight import kernels as K
from tritium.backends.nvptx.runtime.tensor_map import Template
from tritium.insight import emulator
from tritium.insight.emulator.machine import Machine
from tritium.insight.emulator.shared import Shared
from tritium.insight.emulator.tma import tensor_of
from tritium.insight.facts.accesses import observe
from tritium.insight.facts.roofline import FlopMeter
from tritium.insight.facts.shared_memory import shared_accesses
from tritium.kernels.softmax import softmax_kernel
from tritium.kernels.transpose import transpose_kernel


def test_bank_conflicts():
    """A transposed tile of f32 is written with two-way conflicts; a product's swizzled buffers have none."""
    a = K.floats(64, 64)
    launch = K.launched(transpose_kernel, (1, 1), a, a.copy(), 64, 64, 64, 1, 64, 1, BLOCK_M=64, BLOCK_N=64)
    found = shared_accesses(launch)
    assert [(s.side, s.conflicts, s.bytes) for s in found] == [("write", 2, 16384), ("read", 1, 16384)]
    b = K.floats(64, 64, dtype=np.float16)
    launch = K.launched(K.product, (1, 1), b, b, K.floats(64, 64), 64, 64, 64, 64, M=64, N=64, BK=32)
    assert {s.conflicts for s in shared_accesses(launch) if s.op == "multibuffer"} == {1.0}


def test_a_reduction_across_warps():
    """Four warps leave a sum each; all lanes read the four of them at once, in two passes of half a warp."""
    launch = K.launched(K.row_sums, (3,), K.floats(3, 300), K.floats(3), 300, 300, BLOCK=128)
    assert [(s.op, s.side, s.passes, s.minimum) for s in predicted(launch)] == [
        ("reduction", "write", 4, 4), ("reduction", "read", 8, 8)]  # fmt: skip
    assert {s.times for s in predicted(launch)} == {3.0}


def test_addresses_that_depend_on_data_count_as_free_of_conflicts():
    from tritium.kernels.histogram import digit_histogram_kernel

    keys, counts = np.arange(1024, dtype=np.int32), np.zeros(256, np.int32)
    launch = K.launched(digit_histogram_kernel, (1,), keys, counts, 1024, 0, BITS=8, BLOCK=1024)
    atomics = [s for s in shared_accesses(launch) if s.side == "atomic"]
    assert [(s.op, s.passes, s.minimum) for s in atomics] == [("histogram", 32, 32)]


def predicted(launch):
    flops = FlopMeter(launch)
    observe(launch, None, flops)
    return shared_accesses(launch, flops.executed)


class Counting(Shared):
    """The emulator's shared memory, which counts bank passes."""

    def __init__(self, counts, *args):
        super().__init__(*args)
        self.counts = counts

    def note(self, side, address, size, threads):
        """Add the passes of warps. A part of a warp that asks for 128 bytes at most is served at once, or twice as
        many lanes if those that read have their addresses in pairs."""
        for warp in np.unique(threads // 32):
            mine = threads // 32 == warp
            at, lane = np.full(32, -1), threads[mine] % 32
            at[lane] = address[mine].astype(np.int64)
            lanes = 32 * 4 // max(size, 4)
            there = at >= 0
            for other in (np.arange(32) ^ 1, np.arange(32) ^ 2):
                if side == "read" and size > 4 and np.all((at == at[other])[there & there[other]]):
                    lanes = 2 * 32 * 4 // size
                    break
            for first in range(0, 32, lanes):
                part = at[first : first + lanes]
                words = np.unique(part[part >= 0] // 4)
                self.counts[side] += int(np.bincount(words % 32).max()) if len(words) else 0

    def load(self, address, size, threads, align=None):
        self.note("read", address, size, threads)
        return super().load(address, size, threads, align)

    def store(self, address, data, threads, align=None):
        self.note("write", address, data.shape[1], threads)
        super().store(address, data, threads, align)


def emulated(launch):
    """Bank passes of all programs, as the threads of the lowered kernel make them."""
    counts = {"read": 0, "write": 0}

    class Watched(Machine):
        def make_shared(self):
            return Counting(counts, self.shared_bytes, self.members // 32, self.blocks, self.log)

    memory, grid, m = emulator.Memory([x for _, x in launch.slots]), launch.grid, launch.metadata
    maps = [tensor_of(Template(*template), memory.arguments, launch.grid) for template in m["tensor_maps"]]
    if m["persistent"]:
        memory.arguments += grid
        grid = 1, 1, 1
    threads = 32 * (launch.num_warps + m["producer_warps"])
    emulator.execute(launch.stages["llir"], memory, grid, threads, m["shared"], maps, m["num_ctas"], Watched)
    return counts


def halves(*shape):
    return K.floats(*shape, dtype=np.float16)


CASES = {
    "transpose": lambda: K.launched(transpose_kernel, (2, 2), K.floats(100, 96), K.floats(96, 100), 100, 96, 96, 1, 100,
                                    1, BLOCK_M=64, BLOCK_N=64),
    "softmax": lambda: K.launched(softmax_kernel, (2,), K.floats(2, 2048), K.floats(2, 2048), 2048, 2048, 2048,
                                  BLOCK=2048, num_warps=8),
    "column sums": lambda: K.launched(K.column_sums, (1,), K.floats(128, 64), K.floats(64), 128, N=64, M=32),
    "scan": lambda: K.launched(K.running_sums, (2,), K.floats(1024), K.floats(1024), BLOCK=512),
    "scan in segments": lambda: K.launched(K.running_sums, (1,), K.floats(16384), K.floats(16384), BLOCK=16384),
    "sort": lambda: K.launched(K.in_order, (1,), K.floats(256), K.floats(256), BLOCK=256),
    "sort in loops": lambda: K.launched(K.in_order, (1,), K.floats(4096), K.floats(4096), BLOCK=4096),
    "exact product": lambda: K.launched(K.exact_product, (1,), K.floats(32, 64), K.floats(64, 32), K.floats(32, 32),
                                        M=32, N=32, K=64),
    "product": lambda: K.launched(K.product, (1, 2), halves(64, 96), halves(96, 128), K.floats(64, 128), 96, 96, 128,
                                  128, M=64, N=64, BK=32),
    "product by wgmma": lambda: K.launched(K.product, (1, 1), halves(64, 128), halves(128, 64), halves(64, 64), 128,
                                           128, 64, 64, M=64, N=64, BK=64, target="cuda:90a"),
    "product of tf32": lambda: K.launched(K.product, (1, 1), K.floats(64, 64), K.floats(64, 64), K.floats(64, 64), 64,
                                          64, 64, 64, M=64, N=64, BK=32, target="cuda:90a"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_passes_are_those_of_the_lowered_threads(name):
    launch = CASES[name]()
    found, counted = predicted(launch), emulated(launch)
    assert {side: sum(s.total for s in found if s.side == side) for side in counted} == counted
    assert any(counted.values())


def test_blocks_of_a_cluster_read_the_memory_of_each():
    """Both blocks of a cluster reduce; then each reads both sums, but only one of the two in its own memory."""
    x = K.floats(1, 4096)
    launch = K.launched(softmax_kernel, (1,), x, x.copy(), 4096, 4096, 4096, BLOCK=4096, num_ctas=2, target="cuda:90a")
    first = predicted(launch)[:3]
    assert [(s.side, s.passes, s.times) for s in first] == [("write", 8, 2.0), ("read", 8, 2.0), ("read", 8, 1.0)]
