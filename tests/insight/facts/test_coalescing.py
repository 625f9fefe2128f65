"""Predicted requests and sectors against counts by hand, and against the emulator, which runs the lowered threads."""

import numpy as np
import pytest

from tests.insight import kernels as K
from tritium.insight import emulator
from tritium.insight.facts import coalescing
from tritium.insight.facts.accesses import observe
from tritium.insight.facts.coalescing import RequestMeter, requests, with_hints
from tritium.kernels.softmax import softmax_kernel
from tritium.kernels.transpose import transpose_kernel
from tritium.kernels.vector_add import add_kernel


def measured(launch, hints=False):
    meter = RequestMeter(launch)
    found = requests(launch, meter, observe(launch, meter).sites)
    return with_hints(launch, found, meter) if hints else found


def test_coalesced():
    n = 1 << 12
    load, *_ = measured(K.launched(add_kernel, (4,), K.floats(n), K.floats(n), K.floats(n), n, BLOCK=1024))
    assert (load.vector, load.requests, load.sectors_each, load.minimum_each, load.excess) == (4, 32, 16, 16, 1)
    assert load.how == "threads" and load.bytes_moved == 4 * n


def test_one_column_for_each_lane():
    load, store = measured(K.launched(K.columns, (2,), K.floats(256, 64), K.floats(256), 64, BLOCK=128))
    assert (load.vector, load.sectors_each, load.minimum_each, load.excess) == (1, 32, 4, 8)
    assert store.excess == 1


def test_a_view_that_starts_off_a_sector():
    """32 lanes of 4 bytes from byte 4 on: five sectors where four would do."""
    x = K.floats(1025)
    load, store = measured(K.launched(K.unmasked, (8,), x[1:], K.floats(1024), BLOCK=128))
    assert (load.vector, load.sectors_each, load.minimum_each) == (1, 5, 4) and store.excess == 1


def test_hints_that_made_it_so_and_would():
    n = 4096
    launch = K.launched(add_kernel, (4,), K.floats(n), K.floats(n), K.floats(n), n, BLOCK=1024)
    hints = {h.argument: (h.promised, h.without, h.width) for h in measured(launch, hints=True)[0].hints}
    assert hints == {"x_ptr": (True, 1, 4), "n": (True, 1, 4)}
    launch = K.launched(add_kernel, (4,), K.floats(n), K.floats(n), K.floats(n), n - 1, BLOCK=1024)
    hints = {h.argument: (h.promised, h.without, h.width) for h in measured(launch, hints=True)[2].hints}
    assert hints == {"n": (False, 1, 4)}


def test_promises_about_all_pointers_are_tried_together(monkeypatch):
    """A compilation for each of many pointers takes long: seconds of large kernels."""
    made, usual = [], coalescing.gpu_module
    monkeypatch.setattr(coalescing, "gpu_module", lambda *args: made.append(args) or usual(*args))
    n = 4096
    x = [K.floats(n + 1)[1:] for _ in range(2)]
    found = measured(K.launched(add_kernel, (4,), *x, K.floats(n), n, BLOCK=1024), hints=True)
    assert len(made) == 3  # those that are a multiple of 16, those that are not, and n
    hints = [[(h.argument, h.promised, h.without, h.width) for h in r.hints if h.argument != "n"] for r in found]
    assert hints == [[("x_ptr", False, 1, 4)], [("y_ptr", False, 1, 4)], [("z_ptr", True, 1, 4)]]


def test_an_access_is_measured_once_for_each_place_in_a_line(monkeypatch):
    """The rows of a loop start at the same place in lines of L1, and are not counted request by request again."""
    made, usual = [], coalescing._requests
    monkeypatch.setattr(coalescing, "_requests", lambda *args: made.append(args) or usual(*args))
    load, _ = measured(K.launched(K.row_sums, (2,), K.floats(2, 4096), K.floats(2), 4096, 4096, BLOCK=128))
    assert load.requests == 2 * 4096 / 32 and load.excess == 1 and len(made) == 1


