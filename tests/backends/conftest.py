"""The CPU runtime, and a CUDA driver for machines without one."""

import gc

import pytest

from tests.backends.nvptx import fake_driver
from tests.backends.nvptx.kernels import add, scalars, tiles
from tritium.backends.cpu.runtime.image import Runtime
from tritium.backends.driver import driver


@pytest.fixture
def rt():
    """The runtime; a test may change the number of threads."""
    it = Runtime.get()
    before = it.num_threads
    yield it
    it.set_num_threads(before)


@pytest.fixture
def fake(monkeypatch):
    made, _ = fake_driver.install(monkeypatch)
    for kernel in (add, scalars, tiles):
        kernel.device_caches.clear()
    yield made
    gc.collect()  # buffers go while their driver is there
    driver.reset_active()
    fake_driver.clear()
