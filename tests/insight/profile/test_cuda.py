"""Profiles of launches on CUDA: with a driver, and a CUPTI, that only take notes; and on a GPU."""

import ctypes
import gc
import itertools

import numpy as np
import pytest

import tritium
from tests.backends.nvptx import fake_driver
from tests.backends.nvptx.kernels import Tensor, add
from tritium import knobs
from tritium.backends.driver import driver
from tritium.insight.profile import cupti
from tritium.insight.profile.cupti import CONCURRENT_KERNEL, CUSTOM2, EXTERNAL_CORRELATION, External, Kernel


class Sized(Tensor):
    shape = (64,)

    def stride(self):
        return (1,)


X, Y, Z = (Sized(4096 * (k + 1)) for k in range(3))


@pytest.fixture
def fake(monkeypatch):
    made, _ = fake_driver.install(monkeypatch)
    add.device_caches.clear()
    monkeypatch.setattr(cupti, "find", lambda: None)
    yield made
    gc.collect()  # events go while their driver is there
    driver.reset_active()
    fake_driver.clear()


def launch(times, **options):
    for _ in range(times):
        add[(2,)](X, Y, Z, 64, BLOCK=64, **options)


def test_events_surround_each_launch(fake):
    launch(1)
    with tritium.profile(limit=False) as p:
        launch(3)
    (row,) = p.rows
    assert row.count == row.timed == 3 and row.configuration.target == "cuda" and row.bytes == 3 * 256
    assert row.total_ns == 3_000_000, "handles of events count up, and the driver says they are so far apart"
    assert len(fake.launches) == 4 and p.facts.overheads[0].clock == "CUDA events"
    assert {launch.device for launch in p.facts.launches} == {"cuda"}


def test_events_are_used_again(fake, monkeypatch):
    from tritium.insight.profile.clocks import EventClock

    monkeypatch.setattr(EventClock, "FULL", 2)
    launch(1)
    with tritium.profile(limit=False) as p:
        launch(8)
    assert p.rows[0].timed == 8 and fake.calls.count("cuEventCreate") <= 6


def test_captured_launches_are_counted_not_timed(fake):
    launch(1)
    fake.captured = None  # the default stream, as ctypes hands it on
    with tritium.profile(limit=False) as p:
        launch(2)
    (row,) = p.rows
    assert row.count == 2 and row.timed == 0 and row.bytes_per_second is None
    assert "counted, not timed" in p.text() and "cuEventRecord" not in fake.calls
    assert p.html().count("<rect") == 0


# -- CUPTI -------------------------------------------------------------------------------------------------------------


class FakeCupti:
    """libcupti's functions: each launch between push and pop took `took` nanoseconds."""

    def __init__(self, cuda, took=400, silent=False):
        self.cuda, self.took, self.silent = cuda, took, silent
        self.enabled, self.stack, self.records, self.ids = set(), [], [], itertools.count(100)

    def cuptiGetTimestamp(self, out):
        out._obj.value = 5_000_000
        return 0

    def cuptiActivityRegisterCallbacks(self, request, complete):
        self.request, self.complete = request, complete
        return 0

    def cuptiActivityEnable(self, kind):
        self.enabled.add(kind)
        return 0

    def cuptiActivityDisable(self, kind):
        self.enabled.discard(kind)
        return 0

    def cuptiActivityPushExternalCorrelationId(self, kind, number):
        self.stack.append((kind, number.value, len(self.cuda.launches)))
        return 0

    def cuptiActivityPopExternalCorrelationId(self, kind, out):
        pushed, number, before = self.stack.pop()
        assert pushed == kind == CUSTOM2 and len(self.cuda.launches) == before + 1
        id_ = next(self.ids)
        if not self.silent:
            start = 6_000_000 + 1000 * id_
            self.records += [External(EXTERNAL_CORRELATION, kind, number, id_, 0),
                             Kernel(kind=CONCURRENT_KERNEL, start=start, end=start + self.took, correlation=id_)]
        return 0

    def cuptiActivityFlushAll(self, flag):
        buffer, size, count = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
        self.request(ctypes.pointer(buffer), ctypes.pointer(size), ctypes.pointer(count))
        self.read, self.at = list(self.records), 0
        self.records.clear()
        self.complete(None, 0, buffer.value, size.value, 1 if self.read else 0)
        return 0

    def cuptiActivityGetNextRecord(self, buffer, valid, out):
        if self.at == len(self.read):
            return 12
        out._obj.value = ctypes.addressof(self.read[self.at])
        self.at += 1
        return 0