def test_cp_async_and_tma():
    args = (*(K.floats(128, 128, dtype=np.float16),) * 2, K.floats(128, 128), 128, 128, 128, 128)
    meta = dict(M=128, N=128, BK=64)
    on_ampere = measured(K.launched(K.product, (1, 1), *args, **meta))
    on_hopper = measured(K.launched(K.product, (1, 1), *args, **meta, target="cuda:90a"))
    assert [r.how for r in on_ampere] == ["cp.async", "cp.async", "threads"]
    assert [r.how for r in on_hopper] == ["TMA", "TMA", "TMA"]
    assert [r.sectors for r in on_ampere] == [r.sectors for r in on_hopper] == [1024, 1024, 2048]


class Counting(emulator.Memory):
    """The emulator's memory, which counts the requests and sectors of warps."""

    def __init__(self, args):
        super().__init__(args)
        self.counts = {"load": [0, 0], "store": [0, 0]}

    def note(self, kind, address, size, threads):
        if threads is None:
            return
        for warp in np.unique(threads // 32):
            mine = address[threads // 32 == warp].astype(np.int64)
            self.counts[kind][0] += 1
            self.counts[kind][1] += len(np.unique(np.r_[mine // 32, (mine + size - 1) // 32]))

    def load(self, address, size, threads, *how, **more):
        self.note("load", address, size, threads)
        return super().load(address, size, threads, *how, **more)

    def store(self, address, data, threads, *how, **more):
        self.note("store", address, data.shape[1], threads)
        super().store(address, data, threads, *how, **more)


def emulated(launch):
    """Requests and sectors of loads and stores, as the threads of the lowered kernel make them."""
    memory = Counting([x for _, x in launch.slots])
    m = launch.metadata
    emulator.execute(launch.stages["llir"], memory, launch.grid, 32 * launch.num_warps, m["shared"],
                     blocks=m["num_ctas"])
    return memory.counts


def rows(n, stride):
    return np.ascontiguousarray(K.floats(n, stride))


CASES = {
    "add": lambda: K.launched(add_kernel, (3,), *(K.floats(2100) for _ in range(3)), 2100, BLOCK=1024),
    "add, few lanes": lambda: K.launched(add_kernel, (3,), *(K.floats(96) for _ in range(3)), 90, BLOCK=32),
    "add of f16": lambda: K.launched(add_kernel, (2,), *(K.floats(2048, dtype=np.float16) for _ in range(3)), 2048,
                                     BLOCK=1024, num_warps=2),
    "columns": lambda: K.launched(K.columns, (2,), rows(256, 24), K.floats(256), 24, BLOCK=128),
    "softmax": lambda: K.launched(softmax_kernel, (4,), rows(4, 781), rows(4, 781), 781, 781, 781, BLOCK=1024),
    "softmax in clusters": lambda: K.launched(softmax_kernel, (2,), rows(2, 1021), rows(2, 1021), 1021, 1021, 1021,
                                              BLOCK=1024, num_ctas=2, target="cuda:90a"),
    "shifted": lambda: K.launched(K.shifted, (3,), K.floats(700), K.floats(700), 700, BLOCK=256),
    "sums": lambda: K.launched(K.row_sums, (3,), rows(3, 300), K.floats(3), 300, 300, BLOCK=128),
    "transpose": lambda: K.launched(transpose_kernel, (2, 2), rows(100, 96), rows(96, 100), 100, 96, 96, 1, 100, 1,
                                    BLOCK_M=64, BLOCK_N=64),
    "gather": lambda: K.launched(K.gather, (2,), K.floats(512),
                                 (np.arange(256) * 37 % 512).astype(np.int32), K.floats(256), 256, BLOCK=128),
    "product": lambda: K.launched(K.product, (1, 2), rows(64, 64).astype(np.float16), rows(64, 128).astype(np.float16),
                                  K.floats(64, 128), 64, 64, 128, 128, M=64, N=64, BK=32),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_sectors_are_those_of_the_lowered_threads(name):
    launch = CASES[name]()
    found, counted = measured(launch), emulated(launch)
    for kind in ("load", "store"):
        mine = [r for r in found if r.kind == kind]
        assert (sum(r.requests for r in mine), sum(r.sectors for r in mine)) == tuple(counted[kind]), kind
