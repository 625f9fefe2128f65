"""A HIP runtime for machines without one."""

import pytest

from tests.backends.hip import fake_hip
from tests.backends.nvptx.kernels import add, scalars
from tritium.backends.driver import driver


@pytest.fixture
def fake(monkeypatch):
    made, _ = fake_hip.install(monkeypatch)
    for kernel in (add, scalars):
        kernel.device_caches.clear()
    yield made
    for kernel in (add, scalars):
        kernel.device_caches.clear()
    driver.reset_active()
    fake_hip.clear()