def with_cupti(monkeypatch, library):
    monkeypatch.setattr(cupti, "opened", lambda: cupti.Cupti(library))


def test_cupti_takes_over_after_the_first_launch(fake, monkeypatch):
    library = FakeCupti(fake)
    with_cupti(monkeypatch, library)
    launch(1)
    with tritium.profile(limit=False) as p:
        assert library.enabled == set() and launch(3) is None
        assert library.enabled == set(cupti.KINDS)
    (row,) = p.rows
    assert row.timed == 3 and row.total_ns == 1200 and row.median_ns == 400
    assert p.facts.overheads[0].clock == "CUPTI" and p.facts.overheads[0].within_ns == 0
    starts = [launch.start_ns for launch in p.facts.launches]
    assert starts[1] - starts[0] == starts[2] - starts[1] == 1000
    assert fake.calls.count("cuEventRecord") == 3, "the base, and two around the first launch"
    assert library.enabled == set() and not library.stack


@pytest.mark.parametrize("how", [{"silent": True}, {"took": 10**9}])
def test_a_cupti_that_does_not_agree_with_events_is_left(fake, monkeypatch, how):
    library = FakeCupti(fake, **how)
    with_cupti(monkeypatch, library)
    launch(1)
    with tritium.profile(limit=False) as p:
        launch(3)
    (row,) = p.rows
    assert row.timed == 3 and row.total_ns == 3_000_000 and p.facts.overheads[0].clock == "CUDA events"
    assert library.enabled == set()


def test_events_may_be_asked_for(fake, monkeypatch):
    with_cupti(monkeypatch, FakeCupti(fake))
    launch(1)
    with tritium.profile(limit=False, clock="events") as p:
        launch(2)
    assert p.facts.overheads[0].clock == "CUDA events"


def test_where_cupti_is_looked_for(tmp_path):
    (tmp_path / "libcupti.so.13").write_text("")
    knobs.proton.cupti_lib_dir = str(tmp_path)
    assert cupti.find() == str(tmp_path / "libcupti.so.13")
    assert cupti.opened() is None, "a file that is no library"


# -- a GPU -------------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("clock", ["auto", "events"])
def test_on_a_gpu(clock):
    from tritium.runtime import memory

    n = 1 << 24
    x = memory.to_device(np.ones(n, np.float32))
    out = memory.empty(n, np.float32)
    add[(n // 1024,)](x, x, out, n, BLOCK=1024)
    with tritium.profile(clock=clock) as p:
        for _ in range(20):
            add[(n // 1024,)](x, x, out, n, BLOCK=1024)
    (row,) = p.rows
    assert row.timed == 20 and row.bytes == 8 * n and 20 < row.percent_of_limit < 200
    assert p.facts.overheads[0].clock in (("CUDA events",) if clock == "events" else ("CUPTI", "CUDA events"))
    assert all(launch.start_ns >= 0 for launch in p.facts.launches)
    assert out.numpy()[-1] == 2


@pytest.mark.gpu
def test_cupti_tells_the_times_of_a_gpu():
    """Where libcupti is installed it is used: events are for machines without it."""
    if cupti.find() is None:
        pytest.skip("libcupti is not installed on this machine")
    from tritium.runtime import memory

    x = memory.to_device(np.ones(1 << 20, np.float32))
    with tritium.profile(limit=False) as p:
        for _ in range(5):
            add[(1024,)](x, x, x, 1 << 20, BLOCK=1024)
    assert p.facts.overheads[0].clock == "CUPTI" and p.rows[0].timed == 5
