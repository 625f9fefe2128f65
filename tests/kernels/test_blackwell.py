"""The collection's products assemble for Blackwell: each kernel for one of its architectures."""

import pytest

from tests.backends.gpu.test_tensor_memory import assembles_for
from tritium.backends.driver import driver
from tritium.insight.emulator.driver import EmulatedDriver
from tritium.kernels.registry import find, kernels

ARCHITECTURES = (100, 103, 120)


def products():
    """Records of matrix products, or that contain some, with kernels of their own. Tuning would compile many."""
    found = {}
    for name, record in kernels().items():
        if record.bound == "compute" and record.jit and "tuned" not in name and name != "gemm_v4":
            found.setdefault(record.jit, name)
    return list(found.values())


class NoLauncher:
    """Launches nothing."""

    def __init__(self, *_):
        pass

    def __call__(self, *_):
        pass


class Assembler(EmulatedDriver):
    """Kernels are compiled to machine code, and not run."""

    emulates, launcher_cls = False, NoLauncher

    def __init__(self, arch):
        super().__init__(f"cuda:{arch}a")
        self.made = []
        self.utils.load_binary = self._load

    def _load(self, name, binary, shared, device):
        self.made.append(bytes(binary[:4]))
        return None, b"", 0, 0, 1024


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arch"), [(name, ARCHITECTURES[k % 3]) for k, name in enumerate(products())])
def test_products_assemble(name, arch):
    if not assembles_for(arch):
        pytest.skip(f"no ptxas that knows sm_{arch}a")
    record, device, before = find(name), Assembler(arch), driver.chosen
    arguments = record.make_arguments(128, record.dtypes[0], "numpy")
    driver.set_active(device)
    try:
        record.wrapper(*arguments)
    finally:
        driver.reset_active() if before is None else driver.set_active(before)
    assert device.made and set(device.made) == {b"\x7fELF"}
