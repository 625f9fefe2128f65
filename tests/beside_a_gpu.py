"""A machine with a GPU, on paper: for what tools say of both of its devices."""

from tritium.backends.compiler import GPUTarget
from tritium.backends.driver import Drivers


class Driver:
    """A driver of an H100 that launches nothing."""

    emulates = False

    class utils:
        @staticmethod
        def get_device_properties(device):
            return {"multiprocessor_count": 132}

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0


def install(monkeypatch):
    """Have the process believe it, for one test. Launches on arrays of the host go to the CPU, as they would there."""
    found = Driver()
    monkeypatch.setattr(Drivers, "default", property(lambda self: found))
