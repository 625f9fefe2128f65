"""Arrays of other libraries as arguments, by a driver that only takes notes: CuPy's protocol and DLPack (S07)."""

import gc

import numpy as np

from tests.backends.nvptx import fake_driver
from tests.backends.nvptx.kernels import add
from tritium.backends.driver import driver
from tritium.backends.gpu_runtime import memory


def test_arrays_are_shared_by_protocol(fake):
    x = memory.empty((2, 3), np.int32)
    found = x.__cuda_array_interface__
    assert found["shape"] == (2, 3) and found["typestr"] == "<i4" and found["data"] == (x.data_ptr(), False)
    assert not hasattr(memory.empty(2, "bf16"), "__cuda_array_interface__")


class Foreign:
    """An array of another library, CuPy's for one: all it shows of its memory is the protocol."""

    def __init__(self, buffer):
        self.buffer = buffer

    @property
    def __cuda_array_interface__(self):
        return self.buffer.__cuda_array_interface__


def test_arrays_of_other_libraries_are_arguments(fake):
    xs = [memory.empty(64, np.float32) for _ in range(3)]
    for _ in range(2):
        kernel = add[(1,)](*map(Foreign, xs), 64, BLOCK=64)
    assert kernel.src.signature["x_ptr"] == "*fp32"
    assert [noted["slots"][:3] for noted in fake.launches] == [[x.data_ptr() for x in xs]] * 2


class OnStream(Foreign):
    """One that is still being written in a stream of its library."""

    stream: int | None = None

    @property
    def __cuda_array_interface__(self):
        return {**super().__cuda_array_interface__, "stream": self.stream}


def test_streams_of_other_libraries_are_waited_for(fake):
    x, y, z = (OnStream(memory.empty(64, np.float32)) for _ in range(3))
    x.stream, y.stream = 77, 1  # 1 is the default stream, where the launch goes
    add[(1,)](x, y, z, 64, BLOCK=64)
    assert fake.records == [77] and fake.waits == [0] and fake.launches[-1]["stream"] == 0
    with memory.Stream() as mine:
        add[(1,)](x, y, z, 64, BLOCK=64)
        assert fake.records == [77, 77, 1] and fake.waits == [0, mine.handle, mine.handle]
        fake.captured = mine.handle  # what is captured cannot wait for work that is not
        add[(1,)](x, y, z, 64, BLOCK=64)
    assert len(fake.records) == 3 and len(fake.launches) == 3
    assert fake.calls.count("cuEventCreate") == fake.calls.count("cuEventDestroy_v2")


class Exchanged:
    """An array that can only be had through DLPack, on a GPU: its library is told which stream will use it."""

    def __init__(self, host):
        self.host, self.told = host, []

    def __dlpack__(self, *, stream=None):
        self.told.append(stream)
        return self.host.__dlpack__()

    def __dlpack_device__(self):
        return 2, 0


def test_dlpack_is_told_the_stream(fake):
    xs = [Exchanged(np.zeros(64, np.float32)) for _ in range(3)]
    add[(1,)](*xs, 64, BLOCK=64)
    assert fake.launches[-1]["slots"][:3] == [x.host.ctypes.data for x in xs]
    assert set(xs[0].told) == {-1, 1}  # to look at it, and to use it in the default stream
    with memory.Stream() as mine:
        add[(1,)](*xs, 64, BLOCK=64)
    assert [x.told.count(mine.handle) for x in xs] == [1, 1, 1]


def test_arrays_of_other_libraries_are_found_on_their_device(monkeypatch):
    fake, drv = fake_driver.install(monkeypatch, devices=2)
    add.device_caches.clear()
    try:
        for device in (0, 1, 0):
            xs = [Foreign(memory.empty(64, np.float32, device=device)) for _ in range(3)]
            add[(1,)](*xs, 64, BLOCK=64)
        assert [noted["context"] for noted in fake.launches] == [1000, 1001, 1000]
        assert drv.get_current_device() == 0
        del xs
        gc.collect()
    finally:
        driver.reset_active()
        fake_driver.clear()
