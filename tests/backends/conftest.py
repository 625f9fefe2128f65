"""A CUDA driver for machines without one."""

import gc

import pytest

from tests.backends import fake_cuda
from tests.backends.cuda_kernels import add, scalars, tiles
from tritium.backends.driver import driver


@pytest.fixture
def fake(monkeypatch):
    made, _ = fake_cuda.install(monkeypatch)
    for kernel in (add, scalars, tiles):
        kernel.device_caches.clear()
    yield made
    gc.collect()  # buffers go while their driver is there
    driver.reset_active()
    fake_cuda.clear()
